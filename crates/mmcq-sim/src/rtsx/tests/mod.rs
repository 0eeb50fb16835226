//! Tests of the model of the card reader with a scripted card and with the card model. They use
//! only registers.

mod bringup;
mod errors;
mod lists;
mod random;
mod rig;
mod transfers;
