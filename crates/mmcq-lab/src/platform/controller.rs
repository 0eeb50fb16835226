//! Description of the controller in a board's file.

use super::PlatformError;
use mmcq_sim::mshc::{Layout, MshcConfig};
use mmcq_sim::rtsx::RtsxConfig;
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;
use toml::{Table, Value};

/// Kinds of controller that `controller.kind` in a board's file may name.
const KINDS: [&str; 4] = ["sdhci", "rtsx", "mshc", "stm32-sdmmc"];

/// Bit of an SDHCI's Capabilities 1 register (upper word): ADMA3 Support.
const ADMA3: u32 = 1 << 27;

/// Description of the controller, by its kind.
#[derive(Clone, Copy, Debug)]
pub enum ControllerConfig {
    /// `kind = "sdhci"`: an SDHCI. This is the default.
    Sdhci(SdhciConfig),
    /// `kind = "rtsx"`: Realtek's card reader.
    Rtsx(RtsxConfig),
    /// `kind = "mshc"`: Allwinner's or DesignWare's mobile storage host.
    Mshc(MshcConfig),
    /// `kind = "stm32-sdmmc"`: ST's SDMMC.
    Stm32Sdmmc(Stm32SdmmcConfig),
}

impl ControllerConfig {
    /// Returns the kind of the controller as a board's file writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            ControllerConfig::Sdhci(_) => KINDS[0],
            ControllerConfig::Rtsx(_) => KINDS[1],
            ControllerConfig::Mshc(_) => KINDS[2],
            ControllerConfig::Stm32Sdmmc(_) => KINDS[3],
        }
    }

    /// Returns whether the controller has an engine for a card's command queue (CQHCI).
    pub fn has_queue_engine(&self) -> bool {
        matches!(self, ControllerConfig::Sdhci(config) if config.command_queue.is_some())
    }

    /// Returns whether the controller can execute chains of transfers (ADMA3).
    pub fn executes_chains(&self) -> bool {
        matches!(self, ControllerConfig::Sdhci(config) if config.capabilities1 & ADMA3 != 0)
    }

    /// Returns whether Linux's driver for this controller samples DAT0 before a transfer and does
    /// not start it while the card is busy. The driver of an SMHC does not sample DAT0: the
    /// controller waits.
    pub fn linux_looks(&self) -> bool {
        !matches!(self, ControllerConfig::Mshc(config) if config.layout == Layout::Smhc)
    }

    /// Reads the section `[controller]` of a board's file; `place` names the section in errors.
    pub fn read(place: &str, mut section: Table) -> Result<Self, PlatformError> {
        let kind = section.remove("kind").unwrap_or_else(|| Value::String(KINDS[0].to_owned()));
        let config = Value::Table(section);
        let message = |e: toml::de::Error| PlatformError::new(format!("{place}: {}", e.message()));
        let checked = |result: Result<(), String>| {
            result.map_err(|error| PlatformError::new(format!("{place}: {error}")))
        };
        match kind.as_str() {
            Some("sdhci") => config.try_into().map(ControllerConfig::Sdhci).map_err(message),
            Some("rtsx") => {
                let config: RtsxConfig = config.try_into().map_err(message)?;
                checked(config.check())?;
                Ok(ControllerConfig::Rtsx(config))
            }
            Some("mshc") => {
                let config: MshcConfig = config.try_into().map_err(message)?;
                checked(config.check())?;
                Ok(ControllerConfig::Mshc(config))
            }
            Some("stm32-sdmmc") => {
                let config: Stm32SdmmcConfig = config.try_into().map_err(message)?;
                checked(config.check())?;
                Ok(ControllerConfig::Stm32Sdmmc(config))
            }
            _ => {
                let known = KINDS.map(|kind| format!("\"{kind}\"")).join(", ");
                Err(PlatformError::new(format!("{place}.kind: {kind}; expected {known}")))
            }
        }
    }
}
