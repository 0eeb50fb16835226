//! What a board says about its controller, and what follows from it.

use super::regs::*;
use crate::host::{BlockSizes, BusyDetect, Caps, DmaError, Timing, Width};
use core::fmt;

/// Default speed: what a card bears before any switch, in hertz [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;
/// Data on both edges need a faster source.
const DDR_SOURCE_ABOVE_HZ: u32 = 52_000_000;
/// Bytes in a block that a phase may ask for.
pub(super) const BLOCK_BYTES_MAX: u16 = 2048;
/// Card clocks of the data timer.
const TIMER_CLOCKS: u64 = 0xff_ffff;

/// What a board says about its controller. Start from [`MshcConfig::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct MshcConfig {
    /// The clock from which the card's is divided, in hertz: by 2, 4, 6 to 510, or not at all.
    pub source_hz: u32,
    /// Fastest card clock that the board's wires carry, in hertz.
    pub max_clock_hz: u32,
    /// Data lines that are wired.
    pub width: Width,
    /// High speed timing: controller and board bear up to 50 MHz.
    pub high_speed: bool,
    /// Data on both edges: DDR52, and DDR50 with 1.8 V. The clock is divided at least by 2 then, so
    /// it needs a source above 52 MHz.
    pub ddr: bool,
    /// There is a level shifter, or a supply of the pads that switches: SDR12 and SDR25; with
    /// sampling points to choose from ([`sample_delay`](Self::sample_delay),
    /// [`MshcBoard::taps`](super::MshcBoard::taps)) SDR50, SDR104 and HS200.
    /// [`Surroundings::signalling`](crate::host::surroundings::Surroundings::signalling) moves it.
    pub signal18: bool,
    /// The lines are at 1.8 V and cannot leave it: a soldered eMMC.
    pub signal18_fixed: bool,
    /// SMHC: the delay line at 144h is there (A64 and later), and tuning moves it. The board's taps
    /// are not asked for then.
    pub sample_delay: bool,
    /// SMHC: the new timing mode is switched on (A83T and later, where the clock tree says so).
    pub new_timing: bool,
    /// The card is soldered, or nothing tells whether there is one. SMHC: always.
    pub fixed: bool,
    /// How long the supply takes, in nanoseconds.
    pub power_up_ns: u64,
    /// Bytes that a descriptor may have, a multiple of 512: 4096 suits all; SMHC takes 32768, but
    /// for those of A10, A100, D1 and the eMMC port of A64.
    pub descriptor_bytes: u32,
    /// Bits by which the DMA's addresses are shifted right: 2 in D1, H616 and all ports of A100, 0
    /// elsewhere.
    pub address_shift: u8,
    /// Words in the FIFO, instead of what DesignWare's reset value says (which a boot loader may
    /// have changed), or of 16 in an SMHC.
    pub fifo_words: Option<u16>,
    /// Where the FIFO is, if not at 200h (DesignWare before version 240A: 100h).
    pub fifo_offset: Option<u16>,
    /// SMHC: DAT0 is not looked at while the clock changes (A64 and later).
    pub mask_dat0: bool,
    /// SMHC: a change of the clock that changes nothing is held back while the card is busy, and its
    /// end interrupts. So the end of busy does. Linux's driver has both halves: A64 and later need
    /// [`mask_dat0`](Self::mask_dat0) since a change waits for DAT0, and a change leaves status bits.
    /// None is known to use them so.
    pub busy_by_update: bool,
    /// DesignWare: CMD and DAT pass the hold register.
    pub hold: bool,
}

setters!(MshcConfig {
    source_hz: u32,
    max_clock_hz: u32,
    width: Width,
    high_speed: bool,
    ddr: bool,
    signal18: bool,
    signal18_fixed: bool,
    sample_delay: bool,
    new_timing: bool,
    fixed: bool,
    power_up_ns: u64,
    descriptor_bytes: u32,
    address_shift: u8,
    fifo_words: Option<u16>,
    fifo_offset: Option<u16>,
    mask_dat0: bool,
    busy_by_update: bool,
    hold: bool,
});

impl MshcConfig {
    /// Four lines, default speed, as identified.
    pub const fn new(source_hz: u32) -> Self {
        MshcConfig {
            source_hz,
            max_clock_hz: DEFAULT_SPEED_HZ,
            width: Width::W4,
            high_speed: false,
            ddr: false,
            signal18: false,
            signal18_fixed: false,
            sample_delay: false,
            new_timing: false,
            fixed: false,
            power_up_ns: 1_000_000,
            descriptor_bytes: 4096,
            address_shift: 0,
            fifo_words: None,
            fifo_offset: None,
            mask_dat0: false,
            busy_by_update: false,
            hold: true,
        }
    }

