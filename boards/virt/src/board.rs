//! QEMU's virt: one 64-bit Arm core with its timer, the interrupt controller, the UART, PCI by
//! memory (ECAM).
//!
//! The machine must have its devices below 4 GiB (`highmem=off`) and an interrupt controller of
//! version 2. Memory is cached, and QEMU's devices see it coherently. With `-icount shift=0` the
//! timer counts instructions, sixteen at a time.

use crate::arm::{self, read, write};
pub use crate::arm::{say, sleep_until};
use crate::gic;
pub use crate::gic::listen;
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
const SECOND_NS: u64 = 1_000_000_000;

/// Runs `f` with interrupts off; they come back as they were.
#[inline]
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u64;
    // SAFETY: reads the masks and sets that of IRQ; memory accesses do not move across, since the
    // asm may touch memory.
    unsafe { asm!("mrs {0}, daif", "msr daifset, #2", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: puts the masks back.
    unsafe { asm!("msr daif, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

/// Takes UART, interrupt controller and core into use.
pub fn start() {
    arm::start();
    gic::start();
    gic::listen(ALARM_IRQ);
    // SAFETY: the vector table stands, and the handler copes with this interrupt and PCI's.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// What is written before stays before, and what is read after stays after, also for devices.
#[inline]
pub fn barrier() {
    // SAFETY: orders accesses to memory, and no more.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Ticks of the timer in a second.
#[inline]
fn timer_hz() -> u64 {
    let hz: u64;
    // SAFETY: reads what the machine has put there.
    unsafe { asm!("mrs {0}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz.max(1)
}

/// Nanoseconds since the machine started.
#[inline]
pub fn now_ns() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    let hz = timer_hz();
    // In two parts, so that nothing overflows while the timer is slower than 18 GHz.
    ticks / hz * SECOND_NS + ticks % hz * SECOND_NS / hz
}

fn control_timer(on: bool) {
    // SAFETY: the timer's control register: its interrupt comes once it is on and its time has
    // come.
    unsafe { asm!("msr cntv_ctl_el0, {0}", in(reg) u64::from(on), options(nomem, nostack, preserves_flags)) };
}

/// Asks for an interrupt at this time.
#[inline]
pub fn set_alarm(at_ns: Option<u64>) {
    if let Some(at_ns) = at_ns {
        let hz = timer_hz();
        let part = (at_ns % SECOND_NS * hz).div_ceil(SECOND_NS);
        let ticks = (at_ns / SECOND_NS).saturating_mul(hz).saturating_add(part);
        // SAFETY: the tick that the interrupt comes at.
        unsafe { asm!("msr cntv_cval_el0, {0}", in(reg) ticks, options(nomem, nostack, preserves_flags)) };
    }
    control_timer(at_ns.is_some());
}

/// The alarm has rung; it would go on.
pub fn silence_alarm() {
    control_timer(false);
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

/// A call to the machine's hypervisor: the operation, and the address of what it works on.
fn semihost<T>(operation: u32, block: &mut T) -> u32 {
    let result: u32;
    // SAFETY: QEMU reads and writes what the block, and nothing else, points to.
    unsafe {
        asm!(
            "hlt #0xf000",
            inlateout("w0") operation => result,
            in("x1") core::ptr::from_mut(block),
            options(nostack)
        );
    }
    result
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

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT: u32 = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    loop {
        semihost(SYS_EXIT, &mut [APPLICATION_EXIT, status.into()]);
    }
}
