//! A 64-bit Arm core of these machines.

use crate::armv8::semihost;
pub use crate::armv8::{barrier, exit, interrupts_off, now_ns, set_alarm, silence_alarm};
use core::arch::asm;

/// Enables interrupts in the core.
pub fn interrupts_on() {
    // SAFETY: the vector table is in place, and the handler serves both interrupts.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Prints a line that ends with a zero byte.
pub fn write_line(line: &mut [u8]) {
    const SYS_WRITE0: u32 = 0x04;
    semihost(SYS_WRITE0, line);
}
