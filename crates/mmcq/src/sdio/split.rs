//! Splits a transfer of any length into CMD53 commands [SDIO 5.3].

use super::cccr::Cccr;
use crate::card::quirk::Quirks;
use crate::host::{BlockSizes, Caps};
use crate::spec::command::sdio::Amount;

/// Largest number of blocks in a CMD53. A count of 0 in the command means a transfer without an
/// end.
const BLOCKS_MAX: u32 = 511;
/// Largest number of bytes in a CMD53 in byte mode.
const BYTES_MAX: u32 = 512;

/// The limits of one CMD53. A transfer uses whole blocks first, then bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes in a block; 0 if only byte mode is used.
    pub block_bytes: u16,
    /// Largest number of blocks in a command.
    pub blocks_max: u16,
    /// Largest number of bytes in a command in byte mode, 1 to 512.
    pub bytes_max: u16,
    /// Alignment of a command's memory in bytes, a power of two.
    pub align: u32,
    /// Largest number of bytes in a command whose length is not a multiple of `align`.
    pub max_odd_bytes: u32,
    /// Whether byte mode allows only lengths that are powers of two.
    pub powers_of_two: bool,
}

impl Split {
    /// Computes how a transfer of a function is split into CMD53 commands. `block_bytes`: the block
    /// size that was set, 0 if none; `max_block_bytes`: the largest block size of the function.
    pub fn new(caps: &Caps, cccr: &Cccr, quirks: Quirks, block_bytes: u16, max_block_bytes: u16) -> Self {
        let host_bytes = caps.max_bytes.min(caps.max_segment_bytes).max(1);
        let size = u32::from(block_bytes);
        let blocks = BLOCKS_MAX.min(caps.max_blocks).min(host_bytes.checked_div(size).unwrap_or(0));
        let by_bytes = if quirks.has(Quirks::IO_NO_512_BYTES) { BYTES_MAX - 1 } else { BYTES_MAX };
        let block = if quirks.has(Quirks::IO_BLOCK_SIZE_FOR_BYTES) { block_bytes } else { max_block_bytes };
        let bytes =
            by_bytes.min(u32::from(block).min(u32::from(caps.max_block_bytes))).min(host_bytes).max(1);
        let by_blocks = cccr.multi_block() && blocks > 0 && caps.moves_blocks_of(block_bytes);
        Split {
            block_bytes: if by_blocks { block_bytes } else { 0 },
            blocks_max: blocks as u16,
            bytes_max: bytes as u16,
            align: caps.align.max(1),
            max_odd_bytes: caps.max_odd_bytes,
            powers_of_two: caps.block_sizes == BlockSizes::PowersOfTwo,
        }
    }

    /// Returns the count of the next command when `left` bytes are left; `None` at the end. The
    /// count is never 0, which CMD53 interprets differently.
    pub fn next(&self, left: u32) -> Option<Amount> {
        if left == 0 {
            return None;
        }
        let (size, bytes_max) = (u32::from(self.block_bytes), u32::from(self.bytes_max).clamp(1, BYTES_MAX));
        if size > 0 && left > bytes_max {
            let most = (left / size).min(u32::from(self.blocks_max)).min(BLOCKS_MAX);
            let blocks = self.longest(most, size, left);
            if blocks > 0 {
                return Some(Amount::Blocks(blocks as u16));
            }
        }
        let most = left.min(bytes_max);
        let bytes = match self.longest(most, 1, left) {
            0 => most.min(self.max_odd_bytes.max(1)),
            bytes => bytes,
        };
        let bytes = match bytes.checked_ilog2() {
            Some(log) if self.powers_of_two => 1 << log,
            _ => bytes,
        };
        Some(Amount::Bytes(bytes as u16))
    }

    /// Returns the largest number of units of `size` bytes, at most `most`, that one command can
    /// transfer when `left` bytes are left; 0 if there is none. The command's length is a multiple
    /// of the alignment, so that the next command's memory is aligned too. Only the last command
    /// may have another length, if the host can transfer it.
    fn longest(&self, most: u32, size: u32, left: u32) -> u32 {
        let bytes = most * size;
        if bytes == left && bytes <= self.max_odd_bytes {
            return most;
        }
        let step = self.align >> size.trailing_zeros().min(self.align.trailing_zeros());
        most - most % step.max(1)
    }

    /// Returns the number of bytes that a command of [`next`](Self::next) transfers.
    pub fn bytes(&self, count: Amount) -> u32 {
        match count {
            Amount::Bytes(bytes) => u32::from(bytes),
            Amount::Blocks(blocks) => u32::from(blocks) * u32::from(self.block_bytes),
            Amount::Endless => 0,
        }
    }
}
