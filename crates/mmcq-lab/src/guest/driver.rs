//! The guest's driver for the laboratory's controller: one of Linux's own, Linux's software queue,
//! or `mmcq.ko`. (A guest is a kernel in a virtual machine.)

use super::{Failure, Machine};
use crate::board;
use crate::controller::ControllerConfig;
use crate::platform::{Busy, Platform};
use std::fs;
use std::path::PathBuf;

/// Name of the setting that [`Driver::Hsq`] stands for: Linux's software queue.
const SOFTWARE_QUEUE: &str = "hsq-tag";

/// Name of `mmcq.ko` in a report. (The name `mmcq` is that of this stack without Linux.)
pub const MODULE: &str = "mmcq.ko";

/// Driver of the slot in the guest: Linux's own, or mmcq's kernel module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Driver {
    /// Linux's own `mmc_core`, `mmc_block` and `sdhci`, with the queue that --setting names
    #[default]
    Linux,
    /// Linux's own drivers with Linux's software queue (mmc_hsq), as --setting hsq-tag
    Hsq,
    /// This stack as a block driver of Linux: mmcq.ko, from linux/
    Mmcq,
}

/// Kind of PCI device that the guest finds in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// QEMU's own SDHCI device.
    Sdhci,
    /// Device for Linux's driver dw_mmc-pci, with its registers at BAR 2.
    DesignWare,
    /// Realtek's card reader RTS5249, for Linux's driver rtsx_pci.
    Realtek,
}

impl Kind {
    /// Returns the name of this kind of controller, as the guest's kernel command line and the
    /// plugin of QEMU have it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Kind::Sdhci => "sdhci",
            Kind::DesignWare => "designware",
            Kind::Realtek => "realtek",
        }
    }
}

impl Machine {
    /// Returns the name of the setting in the report: that of Linux's driver, or `mmcq.ko`. With
    /// [`Driver::Hsq`] and [`Driver::Mmcq`], another setting or a firmware image is an error.
    pub(super) fn setting(&self) -> Result<&str, Failure> {
        let given = self.setting.as_str();
        let wrong = |why: &str| {
            let name = if self.driver == Driver::Hsq { "hsq" } else { "mmcq" };
            Err(Failure::Input(format!("--driver {name}: {why}")))
        };
        match self.driver {
            Driver::Linux => Ok(given),
            _ if self.image.is_some() => wrong("an image has a driver of its own"),
            Driver::Hsq if matches!(given, "none" | SOFTWARE_QUEUE) => Ok(SOFTWARE_QUEUE),
            Driver::Hsq => wrong(&format!("setting {given}: expected {SOFTWARE_QUEUE}, or nothing")),
            Driver::Mmcq if given == "none" => Ok(MODULE),
            Driver::Mmcq => wrong(&format!("setting {given}: that is a queue of Linux's own driver")),
        }
    }

    /// Returns the module parameters of `mmcq.ko` for the platform's controller and card, as words
    /// of the kernel's command line. Returns an error for a controller or card that the module
    /// cannot drive.
    pub(super) fn module_words(&self, platform: &Platform) -> Result<String, Failure> {
        let wrong = |why: String| Err(Failure::Input(format!("--driver mmcq: {why}")));
        let (fixed, sdhci) = match &platform.controller {
            ControllerConfig::Sdhci(controller) => (controller.fixed, true),
            ControllerConfig::Rtsx(controller) => (controller.fixed, false),
            _ => {
                let name = &platform.name;
                return wrong(format!("platform {name}: mmcq.ko drives SDHCI and Realtek's readers alone"));
            }
        };
        let card = match board::card_table(self.card.as_deref().unwrap_or(&platform.card), &[]) {
            Ok(card) => card,
            // An I/O card has no blocks, which the module needs.
            Err(why) => return wrong(format!("mmcq.ko drives SD cards and eMMCs alone: {why}")),
        };
        // On an SD card, registers alone switch to 1.8 V. For an eMMC, the board says whether its
        // lines can be at 1.8 V.
        let emmc_18 = sdhci && card.contains_key("emmc") && (fixed || !platform.timings.is_empty());
        let departures = if sdhci && platform.busy != Busy::Interrupt { "no-busy-irq" } else { "" };
        Ok(format!(" mmcq.driver=mmcq mmcq.emmc_18={} mmcq.departures={departures}", u8::from(emmc_18)))
    }

    /// Returns the content of the file `mmcq.ko` for the guest; `None` if Linux's own driver uses
    /// the slot.
    pub(super) fn module(&self) -> Result<Option<Vec<u8>>, Failure> {
        if self.driver != Driver::Mmcq {
            return Ok(None);
        }
        let path: PathBuf = self.parts.join(MODULE);
        let read = fs::read(&path);
        read.map(Some).map_err(|_| {
            let path = path.display();
            Failure::Input(format!("{path}: not there; tools/guest-parts.sh --module builds it"))
        })
    }
}
