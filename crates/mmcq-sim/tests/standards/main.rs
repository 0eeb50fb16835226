//! What bring-up owes to the standards: voltages, tuning, currents, widths, sizes, locks. Each on a card and a controller that keep to them.

#[path = "../machine/mod.rs"]
mod machine;

mod current;
mod heard;
mod sdr50;
mod vccq;
mod voltage;
