//! QEMU's virt: one 64-bit RISC-V core in machine mode, with its timer, the interrupt controller
//! and PCI by memory (ECAM). Reports go by semihosting. Memory is one for CPU and devices.

pub use crate::cpu::{barrier, exit, interrupts_off, now_ns, set_alarm, sleep_until};
use crate::cpu::{self, interrupts_on, read, write};
pub use crate::lines::say;
use crate::plan::alone::Once;
pub use crate::plic::listen;

/// Ticks of the timer in a second.
pub const TIME_HZ: u64 = 10_000_000;
/// The first of the four that PCI's pins share.
const PCI_IRQ: u32 = 32;
/// The configuration of PCI's devices, 4 KiB for each function.
const PCI_CONFIG: usize = 0x3000_0000;
/// Where a device's registers go if they have no place yet: at the beginning of the machine's
/// window for them.
pub const PCI_MEMORY: u32 = 0x4000_0000;

/// Takes the core's interrupts into use.
pub fn start() {
    interrupts_on();
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

/// What QEMU's `-append` says. Empty the second time.
pub fn command_line() -> &'static str {
    COMMAND_LINE.take().map_or("", |line| cpu::command_line(line))
}
