//! Tests of cards on an SPI bus, with bytes written from the standard.

mod faults;
mod interrupted;
pub(super) mod master;
mod modes;
mod reads;
mod writes;
