//! ADMA2 descriptors [SDHC 1.13.4].

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::regs::{ADMA_END, ADMA_TRANSFER, ADMA_VALID};
use crate::host::dma::piece_below;
use crate::host::{Dma, Segment};

/// Memory for `DESCRIPTORS` ADMA2 descriptors of any format. The controller reads it, so it must
/// live as long as the program.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Table<const DESCRIPTORS: usize> {
    words: [[u32; 4]; DESCRIPTORS],
}

impl<const DESCRIPTORS: usize> Table<DESCRIPTORS> {
    /// Size of the table in bytes.
    pub const BYTES: usize = 16 * DESCRIPTORS;

    /// Makes an empty table.
    pub const fn new() -> Self {
        Table { words: [[0; 4]; DESCRIPTORS] }
    }

    /// Returns the words that the controller reads.
    #[cfg(test)]
    pub(super) fn words(&self) -> &[u32] {
        self.words.as_flattened()
    }

    /// Writes descriptors for the first `bytes` bytes of the segments. Returns the number of bytes
    /// of the table in use. `None` if the segments have fewer bytes, the table has too few
    /// descriptors, or the address or length of a part cannot be written into a descriptor.
    #[inline]
    pub(super) fn build(
        &mut self,
        form: Form,
        dma: &impl Dma,
        segments: &[Segment],
        bytes: u32,
    ) -> Option<usize> {
        if let ([segment, ..], Some(slot)) = (segments, self.words.first_mut())
            && bytes <= segment.len.min(form.chunk)
            && !form.nop_end
            && let Some((bus, here)) = piece(dma, form.words, segment.bus, bytes)
            && here == bytes
        {
            // One piece: nearly every small request.
            put(slot, form.words, bytes << 16 | ADMA_TRANSFER | ADMA_VALID | ADMA_END, bus);
            return Some(form.words * 4);
        }
        self.build_list(form, dma, segments, bytes)
    }

    /// Writes the only descriptor of a segment of `bytes` bytes at bus address `bus`, in a format
    /// that needs no further descriptor as an end. Returns the number of bytes written to the
    /// table.
    #[inline(always)]
    pub(super) fn build_one(&mut self, form: Form, bytes: u32, bus: u64) -> usize {
        if let Some(slot) = self.words.first_mut() {
            put_here(slot, form.words, bytes << 16 | ADMA_TRANSFER | ADMA_VALID | ADMA_END, bus);
        }
        form.words * 4
    }

    #[inline(never)]
    fn build_list(&mut self, form: Form, dma: &impl Dma, segments: &[Segment], bytes: u32) -> Option<usize> {
        // A descriptor has at least 2 words; `max` shows the compiler that chunks of 0 words cannot
        // panic.
        let words = form.words.max(2);
        let mut slots = self.words.as_flattened_mut().chunks_exact_mut(words).take(DESCRIPTORS);
        let mut used = 0;
        let mut left = bytes;
        for segment in segments {
            let mut bus = segment.bus;
            let mut here = segment.len.min(left);
            left -= here;
            while here != 0 {
                let (at, chunk) = piece(dma, form.words, bus, here.min(form.chunk))?;
                here -= chunk;
                let end = if left == 0 && here == 0 && !form.nop_end { ADMA_END } else { 0 };
                // A length of 64 KiB is written as 0, since its upper bits are shifted out.
                put(slots.next()?, form.words, chunk << 16 | ADMA_TRANSFER | ADMA_VALID | end, at);
                bus = bus.wrapping_add(chunk.into());
                used += 1;
            }
            if left == 0 {
                break;
            }
        }
        if left != 0 {
            return None;
        }
        if form.nop_end {
            put(slots.next()?, form.words, ADMA_VALID | ADMA_END, 0);
            used += 1;
        }
        Some(used * form.words * 4)
    }
}

impl<const DESCRIPTORS: usize> Default for Table<DESCRIPTORS> {
    fn default() -> Self {
        Self::new()
    }
}

/// The format of the descriptors that the controller reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Size of a descriptor in words of 32 bits: 2 (32-bit), 3 (64-bit, version 3), 4 (64-bit,
    /// version 4).
    pub(super) words: usize,
    /// Largest number of bytes of one descriptor.
    pub(super) chunk: u32,
    /// Whether the list ends with a separate descriptor without data.
    pub(super) nop_end: bool,
}

/// Returns the controller's address for `bus`, an address inside a mapping, and how many of the
/// `bytes` bytes lie there in one piece: at least one byte. The address, and the length of all but
/// the last piece, are multiples of 4. `None` if a descriptor of `words` words cannot hold that
/// address.
#[inline(always)]
pub(super) fn piece<D: Dma>(dma: &D, words: usize, bus: u64, bytes: u32) -> Option<(u64, u32)> {
    piece_below(dma, if words > 2 { u64::MAX } else { 1 << 32 }, bus, bytes)
}

/// Writes one descriptor: `head` is its first word, and `bus` the address in it. Leaves out the
/// fields that a descriptor of `words` words lacks.
pub(super) fn put(slot: &mut [u32], words: usize, head: u32, bus: u64) {
    let fields = [head, bus as u32, (bus >> 32) as u32, 0];
    for (place, value) in slot.iter_mut().zip(fields).take(words) {
        write(place, value);
    }
}

