//! How large a transfer may be.

use super::batch::Limits;
use super::bus::Bus;
use super::recover::Incident;
use super::runs::Streams;
use super::{BLOCK_BYTES, Config};
use crate::host::Host;

impl<H: Host> Bus<H> {
    /// Returns the limits of the next transfer: those of the host and the settings, of an open
    /// transfer that it would continue, and of the search for a bad block.
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

impl Limits {
    /// Returns the limits for one more transfer in a packed command that already has this many
    /// blocks and requests.
    pub fn of_entry<const N: usize>(self, blocks: u32, members: usize) -> Limits {
        // The header takes a block, a segment and a place in the batch.
        let blocks = self.merged_blocks.saturating_sub(blocks.max(1));
        let places = usize::from(self.segments).min(N).saturating_sub(1 + members);
        let segments = u16::try_from(places).unwrap_or(u16::MAX);
        Limits { blocks, merged_blocks: blocks, segments, ..self }
    }

    /// Returns the limits of one more transfer in a chain that has `blocks` blocks and `members`
    /// requests so far. `most`: the limits of the chain: its transfers, and blocks and segments of
    /// each.
    pub fn of_link<const N: usize>(self, most: (usize, u32, u16), blocks: u32, members: usize) -> Limits {
        let (_, most_blocks, most_segments) = most;
        let blocks = self.merged_blocks.saturating_sub(blocks).min(most_blocks);
        let places = u16::try_from(N.saturating_sub(members)).unwrap_or(u16::MAX);
        let segments = self.segments.min(most_segments).min(places);
        Limits { blocks, merged_blocks: blocks, segments, ..self }
    }
}
