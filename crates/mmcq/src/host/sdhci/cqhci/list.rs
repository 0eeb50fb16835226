//! The task descriptor list in memory [eMMC 5.1, B.4].

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::super::table::piece;
use super::regs::*;
use crate::host::{Dma, Segment};

/// Alignment of the list's bus address, in bytes.
const ALIGN_BYTES: u64 = 1024;
/// Size of the largest task descriptor list in words of 32 bits.
const LIST_WORDS: usize = 256;
/// Boundary in bytes that a transfer descriptor must not cross on some controllers.
const BOUNDARY_BYTES: u64 = 128 << 20;

/// Memory for the tasks of 32 slots, each with up to `PIECES` transfer descriptors. The controller
/// reads it, so it must live as long as the program.
#[repr(C, align(1024))]
#[derive(Debug)]
pub struct TaskList<const PIECES: usize> {
    /// Memory for the task descriptor list. It has twice the size of the list, because the list
    /// must begin at a bus address that is a multiple of 1024.
    slots: [u32; 2 * LIST_WORDS],
    /// Transfer descriptors of each slot's task.
    pieces: [[[u32; 4]; PIECES]; 32],
}

impl<const PIECES: usize> TaskList<PIECES> {
    /// Size in bytes of this memory: the task descriptor list and the transfer descriptors of all
    /// slots.
    pub const BYTES: usize = size_of::<Self>();
    /// Offset in bytes from the beginning of this memory to the transfer descriptors of slot 0.
    pub(super) const PIECES_AT: usize = 8 * LIST_WORDS;
    /// Size in bytes of the transfer descriptors of one slot.
    pub(super) const SLOT_BYTES: usize = 16 * PIECES;

    /// Makes an empty list.
    pub const fn new() -> Self {
        TaskList { slots: [0; 2 * LIST_WORDS], pieces: [[[0; 4]; PIECES]; 32] }
    }

    /// Returns the offset in bytes at which the task descriptor list begins in this structure: at
    /// the first multiple of `ALIGN_BYTES`. `bus`: bus address of the structure. `None`: `bus` is
    /// not a multiple of 16, or `PIECES` (memory segments in a task) is 0.
    pub(super) fn offset(bus: u64) -> Option<usize> {
        let offset = bus.wrapping_neg() & (ALIGN_BYTES - 1);
        (PIECES > 0 && offset.is_multiple_of(16)).then_some(offset as usize)
    }

    /// Writes the link descriptor of each slot, which points to the slot's transfer descriptors.
    /// `bus` is the bus address of this memory. Called once, because a new task uses the same link.
    pub(super) fn link(&mut self, form: &Form, bus: u64) {
        for slot in 0..32u8 {
            let at = bus + (Self::PIECES_AT + usize::from(slot) * Self::SLOT_BYTES) as u64;
            let Some([_, link]) = self.slot(form, slot) else { continue };
            put(link, VALID | ACT_LINK, at);
        }
    }

    /// Removes the link of the slot for direct commands, which have no data.
    pub(super) fn unlink(&mut self, form: &Form, slot: u8) {
        if let Some([_, link]) = self.slot(form, slot) {
            put(link, END, 0);
        }
    }

    /// Returns the memory of a slot's task descriptor and link descriptor; `None` if the slot does
    /// not exist.
    #[inline(always)]
    fn slot(&mut self, form: &Form, slot: u8) -> Option<[&mut [u32]; 2]> {
        let half = form.half_words();
        let at = form.offset / 4 + 2 * half * usize::from(slot);
        let (task, link) = self.slots.get_mut(at..at + 2 * half)?.split_at_mut(half);
        Some([task, link])
    }

    /// Writes the task descriptor of a slot: `head` is its first word, and `argument` its second
    /// (the address on the card, or the argument of a direct command).
    #[inline(always)]
    pub(super) fn describe(&mut self, form: &Form, slot: u8, head: u32, argument: u32) {
        if let Some([[first, second, ..], _]) = self.slot(form, slot) {
            write(first, head);
            write(second, argument);
        }
    }

