//! The limits of the fast path: the largest ordinary read or write that may take it
//! ([`fast`](super::fast)). The [`blockers`](super::blockers) decide whether anything else prevents
//! it.

use super::fast::FastKind;
use super::{BLOCK_BYTES, CardParams, Engine};
use crate::host::{BusyDetect, Direction, Host};
use crate::sched::Profile;

/// The limits of the fast path, as far as they are known before a request comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FastLimits {
    /// The block number after the card's last block.
    sectors: u64,
    /// Most blocks of a read and of a write; 0: no request of this direction takes the fast path.
    blocks: [u32; 2],
    /// Whether writes may end by the fast path: the controller signals the end of their busy.
    writes_end: bool,
}

impl FastLimits {
    pub const NONE: FastLimits = FastLimits { sectors: 0, blocks: [0; 2], writes_end: false };

    /// Returns how the fast path may end a transfer of this direction.
    #[inline(always)]
    pub fn fast_kind(&self, direction: Direction) -> FastKind {
        match direction {
            Direction::Read => FastKind::Read,
            Direction::Write if self.writes_end => FastKind::Write,
            Direction::Write => FastKind::Nothing,
        }
    }

    /// Returns whether a transfer of this many blocks, which ends before block `end`, is within the
    /// limits.
    #[inline(always)]
    pub fn fits(&self, direction: Direction, blocks: u32, end: u64) -> bool {
        let [read, write] = self.blocks;
        let most = if direction == Direction::Read { read } else { write };
        // A request without blocks wraps to the largest number, and is refused.
        blocks.wrapping_sub(1) < most && end <= self.sectors
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sets the limits by the card's parameters.
    pub(super) fn set_card(&mut self, target: Option<CardParams>) {
        self.card.set_target(target, self.bus.host().caps());
        if !Self::FAST {
            return;
        }
        self.slots.clear_lone();
        let caps = self.bus.host().caps();
        let ahead = usize::from(self.config.prepared) >= N;
        let most = caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES).min(0xffff);
        let blocks = match target {
            // Where no request may take the fast path, the limits of 0 blocks refuse it at once.
            _ if !self.order.may_go_fast(self.bus.host()) => [0; 2],
            Some(target) if target.extended_address || !self.card.plan().ends_by_itself() || !ahead => [0; 2],
            Some(target) => [most, if target.protected { 0 } else { most }],
            None => [0; 2],
        };
        *self.lane.fast_limits_mut() = FastLimits {
            sectors: target.map_or(0, |target| target.sectors),
            blocks,
            // A write after which the card must be polled takes the general path.
            writes_end: caps.busy == BusyDetect::Interrupt && !self.tells_transferred(),
        };
    }
}
