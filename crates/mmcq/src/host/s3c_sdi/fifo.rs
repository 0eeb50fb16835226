//! Transfers by the CPU through the FIFO: at most 64 bytes, the size of the FIFO, in one call.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::S3cSdi;
use super::regs::*;
use crate::host::pio::Cursor;
use crate::host::{Dma, Regs, Segment};
use core::ptr::NonNull;

/// State of a transfer by the CPU: the bytes that are left, and their place in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    pub(super) cursor: Cursor,
    /// Bytes that are still to transfer through the FIFO.
    pub(super) left: u32,
    /// Whether the FIFO must be emptied after the transfer, which ends in the middle of a word, or
    /// had fewer bytes than the FIFO holds.
    pub(super) odd: bool,
}

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    /// Reads from a FIFO that holds `count` bytes: whole words, and at the end of the transfer the
    /// last bytes.
    pub(super) fn drain(&mut self, segments: &[Segment], count: u32) {
        let count = count.min(FIFO_BYTES);
        let bytes = if count >= self.transfer.left { self.transfer.left } else { count & !3 };
        self.transfer.left -= bytes;
        match self.transfer.cursor.take(segments, bytes) {
            Some(place) => self.drain_to(place, bytes),
            None => {
                for at in (0..bytes).step_by(4) {
                    let word = self.regs.read32(DATA);
                    self.transfer.cursor.store(segments, word, (bytes - at).min(4));
                }
            }
        }
    }

    /// Writes data into the FIFO, which holds `count` bytes already, until only its last word is
    /// free. The last word stays free because known drivers never fill the FIFO completely.
    pub(super) fn fill(&mut self, segments: &[Segment], count: u32) {
        let room = (FIFO_BYTES - 1).saturating_sub(count) & !3;
        let bytes = room.min(self.transfer.left);
        self.transfer.left -= bytes;
        match self.transfer.cursor.take(segments, bytes) {
            Some(place) => self.fill_from(place, bytes),
            None => {
                for at in (0..bytes).step_by(4) {
                    let word = self.transfer.cursor.load(segments, (bytes - at).min(4));
                    self.regs.write32(DATA, word);
                }
            }
        }
    }

    /// Reads `bytes` bytes from the FIFO into contiguous memory.
    fn drain_to(&self, place: NonNull<u8>, bytes: u32) {
        let (whole, tail) = (bytes as usize / 4, bytes as usize % 4);
        let words = place.cast::<u32>();
        for at in 0..whole {
            // SAFETY: `place` has room for `bytes` bytes, which include this word; the phase owns
            // that memory.
            unsafe { words.add(at).write_unaligned(self.regs.read32(DATA).to_le()) };
        }
        if tail != 0 {
            let last = self.regs.read32(DATA).to_le_bytes();
            for (at, value) in last.into_iter().take(tail).enumerate() {
                // SAFETY: the byte is one of the `bytes` bytes at `place`, since `4 * whole + at <
                // bytes`.
                unsafe { place.add(4 * whole + at).write(value) };
            }
        }
    }

    /// Writes `bytes` bytes of contiguous memory to the FIFO.
    fn fill_from(&self, place: NonNull<u8>, bytes: u32) {
        let (whole, tail) = (bytes as usize / 4, bytes as usize % 4);
        let words = place.cast::<u32>();
        for at in 0..whole {
            // SAFETY: `place` holds `bytes` bytes, which include this word; the phase owns that
            // memory.
            self.regs.write32(DATA, u32::from_le(unsafe { words.add(at).read_unaligned() }));
        }
        if tail != 0 {
            let mut last = [0; 4];
            for (at, value) in last.iter_mut().take(tail).enumerate() {
                // SAFETY: the byte is one of the `bytes` bytes at `place`, since `4 * whole + at <
                // bytes`.
                *value = unsafe { place.add(4 * whole + at).read() };
            }
            self.regs.write32(DATA, u32::from_le_bytes(last));
        }
    }
}