    /// Writes the transfer descriptors of a slot for the first `bytes` bytes of the segments.
    /// Returns the size of the descriptors in bytes. `None` if the segments have fewer bytes, the
    /// slot has too few descriptors, or an address does not fit a descriptor.
    #[inline(always)]
    pub(super) fn build(
        &mut self,
        form: &Form,
        dma: &impl Dma,
        slot: u8,
        segments: &[Segment],
        bytes: u32,
    ) -> Option<usize> {
        let words = self.pieces.get_mut(usize::from(slot))?.as_flattened_mut();
        if let [segment] = segments
            && bytes <= segment.len.min(form.chunk)
            && !form.bounded
            && let Some((bus, here)) = piece(dma, form.words, segment.bus, bytes)
            && here == bytes
        {
            // The data are in one piece, as in nearly every small request.
            put(words.get_mut(..form.words)?, bytes << 16 | VALID | END | ACT_TRANSFER, bus);
            return Some(4 * form.words);
        }
        build_list(words, form, dma, segments, bytes, PIECES)
    }
}

impl<const PIECES: usize> Default for TaskList<PIECES> {
    fn default() -> Self {
        Self::new()
    }
}

/// The format of the descriptors that the controller reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Whether tasks have 128 bits and addresses 64 bits.
    pub(super) wide: bool,
    /// Size of a transfer descriptor in words of 32 bits: 2, 3 or 4.
    pub(super) words: usize,
    /// Largest number of bytes of one descriptor.
    pub(super) chunk: u32,
    /// Whether a descriptor must not cross a boundary of 128 MiB.
    pub(super) bounded: bool,
    /// Offset in bytes from the beginning of a [`TaskList`] to its task descriptor list.
    pub(super) offset: usize,
}

impl Form {
    #[inline(always)]
    fn half_words(&self) -> usize {
        if self.wide { 4 } else { 2 }
    }

    /// Returns the offset of a slot's task descriptor in the [`TaskList`], and its size, both in
    /// bytes.
    #[inline(always)]
    pub(super) fn task_at(&self, slot: u8) -> (usize, usize) {
        let bytes = 4 * self.half_words();
        (self.offset + 2 * bytes * usize::from(slot), bytes)
    }
}

#[cold]
#[inline(never)]
fn build_list(
    words: &mut [u32],
    form: &Form,
    dma: &impl Dma,
    segments: &[Segment],
    bytes: u32,
    pieces: usize,
) -> Option<usize> {
    // A descriptor has at least 2 words; `max` shows the compiler that chunks of 0 words cannot
    // panic.
    let mut places = words.chunks_exact_mut(form.words.max(2)).take(pieces);
    let (mut used, mut left) = (0, bytes);
    for segment in segments {
        let mut bus = segment.bus;
        let mut here = segment.len.min(left);
        left -= here;
        while here != 0 {
            let (at, mut chunk) = piece(dma, form.words, bus, here.min(form.chunk))?;
            if form.bounded {
                let room = BOUNDARY_BYTES - at % BOUNDARY_BYTES;
                chunk = chunk.min(u32::try_from(room).unwrap_or(chunk));
            }
            here -= chunk;
            let end = if left == 0 && here == 0 { END } else { 0 };
            // A length of 64 KiB is written as 0, since its upper bits are shifted out.
            put(places.next()?, chunk << 16 | VALID | ACT_TRANSFER | end, at);
            bus = bus.wrapping_add(chunk.into());
            used += 1;
        }
        if left == 0 {
            break;
        }
    }
    (left == 0).then_some(4 * used * form.words)
}

/// Writes a descriptor: `head` is its first word, and `bus` the address in it. Leaves out the
/// fields that the descriptor's format lacks.
#[inline]
fn put(place: &mut [u32], head: u32, bus: u64) {
    let fields = [head, bus as u32, (bus >> 32) as u32, 0];
    for (place, value) in place.iter_mut().zip(fields) {
        write(place, value);
    }
}

