//! Settings that the board gives the driver, and the capabilities that follow from them.

use super::regs::*;
use crate::host::{BlockSizes, BusyDetect, Caps, DmaError, Timing, Width};
use core::fmt;

/// Card clock of default speed, in hertz: every card supports it before any switch [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;
/// Source clock in hertz above which DDR (data on both clock edges) is faster than data on one
/// edge. DDR divides the source by at least 2; data on one edge may use the undivided source up to
/// this frequency.
const DDR_SOURCE_ABOVE_HZ: u32 = 52_000_000;
/// Largest block size in bytes that the driver transfers.
pub(super) const BLOCK_BYTES_MAX: u16 = 2048;
/// Longest data timeout, in card clocks (24 bits).
const TIMER_CLOCKS: u64 = 0xff_ffff;

/// Settings that the board gives the driver. Start from [`MshcConfig::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct MshcConfig {
    /// Frequency of the source of the card's clock, in hertz. It is divided by 2, 4, 6 to 510, or
    /// not at all.
    pub source_hz: u32,
    /// Fastest card clock that the board's wiring supports, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects.
    pub width: Width,
    /// Whether controller and board support high-speed timing, up to 50 MHz.
    pub high_speed: bool,
    /// Whether DDR52, and DDR50 at 1.8 V, may be used (data on both clock edges). The clock is then
    /// divided by at least 2, so the source must be above 52 MHz.
    pub ddr: bool,
    /// Whether the board can switch the signal lines to 1.8 V, by a level shifter or the supply of
    /// the pads. The voltage of 1.8 V allows SDR12 and SDR25. With a selectable sampling point
    /// ([`sample_delay`](Self::sample_delay), [`MshcBoard::taps`](super::MshcBoard::taps)) 1.8 V
    /// also allows SDR50, SDR104 and HS200.
    /// [`Surroundings::signalling`](crate::host::surroundings::Surroundings::signalling) switches
    /// the voltage.
    pub signal18: bool,
    /// Whether the signal lines always have 1.8 V, as with a soldered eMMC.
    pub signal18_fixed: bool,
    /// SMHC: whether the controller has a delay line at 144h (A64 and later), which tuning sets.
    /// The driver then ignores [`MshcBoard::taps`](super::MshcBoard::taps).
    pub sample_delay: bool,
    /// SMHC: whether to use the new timing mode (A83T and later, where the clock tree requires it).
    pub new_timing: bool,
    /// Whether the card is always present, because it is soldered or the board has no card
    /// detection. An SMHC acts as if true.
    pub fixed: bool,
    /// Time that the supply of the card needs to rise, in nanoseconds.
    pub power_up_ns: u64,
    /// Largest number of bytes in one DMA descriptor, a multiple of 512. 4096 works on all
    /// controllers. An SMHC allows 32768, except those of A10, A100, D1 and the eMMC port of A64.
    pub descriptor_bytes: u32,
    /// Number of bits by which DMA addresses are shifted right: 2 in D1, H616 and all ports of
    /// A100, 0 elsewhere.
    pub address_shift: u8,
    /// Number of words in the FIFO. `None` means DesignWare's value after reset (which a boot
    /// loader may have changed), or 16 in an SMHC.
    pub fifo_words: Option<u16>,
    /// Offset of the FIFO, if it is not 200h (DesignWare before version 240A: 100h).
    pub fifo_offset: Option<u16>,
    /// SMHC: whether the controller can ignore DAT0 while the clock changes (A64 and later).
    pub mask_dat0: bool,
    /// SMHC: whether the driver detects the end of busy by a clock update that changes nothing. The
    /// controller holds the update back while the card is busy, and interrupts when the update
    /// ends. Linux's driver shows that an update waits for DAT0 and sets status bits. No other
    /// driver is known to detect busy in this way.
    pub busy_by_update: bool,
    /// DesignWare: whether the controller drives CMD and DAT through the hold register.
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
    /// Makes settings for four data lines and default speed. The FIFO has the size that `None` in
    /// [`fifo_words`](Self::fifo_words) means. `source_hz`: frequency in hertz of the clock that
    /// the controller divides.
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

    /// Returns the capabilities of a controller with `descriptors` DMA descriptors on this board.
    /// `fixed`: the card is soldered. `tuned`: the sampling point can be selected.
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
        // A segment needs at most one descriptor more than its length requires.
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
        // With a slower source, DDR at half the clock is no faster than one edge at the full clock.
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

/// Why [`Mshc::new`](super::Mshc::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MshcInitError {
    /// The status and control registers read as all ones: the controller's clock is off, or no
    /// controller is at this address.
    Gone,
    /// The fastest allowed card clock is slower than the slowest possible one (the source divided
    /// by 510), or one of both settings is 0.
    Clock {
        /// The value of [`MshcConfig::source_hz`].
        source_hz: u32,
        /// The value of [`MshcConfig::max_clock_hz`].
        max_clock_hz: u32,
    },
    /// DesignWare's HCON register shows a controller without the internal 32-bit DMA, or with a
    /// FIFO that is not 32 bits wide. The value is that of HCON.
    Hardware(u32),
    /// [`MshcConfig::descriptor_bytes`] is not a multiple of 512 from 512 to 32768.
    Descriptor(u32),
    /// [`MshcConfig::address_shift`] is neither 0 nor 2.
    Shift(u8),
    /// [`MshcConfig::fifo_words`], or the number of words in the threshold register, is not within
    /// 4 to 4096.
    Fifo(u32),
    /// The controller's DMA cannot reach the memory of the descriptors.
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
