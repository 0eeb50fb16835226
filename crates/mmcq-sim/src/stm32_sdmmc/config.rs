//! Parameters of an SDMMC and its board.

use serde::{Deserialize, Serialize};

/// Version of the SDMMC, which decides its registers and the depth of its FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// Version 2, with a FIFO of 64 bytes: H7, L4+, L5, U5, H5, MP1.
    V2,
    /// Version 3, with a FIFO of 1 KiB and a threshold: N6. With the IDMA on, it does not show FIFO
    /// errors.
    V3,
}

/// Second mode of the IDMA; the first mode is a single buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffers {
    /// Two buffers that are used in turn.
    Double,
    /// A linked list in memory.
    List,
}

/// Parameters of a controller. A key that a TOML table does not have gets its value from
/// [`Stm32SdmmcConfig::H7`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stm32SdmmcConfig {
    /// Version of the registers and the FIFO.
    pub version: Version,
    /// Kernel clock in Hz, before the divider; 0: the controller gets no clock.
    pub kernel_hz: u32,
    /// Which second mode the IDMA has, in addition to the mode with a single buffer: two buffers or
    /// a list.
    pub buffers: Buffers,
    /// Bits of IDMABSIZE that exist. The lowest one is the length of a burst in bytes.
    pub size_mask: u32,
    /// First and last address that the IDMA can access; `None`: all. SDMMC1 of an H7 reaches its
    /// AXI SRAM and external memory, but not the DTCM, where a firmware often has its call stack.
    pub window: Option<[u32; 2]>,
    /// Whether DATAEND of a write comes at the end of busy, as the manual says. Otherwise it comes
    /// with the CRC status of the last block.
    pub data_end_after_busy: bool,
    /// Phase of the delay block, of twelve, that is the middle of the data eye.
    pub best_phase: u8,
    /// Whether the registers get their clock. Without it each register reads as ones and ignores
    /// writes.
    pub bus_clock: bool,
    /// Fault: whether a command that has no data itself (such as CMD13) never carries data. Without
    /// the fault such a command can carry further blocks of a write that the card has open.
    pub carries_nothing: bool,
}

impl Stm32SdmmcConfig {
    /// SDMMC of H7 and L4+: 200 MHz, two buffers of up to 8160 bytes.
    pub const H7: Stm32SdmmcConfig = Stm32SdmmcConfig {
        version: Version::V2,
        kernel_hz: 200_000_000,
        buffers: Buffers::Double,
        size_mask: 0x1fe0,
        window: None,
        data_end_after_busy: true,
        best_phase: 5,
        bus_clock: true,
        carries_nothing: false,
    };

    /// SDMMC of U5, H5 and MP1: a linked list, with buffers of up to 131040 bytes.
    pub const U5: Stm32SdmmcConfig =
        Stm32SdmmcConfig { buffers: Buffers::List, size_mask: 0x1_ffe0, ..Self::H7 };

    /// SDMMC of N6: a linked list, and bursts of 64 bytes.
    pub const N6: Stm32SdmmcConfig =
        Stm32SdmmcConfig { version: Version::V3, size_mask: 0x1_ffc0, ..Self::U5 };

    /// Checks all values. The error for a value that no controller can have is one line with the
    /// key, the value and what was expected.
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

/// Number of phases of the delay block in one period of the clock.
pub(super) const PHASES: u8 = 12;

impl Default for Stm32SdmmcConfig {
    fn default() -> Self {
        Self::H7
    }
}
