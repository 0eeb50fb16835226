//! What a controller can do, as its driver says it once.

use crate::spec::bus::{Timing, Width};

/// How the controller learns that the card's busy is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyDetect {
    /// The end of a phase includes the end of busy, by interrupt.
    Interrupt,
    /// The same for busy after a response (R1b); after data only the card's status (CMD13) tells.
    Response,
    /// [`Host::dat0_busy`](super::Host::dat0_busy) can be read, nothing interrupts.
    Level,
    /// Only the card's status (CMD13) tells.
    Status,
}

/// Which lengths a block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// Any.
    Any,
    /// Powers of two. Where several blocks move, they have 4 bytes at least.
    PowersOfTwo,
    /// The same, but for the one block of a CMD53 in byte mode, which may have any length.
    PowersOfTwoOrBytes,
}

/// What a controller can do. Sizes in bytes, times in nanoseconds, clocks in hertz.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Caps {
    /// The host sends CMD12 by itself after the last block.
    pub auto_stop: bool,
    /// The host sends CMD23 by itself before a transfer.
    pub auto_count: bool,
    /// CMD23 must not be sent, neither by the host nor as a phase: some controllers cannot.
    pub no_count: bool,
    /// The data of an open transfer (CMD18 or CMD25 without an end) can be moved in several phases:
    /// see [`Auto::Continue`](super::Auto::Continue).
    pub continue_data: bool,
    /// A transfer stays open only if it began as one ([`Auto::Open`](super::Auto::Open)), and only
    /// CMD12 ends it: no CMD23 may announce where it does.
    pub open_until_stopped: bool,
    /// A command can go beside the data of a phase: see [`Host::start_concurrent`](super::Host::start_concurrent).
    pub concurrent_command: bool,
    /// End of busy.
    pub busy: BusyDetect,
    /// Longest busy its own timer can wait for.
    pub max_busy_ns: u64,
    /// Segments in a transfer.
    pub max_segments: u16,
    /// Bytes in a segment.
    pub max_segment_bytes: u32,
    /// Bytes in a block, at least 512.
    pub max_block_bytes: u16,
    /// Which lengths up to that a block may have.
    pub block_sizes: BlockSizes,
    /// Blocks in a transfer.
    pub max_blocks: u32,
    /// Bytes in a transfer.
    pub max_bytes: u32,
    /// Alignment a segment's address must have; a power of two.
    pub align: u32,
    /// Address bits its DMA reaches; 0 where the CPU moves the data.
    pub dma_bits: u8,
    /// Data requests must not be completed in the hard interrupt (unmapping sleeps, say): the
    /// engine ends the transfer and starts the next one there, and completes in the next
    /// [`poll`](crate::engine::Engine::poll). A host may except single ones:
    /// [`Host::is_prompt`](crate::host::Host::is_prompt).
    pub defer_completion: bool,
    /// Slowest and fastest SD clock.
    pub clock_hz: (u32, u32),
    /// Widest bus.
    pub width: Width,
    /// Timings, one bit each: see [`Caps::can`]; and [`Caps::SDR50_TUNED`].
    pub timings: u16,
    /// 1.8 V signalling.
    pub signal18: bool,
    /// The lines are at 1.8 V and cannot leave it (VCCQ of a soldered eMMC on a rail of its own):
    /// bring-up never asks for 3.3 V.
    pub signal18_fixed: bool,
    /// The card is soldered: presence is never asked.
    pub fixed: bool,
}

setters!(Caps {
    auto_stop: bool,
    auto_count: bool,
    no_count: bool,
    continue_data: bool,
    open_until_stopped: bool,
    concurrent_command: bool,
    busy: BusyDetect,
    max_busy_ns: u64,
    max_segments: u16,
    max_segment_bytes: u32,
    max_block_bytes: u16,
    block_sizes: BlockSizes,
    max_blocks: u32,
    max_bytes: u32,
    align: u32,
    dma_bits: u8,
    defer_completion: bool,
    clock_hz: (u32, u32),
    width: Width,
    timings: u16,
    signal18: bool,
    signal18_fixed: bool,
    fixed: bool,
});

impl Caps {
    /// Those of no controller; a driver names what it has and takes the rest from here. Mind
    /// [`no_count`](Self::no_count): it is true here.
    pub const NONE: Caps = Caps {
        auto_stop: false,
        auto_count: false,
        no_count: true,
        continue_data: false,
        open_until_stopped: false,
        concurrent_command: false,
        busy: BusyDetect::Status,
        max_busy_ns: 0,
        max_segments: 0,
        max_segment_bytes: 0,
        max_block_bytes: 512,
        block_sizes: BlockSizes::Any,
        max_blocks: 0,
        max_bytes: 0,
        align: 1,
        dma_bits: 0,
        defer_completion: false,
        clock_hz: (0, 0),
        width: Width::W1,
        timings: 0,
        signal18: false,
        signal18_fixed: false,
        fixed: false,
    };

    /// A bit of [`Caps::timings`]: the host needs a tuned sampling point in SDR50 [SDHC 2.2.25].
    /// Without it bring-up sends no CMD19 there.
    pub const SDR50_TUNED: u16 = 1 << 15;

    /// The bit of a timing in [`Caps::timings`].
    pub const fn timing_bit(timing: Timing) -> u16 {
        1 << timing as u16
    }

    /// Can it move several blocks of this length?
    pub const fn moves_blocks_of(&self, bytes: u16) -> bool {
        let any = matches!(self.block_sizes, BlockSizes::Any);
        bytes > 0 && bytes <= self.max_block_bytes && (any || bytes.is_power_of_two() && bytes >= 4)
    }

    /// Blocks of 512 bytes that a transfer from or to one piece of memory may have, 1 to 65535.
    pub fn blocks_in_one_piece(&self) -> u16 {
        let bytes = self.max_bytes.min(self.max_segment_bytes);
        u16::try_from(self.max_blocks.min(bytes / 512).max(1)).unwrap_or(u16::MAX)
    }

    /// Does the host do this timing?
    pub const fn can(&self, timing: Timing) -> bool {
        self.timings & Self::timing_bit(timing) != 0
    }
}
