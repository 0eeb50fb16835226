//! What a particular SDI is.

use serde::{Deserialize, Serialize};

/// Parameters of a controller. Missing keys of a TOML table take the values of
/// [`S3cSdiConfig::S3C2440`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3cSdiConfig {
    /// Clock of the peripherals, before the prescaler.
    pub pclk_hz: u32,
    /// The board has wired DAT1 to a GPIO (100h); otherwise it reads as high.
    pub dat1_gpio: bool,
    /// The platform's DMA engine is there (110h); otherwise its registers read as zero.
    pub dma: bool,
    /// How long it takes that engine to move a word between FIFO and memory, in nanoseconds.
    pub dma_word_ns: u32,
    /// Edges of DAT1 are lost while a command or data are under way, as on the real one.
    pub loses_edges: bool,
}

impl S3cSdiConfig {
    /// 50 MHz before the prescaler, a GPIO on DAT1, DMA.
    pub const S3C2440: S3cSdiConfig =
        S3cSdiConfig { pclk_hz: 50_000_000, dat1_gpio: true, dma: true, dma_word_ns: 100, loses_edges: true };

    /// Refuses values that no controller has: one line with the key, the value and what was
    /// expected.
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
