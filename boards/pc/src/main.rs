//! Judges the stack with a controller and a card that others wrote: QEMU's `sdhci-pci` and its SD
//! card, on the machine q35.
//!
//! The card is brought up, written and read by mmcq as any firmware would, by DMA, driven by
//! nothing but interrupts: the controller's, and the alarm that the engine asks for. Then it is
//! counted how many instructions a request takes. `tools/boards.sh` builds and runs this, and looks
//! at the card's image afterwards. What is not of this machine is in `plan`, and in `plan/sdhci`,
//! which boards/virt has too.
//!
//! With a command line it does what that says instead (`plan/sdhci/whole.rs`), for the exchange
//! with Linux (`tools/linux.sh`).
#![no_std]
#![no_main]

mod board;
#[cfg_attr(feature = "queue", path = "../../plan/sdhci/queued.rs")]
#[cfg_attr(not(feature = "queue"), path = "../../plan/sdhci/single.rs")]
mod lane;
#[path = "../../plan/mod.rs"]
mod plan;
#[path = "../../plan/sdhci/mod.rs"]
mod sdhci;
mod start;

use plan::firmware::{Source, serve};
pub use sdhci::Stack;

/// The interrupt of the controller.
#[unsafe(no_mangle)]
extern "C" fn card_interrupt() {
    serve(Source::Card);
    board::served();
}

/// The interrupt of the alarm.
#[unsafe(no_mangle)]
extern "C" fn alarm_interrupt() {
    serve(Source::Alarm);
    board::served();
}

/// Nothing that we have asked for; nothing to end at the APIC.
#[unsafe(no_mangle)]
extern "C" fn other_interrupt() {}
