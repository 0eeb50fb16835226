//! Sleep, wake-up, and power-off [eMMC 6.6.21, 6.6.36], [SD 5.8.1.3].
//!
//! Before sleep or power-off, these functions flush everything that was written and remove the card
//! from the engine. So the engine refuses requests that arrive later.

use super::link::Queued;
use super::session::{Failed, Session};
use super::{Card, Family, extension};
use crate::engine::{Abilities, Breach, CardNumber, CardParams, DmaBuf, Error, Kind, Request};
use crate::host::BusOp;
use crate::sched::Profile;
use crate::spec::command::{self, emmc};
use crate::spec::ext_csd::{ExtCsd, index};
use crate::spec::response::State;
use crate::spec::timing::emmc as limits;
use crate::task::{Platform, Stack};

/// How much time the card has before its power goes off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// Little time, for example because the battery is low: the card does only what is necessary.
    Short,
    /// The card has enough time before its power is switched off, and may do its housekeeping.
    Long,
}

/// Value of POWER_OFF_NOTIFICATION, which CMD6 writes [eMMC 7.4.88]: the device is powered on. The
/// next two constants are its values for a power-off.
const POWERED_ON: u8 = 1;
const POWER_OFF_SHORT: u8 = 2;
const POWER_OFF_LONG: u8 = 3;
/// EXT_CSD_REV of eMMC version 4.5, the first with power-off notification.
const REVISION_NOTIFIES: u8 = 6;
/// Largest number of flushes before sleep or power-off, if other clients write in between.
const ROUNDS: u32 = 16;

/// Flushes the cache, notifies the card of power-off, and switches its supply off. Before that, a
/// supervisor that is at work finishes its work.
///
/// # Errors
/// After these errors the supply is still on. [`Error::Full`], [`Error::Suspended`] and
/// [`Error::Reentered`]: the engine has refused a request of this call, so call it again later. If
/// the call has found a loss of data before that, the next flush reports it. [`Error::Changed`]:
/// `card` is no longer in the slot.
///
/// After any other error the supply is off. The error comes from the flush (data may be lost), from
/// the notification, or from the switch of the supply. [`Error::CacheLost`]: writes are lost, for
/// example because other clients wrote all the time; the next flush reports that too.
pub async fn power_off<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    off: Off,
) -> (Result<(), Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    if session.is_over() {
        return (Err(Error::Changed), session.into_scratch());
    }
    let mut flushed = take_away(stack, session.card).await;
    if flushed.is_err_and(Error::is_refusal) {
        return (flushed.map(|_| ()), session.into_scratch());
    }
    if flushed != Ok(true) {
        // A supervisor that is at work would give the card to the engine afterwards.
        if let Err(refused) = await_supervisor(stack).await {
            return (stays_on(stack, flushed.map(|_| ()), refused), session.into_scratch());
        }
        // The supply is switched off in any case; the next flush reports what is lost by that. But
        // a card that has come meanwhile keeps its supply.
        let lost = stack.with(|engine| {
            let before = engine.losses();
            engine.is_meant(session.card).then(|| {
                engine.set_card_params(None);
                engine.losses() != before
            })
        });
        match lost {
            None => {
                let result = stays_on(stack, flushed.map(|_| ()), Error::Changed);
                return (result, session.into_scratch());
            }
            Some(true) => flushed = flushed.and(Err(Error::CacheLost)),
            Some(false) => {}
        }
    }
    let flushed = flushed.map(|_| ());
    let notified = notify(&mut session, card, off).await.map_err(|Failed| session.error);
    let supply = session.bus(BusOp::PowerOff).await.map(|_| ()).map_err(|Failed| session.error);
    let result = match supply {
        Err(refused) if refused.is_refusal() => stays_on(stack, flushed, refused),
        Err(_) if session.is_over() => stays_on(stack, flushed, Error::Changed),
        supply => flushed.and(notified).and(supply),
    };
    (result, session.into_scratch())
}

