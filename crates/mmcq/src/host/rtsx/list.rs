//! The structures that the chip reads from memory: the list of register operations, and the
//! scatter/gather table.
//!
//! An operation is a little-endian word: kind in 31:30, register address in 29:16, mask in 15:8,
//! data in 7:0. WRITE changes the bits under the mask, CHECK waits until these bits equal the data,
//! READ reads the byte. READ and CHECK return one byte each. The chip can pack these bytes over the
//! beginning of the same list.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::regs::*;
use crate::host::dma::piece_below;
use crate::host::{Dma, Segment};
use crate::spec::command::Command;

/// Largest number of operations in a list.
pub(super) const OPERATIONS: usize = 256;
/// Number of entries in the scatter/gather table.
pub(super) const SEGMENTS: usize = 256;
/// Largest number of bytes in one table entry.
pub(super) const SEGMENT_BYTES: u32 = 512 * 1024;

const KIND_READ: u32 = 0 << 30;
const KIND_WRITE: u32 = 1 << 30;
const KIND_CHECK: u32 = 2 << 30;
const ADDRESS: u16 = 0x3fff;

const ENTRY_VALID: u64 = 1 << 0;
const ENTRY_END: u64 = 1 << 1;
const ENTRY_TRANSFER: u64 = 1 << 5;

/// Memory for one list (1024 bytes) and one table (2048 bytes). The chip accesses it, so it must
/// live as long as the program.
#[repr(C, align(1024))]
#[derive(Debug)]
pub struct Buffers {
    pub(super) operations: [u32; OPERATIONS],
    pub(super) table: [u64; SEGMENTS],
}

impl Buffers {
    /// Largest number of pieces of memory in one transfer.
    pub const SEGMENTS: usize = SEGMENTS;
    /// Size of the list of register accesses, which the chip reads by DMA, in bytes.
    pub const LIST_BYTES: usize = 4 * OPERATIONS;
    /// Size in bytes of the DMA table: an entry of 8 bytes for each memory segment.
    pub const TABLE_BYTES: usize = 8 * SEGMENTS;

    /// Makes empty buffers.
    pub const fn new() -> Self {
        Buffers { operations: [0; OPERATIONS], table: [0; SEGMENTS] }
    }

    /// Begins an empty list in this memory.
    pub(super) fn list(&mut self) -> List<'_> {
        List { operations: &mut self.operations, used: 0, returned: 0, full: false }
    }

    /// Returns the byte that an operation of the list, a READ or CHECK, has returned. `at`: number
    /// of this operation among those that return a byte.
    pub(super) fn returned(&self, at: usize) -> u8 {
        let Some(word) = self.operations.get(at / 4) else { return 0 };
        // SAFETY: a valid reference. The read is volatile, since the chip writes the word.
        let word = u32::from_le(unsafe { core::ptr::from_ref(word).read_volatile() });
        word.to_le_bytes().get(at % 4).copied().unwrap_or(0)
    }

    /// Writes table entries for the first `bytes` bytes of the segments, one for each piece of
    /// memory. Returns the number of bytes of the table in use, or `None` if the segments are too
    /// short, the table is too small, or the chip cannot reach a piece.
    pub(super) fn build_table(&mut self, dma: &impl Dma, segments: &[Segment], bytes: u32) -> Option<usize> {
        let mut entries = self.table.iter_mut();
        let mut used = 0;
        let mut left = bytes;
        for segment in segments {
            let mut bus = segment.bus;
            let mut here = segment.len.min(left);
            left -= here;
            while here != 0 {
                let (at, chunk) = piece_below(dma, 1 << 32, bus, here.min(SEGMENT_BYTES))?;
                here -= chunk;
                let end = if left == 0 && here == 0 { ENTRY_END } else { 0 };
                let entry = at << 32 | u64::from(chunk) << 12 | ENTRY_VALID | ENTRY_TRANSFER | end;
                // SAFETY: a valid, exclusive reference. The write is volatile, since the chip reads
                // the entry.
                unsafe { core::ptr::from_mut(entries.next()?).write_volatile(entry.to_le()) };
                bus = bus.wrapping_add(chunk.into());
                used += 8;
            }
            if left == 0 {
                break;
            }
        }
        (left == 0 && used != 0).then_some(used)
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

/// A list of operations that is being written.
pub(super) struct List<'a> {
    operations: &'a mut [u32; OPERATIONS],
    used: usize,
    returned: usize,
    full: bool,
}

