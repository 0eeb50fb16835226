//! Drivers of Linux, and the board with which to begin for each.
//!
//! A user knows the driver of his controller (`lspci -k`, `lsmod`), seldom the name of a board here.

/// Driver of Linux for a controller of cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Name of the driver's module in Linux.
    pub name: &'static str,
    /// Name of the board in this project from which a user of this driver should start, because its
    /// controller is similar; `None`: no board has a similar controller.
    pub board: Option<&'static str>,
    /// Note for a user of this driver, in words.
    pub note: &'static str,
}

const STANDARD: &str =
    "an SDHCI; its own limits (alignment, clock, modes) are keys of `controller` and `driver`";
const QUEUE: &str = "an SDHCI, on many chips with a queue engine; intel-jsl is a board that has one";
const NONE: &str =
    "no model here has its registers; a board of the same speed gives the wire and the card alone";

const fn of(name: &'static str, board: &'static str, note: &'static str) -> Driver {
    Driver { name, board: Some(board), note }
}

const fn without(name: &'static str, note: &'static str) -> Driver {
    Driver { name, board: None, note }
}

/// Drivers of Linux, by name.
pub const DRIVERS: [Driver; 33] = [
    without("bcm2835", NONE),
    of("dw_mmc", "mshc-pci", "DesignWare's mobile storage host, on an SoC under the names of its makers"),
    of("dw_mmc-exynos", "mshc-pci", "DesignWare's mobile storage host"),
    of("dw_mmc-pci", "mshc-pci", "DesignWare's mobile storage host"),
    of("dw_mmc-rockchip", "mshc-pci", "DesignWare's mobile storage host"),
    without("meson-gx-mmc", NONE),
    without("mmc_spi", "a card on SPI; the stack drives it, but no board of the laboratory has one"),
    of(
        "mmci",
        "stm32h7-sdmmc",
        "ST's SDMMC; the same driver also has Arm's PL180 and PL181, without a board here",
    ),
    of("mtk-sd", "cmdq-mt6761", "MediaTek's controller; the board has an SDHCI in its place"),
    without("omap_hsmmc", NONE),
    without("renesas_sdhi_core", NONE),
    of("rtsx_pci_sdmmc", "stream-rtsx", "Realtek's readers on PCI Express"),
    without("rtsx_usb_sdmmc", "Realtek's readers on USB; no model here has USB"),
    of("s3cmci", "sdio-s3c24a0", "Samsung's SDI, with an SDIO card"),
    of("sdhci-acpi", "generic", STANDARD),
    of("sdhci-brcmstb", "generic", QUEUE),
    of("sdhci-cadence", "generic", STANDARD),
    without("sdhci-esdhc-imx", "NXP's uSDHC, no SDHCI by its registers; generic has the same wire and card"),
    of("sdhci-iproc", "generic", STANDARD),
    of("sdhci-msm", "generic", QUEUE),
    of("sdhci-of-arasan", "generic", QUEUE),
    of("sdhci-of-at91", "generic", STANDARD),
    of("sdhci-of-dwcmshc", "generic", QUEUE),
    without("sdhci-of-esdhc", "Freescale's eSDHC, no SDHCI by its registers"),
    of("sdhci-omap", "generic", STANDARD),
    of("sdhci-pci", "generic", "an SDHCI on PCI; Intel's are intel-emmc, intel-glk and intel-jsl"),
    of("sdhci-pxav3", "generic", STANDARD),
    of("sdhci-s3c", "generic", STANDARD),
    of("sdhci-sprd", "hsq-sprd", "Spreadtrum's SDHCI, on the board of the HSQ thread"),
    of("sdhci-tegra", "generic", QUEUE),
    of("sdhci-xenon", "generic", STANDARD),
    of("sdhci_am654", "generic", QUEUE),
    of("sunxi-mmc", "fifo-allwinner", "Allwinner's SMHC, on the board of the FIFO thread"),
];

/// Returns the drivers whose name contains `text`. Upper and lower case are equal, and so are `_`
/// and `-`.
pub fn named(text: &str) -> impl Iterator<Item = Driver> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let wanted = plain(text);
    DRIVERS.into_iter().filter(move |driver| plain(driver.name).contains(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Platform;
    use crate::sdio::platform::Board;

    #[test]
    fn each_driver_has_one_row_and_its_board_is_there() {
        assert!(DRIVERS.is_sorted_by(|a, b| a.name < b.name));
        for driver in DRIVERS {
            let Some(board) = driver.board else { continue };
            assert_eq!(named(driver.name).next().map(|first| first.note.is_empty()), Some(false));
            assert!(Platform::names().chain(Board::names()).any(|name| name == board), "{board}");
        }
    }
}
