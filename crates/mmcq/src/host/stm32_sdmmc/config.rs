//! Settings that the board gives the driver, and the capabilities that follow from them.

use super::regs::*;
use super::table::{BOUNCE_BYTES, GRAIN_BYTES};
use crate::host::{BlockSizes, BusyDetect, Caps, DmaError, Timing, Width};
use crate::spec::timing::{emmc, sd};
use core::fmt;

/// Card clock of default speed, in hertz: every card supports it before any switch [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;

/// Settings that the board gives the driver. Start from [`Stm32SdmmcConfig::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Stm32SdmmcConfig {
    /// Frequency of the kernel clock (`sdmmc_ker_ck`), the source of the card's clock, in hertz.
    pub kernel_hz: u32,
    /// Fastest card clock that the board's wiring supports, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects.
    pub width: Width,
    /// Whether the board supports high-speed timing, up to 50 MHz.
    pub high_speed: bool,
    /// Whether the board can switch the signal lines to 1.8 V, by a level shifter or the supply of
    /// the pads. The voltage of 1.8 V allows SDR12, SDR25, DDR50 and DDR52, the last two with a
    /// kernel clock faster than the card's; with a delay block
    /// ([`Stm32Board::taps`](super::Stm32Board::taps)) also the other UHS-I timings and HS200.
    /// [`Surroundings::signalling`](crate::host::surroundings::Surroundings::signalling) switches
    /// the voltage.
    pub signal18: bool,
    /// Whether the signal lines always have 1.8 V, as with a soldered eMMC.
    pub signal18_fixed: bool,
    /// Whether the level shifter's direction pins are high while the controller drives a line
    /// (DIRPOL; `st,sig-dir` of a device tree). The bit is written while the supply is off, so a
    /// board that cannot reset the controller keeps the earlier value.
    pub direction_high: bool,
    /// Whether the controller changes CMD and DAT at the falling clock edge (NEGEDGE;
    /// `st,neg-edge`).
    pub falling_edge: bool,
    /// Whether the controller samples received bits by the clock that the level shifter returns
    /// (`SDMMC_CKIN`; `st,use-ckin`).
    pub clock_in: bool,
    /// Whether the card is soldered, so that its presence is never checked.
    pub fixed: bool,
    /// Time that the card's supply needs to rise, in nanoseconds. The lines are low during that
    /// time, at least 1 ms.
    pub power_up_ns: u64,
    /// Largest number of bytes in a list entry, a multiple of 64 from 512 to 65536. 4096 works on
    /// all controllers, 65536 on those whose size field reaches to bit 16 (IDMABSIZE 16:5).
    pub piece_bytes: u32,
    /// First and last address that the DMA reaches. On an H7, SDMMC1 reaches AXI SRAM and the
    /// external memories, but not DTCM.
    pub dma_window: (u32, u32),
    /// Whether the end of a write's data includes the end of its busy, as the manual says [RM0399
    /// 58.5.4]. If false, the engine reads the card's status (CMD13) after each write, before the
    /// next command. Users of other drivers saw cards that were still busy after a single block
    /// (embassy #3540, stm32h7xx-hal #360), and a busy card refuses the next write.
    pub busy_after_data: bool,
}

setters!(Stm32SdmmcConfig {
    kernel_hz: u32,
    max_clock_hz: u32,
    width: Width,
    high_speed: bool,
    signal18: bool,
    signal18_fixed: bool,
    direction_high: bool,
    falling_edge: bool,
    clock_in: bool,
    fixed: bool,
    power_up_ns: u64,
    piece_bytes: u32,
    dma_window: (u32, u32),
    busy_after_data: bool,
});

impl Stm32SdmmcConfig {
    /// Makes settings for four data lines, default speed, and a DMA that reaches all memory.
    /// `kernel_hz`: frequency in hertz of the kernel clock (`sdmmc_ker_ck`), from which the card's
    /// clock is made.
    pub const fn new(kernel_hz: u32) -> Self {
        Stm32SdmmcConfig {
            kernel_hz,
            max_clock_hz: DEFAULT_SPEED_HZ,
            width: Width::W4,
            high_speed: false,
            signal18: false,
            signal18_fixed: false,
            direction_high: false,
            falling_edge: false,
            clock_in: false,
            fixed: false,
            power_up_ns: 1_000_000,
            piece_bytes: 4096,
            dma_window: (0, u32::MAX),
            busy_after_data: false,
        }
    }