/// Size of a finished list of register operations, and of the bytes that it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Size of the list in bytes.
    pub(super) bytes: usize,
    /// Number of bytes that the list's READs and CHECKs return.
    pub(super) returned: usize,
}

impl List<'_> {
    fn put(&mut self, kind: u32, register: u16, mask: u8, value: u8) {
        let Some(place) = self.operations.get_mut(self.used) else {
            self.full = true;
            return;
        };
        let word = kind | u32::from(register & ADDRESS) << 16 | u32::from(mask) << 8 | u32::from(value);
        // SAFETY: a valid, exclusive reference. The write is volatile, since the chip reads the
        // word and this program does not.
        unsafe { core::ptr::from_mut(place).write_volatile(word.to_le()) };
        self.used += 1;
    }

    /// Adds an entry to the command list that writes the bits of `mask` in a register of the chip.
    pub(super) fn write(&mut self, register: u16, mask: u8, value: u8) {
        self.put(KIND_WRITE, register, mask, value);
    }

    /// Adds an entry to the command list that writes all 8 bits of a chip register (a WRITE with
    /// the mask FFh).
    pub(super) fn set(&mut self, register: u16, value: u8) {
        self.write(register, 0xff, value);
    }

    /// Adds an entry to the command list that waits until all of `bits` are set in a register of
    /// the chip.
    pub(super) fn check(&mut self, register: u16, bits: u8) {
        self.put(KIND_CHECK, register, bits, bits);
        self.returned += 1;
    }

    /// Adds a READ of `count` registers from `register` on.
    pub(super) fn read(&mut self, register: u16, count: u16) {
        for at in 0..count {
            self.put(KIND_READ, register.wrapping_add(at), 0, 0);
        }
        self.returned += usize::from(count);
    }

    /// Adds WRITEs of the command's five bytes; the chip adds CRC and end bit.
    pub(super) fn command(&mut self, command: &Command) {
        self.set(SD_CMD0, 0x40 | command.index & 0x3f);
        for (at, byte) in (SD_CMD0 + 1..).zip(command.arg.to_be_bytes()) {
            self.set(at, byte);
        }
    }

    /// Adds to the list the register writes that set block size and number of blocks.
    pub(super) fn blocks(&mut self, block_bytes: u16, blocks: u16) {
        for (first, value) in [(SD_BYTE_COUNT, block_bytes), (SD_BLOCK_COUNT, blocks)] {
            for (at, byte) in (first..).zip(value.to_le_bytes()) {
                self.set(at, byte);
            }
        }
    }

    /// Adds the operations that set up DMA of `bytes` bytes between the ring buffer and memory: to
    /// memory if `from_card`, otherwise to the ring buffer.
    pub(super) fn dma(&mut self, bytes: u32, from_card: bool) {
        self.write(IRQ_STAT0, IRQ_DMA_DONE, IRQ_DMA_DONE);
        for (at, byte) in (DMA_COUNT..).zip(bytes.to_le_bytes()) {
            self.set(at, byte);
        }
        let direction = if from_card { DMA_FROM_CARD } else { 0 };
        let mask = DMA_BURST | DMA_FROM_CARD | DMA_ENABLE;
        self.write(DMA_CTL, mask, DMA_BURST_512 | direction | DMA_ENABLE);
    }

    /// Adds the operations that start a transfer (`mode`: its kind, as a value of SD_TRANSFER) and
    /// wait until SD_TRANSFER shows the bits `end`.
    pub(super) fn transfer(&mut self, mode: u8, end: u8) {
        self.set(SD_TRANSFER, TRANSFER_START | mode);
        self.check(SD_TRANSFER, end);
    }

    /// Returns the size of the finished list; `None` if the operations did not fit.
    pub(super) fn finish(self) -> Option<Extent> {
        (!self.full).then_some(Extent { bytes: 4 * self.used, returned: self.returned })
    }
}
