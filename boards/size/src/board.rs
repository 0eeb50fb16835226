//! The board: the engine's lock switches interrupts off, and CPU and controller use the same
//! addresses for memory. [`crate::machine`] has the part for the core.

pub use crate::alone::InterruptsOff;
use crate::machine::wait_for_interrupt;
pub use crate::machine::{interrupts_off, now_ns, start_clock};
use core::ptr::NonNull;
use mmcq::host::{Direction, Dma, DmaError};
use mmcq::task::{Clock, Idle};

/// Sleeps in a blocking call for a millisecond at most. Does not sleep if the interrupt handler has
/// already done what the call waits for.
pub fn idle(idle: &Idle) {
    sleep_if(|| idle.may_sleep());
}

/// Sleeps until the next interrupt, if `may_sleep` returns true while interrupts are off.
pub fn sleep_if(may_sleep: impl FnOnce() -> bool) {
    interrupts_off(|| {
        if may_sleep() {
            wait_for_interrupt();
        }
    });
}

/// The board's clock, without an alarm.
#[derive(Debug)]
pub struct Ticks;

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn set_alarm(&self, _: Option<u64>) {}
}

/// DMA interface without translation: CPU and controller use the same addresses.
#[derive(Debug)]
pub struct Identity;

// SAFETY: the controller uses the CPU's addresses. There is no cache or a coherent one, and the
// barrier orders the CPU's accesses.
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

/// Reads a register of the core or the board.
pub(crate) fn read(address: usize) -> u32 {
    // SAFETY: the address is a register that the core's part lists; reading it has no effect on
    // memory.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

/// Writes a register of the core or the board.
pub(crate) fn write(address: usize, value: u32) {
    // SAFETY: the address is a register that the core's part lists.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}
