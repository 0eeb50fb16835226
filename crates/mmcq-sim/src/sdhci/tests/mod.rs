//! The model against scripted cards, by registers only.

mod adma3;
mod bus;
mod errors;
mod faults;
mod interrupts;
mod random;
pub(crate) mod rig;
mod thousands;
mod transfers;
