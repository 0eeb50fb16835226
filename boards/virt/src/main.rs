//! Tests the stack with a controller and a card by other authors: QEMU's `sdhci-pci` and its SD
//! card, on its machines `virt`, with a 64-bit core of Arm or RISC-V.
//!
//! mmcq brings the card up, writes and reads it as in any firmware, with DMA. Only interrupts drive
//! it: the controller's, and the alarm that the engine sets. Then the image counts how many
//! instructions a request takes. `tools/boards.sh` builds and starts this image, and checks the
//! card's content afterwards. Code for all machines is in `plan`, and code that boards/pc also uses
//! is in `plan/sdhci`.
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
