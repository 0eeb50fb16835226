//! Descriptors of the internal DMA: their memory, and how the driver fills them.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::regs::*;
use crate::host::Segment;

/// Memory for `DESCRIPTORS` DMA descriptors. The controller reads and writes it, so it must live as
/// long as the program.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Descriptors<const DESCRIPTORS: usize> {
    words: [[u32; 4]; DESCRIPTORS],
}

/// What the driver must know about the controller to fill descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Bus address of the table.
    pub(super) bus: u32,
    /// Largest number of bytes in one descriptor.
    pub(super) chunk: u32,
    /// Number of bits by which a memory address is shifted right before the driver writes it into a
    /// descriptor; 0: descriptors contain byte addresses.
    pub(super) shift: u8,
    /// Bits that the controller needs in a transfer's last descriptor beside [`DESCRIPTOR_LAST`].
    pub(super) last: u32,
}

impl<const DESCRIPTORS: usize> Descriptors<DESCRIPTORS> {
    /// Size of the table in bytes.
    pub const BYTES: usize = 16 * DESCRIPTORS;

    /// Makes an empty table.
    pub const fn new() -> Self {
        Descriptors { words: [[0; 4]; DESCRIPTORS] }
    }

    /// Returns the number of bytes for which the table is always long enough. The bytes are divided
    /// into up to `segments` segments in any way, a descriptor has up to `chunk` bytes, and one
    /// more descriptor stops the DMA.
    pub(super) const fn ring_bytes(chunk: u32, segments: u16) -> u32 {
        (DESCRIPTORS as u32).saturating_sub(segments as u32 + 1).saturating_mul(chunk)
    }

    /// Writes descriptors for the first `bytes` bytes of `pieces` (address and length of each),
    /// from index `at` of the table on; after the end of the table they continue at its beginning.
    /// The DMA does not own the next descriptor, so it stops there. Returns the index of that
    /// descriptor. `None` if the pieces are too short, or the table is too small.
    ///
    /// `begins` says that the DMA has not started yet. Otherwise the DMA waits at index `at`, so
    /// that descriptor is written last.
    pub(super) fn append(
        &mut self,
        form: Form,
        at: usize,
        pieces: impl Iterator<Item = (u64, u32)> + Clone,
        bytes: u32,
        begins: bool,
    ) -> Option<usize> {
        let chunk = form.chunk.max(1);
        let (mut count, mut left) = (0usize, bytes);
        for (_, len) in pieces.clone() {
            let here = len.min(left);
            count += here.div_ceil(chunk) as usize;
            left -= here;
        }
        if left != 0 || count == 0 || count >= DESCRIPTORS || at >= DESCRIPTORS {
            return None;
        }
        let next = |place: usize| if place + 1 < DESCRIPTORS { place + 1 } else { 0 };
        let link = |place: usize| form.bus.wrapping_add(16 * next(place) as u32) >> form.shift;
        let (mut place, mut left) = (at, bytes);
        let mut held = None;
        for (bus, len) in pieces {
            let (mut bus, mut here) = (bus as u32, len.min(left));
            left -= here;
            while here != 0 {
                let size = here.min(chunk);
                here -= size;
                let head = if begins && place == at { DESCRIPTOR_FIRST } else { 0 };
                let control = DESCRIPTOR_OWNED | DESCRIPTOR_CHAINED | DESCRIPTOR_QUIET | head;
                let words = [control, size, bus >> form.shift, link(place)];
                if place == at {
                    held = Some(words);
                } else {
                    self.set(place, words);
                }
                (place, bus) = (next(place), bus.wrapping_add(size));
            }
        }
        self.set(place, [0; 4]);
        self.set(at, held?);
        Some(place)
    }

    /// Writes the four words of the descriptor with index `place`.
    fn set(&mut self, place: usize, words: [u32; 4]) {
        let Some(slot) = self.words.get_mut(place) else { return };
        for (place, value) in slot.iter_mut().zip(words) {
            // SAFETY: a valid, exclusive reference. The write is volatile, since the controller
            // reads the word and this program does not.
            unsafe { core::ptr::from_mut(place).write_volatile(value.to_le()) };
        }
    }

