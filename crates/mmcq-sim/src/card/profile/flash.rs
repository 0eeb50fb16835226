//! The tables `[flash.read]`, `[flash.write]`, `[flash.cache]` and `[flash.erase]` of a card
//! profile. `spread.rs` has `[flash.spread]`.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

use super::super::flash::{Ahead, Cache, Close, Gc, Pages, Prefetch, Reopen, Scatter, Timing};
use super::ProfileError;
use super::place::Place;
use super::spread::{self, SpreadKeys};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;
/// Smallest size of the read-ahead buffer in a profile, in flash pages. A buffer of this size hides
/// the time in which the flash pipeline restarts.
const LEAST_AHEAD_PAGES: u64 = 4;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlashKeys {
    pub(super) read: Spanned<ReadKeys>,
    pub(super) write: Spanned<WriteKeys>,
    pub(super) cache: Option<Spanned<CacheKeys>>,
    pub(super) spread: Option<Spanned<SpreadKeys>>,
    pub(super) erase: EraseKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    read_first_us: Spanned<f64>,
    read_next_4k_us: Option<Spanned<f64>>,
    prefetch_kib: Option<Spanned<u64>>,
    prefetch_us: Option<Spanned<f64>>,
    prefetch_mib_s: Option<Spanned<f64>>,
    page_kib: Option<Spanned<u64>>,
    read_second_page_us: Option<Spanned<f64>>,
    read_gap_ns: Option<Spanned<f64>>,
    read_ahead_kib: Option<Spanned<u64>>,
    abort_us: Option<Spanned<f64>>,
    reads_ahead_when_counted: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    write_first_us: Option<Spanned<f64>>,
    write_next_4k_us: Option<Spanned<f64>>,
    cache_kib: Option<Spanned<u32>>,
    drain_mib_s: Option<Spanned<f64>>,
    buffer_kib: Option<Spanned<u32>>,
    program_kib: Option<Spanned<u32>>,
    scatter_us: Option<Spanned<f64>>,
    scatter_from_kib: Option<Spanned<u32>>,
    close_us: Option<Spanned<f64>>,
    reopen_us: Option<Spanned<f64>>,
    reopen_from_kib: Option<Spanned<u32>>,
    gc_run_kib: Option<Spanned<u32>>,
    gc_every_mib: Option<Spanned<f64>>,
    gc_ms: Option<Spanned<f64>>,
    pub(super) volatile_open_write: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    program_us: Spanned<f64>,
    flush_us: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EraseKeys {
    pub(super) source: String,
    #[serde(default, rename = "range")]
    _range: Ranges,
    #[serde(default, rename = "interval")]
    _interval: Intervals,
    erase_first_us: Spanned<f64>,
    erase_next_group_us: Spanned<f64>,
}

/// Table `range`: for each key, the least and the greatest value that the source allows. Programs
/// that vary the values use the table; the card model does not.
#[derive(Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, [f64; 2]>")]
pub(super) struct Ranges;

/// Table `interval`: for each key, the limits between which 95 % of the values of a fit lie. The
/// card model does not use it.
#[derive(Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, [f64; 2]>")]
pub(super) struct Intervals;

fn ordered(part: &str, all: &BTreeMap<String, [f64; 2]>) -> Result<(), String> {
    let wrong = all.iter().find(|(_, [least, most])| !(0.0 <= *least && least < most));
    match wrong {
        Some((key, ends)) => Err(format!("{part}.{key} = {ends:?}: expected the least and the most")),
        None => Ok(()),
    }
}

impl TryFrom<BTreeMap<String, [f64; 2]>> for Ranges {
    type Error = String;

    fn try_from(all: BTreeMap<String, [f64; 2]>) -> Result<Self, String> {
        ordered("range", &all).map(|()| Ranges)
    }
}

impl TryFrom<BTreeMap<String, [f64; 2]>> for Intervals {
    type Error = String;

    fn try_from(all: BTreeMap<String, [f64; 2]>) -> Result<Self, String> {
        ordered("interval", &all).map(|()| Intervals)
    }
}

impl Place<'_> {
    /// Returns an error if the key has a value. A caller uses this after it has found that the key
    /// is not allowed: another key is missing that it needs, or one is present that excludes it.
    /// `expected`: what is allowed, for the error's text.
    pub(super) fn only<T>(
        &self,
        key: &str,
        value: Option<&Spanned<T>>,
        expected: &str,
    ) -> Result<(), ProfileError> {
        value.map_or(Ok(()), |value| Err(self.value(key, value, expected)))
    }

    /// Returns the value of a key, or an error if this table does not have it.
    fn must<'v, T, U>(
        &self,
        table: &Spanned<U>,
        key: &str,
        value: Option<&'v Spanned<T>>,
    ) -> Result<&'v Spanned<T>, ProfileError> {
        value.ok_or_else(|| self.missing(table, key))
    }
}

