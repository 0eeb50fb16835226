//! What bring-up owes to the standards: voltages, tuning, currents, widths, sizes, locks. Each on a
//! card and a controller that keep to them.

#![allow(clippy::duplicate_mod, reason = "either machine has a clock of its own")]

#[path = "../machine/mod.rs"]
mod machine;

#[path = "../rig/mod.rs"]
mod rig;
#[path = "../timed/mod.rs"]
mod timed;

mod current;
mod heard;
mod lines;
mod locked;
mod power_class;
mod sdr50;
mod sduc;
mod strength;
mod unequipped;
mod vccq;
mod voltage;
