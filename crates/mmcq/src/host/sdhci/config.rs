//! Settings of the controller that the board knows and the driver cannot read.

use crate::host::{Caps, DmaError, Timing, Width};
use core::fmt;

/// Deviations of a controller from the standard; combine several with [`with`](SdhciQuirks::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdhciQuirks(u32);

impl SdhciQuirks {
    /// No deviation.
    pub const NONE: SdhciQuirks = SdhciQuirks(0);
    /// No Transfer Complete at the end of an R1b busy; DAT0 is read instead.
    pub const NO_BUSY_IRQ: SdhciQuirks = SdhciQuirks(1 << 0);
    /// DAT levels in Present State are wrong; with [`NO_BUSY_IRQ`](Self::NO_BUSY_IRQ) only the
    /// card's status shows the end of busy.
    pub const NO_DAT0_LEVEL: SdhciQuirks = SdhciQuirks(1 << 1);
    /// ADMA2 is declared and does not work.
    pub const BROKEN_ADMA: SdhciQuirks = SdhciQuirks(1 << 2);
    /// ADMA2 works with 32-bit descriptors only.
    pub const BROKEN_ADMA_64: SdhciQuirks = SdhciQuirks(1 << 3);
    /// SDMA is declared and does not work.
    pub const BROKEN_SDMA: SdhciQuirks = SdhciQuirks(1 << 4);
    /// Automatic CMD12 does not work.
    pub const NO_AUTO_CMD12: SdhciQuirks = SdhciQuirks(1 << 5);
    /// Automatic CMD23 does not work.
    pub const NO_AUTO_CMD23: SdhciQuirks = SdhciQuirks(1 << 6);
    /// CMD23 must not be sent at all.
    pub const NO_CMD23: SdhciQuirks = SdhciQuirks(1 << 7);
    /// A descriptor length of 0 is not 64 KiB.
    pub const ADMA_ZERO_LENGTH_BROKEN: SdhciQuirks = SdhciQuirks(1 << 8);
    /// The list must end with a descriptor of its own without data; otherwise the last transfer has
    /// the End bit.
    pub const ADMA_NOP_END: SdhciQuirks = SdhciQuirks(1 << 9);
    /// DMA transfers only multiples of 4 bytes; other lengths go through the buffer port.
    pub const DMA_SIZE_32BIT: SdhciQuirks = SdhciQuirks(1 << 10);
    /// The timeout counter value is wrong; the largest is always used.
    pub const BROKEN_TIMEOUT_VALUE: SdhciQuirks = SdhciQuirks(1 << 11);
    /// The timeout counter counts SD clocks.
    pub const TIMEOUT_USES_SD_CLOCK: SdhciQuirks = SdhciQuirks(1 << 12);
    /// Data timeout is masked when the counter is too short for a phase; the engine's deadline
    /// remains.
    pub const MASK_LONG_TIMEOUT: SdhciQuirks = SdhciQuirks(1 << 13);
    /// High Speed Enable must stay 0 (it moves the sampling edge the wrong way).
    pub const NO_HISPD_BIT: SdhciQuirks = SdhciQuirks(1 << 14);
    /// 1.8 V signalling is declared and not wired.
    pub const NO_SIGNAL_18: SdhciQuirks = SdhciQuirks(1 << 15);
    /// CMD and DAT must be reset by one write. Otherwise each is reset alone, which works on every
    /// standard controller.
    pub const RESET_CMD_DATA_TOGETHER: SdhciQuirks = SdhciQuirks(1 << 16);
    /// A 136-bit response is stored with its CRC.
    pub const RSP136_HAS_CRC: SdhciQuirks = SdhciQuirks(1 << 17);
    /// Sets [`Caps::defer_completion`].
    pub const DEFER_COMPLETION: SdhciQuirks = SdhciQuirks(1 << 18);
    /// Sets [`Caps::defer_completion`] for data read by DMA: `Dma::unmap` of a read must not run in
    /// the hard interrupt (it copies out of a bounce buffer, for example), and that of a write does
    /// nothing.
    pub const DEFER_READS: SdhciQuirks = SdhciQuirks(1 << 31);
    /// Only 32-bit accesses work.
    pub const ACCESS_32BIT: SdhciQuirks = SdhciQuirks(1 << 19);
    /// Registers of 16 bits must be written one by one (a 32-bit write at 004h or 00Ch loses a
    /// half).
    pub const ACCESS_16BIT: SdhciQuirks = SdhciQuirks(1 << 20);
    /// Host Version 4 Enable must stay 0 on a version 4 controller.
    pub const NO_V4_MODE: SdhciQuirks = SdhciQuirks(1 << 21);
    /// The clock multiplier is declared and does not work.
    pub const NO_CLOCK_MULTIPLIER: SdhciQuirks = SdhciQuirks(1 << 22);
    /// Power is switched outside of the controller; the power register is written, but its value is
    /// not used.
    pub const EXTERNAL_POWER: SdhciQuirks = SdhciQuirks(1 << 23);
    /// The write-protect pin reads inverted.
    pub const INVERTED_WRITE_PROTECT: SdhciQuirks = SdhciQuirks(1 << 24);
    /// After every change of clock, width or timing CMD and DAT must be reset.
    pub const RESET_ON_IOS: SdhciQuirks = SdhciQuirks(1 << 25);
    /// The buffer's ready bits come some microseconds after their interrupt; the driver waits for
    /// them.
    pub const PIO_DELAY: SdhciQuirks = SdhciQuirks(1 << 26);
    /// Every CMD12 ends with a Transfer Complete, even one that was sent without busy.
    pub const STOP_WITH_TC: SdhciQuirks = SdhciQuirks(1 << 27);
    /// Clock Control must be written once more before a reset, with the internal clock on.
    pub const CLOCK_BEFORE_RESET: SdhciQuirks = SdhciQuirks(1 << 28);
    /// The lines are fixed at 1.8 V (VCCQ of a soldered eMMC on a rail of its own):
    /// [`Caps::signal18_fixed`].
    pub const FIXED_18: SdhciQuirks = SdhciQuirks(1 << 29);