/// Returns the result of a call that leaves the supply on, because the engine has refused a request
/// with this error. The error of the flush before it is for the next flush.
fn stays_on<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    flushed: Result<(), Error>,
    refused: Error,
) -> Result<(), Error> {
    if let Err(error) = flushed {
        stack.with(|engine| engine.take_back_error(error));
    }
    Err(refused)
}

/// Flushes until the card with the number `card` holds no unwritten data, and at that moment removes
/// it from the engine. Returns false if other clients wrote so much that there was no such moment.
/// After false or an error the engine still has the card, or the card that has come in its place.
async fn take_away<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: CardNumber,
) -> Result<bool, Error> {
    for _ in 0..ROUNDS {
        // After an error nothing may be left that could be lost, but the engine keeps the card.
        stack.request(Request::new(Kind::Flush, DmaBuf::EMPTY).for_card(card)).await.result?;
        if stack.with(|engine| engine.leave_flushed(card)) {
            return Ok(true);
        }
        // A flush may leave the card's queue enabled; a pause does not.
        let pause = Request::new(Kind::Pause { ns: 0 }, DmaBuf::EMPTY);
        let _ = stack.request(pause).await;
        if stack.with(|engine| engine.leave_flushed(card)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until the supervisor has finished the work for which the engine has asked it. The wait ends
/// early if other clients bring new work again and again. Returns the error if the engine refuses to
/// let the call wait, because all slots are full, for example.
async fn await_supervisor<B: Platform, const N: usize>(stack: &Stack<B, N>) -> Result<(), Error> {
    for _ in 0..ROUNDS {
        if !B::Profile::RECOVERS || !stack.with(|engine| engine.asks_for_help()) {
            return Ok(());
        }
        // A pause is not urgent, so it begins when the supervisor has finished.
        let pause = Request::new(Kind::Pause { ns: 0 }, DmaBuf::EMPTY);
        match stack.request(pause).await.result {
            Err(error) if error.is_refusal() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

async fn notify<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    card: &Card,
    off: Off,
) -> Result<(), Failed> {
    match &card.family {
        Family::Sd(_) => extension::notify_power_off(session, card).await.map(|_| ()),
        Family::Emmc(known) if known.revision < REVISION_NOTIFIES => Ok(()),
        Family::Emmc(_) => {
            let times = times(session).await?;
            let (value, limit_ns) = match off {
                Off::Short => (POWER_OFF_SHORT, times.switch_ns),
                Off::Long => (POWER_OFF_LONG, times.power_off_long_ns),
            };
            for (value, limit_ns) in [(POWERED_ON, times.switch_ns), (value, limit_ns)] {
                let switch =
                    emmc::switch(emmc::SwitchMode::WriteByte, index::POWER_OFF_NOTIFICATION, value, 0);
                session.busy_command(switch, limit_ns.max(limits::SWITCH_NS)).await?;
            }
            Ok(())
        }
    }
}

struct Times {
    switch_ns: u64,
    power_off_long_ns: u64,
    sleep_ns: u64,
}

async fn times<B: Platform, const N: usize>(session: &mut Queued<'_, B, N>) -> Result<Times, Failed> {
    session.register(emmc::send_ext_csd(), false, 512).await?;
    let times = ExtCsd::parse(session.bytes()?).map(|ext| Times {
        switch_ns: ext.generic_cmd6_time_ns(),
        power_off_long_ns: ext.power_off_long_time_ns(),
        sleep_ns: ext.sleep_awake_time_ns(),
    });
    session.parsed(times)
}

/// An eMMC that sleeps; pass it to [`awake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the card sleeps until `awake` is called with this"]
pub struct Asleep {
    sleep_ns: u64,
    before: Before,
}

/// Number, parameters and abilities of the card before it slept; [`give_back`] restores them.
type Before = (CardNumber, Option<CardParams>, Abilities);

/// Gives the card back to the engine, unless another card was inserted or the slot is empty.
fn give_back<B: Platform, const N: usize>(stack: &Stack<B, N>, (card, params, abilities): Before) {
    stack.with(|engine| {
        if engine.is_meant(card) && engine.card_params().is_none() && engine.present() {
            engine.set_card_params(params);
            engine.set_abilities(abilities);
        }
    });
}

/// Flushes the cache, and puts an eMMC to sleep. The eMMC keeps its address, width and timing, and
/// its supply VCC may be switched off.
///
/// # Errors
/// [`Error::Unsupported`]: the card is not an eMMC. [`Error::Changed`]: `card` is no longer in the
/// slot. [`Error::Protocol`] with [`Breach::WrittenWithoutPause`]: other clients wrote all the
/// time. After an error the engine uses the eMMC as before. If CMD5 has failed, the call has tried
/// to wake the eMMC.
pub async fn sleep<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
) -> (Result<Asleep, Error>, DmaBuf) {
    if !matches!(card.family, Family::Emmc(_)) {
        return (Err(Error::Unsupported), scratch);
    }
    let mut session = Session::with(stack, scratch, card);
    if session.is_over() {
        return (Err(Error::Changed), session.into_scratch());
    }
    let number = session.card;
    let before = stack.with(|engine| (number, engine.card_params().copied(), *engine.abilities()));
    let flushed = take_away(stack, number).await;
    let result = match flushed {
        Ok(false) => Err(Error::Protocol(Breach::WrittenWithoutPause)),
        Ok(true) => {
            let asleep = fall_asleep(&mut session).await;
            asleep.map(|sleep_ns| Asleep { sleep_ns, before }).map_err(|Failed| session.error)
        }
        Err(error) => Err(error),
    };
    // If the card was not removed from the engine, the engine still has it.
    if flushed == Ok(true) && result.is_err() {
        give_back(stack, before);
    }
    let result = result.map_err(|error| if session.is_over() { Error::Changed } else { error });
    (result, session.into_scratch())
}

/// Sends CMD7 and CMD5. Returns the longest time of CMD5 in nanoseconds.
pub(super) async fn fall_asleep<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
) -> Result<u64, Failed> {
    let sleep_ns = times(session).await?.sleep_ns.clamp(SLEEP_NS_MIN, limits::SLEEP_NS);
    session.command(command::select_card(0)).await?;
    let answer = session.switch_then(emmc::sleep_awake(session.rca, true), sleep_ns).await;
    if answer.is_err() {
        // The device may sleep despite the error, and must not stay deselected.
        let why = session.error;
        let _ = wake(session, sleep_ns).await;
        return session.fail(why);
    }
    Ok(sleep_ns)
}

/// Shortest time limit for CMD5, even if the device declares less, in nanoseconds.
const SLEEP_NS_MIN: u64 = 10_000_000;

/// Wakes a sleeping eMMC. Afterwards the engine accepts requests again. After an error the engine
/// has no card: call [`bring_up`](super::bring_up).
pub async fn awake<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    asleep: Asleep,
) -> (Result<(), Error>, DmaBuf) {
    let mut session = Session::with(stack, scratch, card);
    let result = wake(&mut session, asleep.sleep_ns).await.map_err(|Failed| session.error);
    if result.is_ok() {
        give_back(stack, asleep.before);
    }
    (result, session.into_scratch())
}

/// Number of tries to wake the device, since a single lost response proves nothing.
const WAKE_TRIES: u32 = 2;

/// Sends CMD5 and CMD7, and reads the status that shows whether the device is back in `tran`.
/// `sleep_ns`: longest time in ns that the device needs to wake up.
pub(super) async fn wake<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    sleep_ns: u64,
) -> Result<(), Failed> {
    for _ in 0..WAKE_TRIES {
        // The status shows whether both commands worked: a device that is already awake does not
        // respond to CMD5.
        if session.switch_then(emmc::sleep_awake(session.rca, false), sleep_ns).await.is_err() {
            // The device may still be waking up.
            let _ = session.pause(sleep_ns).await;
        }
        let _ = session.command(command::select_card(session.rca)).await;
        let status = session.status_of(command::send_status(session.rca)).await;
        if status.is_ok_and(|status| status.r1().current_state() == State::Tran) {
            return Ok(());
        }
    }
    session.refuse(Breach::NeverWakes)
}
