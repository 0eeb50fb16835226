//! QEMU's machine virt: one 64-bit RISC-V core in machine mode, with its timer, interrupt
//! controller, and PCI by memory (ECAM). Reports are printed by semihosting. CPU and devices use
//! the same addresses for memory.

pub use crate::cpu::{barrier, exit, interrupts_off, now_ns, set_alarm, sleep_until};
use crate::cpu::{self, interrupts_on, read, write};
pub use crate::lines::say;
use crate::plan::alone::Once;
pub use crate::plic::listen;

/// Ticks of the timer in a second.
pub const TIME_HZ: u64 = 10_000_000;
/// Number of the first of four interrupts that the PCI pins share.
const PCI_IRQ: u32 = 32;
/// Address of the PCI configuration space, with 4 KiB for each function.
const PCI_CONFIG: usize = 0x3000_0000;
/// Address for a device's registers if the device has none yet: the beginning of the machine's
/// address range for PCI.
pub const PCI_MEMORY: u32 = 0x4000_0000;

/// Enables the core's interrupts.
pub fn start() {
    interrupts_on();
}

fn pci(device: u32, offset: u32) -> usize {
    PCI_CONFIG + ((device as usize) << 15) + offset as usize
}

/// Reads a configuration register of a device on PCI bus 0.
pub fn pci_read(device: u32, offset: u32) -> u32 {
    read(pci(device, offset))
}

/// Writes a configuration register of a device on PCI bus 0.
pub fn pci_write(device: u32, offset: u32, value: u32) {
    write(pci(device, offset), value);
}

/// Returns the number of the interrupt to which a device's pin (0 is A) is connected.
pub fn pci_irq(device: u32, pin: u32) -> u32 {
    PCI_IRQ + (device + pin) % 4
}

static COMMAND_LINE: Once<[u8; 256]> = Once::new([0; _]);

/// Returns the text of QEMU's option `-append`; at a second call it is empty.
pub fn command_line() -> &'static str {
    COMMAND_LINE.take().map_or("", |line| cpu::command_line(line))
}
