//! The setting `driver.continue_data` of a board's file: which transfers stay open after their
//! data, so that the next request can continue them without a new command.

use super::{ControllerConfig, PlatformError, error};
use mmcq_sim::mshc::Layout;
use toml::Value;

/// Which transfers the host driver leaves open after their request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// The driver leaves no transfer open: each ends with its request.
    No,
    /// The driver leaves reads and writes open in the best way for the controller:
    ///
    /// - On an SDHCI, a read stays open because SDMA stops at a boundary.
    /// - On DesignWare's controller, a read stays open because the DMA uses its descriptors again
    ///   and again (a ring).
    /// - On both, an open write continues with a CMD13 to which the driver attaches the next data
    ///   (a carrier). By the standard CMD13 has no data; the card takes these as the next data of
    ///   its open CMD25.
    /// - On ST's SDMMC only writes stay open.
    Yes,
    /// The driver leaves only reads open, not writes.
    Reads,
    /// On an SDHCI, the driver leaves reads and writes open: it does not end the transfer after a
    /// request's last block, so that the next request can continue it. A write waits in a stop of
    /// SDMA at a block gap.
    Gap,
}

impl Continue {
    pub(super) fn read(
        place: &str,
        value: &Value,
        controller: &ControllerConfig,
    ) -> Result<Self, PlatformError> {
        match value {
            Value::Boolean(false) => Ok(Continue::No),
            Value::Boolean(true) => Ok(Continue::Yes),
            Value::String(word) if word == "reads" => Ok(Continue::Reads),
            Value::String(word)
                if word == "gap"
                    && !matches!(controller, ControllerConfig::Mshc(_) | ControllerConfig::Stm32Sdmmc(_)) =>
            {
                Ok(Continue::Gap)
            }
            other => Err(error(place, other, "true, false, \"reads\", or on an SDHCI \"gap\"")),
        }
    }
}

impl ControllerConfig {
    /// Returns whether the driver of this controller may leave transfers open: a later request then
    /// continues the CMD18 or CMD25. `told`: the setting for this in the board's file; `None`: the
    /// file has none.
    pub(super) fn continues_data(&self, told: Option<Continue>) -> bool {
        match self {
            ControllerConfig::Rtsx(_) => true,
            ControllerConfig::Stm32Sdmmc(config) => config.data_end_after_busy && told == Some(Continue::Yes),
            ControllerConfig::Mshc(config) if config.layout == Layout::Smhc => false,
            ControllerConfig::Sdhci(_) | ControllerConfig::Mshc(_) => {
                told.is_some_and(|told| told != Continue::No)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Continue;
    use crate::platform::Platform;

    #[test]
    fn sts_board_leaves_writes_open_when_it_is_told_so() {
        let told = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
            Platform::load_with("stm32h7-sdmmc", &changes).unwrap().leaves_open()
        };
        let busy = "controller.data_end_after_busy=true";
        assert!(told(&[busy, "driver.continue_data=true"]));
        assert!(!told(&[busy]) && !told(&[busy, "driver.continue_data=\"reads\""]));
        // The board as it is ends a write before the card's busy.
        assert!(!told(&["driver.continue_data=true"]));
    }

    #[test]
    fn designwares_board_leaves_transfers_open_when_it_is_told_so() {
        let told = |value: &str| {
            Platform::load_with("mshc-pci", &[format!("driver.continue_data={value}")])
                .map(|board| (board.continue_data, board.leaves_open()))
        };
        assert_eq!(told("true").unwrap(), (Some(Continue::Yes), true));
        assert_eq!(told("\"reads\"").unwrap(), (Some(Continue::Reads), true));
        assert_eq!(told("false").unwrap(), (Some(Continue::No), false));
        assert!(!Platform::load("mshc-pci").unwrap().leaves_open());
        let error = told("\"gap\"").unwrap_err().to_string();
        assert!(error.contains("driver.continue_data") && error.contains("on an SDHCI"), "{error}");
    }
}
