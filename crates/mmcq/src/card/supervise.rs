//! The supervisor: it sends the commands that the engine needs when a card fails, is inserted or is
//! removed.
//!
//! Meanwhile the engine sends no request of its queue, and the supervisor's requests go first. A
//! card that is initialised again must be the same card, by CID and CSD; otherwise the requests for
//! the earlier card are not sent.

use super::identify::{self, Families};
use super::link::Queued;
use super::protect::LockOp;
use super::session::{Failed, Session};
use super::{
    Card, Exception, FRESH_STARTS, Family, Options, SCRATCH_BYTES, attempts, emmc, emmc_bus, rest, sd, speed,
    upkeep,
};
use crate::engine::{CardParams, DmaBuf, Error, FlushBy, ServiceRequest};
use crate::host::{BusOp, Timing, Width};
use crate::spec::command;
use crate::spec::timing::sd as limits;
use crate::task::{Platform, Stack};
use core::future::poll_fn;
use core::task::Poll;

/// Number of reads of a card's register by which the supervisor tests whether the bus works.
const PROBES: u32 = 8;

/// Number of CMD13 without a response after which a card counts as one that gives no response at
/// all. A single lost response proves nothing.
const QUESTIONS: u32 = 2;

/// Length of the single wait when a card does not respond to its new initialisation, in
/// nanoseconds: its supply may come back.
const SUPPLY_NS: u64 = 300_000_000;

/// Events that the user of a card must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one, and no heap to put the larger on")]
#[non_exhaustive]
pub enum Event {
    /// The card was removed, and the slot has been empty for a moment. The card's requests have
    /// failed with [`Error::Removed`].
    Removed,
    /// A card was inserted, perhaps the same one. With `Ok` the card is ready for requests. After
    /// an error the next call tries again while the card is in the slot, after pauses that grow
    /// from a tenth of a second to ten seconds; each try is reported.
    Inserted(Result<Card, Error>),
    /// Another card is in the slot, but the host has not reported a removal. The new card is ready
    /// for requests. Requests for the earlier card have failed with [`Error::Changed`].
    Changed(Card),
    /// An eMMC reports a new exception event. Requests continue, and the supervisor starts urgent
    /// background operations in time.
    Exception {
        /// The card in its present state.
        card: Card,
        /// The events that the device reported.
        exception: Exception,
    },
    /// The program has ended the supervisor by
    /// [`Engine::dismiss_supervisor`](crate::engine::Engine::dismiss_supervisor).
    Dismissed,
}

/// Helps the engine with `card` until there is an event to report. The call tunes again, switches
/// to slower modes, initialises the card again, power-cycles the slot, and brings up new cards.
///
/// While the card has no fault, the supervisor does upkeep in moments in which no request waits. It
/// tunes the card before the sampling point drifts too far
/// ([`Upkeep::retune_every_ns`](super::Upkeep::retune_every_ns)), reads what the exception bit of
/// an eMMC means, and gives urgent background operations their time. After it has initialised a
/// card again, it restores the settings: what `options` and
/// [`extension::enable_cache`](super::extension::enable_cache) switched on is on again before the
/// next request.
///
/// Call it when [`bring_up`](super::bring_up) has returned, concurrently with all other tasks. Call
/// it again after each [`Event`], with the card in that event. After an event without a card
/// ([`Removed`](Event::Removed), [`Inserted`](Event::Inserted) with an error) pass the earlier
/// card: the supervisor uses it only until the next card is inserted. After
/// [`Dismissed`](Event::Dismissed) do not call it again. `scratch` ([`SCRATCH_BYTES`]) is returned.
/// The engine must have at least two slots. Only one supervisor may run at a time: drop the earlier
/// supervisor before you poll the next one. The next one continues its work.
///
/// A program learns of inserted and removed cards only from the supervisor: it detects a card,
/// brings it up, and returns the event. A program without a supervisor calls
/// [`bring_up`](super::bring_up) again from time to time, until it no longer returns
/// [`Error::NoCard`].
///
/// The supervisor is for memory cards. For I/O cards see [`sdio`](crate::sdio).
pub fn supervise<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
    card: Card,
) -> impl Future<Output = (Event, DmaBuf)> {
    of_families::<identify::OfAny, B, N>(stack, scratch, options, card)
}

