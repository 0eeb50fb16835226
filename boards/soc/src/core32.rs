//! A 32-bit core: the clock is the architecture's virtual timer, or the global timer of a
//! Cortex-A9.

use crate::arm::{read, write};
use crate::armv7::semihost;
pub use crate::armv7::{exit, interrupts_off};
use crate::table::MACHINE;
use core::arch::asm;

const SECOND_NS: u64 = 1_000_000_000;
/// Registers of a Cortex-A9's global timer: counter (64 bits), control, status, comparator (64
/// bits).
const COUNTER: usize = MACHINE.global_timer;
const CONTROL: usize = MACHINE.global_timer + 0x08;
const STATUS: usize = MACHINE.global_timer + 0x0c;
const COMPARATOR: usize = MACHINE.global_timer + 0x10;
const ON: u32 = 1;
/// Control bits: timer on, comparator on, interrupt on.
const ALARM: u32 = 7;
/// Frequency in hertz of the global timer in QEMU.
const GLOBAL_HZ: u64 = 100_000_000;
const HAS_GLOBAL: bool = MACHINE.global_timer != 0;

/// Enables interrupts in the core.
pub fn interrupts_on() {
    if HAS_GLOBAL {
        write(CONTROL, ON);
    }
    // SAFETY: the vector table is in place, and the handler serves both interrupts.
    unsafe { asm!("cpsie i", options(nostack, preserves_flags)) };
}

/// Keeps the order of memory accesses, also for devices: earlier writes stay before, later reads
/// stay after.
pub fn barrier() {
    // SAFETY: the instruction only orders memory accesses.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

fn hz() -> u64 {
    if HAS_GLOBAL {
        return GLOBAL_HZ;
    }
    let hz: u32;
    // SAFETY: reads the frequency that the machine has set.
    unsafe { asm!("mrc p15, 0, {0}, c14, c0, 0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    u64::from(hz).max(1)
}

fn ticks() -> u64 {
    if HAS_GLOBAL {
        loop {
            let high = read(COUNTER + 4);
            let low = read(COUNTER);
            if read(COUNTER + 4) == high {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe {
        asm!("mrrc p15, 1, {0}, {1}, c14", out(reg) low, out(reg) high,
            options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Returns the nanoseconds since the machine started.
pub fn now_ns() -> u64 {
    let (ticks, hz) = (ticks(), hz());
    ticks / hz * SECOND_NS + ticks % hz * SECOND_NS / hz
}

fn control_timer(on: bool) {
    if HAS_GLOBAL {
        write(CONTROL, if on { ALARM } else { ON });
        return;
    }
    // SAFETY: writes the timer's control register: the timer interrupts if it is on and its time
    // has come.
    unsafe {
        asm!("mcr p15, 0, {0}, c14, c3, 1", in(reg) u32::from(on), options(nomem, nostack, preserves_flags))
    };
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
pub fn set_alarm(at_ns: Option<u64>) {
    control_timer(false);
    let Some(at_ns) = at_ns else { return };
    let hz = hz();
    let part = (at_ns % SECOND_NS * hz).div_ceil(SECOND_NS);
    let at = (at_ns / SECOND_NS).saturating_mul(hz).saturating_add(part);
    let (low, high) = (at as u32, (at >> 32) as u32);
    if HAS_GLOBAL {
        write(STATUS, 1);
        write(COMPARATOR, low);
        write(COMPARATOR + 4, high);
    } else {
        // SAFETY: sets the tick at which the timer interrupts.
        unsafe {
            asm!("mcrr p15, 3, {0}, {1}, c14", in(reg) low, in(reg) high,
                options(nomem, nostack, preserves_flags))
        };
    }
    control_timer(true);
}

/// Switches off the alarm after it has interrupted; otherwise it would interrupt again at once.
pub fn silence_alarm() {
    control_timer(false);
    if HAS_GLOBAL {
        write(STATUS, 1);
    }
}

/// Prints a line that ends with a zero byte.
pub fn write_line(line: &mut [u8]) {
    const SYS_WRITE0: u32 = 0x04;
    semihost(SYS_WRITE0, line);
}