/// Returns the flash times from the tables. `register_kib` is the cache size in the card's own
/// register, `None` if it has no such register.
pub(super) fn timing(
    place: &Place<'_>,
    keys: &FlashKeys,
    register_kib: Option<u32>,
) -> Result<Timing, ProfileError> {
    let (read, write) = (keys.read.get_ref(), keys.write.get_ref());
    let drain = write.drain_mib_s.as_ref();
    let drain_bytes_per_s = drain.map_or(Ok(0), |rate| bytes_per_s(place, "drain_mib_s", rate))?;
    let cache_bytes = cache_bytes(place, keys, register_kib)?;
    let pages = pages(place, read)?;
    let read_next_4k_ns = match pages {
        Some(_) => 0,
        None => {
            let time = place.must(&keys.read, "read_next_4k_us", read.read_next_4k_us.as_ref())?;
            place.us("read_next_4k_us", time)?
        }
    };
    let close = close(place, write, cache_bytes > 0 && drain_bytes_per_s > 0)?;
    let (write_first_ns, write_next_4k_ns) = match close {
        Some(_) => (0, 0),
        None => {
            let first = place.must(&keys.write, "write_first_us", write.write_first_us.as_ref())?;
            let next = place.must(&keys.write, "write_next_4k_us", write.write_next_4k_us.as_ref())?;
            (place.us("write_first_us", first)?, place.us("write_next_4k_us", next)?)
        }
    };
    let slow = Some(drain_bytes_per_s).filter(|rate| *rate > 0 && cache_bytes > 0 && close.is_none());
    Ok(Timing {
        read_first_ns: place.us("read_first_us", &read.read_first_us)?,
        read_next_4k_ns,
        prefetch: prefetch(place, read)?,
        pages,
        write_first_ns,
        write_next_4k_ns,
        cache_bytes,
        drain_bytes_per_s,
        program_bytes: program(place, write, cache_bytes > 0 && drain_bytes_per_s > 0)?,
        scatter: scatter(place, write)?,
        buffer_bytes: buffer_bytes(write),
        cache: cache(place, keys, cache_bytes > 0 && drain_bytes_per_s > 0)?,
        close,
        spread: spread::spread(place, keys.spread.as_ref(), slow)?,
        erase_first_ns: place.us("erase_first_us", &keys.erase.erase_first_us)?,
        erase_next_group_ns: place.us("erase_next_group_us", &keys.erase.erase_next_group_us)?,
    })
}

/// Returns the size of the cache in bytes. For a card with `[flash.cache]` it is the size in the
/// card's register, if it has such a register. If the register shows 0, the card has no cache, and
/// the size of the receive buffer counts.
fn cache_bytes(place: &Place<'_>, keys: &FlashKeys, register_kib: Option<u32>) -> Result<u64, ProfileError> {
    let given = keys.write.get_ref().cache_kib.as_ref();
    match (&keys.cache, register_kib, given) {
        (Some(_), Some(_), Some(size)) => {
            let expected = "not beside `[flash.cache]`: `cache_size_kib` of `[emmc]` is the size";
            Err(place.value("cache_kib", size, expected))
        }
        // In a card without a cache, the receive buffer drains into the flash.
        (Some(_), Some(0), None) => Ok(buffer_bytes(keys.write.get_ref())),
        (Some(_), Some(kib), None) => Ok(u64::from(kib) * KIB),
        _ => Ok(given.map_or(0, |size| u64::from(*size.get_ref()) * KIB)),
    }
}

fn buffer_bytes(keys: &WriteKeys) -> u64 {
    keys.buffer_kib.as_ref().map_or(0, |size| u64::from(*size.get_ref()) * KIB)
}

/// Returns the times of `[flash.cache]`; `None` if the profile does not have this table. `drains`
/// tells whether the profile has a cache of limited size and the rate at which it drains.
fn cache(place: &Place<'_>, keys: &FlashKeys, drains: bool) -> Result<Option<Cache>, ProfileError> {
    let Some(table) = &keys.cache else { return Ok(None) };
    let cache = table.get_ref();
    if !drains {
        let expected = "a cache with a size, and `drain_mib_s` in `[flash.write]`";
        return Err(place.value("program_us", &cache.program_us, expected));
    }
    let close_us = keys.write.get_ref().close_us.as_ref();
    place.only("close_us", close_us, "not beside `[flash.cache]`")?;
    Ok(Some(Cache {
        program_ns: place.us("program_us", &cache.program_us)?,
        flush_ns: place.us("flush_us", &cache.flush_us)?,
    }))
}

