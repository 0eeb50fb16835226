//! A Cortex-M core: interrupt mask PRIMASK, SysTick as the clock; the vector table is in
//! `start.rs`.
//!
//! On other machines the parts that need the core's own instructions do nothing: the check for
//! panics is also built for the development computer.

use crate::board::{read, write};

#[cfg(target_arch = "arm")]
mod start;

/// Calls `f` with interrupts off, and restores the interrupt mask.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "arm")]
    let before: u32;
    // SAFETY: reads PRIMASK and sets it; memory accesses do not move across, since the asm may
    // touch memory.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("mrs {0}, PRIMASK", "cpsid i", out(reg) before, options(nostack, preserves_flags))
    };
    let result = f();
    // SAFETY: restores PRIMASK.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("msr PRIMASK, {0}", in(reg) before, options(nostack, preserves_flags))
    };
    result
}

/// Sleeps until an interrupt is pending, even a masked one. The tick interrupts after a millisecond
/// at the latest.
pub fn wait_for_interrupt() {
    // SAFETY: WFI only takes time.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("wfi", options(nomem, nostack, preserves_flags))
    };
}

/// Registers of SysTick, and the bit of ICSR that shows a pending tick.
const SYST_CSR: usize = 0xe000_e010;
const SYST_RVR: usize = 0xe000_e014;
const SYST_CVR: usize = 0xe000_e018;
const ICSR: usize = 0xe000_ed04;
const ICSR_PENDSTSET: u32 = 1 << 26;
/// Register that enables interrupts 0 to 31.
const NVIC_ISER: usize = 0xe000_e100;
/// Number of the controller's interrupt; even the smallest cores have this number.
pub const IRQ: u32 = 31;
/// Number of 48 MHz cycles in a millisecond.
const TICK: u32 = 48_000;

static TICKS: Ticks = Ticks(core::cell::UnsafeCell::new(0));

/// Counter of milliseconds since [`start_clock`].
struct Ticks(core::cell::UnsafeCell<u64>);

// SAFETY: accessed only with interrupts off on the only core.
unsafe impl Sync for Ticks {}

/// Starts the clock and enables the controller's interrupt.
pub fn start_clock() {
    write(SYST_RVR, TICK - 1);
    write(SYST_CVR, 0);
    write(SYST_CSR, 0b111);
    write(NVIC_ISER, 1 << IRQ);
}

/// Counts a millisecond.
pub fn tick() {
    // SAFETY: interrupts are off, so no other code uses the counter.
    interrupts_off(|| unsafe { *TICKS.0.get() += 1 });
}

/// Returns the nanoseconds since [`start_clock`].
pub fn now_ns() -> u64 {
    interrupts_off(|| {
        let mut left = read(SYST_CVR);
        // SAFETY: interrupts are off, so no other code uses the counter.
        let mut ms = unsafe { *TICKS.0.get() };
        if read(ICSR) & ICSR_PENDSTSET != 0 {
            // SysTick has started again, and its handler has not counted it yet.
            left = read(SYST_CVR);
            ms += 1;
        }
        let cycles = (TICK - 1).saturating_sub(left);
        ms * 1_000_000 + u64::from(cycles * 125 / 6)
    })
}