    /// Returns the capabilities of a controller with `pieces` list entries. `tuned` says whether
    /// the board has a delay block.
    pub(super) fn caps(&self, pieces: usize, tuned: bool) -> Result<Caps, Stm32SdmmcInitError> {
        let slowest = self.kernel_hz.div_ceil(2 * CLOCK_DIVIDER_MAX);
        let fastest = self.kernel_hz.min(self.max_clock_hz);
        if slowest == 0 || fastest < slowest {
            let Stm32SdmmcConfig { kernel_hz, max_clock_hz, .. } = *self;
            return Err(Stm32SdmmcInitError::Clock { kernel_hz, max_clock_hz });
        }
        let piece = self.piece_bytes;
        if !piece.is_multiple_of(GRAIN_BYTES) || !(512..=65536).contains(&piece) {
            return Err(Stm32SdmmcInitError::Piece(piece));
        }
        let most = DATA_BYTES_MAX + 1 - u32::from(DATA_BLOCK_BYTES_MAX);
        // A segment needs at most one list entry more than its length requires.
        let half = u16::try_from(pieces / 2).unwrap_or(u16::MAX).clamp(1, 512);
        let (max_segments, max_bytes) =
            if pieces == 1 { (1, most) } else { (half, (u32::from(half) * piece).min(most)) };
        let bit = Caps::timing_bit;
        // With DDR the card's clock is at most half of the kernel clock. Where the card can have the
        // kernel clock without DDR, DDR transfers no more.
        let ddr = |timing, hz: u32| if self.kernel_hz > hz.min(fastest) { bit(timing) } else { 0 };
        let mut timings = bit(Timing::Legacy);
        if self.high_speed {
            timings |= bit(Timing::HighSpeed);
        }
        if self.signal18 {
            timings |= bit(Timing::Sdr12) | bit(Timing::Sdr25);
            timings |= ddr(Timing::Ddr50, sd::max_hz(Timing::Ddr50));
        }
        if self.signal18 || self.signal18_fixed {
            timings |= ddr(Timing::Ddr52, emmc::max_hz(Timing::Ddr52));
        }
        // Above 50 MHz the receive clock comes from the delay block, so it needs tuning.
        if tuned && self.signal18 {
            timings |= bit(Timing::Sdr50) | Caps::SDR50_TUNED;
        }
        if tuned && (self.signal18 || self.signal18_fixed) {
            timings |= bit(Timing::Sdr104) | bit(Timing::Hs200);
        }
        Ok(Caps {
            no_count: false,
            busy: if self.busy_after_data { BusyDetect::Interrupt } else { BusyDetect::Response },
            max_busy_ns: u64::from(u32::MAX / 2) * 1_000_000_000 / u64::from(fastest),
            max_segments,
            max_segment_bytes: max_bytes,
            max_block_bytes: DATA_BLOCK_BYTES_MAX,
            block_sizes: BlockSizes::PowersOfTwoOrBytes,
            max_blocks: 0xffff,
            max_bytes,
            align: 4,
            max_odd_bytes: BOUNCE_BYTES,
            dma_bits: 32,
            clock_hz: (slowest, fastest),
            width: self.width,
            timings,
            signal18: self.signal18 || self.signal18_fixed,
            signal18_fixed: self.signal18_fixed,
            fixed: self.fixed,
            ..Caps::NONE
        })
    }
}

/// Why [`Stm32Sdmmc::new`](super::Stm32Sdmmc::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stm32SdmmcInitError {
    /// The status register reads as all ones: the controller's clock is off, or no controller is at
    /// this address.
    Gone,
    /// The fastest allowed card clock is slower than the slowest possible one (the kernel clock
    /// divided by 2046), or one of both settings is 0.
    Clock {
        /// The value of [`Stm32SdmmcConfig::kernel_hz`].
        kernel_hz: u32,
        /// The value of [`Stm32SdmmcConfig::max_clock_hz`].
        max_clock_hz: u32,
    },
    /// No SDMMC with internal DMA is at this address: IDMABASE does not keep the value that the
    /// driver writes.
    NoDma,
    /// More than one list entry was requested, but the internal DMA supports no lists (H7, L4+).
    NoList,
    /// [`Stm32SdmmcConfig::piece_bytes`] is not a multiple of 64 from 512 to 65536, or is larger
    /// than the controller's IDMABSIZE.
    Piece(u32),
    /// The controller cannot reach the memory of its list and its bounce buffer.
    List(DmaError),
}

impl fmt::Display for Stm32SdmmcInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stm32SdmmcInitError::Gone => f.write_str(
                "stm32_sdmmc: registers read as all ones, expected a controller with its clock on",
            ),
            Stm32SdmmcInitError::Clock { kernel_hz, max_clock_hz } => write!(
                f,
                "stm32_sdmmc: kernel_hz {kernel_hz} with max_clock_hz {max_clock_hz}, expected at least kernel_hz / 2046"
            ),
            Stm32SdmmcInitError::Piece(bytes) => {
                write!(
                    f,
                    "stm32_sdmmc: piece_bytes {bytes}, expected a multiple of 64 from 512 to 65536 that IDMABSIZE holds"
                )
            }
            Stm32SdmmcInitError::NoDma => {
                f.write_str("stm32_sdmmc: IDMABASE does not hold what is written, expected an SDMMC of version 2 or 3")
            }
            Stm32SdmmcInitError::NoList => f.write_str(
                "stm32_sdmmc: IDMABAR does not hold what is written, expected a controller with a list, or Pieces<1>",
            ),
            Stm32SdmmcInitError::List(error) => write!(f, "stm32_sdmmc: list of pieces and bounce buffer: {error}"),
        }
    }
}

impl core::error::Error for Stm32SdmmcInitError {}
