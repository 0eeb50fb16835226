//! Memory for the data of a run's I/Os: a set of buffers (pieces) of equal size.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::engine::DmaBuf;
use std::alloc::Layout;
use std::collections::HashMap;

/// Largest buffer boundary in bytes of an SDHCI. A controller's SDMA pauses at each multiple of the
/// boundary until the driver writes the next address [SDHC 2.2.2].
pub const ALIGN_MAX: usize = 512 * 1024;

fn layout(bytes: usize) -> Layout {
    let align = bytes.checked_next_power_of_two().map_or(ALIGN_MAX, |size| size.min(ALIGN_MAX));
    Layout::from_size_align(bytes, align).expect("fewer bytes than there are addresses")
}

/// Allocator of heap memory. It frees only memory that it has allocated itself.
#[derive(Debug, Default)]
pub struct Pieces {
    /// Length in bytes of each memory that is allocated now, by its address.
    out: HashMap<usize, usize>,
}

impl Pieces {
    /// Allocates memory that is aligned to its size, rounded up to a power of two, and at most to
    /// [`ALIGN_MAX`]. The folios of a page cache, or a buffer that a linker script places, are
    /// aligned like this.
    pub fn piece(&mut self, bytes: usize) -> DmaBuf {
        if bytes == 0 {
            return DmaBuf::EMPTY;
        }
        // SAFETY: the layout has at least one byte, and all bytes are zeroed. `free` uses the same
        // layout.
        let memory: &'static mut [u8] = unsafe {
            let start = std::alloc::alloc_zeroed(layout(bytes));
            assert!(!start.is_null(), "memory for {bytes} bytes");
            std::slice::from_raw_parts_mut(start, bytes)
        };
        self.out.insert(memory.as_ptr().addr(), bytes);
        DmaBuf::from_static(memory)
    }

    /// Frees a piece and returns true. Returns false for memory from elsewhere and for a part of a
    /// piece, which is never freed.
    pub fn free(&mut self, memory: DmaBuf) -> bool {
        let slice = memory.into_static();
        let address = slice.as_ptr().addr();
        let mine = self.out.get(&address) == Some(&slice.len());
        if mine {
            self.out.remove(&address);
            // SAFETY: `piece` allocated memory of this address and length, which was not freed
            // since, and `memory` was the only owner of all its bytes.
            unsafe { std::alloc::dealloc(slice.as_mut_ptr(), layout(slice.len())) };
        }
        mine
    }
}

/// Buffers of a run. The memory of each is either in this structure or lent to the engine.
#[derive(Default)]
pub struct Buffers {
    pieces: Vec<Option<DmaBuf>>,
    /// Size in bytes of each buffer (piece). Buffers beyond the length of `pieces` are not
    /// allocated yet.
    bytes: usize,
    free: Vec<u32>,
    owner: Pieces,
}

impl Buffers {
    /// Sets the number of buffers (pieces) and the size of each in bytes. Must be called before any
    /// buffer is in use.
    pub fn resize(&mut self, count: usize, bytes: usize) {
        self.clear();
        self.bytes = bytes;
        self.free = (0..count as u32).rev().collect();
    }

    /// Marks a free buffer as used and returns its number. Panics if all buffers are in use; the
    /// number in [`Self::resize`] must be large enough for the workload.
    pub fn acquire(&mut self) -> u32 {
        let piece = self.free.pop().expect("a workload has no more I/Os under way than it said");
        // Pieces are allocated in the order of their numbers, each at its first use.
        if piece as usize == self.pieces.len() {
            self.pieces.push(Some(self.owner.piece(self.bytes)));
        }
        piece
    }

    /// Marks the buffer with the number `piece` as free again.
    pub fn release(&mut self, piece: u32) {
        self.free.push(piece);
    }

    /// Returns the bytes of the buffer with the number `piece`. Empty while the engine has the
    /// buffer.
    pub fn get(&self, piece: u32) -> &[u8] {
        self.pieces[piece as usize].as_deref().unwrap_or(&[])
    }

    /// Returns the bytes of the buffer with the number `piece`, to change them; an empty slice
    /// while the buffer is lent to the engine.
    pub fn get_mut(&mut self, piece: u32) -> &mut [u8] {
        self.pieces[piece as usize].as_deref_mut().unwrap_or(&mut [])
    }

    /// Lends the buffer with the number `piece` to mmcq's engine. Until [`restore`](Self::restore)
    /// the set does not have it.
    pub fn lend(&mut self, piece: u32) -> DmaBuf {
        self.pieces[piece as usize].take().unwrap_or(DmaBuf::EMPTY)
    }

    /// Takes the memory of the buffer with the number `piece` back from mmcq's engine, after
    /// [`lend`](Self::lend).
    pub fn restore(&mut self, piece: u32, memory: DmaBuf) {
        self.pieces[piece as usize] = Some(memory);
    }
}

impl Buffers {
    fn clear(&mut self) {
        for memory in self.pieces.drain(..).flatten() {
            self.owner.free(memory);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_from_elsewhere_and_parts_are_not_freed() {
        let (mut mine, mut others) = (Pieces::default(), Pieces::default());
        assert!(!mine.free(DmaBuf::from_static(Box::leak(vec![7; 64].into_boxed_slice()))), "of no owner");
        assert!(!mine.free(others.piece(64)), "another's piece");
        let (first, second) = mine.piece(64).into_static().split_at_mut(32);
        second.fill(9);
        assert!(!mine.free(DmaBuf::from_static(first)), "half of a piece");
        assert_eq!(second[31], 9);
        assert!(!mine.free(DmaBuf::EMPTY));
    }

    #[test]
    fn what_comes_back_is_freed() {
        let mut pieces = Pieces::default();
        for bytes in [0, 1, 512, 4096] {
            let memory = pieces.piece(bytes);
            assert_eq!((memory.len_bytes() as usize, pieces.out.len()), (bytes, usize::from(bytes > 0)));
            assert_eq!(pieces.free(memory), bytes > 0);
            assert!(pieces.out.is_empty());
        }
    }
}
