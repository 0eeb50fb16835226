//! What Arm's machines have in common: registers in memory, and how the core sleeps.

use crate::board::interrupts_off;
use core::arch::asm;

/// Reads a register of the board's.
pub fn read(address: usize) -> u32 {
    // SAFETY: a register that this file or the board lists.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

/// Writes a register of the board's.
pub fn write(address: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Sleeps until an interrupt is pending, masked or not.
pub fn wait_for_interrupt() {
    // SAFETY: has no effect but time, and on the order of memory accesses.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until `ready`, which an interrupt makes true.
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
