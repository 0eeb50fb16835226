//! Parameters of a particular controller: version, capabilities, delays and mistakes.

use super::{CqhciConfig, Mistakes};
use serde::{Deserialize, Serialize};

/// What the controller does while a card holds DAT0 low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// Transfer Complete comes when the card releases DAT0 [SDHC 2.2.18].
    Interrupt,
    /// Transfer Complete comes at the end of the last data (or of the R1b response), even during
    /// busy. Between the blocks of one write the controller waits for the end of busy, and also
    /// before the first block of a write.
    Ignored,
}

/// Parameters of a controller. Missing keys of a TOML table take the values of
/// [`SdhciConfig::GENERIC_4_20`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SdhciConfig {
    /// Specification version number of register FEh: 2 is 3.00, 3 is 4.00, 4 is 4.10, 5 is 4.20.
    pub spec: u8,
    /// Vendor version number of register FFh.
    pub vendor: u8,
    /// Capabilities, 40h; the base clock in them (bits 15:8) follows
    /// [`base_clock_hz`](Self::base_clock_hz).
    pub capabilities: u32,
    /// Capabilities, 44h.
    pub capabilities1: u32,
    /// Maximum current, 48h.
    pub max_current: u32,
    /// Preset values, 60h to 6Eh: initialisation, default, high speed, SDR12, SDR25, SDR50, SDR104,
    /// DDR50.
    pub presets: [u16; 8],
    /// Base clock in hertz. If not 0, the capabilities show it. 0: the base clock in the
    /// capabilities is used.
    pub base_clock_hz: u32,
    /// Timeout clock in hertz; 0: the one in the capabilities is used.
    pub timeout_clock_hz: u32,
    /// Time in ns after which a reset bit clears itself.
    pub reset_ns: u64,
    /// Time in ns until the internal clock, and the PLL, are stable.
    pub clock_stable_ns: u64,
    /// Time in ns until the 1.8 V regulator has settled.
    pub signal18_settle_ns: u64,
    /// Whether the regulator never settles: then the 1.8 V bit clears itself.
    pub signal18_fails: bool,
    /// Time in ns until card detection is stable.
    pub debounce_ns: u64,
    /// Whether the card is soldered, and always inserted.
    pub fixed: bool,
    /// Whether the card's power does not depend on SD Bus Power: then neither the driver nor a
    /// reset of everything switches it off.
    pub always_powered: bool,
    /// Whether VCCQ is a fixed 1.8 V rail: then the card signals at 1.8 V whatever 1.8V Signaling
    /// Enable is. The register and the controller's timings follow the bit as always.
    pub signal18_fixed: bool,
    /// Whether Power Control bit 4 holds RST_n of an eMMC low, as on Intel's controllers. Elsewhere
    /// the bit belongs to the second power of UHS-II [SDHC 2.2.11], which is not modelled.
    pub reset_line: bool,
    /// Tuning commands until the sampling point is found (at most 40).
    pub tuning_rounds: u8,
    /// Whether tuning never finds a sampling point.
    pub tuning_fails: bool,
    /// `sample_error` in the modes that need tuning, before tuning: 0 to 100.
    pub untuned_sample_error: u8,
    /// `sample_error` after tuning.
    pub tuned_sample_error: u8,
    /// Growth of `sample_error` per second since the last tuning, as with temperature.
    pub drift_per_s: u8,
    /// Number of blocks in the buffer.
    pub buffer_blocks: u8,
    /// How the end of busy is reported.
    pub busy: Busy,
    /// Whether the present state shows the levels of CMD and DAT; otherwise they read as high.
    pub line_levels: bool,
    /// Whether Command Inhibit (CMD) stays set after a response timeout until a reset of the CMD
    /// circuit.
    pub inhibit_after_timeout: bool,
    /// Whether UHS modes work at 3.3 V too (the standard does not allow that).
    pub uhs_at_33v: bool,
    /// Value of the UHS mode select for HS400; the standard has none.
    pub hs400_mode: u8,
    /// Value of the UHS mode select for HS400 with enhanced strobe.
    pub hs400es_mode: u8,
    /// Alignment of data addresses in ADMA2 descriptors, in bytes; lower bits are ignored.
    pub adma_align: u8,
    /// Whether bit 0 of 78h selects enhanced strobe in HS400, as on Intel's controllers.
    pub strobe_register: bool,
    /// Size in bytes of the register space. Registers outside those of the standard and of the
    /// command queue engine read as 0.
    pub register_bytes: u16,
    /// The command queue engine, if there is one.
    pub command_queue: Option<CqhciConfig>,
    /// Mistakes of the controller.
    pub mistakes: Mistakes,
}

