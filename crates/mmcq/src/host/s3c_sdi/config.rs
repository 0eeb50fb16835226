//! Settings of the controller that the board knows and the driver cannot read.

use crate::host::Width;
use core::fmt;

/// Which buffers the platform's DMA transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaUse {
    /// None: the CPU transfers all data.
    Never,
    /// Buffers of at least this many bytes that consist of whole words; the CPU transfers the
    /// others. A start of the DMA costs three accesses and the cache maintenance, which does not
    /// pay for small buffers.
    From(u32),
}

/// A controller and its board.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct S3cSdiConfig {
    /// Which buffers the platform's DMA transfers.
    pub dma: DmaUse,
    /// The controller's clock input, in hertz.
    pub pclk_hz: u32,
    /// Fastest SD clock that the controller and the board's wires support, in hertz. A value above
    /// 25 MHz means that the board supports high-speed timing.
    pub max_clock_hz: u32,
    /// Number of data lines that are wired: one or four.
    pub width: Width,
}

setters!(S3cSdiConfig { dma: DmaUse, pclk_hz: u32, max_clock_hz: u32, width: Width });

impl S3cSdiConfig {
    /// Makes settings with four lines at up to 25 MHz from this PCLK, and data transfers by the
    /// CPU.
    pub const fn new(pclk_hz: u32) -> Self {
        S3cSdiConfig { dma: DmaUse::Never, pclk_hz, max_clock_hz: 25_000_000, width: Width::W4 }
    }
}

/// Why the driver cannot be made.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3cSdiInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The fastest requested SD clock is slower than the slowest possible (PCLK / 256), or one of
    /// them is 0.
    Clock {
        /// [`S3cSdiConfig::pclk_hz`].
        pclk_hz: u32,
        /// [`S3cSdiConfig::max_clock_hz`].
        max_clock_hz: u32,
    },
    /// The controller has no eight data lines.
    Width(Width),
}

impl fmt::Display for S3cSdiInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            S3cSdiInitError::Gone => f.write_str("s3c_sdi: CON reads as all ones, expected a controller"),
            S3cSdiInitError::Clock { pclk_hz, max_clock_hz } => write!(
                f,
                "s3c_sdi: pclk_hz {pclk_hz} with max_clock_hz {max_clock_hz}, expected at least pclk_hz / 256"
            ),
            S3cSdiInitError::Width(width) => write!(f, "s3c_sdi: width {width:?}, expected W1 or W4"),
        }
    }
}

impl core::error::Error for S3cSdiInitError {}
