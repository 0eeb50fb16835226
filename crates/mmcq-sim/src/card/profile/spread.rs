//! The table `[flash.spread]` of a card profile: times that vary from command to command.

use serde::Deserialize;
use toml::Spanned;

use super::super::flash::{Delays, Slc, Spread, WHOLE};
use super::ProfileError;
use super::flash::{Intervals, Ranges, bytes_per_s};
use super::place::Place;

const MIB: f64 = 1_048_576.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpreadKeys {
    #[serde(default = "unnamed")]
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    seed: Option<u64>,
    read_retry_share: Option<Spanned<f64>>,
    read_retry_us: Option<Spanned<f64>>,
    read_retry_again: Option<Spanned<f64>>,
    gc_share: Option<Spanned<f64>>,
    gc_stall_ms: Option<Spanned<f64>>,
    gc_again: Option<Spanned<f64>>,
    slc_mib: Option<Spanned<f64>>,
    slc_mib_s: Option<Spanned<f64>>,
    slc_free_mib_s: Option<Spanned<f64>>,
}

/// Returns the text that stands for a missing `source`: programs that change single values may
/// create a table without a source.
fn unnamed() -> String {
    "prior: no source is named".to_owned()
}

/// Names of the three keys that describe one kind of delay, and the unit of its time.
struct Names {
    share: &'static str,
    each: &'static str,
    again: &'static str,
    ns_per_unit: f64,
}

const RETRIES: Names =
    Names { share: "read_retry_share", each: "read_retry_us", again: "read_retry_again", ns_per_unit: 1e3 };
const COLLECTIONS: Names =
    Names { share: "gc_share", each: "gc_stall_ms", again: "gc_again", ns_per_unit: 1e6 };

/// Values of the three keys that describe one kind of delay; `None`: the key is absent.
type Given<'a> = [Option<&'a Spanned<f64>>; 3];

/// Returns the content of the table `[flash.spread]`; `None` if the profile does not have it.
/// `slow` is the rate in bytes per second at which the write cache drains into the flash. It is
/// `None` if the cache has no size or no rate, or if the profile has `close_us`.
pub(super) fn spread(
    place: &Place<'_>,
    table: Option<&Spanned<SpreadKeys>>,
    slow: Option<u64>,
) -> Result<Option<Spread>, ProfileError> {
    let Some(table) = table else { return Ok(None) };
    let keys = table.get_ref();
    let retries =
        [keys.read_retry_share.as_ref(), keys.read_retry_us.as_ref(), keys.read_retry_again.as_ref()];
    let collections = [keys.gc_share.as_ref(), keys.gc_stall_ms.as_ref(), keys.gc_again.as_ref()];
    Ok(Some(Spread {
        seed: keys.seed.unwrap_or(1),
        retries: delays(place, &RETRIES, retries)?,
        collections: delays(place, &COLLECTIONS, collections)?,
        slc: slc(place, keys, slow)?,
    }))
}

fn delays(place: &Place<'_>, names: &Names, given: Given<'_>) -> Result<Option<Delays>, ProfileError> {
    match given {
        [Some(share), Some(each), again] => Ok(Some(Delays {
            share: part(place, names.share, share, 1.0)?,
            each_ns: place.ns(names.each, each, names.ns_per_unit)?,
            again: again.map_or(Ok(0), |again| part(place, names.again, again, 0.99))?,
        })),
        [share, each, again] => {
            let expected = |other: &str| format!("`{other}` beside it");
            place.only(names.share, share, &expected(names.each))?;
            place.only(names.each, each, &expected(names.share))?;
            place.only(names.again, again, &expected(names.share))?;
            Ok(None)
        }
    }
}

/// Returns a share or a probability of the profile in parts of [`WHOLE`]; `most` is its largest
/// value.
fn part(place: &Place<'_>, key: &str, value: &Spanned<f64>, most: f64) -> Result<u32, ProfileError> {
    match *value.get_ref() {
        part if (0.0..=most).contains(&part) => Ok((part * f64::from(WHOLE)).round() as u32),
        _ => Err(place.value(key, value, &format!("a share from 0 to {most}"))),
    }
}

/// Returns an error if the SLC cache in `table` is not smaller than the capacity of the card.
pub(super) fn check_size(
    place: &Place<'_>,
    table: Option<&Spanned<SpreadKeys>>,
    capacity_bytes: u64,
) -> Result<(), ProfileError> {
    let size = table.and_then(|table| table.get_ref().slc_mib.as_ref());
    match size {
        Some(size) if size.get_ref() * MIB >= capacity_bytes as f64 => {
            Err(place.value("slc_mib", size, "a size below the card's capacity"))
        }
        _ => Ok(()),
    }
}

fn slc(place: &Place<'_>, keys: &SpreadKeys, slow: Option<u64>) -> Result<Option<Slc>, ProfileError> {
    let (size, rate) = match (&keys.slc_mib, &keys.slc_mib_s) {
        (Some(size), Some(rate)) => (size, rate),
        (size, rate) => {
            place.only("slc_mib", size.as_ref(), "`slc_mib_s` beside it")?;
            place.only("slc_mib_s", rate.as_ref(), "`slc_mib` beside it")?;
            place.only("slc_free_mib_s", keys.slc_free_mib_s.as_ref(), "`slc_mib` beside it")?;
            return Ok(None);
        }
    };
    let Some(slow) = slow else {
        let expected = "a cache with a size, and `drain_mib_s` in `[flash.write]`, without `close_us`";
        return Err(place.value("slc_mib", size, expected));
    };
    let bytes = match *size.get_ref() {
        mib if (0.01..=1e6).contains(&mib) => (mib * MIB).round() as u64,
        _ => return Err(place.value("slc_mib", size, "a size from 0.01 to 1000000 MiB")),
    };
    let fast = bytes_per_s(place, "slc_mib_s", rate)?;
    if fast <= slow {
        let expected = "a rate above `drain_mib_s`, which is the one after the cliff";
        return Err(place.value("slc_mib_s", rate, expected));
    }
    let free = keys.slc_free_mib_s.as_ref();
    let free_bytes_per_s = free.map_or(Ok(0), |rate| bytes_per_s(place, "slc_free_mib_s", rate))?;
    Ok(Some(Slc { bytes, bytes_per_s: fast, free_bytes_per_s }))
}
