//! Memory that CPU and controller see alike.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::{Direction, Dma, DmaError};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Memory for a controller that sees it as the CPU does: at the same addresses, and past no cache
/// that could hold something else. So it is on microcontrollers without a data cache, and where the
/// bus keeps caches coherent.
#[derive(Clone, Copy, Debug)]
pub struct Coherent(());

impl Coherent {
    /// The view of memory.
    ///
    /// # Safety
    /// The controller reads and writes the memory of every address as the CPU does, with no
    /// translation and no cache of its own between. What the CPU writes before a [`fence`] is there
    /// for what it writes to the controller after it.
    pub const unsafe fn new() -> Self {
        Coherent(())
    }
}

// SAFETY: `new`'s caller promises that the controller's address of a byte is the CPU's, and that
// the fence orders.
unsafe impl Dma for Coherent {
    #[inline]
    fn map(&self, ptr: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        fence(SeqCst);
        Ok(ptr.addr().get() as u64)
    }

    #[inline]
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        fence(SeqCst);
    }

    #[inline]
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {
        fence(SeqCst);
    }
}