/// Writes one descriptor of `words` words into `slot`: the first word `head`, and the bus address
/// `bus`. Does the same as `put`, but inline: fewer instructions are executed, and the code is
/// larger.
#[inline(always)]
fn put_here(slot: &mut [u32; 4], words: usize, head: u32, bus: u64) {
    let [first, second, third, fourth] = slot;
    write(first, head);
    write(second, bus as u32);
    if words > 2 {
        write(third, (bus >> 32) as u32);
        if words > 3 {
            write(fourth, 0);
        }
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

    fn form(words: usize) -> Form {
        Form { words, chunk: 65_536, nop_end: false }
    }

    #[test]
    fn one_block_in_each_form() {
        // [SDHC 1.13.4]: attributes 21h (Act 10b, Valid), End is bit 1; length in 31:16, address in
        // 63:32 (95:32).
        let pieces = [segment(0x12_3456_7890, 512)];
        let mut table = Table::<2>::new();
        assert_eq!(table.build(form(2), &Plain, &pieces, 512), Some(8));
        assert_eq!(table.words[0], [0x0200_0023, 0x3456_7890, 0, 0]);
        assert_eq!(table.build(form(3), &Plain, &pieces, 512), Some(12));
        assert_eq!(table.words[0], [0x0200_0023, 0x3456_7890, 0x12, 0]);
        table.words[0][3] = 7;
        assert_eq!(table.build(form(4), &Plain, &pieces, 512), Some(16));
        assert_eq!(table.words[0], [0x0200_0023, 0x3456_7890, 0x12, 0]);
    }

    #[test]
    fn splits_at_64_kib_and_trims_to_the_transfer() {
        let pieces = [segment(0x1000, 0x1_8000), segment(0x9_0000, 0x1_0000)];
        let mut table = Table::<4>::new();
        assert_eq!(table.build(form(2), &Plain, &pieces, 0x1_8000 + 512), Some(24));
        let words = table.words.as_flattened();
        assert_eq!(words[..6], [0x21, 0x1000, 0x8000_0021, 0x1_1000, 0x0200_0023, 0x9_0000]);
    }

    #[test]
    fn a_mapping_in_pieces_has_a_descriptor_for_each() {
        let pieces = [(0x9000, 512), (0x5000, 0x1_8000), (0xffff_f000, 0x1000)];
        let (dma, all) = (Scattered(&pieces), [segment(0, 0x1_9200)]);
        let mut table = Table::<4>::new();
        assert_eq!(table.build(form(2), &dma, &all, 0x1_9200), Some(32));
        let words = table.words.as_flattened();
        assert_eq!(words[..4], [0x0200_0021, 0x9000, 0x21, 0x5000]);
        assert_eq!(words[4..8], [0x8000_0021, 0x1_5000, 0x1000_0023, 0xffff_f000]);
        // A later part of the mapping, and a part that lies in one piece.
        assert_eq!(table.build(form(2), &dma, &[segment(256, 512)], 512), Some(16));
        assert_eq!(table.words.as_flattened()[..4], [0x0100_0021, 0x9100, 0x0100_0023, 0x5000]);
        assert_eq!(table.build(form(2), &dma, &[segment(1024, 512)], 512), Some(8));
        assert_eq!(table.words.as_flattened()[..2], [0x0200_0023, 0x5200]);
        let mut small = Table::<2>::new();
        assert_eq!(small.build(form(2), &dma, &all, 0x1_9200), None, "four, and there are two");
    }

    #[test]
    fn a_piece_that_no_descriptor_leads_to_is_refused() {
        let built = |words, pieces: &[(u64, u32)]| {
            let mut table = Table::<4>::new();
            table.build(form(words), &Scattered(pieces), &[segment(0, 1024)], 1024)
        };
        assert_eq!(built(2, &[(0x1000, 512)]), None, "nothing is known of the rest");
        assert_eq!(built(2, &[(0x1002, 512), (0x9000, 512)]), None);
        assert_eq!(built(2, &[(0x1000, 510), (0x9000, 514)]), None);
        assert_eq!(built(2, &[(0x1000, 512), (0x1_0000_0000, 512)]), None);
        assert_eq!(built(3, &[(0x1000, 512), (0x1_0000_0000, 512)]), Some(24));
        assert_eq!(built(4, &[(u64::MAX - 3, 1024)]), None);
    }

    #[test]
    fn quirks_change_length_and_end() {
        let pieces = [segment(0x1000, 65_536)];
        let mut table = Table::<3>::new();
        let form = Form { words: 2, chunk: 32_768, nop_end: true };
        assert_eq!(table.build(form, &Plain, &pieces, 65_536), Some(24));
        let words = table.words.as_flattened();
        assert_eq!(words[..6], [0x8000_0021, 0x1000, 0x8000_0021, 0x9000, 0x03, 0]);
    }

    #[test]
    fn too_little_memory_or_table_is_refused() {
        let mut table = Table::<1>::new();
        assert_eq!(table.build(form(2), &Plain, &[segment(0, 511)], 512), None);
        assert_eq!(table.build(form(2), &Plain, &[segment(0, 256), segment(0x800, 256)], 512), None);
        assert_eq!(table.build(form(2), &Plain, &[], 512), None);
        let nop_end = Form { nop_end: true, ..form(2) };
        assert_eq!(table.build(nop_end, &Plain, &[segment(0, 512)], 512), None);
    }
}
