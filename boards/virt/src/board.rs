//! QEMU's virt: one 64-bit Arm core with its timer, the interrupt controller, the UART, PCI by
//! memory (ECAM).
//!
//! The machine must have its devices below 4 GiB (`highmem=off`) and an interrupt controller of
//! version 2. Memory is cached, and QEMU's devices see it coherently. With `-icount shift=0` the
//! timer counts instructions, sixteen at a time.

pub use crate::arm::sleep_until;
use crate::arm::{read, write};
use crate::armv8::semihost;
pub use crate::armv8::{barrier, exit, interrupts_off, now_ns, set_alarm, silence_alarm};
use crate::gic;
pub use crate::gic::listen;
use crate::pl011;
pub use crate::pl011::say;
use crate::plan::alone::Once;
use core::arch::asm;

/// The interrupt controller: distributor and CPU interface.
pub const GIC_DISTRIBUTOR: usize = 0x0800_0000;
/// See above.
pub const GIC_CPU: usize = 0x0801_0000;
/// The UART.
pub const UART: usize = 0x0900_0000;
/// The core's own virtual timer.
pub const ALARM_IRQ: u32 = 16 + 11;
/// The first of the four that PCI's pins share.
const PCI_IRQ: u32 = 32 + 3;
/// The configuration of PCI's devices, 4 KiB for each function.
const PCI_CONFIG: usize = 0x3f00_0000;
/// Where a device's registers go if they have no place yet: at the beginning of the machine's
/// window for them.
pub const PCI_MEMORY: u32 = 0x1000_0000;

/// Takes UART, interrupt controller and core into use.
pub fn start() {
    pl011::start();
    gic::start();
    gic::listen(ALARM_IRQ);
    // SAFETY: the vector table stands, and the handler copes with this interrupt and PCI's.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

fn pci(device: u32, offset: u32) -> usize {
    PCI_CONFIG + ((device as usize) << 15) + offset as usize
}

/// A register of the configuration of a device on PCI bus 0.
pub fn pci_read(device: u32, offset: u32) -> u32 {
    read(pci(device, offset))
}

/// See [`pci_read`].
pub fn pci_write(device: u32, offset: u32, value: u32) {
    write(pci(device, offset), value);
}

/// The interrupt that a device's pin from 0 (A) is wired to.
pub fn pci_irq(device: u32, pin: u32) -> u32 {
    PCI_IRQ + (device + pin) % 4
}

static COMMAND_LINE: Once<[u8; 256]> = Once::new([0; _]);

/// What QEMU's `-append` says; the image's own name, which stands before it, must have no space.
/// Empty the second time.
pub fn command_line() -> &'static str {
    const SYS_GET_CMDLINE: u32 = 0x15;
    let Some(line) = COMMAND_LINE.take() else { return "" };
    let mut block = [line.as_mut_ptr() as u64, line.len() as u64];
    if semihost(SYS_GET_CMDLINE, &mut block) != 0 {
        return "";
    }
    let line = line.split(|&byte| byte == 0).next().unwrap_or(&[]);
    core::str::from_utf8(line).ok().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest)
}
