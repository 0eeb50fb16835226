//! Extension registers of SD cards: cache and power-off notification [SD 5.7, 5.8].
//!
//! The general information (function 0) lists the card's sets of registers. The power management
//! set has code 1, the performance set code 2. The addresses and lengths come from the card, so
//! each is checked against the page before its use.

use super::link::Queued;
use super::quirk::Quirks;
use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{BLOCK_BYTES, Breach, CardParams, DmaBuf, Error, FlushBy};
use crate::spec::command::sd::{self, Extension};
use crate::spec::scr::Scr;
use crate::spec::timing::sd as limits;
use crate::task::{Platform, Stack};

/// Standard function code of the power management set [SD 5.8]; the next constant is the code of
/// the performance set.
const POWER: u16 = 1;
const PERFORMANCE: u16 = 2;
/// Largest number of register sets in the general information: as many as fit on its page.
const SETS_MAX: usize = 8;
/// Offset in the performance set: bit 0 of this byte enables the cache.
const CACHE_ENABLE: u16 = 260;
/// Offset in the performance set: bit 0 of this byte starts a flush.
const CACHE_FLUSH: u16 = 261;
/// Offset in the power management set: bit 0 of this byte notifies the card of power-off.
const POWER_OFF: u16 = 2;
/// Offset in the power management set: bit 0 of this byte shows that the card is ready for
/// power-off.
const POWER_OFF_READY: u16 = 1;
/// Time between two polls for a card that is ready for power-off, in nanoseconds.
const ASK_NS: u64 = 1_000_000;

/// Properties of a card that its extension registers declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extensions {
    /// Address of the performance set; `None` if the card has none.
    pub performance: Option<Extension>,
    /// Whether the card has a cache.
    pub cache: bool,
    /// Number of tasks in the card's command queue; 0 if it has none.
    pub queue_depth: u8,
    /// Address of the extension register set for power management; `None` if the card has none.
    pub power: Option<Extension>,
    /// Whether the card requests a power-off notification.
    pub power_off: bool,
}

/// Returns the little-endian number in the `B` bytes from offset `at` of the general information
/// on; 0 beyond the page.
fn number<const B: usize>(page: &[u8; 512], at: usize) -> u64 {
    let bytes = page.get(at..at.saturating_add(B)).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Returns the register sets that are listed in the general information page: code and address of
/// each. Reads at most eight entries of the list, and stops at an entry outside of the page.
fn sets(page: &[u8; 512]) -> impl Iterator<Item = (u16, Extension)> + '_ {
    let known = number::<2>(page, 0) == 0;
    let count = (number::<1>(page, 4) as usize).min(SETS_MAX);
    let mut at = 16usize;
    (0..if known { count } else { 0 }).filter_map(move |_| {
        let here = at;
        if here < 16 || here + 48 > 512 {
            return None;
        }
        at = number::<2>(page, here + 40) as usize;
        let code = number::<2>(page, here) as u16;
        let registers = number::<1>(page, here + 42);
        let place = number::<4>(page, here + 44);
        let function = (place >> 18 & 0xf) as u8;
        // Only sets with at least one address count; function 0 is the list itself.
        (registers >= 1 && function != 0).then_some((
            code,
            Extension {
                io: false,
                function,
                page: (place >> 9 & 0xff) as u8,
                offset: (place & 0x1ff) as u16,
            },
        ))
    })
}

/// Returns the address of byte `at` of a register set; `None` if the byte is not on the set's page.
const fn byte_of(set: Extension, at: u16) -> Option<Extension> {
    let offset = set.offset + at;
    if offset < 512 { Some(Extension { offset, ..set }) } else { None }
}

/// Reads the card's properties from its extension registers; all are absent if it has no such
/// registers.
pub async fn extensions<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<Extensions, Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    let result = read(&mut session, card).await.map_err(|Failed| session.error);
    (result, session.into_scratch())
}