pub(super) fn bytes_per_s(place: &Place<'_>, key: &str, rate: &Spanned<f64>) -> Result<u64, ProfileError> {
    match *rate.get_ref() {
        mib if (0.001..=1e6).contains(&mib) => Ok((mib * MIB as f64).round() as u64),
        _ => Err(place.value(key, rate, "a rate from 0.001 to 1000000 MiB/s")),
    }
}

/// Returns the prefetching of the card; `None` if it does not prefetch.
fn prefetch(place: &Place<'_>, keys: &ReadKeys) -> Result<Option<Prefetch>, ProfileError> {
    let Some(size) = &keys.prefetch_kib else {
        let expected = "only beside `prefetch_kib`";
        place.only("prefetch_us", keys.prefetch_us.as_ref(), expected)?;
        place.only("prefetch_mib_s", keys.prefetch_mib_s.as_ref(), expected)?;
        return Ok(None);
    };
    if keys.page_kib.is_some() {
        return Err(place.value("prefetch_kib", size, "not beside `page_kib`"));
    }
    let (Some(hit), Some(rate)) = (&keys.prefetch_us, &keys.prefetch_mib_s) else {
        return Err(place.value("prefetch_kib", size, "`prefetch_us` and `prefetch_mib_s` beside it"));
    };
    match *size.get_ref() {
        kib if (4..=MIB).contains(&kib) => Ok(Some(Prefetch {
            bytes: kib * KIB,
            hit_ns: place.us("prefetch_us", hit)?,
            bytes_per_s: bytes_per_s(place, "prefetch_mib_s", rate)?,
        })),
        _ => Err(place.value("prefetch_kib", size, "at least 4, up to 1 GiB")),
    }
}

/// Returns the parameters of reads by page; `None` if the profile has no page size.
fn pages(place: &Place<'_>, keys: &ReadKeys) -> Result<Option<Pages>, ProfileError> {
    let Some(page_kib) = &keys.page_kib else {
        let expected = "only beside `page_kib`";
        place.only("read_second_page_us", keys.read_second_page_us.as_ref(), expected)?;
        place.only("read_gap_ns", keys.read_gap_ns.as_ref(), expected)?;
        place.only("read_ahead_kib", keys.read_ahead_kib.as_ref(), expected)?;
        place.only("abort_us", keys.abort_us.as_ref(), expected)?;
        place.only("reads_ahead_when_counted", keys.reads_ahead_when_counted.as_ref(), expected)?;
        return Ok(None);
    };
    place.only("read_next_4k_us", keys.read_next_4k_us.as_ref(), "not beside `page_kib`")?;
    let page = *page_kib.get_ref();
    if !page.is_power_of_two() || page > 1024 {
        return Err(place.value("page_kib", page_kib, "a power of two from 1 to 1024"));
    }
    Ok(Some(Pages {
        page_bytes: page * KIB,
        second_ns: time_or_0(place, "read_second_page_us", keys.read_second_page_us.as_ref(), 1e3)?,
        gap_ns: time_or_0(place, "read_gap_ns", keys.read_gap_ns.as_ref(), 1.0)?,
        ahead: ahead(place, keys, page)?,
    }))
}

fn ahead(place: &Place<'_>, keys: &ReadKeys, page_kib: u64) -> Result<Option<Ahead>, ProfileError> {
    let Some(size) = &keys.read_ahead_kib else {
        let expected = "only beside `read_ahead_kib`";
        place.only("abort_us", keys.abort_us.as_ref(), expected)?;
        place.only("reads_ahead_when_counted", keys.reads_ahead_when_counted.as_ref(), expected)?;
        return Ok(None);
    };
    let kib = *size.get_ref();
    if !kib.is_multiple_of(page_kib) || kib < LEAST_AHEAD_PAGES * page_kib || kib > MIB {
        let expected = format!("whole pages of {page_kib} KiB, at least {LEAST_AHEAD_PAGES}, up to 1 GiB");
        return Err(place.value("read_ahead_kib", size, &expected));
    }
    Ok(Some(Ahead {
        bytes: kib * KIB,
        abort_ns: time_or_0(place, "abort_us", keys.abort_us.as_ref(), 1e3)?,
        when_counted: keys.reads_ahead_when_counted.as_ref().is_some_and(|value| *value.get_ref()),
    }))
}

