//! The cases of the test of open transfers: sequences of requests that continue the transfer of the
//! request before.

use crate::engine::BLOCK_BYTES;
use crate::host::Direction;
use core::fmt;

/// A run of requests, each of which begins at the block where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCase {
    /// Whether the requests read or write.
    pub direction: Direction,
    /// Number of requests.
    pub requests: u32,
    /// Number of blocks of each request but the first.
    pub blocks: u32,
    /// Blocks of the first request. By its size a driver chooses the boundary in memory at which
    /// the controller stops.
    pub first_blocks: u32,
    /// Pause before each request, in nanoseconds.
    pub pause_ns: u64,
    /// Whether the memory of each request begins one block behind the begin of the buffer.
    pub shifted: bool,
    /// Whether a read of another block follows each fifth request.
    pub between: bool,
}

/// Most blocks that a block count register holds.
const COUNT_MAX: u32 = 0xffff;
/// Number of requests after which a case with [`between`](StreamCase::between) reads another block.
pub(super) const BETWEEN: u32 = 5;
/// Number of blocks behind a series of writes that are checked to be unchanged.
pub(super) const GUARD: u32 = 8;
const MS: u64 = 1_000_000;

/// Returns a run of `requests` reads of `blocks` blocks each, without pauses.
const fn run(requests: u32, blocks: u32) -> StreamCase {
    StreamCase {
        direction: Direction::Read,
        requests,
        blocks,
        first_blocks: blocks,
        pause_ns: 0,
        shifted: false,
        between: false,
    }
}

/// The cases. The longest pause is shorter than the time that the engine keeps a transfer open, and
/// longer than the time after which a controller reports missing data.
pub(super) const CASES: [StreamCase; 16] = [
    run(256, 8),
    run(128, 16),
    run(64, 32),
    run(32, 64),
    run(24, 128),
    run(16, 256),
    run(10, 512),
    run(8, 1024),
    StreamCase { first_blocks: 8, ..run(24, 128) },
    run(64, 1),
    StreamCase { shifted: true, ..run(48, 13) },
    StreamCase { pause_ns: MS / 5, ..run(32, 8) },
    StreamCase { pause_ns: 5 * MS, ..run(24, 8) },
    StreamCase { pause_ns: 120 * MS, ..run(8, 128) },
    StreamCase { between: true, ..run(60, 8) },
    run(520, 128),
];

impl StreamCase {
    /// Returns the number of blocks in all requests.
    pub const fn all_blocks(&self) -> u32 {
        self.first_blocks + (self.requests - 1) * self.blocks
    }

    /// Returns how many blocks of the buffer the largest request uses.
    pub(super) const fn part(&self) -> u32 {
        let largest = if self.blocks > self.first_blocks { self.blocks } else { self.first_blocks };
        largest + self.shifted as u32
    }
}

/// A number of blocks, which is displayed as KiB or bytes.
struct Size(u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 * BLOCK_BYTES;
        if bytes.is_multiple_of(1024) { write!(f, "{} KiB", bytes / 1024) } else { write!(f, "{bytes} B") }
    }
}

impl fmt::Display for StreamCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.direction == Direction::Read { "read" } else { "write" };
        write!(f, "{direction} {}", Size(self.blocks))?;
        if self.first_blocks != self.blocks {
            write!(f, ", the first {}", Size(self.first_blocks))?;
        }
        if self.shifted {
            f.write_str(", memory beside a boundary")?;
        }
        match self.pause_ns {
            0 => {}
            ns if ns < MS => write!(f, ", pauses of {} us", ns / 1000)?,
            ns => write!(f, ", pauses of {} ms", ns / MS)?,
        }
        if self.between {
            f.write_str(", other requests between")?;
        }
        if self.all_blocks() > COUNT_MAX {
            f.write_str(", past the longest count")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn a_case_names_what_is_special_in_it() {
        let name = |case: StreamCase| std::format!("{case}");
        let write = |case: StreamCase| StreamCase { direction: Direction::Write, ..case };
        assert_eq!(name(CASES[0]), "read 4 KiB");
        assert_eq!(name(write(CASES[8])), "write 64 KiB, the first 4 KiB");
        assert_eq!(name(CASES[10]), "read 6656 B, memory beside a boundary");
        assert_eq!(name(CASES[13]), "read 64 KiB, pauses of 120 ms");
        assert_eq!(name(CASES[15]), "read 64 KiB, past the longest count");
        let longest = CASES.iter().map(|case| case.all_blocks() + GUARD).max();
        assert!(
            longest.is_some_and(|blocks| blocks <= crate::block::StreamTest::BLOCKS && blocks > COUNT_MAX)
        );
        // Each size from the smallest to the largest boundary is there.
        for blocks in (3..=10).map(|bits| 1 << bits) {
            assert!(CASES.iter().any(|case| case.blocks == blocks && case.requests > 7));
        }
    }
}