pub(super) async fn read<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
) -> Result<Extensions, Failed> {
    let mut found = Extensions::default();
    let Family::Sd(known) = &card.family else { return Ok(found) };
    if !Scr::parse(&known.scr).is_ok_and(|scr| scr.cmd48) {
        return Ok(found);
    }
    session.register(sd::read_extr_single(Extension::default(), 512), false, 512).await?;
    for (code, place) in sets(session.bytes()?) {
        match code {
            POWER if found.power.is_none() => found.power = Some(place),
            PERFORMANCE if found.performance.is_none() => found.performance = Some(place),
            _ => {}
        }
    }
    let quirks = card.params.quirks;
    if let Some(place) = found.power {
        found.power_off =
            ability(session, place, 1).await? & 1 << 4 != 0 && !quirks.has(Quirks::NO_SD_POWER_OFF);
    }
    if let Some(place) = found.performance {
        found.cache = ability(session, place, 4).await? & 1 != 0 && !quirks.has(Quirks::NO_SD_CACHE);
        // The code 1 stands for a queue of two tasks [SD 5.8.2].
        let depth = match ability(session, place, 6).await? & 0x1f {
            0 => 0,
            more => more + 1,
        };
        found.queue_depth = if quirks.has(Quirks::NO_SD_QUEUE) { 0 } else { depth };
    }
    Ok(found)
}

/// Reads byte `at` of a register set; returns 0 if the byte does not exist.
async fn ability<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    set: Extension,
    at: u16,
) -> Result<u8, Failed> {
    let Some(place) = byte_of(set, at) else { return Ok(0) };
    session.register(sd::read_extr_single(place, 1), false, 512).await?;
    Ok(session.bytes::<1>()?[0])
}

/// Writes one byte of a register set, and waits for the end of busy.
pub(super) async fn write<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    place: Extension,
    value: u8,
) -> Result<(), Failed> {
    session.write_page(sd::write_extr_single(place, 1), value, limits::EXTENSION_WRITE_NS).await?;
    session.wait_ready(limits::EXTENSION_WRITE_NS).await
}

/// Enables the write cache of an SD card. Call it before other code uses the card. The engine keeps
/// `page` (512 bytes) to flush the cache, and returns the page that it had before (an empty one if
/// it had none). If the card has no working cache ([`Error::Unsupported`]), or refuses, `page`
/// itself is returned. After another error, or if this call is dropped, the cache may be enabled
/// nevertheless: then each flush fails until a call has succeeded. [`Error::Full`]: the engine uses
/// its earlier page at this moment; call again later. [`Error::Changed`]: `card` is no longer in
/// the slot.
///
/// Do not call it for a card that may be removed at any moment: with the cache on, only a flush or
/// a durable write makes data durable. If [`supervise`](super::supervise) has to initialise the
/// card again, it enables the cache again.
pub async fn enable_cache<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    page: DmaBuf,
) -> Result<DmaBuf, (Error, DmaBuf)> {
    let given = page.len_bytes();
    if given < BLOCK_BYTES {
        return Err((Error::Buffer { needed: BLOCK_BYTES, given }, page));
    }
    let mut session = Session::with(stack, page, card);
    let result = switch_on(&mut session, card).await.map_err(|Failed| session.error);
    let number = session.card;
    let page = session.into_scratch();
    match result {
        Ok(()) => stack.with(|engine| {
            engine.enable_extended_ops();
            if !engine.is_meant(number) {
                return Err((Error::Changed, page));
            }
            engine.set_page(page).map_err(|page| (Error::Full, page))
        }),
        Err(error) => Err((error, page)),
    }
}

async fn switch_on<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
) -> Result<(), Failed> {
    let found = read(session, card).await?;
    let set = found.performance.filter(|_| found.cache);
    let Some(at) = set.and_then(|set| byte_of(set, CACHE_FLUSH)) else {
        return session.fail(Error::Unsupported);
    };
    // The engine learns how to flush before the cache is enabled. If this call is dropped in
    // between, a flush without a page fails, instead of reporting success wrongly.
    let before = flushed_by(session, FlushBy::SdCache { at, timeout_ns: limits::FLUSH_NS });
    match cache_on(session, at).await {
        Cache::On => Ok(()),
        Cache::Unknown => Err(Failed),
        Cache::Off => {
            flushed_by(session, before);
            Err(Failed)
        }
    }
}

/// Sets how the engine flushes the card, and returns the earlier setting.
fn flushed_by<B: Platform, const N: usize>(session: &Queued<'_, B, N>, flush: FlushBy) -> FlushBy {
    session.link.with(|engine| {
        let target = engine.card_params().copied().filter(|_| engine.is_meant(session.card));
        let Some(target) = target else { return FlushBy::Status };
        engine.set_card_params(Some(CardParams { flush, ..target }));
        target.flush
    })
}

