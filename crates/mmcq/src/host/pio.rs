//! The CPU's side of a transfer without DMA: a place in a list of segments.

use super::Segment;
use core::ptr::NonNull;

/// How far a PIO transfer has got in its segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    segment: usize,
    offset: u32,
}

impl Cursor {
    /// The next `len` bytes if they lie in one piece, and steps over them.
    pub(crate) fn take(&mut self, segments: &[Segment], len: u32) -> Option<NonNull<u8>> {
        let segment = segments.get(self.segment)?;
        let end = self.offset.checked_add(len)?;
        if end > segment.len {
            return None;
        }
        // SAFETY: `offset <= end <= len`, so the place lies in (or at the end of) the segment's memory.
        let place = unsafe { segment.ptr.add(self.offset as usize) };
        self.offset = end;
        if end == segment.len {
            *self = Cursor { segment: self.segment + 1, offset: 0 };
        }
        Some(place)
    }

    /// The next single byte; empty segments are stepped over.
    fn byte(&mut self, segments: &[Segment]) -> Option<NonNull<u8>> {
        while segments.get(self.segment).is_some_and(|segment| segment.len == 0) {
            self.segment += 1;
        }
        self.take(segments, 1)
    }

    /// Stores the low `count` (at most 4) bytes of a word; what finds no room is dropped.
    pub(crate) fn store(&mut self, segments: &[Segment], word: u32, count: u32) {
        for value in word.to_le_bytes().into_iter().take(count as usize) {
            if let Some(place) = self.byte(segments) {
                // SAFETY: a byte of a segment that the caller's phase owns (`Segment`'s contract).
                unsafe { place.write(value) };
            }
        }
    }

    /// Loads `count` (at most 4) bytes into the low end of a word; what is missing reads as zero.
    pub(crate) fn load(&mut self, segments: &[Segment], count: u32) -> u32 {
        let mut bytes = [0u8; 4];
        for value in bytes.iter_mut().take(count as usize) {
            if let Some(place) = self.byte(segments) {
                // SAFETY: a byte of a segment that the caller's phase owns (`Segment`'s contract).
                *value = unsafe { place.read() };
            }
        }
        u32::from_le_bytes(bytes)
    }
}
