//! Position of the CPU in a list of segments, for a transfer without DMA.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Segment;
use core::ptr::NonNull;

/// Position of a PIO transfer in its segments. A new cursor is at their beginning.
///
/// Each call gets the segments of the [`Phase`](super::Phase) in progress (a command with its
/// data), and continues where the call before has stopped. The driver decides how many bytes a call
/// transfers, by what the FIFO holds or accepts. Memory outside of the segments is never accessed.
///
/// A driver gets segments only as the argument of its methods, and its `unsafe impl Host` promises
/// when their memory is accessed. A call of a cursor is such an access: see [`Host`](super::Host).
///
/// # Examples
/// ```
/// use mmcq::host::pio::Cursor;
/// use mmcq::host::{Direction, Regs, Segment};
///
/// const FIFO: u16 = 0x24;
///
/// /// Moves the next words, 32 bytes at most.
/// fn some_words<R: Regs>(
///     regs: &R,
///     direction: Direction,
///     cursor: &mut Cursor,
///     segments: &[Segment],
///     left_bytes: &mut u32,
/// ) {
///     let bytes = (*left_bytes).min(32);
///     match direction {
///         Direction::Read => cursor.fill(segments, bytes, || regs.read32(FIFO)),
///         Direction::Write => cursor.drain(segments, bytes, |word| regs.write32(FIFO, word)),
///     }
///     *left_bytes -= bytes;
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    segment: usize,
    offset: u32,
}

impl Cursor {
    /// Returns a pointer to the next `len` bytes, and skips them; `None` if they are not in one
    /// segment.
    pub(crate) fn take(&mut self, segments: &[Segment], len: u32) -> Option<NonNull<u8>> {
        let segment = segments.get(self.segment)?;
        let end = self.offset.checked_add(len)?;
        if end > segment.len {
            return None;
        }
        // SAFETY: `offset <= end <= len`, so the place is in the segment's memory, or at its end.
        let place = unsafe { segment.ptr.add(self.offset as usize) };
        self.offset = end;
        if end == segment.len {
            *self = Cursor { segment: self.segment + 1, offset: 0 };
        }
        Some(place)
    }

    /// Returns the next `len` bytes as a segment; `None` if they are not in one segment.
    pub(crate) fn piece(&self, segments: &[Segment], len: u32) -> Option<Segment> {
        let piece = segments.get(self.segment)?.part(self.offset, len);
        (piece.len == len).then_some(piece)
    }

    /// Passes the next `len` bytes to the function `f`, skips them, and returns the function's
    /// result; `None` if they are not in one segment. The controller must not be using them.
    pub(crate) fn with_bytes<R>(
        &mut self,
        segments: &[Segment],
        len: u32,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let place = self.take(segments, len)?;
        // SAFETY: `place` has `len` bytes, which the caller's phase owns (contract of `Segment`),
        // and nothing writes them during the call.
        Some(f(unsafe { core::slice::from_raw_parts(place.as_ptr(), len as usize) }))
    }

    /// Returns a pointer to the next byte, and skips that byte and empty segments before it; `None`
    /// at the end of the segments.
    fn byte(&mut self, segments: &[Segment]) -> Option<NonNull<u8>> {
        while segments.get(self.segment).is_some_and(|segment| segment.len == 0) {
            self.segment += 1;
        }
        self.take(segments, 1)
    }

    /// Stores the low `count` (at most 4) bytes of a word; drops bytes beyond the end of the
    /// segments.
    pub(crate) fn store(&mut self, segments: &[Segment], word: u32, count: u32) {
        for value in word.to_le_bytes().into_iter().take(count as usize) {
            if let Some(place) = self.byte(segments) {
                // SAFETY: the byte is inside of a segment that the caller's phase owns.
                unsafe { place.write(value) };
            }
        }
    }

    /// Returns the next `count` (at most 4) bytes of the segments in the low bytes of a word. Bytes
    /// beyond the end of the segments are zero.
    pub(crate) fn load(&mut self, segments: &[Segment], count: u32) -> u32 {
        let mut bytes = [0u8; 4];
        for value in bytes.iter_mut().take(count as usize) {
            if let Some(place) = self.byte(segments) {
                // SAFETY: the byte is inside of a segment that the caller's phase owns.
                *value = unsafe { place.read() };
            }
        }
        u32::from_le_bytes(bytes)
    }

