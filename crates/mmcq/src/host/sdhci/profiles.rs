//! Configurations for known controllers and boards, with the controllers' deviations from the
//! standard.
//!
//! A profile is a constant to start from; change it with the setters of [`SdhciConfig`]. If the
//! base clock in the capabilities may be wrong, the profile is a [`NeedsClock`], and
//! [`clock`](NeedsClock::clock) makes a configuration from it. A line "PHY" says what the board
//! must set around the controller. The board's code does this in methods of
//! [`Surroundings`](crate::host::surroundings::Surroundings).
//!
//! Each profile was tested on this project's model of a standard controller, which has none of the
//! deviations. "Tested on" names the emulated machines on which a profile was tested too.
//!
//! ```
//! use mmcq::host::{Width, sdhci::profiles};
//! // The SD slot of a ZCU102.
//! let config = profiles::ZYNQMP.clock(200_000_000).width(Width::W4);
//! assert_eq!(config.base_clock_hz, Some(200_000_000));
//! ```

use super::config::{SdhciConfig, SdhciQuirks as Quirks, TransferMode};
use super::regs::{CAP_3V3, CAP_HIGH_SPEED};

/// A profile without base clock, because the capabilities lack it or have a wrong value.
#[derive(Clone, Copy, Debug)]
pub struct NeedsClock(SdhciConfig);

impl NeedsClock {
    /// Returns the configuration with the base clock `hz`, in hertz. With 0,
    /// [`Sdhci::new`](super::Sdhci::new) fails with
    /// [`NoBaseClock`](super::SdhciInitError::NoBaseClock).
    pub const fn clock(self, hz: u32) -> SdhciConfig {
        self.0.base_clock_hz(Some(hz))
    }
}

const fn quirks(quirks: Quirks) -> SdhciConfig {
    SdhciConfig::new().quirks(quirks)
}

/// Xilinx Zynq-7000: Arasan 8.9a, version 2.0. PHY: the board sets nothing.
///
/// Tested on QEMU's machine xilinx-zynq-a9.
pub const ZYNQ: NeedsClock = NeedsClock(SdhciConfig::new());

/// Xilinx Zynq UltraScale+: Arasan 8.9a, version 3.0. PHY: the board's method `Surroundings::pins`
/// sets tap delays for each timing in the system-level registers. The board sets them again after a
/// tuning.
///
/// Tested on QEMU's machine xlnx-zcu102 at high speed.
pub const ZYNQMP: NeedsClock = NeedsClock(SdhciConfig::new());

/// AMD Versal: like [`ZYNQMP`], but the tap delays are registers of the controller.
///
/// Not tested on hardware or on a machine's model.
pub const VERSAL: NeedsClock = ZYNQMP;

/// Raspberry Pi 0 to 3, and the Wi-Fi interface of later ones: Arasan without DMA, and without
/// capabilities, card detection and Power Control. The presence of the card is never checked
/// ([`fixed`](SdhciConfig::fixed)), and the board supplies it.
///
/// The chip needs four SD clocks between two register writes. The driver cannot wait, so the
/// board's [`Regs`](crate::host::Regs) must wait after each `write32`. PHY: the board sets nothing.
///
/// Tested on QEMU's machine raspi3b, which asks for no such wait, and has card detection.
pub const BCM2835_EMMC: NeedsClock = NeedsClock(
    quirks(
        Quirks::ACCESS_32BIT
            .with(Quirks::NO_AUTO_CMD23)
            .with(Quirks::TIMEOUT_USES_SD_CLOCK)
            .with(Quirks::NO_HISPD_BIT)
            .with(Quirks::EXTERNAL_POWER),
    )
    .transfer(TransferMode::Pio)
    .fixed(true)
    // Capabilities: 3.3 V, high speed, blocks of 1024 bytes.
    .capabilities(Some((CAP_3V3 | CAP_HIGH_SPEED | 1 << 16) as u64)),
);

/// Raspberry Pi 4, EMMC2. The controller has no card-detect line, so the presence of the card is
/// never checked ([`fixed`](SdhciConfig::fixed)). PHY: the board switches the supply of the card
/// and of the signal lines by the firmware's GPIO expander (`supply`, `signalling`).
///
/// Not tested on hardware or on a machine's model.
pub const BCM2711_EMMC2: NeedsClock =
    NeedsClock(quirks(Quirks::ACCESS_32BIT.with(Quirks::EXTERNAL_POWER)).fixed(true));

