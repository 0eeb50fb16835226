//! The simulated world in virtual time: controllers register by register, cards, the bus, flash,
//! memory, CPU.
//!
//! Models behave like real hardware, so that a driver works with them unchanged. Everything is
//! single-threaded and deterministic: the same seed gives the same trace.
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself.
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings it to embassy,
//! [`mmcq-c`](https://docs.rs/mmcq-c) to C, and [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI
//! card reader under Linux. [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power
//! cuts on the models. [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which
//! measures on the models.

#![deny(unsafe_code)]

mod alarms;
pub mod bench;
pub mod card;
pub mod cards;
pub mod charged;
pub mod checker;
pub mod cpu;
pub mod document;
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
