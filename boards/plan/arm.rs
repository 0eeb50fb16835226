//! Functions for all of Arm's machines: access to registers in memory, and the core's sleep.

use crate::board::interrupts_off;
use core::arch::asm;

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

/// Sleeps until an interrupt is pending, even a masked one.
pub fn wait_for_interrupt() {
    // SAFETY: the instructions only take time and order memory accesses.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until `ready` returns true; an interrupt makes it true.
pub fn sleep_until(mut ready: impl FnMut() -> bool) {
    loop {
        let go_on = interrupts_off(|| {
            let go_on = ready();
            if !go_on {
                wait_for_interrupt();
            }
            go_on
        });
        if go_on {
            return;
        }
    }
}
