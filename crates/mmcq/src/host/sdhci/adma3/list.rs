//! The list of a chain in memory, in ADMA3's format [SDHC 4.10, 1.13.5].
//!
//! Each transfer has an integrated descriptor, which points to its command descriptor: four pairs
//! of words that the controller writes to its registers. The ADMA2 table of the transfer's data
//! follows directly after the command descriptor.

use super::super::Table;
use super::super::regs::*;
use super::super::table::{Form, put};
use crate::host::{Dma, Segment};

/// Size of a command descriptor in bytes.
const COMMAND_BYTES: usize = 32;
/// Number of words in an integrated descriptor with a 32-bit address.
const NARROW: usize = 2;
/// Number of words in an integrated descriptor with a 64-bit address.
const WIDE: usize = 4;

/// Memory for chains of up to `ENTRIES` transfers, each with up to `PIECES` ADMA2 descriptors. The
/// controller reads it, so it must live as long as the program.
#[repr(C, align(16))]
#[derive(Debug)]
pub struct ChainList<const ENTRIES: usize, const PIECES: usize> {
    integrated: [[u32; 4]; ENTRIES],
    transfers: [Described<PIECES>; ENTRIES],
}

#[repr(C, align(16))]
#[derive(Debug)]
pub(super) struct Described<const PIECES: usize> {
    command: [u32; COMMAND_BYTES / 4],
    table: Table<PIECES>,
}

/// The values that the controller writes to its registers to start one transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub count: u32,
    pub block: u32,
    pub argument: u32,
    pub command: u32,
}

impl<const ENTRIES: usize, const PIECES: usize> ChainList<ENTRIES, PIECES> {
    /// Size in bytes of this memory, for all transfers of a chain.
    pub const BYTES: usize = size_of::<Self>();
    /// Offset in bytes from the beginning of this memory to the command descriptor of transfer 0.
    const TRANSFERS_AT: usize = 16 * ENTRIES;
    /// Size in bytes of one transfer in this memory: its command descriptor and its ADMA2
    /// descriptors.
    const EACH: usize = COMMAND_BYTES + Table::<PIECES>::BYTES;

    /// Makes an empty list.
    pub const fn new() -> Self {
        const {
            assert!(Self::BYTES == Self::TRANSFERS_AT + ENTRIES * Self::EACH && PIECES > 0);
            assert!(ENTRIES > 0 && ENTRIES < 128);
        }
        let transfers =
            [const { Described { command: [0; COMMAND_BYTES / 4], table: Table::new() } }; ENTRIES];
        ChainList { integrated: [[0; 4]; ENTRIES], transfers }
    }

    /// Returns the size of an integrated descriptor in bytes; `wide`: addresses have 64 bits.
    pub(super) const fn step(wide: bool) -> u32 {
        4 * if wide { WIDE } else { NARROW } as u32
    }

    /// Writes the command descriptor (`words`: its register values) and the ADMA2 descriptors of
    /// transfer `place`, for the first `bytes` bytes of the segments. Returns the size of both in
    /// bytes. `None` if the segments are too short, or there are not enough descriptors.
    pub(super) fn describe(
        &mut self,
        form: Form,
        dma: &impl Dma,
        place: usize,
        words: Words,
        segments: &[Segment],
        bytes: u32,
    ) -> Option<usize> {
        let transfer = self.transfers.get_mut(place)?;
        let used = transfer.table.build(form, dma, segments, bytes)?;
        let Words { count, block, argument, command } = words;
        let pairs = transfer.command.chunks_exact_mut(2).zip([count, block, argument, command]).enumerate();
        for (n, (pair, word)) in pairs {
            let end = if n == 3 { ADMA_END } else { 0 };
            put(pair, 2, ADMA_VALID | ADMA_COMMAND | end, word.into());
        }
        Some(COMMAND_BYTES + used)
    }

    /// Writes the integrated descriptor that points to transfer `place` of the list at `bus`. With
    /// `last`, the chain ends with this transfer. `wide`: addresses have 64 bits.
    pub(super) fn point(&mut self, wide: bool, place: usize, bus: u64, last: bool) {
        let words = if wide { WIDE } else { NARROW };
        let end = if last { ADMA_END } else { 0 };
        let at = self.integrated.as_flattened_mut().chunks_exact_mut(words).nth(place);
        if let Some(slot) = at {
            put(slot, words, ADMA_VALID | ADMA_INTEGRATED | end, Self::transfer_at(bus, place));
        }
    }

