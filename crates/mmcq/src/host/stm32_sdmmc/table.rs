//! The driver's own memory for the internal DMA: its linked list, with an entry for each piece of a
//! request's memory, and a bounce buffer. The bounce buffer is for data whose length is not a
//! multiple of a word or of a cache line.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::regs::{NEXT_FOLLOWS, NEXT_HAS_SIZE, NEXT_READY};
use crate::host::Segment;
use crate::host::pio::Cursor;
use core::ptr::NonNull;

/// Size of the bounce buffer in bytes: the longest block of CMD53 in byte mode.
pub(super) const BOUNCE_BYTES: u32 = 4 * BOUNCE_WORDS as u32;
/// The length of the memory that a list entry describes is a multiple of this many bytes. The DMA
/// transfers in bursts, of 32 bytes on version 2 and 64 on version 3; the driver uses 64 for both.
pub(super) const GRAIN_BYTES: u32 = 64;
/// Size of a list entry in bytes: link, address, size.
const ITEM_BYTES: u32 = 12;

/// Size of the bounce buffer in words of 32 bits.
const BOUNCE_WORDS: usize = 128;

/// Memory for the IDMA's linked list of `PIECES` entries, one for each piece of a request's memory,
/// and for a bounce buffer of 512 bytes. The controller reads and writes this memory, so it must
/// live as long as the program. With one entry the driver uses no list.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Pieces<const PIECES: usize> {
    bounce: [u32; BOUNCE_WORDS],
    items: [[u32; 3]; PIECES],
}

/// Register values that start a list: address and size of the first segment of memory, and the link
/// to the next list entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) next: u32,
    pub(super) base: u32,
    pub(super) size: u32,
}

impl<const PIECES: usize> Pieces<PIECES> {
    /// Size in bytes of the linked list of memory segments that the controller reads.
    pub(super) const LIST_BYTES: usize = ITEM_BYTES as usize * PIECES;

    /// Makes an empty list.
    pub const fn new() -> Self {
        Pieces { bounce: [0; BOUNCE_WORDS], items: [[0; 3]; PIECES] }
    }

    /// Returns a pointer to the list.
    pub(super) fn list(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.items).cast()
    }

    /// Returns a pointer to the bounce buffer, which has [`BOUNCE_BYTES`] bytes.
    pub(super) fn bounce(&mut self) -> NonNull<u8> {
        NonNull::from(&mut self.bounce).cast()
    }

    /// Copies the first `bytes` bytes of the segments to the bounce buffer, while no DMA uses it.
    pub(super) fn fill_bounce(&mut self, segments: &[Segment], bytes: u32) {
        let mut cursor = Cursor::default();
        let mut words = self.bounce.iter_mut();
        cursor.drain(segments, bytes, |word| {
            if let Some(place) = words.next() {
                // SAFETY: a valid, exclusive reference. The write is volatile, since the controller
                // reads the word and this program does not.
                unsafe { core::ptr::from_mut(place).write_volatile(word.to_le()) };
            }
        });
    }

    /// Copies the first `bytes` bytes of the bounce buffer to the segments, while no DMA uses it.
    pub(super) fn empty_bounce(&self, segments: &[Segment], bytes: u32) {
        let mut cursor = Cursor::default();
        let mut words = self.bounce.iter();
        let mut next = || {
            let Some(place) = words.next() else { return 0 };
            // SAFETY: a valid reference. The read is volatile, since the controller wrote the word.
            u32::from_le(unsafe { core::ptr::from_ref(place).read_volatile() })
        };
        cursor.fill(segments, bytes, &mut next);
    }

    /// Writes list entries for the first `bytes` bytes of the segments, each of at most `chunk`
    /// bytes, and returns the register values that start the list. `None` if the segments have
    /// fewer bytes, the list is too small, or an entry before the last has a length that is not a
    /// multiple of [`GRAIN_BYTES`].
    pub(super) fn build(&mut self, segments: &[Segment], bytes: u32, chunk: u32) -> Option<First> {
        let (mut used, mut left) = (0, bytes);
        let mut first = None;
        for segment in segments {
            let mut bus = segment.bus as u32;
            let mut here = segment.len.min(left);
            left -= here;
            while here != 0 {
                let size = here.min(chunk.max(GRAIN_BYTES));
                here -= size;
                let end = left == 0 && here == 0;
                if !end && !size.is_multiple_of(GRAIN_BYTES) {
                    return None;
                }
                let follows = if end { 0 } else { NEXT_FOLLOWS };
                let place = (used as u32 + 1) * ITEM_BYTES;
                let next = place | NEXT_HAS_SIZE | NEXT_READY | follows;
                let item = [next, bus, size.next_multiple_of(GRAIN_BYTES)];
                for (place, value) in self.items.get_mut(used)?.iter_mut().zip(item) {
                    // SAFETY: a valid, exclusive reference. The write is volatile, since the
                    // controller reads the word and this program does not.
                    unsafe { core::ptr::from_mut(place).write_volatile(value.to_le()) };
                }
                let [next, base, size_field] = item;
                first.get_or_insert(First { next, base, size: size_field });
                used += 1;
                bus = bus.wrapping_add(size);
            }
            if left == 0 {
                break;
            }
        }
        first.filter(|_| left == 0)
    }
}

impl<const PIECES: usize> Default for Pieces<PIECES> {
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
    fn pieces_follow_each_other_by_their_place_in_the_list() {
        let mut list = Pieces::<3>::new();
        let first = list.build(&[segment(0x2400_0000, 8192), segment(0x2401_0000, 512)], 8692, 4096);
        assert_eq!(first, Some(First { next: 0xe000_000c, base: 0x2400_0000, size: 4096 }));
        assert_eq!(list.items[1], [0xe000_0018, 0x2400_1000, 4096]);
        // The last entry may have any length: its size is rounded up, and the data path ends the
        // transfer.
        assert_eq!(list.items[2], [0x6000_0024, 0x2401_0000, 512]);
        let first = list.build(&[segment(0x2400_0000, 20)], 20, 4096);
        assert_eq!(first, Some(First { next: 0x6000_000c, base: 0x2400_0000, size: 64 }));
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let mut list = Pieces::<2>::new();
        // Too little memory, too many pieces, no memory at all, a first piece of 20 bytes or of 96.
        assert_eq!(list.build(&[segment(0, 508)], 512, 4096), None);
        assert_eq!(list.build(&[segment(0, 12288)], 12288, 4096), None);
        assert_eq!(list.build(&[], 512, 4096), None);
        assert_eq!(list.build(&[segment(0, 20), segment(64, 512)], 532, 4096), None);
        assert_eq!(list.build(&[segment(0, 96), segment(128, 512)], 608, 4096), None);
    }
}
