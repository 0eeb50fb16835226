//! What a board knows about its controller and cannot read from it.

use crate::host::Width;
use core::fmt;

/// What moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaUse {
    /// The CPU, always.
    Never,
    /// The platform's DMA moves buffers of at least so many bytes that are made of whole words; the
    /// CPU moves the others. Starting it costs three accesses and the cache's maintenance, which
    /// small buffers do not pay back.
    From(u32),
}

/// A controller and how it is wired.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct S3cSdiConfig {
    /// What moves the data.
    pub dma: DmaUse,
    /// The controller's clock input, in hertz.
    pub pclk_hz: u32,
    /// Fastest SD clock that the controller and the board's wires carry, in hertz. Above 25 MHz the
    /// board vouches for high-speed timing.
    pub max_clock_hz: u32,
    /// Data lines that are wired: one or four.
    pub width: Width,
}

setters!(S3cSdiConfig { dma: DmaUse, pclk_hz: u32, max_clock_hz: u32, width: Width });

impl S3cSdiConfig {
    /// Four lines at up to 25 MHz from this PCLK, data by the CPU.
    pub const fn new(pclk_hz: u32) -> Self {
        S3cSdiConfig { dma: DmaUse::Never, pclk_hz, max_clock_hz: 25_000_000, width: Width::W4 }
    }
}

/// Why there is no driver.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3cSdiInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The fastest SD clock asked for is slower than the slowest (PCLK / 256), or one of them is 0.
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