    /// Returns the bus address of the command descriptor of transfer number `place`; the list
    /// begins at the address `bus`.
    fn transfer_at(bus: u64, place: usize) -> u64 {
        bus.wrapping_add((Self::TRANSFERS_AT + place * Self::EACH) as u64)
    }

    /// Returns the number of the transfer whose ADMA2 descriptors contain `address`, or end at it;
    /// `None` if there is none. `bus` is the list's bus address. Only the lower halves of addresses
    /// are compared.
    pub(super) fn transfer_of(bus: u64, address: u32) -> Option<u8> {
        let from = address.wrapping_sub(Self::transfer_at(bus, 0) as u32) as usize;
        let (place, within) = (from / Self::EACH, from % Self::EACH);
        match (place, within) {
            // The address is directly after a full table.
            (1.., 0) => u8::try_from(place - 1).ok(),
            (_, COMMAND_BYTES..) if place < ENTRIES => u8::try_from(place).ok(),
            _ => None,
        }
        .filter(|&place| usize::from(place) < ENTRIES)
    }

    /// Returns the bus address and the memory of transfer `place`; `None` if the list has no such
    /// transfer.
    pub(super) fn transfer(&mut self, bus: u64, place: usize) -> Option<(u64, &mut Described<PIECES>)> {
        Some((Self::transfer_at(bus, place), self.transfers.get_mut(place)?))
    }
}

impl<const ENTRIES: usize, const PIECES: usize> Default for ChainList<ENTRIES, PIECES> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::dma::tests::{Plain, Scattered};
    use core::ptr::NonNull;

    type List = ChainList<3, 2>;

    fn segment(bus: u64, len: u32) -> Segment {
        Segment { ptr: NonNull::dangling(), len, bus }
    }

    fn form(words: usize) -> Form {
        Form { words, chunk: 65_536, nop_end: false }
    }

    #[test]
    fn a_transfer_is_a_command_and_the_table_behind_it() {
        let mut list = List::new();
        let words = Words { count: 3, block: 0x3_0200, argument: 0x1234, command: 0x123a_01b7 };
        let used = list.describe(form(4), &Plain, 1, words, &[segment(0x7_0000_1000, 1536)], 1536);
        assert_eq!(used, Some(32 + 16));
        assert_eq!(list.transfers[1].command, [9, 3, 9, 0x3_0200, 9, 0x1234, 0xb, 0x123a_01b7]);
        let at = core::ptr::from_ref(&list.transfers[1]).addr();
        assert_eq!(core::ptr::from_ref(&list.transfers[1].table).addr(), at + 32, "right behind it");
        let scattered = Scattered(&[(0x9000, 512), (0x5000, 1024)]);
        let used = list.describe(form(4), &scattered, 1, words, &[segment(0, 1536)], 1536);
        assert_eq!(used, Some(32 + 32), "two pieces of one mapping");
        // Too many pieces for the table, and a place beyond the list.
        let pieces = [segment(0, 512), segment(0x1000, 512), segment(0x2000, 512)];
        assert_eq!(list.describe(form(4), &Plain, 1, words, &pieces, 1536), None);
        assert_eq!(list.describe(form(4), &Plain, 3, words, &pieces, 512), None);
    }

    #[test]
    fn each_place_has_a_descriptor_of_its_own_and_the_last_ends() {
        let mut list = List::new();
        for place in 0..3 {
            list.point(false, place, 0x8000_0000, place == 2);
        }
        let narrow = list.integrated.as_flattened();
        let at = |place: u32| 0x8000_0000 + 48 + 64 * place;
        assert_eq!(narrow[..6], [0x39, at(0), 0x39, at(1), 0x3b, at(2)]);
        list.point(true, 2, 0x7_8000_0000, true);
        assert_eq!(list.integrated[2], [0x3b, at(2), 7, 0]);
    }

    #[test]
    fn an_address_says_whose_table_it_is_in() {
        let base = 0x4_0000_1000u64;
        let of = |offset: u32| List::transfer_of(base, (base as u32).wrapping_add(offset));
        // Three integrated descriptors, then commands of 32 bytes and tables of 32.
        assert_eq!([0, 47, 48, 48 + 31].map(of), [None; 4]);
        assert_eq!([48 + 32, 48 + 63, 48 + 64].map(of), [Some(0); 3], "up to the end of its table");
        assert_eq!([48 + 65, 48 + 95].map(of), [None; 2]);
        assert_eq!([48 + 96, 48 + 128, 48 + 160, 48 + 192].map(of), [Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!([48 + 193, 48 + 256, u32::MAX].map(of), [None; 3]);
    }
}
