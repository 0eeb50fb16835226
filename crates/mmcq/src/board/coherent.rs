//! Memory that has the same content for CPU and controller.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::{Direction, Dma, DmaError};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering::SeqCst, fence};

/// Memory that the controller sees as the CPU does: at the same addresses, and without a cache that
/// could have other content. That is the case on microcontrollers without a data cache, and where
/// the bus keeps caches coherent.
#[derive(Clone, Copy, Debug)]
pub struct Coherent(());

impl Coherent {
    /// Makes the view of memory.
    ///
    /// # Safety
    /// The controller reads and writes the memory at every address as the CPU does, without a
    /// translation or a cache between them. What the CPU writes before a [`fence`] is visible to
    /// the controller when it sees a later register write.
    pub const unsafe fn new() -> Self {
        Coherent(())
    }
}

// SAFETY: `new`'s caller promises that the controller's address of a byte is the CPU's, and that
// the fence makes earlier writes of the CPU visible to the controller.
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
