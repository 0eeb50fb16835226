//! The model by registers only: against a scripted card, and against the card model.

mod bringup;
mod errors;
mod lists;
mod random;
mod rig;
mod transfers;