/// The result of enabling a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// The card reports that the cache is enabled.
    On,
    /// The card reports that the cache is disabled. The bring-up session has stored the error.
    Off,
    /// The card has not reported the state; the session has the error. Flush the cache as if it
    /// were enabled.
    Unknown,
}

/// Largest number of reads that ask a card whether its cache is enabled.
const QUESTIONS: u32 = 3;

/// Enables the cache that the register `flush` flushes. After any failure, reads from the card
/// whether the cache is enabled.
pub(super) async fn cache_on<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    flush: Extension,
) -> Cache {
    let enable = Extension { offset: flush.offset.saturating_sub(CACHE_FLUSH - CACHE_ENABLE), ..flush };
    let error = write(session, enable, 1).await.err().map(|Failed| session.error);
    let mut cache = Cache::Unknown;
    for _ in 0..QUESTIONS {
        let read = session.register(sd::read_extr_single(enable, 1), false, 512).await.is_ok();
        if read && let Ok(&[byte]) = session.bytes::<1>() {
            cache = if byte & 1 != 0 { Cache::On } else { Cache::Off };
            break;
        }
    }
    match (cache, error) {
        (Cache::Off, None) => session.error = Error::Protocol(Breach::CacheStaysOff),
        (_, Some(error)) => session.error = error,
        _ => {}
    }
    cache
}

/// Notifies an SD card of power-off, and waits until the card is ready for it. Returns false if the
/// card requests no notification.
pub(super) async fn notify_power_off<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
) -> Result<bool, Failed> {
    let found = read(session, card).await?;
    let set = found.power.filter(|_| found.power_off);
    let places = set.and_then(|set| Some((byte_of(set, POWER_OFF)?, byte_of(set, POWER_OFF_READY)?)));
    let Some((notify, ready)) = places else { return Ok(false) };
    write(session, notify, 1).await?;
    for _ in 0..=limits::EXTENSION_WRITE_NS / ASK_NS {
        session.register(sd::read_extr_single(ready, 1), false, 512).await?;
        if session.bytes::<1>()?[0] & 1 != 0 {
            return Ok(true);
        }
        session.pause(ASK_NS).await?;
    }
    session.refuse(Breach::PowerOffNever)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn page(entries: &[(u16, u16, u8, u32)]) -> [u8; 512] {
        let mut page = [0; 512];
        page[4] = entries.len() as u8;
        let mut at = 16usize;
        for &(code, next, count, place) in entries {
            page[at..at + 2].copy_from_slice(&code.to_le_bytes());
            page[at + 40..at + 42].copy_from_slice(&next.to_le_bytes());
            page[at + 42] = count;
            page[at + 44..at + 48].copy_from_slice(&place.to_le_bytes());
            at = next as usize;
        }
        page
    }

    #[test]
    fn both_sets_are_found() {
        let page = page(&[(2, 64, 1, 2 << 18), (1, 0, 1, 1 << 18 | 3 << 9 | 4)]);
        let found: Vec<_> = sets(&page).collect();
        let performance = Extension { function: 2, ..Extension::default() };
        let power = Extension { function: 1, page: 3, offset: 4, io: false };
        assert_eq!(found, [(2, performance), (1, power)]);
    }

    #[test]
    fn an_unknown_structure_is_left_alone() {
        let mut page = page(&[(2, 0, 1, 2 << 18)]);
        page[0] = 1;
        assert_eq!(sets(&page).count(), 0);
    }

    #[test]
    fn any_list_ends_and_stays_on_its_page() {
        crate::fuzz::fuzz("any_list_ends_and_stays_on_its_page", 200, |u| {
            let mut page = [0; 512];
            u.fill_buffer(&mut page)?;
            page[0] = 0;
            page[1] = 0;
            for (_, place) in sets(&page) {
                assert!(place.function < 16 && place.offset < 512 && place.function != 0);
                assert!(byte_of(place, CACHE_FLUSH).is_none_or(|at| at.offset < 512));
            }
            assert!(sets(&page).count() <= SETS_MAX);
            Ok(())
        });
    }
}
