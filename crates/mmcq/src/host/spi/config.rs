//! Settings that the board gives for the port, and the capabilities that follow from them.

use crate::host::{BlockSizes, BusyDetect, Caps, Timing, Width};

/// Clock of default speed, in hertz: every card supports it before any switch [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;
/// Slowest clock that the engine requests, in hertz.
const SLOWEST_HZ: u32 = 100_000;
const SEGMENTS: u16 = 16;

/// Settings that the board gives for the port. Start from [`SpiConfig::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpiConfig {
    /// Fastest clock that port and wiring support, in hertz. Above 25 MHz the card is switched to
    /// high speed.
    pub max_clock_hz: u32,
    /// Largest number of blocks in a phase (a command with its data), at least 1. The engine
    /// derives the deadline of a phase from the clock, so a port that transfers much more slowly
    /// than its clock allows needs a smaller number.
    pub max_blocks: u16,
    /// Whether the card cannot be removed.
    pub fixed: bool,
}

setters!(SpiConfig { max_clock_hz: u32, max_blocks: u16, fixed: bool });

impl SpiConfig {
    /// Makes settings with up to 128 blocks in a phase (a command with its data), and a removable
    /// card.
    pub const fn new(max_clock_hz: u32) -> Self {
        SpiConfig { max_clock_hz, max_blocks: 128, fixed: false }
    }

    /// Returns the capabilities of the driver with this port. `shared`: the bus has other devices
    /// too. `dma_bits`: number of address bits of the port's DMA; 0 for a port without DMA.
    pub(super) fn caps(&self, shared: bool, dma_bits: u8) -> Caps {
        let fastest = self.max_clock_hz.max(SLOWEST_HZ);
        let high_speed = if fastest > DEFAULT_SPEED_HZ { Caps::timing_bit(Timing::HighSpeed) } else { 0 };
        let blocks = u32::from(self.max_blocks.max(1));
        Caps {
            auto_stop: true,
            // SPI mode has no CMD23.
            no_count: true,
            continue_data: !shared,
            // After each write the engine must ask for the card's status in any case, because an R1
            // of SPI mode has no late errors. So the engine asks when busy should have ended, and
            // until then no clock runs.
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
