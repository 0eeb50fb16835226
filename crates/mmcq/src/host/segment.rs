//! Memory of a transfer, as a driver sees it.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use core::ptr::NonNull;

/// A contiguous piece of memory that a transfer reads or writes.
///
/// The engine makes segments only from memory that a slot owns, between `submit` and the moment
/// when the completion is taken. A driver may access the memory by the rules of
/// [`Host`](super::Host). Safe code cannot make or copy a segment, so it cannot direct a driver to
/// memory of its choice.
// The drivers' own tests use the same segment several times, so it can be copied there.
#[cfg_attr(test, derive(Clone, Copy))]
#[derive(Debug)]
pub struct Segment {
    pub(crate) ptr: NonNull<u8>,
    pub(crate) len: u32,
    pub(crate) bus: u64,
}

// SAFETY: a segment is only an address and a length. Each place that dereferences the address gives
// its own reason.
unsafe impl Send for Segment {}

impl Segment {
    /// A segment of length 0, for places in a list that are not in use.
    pub(crate) const NONE: Segment = Segment { ptr: NonNull::dangling(), len: 0, bus: 0 };

    /// Makes a segment for code that uses a [`Host`](super::Host) without an engine, such as a
    /// driver's tests.
    ///
    /// # Safety
    /// The `len` bytes at `ptr` are initialised. From [`Host::map`](super::Host::map) on nothing
    /// else uses or frees them, until the controller has released them by the rules of
    /// [`Host`](super::Host) and [`Host::unmap`](super::Host::unmap) was called. `bus` is 0, or the
    /// value that a `map` of this memory has set, and the segment is passed only to that driver.
    pub const unsafe fn new(ptr: NonNull<u8>, len: u32, bus: u64) -> Self {
        Segment { ptr, len, bus }
    }

    /// Returns the address of the memory for the CPU.
    pub const fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Returns the length in bytes. It is a multiple of the block size, except in a byte-wise
    /// transfer of one segment.
    pub const fn len_bytes(&self) -> u32 {
        self.len
    }

    /// Returns the bus address for the controller, which [`Host::map`](super::Host::map) has set.
    /// If the CPU transfers the memory, the value is 0, or a flag of the driver.
    pub const fn bus(&self) -> u64 {
        self.bus
    }

    /// Sets the bus address for the controller; called by [`Host::map`](super::Host::map).
    pub const fn set_bus(&mut self, bus: u64) {
        self.bus = bus;
    }

    /// Returns a copy of the segment, for the engine's own tables.
    #[inline(always)]
    pub(crate) const fn same(&self) -> Self {
        Segment { ptr: self.ptr, len: self.len, bus: self.bus }
    }

    /// Returns at most `len` bytes of the memory after its first `skip` bytes; an empty segment if
    /// nothing is left.
    #[inline(always)]
    pub(crate) fn part(&self, skip: u32, len: u32) -> Self {
        let skip = skip.min(self.len);
        // SAFETY: `skip` is at most the length, so the result is inside the memory or one past its
        // end.
        let ptr = unsafe { self.ptr.add(skip as usize) };
        let bus = self.bus.wrapping_add(skip.into());
        Segment { ptr, len: (self.len - skip).min(len), bus }
    }
}
