//! Tests of how a transfer of an I/O card is split into commands.

use crate::{fuzz, io_card};
use arbtest::arbitrary::{self, Unstructured};
use io_card::caps;
use mmcq::card::quirk::Quirks;
use mmcq::host::{BlockSizes, Caps};
use mmcq::sdio::Split;
use mmcq::sdio::cccr::Cccr;
use mmcq::spec::command::sdio::Amount;
use std::collections::BTreeSet;

/// Returns how the standard splits a transfer into commands, computed byte by byte to check
/// [`Split`].
pub fn oracle(split: &Split, mut left: u32) -> Vec<(bool, u32)> {
    let (size, mut pieces) = (u32::from(split.block_bytes), Vec::new());
    while left > 0 {
        let most = u32::from(split.bytes_max);
        // The next piece is the longest that is allowed; a piece in block mode is preferred to one
        // in byte mode. A piece that is not the last one keeps the next piece aligned. The last one
        // may have any length that the host can transfer.
        let even = |bytes: u32| bytes.is_multiple_of(split.align);
        let fits = |bytes: u32| even(bytes) || bytes == left && bytes <= split.max_odd_bytes;
        let alone = |bytes: u32| fits(bytes) && (!split.powers_of_two || bytes.is_power_of_two());
        let blocks = (1..=u32::from(split.blocks_max)).rev().map(|n| n * size);
        let longest = |bytes: u32| if split.powers_of_two { 1 << bytes.ilog2() } else { bytes };
        let by_blocks =
            blocks.filter(|_| size > 0 && left > most).find(|&bytes| bytes <= left && fits(bytes));
        let bytes = by_blocks.unwrap_or_else(|| {
            let odd = most.min(left).min(split.max_odd_bytes.max(1));
            (1..=most.min(left)).rev().find(|&bytes| alone(bytes)).unwrap_or_else(|| longest(odd))
        });
        pieces.push((by_blocks.is_some(), bytes));
        left -= bytes;
    }
    pieces
}

/// Limits of a host, a card and a function, from which [`Split::new`] makes a [`Split`].
struct Limits {
    caps: Caps,
    quirks: Quirks,
    multi_block: bool,
    block: u16,
    max_block: u16,
}

impl Limits {
    fn any(u: &mut Unstructured<'_>) -> arbitrary::Result<Limits> {
        let mut caps = caps();
        caps.align = 1 << u.int_in_range(0..=6)?;
        caps.max_odd_bytes = *u.choose(&[u32::MAX, u32::MAX, 512, 64, 0])?;
        caps.max_blocks = u.int_in_range(1..=1000)?;
        caps.max_bytes = u.int_in_range(1..=100_000)?;
        caps.max_block_bytes = u.int_in_range(512..=2048)?;
        caps.block_sizes =
            *u.choose(&[BlockSizes::Any, BlockSizes::PowersOfTwo, BlockSizes::PowersOfTwoOrBytes])?;
        let multi_block = u.arbitrary()?;
        let max_block = u.int_in_range(1..=2048)?;
        let block = u.int_in_range(0..=max_block)?;
        let (within, no_512) = (u.ratio(1, 4)?, u.ratio(1, 4)?);
        let quirk = |on, quirk| if on { quirk } else { Quirks::NONE };
        let quirks =
            quirk(within, Quirks::IO_BLOCK_SIZE_FOR_BYTES).and(quirk(no_512, Quirks::IO_NO_512_BYTES));
        Ok(Limits { caps, quirks, multi_block, block, max_block })
    }

    fn split(&self) -> Split {
        let mut registers = [0; 0x17];
        registers[8] = u8::from(self.multi_block) << 1;
        let cccr = Cccr::parse(&registers).unwrap();
        Split::new(&self.caps, &cccr, self.quirks, self.block, self.max_block)
    }
}

/// Returns the lengths of the commands into which `split` splits a transfer.
fn lengths(split: &Split, total: u32) -> Vec<u32> {
    let mut left = total;
    let mut next = || {
        let bytes = split.bytes(split.next(left)?);
        left -= bytes;
        Some(bytes)
    };
    std::iter::from_fn(&mut next).collect()
}

/// Returns whether a host can transfer a command of `bytes` bytes, `at` bytes after the begin of
/// the memory, as ST's SDMMC does: by DMA, for which address and length are aligned, or through a
/// bounce buffer for other lengths.
fn is_moved(split: &Split, at: u32, bytes: u32) -> bool {
    if bytes.is_multiple_of(split.align) {
        at.is_multiple_of(split.align)
    } else {
        bytes <= split.max_odd_bytes
    }
}

