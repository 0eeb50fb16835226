//! Capabilities that a driver declares for its controller.

use crate::spec::bus::{Timing, Width};

/// How the controller detects the end of the card's busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyDetect {
    /// The end of busy raises an interrupt, so the end of a phase includes the end of busy.
    Interrupt,
    /// The end of busy raises an interrupt after an R1b response; after data only the card's status
    /// (CMD13) shows the end of busy.
    Response,
    /// The end of busy raises no interrupt, but [`Host::dat0_busy`](super::Host::dat0_busy) returns
    /// the level of DAT0.
    Level,
    /// The controller shows neither an interrupt nor the level of DAT0: only the card's status
    /// (CMD13) shows the end of busy.
    Status,
}

/// Block lengths that the controller can transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// Blocks of any length.
    Any,
    /// Block lengths that are powers of two; a transfer of several blocks needs blocks of at least
    /// 4 bytes.
    PowersOfTwo,
    /// Powers of two, as in `PowersOfTwo`. Only the single block of a CMD53 in byte mode may have
    /// any length.
    PowersOfTwoOrBytes,
}

/// Capabilities of a controller. Sizes are in bytes, times in nanoseconds, clocks in hertz.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Caps {
    /// Whether the controller itself can send CMD12 after the last block.
    pub auto_stop: bool,
    /// Whether the controller itself can send CMD23 before a transfer.
    pub auto_count: bool,
    /// Whether CMD23 must not be sent, neither automatically by the controller nor by the engine as
    /// a command, because the controller does not support it.
    pub no_count: bool,
    /// Whether the data of an open transfer (CMD18 or CMD25 without an end) can be transferred in
    /// several phases: see [`Auto::Continue`](super::Auto::Continue).
    pub continue_data: bool,
    /// Whether a transfer can be kept open only if its first command had no length
    /// ([`Auto::Open`](super::Auto::Open)). If it is true, the engine sends no CMD23 for such a
    /// transfer, and ends it by CMD12.
    pub open_until_stopped: bool,
    /// Whether a command can be sent while the data of another command are transferred: see
    /// [`Host::start_concurrent`](super::Host::start_concurrent).
    pub concurrent_command: bool,
    /// How the controller detects the end of busy.
    pub busy: BusyDetect,
    /// Longest busy that the controller's own timer can wait for, in nanoseconds.
    pub max_busy_ns: u64,
    /// Largest number of segments in a transfer.
    pub max_segments: u16,
    /// Largest number of bytes in a segment.
    pub max_segment_bytes: u32,
    /// Largest number of bytes in a block, at least 512.
    pub max_block_bytes: u16,
    /// Block lengths that are allowed, up to [`max_block_bytes`](Self::max_block_bytes).
    pub block_sizes: BlockSizes,
    /// Largest number of blocks in a transfer.
    pub max_blocks: u32,
    /// Largest number of bytes in a transfer.
    pub max_bytes: u32,
    /// Alignment of a segment's address in bytes, a power of two.
    pub align: u32,
    /// Largest number of bytes in a transfer whose length is not a multiple of
    /// [`align`](Self::align).
    pub max_odd_bytes: u32,
    /// Number of address bits that the controller's DMA reaches; 0 if the CPU transfers the data.
    pub dma_bits: u8,
    /// Whether data requests must not be completed in the hard interrupt, for example because
    /// unmapping sleeps. The engine then ends the transfer and starts the next one in the
    /// interrupt, and completes requests in the next [`poll`](crate::engine::Engine::poll). A host
    /// may exempt single requests by [`Host::is_prompt`](crate::host::Host::is_prompt).
    pub defer_completion: bool,
    /// Slowest and fastest SD clock that the controller can make, in hertz.
    pub clock_hz: (u32, u32),
    /// Largest number of data lines that controller and board support.
    pub width: Width,
    /// Supported bus timings, one bit each (see [`Caps::can`]), and the flag [`Caps::SDR50_TUNED`].
    pub timings: u16,
    /// Whether the signal lines can be switched to 1.8 V.
    pub signal18: bool,
    /// Whether the signal lines always have 1.8 V, because VCCQ of a soldered eMMC has its own
    /// supply. Bring-up then never requests 3.3 V.
    pub signal18_fixed: bool,
    /// Whether the card is soldered, so that its presence is never checked.
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
    max_odd_bytes: u32,
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
    /// Values from which a driver starts: it sets its own capabilities, and keeps the other fields.
    /// [`no_count`](Self::no_count) is true here.
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
        max_odd_bytes: u32::MAX,
        dma_bits: 0,
        defer_completion: false,
        clock_hz: (0, 0),
        width: Width::W1,
        timings: 0,
        signal18: false,
        signal18_fixed: false,
        fixed: false,
    };

    /// Flag in [`Caps::timings`]: the host needs tuning in SDR50 [SDHC 2.2.25]. Without the flag,
    /// bring-up sends no CMD19 in SDR50.
    pub const SDR50_TUNED: u16 = 1 << 15;

    /// Returns the bit of a timing in [`Caps::timings`].
    pub const fn timing_bit(timing: Timing) -> u16 {
        1 << timing as u16
    }

    /// Returns whether the controller can transfer several blocks of this length.
    pub const fn moves_blocks_of(&self, bytes: u16) -> bool {
        let any = matches!(self.block_sizes, BlockSizes::Any);
        bytes > 0 && bytes <= self.max_block_bytes && (any || bytes.is_power_of_two() && bytes >= 4)
    }

    /// Returns the largest number of 512-byte blocks in a transfer with one segment, 1 to 65535.
    pub fn blocks_in_one_piece(&self) -> u16 {
        let bytes = self.max_bytes.min(self.max_segment_bytes);
        u16::try_from(self.max_blocks.min(bytes / 512).max(1)).unwrap_or(u16::MAX)
    }

    /// Returns whether the controller supports this timing.
    pub const fn can(&self, timing: Timing) -> bool {
        self.timings & Self::timing_bit(timing) != 0
    }
}
