//! What a board knows about its reader and cannot read from it.

use crate::host::{DmaError, Width};
use core::fmt;

/// A reader and how it is wired.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Data of an open transfer can be moved without a command:
    /// [`Caps::continue_data`](crate::host::Caps::continue_data).
    pub continue_data: bool,
    /// The chip's waiting for the end of busy also works after written data (it does after a response): the
    /// end of a write is then an interrupt, and nobody polls. The drivers that are known never ask for it
    /// there, so it is off unless tried on the very chip.
    pub busy_after_data: bool,
    /// The chip may write into the list's memory, and the CPU sees it there without more ado, although
    /// [`Dma`](crate::host::Dma) was only asked for a mapping for `Write` (x86, unless an IOMMU forbids it):
    /// responses then come with the end of the list. Otherwise they are read byte by byte through
    /// [`HAIMR`](super::regs::HAIMR).
    pub coherent: bool,
    /// Fastest SD clock that the board's wires carry, in hertz.
    pub max_clock_hz: u32,
    /// Data lines that are wired, at most four.
    pub width: Width,
    /// The socket's supply for 1.8 V signalling is there.
    pub signal18: bool,
    /// The card is soldered: presence is never asked.
    pub fixed: bool,
    /// Phase of what the host sends in SDR50 and SDR104, 0 to 31: the board's.
    pub send_phase: u8,
    /// Phase of the sampling there before (or without) tuning, 0 to 31.
    pub sample_phase: u8,
}

impl Config {
    /// A reader with everything, in a slot.
    pub const fn new() -> Self {
        Config {
            continue_data: true,
            busy_after_data: false,
            coherent: false,
            max_clock_hz: u32::MAX,
            width: Width::W4,
            signal18: true,
            fixed: false,
            send_phase: 26,
            sample_phase: 12,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// Why there is no driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The list's memory cannot be mapped, or lies where the chip cannot reach (32 bits).
    List(DmaError),
    /// The same of the table's.
    Table(DmaError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Gone => f.write_str("rtsx: BIPR reads as all ones, expected a reader"),
            SetupError::List(why) => write!(f, "rtsx: list of operations cannot be used for DMA: {why:?}"),
            SetupError::Table(why) => {
                write!(f, "rtsx: scatter/gather table cannot be used for DMA: {why:?}")
            }
        }
    }
}

impl core::error::Error for SetupError {}