/// Returns whether there is any way to split the transfer such that the host can transfer each
/// command. Tries all commands at all places.
fn can_be_moved(split: &Split, total: u32) -> bool {
    let size = u32::from(split.block_bytes);
    let in_blocks = (1..=u32::from(split.blocks_max)).map(|blocks| blocks * size);
    let in_bytes = 1..=u32::from(split.bytes_max);
    let bytes = in_bytes.filter(|bytes| !split.powers_of_two || bytes.is_power_of_two());
    let lengths: BTreeSet<u32> = in_blocks.filter(|_| size > 0).chain(bytes).collect();
    let mut reached = vec![false; total as usize + 1];
    reached[0] = true;
    for at in 0..total {
        if reached[at as usize] {
            let moved = lengths.range(..=total - at).filter(|&&bytes| is_moved(split, at, bytes));
            moved.for_each(|bytes| reached[(at + bytes) as usize] = true);
        }
    }
    reached[total as usize]
}

#[test]
fn transfers_are_split_as_the_oracle_says() {
    fuzz::fuzz("transfers_are_split_as_the_oracle_says", 400, |u| {
        let limits = Limits::any(u)?;
        let Limits { caps, block, max_block, .. } = &limits;
        let within = limits.quirks.has(Quirks::IO_BLOCK_SIZE_FOR_BYTES);
        let no_512 = limits.quirks.has(Quirks::IO_NO_512_BYTES);
        let split = limits.split();
        let total = u.int_in_range(0..=20_000)?;
        let (mut left, mut pieces) = (total, Vec::new());
        while let Some(count) = split.next(left) {
            let (by_blocks, n) = match count {
                Amount::Blocks(n) => (true, n),
                Amount::Bytes(n) => (false, n),
                Amount::Endless => panic!("endless"),
            };
            assert!(if by_blocks { (1..=511).contains(&n) } else { (1..=512).contains(&n) });
            assert!(split.bytes(count) <= left.min(caps.max_bytes));
            assert!(by_blocks || n <= *max_block);
            assert!(!by_blocks || caps.moves_blocks_of(*block), "blocks of {block} bytes");
            let odd = caps.block_sizes == BlockSizes::PowersOfTwo && !n.is_power_of_two();
            assert!(by_blocks || !odd, "{n} bytes");
            assert!(by_blocks || !within || n <= (*block).max(1));
            assert!(by_blocks || !no_512 || n < 512);
            pieces.push((by_blocks, split.bytes(count)));
            left -= split.bytes(count);
        }
        assert_eq!((left, &pieces), (0, &oracle(&split, total)), "{split:?}, {total} bytes");
        Ok(())
    });
}

/// Checks that a transfer is refused only where each way to split it is refused.
#[test]
fn what_can_be_split_for_the_host_is_split_so() {
    fuzz::fuzz("what_can_be_split_for_the_host_is_split_so", 400, |u| {
        let mut limits = Limits::any(u)?;
        if u.arbitrary()? {
            // Short blocks and long cache lines.
            limits.block = 1 << u.int_in_range(2..=6)?;
            limits.max_block = limits.max_block.max(limits.block);
        }
        let split = limits.split();
        let total = u.int_in_range(1..=1500)?;
        let mut at = 0;
        let moved = lengths(&split, total).into_iter().all(|bytes| {
            at += bytes;
            is_moved(&split, at - bytes, bytes)
        });
        assert!(moved || !can_be_moved(&split, total), "{split:?}, {total} bytes");
        Ok(())
    });
}

/// Checks blocks that are shorter than a cache line: a whole number of them may be no whole number
/// of lines.
#[test]
fn blocks_that_end_inside_a_cache_line() {
    let split = |max_odd_bytes| {
        let mut caps = caps();
        (caps.align, caps.max_odd_bytes) = (64, max_odd_bytes);
        Limits { caps, quirks: Quirks::NONE, multi_block: true, block: 16, max_block: 512 }.split()
    };
    // A host whose CPU can transfer any length.
    assert_eq!(lengths(&split(u32::MAX), 33 * 16), [528]);
    // A host with a bounce buffer.
    assert_eq!(lengths(&split(512), 33 * 16), [512, 16]);
    assert_eq!(lengths(&split(512), 300 * 16 + 15), [4800, 15]);
    assert_eq!(lengths(&split(512), 31 * 16), [496]);
    assert_eq!(lengths(&split(32), 31 * 16), [448, 32, 16]);
}
