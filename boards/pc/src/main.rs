//! Tests the stack with a controller and a card by other authors: QEMU's `sdhci-pci` and its SD
//! card, on the machine q35.
//!
//! mmcq brings the card up, writes and reads it as in any firmware, with DMA. Only interrupts drive
//! it: the controller's, and the alarm that the engine sets. Then the image counts how many
//! instructions a request takes. `tools/boards.sh` builds and starts this image, and checks the
//! card's content afterwards. Code for all machines is in `plan`, and code that boards/virt also
//! uses is in `plan/sdhci`.
//!
//! With a command line, the image does what the command line says instead (`plan/sdhci/whole.rs`),
//! for the exchange of cards with Linux (`tools/linux.sh`).
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

/// Interrupt handler of the controller.
#[unsafe(no_mangle)]
extern "C" fn card_interrupt() {
    serve(Source::Card);
    board::served();
}

/// Interrupt handler of the alarm.
#[unsafe(no_mangle)]
extern "C" fn alarm_interrupt() {
    serve(Source::Alarm);
    board::served();
}

/// Interrupt handler for interrupts that the image did not enable; nothing has to be signalled to
/// the APIC.
#[unsafe(no_mangle)]
extern "C" fn other_interrupt() {}
