//! Parameters of a card reader chip: delays, features, and the clock phases at which it can sample
//! on its board.

use super::pads::DEVICES;
use serde::{Deserialize, Serialize};

/// Parameters of a chip. A key that a TOML table does not have gets its value from
/// [`RtsxConfig::GENERIC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RtsxConfig {
    /// PCI device ID of the chip, such as 0x5249. It decides which registers control the pads, and
    /// how the supply of card and pads is switched.
    pub device: u16,
    /// Version of the chip: 0 is A, 2 is C.
    pub version: u8,
    /// Base clock in Hz: the PLL runs at (N + 2) times this clock.
    pub base_hz: u32,
    /// Time in ns that each entry of a host command list takes.
    pub entry_ns: u64,
    /// Time in ns for fetching a list (one half) and for reporting its end (the other half).
    pub round_ns: u64,
    /// Time in ns that one access to a register of the chip takes if the host makes it through the
    /// window HAIMR, outside of a command list.
    pub access_ns: u64,
    /// Longest time in ns that a CHECK entry waits.
    pub check_timeout_ns: u64,
    /// Time in ns that the PLL needs to lock.
    pub pll_ns: u64,
    /// Time in ns that the pads need to change to 1.8 V.
    pub signal18_settle_ns: u64,
    /// Time in ns that card detection takes.
    pub detect_ns: u64,
    /// Whether the card is soldered to the board, so that a card is always detected.
    pub fixed: bool,
    /// Size in bytes of the ring buffer between the card bus and the DMA.
    pub ring_bytes: u32,
    /// Rate of the DMA in megabytes per second.
    pub dma_mb_s: u32,
    /// Whether the chip can continue an open transfer without a command. `false` (a chip that
    /// claims the feature falsely): AUTO_READ_3 and AUTO_WRITE_3 fail after the open transfer has
    /// moved data.
    pub continue_data: bool,
    /// Whether the chip supports data on both clock edges.
    pub ddr: bool,
    /// Whether the chip supports clocks above 100 MHz.
    pub sdr104: bool,
    /// Middle of the phases (0 to 31) at which sending works above 100 MHz.
    pub tx_phase: u8,
    /// Middle of the clock phases (0 to 31) at which sending works up to 100 MHz.
    pub slow_tx_phase: u8,
    /// Middle of the clock phases (0 to 31) at which the chip samples responses and data correctly.
    pub rx_phase: u8,
    /// Number of adjacent clock phases that work: around `tx_phase` or `slow_tx_phase` for sending,
    /// around `rx_phase` for sampling.
    pub good_phases: u8,
}

impl RtsxConfig {
    /// An RTS5249 on one lane of PCI Express 1.
    pub const GENERIC: RtsxConfig = RtsxConfig {
        device: 0x5249,
        version: 0,
        base_hz: 1_000_000,
        entry_ns: 40,
        round_ns: 8_000,
        access_ns: 200,
        check_timeout_ns: 1_000_000_000,
        pll_ns: 100_000,
        signal18_settle_ns: 1_000_000,
        detect_ns: 1_000_000,
        fixed: false,
        ring_bytes: 1024,
        dma_mb_s: 250,
        continue_data: true,
        ddr: true,
        sdr104: true,
        tx_phase: 1,
        slow_tx_phase: 29,
        rx_phase: 12,
        good_phases: 11,
    };

    /// Returns the built-in parameters with this name (only `generic`); `None` for another name.
    pub fn preset(name: &str) -> Option<RtsxConfig> {
        (name == "generic").then_some(Self::GENERIC)
    }

    /// Checks all values. The error for a value that no chip can have is one line with the key, the
    /// value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let within = |key: &str, value: u32, low: u32, high: u32| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("rtsx: {key} = {value}: expected {low} to {high}"))
            }
        };
        within("base_hz", self.base_hz, 100_000, 10_000_000)?;
        within("ring_bytes", self.ring_bytes, 512, 1 << 20)?;
        within("dma_mb_s", self.dma_mb_s, 1, 100_000)?;
        if !DEVICES.contains(&self.device) {
            let known = DEVICES.map(|device| format!("{device:#x}")).join(", ");
            return Err(format!("rtsx: device = {:#x}: expected one of {known}", self.device));
        }
        within("tx_phase", self.tx_phase.into(), 0, 31)?;
        within("slow_tx_phase", self.slow_tx_phase.into(), 0, 31)?;
        within("rx_phase", self.rx_phase.into(), 0, 31)?;
        within("good_phases", self.good_phases.into(), 0, 32)
    }

    /// Returns the sampling error of a phase: 0 at `middle`, the middle of the phases that work; at
    /// most 40 for the other phases that work; 100 for all others.
    pub(super) fn phase_error(&self, phase: u8, middle: u8) -> u8 {
        let apart = phase.wrapping_sub(middle) & 31;
        let apart = u32::from(apart.min(32 - apart));
        // Half of the window, counted in half phases, so that an odd number of phases has its
        // middle on a phase.
        let half = u32::from(self.good_phases).saturating_sub(1);
        if self.good_phases == 0 || 2 * apart > half { 100 } else { (apart * 80 / half.max(1)) as u8 }
    }
}

impl Default for RtsxConfig {
    fn default() -> Self {
        Self::GENERIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_sets_what_it_names_and_refuses_what_it_does_not_know() {
        let config: RtsxConfig = toml::from_str("round_ns = 5000\ncontinue_data = false").unwrap();
        assert_eq!(config, RtsxConfig { round_ns: 5_000, continue_data: false, ..RtsxConfig::GENERIC });
        let error = toml::from_str::<RtsxConfig>("round = 2").unwrap_err().to_string();
        assert!(error.contains("round"), "{error}");
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        let good = RtsxConfig::preset("generic").unwrap();
        assert_eq!(good.check(), Ok(()));
        assert_eq!(RtsxConfig::preset("rts5208"), None);
        for (bad, text) in [
            (RtsxConfig { ring_bytes: 100, ..good }, "ring_bytes = 100: expected 512 to"),
            (RtsxConfig { rx_phase: 32, ..good }, "rx_phase = 32: expected 0 to 31"),
            (RtsxConfig { good_phases: 33, ..good }, "good_phases"),
            (RtsxConfig { dma_mb_s: 0, ..good }, "dma_mb_s"),
            (RtsxConfig { base_hz: 0, ..good }, "base_hz"),
            (RtsxConfig { device: 0x5260, ..good }, "device = 0x5260: expected one of 0x5209, "),
        ] {
            let error = bad.check().unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_window_of_good_phases_wraps_and_has_its_width() {
        for (middle, width) in [(12, 11), (26, 11), (0, 5), (31, 1), (3, 0)] {
            let config = RtsxConfig { good_phases: width, ..RtsxConfig::GENERIC };
            let good = (0..32).filter(|&p| config.phase_error(p, middle) <= 40).count();
            assert_eq!(good, usize::from(width));
            if width > 0 {
                assert_eq!(config.phase_error(middle, middle), 0);
            }
        }
    }
}