/// Raspberry Pi 5. PHY: the board switches the supply of the signal lines (method `signalling` of
/// `Surroundings`), and sets pins in the register block next to the controller (method `pins`).
///
/// Not tested on hardware or on a machine's model.
pub const BCM2712: NeedsClock = NeedsClock(SdhciConfig::new());

/// Aspeed AST2400 to AST2600: two slots at offsets 0x100 and 0x200 from their common register
/// block. PHY: the board's method `Surroundings::pins` sets the phase of the clock in the common
/// block.
///
/// Tested on QEMU's machine ast2600-evb.
pub const ASPEED: NeedsClock = NeedsClock(SdhciConfig::new());

/// Nuvoton NPCM7xx. PHY: the board sets nothing.
///
/// Tested on QEMU's machine npcm750-evb, whose registers the driver reached by qtest.
pub const NPCM7XX: SdhciConfig = SdhciConfig::new();

/// Cadence SD4HC (Microchip PolarFire): the SDHCI begins at offset 0x200 of Cadence's registers.
/// PHY: the board's method `Surroundings::pins` sets delays by HRS04 for each timing, and the
/// timing of an eMMC in HRS06.
///
/// Tested on QEMU's machine microchip-icicle-kit, whose registers the driver reached by qtest.
pub const CADENCE_SD4HC: SdhciConfig = SdhciConfig::new();

/// Synopsys DWCMSHC (RK3568, RK3588, TH1520, SG2042, K1). A transfer must not cross a boundary of
/// 128 MiB, so the board's [`Dma`](crate::host::Dma) must not return memory that crosses one. PHY:
/// the board's methods `pins` and `clock` of `Surroundings` set the vendor's delay line at offset
/// 0x500.
///
/// Not tested on hardware or on a machine's model.
pub const DWCMSHC: NeedsClock = NeedsClock(SdhciConfig::new());

/// Texas Instruments AM654 and its successors. PHY: the board's methods `pins` and `clock` of
/// `Surroundings` set delay line and output taps in the subsystem's registers.
///
/// Not tested on hardware or on a machine's model.
pub const AM654: SdhciConfig = SdhciConfig::new();

/// Spreadtrum's controllers for eMMC, with enhanced strobe. PHY: the board's method
/// `Surroundings::pins` sets delays at offset 0x200 of the registers.
///
/// Not tested on hardware or on a machine's model.
pub const SPRD: NeedsClock = NeedsClock(SdhciConfig::emmc_18());

/// Intel's controllers for eMMC on PCI. PHY: the board sets nothing.
///
/// Not tested on hardware or on a machine's model.
pub const INTEL: SdhciConfig = SdhciConfig::emmc_18();

/// A controller of PCI class 08.05 that follows the standard. PHY: the board sets nothing.
///
/// Tested on QEMU's sdhci-pci in its machines q35 and virt (64-bit Arm and RISC-V).
pub const PCI: SdhciConfig = SdhciConfig::new();

/// NXP's uSDHC, used through [`Usdhc`](super::Usdhc): i.MX 6UL, 6ULL, 8, RT. The base clock is the
/// root clock of the chip's clock controller. A board whose card-detect line is not at the
/// controller's CD_B pin sets [`fixed`](SdhciConfig::fixed). PHY: the board's method
/// `Surroundings::pins` sets the pads for each timing.
///
/// Tested on QEMU's machine mcimx6ul-evk.
pub const USDHC: NeedsClock = NeedsClock(quirks(USDHC_QUIRKS));

/// Like [`USDHC`], for the i.MX 6Q, 6SX, 6SL and 7D, on which an automatic CMD23 loses the upper
/// half of its argument.
///
/// Tested on QEMU's machine sabrelite (i.MX 6Q), whose registers the driver reached by qtest.
pub const USDHC_IMX6: NeedsClock = NeedsClock(quirks(USDHC_QUIRKS.with(Quirks::NO_AUTO_CMD23)));

const USDHC_QUIRKS: Quirks = Quirks::ACCESS_32BIT
    .with(Quirks::NO_BUSY_IRQ)
    .with(Quirks::NO_HISPD_BIT)
    .with(Quirks::ADMA_ZERO_LENGTH_BROKEN)
    .with(Quirks::PIO_DELAY)
    .with(Quirks::TIMEOUT_USES_SD_CLOCK);
