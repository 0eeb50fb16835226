//! Tests of what the standards require of bring-up: voltages, tuning, currents, widths, sizes,
//! locks, each on a card and a controller that follow the standards.

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