    /// A command without busy (R1) that is sent as one with busy (R1b) always ends with a Transfer
    /// Complete too. This saves two register writes for each. Set it only for a controller on which
    /// it was observed: see [`QEMU`](Self::QEMU).
    pub const R1_WITH_TC: SdhciQuirks = SdhciQuirks(1 << 30);

    /// QEMU's `sdhci-pci` (PCI 1b36:0007), observed in QEMU 7.2 with its SD card.
    pub const QEMU: SdhciQuirks = Self::R1_WITH_TC;

    const NAMED: [(&'static str, SdhciQuirks); 32] = [
        ("no-busy-irq", Self::NO_BUSY_IRQ),
        ("no-dat0-level", Self::NO_DAT0_LEVEL),
        ("broken-adma", Self::BROKEN_ADMA),
        ("broken-adma-64", Self::BROKEN_ADMA_64),
        ("broken-sdma", Self::BROKEN_SDMA),
        ("no-auto-cmd12", Self::NO_AUTO_CMD12),
        ("no-auto-cmd23", Self::NO_AUTO_CMD23),
        ("no-cmd23", Self::NO_CMD23),
        ("adma-zero-length-broken", Self::ADMA_ZERO_LENGTH_BROKEN),
        ("adma-nop-end", Self::ADMA_NOP_END),
        ("dma-size-32bit", Self::DMA_SIZE_32BIT),
        ("broken-timeout-value", Self::BROKEN_TIMEOUT_VALUE),
        ("timeout-uses-sd-clock", Self::TIMEOUT_USES_SD_CLOCK),
        ("mask-long-timeout", Self::MASK_LONG_TIMEOUT),
        ("no-hispd-bit", Self::NO_HISPD_BIT),
        ("no-signal-18", Self::NO_SIGNAL_18),
        ("reset-cmd-data-together", Self::RESET_CMD_DATA_TOGETHER),
        ("rsp136-has-crc", Self::RSP136_HAS_CRC),
        ("defer-completion", Self::DEFER_COMPLETION),
        ("defer-reads", Self::DEFER_READS),
        ("access-32bit", Self::ACCESS_32BIT),
        ("access-16bit", Self::ACCESS_16BIT),
        ("no-v4-mode", Self::NO_V4_MODE),
        ("no-clock-multiplier", Self::NO_CLOCK_MULTIPLIER),
        ("external-power", Self::EXTERNAL_POWER),
        ("inverted-write-protect", Self::INVERTED_WRITE_PROTECT),
        ("reset-on-ios", Self::RESET_ON_IOS),
        ("pio-delay", Self::PIO_DELAY),
        ("stop-with-tc", Self::STOP_WITH_TC),
        ("clock-before-reset", Self::CLOCK_BEFORE_RESET),
        ("fixed-18", Self::FIXED_18),
        ("r1-with-tc", Self::R1_WITH_TC),
    ];

    /// Returns the quirk of this name: the constant's name in small letters with hyphens
    /// (`no-busy-irq`).
    pub fn named(name: &str) -> Option<SdhciQuirks> {
        Self::NAMED.iter().find(|known| known.0 == name).map(|known| known.1)
    }

    /// Returns the names of all quirks.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|known| known.0)
    }

    /// Returns the set without `other`.
    pub const fn without(self, other: SdhciQuirks) -> SdhciQuirks {
        SdhciQuirks(self.0 & !other.0)
    }

    /// Returns both sets together.
    pub const fn with(self, other: SdhciQuirks) -> SdhciQuirks {
        SdhciQuirks(self.0 | other.0)
    }

    /// Returns whether all of `other` are set.
    pub const fn has(self, other: SdhciQuirks) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How data are transferred between the controller and memory.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// The best declared mode: ADMA2, else SDMA, else PIO.
    #[default]
    Auto,
    /// Scatter-gather by descriptors [SDHC 1.13].
    Adma2,
    /// One segment, with a stop at every 512 KiB boundary [SDHC 1.4].
    Sdma,
    /// The CPU transfers every word.
    Pio,
}

