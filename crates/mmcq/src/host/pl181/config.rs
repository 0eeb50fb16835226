//! Settings that the board gives the driver, and the capabilities that follow from them.

use super::regs::*;
use crate::host::{BlockSizes, BusyDetect, Caps, Timing, Width};
use core::fmt;

/// Card clock of default speed, in hertz: every card supports it before any switch [SD 6.6.6].
const DEFAULT_SPEED_HZ: u32 = 25_000_000;
/// Part numbers of PL180 and PL181 in bits 11:0 of MCIPeriphID.
const PARTS: [u32; 2] = [0x180, 0x181];
/// ARM's designer number in bits 19:12 of MCIPeriphID.
const DESIGNER_ARM: u32 = 0x41;
/// Number of words in the FIFO, except in the FPGA images of [`FIFO_WORDS_EXTENDED`].
const FIFO_WORDS: u16 = 16;
/// Number of words in the FIFO of ARM's FPGA images, which the upper byte of MCIPeriphID
/// identifies.
const FIFO_WORDS_EXTENDED: u16 = 128;

/// Settings that the board gives the driver. Start from [`Pl181Config::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Pl181Config {
    /// Frequency of MCLK, the source of the card's clock, in hertz.
    pub mclk_hz: u32,
    /// Frequency of PCLK, the clock of the register bus, in hertz. MCLK and PCLK decide how long
    /// the driver must wait between two writes to a register.
    pub pclk_hz: u32,
    /// Fastest card clock that the board's wiring supports, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects: one, or four if the controller has the wide
    /// bus (PL181).
    pub width: Width,
    /// Whether the card is switched to high-speed timing for clocks above 25 MHz. The controller
    /// has no setting for this timing; the board's wiring must support it.
    pub high_speed: bool,
    /// Additional bits of MCIPower while the supply is on, if the board connects something to them:
    /// voltage (5:2), open drain (6), resistor (7).
    pub power: u32,
    /// Time from power-up to power-on that the supply needs to rise, in nanoseconds.
    pub power_up_ns: u64,
    /// Number of words in the FIFO; `None` to derive it from the identification registers. Set it
    /// for a controller without identification, or with an unknown one.
    pub fifo_words: Option<u16>,
}

setters!(Pl181Config {
    mclk_hz: u32,
    pclk_hz: u32,
    max_clock_hz: u32,
    width: Width,
    high_speed: bool,
    power: u32,
    power_up_ns: u64,
    fifo_words: Option<u16>,
});

impl Pl181Config {
    /// Makes settings for one data line and default speed; the FIFO has the size that the
    /// identification registers show. `mclk_hz` is the frequency in hertz of the clock that the
    /// controller divides, `pclk_hz` that of the bus by which the CPU accesses its registers.
    pub const fn new(mclk_hz: u32, pclk_hz: u32) -> Self {
        Pl181Config {
            mclk_hz,
            pclk_hz,
            max_clock_hz: DEFAULT_SPEED_HZ,
            width: Width::W1,
            high_speed: false,
            power: 0,
            power_up_ns: 1_000_000,
            fifo_words: None,
        }
    }

    /// Returns the capabilities of a controller on this board.
    pub(super) fn caps(&self) -> Caps {
        let slowest = self.mclk_hz.div_ceil(2 * (CLOCK_DIVIDER_MAX + 1));
        let fastest = self.mclk_hz.min(self.max_clock_hz).max(slowest);
        let high = if self.high_speed { Caps::timing_bit(Timing::HighSpeed) } else { 0 };
        Caps {
            auto_stop: false,
            auto_count: false,
            no_count: false,
            continue_data: false,
            open_until_stopped: false,
            concurrent_command: false,
            busy: BusyDetect::Status,
            max_busy_ns: 0,
            max_segments: 64,
            max_segment_bytes: DATA_BYTES_MAX,
            max_block_bytes: super::regs::DATA_BLOCK_BYTES_MAX,
            block_sizes: BlockSizes::PowersOfTwo,
            max_blocks: DATA_BYTES_MAX,
            max_bytes: DATA_BYTES_MAX,
            align: 1,
            max_odd_bytes: u32::MAX,
            dma_bits: 0,
            defer_completion: false,
            clock_hz: (slowest, fastest),
            width: self.width.min(Width::W4),
            timings: Caps::timing_bit(Timing::Legacy) | high,
            signal18: false,
            signal18_fixed: false,
            fixed: true,
        }
    }

    /// Returns the number of words in the FIFO: the setting if there is one, else the number of the
    /// controller with the identification `id`.
    pub(super) fn fifo(&self, id: u32) -> Result<u16, Pl181InitError> {
        match self.fifo_words {
            Some(words) if words >= 2 && words.is_power_of_two() => Ok(words),
            Some(words) => Err(Pl181InitError::Fifo(words)),
            None if !PARTS.contains(&(id & 0xfff)) || id >> 12 & 0xff != DESIGNER_ARM => {
                Err(Pl181InitError::Unknown(id))
            }
            None if id >> 24 != 0 => Ok(FIFO_WORDS_EXTENDED),
            None => Ok(FIFO_WORDS),
        }
    }

    /// Returns how many register accesses (at least two PCLK each) fill the time that a register
    /// needs between two writes: three MCLK and two PCLK.
    pub(super) fn gap_reads(&self) -> u32 {
        let mclk = u64::from(self.mclk_hz.max(1));
        let pclk_cycles = 2 + (3 * u64::from(self.pclk_hz)).div_ceil(mclk);
        // With more accesses, PCLK would be a thousand times faster than MCLK, which no board has.
        pclk_cycles.div_ceil(2).min(1_500) as u32
    }
}

/// Why [`Pl181::new`](super::Pl181::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pl181InitError {
    /// The status register reads as all ones: the controller's clock is off, or no controller is at
    /// this address.
    Gone,
    /// The identification (the value) is neither PL180 nor PL181. Set [`Pl181Config::fifo_words`]
    /// if the controller is compatible nevertheless.
    Unknown(u32),
    /// [`Pl181Config::fifo_words`] is not a power of two, or is 1.
    Fifo(u16),
    /// [`Pl181Config::mclk_hz`] is 0.
    NoClock,
}

impl fmt::Display for Pl181InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pl181InitError::Gone => f.write_str("pl181: status reads as all ones, expected a controller"),
            Pl181InitError::Unknown(id) => {
                write!(
                    f,
                    "pl181: MCIPeriphID reads {id:#010x}, expected ...41180h, ...41181h or Pl181Config::fifo_words"
                )
            }
            Pl181InitError::Fifo(words) => {
                write!(f, "pl181: Pl181Config::fifo_words is {words}, expected a power of two from 2 on")
            }
            Pl181InitError::NoClock => {
                f.write_str("pl181: Pl181Config::mclk_hz is 0, expected MCLK in hertz")
            }
        }
    }
}

impl core::error::Error for Pl181InitError {}
