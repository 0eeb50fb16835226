//! Maintenance of an eMMC: health, background operations, sanitize [eMMC 6.6.13, 6.6.25, 7.4].

use super::session::{Failed, Session};
use super::{Card, Family};
use crate::engine::{DmaBuf, Error, Irreversible, Kind, Request};
use crate::spec::command::emmc;
use crate::spec::ext_csd::{ExtCsd, LifeTime, PreEol, index};
use crate::task::{Platform, Stack};

/// Wear of a card, as the card reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Share of the spare blocks that the card has used up.
    pub pre_eol: PreEol,
    /// Wear of type A memory (usually the faster one).
    pub life_a: LifeTime,
    /// Wear of type B memory (usually the larger one).
    pub life_b: LifeTime,
    /// Firmware version, in the manufacturer's coding.
    pub firmware: u64,
    /// The manufacturer's own health report.
    pub vendor: [u8; 32],
}

/// Urgency of background operations [eMMC 7.4.60].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Background operations are not needed.
    None,
    /// Background operations are needed, but not urgent.
    Some,
    /// Background operations are urgent: performance already suffers.
    Impacted,
    /// Background operations are critical: the next write may take long.
    Critical,
}

impl Urgency {
    pub(super) const fn of(ext: &ExtCsd<'_>) -> Urgency {
        match ext.bkops_status() & 3 {
            0 => Urgency::None,
            1 => Urgency::Some,
            2 => Urgency::Impacted,
            _ => Urgency::Critical,
        }
    }
}

/// Longest time of background operations that the host has started, in nanoseconds; the standard
/// has no limit.
pub(super) const BKOPS_NS: u64 = 240_000_000_000;
/// Time limit of a sanitize, in nanoseconds: the stack gives up after it.
const SANITIZE_NS: u64 = 900_000_000_000;

async fn ext_csd<B: Platform, const N: usize, R>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    read: impl FnOnce(&ExtCsd<'_>) -> R,
) -> (Result<R, Error>, DmaBuf) {
    if !matches!(card.family, Family::Emmc(_)) {
        return (Err(Error::Unsupported), scratch);
    }
    let mut session = Session::with(stack, scratch, card);
    let result = match session.register(emmc::send_ext_csd(), false, 512).await {
        Ok(_) => session.bytes().map(|bytes| ExtCsd::parse(bytes).map(|ext| read(&ext))),
        Err(Failed) => Err(Failed),
    };
    let result = match result {
        Ok(parsed) => parsed.map_err(Error::from),
        Err(Failed) => Err(session.error),
    };
    (result, session.into_scratch())
}

/// Reads an eMMC's register EXT_CSD into `scratch` (512 bytes), for a caller that needs the whole
/// register, such as a report. Returns [`Error::Unsupported`] for SD cards, which have no such
/// register.
pub async fn read_ext_csd<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<(), Error>, DmaBuf) {
    ext_csd(stack, card, scratch, |_| ()).await
}

/// Reads an eMMC's health report. Returns [`Error::Unsupported`] for SD cards, which have no
/// standard health report.
pub async fn health<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<Health, Error>, DmaBuf) {
    ext_csd(stack, card, scratch, |ext| Health {
        pre_eol: ext.pre_eol(),
        life_a: ext.life_time_a(),
        life_b: ext.life_time_b(),
        firmware: ext.firmware_version(),
        vendor: ext.vendor_health().first_chunk().copied().unwrap_or([0; 32]),
    })
    .await
}

/// Starts an eMMC's background operations, and waits until they end. Does nothing if they are less
/// urgent than `from`, or if the device does not leave their start to the host. Returns the urgency
/// that was found.
///
/// [`supervise`](super::supervise) also starts background operations, when the card requests them;
/// there a request can interrupt them. The present call is for programs that know a better time.
/// The call waits for its turn in the queue, so it never interrupts a write. Other requests wait
/// until it ends.
pub async fn background_work<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    from: Urgency,
) -> (Result<Urgency, Error>, DmaBuf) {
    let (found, scratch) =
        ext_csd(stack, card, scratch, |ext| (Urgency::of(ext), ext.bkops_en() & 1 != 0)).await;
    let (urgency, by_hand) = match found {
        Ok(found) => found,
        Err(error) => return (Err(error), scratch),
    };
    if urgency == Urgency::None || urgency < from || !by_hand {
        return (Ok(urgency), scratch);
    }
    let started = switch(stack, card, index::BKOPS_START, 1, BKOPS_NS).await;
    (started.map(|()| urgency), scratch)
}

/// Destroys all data that were erased, trimmed or discarded before and still exist in the device.
/// The call may take minutes, and all other requests wait.
pub async fn sanitize<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    _leave: Irreversible,
) -> (Result<(), Error>, DmaBuf) {
    let (can, scratch) = ext_csd(stack, card, scratch, |ext| ext.sanitize()).await;
    let result = match can {
        Ok(true) => switch(stack, card, index::SANITIZE_START, 1, SANITIZE_NS).await,
        Ok(false) => Err(Error::Unsupported),
        Err(error) => Err(error),
    };
    (result, scratch)
}

/// Writes `value` to byte `byte` of EXT_CSD by CMD6, and waits for the end of its busy, as one
/// request. `timeout_ns`: longest busy in ns. The request fails if another card than `card` is in
/// the slot.
pub(super) async fn switch<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    byte: u8,
    value: u8,
    timeout_ns: u64,
) -> Result<(), Error> {
    let number = stack.with(|engine| {
        engine.enable_extended_ops();
        engine.number_of(card.identity())
    });
    let command = emmc::switch(emmc::SwitchMode::WriteByte, byte, value, 0);
    let order = Kind::LongCommand { command, timeout_ns };
    stack.request(Request::new(order, DmaBuf::EMPTY).for_card(number)).await.result.map(|_| ())
}
