//! Parameters of an SDI controller and its board.

use serde::{Deserialize, Serialize};

/// Parameters of a controller. A key that a TOML table does not have gets its value from
/// [`S3cSdiConfig::S3C2440`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3cSdiConfig {
    /// Peripheral clock PCLK in Hz, before the prescaler.
    pub pclk_hz: u32,
    /// Whether the board connects DAT1 to a GPIO (100h). Otherwise the GPIO reads as high.
    pub dat1_gpio: bool,
    /// Whether the board has a DMA (110h). Otherwise its registers read as zero.
    pub dma: bool,
    /// Time in ns that the DMA needs to move a word between FIFO and memory.
    pub dma_word_ns: u32,
    /// Whether the controller misses edges of DAT1 while a command or data are under way, as the
    /// real one does.
    pub loses_edges: bool,
}

impl S3cSdiConfig {
    /// The controller of the S3C2440: 50 MHz before the prescaler, a GPIO on DAT1, and DMA.
    pub const S3C2440: S3cSdiConfig =
        S3cSdiConfig { pclk_hz: 50_000_000, dat1_gpio: true, dma: true, dma_word_ns: 100, loses_edges: true };

    /// Checks all values. The error for a value that no controller can have is one line with the
    /// key, the value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        if (1_000_000..=200_000_000).contains(&self.pclk_hz) {
            Ok(())
        } else {
            Err(format!("s3c_sdi: pclk_hz = {}: expected 1000000 to 200000000", self.pclk_hz))
        }
    }
}

impl Default for S3cSdiConfig {
    fn default() -> Self {
        Self::S3C2440
    }
}
