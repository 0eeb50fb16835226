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

/// Parameters of the descriptors that depend on the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Bus address of the table.
    pub(super) bus: u32,
    /// Largest number of bytes in one descriptor.
    pub(super) chunk: u32,
    /// Number of bits by which addresses are shifted right.
    pub(super) shift: u8,
    /// Bits that the last descriptor needs in addition.
    pub(super) last: u32,
}

impl<const DESCRIPTORS: usize> Descriptors<DESCRIPTORS> {
    /// Size of the table in bytes.
    pub const BYTES: usize = 16 * DESCRIPTORS;

    /// Makes an empty table.
    pub const fn new() -> Self {
        Descriptors { words: [[0; 4]; DESCRIPTORS] }
    }

    /// Writes descriptors for the first `bytes` bytes of the segments, and returns the number of
    /// bytes of the table in use. `None` if the segments are too short, or the table is too small.
    pub(super) fn build(&mut self, form: Form, segments: &[Segment], bytes: u32) -> Option<usize> {
        let mut slots = self.words.iter_mut();
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
                for (place, value) in slots.next()?.iter_mut().zip(words) {
                    // SAFETY: a valid, exclusive reference. The write is volatile, since the
                    // controller reads the word and this program does not.
                    unsafe { core::ptr::from_mut(place).write_volatile(value.to_le()) };
                }
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
