//! Tests of the SDHCI model with scripted cards. They use only registers.

mod adma3;
mod bus;
mod errors;
mod faults;
mod interrupts;
mod random;
pub(crate) mod rig;
mod thousands;
mod transfers;
