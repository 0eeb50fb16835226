//! Parameters of a particular chip: delays, abilities and the board's good phases.

use serde::{Deserialize, Serialize};

/// Parameters of a chip. Missing keys of a TOML table take the values of [`RtsxConfig::GENERIC`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RtsxConfig {
    /// Base clock in Hz: the PLL runs at (N + 2) times this.
    pub base_hz: u32,
    /// Time in ns for one entry of a host command list.
    pub entry_ns: u64,
    /// Time in ns to fetch a list (one half) and to report its end (the other half).
    pub round_ns: u64,
    /// Time in ns of an immediate register access.
    pub access_ns: u64,
    /// Longest time in ns that a CHECK waits.
    pub check_timeout_ns: u64,
    /// Time in ns until the PLL has locked.
    pub pll_ns: u64,
    /// Time in ns until the pads signal at 1.8 V.
    pub signal18_settle_ns: u64,
    /// Time in ns of the card detection.
    pub detect_ns: u64,
    /// Whether the card is soldered, and always inserted.
    pub fixed: bool,
    /// Size of the ring buffer between bus and DMA, in bytes.
    pub ring_bytes: u32,
    /// Speed of the DMA engine, in megabytes a second.
    pub dma_mb_s: u32,
    /// Whether data of an open transfer continue without a command. `false` is a chip that lies:
    /// AUTO_READ_3 and AUTO_WRITE_3 fail once the open transfer has transferred data.
    pub continue_data: bool,
    /// Whether the bus can use both clock edges.
    pub ddr: bool,
    /// Whether the bus can be faster than 100 MHz.
    pub sdr104: bool,
    /// Middle of the phases (0 to 31) at which the chip sends well.
    pub tx_phase: u8,
    /// Middle of the phases (0 to 31) at which the chip samples well.
    pub rx_phase: u8,
    /// Number of good phases, for each direction.
    pub good_phases: u8,
}

impl RtsxConfig {
    /// A chip of the SDR104 generation on PCI Express, one lane, first generation.
    pub const GENERIC: RtsxConfig = RtsxConfig {
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
        tx_phase: 26,
        rx_phase: 12,
        good_phases: 11,
    };

    /// Returns the preset of this name; there is only `generic`.
    pub fn preset(name: &str) -> Option<RtsxConfig> {
        (name == "generic").then_some(Self::GENERIC)
    }

    /// Checks the values. Returns an error for one that no chip has: one line with the key, the
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
        within("tx_phase", self.tx_phase.into(), 0, 31)?;
        within("rx_phase", self.rx_phase.into(), 0, 31)?;
        within("good_phases", self.good_phases.into(), 0, 32)
    }

    /// Returns `sample_error` of a phase: 0 in the middle of the good ones, at most 40 inside them,
    /// more outside.
    pub(super) fn phase_error(&self, phase: u8, middle: u8) -> u8 {
        let apart = phase.wrapping_sub(middle) & 31;
        let apart = u32::from(apart.min(32 - apart));
        // Half the window, in half phases, so that an odd number of phases lies evenly.
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
