//! Parameters of an SDHCI controller: version, capabilities, delays and mistakes.

use super::{CqhciConfig, Mistakes};
use serde::{Deserialize, Serialize};

/// How the controller reports the end of an operation while a card holds DAT0 low.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// Transfer Complete comes when the card releases DAT0 [SDHC 2.2.18].
    Interrupt,
    /// Transfer Complete comes at the end of the last data (or of the R1b response), although the
    /// card is still busy. The controller waits for the end of busy only before the first block of
    /// a write and between its blocks.
    Ignored,
}

/// Parameters of an SDHCI controller. A key that a TOML table does not have gets its value from
/// [`SdhciConfig::GENERIC_4_20`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SdhciConfig {
    /// Specification version number of register FEh: 2 is 3.00, 3 is 4.00, 4 is 4.10, 5 is 4.20.
    pub spec: u8,
    /// Vendor version number in register FFh.
    pub vendor: u8,
    /// Value of the capabilities register 40h. The base clock in this value (bits 15:8) follows
    /// [`base_clock_hz`](Self::base_clock_hz).
    pub capabilities: u32,
    /// Value of the capabilities register 44h.
    pub capabilities1: u32,
    /// Value of the Maximum Current register 48h.
    pub max_current: u32,
    /// Values of the preset registers 60h to 6Eh: initialisation, default speed, high speed, SDR12,
    /// SDR25, SDR50, SDR104, DDR50.
    pub presets: [u16; 8],
    /// Base clock in hertz, which the capabilities also show. 0: the base clock is the one in
    /// `capabilities`.
    pub base_clock_hz: u32,
    /// Timeout clock in hertz. 0: the timeout clock is the one in `capabilities`.
    pub timeout_clock_hz: u32,
    /// Time in ns after which a software reset bit clears itself.
    pub reset_ns: u64,
    /// Time in ns from the enable bit until the internal clock, or the PLL, is stable.
    pub clock_stable_ns: u64,
    /// Time in ns that the 1.8 V regulator needs until it is ready.
    pub signal18_settle_ns: u64,
    /// Fault: whether the 1.8 V regulator never gets ready. Then the bit 1.8V Signaling Enable
    /// clears itself soon after the driver has set it.
    pub signal18_fails: bool,
    /// Time in ns after an insertion or removal until card detection is stable.
    pub debounce_ns: u64,
    /// Whether the card is soldered to the board, so that a card is always detected.
    pub fixed: bool,
    /// Whether the card has power regardless of the bit SD Bus Power. Then neither the driver nor a
    /// reset of everything switches the card off.
    pub always_powered: bool,
    /// Whether the card's I/O supply VCCQ is a fixed rail of 1.8 V. Then the card signals at 1.8 V
    /// regardless of the bit 1.8V Signaling Enable. The register and the controller's timings
    /// follow the bit as on other boards.
    pub signal18_fixed: bool,
    /// Whether bit 4 of Power Control holds RST_n of an eMMC low, as on Intel's controllers. On
    /// other controllers the bit belongs to the second power of UHS-II [SDHC 2.2.11], which the
    /// model does not have.
    pub reset_line: bool,
    /// Number of tuning commands until the controller finds the sampling point (at most 40).
    pub tuning_rounds: u8,
    /// Whether tuning never finds a sampling point.
    pub tuning_fails: bool,
    /// Error of the sampling point before tuning, in modes that need tuning: 0 (perfect) to 100
    /// (wrong).
    pub untuned_sample_error: u8,
    /// Error of the sampling point after tuning: 0 (perfect) to 100 (wrong).
    pub tuned_sample_error: u8,
    /// Increase of the sampling point's error per second after the last tuning, such as a change of
    /// temperature causes it.
    pub drift_per_s: u8,
    /// Number of blocks that the controller's buffer holds.
    pub buffer_blocks: u8,
    /// How the controller reports the end of busy.
    pub busy: Busy,
    /// Whether the Present State register shows the levels of CMD and DAT; otherwise these bits
    /// read as high.
    pub line_levels: bool,
    /// Whether Command Inhibit (CMD) stays set after a response timeout until the driver resets the
    /// CMD circuit.
    pub inhibit_after_timeout: bool,
    /// Whether UHS modes also work at 3.3 V, which the standard does not allow.
    pub uhs_at_33v: bool,
    /// Value of the field UHS Mode Select that means HS400; the standard defines none.
    pub hs400_mode: u8,
    /// Value of the field UHS Mode Select that means HS400 with enhanced strobe; the standard
    /// defines none.
    pub hs400es_mode: u8,
    /// Alignment in bytes of data addresses in ADMA2 descriptors; the controller ignores the lower
    /// address bits.
    pub adma_align: u8,
    /// Whether bit 0 of register 78h selects the enhanced strobe in HS400, as on Intel's
    /// controllers.
    pub strobe_register: bool,
    /// Size of the register space in bytes. Registers that neither the standard nor the command
    /// queue engine defines read as 0.
    pub register_bytes: u16,
    /// The command queue engine; `None`: the controller has none.
    pub command_queue: Option<CqhciConfig>,
    /// Violations of the standard by the controller, as real controllers have them.
    pub mistakes: Mistakes,
}

