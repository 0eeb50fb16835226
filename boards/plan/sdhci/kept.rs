//! A card that is kept: `card::supervise` runs beside the work, and brings the card back when it
//! has forgotten everything, as after a dip of its supply. A request that waits for the card
//! notices nothing but the time.

use crate::Stack;
use crate::board::say;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::{DmaBuf, Error, Kind, RecoveryStep, Request};
use mmcq::host::{Auto, Phase};
use mmcq::spec::command;

/// Resets of the card: one before each part of the plan.
const RESETS: u64 = 3;
const TIMEOUT_NS: u64 = 10_000_000;

/// Runs `work` to its end, with the card in good hands; what it says. `scratch` is what bring-up
/// gave back.
pub async fn beside<T>(
    stack: &Stack,
    card: Card,
    scratch: DmaBuf,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut work = pin!(work);
    let mut supervisor = pin!(card::supervise(stack, scratch, Options::DEFAULT, card));
    poll_fn(|context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        // It ends only to tell something, and is called again then, with the card that the event
        // has. This program wants the one that it began with.
        let Poll::Ready((event, _)) = supervisor.as_mut().poll(context) else { return Poll::Pending };
        say(format_args!("supervisor: {event:?}"));
        Poll::Ready(Err(if matches!(event, Event::Removed) { Error::Removed } else { Error::Changed }))
    })
    .await
}

/// Resets the card behind the stack's back: it knows neither its address nor its bus then
/// [SD 4.2.1].
pub async fn disturb(stack: &Stack) -> Result<(), Error> {
    let phase = Phase { command: command::go_idle_state(), data: None, auto: Auto::None, tuning: false };
    let kind = Kind::Raw { prefix: None, phase, timeout_ns: TIMEOUT_NS };
    stack.request(Request::new(kind, DmaBuf::EMPTY)).await.result?;
    say(format_args!("the card has been reset"));
    Ok(())
}

/// Says how often the card was brought back; whether it was after each reset.
pub fn report(stack: &Stack) -> bool {
    let count = |step: RecoveryStep| {
        stack.with(|engine| engine.stats().recovery_steps.get(step as usize).copied().unwrap_or(0))
    };
    let [again, cycles, dead] =
        [RecoveryStep::Reinit, RecoveryStep::PowerCycle, RecoveryStep::Dead].map(count);
    say(format_args!("kept: {again} times initialised again, {cycles} power cycles, given up {dead} times"));
    again == RESETS && dead == 0
}
