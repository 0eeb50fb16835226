//! The command queue engine with a real card model, by registers and descriptors.

mod control;
mod errors;
mod faults;
mod rig;
mod tasks;
