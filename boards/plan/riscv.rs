//! A 64-bit RISC-V core in machine mode, hart 0 of QEMU's machines: reset, traps, interrupt mask,
//! the timer (at the same addresses on all of these machines), and calls to QEMU by semihosting.

use crate::board::{self, TIME_HZ};
use crate::plan::firmware::{Source, serve};
use crate::plic;
use core::arch::{asm, global_asm};

global_asm!(include_str!("start-riscv64.s"));

const SECOND_NS: u64 = 1_000_000_000;
/// Registers of the timer: its counter, and the count at which it interrupts.
const COUNTER: usize = 0x0200_bff8;
const COMPARATOR: usize = 0x0200_4000;
/// Bit of `mstatus` that enables interrupts.
const MIE: usize = 1 << 3;
/// Codes of interrupts in `mcause`.
const TIMER_CAUSE: usize = 7;
const DEVICE_CAUSE: usize = 11;

/// Reads a register of the board.
pub fn read(address: usize) -> u32 {
    // SAFETY: the address is a register that this file or the board lists.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

/// Writes a register of the board.
pub fn write(address: usize, value: u32) {
    // SAFETY: the address is a register that this file or the board lists.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Calls `f` with interrupts off, and restores the interrupt mask.
#[inline]
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: usize;
    // SAFETY: reads the mask and clears it; memory accesses do not move across, since the asm may
    // touch memory.
    unsafe { asm!("csrrci {0}, mstatus, 8", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: restores the mask.
    unsafe { asm!("csrs mstatus, {0}", in(reg) before & MIE, options(nostack, preserves_flags)) };
    result
}

/// Enables interrupts of the timer and of devices.
pub fn interrupts_on() {
    silence_alarm();
    let both = 1usize << TIMER_CAUSE | 1 << DEVICE_CAUSE;
    // SAFETY: `mtvec` is set, and its handler serves both interrupts.
    unsafe { asm!("csrw mie, {0}", "csrsi mstatus, 8", in(reg) both, options(nostack, preserves_flags)) };
}

/// Orders memory accesses, also those of devices: earlier writes happen before the call, later
/// reads after it.
#[allow(dead_code, reason = "a port that the CPU fills needs none")]
#[inline]
pub fn barrier() {
    // SAFETY: the instruction only orders memory accesses.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
}

/// Sleeps until `ready` returns true; an interrupt makes it true.
pub fn sleep_until(mut ready: impl FnMut() -> bool) {
    while !interrupts_off(|| {
        let go_on = ready();
        if !go_on {
            // SAFETY: the instruction only takes time; a masked interrupt ends it too.
            unsafe { asm!("wfi", options(nostack, preserves_flags)) };
        }
        go_on
    }) {}
}

/// Returns the nanoseconds since the machine started.
#[inline]
pub fn now_ns() -> u64 {
    // SAFETY: the address is a 64-bit register of the timer.
    let ticks = unsafe { core::ptr::without_provenance::<u64>(COUNTER).read_volatile() };
    ticks / TIME_HZ * SECOND_NS + ticks % TIME_HZ * SECOND_NS / TIME_HZ
}

fn ring_at(tick: u64) {
    // SAFETY: the address is a 64-bit register of the timer.
    unsafe { core::ptr::without_provenance_mut::<u64>(COMPARATOR).write_volatile(tick) };
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
#[inline]
pub fn set_alarm(at_ns: Option<u64>) {
    let part = |at_ns: u64| (at_ns % SECOND_NS * TIME_HZ).div_ceil(SECOND_NS);
    ring_at(
        at_ns.map_or(u64::MAX, |at_ns| {
            (at_ns / SECOND_NS).saturating_mul(TIME_HZ).saturating_add(part(at_ns))
        }),
    );
}

/// Switches off the alarm after it has interrupted; otherwise it would interrupt again at once.
pub fn silence_alarm() {
    ring_at(u64::MAX);
}

/// Handles an interrupt of the core.
#[unsafe(no_mangle)]
extern "C" fn interrupt(cause: usize) {
    match cause << 1 >> 1 {
        TIMER_CAUSE => {
            silence_alarm();
            serve(Source::Alarm);
        }
        _ => plic::serve_device(),
    }
}

/// Reports a trap that was not expected, and ends the program.
#[unsafe(no_mangle)]
extern "C" fn exception(cause: usize, at: usize, value: usize) -> ! {
    board::say(format_args!("exception {cause} at {at:#x}, {value:#x}"));
    exit(3)
}

/// Calls QEMU by semihosting, with an operation and the address of its data. Returns QEMU's answer.
pub fn semihost<T: ?Sized>(operation: usize, block: &mut T) -> usize {
    let result: usize;
    // SAFETY: QEMU accesses only what the block points to. The three instructions mark the call;
    // they must be uncompressed and on one page.
    unsafe {
        asm!(
            ".option push",
            ".option norvc",
            ".balign 16",
            "slli x0, x0, 0x1f",
            "ebreak",
            "srai x0, x0, 7",
            ".option pop",
            inlateout("a0") operation => result,
            in("a1") core::ptr::from_mut(block).cast::<u8>(),
            options(nostack)
        );
    }
    result
}

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT: usize = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    loop {
        semihost(SYS_EXIT, &mut [APPLICATION_EXIT, status.into()]);
    }
}

/// Prints a line that ends with a zero byte.
pub fn write_line(line: &mut [u8]) {
    const SYS_WRITE0: usize = 0x04;
    semihost(SYS_WRITE0, line);
}

/// Returns the machine's command line after the image's name, from QEMU's option `-append`.
pub fn command_line(line: &mut [u8]) -> &str {
    const SYS_GET_CMDLINE: usize = 0x15;
    let mut block = [line.as_mut_ptr() as u64, line.len() as u64];
    if semihost(SYS_GET_CMDLINE, &mut block) != 0 {
        return "";
    }
    let line = line.split(|&byte| byte == 0).next().unwrap_or(&[]);
    core::str::from_utf8(line).ok().and_then(|line| line.split_once(' ')).map_or("", |(_, rest)| rest)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::say(format_args!("{info}"));
    exit(2)
}
