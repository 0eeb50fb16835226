//! How large a transfer may be.

use super::batch::Limits;
use super::{BLOCK_BYTES, Engine};
use crate::host::Host;
use crate::sched::Profile;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Returns the limits of the next transfer, by host, configuration and engine together.
    pub(super) fn limits(&self) -> Limits {
        let caps = self.bus.host().caps();
        // The count of CMD23 has 16 bits on eMMC, and so have the counters of most controllers.
        let mut blocks = caps
            .max_blocks
            .min(caps.max_bytes / BLOCK_BYTES)
            .clamp(1, 0xffff)
            .min(self.incident.failed().piece_blocks());
        if H::CONTINUES
            && let Some(open) = self.lane.streams().open().filter(|open| open.counted > 0)
        {
            blocks = blocks.min(open.counted);
        }
        Limits {
            blocks,
            merged_blocks: blocks.min(self.config.merge_blocks),
            fair_blocks: self.config.fair_blocks,
            segments: caps.max_segments.max(1),
            floor: self.lane.streams().open().filter(|_| H::CONTINUES).map(|open| open.next),
        }
    }
}
