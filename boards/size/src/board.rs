//! One Cortex-M core: interrupts off is the lock, SysTick is the clock, memory is the same for CPU and
//! controller.
//!
//! Elsewhere (the check for panics is built for the development machine too) the parts that need the core's
//! own instructions do nothing.

use core::ptr::NonNull;
use mmcq::host::{Direction, Dma, DmaError};
use mmcq::task::Lock;

/// The lock of the engine.
#[derive(Debug)]
pub struct InterruptsOff;

// SAFETY: one core, and no interrupt comes in between. Nesting would be harmless; the closures do not nest
// anyway.
unsafe impl Lock for InterruptsOff {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        interrupts_off(f)
    }
}

/// Runs `f` with interrupts off; they come back as they were.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "arm")]
    let before: u32;
    // SAFETY: reads PRIMASK and sets it; memory accesses do not move across, since the asm may touch memory.
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

/// Sleeps until an interrupt is pending; the tick is one, a millisecond later at most.
pub fn idle() {
    // SAFETY: WFI has no effect but time.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("wfi", options(nomem, nostack, preserves_flags))
    };
}

/// Memory that CPU and controller see alike.
#[derive(Debug)]
pub struct Identity;

// SAFETY: the controller's address of a byte is the CPU's; there is no cache, and the barrier orders the
// CPU's accesses.
unsafe impl Dma for Identity {
    fn map(&self, ptr: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        barrier();
        Ok(ptr.addr().get() as u64)
    }

    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        barrier();
    }

    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {
        barrier();
    }
}

fn barrier() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
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

fn read(address: usize) -> u32 {
    // SAFETY: one of the core's own registers, listed above; reading them has no effect on memory.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Starts the clock and lets the controller interrupt.
pub fn start_clock() {
    write(SYST_RVR, TICK - 1);
    write(SYST_CVR, 0);
    write(SYST_CSR, 0b111);
    write(NVIC_ISER, 1 << IRQ);
}

/// Another millisecond has passed.
pub fn tick() {
    // SAFETY: interrupts are off, so nobody else is at the counter.
    interrupts_off(|| unsafe { *TICKS.0.get() += 1 });
}

/// Nanoseconds since [`start_clock`].
pub fn now_ns() -> u64 {
    interrupts_off(|| {
        let mut left = read(SYST_CVR);
        // SAFETY: interrupts are off, so nobody else is at the counter.
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
