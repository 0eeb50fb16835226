//! Judges the stack with a controller and a card that others wrote: QEMU's `sdhci-pci` and its SD
//! card, on its machines `virt`, with a 64-bit core of Arm's or of RISC-V.
//!
//! The card is brought up, written and read by mmcq as any firmware would, by DMA, driven by
//! nothing but interrupts: the controller's, and the alarm that the engine asks for. Then it is
//! counted how many instructions a request takes. `tools/boards.sh` builds and runs this, and looks
//! at the card's image afterwards. What is not of this machine is in `plan`, and in `plan/sdhci`,
//! which boards/pc has too.
#![no_std]
#![no_main]

#[cfg(target_arch = "aarch64")]
#[path = "../../plan/arm.rs"]
mod arm;
#[cfg(target_arch = "aarch64")]
#[path = "../../plan/armv8.rs"]
mod armv8;
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod board;
#[cfg(target_arch = "riscv64")]
#[path = "../../plan/riscv.rs"]
mod cpu;
#[cfg(target_arch = "aarch64")]
#[path = "../../plan/gic.rs"]
mod gic;
#[path = "../../plan/sdhci/single.rs"]
mod lane;
#[cfg(target_arch = "riscv64")]
#[path = "../../plan/lines.rs"]
mod lines;
#[cfg(target_arch = "aarch64")]
#[path = "../../plan/pl011.rs"]
mod pl011;
#[path = "../../plan/mod.rs"]
mod plan;
#[cfg(target_arch = "riscv64")]
#[path = "../../plan/plic.rs"]
mod plic;
#[path = "../../plan/sdhci/mod.rs"]
mod sdhci;
#[cfg(target_arch = "aarch64")]
mod start;

pub use sdhci::Stack;
