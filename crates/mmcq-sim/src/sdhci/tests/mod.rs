//! The model against scripted cards, by registers only.

mod rig;
mod transfers;
