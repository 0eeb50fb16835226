//! Cards on an SPI bus, by bytes that are written from the standard.

mod faults;
mod interrupted;
pub(super) mod master;
mod modes;
mod reads;
mod writes;
