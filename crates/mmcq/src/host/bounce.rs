//! Bounce buffers: the CPU copies memory that a controller cannot use through a pool that it can
//! use.
//!
//! [`Bounce`] wraps a platform's [`Dma`]. A buffer that the platform refuses (wrong alignment, out
//! of reach) is copied through a pool of fixed size; every other buffer is mapped directly. While
//! no pieces of the pool are free, a mapping fails with [`DmaError::Exhausted`], and the request
//! waits in the queue. The pool clears pieces when they are freed.
//!
//! Recovery must not wait for free pieces, since queued requests may themselves wait for recovery.
//! So [`Bounce::reserve_for`] reserves pieces for the scratch memory of
//! [`card::supervise`](crate::card::supervise). No other buffer can use these pieces.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::dma::at_a_line;
use super::{Direction, Dma, DmaError};
use core::cell::Cell;
use core::ptr::NonNull;

/// Largest number of parts into which the memory of a pool is divided.
const PIECES_MAX: usize = 64;

/// State of one piece of the pool: the mapping that begins at this piece, if there is one.
#[derive(Clone, Copy, Debug)]
struct Used {
    /// Bus address of the mapping.
    bus: u64,
    /// Length of the mapping in bytes; 0: no mapping begins at this piece of the pool.
    bytes: usize,
}

impl Used {
    const NONE: Used = Used { bus: 0, bytes: 0 };
}

/// A pool of bounce buffers: `PIECES` (1 to 64) pieces of memory of equal size. It extends a
/// platform's [`Dma`], and copies the data of memory that the controller cannot reach.
#[derive(Debug)]
pub struct Bounce<D: Dma, const PIECES: usize> {
    dma: D,
    memory: NonNull<u8>,
    piece_bytes: usize,
    /// Pieces of the pool's memory that are in use, one bit for each piece.
    taken: Cell<u64>,
    /// For each piece of the pool: the DMA mapping whose copy begins at this piece.
    used: [Cell<Used>; PIECES],
    /// Begin and end address of the memory for which the last pieces of the pool are reserved, so
    /// that other buffers cannot use them up ([`reserve_for`](Self::reserve_for)); (0, 0): none is
    /// reserved.
    reserved_for: (usize, usize),
    /// Number of pieces at the end of the pool that are used only for the memory in `reserved_for`.
    reserved: usize,
}

// SAFETY: the pool's memory belongs to this value alone, like a `&'static mut [u8]`.
unsafe impl<D: Dma + Send, const PIECES: usize> Send for Bounce<D, PIECES> {}

impl<D: Dma, const PIECES: usize> Bounce<D, PIECES> {
    /// Makes a pool in `memory`. `dma` must be able to map `memory` from the start of each piece,
    /// which is a cache line boundary if the machine has cache lines. A piece has the length of
    /// `memory` divided by `PIECES`, rounded down to a multiple of 512 bytes. A buffer uses as many
    /// adjacent pieces as it needs.
    pub fn new(dma: D, memory: &'static mut [u8]) -> Self {
        const { assert!(PIECES > 0 && PIECES <= PIECES_MAX, "a pool has 1 to 64 pieces") };
        let piece_bytes = memory.len() / PIECES / 512 * 512;
        Bounce {
            dma,
            memory: NonNull::from(memory).cast(),
            piece_bytes,
            taken: Cell::new(0),
            used: [const { Cell::new(Used::NONE) }; PIECES],
            reserved_for: (0, 0),
            reserved: 0,
        }
    }

    /// Reserves as many of the last pieces as `memory` needs. Only buffers inside of `memory` get
    /// these pieces.
    pub fn reserve_for(mut self, memory: &[u8]) -> Self {
        let start = memory.as_ptr().addr();
        self.reserved_for = (start, start.saturating_add(memory.len()));
        self.reserved = self.pieces(memory.len()).unwrap_or(PIECES).min(PIECES);
        self
    }

    /// Returns the number of pieces of the bounce memory that are in use.
    pub fn taken(&self) -> u32 {
        self.taken.get().count_ones()
    }

    /// Returns how many pieces of the bounce memory `bytes` bytes need; `None` if the calculation
    /// overflows.
    fn pieces(&self, bytes: usize) -> Option<usize> {
        Some(bytes.max(1).checked_next_multiple_of(self.piece_bytes)? / self.piece_bytes.max(1))
    }

    /// Returns a mask with one bit for each of `count` pieces of the pool, from piece `first` on.
    fn bits(first: usize, count: usize) -> u64 {
        let ones = if count >= PIECES_MAX { u64::MAX } else { (1 << count) - 1 };
        ones.checked_shl(first as u32).unwrap_or(0)
    }

