//! ADMA2 descriptors [SDHC 1.13.4].

use super::regs::{ADMA_END, ADMA_TRANSFER, ADMA_VALID};
use crate::host::Segment;

/// Memory for `DESCRIPTORS` ADMA2 descriptors of any form; the controller reads it, so it lives as long as the program.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct Table<const DESCRIPTORS: usize> {
    words: [[u32; 4]; DESCRIPTORS],
}

impl<const DESCRIPTORS: usize> Table<DESCRIPTORS> {
    /// Its size in bytes.
    pub const BYTES: usize = 16 * DESCRIPTORS;

    /// An empty table.
    pub const fn new() -> Self {
        Table { words: [[0; 4]; DESCRIPTORS] }
    }

    /// Describes the first `bytes` of the segments; gives the bytes of table that are in use, or `None` if there is too
    /// little memory in the segments or too little room in the table.
    pub(super) fn build(&mut self, form: Form, segments: &[Segment], bytes: u32) -> Option<usize> {
        let mut slots = self.words.as_flattened_mut().chunks_exact_mut(form.words).take(DESCRIPTORS);
        let mut used = 0;
        let mut left = bytes;
        for segment in segments {
            let mut bus = segment.bus;
            let mut here = segment.len.min(left);
            left -= here;
            while here != 0 {
                let chunk = here.min(form.chunk);
                here -= chunk;
                let end = if left == 0 && here == 0 && !form.nop_end { ADMA_END } else { 0 };
                // A length of 64 KiB is written as 0: its upper bits fall off.
                put(slots.next()?, chunk << 16 | ADMA_TRANSFER | ADMA_VALID | end, bus);
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
            put(slots.next()?, ADMA_VALID | ADMA_END, 0);
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

/// How descriptors look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// 32-bit words in one: 2 (32-bit), 3 (64-bit, version 3), 4 (64-bit, version 4).
    pub(super) words: usize,
    /// Most bytes that one may move.
    pub(super) chunk: u32,
    /// The end is a descriptor of its own.
    pub(super) nop_end: bool,
}

/// Writes one descriptor; the fields that its form does not have are left out.
fn put(slot: &mut [u32], head: u32, bus: u64) {
    let words = [head, bus as u32, (bus >> 32) as u32, 0];
    for (place, value) in slot.iter_mut().zip(words) {
        // SAFETY: a valid, exclusive reference. Volatile, since the reader is the controller and not this program.
        unsafe { core::ptr::from_mut(place).write_volatile(value.to_le()) };
    }
}
