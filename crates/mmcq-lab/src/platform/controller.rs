//! What a platform's file says of its controller.

use super::PlatformError;
use mmcq_sim::mshc::{Layout, MshcConfig};
use mmcq_sim::rtsx::RtsxConfig;
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;
use toml::{Table, Value};

/// Names of the kinds, as `controller.kind` in a platform's file.
const KINDS: [&str; 4] = ["sdhci", "rtsx", "mshc", "stm32-sdmmc"];

/// Capabilities 1 of an SDHCI: ADMA3.
const ADMA3: u32 = 1 << 27;

/// What a platform's file says of its controller.
#[derive(Clone, Copy, Debug)]
pub enum ControllerConfig {
    /// `kind = "sdhci"`, and if no kind is given.
    Sdhci(SdhciConfig),
    /// `kind = "rtsx"`.
    Rtsx(RtsxConfig),
    /// `kind = "mshc"`: Allwinner's or DesignWare's.
    Mshc(MshcConfig),
    /// `kind = "stm32-sdmmc"`: ST's SDMMC.
    Stm32Sdmmc(Stm32SdmmcConfig),
}

impl ControllerConfig {
    /// The kind as a file has it.
    pub fn kind(&self) -> &'static str {
        match self {
            ControllerConfig::Sdhci(_) => KINDS[0],
            ControllerConfig::Rtsx(_) => KINDS[1],
            ControllerConfig::Mshc(_) => KINDS[2],
            ControllerConfig::Stm32Sdmmc(_) => KINDS[3],
        }
    }

    /// It has an engine for the command queue of a card.
    pub fn has_queue_engine(&self) -> bool {
        matches!(self, ControllerConfig::Sdhci(config) if config.command_queue.is_some())
    }

    /// It executes chains of transfers.
    pub fn executes_chains(&self) -> bool {
        matches!(self, ControllerConfig::Sdhci(config) if config.capabilities1 & ADMA3 != 0)
    }

    /// Linux's driver for it looks at DAT0 before a transfer, and does not begin one while the card is
    /// busy. That of an SMHC does not look: the controller waits.
    pub fn linux_looks(&self) -> bool {
        !matches!(self, ControllerConfig::Mshc(config) if config.layout == Layout::Smhc)
    }

    /// Reads the section `[controller]`; `place` names it in errors.
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