/// Returns the size in bytes of the flash page that is programmed as a whole; 0 if the profile has
/// none. `drains` tells whether the profile has a cache of limited size and the rate at which it
/// drains.
fn program(place: &Place<'_>, keys: &WriteKeys, drains: bool) -> Result<u64, ProfileError> {
    let Some(size) = &keys.program_kib else { return Ok(0) };
    let kib = *size.get_ref();
    if !kib.is_power_of_two() || !(4..=4096).contains(&kib) {
        return Err(place.value("program_kib", size, "a power of two from 4 to 4096"));
    }
    if !drains {
        return Err(place.value("program_kib", size, "`cache_kib` above 0 and `drain_mib_s` beside it"));
    }
    Ok(u64::from(kib) * KIB)
}

/// Returns the extra busy time of writes that do not continue the one before; `None` if the profile
/// has none.
fn scatter(place: &Place<'_>, keys: &WriteKeys) -> Result<Option<Scatter>, ProfileError> {
    match (&keys.scatter_us, &keys.scatter_from_kib) {
        (Some(time), Some(from)) => Ok(Some(Scatter {
            busy_ns: place.us("scatter_us", time)?,
            from_bytes: u64::from(*from.get_ref()) * KIB,
        })),
        (time, from) => {
            place.only("scatter_us", time.as_ref(), "`scatter_from_kib` beside it")?;
            place.only("scatter_from_kib", from.as_ref(), "`scatter_us` beside it")?;
            Ok(None)
        }
    }
}

/// Returns the times that the card needs at the end of a write command; `None` if the profile has
/// none. `drains` tells whether the profile has a cache of limited size and the rate at which it
/// drains.
fn close(place: &Place<'_>, keys: &WriteKeys, drains: bool) -> Result<Option<Close>, ProfileError> {
    let Some(close_us) = &keys.close_us else {
        let expected = "only beside `close_us`";
        place.only("reopen_us", keys.reopen_us.as_ref(), expected)?;
        place.only("reopen_from_kib", keys.reopen_from_kib.as_ref(), expected)?;
        place.only("gc_run_kib", keys.gc_run_kib.as_ref(), expected)?;
        place.only("gc_every_mib", keys.gc_every_mib.as_ref(), expected)?;
        place.only("gc_ms", keys.gc_ms.as_ref(), expected)?;
        place.only("volatile_open_write", keys.volatile_open_write.as_ref(), expected)?;
        return Ok(None);
    };
    let expected = "not beside `close_us`";
    place.only("write_first_us", keys.write_first_us.as_ref(), expected)?;
    place.only("write_next_4k_us", keys.write_next_4k_us.as_ref(), expected)?;
    place.only("buffer_kib", keys.buffer_kib.as_ref(), expected)?;
    place.only("program_kib", keys.program_kib.as_ref(), expected)?;
    if !drains {
        return Err(place.value("close_us", close_us, "`cache_kib` above 0 and `drain_mib_s` beside it"));
    }
    let reopen = match (&keys.reopen_us, &keys.reopen_from_kib) {
        (None, None) => None,
        (Some(time), Some(from)) => Some(Reopen {
            reopen_ns: place.us("reopen_us", time)?,
            from_bytes: u64::from(*from.get_ref()) * KIB,
        }),
        (time, from) => {
            place.only("reopen_us", time.as_ref(), "`reopen_from_kib` beside it")?;
            place.only("reopen_from_kib", from.as_ref(), "`reopen_us` beside it")?;
            None
        }
    };
    let gc = match (&keys.gc_run_kib, &keys.gc_every_mib, &keys.gc_ms) {
        (None, None, None) => None,
        (Some(run), Some(every), Some(time)) => Some(Gc {
            run_bytes: u64::from(*run.get_ref()) * KIB,
            every_bytes: match *every.get_ref() {
                mib if (0.01..=1e6).contains(&mib) => (mib * MIB as f64).round() as u64,
                _ => return Err(place.value("gc_every_mib", every, "a size from 0.01 to 1000000 MiB")),
            },
            stall_ns: place.ms("gc_ms", time)?,
        }),
        (run, every, time) => {
            let expected = "all of `gc_run_kib`, `gc_every_mib` and `gc_ms`";
            place.only("gc_run_kib", run.as_ref(), expected)?;
            place.only("gc_every_mib", every.as_ref(), expected)?;
            place.only("gc_ms", time.as_ref(), expected)?;
            None
        }
    };
    Ok(Some(Close {
        close_ns: place.us("close_us", close_us)?,
        reopen,
        gc,
        volatile: keys.volatile_open_write.as_ref().is_some_and(|value| *value.get_ref()),
    }))
}

fn time_or_0(
    place: &Place<'_>,
    key: &str,
    value: Option<&Spanned<f64>>,
    ns_per_unit: f64,
) -> Result<u64, ProfileError> {
    value.map_or(Ok(0), |value| place.ns(key, value, ns_per_unit))
}
