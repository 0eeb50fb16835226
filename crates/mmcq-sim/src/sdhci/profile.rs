//! Profiles of controllers that violate the standard in a known way. Each has the mistake of the
//! model, and the quirk by which the board tells the driver about the mistake.

use super::SdhciConfig;
use crate::document;
use mmcq::host::Width;
use mmcq::host::sdhci::{self as driver, SdhciQuirks, TransferMode};
use serde::Deserialize;

/// Name and TOML text of the built-in profiles: controllers that deviate from the standard in 14
/// ways, one or two profiles for each.
pub const PROFILES: [(&str, &str); 16] = [
    ("no-busy-interrupt", include_str!("../../controllers/no-busy-interrupt.toml")),
    ("broken-timeout", include_str!("../../controllers/broken-timeout.toml")),
    ("broken-adma", include_str!("../../controllers/broken-adma.toml")),
    ("broken-64-bit", include_str!("../../controllers/broken-64-bit.toml")),
    ("zero-length-descriptor", include_str!("../../controllers/zero-length-descriptor.toml")),
    ("32-bit-only", include_str!("../../controllers/32-bit-only.toml")),
    ("reset-on-ios", include_str!("../../controllers/reset-on-ios.toml")),
    ("pio-delay", include_str!("../../controllers/pio-delay.toml")),
    ("no-cmd23", include_str!("../../controllers/no-cmd23.toml")),
    ("auto-cmd23-broken", include_str!("../../controllers/auto-cmd23-broken.toml")),
    ("stop-with-tc", include_str!("../../controllers/stop-with-tc.toml")),
    ("no-hispd-bit", include_str!("../../controllers/no-hispd-bit.toml")),
    ("no-capabilities", include_str!("../../controllers/no-capabilities.toml")),
    ("preset-broken", include_str!("../../controllers/preset-broken.toml")),
    ("1-bit-only", include_str!("../../controllers/1-bit-only.toml")),
    ("clock-before-reset", include_str!("../../controllers/clock-before-reset.toml")),
];

/// A profile: a controller, and the settings that its board gives to the driver.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Description of the profile, one line.
    pub description: String,
    /// Name of a card with which the quirk shows.
    pub card: String,
    /// Parameters of the controller model.
    pub controller: SdhciConfig,
    /// Settings that the board gives to the driver.
    pub driver: driver::SdhciConfig,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    card: String,
    #[serde(default)]
    controller: SdhciConfig,
    #[serde(default)]
    driver: Driver,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Driver {
    quirks: Vec<String>,
    width: Option<u8>,
    transfer: Option<String>,
    capabilities: Option<u64>,
}

impl Profile {
    /// Returns the built-in profile with this name; `None` for another name.
    pub fn named(name: &str) -> Option<Result<Profile, String>> {
        let (_, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
        Some(Self::from_toml(text, name))
    }

    /// Parses a profile from TOML; `name` is the file's name in errors. `Err` is one line with the
    /// key, the value and what was expected.
    pub fn from_toml(text: &str, name: &str) -> Result<Profile, String> {
        let file: File = document::read(text).map_err(|error| {
            let line = error.line(text);
            format!("host profile {name}: line {line}: {error}")
        })?;
        let place = |key: &str| format!("host profile {name}: driver.{key}");
        file.controller.check().map_err(|error| format!("host profile {name}: {error}"))?;
        let mut driver = driver::SdhciConfig::new().fixed(file.controller.fixed);
        for quirk in &file.driver.quirks {
            let known = SdhciQuirks::named(quirk).ok_or_else(|| {
                let names: Vec<_> = SdhciQuirks::names().collect();
                format!("{} = {quirk}: expected one of: {}", place("quirks"), names.join(", "))
            })?;
            driver.quirks = driver.quirks.with(known);
        }
        driver.width = match file.driver.width {
            None | Some(8) => Width::W8,
            Some(4) => Width::W4,
            Some(1) => Width::W1,
            Some(other) => return Err(format!("{} = {other}: expected 1, 4 or 8", place("width"))),
        };
        driver.transfer = match file.driver.transfer.as_deref() {
            None | Some("auto") => TransferMode::Auto,
            Some("adma2") => TransferMode::Adma2,
            Some("sdma") => TransferMode::Sdma,
            Some("pio") => TransferMode::Pio,
            Some(other) => {
                return Err(format!("{} = {other}: expected auto, adma2, sdma or pio", place("transfer")));
            }
        };
        driver.capabilities = file.driver.capabilities;
        Ok(Profile {
            name: name.to_owned(),
            description: file.description,
            card: file.card,
            controller: file.controller,
            driver,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_reads_and_departs_from_the_standard() {
        for (name, _) in PROFILES {
            let profile = Profile::named(name).unwrap().unwrap();
            assert_ne!(profile.controller, SdhciConfig::GENERIC_4_20, "{name}");
        }
        assert!(Profile::named("perfect").is_none());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let head = "description = \"d\"\ncard = \"c\"\n";
        for (text, expected) in [
            ("[driver]\nquirks = [\"slow\"]", "driver.quirks = slow: expected one of: no-busy-irq"),
            ("[driver]\nwidth = 2", "driver.width = 2: expected 1, 4 or 8"),
            ("[driver]\ntransfer = \"adma3\"", "driver.transfer = adma3: expected auto, adma2"),
            ("[controller]\nspek = 4", "line 4: unknown field `spek`"),
            ("[controller]\nspec = 9", "spec"),
        ] {
            let error = Profile::from_toml(&format!("{head}{text}"), "x").unwrap_err();
            assert!(error.contains(expected) && error.starts_with("host profile x: "), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
