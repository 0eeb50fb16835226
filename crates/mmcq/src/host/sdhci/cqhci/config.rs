//! Settings that the board gives for the command queue engine, and the engine's capabilities.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::regs::*;
use crate::host::{QueueCaps, QueueError};

/// Deviations of a command queue engine from the standard; combine several with
/// [`with`](CqhciQuirks::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqhciQuirks(u32);

impl CqhciQuirks {
    /// The engine has no deviation.
    pub const NONE: CqhciQuirks = CqhciQuirks(0);
    /// With 64-bit addresses, a transfer descriptor has 12 bytes instead of 16.
    pub const SHORT_DESCRIPTORS: CqhciQuirks = CqhciQuirks(1 << 0);
    /// Direct commands do not work, so slot 31 is used for a task.
    pub const NO_DIRECT: CqhciQuirks = CqhciQuirks(1 << 1);
    /// A direct command with busy must be marked as a command that may be sent while the data lines
    /// are in use.
    pub const DIRECT_BUSY_BESIDE: CqhciQuirks = CqhciQuirks(1 << 2);
    /// The driver must write the controller's Transfer Mode register each time before the engine is
    /// switched on or resumed.
    pub const TRANSFER_MODE: CqhciQuirks = CqhciQuirks(1 << 3);
    /// A transfer descriptor must not cross a boundary of 128 MiB.
    pub const BOUNDARY_128M: CqhciQuirks = CqhciQuirks(1 << 4);
    /// The engine must not send CMD13 while it transfers data: the last block of a transfer damages
    /// a CMD13 that is sent at the same time.
    pub const NO_POLL_BESIDE: CqhciQuirks = CqhciQuirks(1 << 5);
    /// The engine's bit of the controller's interrupt status stays set until the driver clears it.
    /// Without this quirk such an engine interrupts a second time for each event.
    pub const LATCHED_STATUS: CqhciQuirks = CqhciQuirks(1 << 6);

    /// Quirks of Intel's Gemini Lake (PCI 8086:31cc).
    pub const INTEL_GLK: CqhciQuirks = Self::SHORT_DESCRIPTORS.with(Self::NO_DIRECT);
    /// Quirks of Intel's controllers from Cannon Lake on (PCI 8086:9dc4, 34c4, 4b47, 4dc4, 54c4 and
    /// others).
    pub const INTEL: CqhciQuirks = Self::SHORT_DESCRIPTORS;
    /// Quirks of TI's AM654.
    pub const AM654: CqhciQuirks = Self::SHORT_DESCRIPTORS.with(Self::NO_DIRECT);
    /// Quirks of NVIDIA's Tegra 186 and 194.
    pub const TEGRA: CqhciQuirks =
        Self::DIRECT_BUSY_BESIDE.with(Self::TRANSFER_MODE).with(Self::NO_POLL_BESIDE);
    /// Quirks of Synopsys' DWC MSHC (Rockchip, Sophgo, T-Head). Genesys' GL9763E needs only
    /// [`TRANSFER_MODE`](Self::TRANSFER_MODE).
    pub const DWC_MSHC: CqhciQuirks =
        Self::TRANSFER_MODE.with(Self::BOUNDARY_128M).with(Self::LATCHED_STATUS);

    const NAMED: [(&'static str, CqhciQuirks); 7] = [
        ("short-descriptors", Self::SHORT_DESCRIPTORS),
        ("no-direct", Self::NO_DIRECT),
        ("direct-busy-beside", Self::DIRECT_BUSY_BESIDE),
        ("transfer-mode", Self::TRANSFER_MODE),
        ("boundary-128m", Self::BOUNDARY_128M),
        ("no-poll-beside", Self::NO_POLL_BESIDE),
        ("latched-status", Self::LATCHED_STATUS),
    ];

    /// Returns the quirk with this name: the constant's name in lower case with hyphens; `None` if
    /// there is none.
    pub fn named(name: &str) -> Option<CqhciQuirks> {
        Self::NAMED.iter().find(|known| known.0 == name).map(|known| known.1)
    }

    /// Returns the names of all quirks.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|known| known.0)
    }

    /// Returns the quirks of both sets.
    pub const fn with(self, other: CqhciQuirks) -> CqhciQuirks {
        CqhciQuirks(self.0 | other.0)
    }

    /// Returns whether the set contains all quirks of `other`.
    pub const fn has(self, other: CqhciQuirks) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Settings that the board gives for the command queue engine. Start from [`CqhciConfig::at`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CqhciConfig {
    pub(super) offset: u16,
    /// Deviations of the engine from the standard.
    pub quirks: CqhciQuirks,
    /// Frequency of the timer for polling and coalescing, in hertz. It replaces the value in the
    /// capabilities, which is wrong on some chips. `None`: the capabilities are right.
    pub timer_hz: Option<u32>,
}

setters!(CqhciConfig { quirks: CqhciQuirks, timer_hz: Option<u32> });

impl CqhciConfig {
    /// Makes settings for an engine that follows the standard. `offset` is the distance in bytes
    /// from the controller's registers to the engine's: 200h with Intel, Arasan, Broadcom and TI.
    ///
    /// # Safety
    /// The registers that the driver is given have the 128 bytes of such an engine at `offset`,
    /// which is a multiple of 4.
    pub const unsafe fn at(offset: u16) -> CqhciConfig {
        CqhciConfig { offset, quirks: CqhciQuirks::NONE, timer_hz: None }
    }

    /// Returns the engine's capabilities for the queue, from its version and capability registers.
    /// `wide`: addresses have 64 bits.
    pub(super) fn caps(
        &self,
        version: u32,
        capabilities: u32,
        wide: bool,
        (max_segments, max_bytes): (u16, u32),
    ) -> Result<QueueCaps, QueueError> {
        // Reserved bits of the version register read 0, so this check rejects other registers.
        let small = u16::try_from(version).ok().filter(|it| it >> VER_MAJOR_SHIFT == 5);
        let version = small.ok_or(QueueError::Version(version))?;
        let direct = !self.quirks.has(CqhciQuirks::NO_DIRECT);
        Ok(QueueCaps {
            version,
            depth: if direct { DIRECT_SLOT } else { DIRECT_SLOT + 1 },
            direct: direct.then_some(DIRECT_SLOT),
            wide,
            max_segments,
            max_bytes,
            timer_hz: self
                .timer_hz
                .or_else(|| timer_hz(capabilities))
                .filter(|&hz| hz != 0)
                .ok_or(QueueError::Timer(capabilities))?,
        })
    }
}

/// Returns the timer's frequency in the capabilities, in hertz; `None` if the unit is reserved, or
/// the frequency does not fit 32 bits.
fn timer_hz(capabilities: u32) -> Option<u32> {
    const UNITS_HZ: [u32; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let unit = capabilities >> CAP_UNIT_SHIFT & 0xf;
    let clock = capabilities & CAP_CLOCK;
    // The product is at most 1023 times 10 MHz, which does not fit 32 bits, so it is checked.
    UNITS_HZ.get(unit as usize)?.checked_mul(clock)
}
