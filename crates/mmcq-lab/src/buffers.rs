//! The memory of a run's I/Os, in pieces of one size.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::engine::DmaBuf;

/// Pieces of memory; each is here, or with the engine.
#[derive(Default)]
pub struct Buffers {
    pieces: Vec<Option<DmaBuf>>,
    free: Vec<u32>,
}

impl Buffers {
    /// So many pieces of so many bytes; only before any is in use.
    pub fn resize(&mut self, count: usize, bytes: usize) {
        self.pieces.clear();
        self.pieces.resize_with(count, || Some(piece(bytes)));
        self.free = (0..count as u32).rev().collect();
    }

    /// A free piece; there are as many as the workload said.
    pub fn acquire(&mut self) -> u32 {
        self.free.pop().expect("a workload has no more I/Os under way than it said")
    }

    /// Gives it back.
    pub fn release(&mut self, piece: u32) {
        self.free.push(piece);
    }

    /// Its bytes; nothing while it is with the engine.
    pub fn get(&self, piece: u32) -> &[u8] {
        self.pieces[piece as usize].as_deref().unwrap_or(&[])
    }

    /// Its bytes, to change.
    pub fn get_mut(&mut self, piece: u32) -> &mut [u8] {
        self.pieces[piece as usize].as_deref_mut().unwrap_or(&mut [])
    }

    /// Takes the memory for the engine.
    pub fn lend(&mut self, piece: u32) -> DmaBuf {
        self.pieces[piece as usize].take().unwrap_or(DmaBuf::EMPTY)
    }

    /// The memory has come back.
    pub fn restore(&mut self, piece: u32, memory: DmaBuf) {
        self.pieces[piece as usize] = Some(memory);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for memory in self.pieces.drain(..).flatten() {
            free(memory);
        }
    }
}

/// Fresh memory, aligned as most controllers like it.
pub fn piece(bytes: usize) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![0; bytes].into_boxed_slice()))
}

/// The opposite of [`piece`], for memory that came from there.
pub fn free(memory: DmaBuf) {
    if memory.len_bytes() > 0 {
        let slice: *mut [u8] = memory.into_static();
        // SAFETY: `piece` leaked exactly this box, and `memory` was its only owner.
        drop(unsafe { Box::from_raw(slice) });
    }
}
