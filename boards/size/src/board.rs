//! The board: interrupts off is the lock, memory is the same for CPU and controller; the core's own
//! part is [`crate::machine`].

pub use crate::alone::InterruptsOff;
use crate::machine::wait_for_interrupt;
pub use crate::machine::{interrupts_off, now_ns, start_clock};
use core::ptr::NonNull;
use mmcq::host::{Direction, Dma, DmaError};
use mmcq::task::Idle;

/// Sleeps in a blocking call: for a millisecond at most, and not if the interrupt handler has done
/// what the call waits for.
pub fn idle(idle: &Idle) {
    sleep_if(|| idle.may_sleep());
}

/// Sleeps until the next interrupt if this says so with interrupts off.
pub fn sleep_if(may_sleep: impl FnOnce() -> bool) {
    interrupts_off(|| {
        if may_sleep() {
            wait_for_interrupt();
        }
    });
}

/// Memory that CPU and controller see alike.
#[derive(Debug)]
pub struct Identity;

// SAFETY: the controller's address of a byte is the CPU's; there is no cache, or it is coherent,
// and the barrier orders the CPU's accesses.
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

/// Reads a register of the core's or the board's.
pub(crate) fn read(address: usize) -> u32 {
    // SAFETY: one of the registers that the core's part lists; reading them has no effect on
    // memory.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

/// Writes one.
pub(crate) fn write(address: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}
