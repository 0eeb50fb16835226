//! Tests of the command queue engine with a card model. They use only registers and descriptors.

mod control;
mod errors;
mod faults;
mod rig;
mod tasks;
