//! The simulated world: virtual time, controller models at register level, cards, wires, flash,
//! memory, CPU.
//!
//! Models behave like real hardware: a driver cannot see a difference. Everything is
//! single-threaded and deterministic: the same seed gives the same trace.

#![deny(unsafe_code)]

mod alarms;
pub mod bench;
pub mod card;
pub mod cards;
pub mod charged;
pub mod checker;
pub mod cpu;
pub mod faults;
mod lines;
pub mod memory;
pub mod mshc;
pub mod parallel;
pub mod pl022;
pub mod plant;
pub mod port;
pub mod probe;
pub mod rtsx;
pub mod s3c_sdi;
pub mod schedule;
pub mod sdhci;
pub mod sequence;
pub mod slot;
pub mod spi;
pub mod stats;
pub mod stm32_sdmmc;
pub mod time;
pub mod wire;
pub mod world;

#[cfg(test)]
mod fuzz;