#[inline(always)]
fn write(place: &mut u32, value: u32) {
    // SAFETY: a valid, exclusive reference. The write is volatile, since the controller reads the
    // word and this program does not.
    unsafe { core::ptr::from_mut(place).write_volatile(value.to_le()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::dma::tests::{Plain, Scattered};
    use core::ptr::NonNull;

    fn segment(bus: u64, len: u32) -> Segment {
        Segment { ptr: NonNull::dangling(), len, bus }
    }

    const NARROW: Form = Form { wide: false, words: 2, chunk: 65_536, bounded: false, offset: 0 };
    const WIDE: Form = Form { wide: true, words: 4, ..NARROW };

    #[test]
    fn slots_lie_where_each_form_has_them() {
        let mut list = TaskList::<2>::new();
        list.link(&NARROW, 0x1000);
        list.describe(&NARROW, 3, 0x11, 0x22);
        assert_eq!(list.slots[12..16], [0x11, 0x22, 0x31, 0x1000 + 2048 + 3 * 32]);
        assert_eq!(NARROW.task_at(3), (48, 8));
        let mut list = TaskList::<2>::new();
        let form = Form { offset: 64, ..WIDE };
        list.link(&form, 0x12_0000_03c0);
        list.describe(&form, 31, 0x11, 0x22);
        let end = 0x3c0 + 2048 + 31 * 32;
        assert_eq!(list.slots[16 + 248..16 + 256], [0x11, 0x22, 0, 0, 0x31, end, 0x12, 0]);
        list.unlink(&form, 31);
        assert_eq!(list.slots[16 + 252..16 + 256], [2, 0, 0, 0]);
        assert_eq!(form.task_at(31), (64 + 31 * 32, 16));
    }

    #[test]
    fn the_list_begins_at_1_kib_as_the_controller_sees_it() {
        assert_eq!(TaskList::<1>::offset(0x4000_0000), Some(0));
        assert_eq!(TaskList::<1>::offset(0x4000_03c0), Some(64));
        assert_eq!(TaskList::<1>::offset(0x4000_0010), Some(1008));
        assert_eq!(TaskList::<1>::offset(0x4000_0008), None);
        assert_eq!(TaskList::<0>::offset(0), None);
        assert_eq!(TaskList::<4>::BYTES, 2048 + 32 * 64);
    }

    #[test]
    fn a_mapping_in_pieces_has_a_descriptor_for_each() {
        let dma = Scattered(&[(0x9000, 512), (0x7ff_fe00, 1024)]);
        let mut list = TaskList::<3>::new();
        assert_eq!(list.build(&NARROW, &dma, 1, &[segment(0, 1536)], 1536), Some(16));
        let words = list.pieces[1].as_flattened();
        assert_eq!(words[..4], [0x200_0021, 0x9000, 0x400_0023, 0x7ff_fe00]);
        // The boundary is one of bus addresses.
        let bounded = Form { bounded: true, ..NARROW };
        assert_eq!(list.build(&bounded, &dma, 1, &[segment(0, 1536)], 1536), Some(24));
        let words = list.pieces[1].as_flattened();
        assert_eq!(words[2..6], [0x200_0021, 0x7ff_fe00, 0x200_0023, 0x800_0000]);
        assert_eq!(list.build(&NARROW, &dma, 1, &[segment(0, 2048)], 2048), None);
    }

    #[test]
    fn transfers_are_split_where_they_must_be() {
        let mut list = TaskList::<3>::new();
        let pieces = [segment(0x7ff_fe00, 1024), segment(0x9_0000, 0x1_8000)];
        assert_eq!(list.build(&NARROW, &Plain, 1, &pieces[..1], 1024), Some(8));
        assert_eq!(list.pieces[1].as_flattened()[..2], [0x400_0023, 0x7ff_fe00]);
        let short = Form { words: 3, bounded: true, ..WIDE };
        assert_eq!(list.build(&short, &Plain, 1, &pieces, 1536), Some(36));
        let words = list.pieces[1].as_flattened();
        assert_eq!(
            words[..9],
            [0x200_0021, 0x7ff_fe00, 0, 0x200_0021, 0x800_0000, 0, 0x200_0023, 0x9_0000, 0]
        );
        assert_eq!(list.build(&WIDE, &Plain, 1, &pieces, 1024 + 0x1_8000), Some(48));
        let words = list.pieces[1].as_flattened();
        assert_eq!((words[4], words[8], words[9]), (0x21, 0x8000_0023, 0xa_0000));
        assert_eq!(
            list.build(&short, &Plain, 1, &pieces, 1024 + 0x1_8000),
            None,
            "four, and there are three"
        );
        assert_eq!(list.build(&WIDE, &Plain, 1, &pieces, 1 << 20), None);
        assert_eq!(list.build(&WIDE, &Plain, 32, &pieces, 512), None);
    }
}
