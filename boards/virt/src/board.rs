//! QEMU's machine virt: one 64-bit Arm core with its timer, interrupt controller, UART, and PCI by
//! memory (ECAM).
//!
//! The machine must have its devices below 4 GiB (`highmem=off`) and an interrupt controller of
//! version 2. Memory is cached, and QEMU's devices see it coherently. With `-icount shift=0` the
//! timer counts instructions in steps of sixteen.

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

/// Address of the interrupt controller's distributor.
pub const GIC_DISTRIBUTOR: usize = 0x0800_0000;
/// Address of the interrupt controller's CPU interface.
pub const GIC_CPU: usize = 0x0801_0000;
/// Address of the UART.
pub const UART: usize = 0x0900_0000;
/// Number of the alarm's interrupt: the core's virtual timer.
pub const ALARM_IRQ: u32 = 16 + 11;
/// Number of the first of four interrupts that the PCI pins share.
const PCI_IRQ: u32 = 32 + 3;
/// Address of the PCI configuration space, with 4 KiB for each function.
const PCI_CONFIG: usize = 0x3f00_0000;
/// Address for a device's registers if the device has none yet: the beginning of the machine's
/// address range for PCI.
pub const PCI_MEMORY: u32 = 0x1000_0000;

/// Switches on UART, interrupt controller and the core's interrupts.
pub fn start() {
    pl011::start();
    gic::start();
    gic::listen(ALARM_IRQ);
    // SAFETY: the vector table is in place, and the handler serves the alarm's and PCI's
    // interrupts.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
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

/// Returns the text of QEMU's option `-append`; the image's name before it must not have a space.
/// At a second call the text is empty.
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
