//! The queue engine with a real card, by registers and descriptors.

mod control;
mod errors;
mod faults;
mod rig;
mod tasks;
