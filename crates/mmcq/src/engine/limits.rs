//! How large a transfer may be, and how long its blocks take on the wire.

use super::order::Limits;
use super::{BLOCK_BYTES, Engine};
use crate::host::{BusOp, Host, Timing, Width};
use crate::sched::Policy;

/// No bus is slower: cards are brought up at 100 kHz at least [SD 4.2.1].
const SLOWEST_HZ: u32 = 4_000;

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// The limits of a transfer: host, configuration, engine.
    pub(super) fn limits(&self) -> Limits {
        let caps = self.host.caps();
        // CMD23 counts 16 bits on eMMC, and so do most controllers.
        let mut blocks =
            caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES).clamp(1, 0xffff).min(self.piece_blocks);
        if H::CONTINUES
            && let Some(open) = self.open.filter(|open| open.counted > 0)
        {
            blocks = blocks.min(open.counted);
        }
        Limits {
            blocks,
            merged_blocks: blocks.min(self.config.merge_blocks),
            fair_blocks: self.config.fair_blocks,
            segments: caps.max_segments.max(1),
            floor: self.open.filter(|_| H::CONTINUES).map(|open| open.next),
        }
    }

    /// Keeps the wire time of a block up to date with what the bus is told.
    pub(super) fn note_bus(&mut self, op: BusOp) {
        match op {
            BusOp::Clock(hz) => self.clock_hz = hz,
            BusOp::Width(width) => self.width = width,
            BusOp::Timing(timing) => self.timing = timing,
            BusOp::PowerOff | BusOp::PowerOn => {
                (self.clock_hz, self.width, self.timing) = (0, Width::W1, Timing::Legacy);
            }
            _ => return,
        }
        let lines = match self.width {
            Width::W1 => 1,
            Width::W4 => 4,
            Width::W8 => 8,
        };
        // 4096 bits, and some clocks for start, CRC and end; of any number of blocks the time is below 2^64 ns.
        self.block_ns = (4096 / lines + 40) * 1_000_000_000 / u64::from(self.clock_hz.max(SLOWEST_HZ));
    }
}