    /// Fills the next `bytes` of the segments with words that `pop` reads from a FIFO; the first
    /// byte is in bits 7:0 of a word. Words that do not fit into the segments are read and dropped.
    /// Only for reads, because a driver must not change the memory of a write.
    pub fn fill(&mut self, segments: &[Segment], bytes: u32, mut pop: impl FnMut() -> u32) {
        let (whole, tail) = (bytes / 4, bytes % 4);
        match self.take(segments, whole * 4) {
            Some(place) => {
                let words = place.cast::<u32>();
                // Two loops are worthwhile: on CPUs without unaligned access the second loop stores
                // byte by byte.
                if words.is_aligned() {
                    for at in 0..whole as usize {
                        // SAFETY: `place` has room for `whole` words, of which this is one; the
                        // caller's phase owns that memory.
                        unsafe { words.add(at).write(pop().to_le()) };
                    }
                } else {
                    for at in 0..whole as usize {
                        // SAFETY: this word is one of the `whole` words at `place`; the phase owns
                        // that memory.
                        unsafe { words.add(at).write_unaligned(pop().to_le()) };
                    }
                }
            }
            None => (0..whole).for_each(|_| self.store(segments, pop(), 4)),
        }
        if tail != 0 {
            self.store(segments, pop(), tail);
        }
    }

    /// Passes the next `bytes` of the segments to `push`, which writes words into a FIFO; the first
    /// byte is in bits 7:0 of a word. Bytes beyond the end of the segments are passed as zero, and
    /// so are the unused bytes of the last word.
    pub fn drain(&mut self, segments: &[Segment], bytes: u32, mut push: impl FnMut(u32)) {
        let (whole, tail) = (bytes / 4, bytes % 4);
        match self.take(segments, whole * 4) {
            Some(place) => {
                let words = place.cast::<u32>();
                // Two loops, as in `fill`.
                if words.is_aligned() {
                    for at in 0..whole as usize {
                        // SAFETY: `place` holds `whole` words, of which this is one; the caller's
                        // phase owns that memory.
                        push(u32::from_le(unsafe { words.add(at).read() }));
                    }
                } else {
                    for at in 0..whole as usize {
                        // SAFETY: this word is one of the `whole` words at `place`; the phase owns
                        // that memory.
                        push(u32::from_le(unsafe { words.add(at).read_unaligned() }));
                    }
                }
            }
            None => (0..whole).for_each(|_| push(self.load(segments, 4))),
        }
        if tail != 0 {
            push(self.load(segments, tail));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    /// Tests transfers of 23 bytes with every combination of segment lengths (`cuts`) and lengths
    /// of calls (`runs`): the bytes must arrive in order.
    #[test]
    fn words_meet_pieces_of_any_length() {
        let content: Vec<u8> = (1..=23).collect();
        let cuts: [&[usize]; 5] = [&[23], &[4, 19], &[0, 3, 0, 5, 15], &[1; 23], &[20, 3]];
        let runs: [&[u32]; 4] = [&[23], &[8, 15], &[4, 4, 4, 4, 4, 3], &[16, 7]];
        for (cut, run) in cuts.into_iter().flat_map(|cut| runs.map(|run| (cut, run))) {
            let mut from = content.clone();
            let mut into = [0u8; 23];
            let (source, target) = (pieces(&mut from, cut), pieces(&mut into, cut));
            let (mut reads, mut writes) = (Cursor::default(), Cursor::default());
            for &bytes in run {
                let mut words = Vec::new();
                reads.drain(&source, bytes, |word| words.push(word));
                assert_eq!(words.len() as u32, bytes.div_ceil(4));
                let mut words = words.into_iter();
                writes.fill(&target, bytes, || words.next().unwrap());
            }
            assert_eq!(into[..], content[..], "{cut:?} {run:?}");
        }
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_what_is_missing_is_zero() {
        let mut memory = [9u8; 6];
        let segments = pieces(&mut memory, &[6]);
        let mut cursor = Cursor::default();
        let mut popped = 0;
        cursor.fill(&segments, 12, || {
            popped += 1;
            0x0403_0201
        });
        assert_eq!(popped, 3);
        let mut words = Vec::new();
        Cursor::default().drain(&segments, 12, |word| words.push(word));
        assert_eq!(words, [0x0403_0201, 0x0201, 0]);
        assert_eq!(memory, [1, 2, 3, 4, 1, 2]);
    }

    fn pieces(memory: &mut [u8], lengths: &[usize]) -> Vec<Segment> {
        let mut rest = memory;
        let cut = lengths.iter().map(|&len| {
            let (piece, after) = core::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            Segment { ptr: NonNull::from(&mut *piece).cast(), len: len as u32, bus: 0 }
        });
        cut.collect()
    }
}