    /// Capabilities of a controller with so many descriptors on this board, and sampling points to
    /// choose from or not.
    pub(super) fn caps(&self, descriptors: usize, fixed: bool, tuned: bool) -> Result<Caps, MshcInitError> {
        let slowest = self.source_hz.div_ceil(2 * DIVIDER_MAX);
        let fastest = self.source_hz.min(self.max_clock_hz);
        if slowest == 0 || fastest < slowest {
            let MshcConfig { source_hz, max_clock_hz, .. } = *self;
            return Err(MshcInitError::Clock { source_hz, max_clock_hz });
        }
        let bytes = self.descriptor_bytes;
        if !bytes.is_multiple_of(512) || !(512..=32768).contains(&bytes) {
            return Err(MshcInitError::Descriptor(bytes));
        }
        // A piece takes a descriptor more than its length needs, at most.
        let half = u16::try_from(descriptors / 2).unwrap_or(u16::MAX).clamp(1, 1024);
        let max_bytes = u32::from(half) * bytes;
        Ok(Caps {
            auto_stop: true,
            no_count: false,
            busy: BusyDetect::Level,
            max_busy_ns: TIMER_CLOCKS * 1_000_000_000 / u64::from(fastest),
            max_segments: half,
            max_segment_bytes: max_bytes,
            max_block_bytes: BLOCK_BYTES_MAX,
            block_sizes: BlockSizes::PowersOfTwoOrBytes,
            max_blocks: 0xffff,
            max_bytes,
            align: 4,
            dma_bits: 32,
            clock_hz: (slowest, fastest),
            width: self.width,
            timings: self.timings(tuned),
            signal18: self.signal18 || self.signal18_fixed,
            signal18_fixed: self.signal18_fixed,
            fixed: self.fixed || fixed,
            ..Caps::NONE
        })
    }

    fn timings(&self, tuned: bool) -> u16 {
        let bit = Caps::timing_bit;
        // At half of a slower source both edges bring no more than one did.
        let ddr = self.ddr && self.source_hz > DDR_SOURCE_ABOVE_HZ;
        let mut timings = bit(Timing::Legacy);
        if self.high_speed {
            timings |= bit(Timing::HighSpeed);
        }
        if ddr {
            timings |= bit(Timing::Ddr52);
        }
        if self.signal18 {
            timings |= bit(Timing::Sdr12) | bit(Timing::Sdr25) | if ddr { bit(Timing::Ddr50) } else { 0 };
        }
        if self.signal18 && tuned {
            timings |= bit(Timing::Sdr50) | Caps::SDR50_TUNED | bit(Timing::Sdr104);
        }
        if (self.signal18 || self.signal18_fixed) && tuned {
            timings |= bit(Timing::Hs200);
        }
        timings
    }
}

/// Why there is no driver.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MshcInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The fastest card clock asked for is slower than the slowest (the source divided by 510), or
    /// one of them is 0.
    Clock {
        /// [`MshcConfig::source_hz`].
        source_hz: u32,
        /// [`MshcConfig::max_clock_hz`].
        max_clock_hz: u32,
    },
    /// DesignWare's HCON: built without the internal DMA of 32 bits, or with another FIFO than one
    /// of 32 bits.
    Hardware(u32),
    /// [`MshcConfig::descriptor_bytes`] is no multiple of 512 up to 32768.
    Descriptor(u32),
    /// [`MshcConfig::address_shift`] is neither 0 nor 2.
    Shift(u8),
    /// [`MshcConfig::fifo_words`], or what the threshold register says: not 4 to 4096.
    Fifo(u32),
    /// The controller cannot reach its descriptors.
    Table(DmaError),
}

impl fmt::Display for MshcInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MshcInitError::Gone => f.write_str("mshc: registers read as all ones, expected a controller"),
            MshcInitError::Clock { source_hz, max_clock_hz } => write!(
                f,
                "mshc: source_hz {source_hz} with max_clock_hz {max_clock_hz}, expected at least source_hz / 510"
            ),
            MshcInitError::Hardware(hcon) => {
                write!(f, "mshc: HCON reads {hcon:#010x}, expected internal DMA and FIFO of 32 bits")
            }
            MshcInitError::Descriptor(bytes) => {
                write!(f, "mshc: descriptor_bytes {bytes}, expected a multiple of 512 up to 32768")
            }
            MshcInitError::Shift(bits) => write!(f, "mshc: address_shift {bits}, expected 0 or 2"),
            MshcInitError::Fifo(words) => write!(f, "mshc: a FIFO of {words} words, expected 4 to 4096"),
            MshcInitError::Table(error) => write!(f, "mshc: descriptors: {error}"),
        }
    }
}

impl core::error::Error for MshcInitError {}
