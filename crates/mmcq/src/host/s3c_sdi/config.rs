//! Settings of the controller that only the board knows.

use crate::host::Width;
use core::fmt;

/// Which buffers the board's DMA controller transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaUse {
    /// No buffers: the CPU transfers all data.
    Never,
    /// Buffers of at least this many bytes that consist of whole aligned words, and for a read of
    /// whole cache lines; the CPU transfers the others. Starting the DMA costs three register
    /// accesses and the cache maintenance, so it is slower for small buffers.
    From(u32),
}

/// Settings that the board gives the driver. Start from [`S3cSdiConfig::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct S3cSdiConfig {
    /// Which buffers the board's DMA controller transfers.
    pub dma: DmaUse,
    /// Frequency of PCLK, the controller's input clock, in hertz.
    pub pclk_hz: u32,
    /// Fastest SD clock that the controller and the board's wiring support, in hertz. A value above
    /// 25 MHz means that the board supports high-speed timing.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects: one or four.
    pub width: Width,
}

setters!(S3cSdiConfig { dma: DmaUse, pclk_hz: u32, max_clock_hz: u32, width: Width });

impl S3cSdiConfig {
    /// Makes settings for four data lines at up to 25 MHz; the CPU transfers the data. `pclk_hz`:
    /// the bus clock PCLK from which the card's clock is divided.
    pub const fn new(pclk_hz: u32) -> Self {
        S3cSdiConfig { dma: DmaUse::Never, pclk_hz, max_clock_hz: 25_000_000, width: Width::W4 }
    }
}

/// Why [`S3cSdi::new`](super::S3cSdi::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum S3cSdiInitError {
    /// The register SDICON reads as all ones: the controller's clock is off, or no controller is at
    /// this address.
    Gone,
    /// The fastest allowed SD clock is slower than the slowest possible one (PCLK / 256), or one of
    /// both settings is 0.
    Clock {
        /// The value of [`S3cSdiConfig::pclk_hz`].
        pclk_hz: u32,
        /// The value of [`S3cSdiConfig::max_clock_hz`].
        max_clock_hz: u32,
    },
    /// Eight data lines were requested, but the controller has four.
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