    /// Writes descriptors for the first `bytes` bytes of the segments, and returns the number of
    /// bytes of the table in use. `None` if the segments are too short, or the table is too small.
    pub(super) fn build(&mut self, form: Form, segments: &[Segment], bytes: u32) -> Option<usize> {
        let (mut used, mut left) = (0u32, bytes);
        let mut head = DESCRIPTOR_FIRST;
        for segment in segments {
            let mut bus = segment.bus as u32;
            let mut here = segment.len.min(left);
            left -= here;
            while here != 0 {
                let chunk = here.min(form.chunk.max(1));
                here -= chunk;
                used += 1;
                let end = left == 0 && here == 0;
                let next = form.bus.wrapping_add(16 * used) >> form.shift;
                let (tail, next) = if end {
                    (DESCRIPTOR_LAST | form.last, 0)
                } else {
                    (DESCRIPTOR_CHAINED | DESCRIPTOR_QUIET, next)
                };
                let words = [DESCRIPTOR_OWNED | head | tail, chunk, bus >> form.shift, next];
                if used as usize > DESCRIPTORS {
                    return None;
                }
                self.set(used as usize - 1, words);
                head = 0;
                bus = bus.wrapping_add(chunk);
            }
            if left == 0 {
                break;
            }
        }
        (left == 0).then_some(16 * used as usize)
    }
}

impl<const DESCRIPTORS: usize> Default for Descriptors<DESCRIPTORS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    fn segment(bus: u64, len: u32) -> Segment {
        Segment { ptr: NonNull::dangling(), len, bus }
    }

    #[test]
    fn pieces_are_cut_and_chained() {
        let form = Form { bus: 0x8000, chunk: 4096, shift: 0, last: DESCRIPTOR_END };
        let mut table = Descriptors::<3>::new();
        assert_eq!(table.build(form, &[segment(0x1000, 512)], 512), Some(16));
        assert_eq!(table.words[0], [0x8000_002c, 512, 0x1000, 0]);
        let pieces = [segment(0x1000, 5120), segment(0x9_0000, 4096)];
        assert_eq!(table.build(form, &pieces, 5632), Some(48));
        assert_eq!(table.words[0], [0x8000_001a, 4096, 0x1000, 0x8010]);
        assert_eq!(table.words[1], [0x8000_0012, 1024, 0x2000, 0x8020]);
        assert_eq!(table.words[2], [0x8000_0024, 512, 0x9_0000, 0]);
    }

    #[test]
    fn a_ring_stops_behind_each_request_and_goes_on_there() {
        let form = Form { bus: 0x8000, chunk: 4096, shift: 0, last: 0 };
        let mut table = Descriptors::<4>::new();
        let pieces = [(0x1000, 5120), (0x9_0000, 4096)].into_iter();
        assert_eq!(table.append(form, 0, pieces.clone(), 5632, true), Some(3));
        assert_eq!(table.words[0], [0x8000_001a, 4096, 0x1000, 0x8010]);
        assert_eq!(table.words[1], [0x8000_0012, 1024, 0x2000, 0x8020]);
        assert_eq!(table.words[2], [0x8000_0012, 512, 0x9_0000, 0x8030]);
        assert_eq!(table.words[3], [0; 4]);
        // After the table's end; the DMA owned the first descriptor before, and does not now.
        assert_eq!(table.append(form, 3, [(0x4000, 512)].into_iter(), 512, false), Some(0));
        assert_eq!(table.words[3], [0x8000_0012, 512, 0x4000, 0x8000]);
        assert_eq!(table.words[0], [0; 4]);
        let before = table.words;
        assert_eq!(
            table.append(form, 0, [(0, 4 * 4096)].into_iter(), 4 * 4096, false),
            None,
            "no place to stop"
        );
        assert_eq!(table.append(form, 0, pieces.clone(), 9728, false), None);
        assert_eq!(table.append(form, 0, pieces.clone(), 0, false), None);
        assert_eq!(table.append(form, 4, pieces, 512, false), None);
        assert_eq!(table.words, before);
        assert_eq!(Descriptors::<4>::ring_bytes(4096, 2), 4096);
        assert_eq!(Descriptors::<4>::ring_bytes(4096, 9), 0);
    }

    #[test]
    fn shifted_addresses() {
        let form = Form { bus: 0x8000_0000, chunk: 4096, shift: 2, last: 0 };
        let mut table = Descriptors::<2>::new();
        assert_eq!(table.build(form, &[segment(0x4000_1000, 8192)], 8192), Some(32));
        assert_eq!(table.words[0], [0x8000_001a, 4096, 0x1000_0400, 0x2000_0004]);
        assert_eq!(table.words[1], [0x8000_0004, 4096, 0x1000_0800, 0]);
    }

    #[test]
    fn too_little_memory_or_table_is_refused() {
        let form = Form { bus: 0, chunk: 512, shift: 0, last: 0 };
        let mut table = Descriptors::<1>::new();
        assert_eq!(table.build(form, &[segment(0, 508)], 512), None);
        assert_eq!(table.build(form, &[segment(0, 1024)], 1024), None);
        assert_eq!(table.build(form, &[], 512), None);
    }
}
