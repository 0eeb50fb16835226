//! What a particular SDMMC is.

use serde::{Deserialize, Serialize};

/// Which registers there are, and how deep the FIFO is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// A FIFO of 64 bytes: H7, L4+, L5, U5, H5, MP1.
    V2,
    /// A FIFO of 1 KiB with a threshold; with IDMA its errors do not show: N6.
    V3,
}

/// What the IDMA has beside its single buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// Two buffers, by turns.
    Double,
    /// A list in memory.
    List,
}

/// Parameters of a controller. Missing keys of a TOML table take the values of
/// [`Stm32SdmmcConfig::H7`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stm32SdmmcConfig {
    /// Registers and FIFO.
    pub version: Version,
    /// The kernel clock, before the divider. 0: the clock tree does not bring it.
    pub kernel_hz: u32,
    /// The IDMA's other mode.
    pub buffers: Buffers,
    /// The bits of IDMABSIZE that are there. The lowest is the length of a burst in bytes.
    pub size_mask: u32,
    /// The first and the last address that the IDMA reaches: of an H7's SDMMC1 its AXI SRAM and
    /// external memory, not the DTCM, where a stack often is.
    pub window: Option<[u32; 2]>,
    /// DATAEND of a write waits for the end of busy, as the manual has it. Otherwise it comes with
    /// the CRC status of the last block.
    pub data_end_after_busy: bool,
    /// Which of the delay block's twelve phases is in the middle of the eye.
    pub best_phase: u8,
    /// The clock of the registers. Without it each reads as ones, and ignores writes.
    pub bus_clock: bool,
}

impl Stm32SdmmcConfig {
    /// H7, L4+: 200 MHz, two buffers of up to 8160 bytes.
    pub const H7: Stm32SdmmcConfig = Stm32SdmmcConfig {
        version: Version::V2,
        kernel_hz: 200_000_000,
        buffers: Buffers::Double,
        size_mask: 0x1fe0,
        window: None,
        data_end_after_busy: true,
        best_phase: 5,
        bus_clock: true,
    };

    /// U5, H5 and MP1: a list, of pieces up to 131040 bytes.
    pub const U5: Stm32SdmmcConfig =
        Stm32SdmmcConfig { buffers: Buffers::List, size_mask: 0x1_ffe0, ..Self::H7 };

    /// N6: a list, and bursts of 64 bytes.
    pub const N6: Stm32SdmmcConfig =
        Stm32SdmmcConfig { version: Version::V3, size_mask: 0x1_ffc0, ..Self::U5 };

    /// Refuses values that no controller has: one line with the key, the value and what was
    /// expected.
    pub fn check(&self) -> Result<(), String> {
        if self.kernel_hz != 0 && !(1_000_000..=400_000_000).contains(&self.kernel_hz) {
            let hz = self.kernel_hz;
            return Err(format!("stm32_sdmmc: kernel_hz = {hz}: expected 0, or 1000000 to 400000000"));
        }
        if !matches!(self.size_mask, 0x1fe0 | 0x1_ffe0 | 0x1_ffc0) {
            let mask = self.size_mask;
            return Err(format!("stm32_sdmmc: size_mask = {mask:#x}: expected 0x1fe0, 0x1ffe0 or 0x1ffc0"));
        }
        if let Some([first, last]) = self.window
            && first > last
        {
            return Err(format!("stm32_sdmmc: window = [{first}, {last}]: expected the first address first"));
        }
        if self.best_phase >= PHASES {
            let phase = self.best_phase;
            return Err(format!("stm32_sdmmc: best_phase = {phase}: expected 0 to 11"));
        }
        Ok(())
    }

    pub(super) fn fifo_words(&self) -> usize {
        match self.version {
            Version::V2 => 16,
            Version::V3 => 256,
        }
    }
}

/// Phases of the delay block in one period of the clock.
pub(super) const PHASES: u8 = 12;

impl Default for Stm32SdmmcConfig {
    fn default() -> Self {
        Self::H7
    }
}