impl SdhciConfig {
    /// A controller of version 4.20 with all features: base clock 200 MHz, 8 lines, ADMA2, SDMA,
    /// 64-bit addresses, all voltages and speeds.
    pub const GENERIC_4_20: SdhciConfig = SdhciConfig {
        spec: 5,
        vendor: 0,
        // Timeout clock 1 MHz, base clock 200 MHz, blocks up to 2048 bytes, 8 lines, ADMA2, high
        // speed, SDMA, 3.3, 3.0 and 1.8 V, 64-bit addresses in both versions, asynchronous
        // interrupt.
        capabilities: 0x3f6e_c881,
        // SDR50, SDR104, DDR50, driver types A, C and D; SDR50 needs tuning.
        capabilities1: 0x0000_2077,
        max_current: 0x0032_3232,
        // Dividers of the 200 MHz base clock for 400 kHz, 25, 50, 25, 50, 100, 200 and 50 MHz.
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

    /// A controller of version 3.00: 4 lines, base clock 100 MHz, ADMA2 and SDMA with 32-bit
    /// addresses, blocks up to 512 bytes, no UHS modes.
    pub const GENERIC_3_00: SdhciConfig = SdhciConfig {
        spec: 2,
        // Timeout clock 50 MHz, base clock 100 MHz, ADMA2, high speed, SDMA, 3.3 V.
        capabilities: 0x0168_64b2,
        capabilities1: 0,
        max_current: 0x0000_0032,
        presets: [0; 8],
        buffer_blocks: 1,
        ..Self::GENERIC_4_20
    };

    /// Returns the built-in parameters of a controller with this name (`generic-4.20` or
    /// `generic-3.00`); `None` for another name.
    pub fn preset(name: &str) -> Option<SdhciConfig> {
        match name {
            "generic-4.20" => Some(Self::GENERIC_4_20),
            "generic-3.00" => Some(Self::GENERIC_3_00),
            _ => None,
        }
    }

    /// Checks all values. The error for a value that no controller can have is one line with the
    /// key, the value and what was expected.
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

    /// Returns the value of the capabilities register 40h, with `base_clock_hz` (if not 0) in bits
    /// 15:8.
    ///
    /// The field of the base clock reads as 0 ("get it another way" [SDHC 2.2.25]) in two cases:
    /// the clock is not a whole number of megahertz up to 255, or the field is 0 in `capabilities`.
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

    /// Returns the timeout clock in hertz; 0 if it is unknown.
    pub(super) fn timeout_hz(&self) -> u32 {
        let unit = if self.capabilities & 0x80 != 0 { 1_000_000 } else { 1_000 };
        if self.timeout_clock_hz != 0 { self.timeout_clock_hz } else { (self.capabilities & 0x3f) * unit }
    }

    /// Returns whether this bit of the capabilities register 40h is set.
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
