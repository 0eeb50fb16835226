//! The table `[packed]` of an eMMC profile: its packed commands.

use serde::Deserialize;
use toml::Spanned;

use super::super::emmc::config::Revision;
use super::super::emmc::packed::PackedConfig;
use super::ProfileError;
use super::flash::{Intervals, Ranges};
use super::place::Place;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackedKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    /// Largest number of entries in a packed write (MAX_PACKED_WRITES).
    writes: Spanned<u8>,
    /// Largest number of entries in a packed read (MAX_PACKED_READS).
    reads: Spanned<u8>,
    /// Busy time in microseconds after each entry except the last, in addition to the time for its
    /// 4 KiB units. After the last entry the card takes `write_first_us`.
    entry_us: Spanned<f64>,
    /// Number of flash units that read the entries of a packed read in parallel.
    units: Spanned<u8>,
    /// Whether the card reports a failed entry by the bit EXCEPTION_EVENT alone.
    #[serde(default)]
    exception_alone: bool,
}

impl PackedKeys {
    /// Returns the error for a table `[packed]` in the profile of an SD card.
    pub(super) fn only_emmc(&self, place: &Place<'_>) -> ProfileError {
        place.value("writes", &self.writes, "a table [packed] only beside [emmc]")
    }
}

pub(super) fn config(
    place: &Place<'_>,
    keys: &PackedKeys,
    revision: Revision,
) -> Result<PackedConfig, ProfileError> {
    let within = |key: &str, value: &Spanned<u8>, least: u8| match *value.get_ref() {
        number if (least..=63).contains(&number) => Ok(number),
        _ => Err(place.value(key, value, &format!("a number from {least} to 63"))),
    };
    if revision < Revision::V4_5 {
        return Err(place.value("writes", &keys.writes, "packed commands only since `revision = \"4.5\"`"));
    }
    Ok(PackedConfig {
        writes: within("writes", &keys.writes, 0)?,
        reads: within("reads", &keys.reads, 0)?,
        entry_ns: place.us("entry_us", &keys.entry_us)?,
        units: within("units", &keys.units, 1)?,
        exception_alone: keys.exception_alone,
    })
}
