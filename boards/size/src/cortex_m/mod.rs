//! A Cortex-M core: PRIMASK, SysTick as the clock, the vector table in `start.rs`.
//!
//! Elsewhere (the check for panics is built for the development machine too) the parts that need
//! the core's own instructions do nothing.

use crate::board::{read, write};

#[cfg(target_arch = "arm")]
mod start;

/// Runs `f` with interrupts off; they come back as they were.
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
    // SAFETY: puts PRIMASK back.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("msr PRIMASK, {0}", in(reg) before, options(nostack, preserves_flags))
    };
    result
}

/// Sleeps until an interrupt is pending, masked or not; the tick is one, a millisecond later at
/// most.
pub fn wait_for_interrupt() {
    // SAFETY: WFI has no effect but time.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("wfi", options(nomem, nostack, preserves_flags))
    };
}

/// SysTick's registers, and the bit of ICSR that says it is pending.
const SYST_CSR: usize = 0xe000_e010;
const SYST_RVR: usize = 0xe000_e014;
const SYST_CVR: usize = 0xe000_e018;
const ICSR: usize = 0xe000_ed04;
const ICSR_PENDSTSET: u32 = 1 << 26;
/// Enables the controller's interrupt.
const NVIC_ISER: usize = 0xe000_e100;
/// The controller's interrupt; low enough for the smallest cores.
pub const IRQ: u32 = 31;
/// Cycles of 48 MHz in a millisecond.
const TICK: u32 = 48_000;

static TICKS: Ticks = Ticks(core::cell::UnsafeCell::new(0));

/// Milliseconds since [`start_clock`].
struct Ticks(core::cell::UnsafeCell<u64>);

// SAFETY: only touched with interrupts off on the one core.
unsafe impl Sync for Ticks {}

/// Starts the clock and lets the controller interrupt.
pub fn start_clock() {
    write(SYST_RVR, TICK - 1);
    write(SYST_CVR, 0);
    write(SYST_CSR, 0b111);
    write(NVIC_ISER, 1 << IRQ);
}

/// Another millisecond has passed.
pub fn tick() {
    // SAFETY: interrupts are off, so no other code is at the counter.
    interrupts_off(|| unsafe { *TICKS.0.get() += 1 });
}

/// Nanoseconds since [`start_clock`].
pub fn now_ns() -> u64 {
    interrupts_off(|| {
        let mut left = read(SYST_CVR);
        // SAFETY: interrupts are off, so no other code is at the counter.
        let mut ms = unsafe { *TICKS.0.get() };
        if read(ICSR) & ICSR_PENDSTSET != 0 {
            // It has begun again, and the handler has not counted it yet.
            left = read(SYST_CVR);
            ms += 1;
        }
        let cycles = (TICK - 1).saturating_sub(left);
        ms * 1_000_000 + u64::from(cycles * 125 / 6)
    })
}
