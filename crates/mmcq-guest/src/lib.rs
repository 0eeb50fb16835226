//! A model of a controller with a card in its slot, for a C program that has its own clock and
//! memory. The controller is an SDHCI, Synopsys' DesignWare MSHC or Realtek's card reader.
//!
//! `include/mmcq_sim.h` is the interface for C, with its contract. `tools/guest-time/` is one such
//! program: it puts the model into QEMU, and advances it by the guest's time. So an unmodified
//! Linux drives the simulator's controllers and cards in virtual time.
#![deny(unsafe_code)]
// The names and types are those of the C header.
#![allow(non_camel_case_types)]

mod api;
mod model;

pub use api::{
    mmcq_sim, mmcq_sim_advance, mmcq_sim_begin, mmcq_sim_commands, mmcq_sim_dma, mmcq_sim_free,
    mmcq_sim_happen, mmcq_sim_interrupt, mmcq_sim_new, mmcq_sim_next_event, mmcq_sim_read, mmcq_sim_schedule,
    mmcq_sim_violations, mmcq_sim_write,
};
