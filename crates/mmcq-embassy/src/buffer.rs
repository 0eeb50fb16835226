//! Memory for transfers, in statics.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
use critical_section::Mutex;
use mmcq::engine::{BLOCK_BYTES, DmaBuf};

/// `BLOCKS` blocks of memory for a `static`, aligned to 64 bytes: a cache line of its own on all that embassy runs on. On chips whose controller reaches only a
/// part of the memory, place the static there by `#[link_section]`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Buffer<const BLOCKS: usize> {
    memory: UnsafeCell<[[u8; BLOCK_BYTES as usize]; BLOCKS]>,
    taken: Mutex<Cell<bool>>,
}

// SAFETY: the memory is only reached through the one `DmaBuf` that `take` gives out.
unsafe impl<const BLOCKS: usize> Sync for Buffer<BLOCKS> {}

impl<const BLOCKS: usize> Buffer<BLOCKS> {
    const BYTES: u32 = {
        assert!(BLOCKS < (u32::MAX / BLOCK_BYTES) as usize, "a buffer has at most 4 GiB");
        BLOCKS as u32 * BLOCK_BYTES
    };

    /// Zeroes, not taken yet.
    pub const fn new() -> Self {
        Buffer {
            memory: UnsafeCell::new([[0; BLOCK_BYTES as usize]; BLOCKS]),
            taken: Mutex::new(Cell::new(false)),
        }
    }

    /// The memory, once; `None` from then on.
    pub fn take(&'static self) -> Option<DmaBuf> {
        if critical_section::with(|cs| self.taken.borrow(cs).replace(true)) {
            return None;
        }
        let memory = NonNull::new(self.memory.get())?.cast();
        // SAFETY: initialised, lives for ever, and no second caller ever gets it: `taken` stays true.
        Some(unsafe { DmaBuf::from_raw(memory, Self::BYTES) })
    }
}

impl<const BLOCKS: usize> Default for Buffer<BLOCKS> {
    fn default() -> Self {
        Self::new()
    }
}