impl SdhciConfig {
    /// A controller of version 4.20 with all features: 200 MHz base clock, 8 bits, ADMA2, SDMA, 64
    /// bits, all voltages and speeds.
    pub const GENERIC_4_20: SdhciConfig = SdhciConfig {
        spec: 5,
        vendor: 0,
        // Timeout clock 1 MHz, base 200 MHz, blocks of 2048, 8 bits, ADMA2, high speed, SDMA,
        // 3.3/3.0/1.8 V, 64 bits in both forms, asynchronous interrupt.
        capabilities: 0x3f6e_c881,
        // SDR50, SDR104, DDR50, drivers A/C/D, SDR50 needs tuning.
        capabilities1: 0x0000_2077,
        max_current: 0x0032_3232,
        // Dividers of 200 MHz: 400 kHz, 25, 50, 25, 50, 100, 200, 50 MHz.
        presets: [250, 4, 2, 4, 2, 1, 0, 2],
        base_clock_hz: 0,
        timeout_clock_hz: 0,
        reset_ns: 500,
        clock_stable_ns: 20_000,
        signal18_settle_ns: 3_000_000,
        signal18_fails: false,
        debounce_ns: 1_000_000,
        fixed: false,
        always_powered: false,
        signal18_fixed: false,
        reset_line: false,
        tuning_rounds: 20,
        tuning_fails: false,
        untuned_sample_error: 100,
        tuned_sample_error: 0,
        drift_per_s: 0,
        buffer_blocks: 2,
        busy: Busy::Interrupt,
        line_levels: true,
        inhibit_after_timeout: true,
        uhs_at_33v: false,
        hs400_mode: 5,
        hs400es_mode: 6,
        adma_align: 4,
        strobe_register: false,
        register_bytes: 0x100,
        command_queue: None,
        mistakes: Mistakes::NONE,
    };

    /// A controller of version 3.00: 4 bits, 100 MHz, ADMA2 and SDMA with 32 bits, blocks of 512,
    /// no UHS.
    pub const GENERIC_3_00: SdhciConfig = SdhciConfig {
        spec: 2,
        // Timeout clock 50 MHz, base 100 MHz, ADMA2, high speed, SDMA, 3.3 V.
        capabilities: 0x0168_64b2,
        capabilities1: 0,
        max_current: 0x0000_0032,
        presets: [0; 8],
        buffer_blocks: 1,
        ..Self::GENERIC_4_20
    };

    /// Returns the preset of this name: `generic-4.20` or `generic-3.00`.
    pub fn preset(name: &str) -> Option<SdhciConfig> {
        match name {
            "generic-4.20" => Some(Self::GENERIC_4_20),
            "generic-3.00" => Some(Self::GENERIC_3_00),
            _ => None,
        }
    }

