//! Settings of the port by the board, and the capabilities that follow.

use crate::host::{BlockSizes, BusyDetect, Caps, Timing, Width};

/// Default speed, in hertz: every card supports it before any switch [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;
/// Slowest clock that is requested.
const SLOWEST_HZ: u32 = 100_000;
const SEGMENTS: u16 = 16;

/// Settings of the port by the board. Start from [`SpiConfig::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpiConfig {
    /// Fastest clock of port and wires, in hertz. Above 25 MHz the card is switched to high speed.
    pub max_clock_hz: u32,
    /// Most blocks in a phase, at least 1. A port that takes much longer than its clock needs a
    /// smaller number.
    pub max_blocks: u16,
    /// Whether the card cannot be taken out.
    pub fixed: bool,
}

setters!(SpiConfig { max_clock_hz: u32, max_blocks: u16, fixed: bool });

impl SpiConfig {
    /// Makes settings with up to 128 blocks in a phase, and a card that may be taken out.
    pub const fn new(max_clock_hz: u32) -> Self {
        SpiConfig { max_clock_hz, max_blocks: 128, fixed: false }
    }

    /// Returns the capabilities of the driver with such a port.
    pub(super) fn caps(&self, shared: bool, dma_bits: u8) -> Caps {
        let fastest = self.max_clock_hz.max(SLOWEST_HZ);
        let high_speed = if fastest > DEFAULT_SPEED_HZ { Caps::timing_bit(Timing::HighSpeed) } else { 0 };
        let blocks = u32::from(self.max_blocks.max(1));
        Caps {
            auto_stop: true,
            // There is none in SPI mode.
            no_count: true,
            continue_data: !shared,
            // The card's status has to be asked for after each write anyway: an R1 of this mode has
            // no late errors. So the engine asks when the busy should be over, and no clock runs
            // meanwhile.
            busy: BusyDetect::Status,
            max_busy_ns: u64::MAX,
            max_segments: SEGMENTS,
            max_segment_bytes: blocks * 512,
            max_block_bytes: 2048,
            block_sizes: BlockSizes::Any,
            max_blocks: blocks,
            max_bytes: blocks * 512,
            dma_bits,
            clock_hz: (SLOWEST_HZ, fastest),
            width: Width::W1,
            timings: Caps::timing_bit(Timing::Legacy) | high_speed,
            fixed: self.fixed,
            ..Caps::NONE
        }
    }
}