    /// Finds free adjacent pieces for the `bytes` bytes at `ptr`: the lowest ones, or the highest
    /// ones if the bytes lie in the memory that pieces are reserved for. Returns the first piece
    /// and the mask of all of them; `None` if there are not enough.
    fn find(&self, ptr: NonNull<u8>, bytes: usize) -> Option<(usize, u64)> {
        let count = self.pieces(bytes)?;
        let (start, end) = self.reserved_for;
        let at = ptr.addr().get();
        let reserved = at >= start && at.checked_add(bytes)? <= end;
        let usable = if reserved { PIECES } else { PIECES - self.reserved };
        let last = usable.checked_sub(count)?;
        let free = |first: &usize| self.taken.get() & Self::bits(*first, count) == 0;
        let first = if reserved { (0..=last).rev().find(free) } else { (0..=last).find(free) };
        first.map(|first| (first, Self::bits(first, count)))
    }

    fn place(&self, first: usize) -> NonNull<u8> {
        // SAFETY: `first` is a piece of the pool, so the result is inside its memory.
        unsafe { self.memory.add(first * self.piece_bytes) }
    }

    /// Returns the mapping in the pool that contains the `bytes` bytes from bus address `bus` on:
    /// the number of its first piece, and its [`Used`].
    fn through(&self, bus: u64, bytes: usize) -> Option<(usize, Used)> {
        let inside = |used: Used| {
            used.bytes != 0
                && bus >= used.bus
                && bus - used.bus <= used.bytes as u64
                && bytes as u64 <= used.bytes as u64 - (bus - used.bus)
        };
        self.used.iter().map(Cell::get).enumerate().find(|&(_, used)| inside(used))
    }
}

// SAFETY: for memory that the inner `Dma` maps, the inner `Dma` is responsible. For all other
// memory the controller gets pieces of the pool, which stay in use until `unmap`; `map`, `sync` and
// `unmap` copy between memory and pieces.
unsafe impl<D: Dma, const PIECES: usize> Dma for Bounce<D, PIECES> {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        let line = self.dma.line_bytes();
        if [ptr.addr().get(), len].into_iter().all(|place| at_a_line(place, direction, line)) {
            match self.dma.map(ptr, len, direction) {
                Err(DmaError::Alignment | DmaError::Unreachable) => {}
                done => return done,
            }
        }
        if self.piece_bytes == 0 {
            return Err(DmaError::Exhausted);
        }
        let (first, bits) = self.find(ptr, len).ok_or(DmaError::Exhausted)?;
        let place = self.place(first);
        if direction == Direction::Write {
            // SAFETY: the caller's buffer has `len` bytes, and the free pieces have as many. Both
            // do not overlap, since the pool's memory belongs to the pool alone.
            unsafe { place.copy_from_nonoverlapping(ptr, len) };
        }
        // The mapping covers whole cache lines, since pieces consist of whole lines.
        let whole = len.max(1).checked_next_multiple_of(line.max(1) as usize).unwrap_or(len);
        let mapped = self.dma.map(place, whole, direction);
        if mapped.is_err() {
            // Clear the copied data, so that the next buffer in these pieces cannot show them.
            // SAFETY: the pieces belong to the pool, and are free.
            unsafe { place.write_bytes(0, len) };
        }
        let bus = mapped?;
        self.taken.set(self.taken.get() | bits);
        if let Some(used) = self.used.get(first) {
            used.set(Used { bus, bytes: whole });
        }
        Ok(bus)
    }

    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        let Some((first, used)) = self.through(bus, len).filter(|(_, used)| used.bus == bus) else {
            return self.dma.unmap(bus, ptr, len, direction);
        };
        let place = self.place(first);
        self.dma.unmap(bus, place, used.bytes, direction);
        if direction == Direction::Read {
            // SAFETY: pieces and buffer have `len` bytes and do not overlap; the controller has
            // released both.
            unsafe { ptr.copy_from_nonoverlapping(place, len) };
        }
        // Clear the data, which may be secret: a later read that fails could show them.
        // SAFETY: the pieces belong to the pool, and the controller has released them.
        unsafe { place.write_bytes(0, used.bytes) };
        let count = self.pieces(used.bytes).unwrap_or(PIECES);
        self.taken.set(self.taken.get() & !Self::bits(first, count));
        if let Some(used) = self.used.get(first) {
            used.set(Used::NONE);
        }
    }

    const IN_PIECES: bool = D::IN_PIECES;

    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        self.dma.piece(bus, len)
    }

    fn isolate(&self) -> bool {
        self.dma.isolate()
    }

    /// Returns 1: parts of cache lines go through the pool, so `unmap` invalidates none of the
    /// buffer.
    fn line_bytes(&self) -> u32 {
        1
    }

    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        let Some((first, used)) = self.through(bus, len) else { return self.dma.sync(bus, ptr, len) };
        // SAFETY: `through` has checked that `len` bytes from this place are inside the pieces of
        // this mapping.
        let place = unsafe { self.place(first).add((bus - used.bus) as usize) };
        // SAFETY: buffer and place have `len` bytes and do not overlap.
        unsafe { place.copy_from_nonoverlapping(ptr, len) };
        self.dma.sync(bus, place, len);
    }
}