    /// Checks the values. Returns an error for one that no controller has: one line with the key,
    /// the value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let within = |key: &str, value: u32, low: u32, high: u32| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("sdhci: {key} = {value}: expected {low} to {high}"))
            }
        };
        within("spec (2 is 3.00, 5 is 4.20)", self.spec.into(), 2, 5)?;
        within("base clock in hertz", self.base_hz(), 400_000, 1_000_000_000)?;
        within("tuning_rounds", self.tuning_rounds.into(), 1, 40)?;
        within("untuned_sample_error", self.untuned_sample_error.into(), 0, 100)?;
        within("drift_per_s", self.drift_per_s.into(), 0, 100)?;
        within("tuned_sample_error", self.tuned_sample_error.into(), 0, 100)?;
        within("buffer_blocks", self.buffer_blocks.into(), 1, 255)?;
        within("hs400_mode", self.hs400_mode.into(), 5, 7)?;
        within("hs400es_mode", self.hs400es_mode.into(), 5, 7)?;
        within("adma_align", self.adma_align.into(), 1, 64)?;
        within("mistakes.lines_wired", self.mistakes.lines_wired.into(), 0, 8)?;
        if !self.adma_align.is_power_of_two() {
            return Err(format!("sdhci: adma_align = {}: expected a power of two", self.adma_align));
        }
        if let Some(queue) = &self.command_queue {
            queue.check()?;
        }
        if self.hs400_mode == self.hs400es_mode {
            return Err(format!(
                "sdhci: hs400es_mode = {}: expected another than hs400_mode",
                self.hs400es_mode
            ));
        }
        Ok(())
    }

    /// Returns what register 40h reads as, with `base_clock_hz` (if set) in bits 15:8.
    ///
    /// The field reads as 0, "get it another way" [SDHC 2.2.25], if the clock is not a whole number
    /// of megahertz up to 255, or if the field is 0 in `capabilities`.
    pub fn shown_capabilities(&self) -> u32 {
        const FIELD: u32 = 0xff << 8;
        if self.base_clock_hz == 0 || self.capabilities & FIELD == 0 {
            return self.capabilities;
        }
        let mhz =
            if self.base_clock_hz.is_multiple_of(1_000_000) { self.base_clock_hz / 1_000_000 } else { 0 };
        let shown = if mhz <= 0xff { mhz } else { 0 };
        self.capabilities & !FIELD | shown << 8
    }

    /// Returns the base clock in hertz.
    pub(super) fn base_hz(&self) -> u32 {
        if self.base_clock_hz != 0 { self.base_clock_hz } else { (self.capabilities >> 8 & 0xff) * 1_000_000 }
    }

    /// Returns the timeout clock in hertz; 0 if unknown.
    pub(super) fn timeout_hz(&self) -> u32 {
        let unit = if self.capabilities & 0x80 != 0 { 1_000_000 } else { 1_000 };
        if self.timeout_clock_hz != 0 { self.timeout_clock_hz } else { (self.capabilities & 0x3f) * unit }
    }

    /// Returns whether this capability bit (of 40h) is set.
    pub(super) fn has(&self, bit: u32) -> bool {
        self.capabilities & bit != 0
    }
}

impl Default for SdhciConfig {
    fn default() -> Self {
        Self::GENERIC_4_20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_sets_what_it_names_and_refuses_what_it_does_not_know() {
        let config: SdhciConfig =
            toml::from_str("spec = 2\ncapabilities = 0x016864b2\nbusy = \"ignored\"").unwrap();
        assert_eq!((config.spec, config.base_hz(), config.busy), (2, 100_000_000, Busy::Ignored));
        assert_eq!(config.tuning_rounds, SdhciConfig::GENERIC_4_20.tuning_rounds);
        let error = toml::from_str::<SdhciConfig>("spek = 2").unwrap_err().to_string();
        assert!(error.contains("spek"), "{error}");
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        for name in ["generic-4.20", "generic-3.00"] {
            assert_eq!(SdhciConfig::preset(name).unwrap().check(), Ok(()));
        }
        assert_eq!(SdhciConfig::preset("generic"), None);
        let good = SdhciConfig::GENERIC_4_20;
        for (bad, key) in [
            (SdhciConfig { spec: 9, ..good }, "spec"),
            (SdhciConfig { capabilities: 0, ..good }, "base clock"),
            (SdhciConfig { tuning_rounds: 41, ..good }, "tuning_rounds = 41: expected 1 to 40"),
            (SdhciConfig { adma_align: 6, ..good }, "adma_align = 6: expected a power of two"),
            (SdhciConfig { hs400es_mode: 5, ..good }, "hs400es_mode"),
        ] {
            let error = bad.check().unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn the_base_clock_is_the_one_that_the_capabilities_show() {
        let shown = |base_clock_hz, capabilities| {
            SdhciConfig { base_clock_hz, capabilities, ..SdhciConfig::GENERIC_4_20 }.shown_capabilities()
        };
        let of = |mhz: u32| SdhciConfig::GENERIC_4_20.capabilities & !0xff00 | mhz << 8;
        for (hz, mhz) in [(0, 200), (104_000_000, 104), (255_000_000, 255), (256_000_000, 0), (99_500_000, 0)]
        {
            assert_eq!(shown(hz, of(200)), of(mhz), "{hz}");
        }
        assert_eq!(shown(104_000_000, of(0)), of(0), "held back");
    }

    #[test]
    fn presets_say_what_their_comments_say() {
        let c = SdhciConfig::GENERIC_4_20;
        assert_eq!((c.base_hz(), c.timeout_hz()), (200_000_000, 1_000_000));
        assert_eq!(c.capabilities >> 16 & 3, 2, "blocks of 2048");
        let c = SdhciConfig::GENERIC_3_00;
        assert_eq!((c.base_hz(), c.timeout_hz()), (100_000_000, 50_000_000));
    }
}
