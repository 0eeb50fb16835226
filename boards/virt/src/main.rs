//! Judges the stack with a controller and a card that others wrote: QEMU's `sdhci-pci` and its SD
//! card, on its machine `virt` with a 64-bit Arm core.
//!
//! The card is brought up, written and read by mmcq as any firmware would, by DMA, driven by
//! nothing but interrupts: the controller's, and the alarm that the engine asks for. Then it is
//! counted how many instructions a request takes. `tools/boards.sh` builds and runs this, and looks
//! at the card's image afterwards. What is not of this machine is in `plan`, and in `plan/sdhci`,
//! which boards/pc has too.
#![no_std]
#![no_main]

#[path = "../../plan/arm.rs"]
mod arm;
#[path = "../../plan/armv8.rs"]
mod armv8;
mod board;
#[path = "../../plan/gic.rs"]
mod gic;
#[path = "../../plan/sdhci/single.rs"]
mod lane;
#[path = "../../plan/pl011.rs"]
mod pl011;
#[path = "../../plan/mod.rs"]
mod plan;
#[path = "../../plan/sdhci/mod.rs"]
mod sdhci;
mod start;

pub use sdhci::Stack;
