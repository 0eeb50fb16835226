//! Settings of the controller that only the board knows.

use crate::host::{Caps, DmaError, Timing, Width};
use core::fmt;

/// Deviations of a controller from the standard; combine several with [`with`](SdhciQuirks::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdhciQuirks(u32);

impl SdhciQuirks {
    /// The controller has no deviation.
    pub const NONE: SdhciQuirks = SdhciQuirks(0);
    /// The controller raises no Transfer Complete at the end of an R1b busy; the driver reads DAT0
    /// instead.
    pub const NO_BUSY_IRQ: SdhciQuirks = SdhciQuirks(1 << 0);
    /// The DAT levels in Present State are wrong. Together with [`NO_BUSY_IRQ`](Self::NO_BUSY_IRQ),
    /// only the card's status (CMD13) shows the end of busy.
    pub const NO_DAT0_LEVEL: SdhciQuirks = SdhciQuirks(1 << 1);
    /// The capabilities declare ADMA2, but it does not work.
    pub const BROKEN_ADMA: SdhciQuirks = SdhciQuirks(1 << 2);
    /// ADMA2 works only with 32-bit descriptors.
    pub const BROKEN_ADMA_64: SdhciQuirks = SdhciQuirks(1 << 3);
    /// The capabilities declare SDMA, but it does not work.
    pub const BROKEN_SDMA: SdhciQuirks = SdhciQuirks(1 << 4);
    /// The controller's automatic CMD12 does not work.
    pub const NO_AUTO_CMD12: SdhciQuirks = SdhciQuirks(1 << 5);
    /// The controller's automatic CMD23 does not work.
    pub const NO_AUTO_CMD23: SdhciQuirks = SdhciQuirks(1 << 6);
    /// CMD23 must not be sent at all, neither by the controller itself nor by the driver.
    pub const NO_CMD23: SdhciQuirks = SdhciQuirks(1 << 7);
    /// A descriptor length of 0 does not stand for 64 KiB.
    pub const ADMA_ZERO_LENGTH_BROKEN: SdhciQuirks = SdhciQuirks(1 << 8);
    /// The descriptor list must end with a separate descriptor without data. Without this quirk,
    /// the last data descriptor has the End bit.
    pub const ADMA_NOP_END: SdhciQuirks = SdhciQuirks(1 << 9);
    /// DMA transfers only multiples of 4 bytes; the CPU transfers other lengths through the buffer
    /// port.
    pub const DMA_SIZE_32BIT: SdhciQuirks = SdhciQuirks(1 << 10);
    /// The data timeout does not follow the value of the timeout counter, so the driver always uses
    /// the largest value.
    pub const BROKEN_TIMEOUT_VALUE: SdhciQuirks = SdhciQuirks(1 << 11);
    /// The timeout counter counts periods of the SD clock instead of TMCLK.
    pub const TIMEOUT_USES_SD_CLOCK: SdhciQuirks = SdhciQuirks(1 << 12);
    /// The driver masks Data Timeout Error when the controller's timeout counter is too short for a
    /// command and its data. Then only the engine's deadline limits them.
    pub const MASK_LONG_TIMEOUT: SdhciQuirks = SdhciQuirks(1 << 13);
    /// High Speed Enable must stay 0, because it moves the sampling edge in the wrong direction.
    pub const NO_HISPD_BIT: SdhciQuirks = SdhciQuirks(1 << 14);
    /// The capabilities declare 1.8 V signaling, but the board does not connect it.
    pub const NO_SIGNAL_18: SdhciQuirks = SdhciQuirks(1 << 15);
    /// CMD and DAT must be reset by a single write. Without this quirk each circuit is reset alone,
    /// which works on every standard controller.
    pub const RESET_CMD_DATA_TOGETHER: SdhciQuirks = SdhciQuirks(1 << 16);
    /// The response registers also contain the CRC of a 136-bit response.
    pub const RSP136_HAS_CRC: SdhciQuirks = SdhciQuirks(1 << 17);
    /// Sets [`Caps::defer_completion`]: data requests are not completed in the hard interrupt.
    pub const DEFER_COMPLETION: SdhciQuirks = SdhciQuirks(1 << 18);
    /// Sets [`Caps::defer_completion`] for reads by DMA: use it if `Dma::unmap` of a read must not
    /// run in the hard interrupt, for example because it copies out of a bounce buffer. Writes are
    /// still completed in the hard interrupt, so their `Dma::unmap` must be quick.
    pub const DEFER_READS: SdhciQuirks = SdhciQuirks(1 << 31);
    /// Only 32-bit register accesses work.
    pub const ACCESS_32BIT: SdhciQuirks = SdhciQuirks(1 << 19);
    /// 16-bit registers must be written one by one, because a 32-bit write at 004h or 00Ch loses
    /// one half.
    pub const ACCESS_16BIT: SdhciQuirks = SdhciQuirks(1 << 20);
    /// Host Version 4 Enable must stay 0 on a version 4 controller.
    pub const NO_V4_MODE: SdhciQuirks = SdhciQuirks(1 << 21);
    /// The capabilities declare a clock multiplier, but it does not work.
    pub const NO_CLOCK_MULTIPLIER: SdhciQuirks = SdhciQuirks(1 << 22);
    /// The board switches the card's supply. The driver writes Power Control, but does not check
    /// that SD Bus Power then reads as 1.
    pub const EXTERNAL_POWER: SdhciQuirks = SdhciQuirks(1 << 23);
    /// The Write Protect Switch Pin Level reads inverted.
    pub const INVERTED_WRITE_PROTECT: SdhciQuirks = SdhciQuirks(1 << 24);
    /// CMD and DAT must be reset after every change of clock, width or timing.
    pub const RESET_ON_IOS: SdhciQuirks = SdhciQuirks(1 << 25);
    /// The ready bits of the buffer are set some microseconds after their interrupt; the driver
    /// waits for them.
    pub const PIO_DELAY: SdhciQuirks = SdhciQuirks(1 << 26);
    /// Every CMD12 ends with a Transfer Complete, even a CMD12 that was sent without busy (R1).
    pub const STOP_WITH_TC: SdhciQuirks = SdhciQuirks(1 << 27);
    /// Clock Control must be written once more before a reset, with the internal clock on.
    pub const CLOCK_BEFORE_RESET: SdhciQuirks = SdhciQuirks(1 << 28);
    /// The signal lines always have 1.8 V, because VCCQ of a soldered eMMC has its own supply:
    /// [`Caps::signal18_fixed`].
    pub const FIXED_18: SdhciQuirks = SdhciQuirks(1 << 29);

