//! The limits of the fast path: the largest ordinary read or write that may take it
//! ([`fast`](super::fast)). The [`blockers`](super::blockers) decide whether anything else prevents
//! it.

use super::fast::FastKind;
use crate::host::Direction;

/// Limits within which a request may take the fast path (the short code path for ordinary
/// requests). They depend on card and controller, and do not change with the state of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastLimits {
    /// The block number after the card's last block.
    sectors: u64,
    /// Most blocks of a read and of a write on the fast path (the short code for ordinary
    /// requests); 0: no request of this direction takes it.
    blocks: [u32; 2],
    /// Whether the end of a write may take the fast path (without the checks for special cases):
    /// the controller signals the end of the write's busy.
    writes_end: bool,
}

impl FastLimits {
    pub const NONE: FastLimits = FastLimits { sectors: 0, blocks: [0; 2], writes_end: false };

    /// Makes the limits of a card of `sectors` blocks. `blocks`: most blocks of a read and of a
    /// write. `writes_end`: whether the fast path (few checks) may also handle the end of a write.
    pub const fn new(sectors: u64, blocks: [u32; 2], writes_end: bool) -> FastLimits {
        FastLimits { sectors, blocks, writes_end }
    }

    /// Returns whether the fast path can handle the end of a transfer in this direction, as the
    /// kind of transfer (read or write); [`FastKind::Nothing`] if it cannot.
    #[inline(always)]
    pub fn fast_kind(&self, direction: Direction) -> FastKind {
        match direction {
            Direction::Read => FastKind::Read,
            Direction::Write if self.writes_end => FastKind::Write,
            Direction::Write => FastKind::Nothing,
        }
    }

    /// Returns whether a transfer of `blocks` blocks, which ends before block `end`, is within the
    /// limits.
    #[inline(always)]
    pub fn fits(&self, direction: Direction, blocks: u32, end: u64) -> bool {
        let [read, write] = self.blocks;
        let most = if direction == Direction::Read { read } else { write };
        // A request without blocks wraps to the largest number, and is refused.
        blocks.wrapping_sub(1) < most && end <= self.sectors
    }
}
