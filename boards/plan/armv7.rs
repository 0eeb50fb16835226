//! An ARMv7-A core: its interrupt mask, and calls to QEMU by semihosting.

use core::arch::asm;

/// Calls `f` with interrupts off, and restores the interrupt mask.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u32;
    // SAFETY: reads CPSR and sets its I bit; memory accesses do not move across, since the asm may
    // touch memory.
    unsafe { asm!("mrs {0}, cpsr", "cpsid i", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: restores the I bit; the other bits of its byte have not changed.
    unsafe { asm!("msr cpsr_c, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

/// Calls QEMU by semihosting, with an operation and the data that it works on.
pub fn semihost<T: ?Sized>(operation: u32, block: &mut T) {
    // SAFETY: QEMU accesses only what the block points to; its answer is in r0.
    unsafe {
        asm!(
            "svc #0x123456",
            inout("r0") operation => _,
            in("r1") core::ptr::from_mut(block).cast::<u8>(),
            out("lr") _,
            options(nostack)
        );
    }
}

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: u32 = 0x2_0026;
    loop {
        semihost(SYS_EXIT_EXTENDED, &mut [APPLICATION_EXIT, status]);
    }
}
