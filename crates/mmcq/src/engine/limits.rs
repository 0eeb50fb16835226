//! How large a transfer may be.

use super::batch::Limits;
use super::bus::Bus;
use super::recover::Incident;
use super::runs::Streams;
use super::{BLOCK_BYTES, Config};
use crate::host::Host;

impl<H: Host> Bus<H> {
    /// Returns the limits of the next transfer, by host, configuration and engine together.
    pub fn limits(&self, config: &Config, incident: &Incident, streams: &Streams) -> Limits {
        let caps = self.host().caps();
        // The count of CMD23 has 16 bits on eMMC, and so have the counters of most controllers.
        let mut blocks = caps
            .max_blocks
            .min(caps.max_bytes / BLOCK_BYTES)
            .clamp(1, 0xffff)
            .min(incident.failed().piece_blocks());
        if H::CONTINUES
            && let Some(open) = streams.open().filter(|open| open.counted > 0)
        {
            blocks = blocks.min(open.counted);
        }
        Limits {
            blocks,
            merged_blocks: blocks.min(config.merge_blocks),
            fair_blocks: config.fair_blocks,
            segments: caps.max_segments.max(1),
            floor: streams.open().filter(|_| H::CONTINUES).map(|open| open.next),
        }
    }
}