/// Supervises the card like [`supervise`], for a slot that accepts only SD memory cards; no code
/// for eMMC is linked.
pub fn supervise_sd<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
    card: Card,
) -> impl Future<Output = (Event, DmaBuf)> {
    of_families::<identify::OfSd, B, N>(stack, scratch, options, card)
}

/// Supervises the card like [`supervise`], for a soldered eMMC; no code for SD cards is linked.
pub fn supervise_emmc<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
    card: Card,
) -> impl Future<Output = (Event, DmaBuf)> {
    of_families::<identify::OfEmmc, B, N>(stack, scratch, options, card)
}

/// Guard: while it exists, the engine has a supervisor.
struct Helper<'a, B: Platform, const N: usize>(&'a Stack<B, N>);

impl<B: Platform, const N: usize> Drop for Helper<'_, B, N> {
    fn drop(&mut self) {
        // Drop the waker outside of the lock, because it may run any code.
        let _waker = self.0.with(|engine| engine.set_service_waker(None));
    }
}

impl<B: Platform, const N: usize> Helper<'_, B, N> {
    async fn wanted(&self) -> ServiceRequest {
        poll_fn(|context| {
            // Clone the new waker before the lock is taken, and drop the old one after the lock is
            // released.
            let waker = Some(context.waker().clone());
            let (help, _before) = self.0.with(|engine| {
                let before = engine.set_service_waker(waker);
                (engine.take_service_request(), before)
            });
            help.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Passes the result of the work that the engine has requested from the supervisor (such as a
    /// new initialisation) to the engine. Returns false if the engine no longer waits for this
    /// result.
    fn service_done(&self, result: Result<CardParams, Error>) -> bool {
        let now_ns = self.0.now_ns();
        let heard = self.0.with(|engine| engine.service_done(result, now_ns));
        // The engine continues now: it has deadlines, and may have requests that have ended.
        self.0.poll();
        heard
    }
}

/// How the initialisation of a card begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The card keeps its power, and is only initialised again.
    Warm,
    /// The card's power is switched off and on.
    Cold,
}

// An `async fn` would store its arguments twice: as passed, and as used.
#[allow(clippy::manual_async_fn, reason = "the future is a third shorter")]
fn of_families<F: Families<Found = Card>, B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
    mut card: Card,
) -> impl Future<Output = (Event, DmaBuf)> {
    async move {
        let helper = Helper(stack);
        let mut session = Session::new(stack, scratch);
        session.urgent = true;
        let (target, mode) = stack.with(|engine| (engine.card_params().copied(), engine.switched_on().mode));
        if let Some(target) = target {
            // The card may have been initialised again since the caller saw it.
            card.params = target;
            (card.timing, card.width, card.clock_hz) =
                mode.unwrap_or((card.timing, card.width, card.clock_hz));
        }
        // Timings that were too fast earlier stay excluded, as long as the slot has the same card.
        let mut slower = speed::no_faster(options, &card);
        upkeep::begin(&session, &options, &card);
        loop {
            let help = helper.wanted().await;
            session.rca = card.params.rca;
            let from = match help {
                ServiceRequest::Dismissed => return (Event::Dismissed, session.into_scratch()),
                ServiceRequest::Removed => {
                    helper.service_done(Err(Error::Removed));
                    return (Event::Removed, session.into_scratch());
                }
                ServiceRequest::Retune => {
                    goes_on(stack);
                    if stack.with(|engine| engine.is_unheard()) && is_mute(&mut session).await {
                        helper.service_done(Err(Error::Silent));
                        continue;
                    }
                    let mut result = retune(&mut session, slower, &card).await;
                    if result.is_err() && !matches!(session.error, Error::Unsupported | Error::Protocol(_)) {
                        // One lost response does not prove that the card or the bus has failed. But
                        // a card that has not received its CMD12 sends no tuning block, so send
                        // CMD12 before the tuning.
                        session.stop().await;
                        result = retune(&mut session, slower, &card).await;
                    }
                    let target = as_it_is(stack);
                    helper.service_done(result.map_err(|Failed| session.error).and(target));
                    continue;
                }
                ServiceRequest::Exception if F::EMMC => {
                    goes_on(stack);
                    let found = upkeep::look(&mut session, card.params.quirks).await;
                    let target = as_it_is(stack);
                    helper.service_done(found.map_err(|Failed| session.error).and(target));
                    match found {
                        Ok(Some(exception)) => {
                            card.params = target.unwrap_or(card.params);
                            return (Event::Exception { card, exception }, session.into_scratch());
                        }
                        _ => continue,
                    }
                }
                ServiceRequest::Background if F::EMMC => {
                    goes_on(stack);
                    let result = upkeep::work(&mut session, card.params.quirks).await;
                    let target = as_it_is(stack);
                    helper.service_done(result.map_err(|Failed| session.error).and(target));
                    continue;
                }
                ServiceRequest::Rest => {
                    goes_on(stack);
                    let result = rest::until_needed(&mut session, options.upkeep.rest, &card).await;
                    let target = as_it_is(stack);
                    helper.service_done(result.map_err(|Failed| session.error).and(target));
                    continue;
                }
                ServiceRequest::Exception | ServiceRequest::Background => {
                    helper.service_done(Err(Error::Unsupported));
                    continue;
                }
                ServiceRequest::Inserted if options.upkeep.same_card => {
                    helper.service_done(Err(Error::Removed));
                    return (Event::Removed, session.into_scratch());
                }
                ServiceRequest::Inserted => {
                    slower = options;
                    From::Cold
                }
                ServiceRequest::Slower => {
                    let frequent = stack.with(|engine| engine.damaged_often());
                    let slowest = (card.timing, card.width) == (Timing::Legacy, Width::W1);
                    if slowest || !frequent && bus_is_well(&mut session, &card).await {
                        helper.service_done(Err(Error::Unsupported));
                        continue;
                    }
                    // Data that cannot be flushed any more are lost, and the next flush reports
                    // that.
                    let _ = flush(&mut session, emmc::FLUSH_LAST_NS).await;
                    slower = slower_than(slower, &card);
                    From::Cold
                }
                ServiceRequest::Reinit => {
                    // A card leaves 1.8 V only when its supply is switched off [SD 4.2.4.2].
                    let low = matches!(card.family, Family::Sd(sd) if sd.signal18);
                    if low { From::Cold } else { From::Warm }
                }
                ServiceRequest::PowerCycle => {
                    let now_ns = stack.now_ns();
                    if !stack.with(|engine| engine.claim_power_cycle(now_ns)) {
                        helper.service_done(Err(Error::Silent));
                        continue;
                    }
                    From::Cold
                }
            };
            let given = session.scratch_bytes();
            let mut found = Err(Error::Buffer { needed: SCRATCH_BYTES, given });
            if given >= SCRATCH_BYTES {
                let options = if help == ServiceRequest::Inserted { slower } else { unerased(slower) };
                let mut again = help == ServiceRequest::Reinit;
                // A recovery needs no restarts here, since the engine's ladder tries it again.
                let fresh = if help == ServiceRequest::Inserted { FRESH_STARTS } else { 0 };
                session.starts = match card.family {
                    Family::Sd(sd) if fresh == 0 => sd.starts(),
                    _ => 0,
                };
                loop {
                    session.warm = from == From::Warm;
                    found = attempts::<F, _>(&mut session, &mut { options }, fresh)
                        .await
                        .map_err(|Failed| session.error);
                    let Err(error) = &found else { break };
                    // No card responds, but the slot is not empty: the supply may be off for a
                    // moment.
                    let silent = (*error == Error::NoCard || session.unanswered())
                        && stack.with(|engine| engine.present());
                    if !core::mem::take(&mut again) || !silent || session.pause(SUPPLY_NS).await.is_err() {
                        break;
                    }
                }
                // A slot that is not empty has a card that may respond again after a power cycle.
                if help != ServiceRequest::Inserted
                    && matches!(found, Err(Error::NoCard))
                    && stack.with(|engine| engine.present())
                {
                    found = Err(Error::Silent);
                }
            }
            match found {
                _ if help == ServiceRequest::Inserted => {
                    if let Ok(found) = &found {
                        stack.with(|engine| engine.identify_card(found.identity()));
                    }
                    let heard = helper.service_done(found.map(|found| found.params));
                    // The engine no longer waits for this result if it has requested other help
                    // meanwhile, for example because the card was removed. Then the event has an
                    // error, and the next call serves the other request.
                    let found = if heard { found } else { found.and(Err(Error::Removed)) };
                    return (Event::Inserted(found), session.into_scratch());
                }
                Ok(found) if same(&found, &card) => {
                    card = found;
                    upkeep::restore::<F, B, N>(&mut session, &mut card).await;
                    upkeep::begin(&session, &options, &card);
                    helper.service_done(Ok(card.params));
                }
                Ok(found) => {
                    // Do both with the lock held, so that no event comes in between.
                    let now_ns = stack.now_ns();
                    stack.with(|engine| {
                        engine.service_done(Err(Error::Changed), now_ns);
                        engine.identify_card(found.identity());
                        engine.set_card_params((!options.upkeep.same_card).then_some(found.params));
                    });
                    stack.poll();
                    return (Event::Changed(found), session.into_scratch());
                }
                Err(error) => _ = helper.service_done(Err(error)),
            }
        }
    }
}

/// Returns the parameters that the engine has for the card now. They include all changes that the
/// supervisor has made since the engine requested help.
fn as_it_is<B: Platform, const N: usize>(stack: &Stack<B, N>) -> Result<CardParams, Error> {
    stack.with(|engine| engine.card_params().copied()).ok_or(Error::NoCard)
}

/// Tells the engine that the supervisor is still working, so that the engine waits longer.
fn goes_on<B: Platform, const N: usize>(stack: &Stack<B, N>) {
    let now_ns = stack.now_ns();
    stack.with(|engine| engine.extend_help(now_ns));
}

/// Returns whether both values describe the same card. The last byte of CID and CSD is not
/// compared: it is a CRC, which not every controller returns.
fn same(one: &Card, other: &Card) -> bool {
    let strip = |[a, b, c, d]: [u32; 4]| [a, b, c, d & !0xff];
    strip(one.cid) == strip(other.cid) && strip(one.csd) == strip(other.csd)
}

/// Returns the options without a forced erase, because recovery must never erase the data of
/// clients.
fn unerased(options: Options) -> Options {
    Options { unlock: options.unlock.filter(|op| !matches!(op, LockOp::ForceErase(_))), ..options }
}

/// Returns options that also exclude the card's present timing; at legacy timing, options that
/// allow only one data line.
fn slower_than(options: Options, card: &Card) -> Options {
    match card.timing {
        Timing::Legacy => Options { max_width: Width::W1, ..options },
        timing => Options { without: options.without | speed::and_those_that_need(timing), ..options },
    }
}

/// Returns whether the card gives no response at all, even at a clock that needs no sampling point.
///
/// Such a card was reset or has lost its power. In `idle` it responds neither to its address nor to
/// the command for a tuning block, and the engine would wait for each of these responses [SD
/// 4.2.4.5]. A damaged response counts as a response.
async fn is_mute<B: Platform, const N: usize>(session: &mut Queued<'_, B, N>) -> bool {
    let (clock_hz, slowest_hz) =
        session.link.with(|engine| (engine.bus().clock_hz, engine.caps().clock_hz.0));
    let slow = BusOp::Clock(limits::IDENTIFY_MAX_HZ.max(slowest_hz));
    let mut mute = session.bus(slow).await.is_ok();
    for _ in 0..QUESTIONS {
        mute =
            mute && session.command(command::send_status(session.rca)).await.is_err() && session.unanswered();
    }
    session.bus(BusOp::Clock(clock_hz)).await.is_ok() && mute
}

async fn retune<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    options: Options,
    card: &Card,
) -> Result<(), Failed> {
    match card.family {
        Family::Sd(_) => sd::retune(session, card.timing).await,
        Family::Emmc(_) => emmc_bus::retune(session, options, card).await,
    }
}

/// Returns whether the bus works, so that only one block was damaged. The test reads a register
/// over the data lines [`PROBES`] times.
async fn bus_is_well<B: Platform, const N: usize>(session: &mut Queued<'_, B, N>, card: &Card) -> bool {
    for _ in 0..PROBES {
        let read = match card.family {
            Family::Sd(_) => session.register(command::sd::sd_status(), true, 64),
            Family::Emmc(_) => session.register(command::emmc::send_ext_csd(), false, 512),
        };
        if read.await.is_err() {
            return false;
        }
    }
    true
}

/// Flushes an eMMC's cache within `limit_ns`, if the device still responds. After an error the
/// cache may still have data.
pub(super) async fn flush<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    limit_ns: u64,
) -> Result<(), Failed> {
    let flush = session.link.with(|engine| engine.card_params().map(|target| target.flush));
    if !matches!(flush, Some(FlushBy::EmmcCache { .. })) {
        return Ok(());
    }
    emmc::flush(session, limit_ns).await?;
    match session.link.with(|engine| engine.note_flushed()) {
        true => Ok(()),
        false => session.fail(Error::Silent),
    }
}