/// Settings of the controller by the board. Start from [`SdhciConfig::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SdhciConfig {
    /// Departures from the standard.
    pub quirks: SdhciQuirks,
    /// How data are transferred.
    pub transfer: TransferMode,
    /// Base clock in hertz, instead of the one in the capabilities (needed where they have 0).
    pub base_clock_hz: Option<u32>,
    /// Timeout clock in hertz, instead of the one in the capabilities. If both are 0, the driver
    /// uses the controller's longest timeout.
    pub timeout_clock_hz: Option<u32>,
    /// Fastest SD clock that the board's wires support, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that are wired; eight also need the controller's capability.
    pub width: Width,
    /// Whether the card is soldered: its presence is never checked.
    pub fixed: bool,
    /// Current of the card's supply, in mA; 0: as in Maximum Current Capabilities [SDHC 2.2.26].
    pub supply_ma: u16,
    /// Timings besides the declared ones, as [`Caps::timing_bit`]s: HS200, HS400 and enhanced
    /// strobe of eMMC have no bit in the capabilities.
    pub extra_timings: u16,
    /// UHS Mode Select of HS400; the standard has none.
    pub hs400_mode: u8,
    /// UHS Mode Select of HS400 with enhanced strobe (Spreadtrum's controllers have one).
    pub hs400es_mode: u8,
    /// The capabilities (044h:040h) instead of the register's.
    pub capabilities: Option<u64>,
}

setters!(SdhciConfig {
    quirks: SdhciQuirks,
    transfer: TransferMode,
    base_clock_hz: Option<u32>,
    timeout_clock_hz: Option<u32>,
    max_clock_hz: u32,
    width: Width,
    fixed: bool,
    supply_ma: u16,
    extra_timings: u16,
    hs400_mode: u8,
    hs400es_mode: u8,
    capabilities: Option<u64>,
});

/// The parts of the configuration that the driver needs after it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    pub quirks: SdhciQuirks,
    pub supply_ma: u16,
    pub hs400_mode: u8,
    pub hs400es_mode: u8,
}

impl SdhciConfig {
    pub(super) fn lasting(&self) -> Lasting {
        let SdhciConfig { quirks, supply_ma, hs400_mode, hs400es_mode, .. } = *self;
        Lasting { quirks, supply_ma, hs400_mode, hs400es_mode }
    }

    /// Makes settings of a controller that follows the standard, with all lines wired, in a slot.
    pub const fn new() -> Self {
        SdhciConfig {
            quirks: SdhciQuirks::NONE,
            transfer: TransferMode::Auto,
            base_clock_hz: None,
            timeout_clock_hz: None,
            max_clock_hz: u32::MAX,
            width: Width::W8,
            fixed: false,
            supply_ma: 0,
            extra_timings: 0,
            hs400_mode: super::regs::UHS_HS400 as u8,
            hs400es_mode: super::regs::UHS_HS400ES as u8,
            capabilities: None,
        }
    }

    /// Makes settings for an eMMC on a 1.8 V host: soldered, HS200 and HS400, also with enhanced
    /// strobe.
    pub const fn emmc_18() -> Self {
        let mut config = Self::new();
        config.fixed = true;
        config.extra_timings = Caps::timing_bit(Timing::Hs200)
            | Caps::timing_bit(Timing::Hs400)
            | Caps::timing_bit(Timing::Hs400Es);
        config
    }
}

impl Default for SdhciConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Why the driver cannot be made.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SdhciInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// Neither the capabilities nor the configuration have a base clock.
    NoBaseClock,
    /// The requested mode is not declared, or the descriptor table is too small for it.
    TransferMode(TransferMode),
    /// The descriptor table cannot be mapped, or is out of the controller's reach.
    Table(DmaError),
}

impl fmt::Display for SdhciInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SdhciInitError::Gone => {
                f.write_str("sdhci: version and capabilities read as all ones, expected a controller")
            }
            SdhciInitError::NoBaseClock => f.write_str(
                "sdhci: base clock in capabilities 15:8 is 0, expected SdhciConfig::base_clock_hz",
            ),
            SdhciInitError::TransferMode(mode) => {
                write!(f, "sdhci: transfer mode {mode:?} is not announced, or Table has too few descriptors")
            }
            SdhciInitError::Table(why) => write!(f, "sdhci: descriptor table cannot be used for DMA: {why}"),
        }
    }
}

impl core::error::Error for SdhciInitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            SdhciInitError::Table(why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quirk_has_a_name_and_a_bit_of_its_own() {
        let mut all = SdhciQuirks::NONE;
        for name in SdhciQuirks::names() {
            let quirk = SdhciQuirks::named(name).unwrap();
            assert!(!all.has(quirk), "{name}");
            all = all.with(quirk);
        }
        assert_eq!(all.0.count_ones() as usize, SdhciQuirks::NAMED.len());
        assert_eq!(SdhciQuirks::named("NO_BUSY_IRQ"), None);
        assert!(!all.without(SdhciQuirks::NO_BUSY_IRQ).has(SdhciQuirks::NO_BUSY_IRQ));
    }
}
