//! Parameters of a particular SDI.

use serde::{Deserialize, Serialize};

/// Parameters of a controller. Missing keys of a TOML table take the values of
/// [`S3cSdiConfig::S3C2440`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3cSdiConfig {
    /// Clock of the peripherals in Hz, before the prescaler.
    pub pclk_hz: u32,
    /// Whether the board connects DAT1 to a GPIO (100h); otherwise the GPIO reads as high.
    pub dat1_gpio: bool,
    /// Whether the platform's DMA engine exists (110h); otherwise its registers read as zero.
    pub dma: bool,
    /// Time in nanoseconds that the DMA engine needs to transfer a word between FIFO and memory.
    pub dma_word_ns: u32,
    /// Whether edges of DAT1 are lost while a command or data are under way, as in the real
    /// controller.
    pub loses_edges: bool,
}

impl S3cSdiConfig {
    /// 50 MHz before the prescaler, a GPIO on DAT1, DMA.
    pub const S3C2440: S3cSdiConfig =
        S3cSdiConfig { pclk_hz: 50_000_000, dat1_gpio: true, dma: true, dma_word_ns: 100, loses_edges: true };

    /// Checks the values. Returns an error for one that no controller has: one line with the key,
    /// the value and what was expected.
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
