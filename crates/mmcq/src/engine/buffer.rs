//! Memory that the engine owns while a controller may touch it.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::Segment;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// Owned memory for a transfer. The memory travels into a slot with the request and comes back with
/// the completion.
///
/// The slot owns the memory from submit until the completion is taken. A dropped or forgotten
/// future can leak the memory, and do nothing worse.
#[derive(Debug)]
pub struct DmaBuf {
    ptr: NonNull<u8>,
    len: u32,
    /// Number of bytes of the same memory before `ptr`, while a transfer uses a later part of it.
    /// The highest bit is the flag [`LENT`].
    skipped: u32,
}

/// Identifies the owner of a buffer for [`Engine::reclaim`](super::Engine::reclaim). A claim is
/// made from the buffer before the buffer goes into a request.
///
/// Only code that had the buffer can make its claim, so no client gets another client's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(usize);

/// Flag: the memory was only lent, and `reclaim` never returns it.
const LENT: u32 = 1 << 31;

// SAFETY: a `DmaBuf` is the only owner of its memory, like a `&'static mut [u8]`.
unsafe impl Send for DmaBuf {}

impl DmaBuf {
    /// No memory: for requests without data.
    pub const EMPTY: DmaBuf = DmaBuf { ptr: NonNull::dangling(), len: 0, skipped: 0 };

    /// Takes a buffer that lives for ever. Bytes beyond 4 GiB minus one are not used.
    pub fn from_static(memory: &'static mut [u8]) -> Self {
        let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        DmaBuf { ptr: NonNull::from(memory).cast(), len, skipped: 0 }
    }

    /// Takes memory by address.
    ///
    /// # Safety
    /// The `len` bytes at `ptr` are initialised, and nothing else uses or frees them as long as the
    /// buffer exists, whoever has it. A slice made by [`into_static`](Self::into_static) counts as
    /// the buffer. A caller that gives the buffer to other code perhaps never gets it back.
    pub const unsafe fn from_raw(ptr: NonNull<u8>, len: u32) -> Self {
        DmaBuf { ptr, len, skipped: 0 }
    }

    /// Takes the memory, and leaves an empty buffer.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Self {
        let DmaBuf { ptr, len, skipped } = *self;
        (self.len, self.skipped) = (0, 0);
        DmaBuf { ptr, len, skipped }
    }

    /// Makes a buffer of memory that is lent for one transfer: `reclaim` never returns it.
    ///
    /// # Safety
    /// The conditions of [`from_raw`](Self::from_raw) hold until the call that lends the memory
    /// ends.
    pub(crate) const unsafe fn lent(ptr: NonNull<u8>, len: u32) -> Self {
        DmaBuf { ptr, len, skipped: LENT }
    }

    /// Returns the buffer for code outside of the crate. Memory that a blocking call has lent is
    /// not returned (the result is empty): its owner has it back when that call ends.
    pub(crate) fn unless_lent(self) -> Self {
        match self.skipped {
            // Nearly always the memory is owned, and no part of it is skipped.
            0 => self,
            _ if self.owned() => self.whole(),
            _ => Self::EMPTY,
        }
    }

    /// Returns whether `reclaim` may return the memory: it is owned, not lent.
    pub(crate) fn owned(&self) -> bool {
        self.skipped & LENT == 0
    }

    /// Returns the part of the memory that a driver gets: at most the first `len` bytes.
    #[inline(always)]
    pub(crate) fn segment(&self, len: u32) -> Segment {
        Segment { ptr: self.ptr, len: self.len.min(len), bus: 0 }
    }

    /// Most bytes that [`after`](Self::after) can skip.
    pub(crate) const AFTER_MAX: u32 = (1 << 24) - 1;

    /// Returns the memory after its first `bytes`, for the next piece of a transfer. A request that
    /// ends returns the whole buffer. A request that is refused returns only this shorter memory,
    /// and its sender makes it [whole](Self::whole) again.
    pub(crate) fn after(self, bytes: u32) -> Self {
        let whole = self.whole();
        let bytes = bytes.min(whole.len).min(Self::AFTER_MAX);
        // SAFETY: inside the buffer or one past its end, since `bytes` is no more than its length.
        let ptr = unsafe { whole.ptr.add(bytes as usize) };
        DmaBuf { ptr, len: whole.len - bytes, skipped: bytes | whole.skipped }
    }

    /// Undoes [`after`](Self::after): returns the buffer with its full length, from its first byte.
    pub(crate) fn whole(self) -> Self {
        let bytes = self.skipped & !LENT;
        // SAFETY: `after` has moved the pointer forward by exactly this many bytes.
        let ptr = unsafe { self.ptr.sub(bytes as usize) };
        DmaBuf { ptr, len: self.len + bytes, skipped: self.skipped & LENT }
    }

    /// Returns the claim that proves ownership to [`Engine::reclaim`](super::Engine::reclaim), in
    /// case the request is dropped.
    pub fn claim(&self) -> Claim {
        let bytes = self.skipped & !LENT;
        if self.len == 0 && bytes == 0 {
            // An empty buffer has no owner: its address may be that of another buffer.
            return Claim(0);
        }
        Claim(self.ptr.addr().get().wrapping_sub(bytes as usize))
    }

    /// Returns the memory as the slice that it was made from.
    pub fn into_static(self) -> &'static mut [u8] {
        // SAFETY: owned buffers come from a `'static` slice or from a caller of `from_raw` who
        // promised the same; lent ones never leave the crate.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len as usize) }
    }

    /// Returns the length in bytes.
    pub fn len_bytes(&self) -> u32 {
        self.len
    }

    /// Returns the address of the first byte.
    pub fn as_non_null(&self) -> NonNull<u8> {
        self.ptr
    }
}

impl Deref for DmaBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer's holder owns the memory; it is initialised (see the constructors).
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for DmaBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len as usize) }
    }
}