    /// A command without busy (R1) that the driver sends as one with busy (R1b) always ends with
    /// Transfer Complete too. The driver then saves two register writes for each such command. Set
    /// this only for a controller on which it was observed: see [`QEMU`](Self::QEMU).
    pub const R1_WITH_TC: SdhciQuirks = SdhciQuirks(1 << 30);

    /// Quirk of QEMU's `sdhci-pci` (PCI 1b36:0007), observed in QEMU 7.2 with its SD card.
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

    /// Returns the quirk with this name: the constant's name in lower case with hyphens
    /// (`no-busy-irq`). `None` if there is none.
    pub fn named(name: &str) -> Option<SdhciQuirks> {
        Self::NAMED.iter().find(|known| known.0 == name).map(|known| known.1)
    }

    /// Returns the names of all quirks.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMED.iter().map(|known| known.0)
    }

    /// Returns the set without the quirks of `other`.
    pub const fn without(self, other: SdhciQuirks) -> SdhciQuirks {
        SdhciQuirks(self.0 & !other.0)
    }

    /// Returns the quirks of both sets.
    pub const fn with(self, other: SdhciQuirks) -> SdhciQuirks {
        SdhciQuirks(self.0 | other.0)
    }

    /// Returns whether the set contains all quirks of `other`.
    pub const fn has(self, other: SdhciQuirks) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How data are transferred between the controller and memory.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// Uses the best declared mode: ADMA2, else SDMA, else PIO.
    #[default]
    Auto,
    /// Uses ADMA2: scatter-gather by descriptors [SDHC 1.13].
    Adma2,
    /// Uses SDMA: one segment, with a stop at every 512 KiB boundary [SDHC 1.4].
    Sdma,
    /// Uses PIO: the CPU transfers every word.
    Pio,
}

/// Settings that the board gives the driver. Start from [`SdhciConfig::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SdhciConfig {
    /// Deviations of the controller from the standard.
    pub quirks: SdhciQuirks,
    /// How data are transferred between the controller and memory.
    pub transfer: TransferMode,
    /// Base clock in hertz, which replaces the one in the capabilities. Required if the
    /// capabilities have 0.
    pub base_clock_hz: Option<u32>,
    /// Timeout clock in hertz, which replaces the one in the capabilities. If both are 0, the
    /// driver uses the controller's longest timeout.
    pub timeout_clock_hz: Option<u32>,
    /// Fastest SD clock that the board's wiring supports, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects. Eight lines also need the controller's
    /// capability.
    pub width: Width,
    /// Whether the card is soldered, so that its presence is never checked.
    pub fixed: bool,
    /// Current that the card's supply can deliver, in mA; 0 means the value in Maximum Current
    /// Capabilities [SDHC 2.2.26].
    pub supply_ma: u16,
    /// Timings that are allowed in addition to those in the capabilities, as [`Caps::timing_bit`]s.
    /// HS200, HS400 and enhanced strobe of eMMC have no bit in the capabilities.
    pub extra_timings: u16,
    /// Value of UHS Mode Select for HS400; the standard defines none.
    pub hs400_mode: u8,
    /// Value of UHS Mode Select for HS400 with enhanced strobe; the standard defines none. The
    /// default is the value of Spreadtrum's controllers.
    pub hs400es_mode: u8,
    /// Value that the driver uses instead of the Capabilities register: 044h in bits 63:32, 040h in
    /// bits 31:0. `None`: the driver reads the register.
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

/// The settings of the board that the driver needs also after its construction.
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

    /// Makes settings of a standard controller with all data lines connected and a card slot.
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

    /// Makes settings for a soldered eMMC at 1.8 V, with HS200, HS400 and enhanced strobe.
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

/// Why [`Sdhci::new`](super::Sdhci::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SdhciInitError {
    /// The version register reads as all ones: the controller's clock is off, or no controller is
    /// at this address.
    Gone,
    /// Neither the capabilities nor the configuration have a base clock.
    NoBaseClock,
    /// The controller does not declare the requested mode, or the descriptor table is too small for
    /// it.
    TransferMode(TransferMode),
    /// The descriptor table cannot be mapped, or the controller cannot reach it.
    Table(DmaError),
}

impl fmt::Display for SdhciInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SdhciInitError::Gone => {
                f.write_str("sdhci: the version register reads as all ones, expected a controller")
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
