//! A card with a supervisor: `card::supervise` works beside the test. It brings the card back when
//! the card has lost its state, as after a dip of its supply. A request that waits for the card
//! only takes longer.

use crate::Stack;
use crate::board::say;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::{DmaBuf, Error, Kind, RecoveryStep, Request};
use mmcq::host::{Auto, Phase};
use mmcq::spec::command;

/// Number of resets of the card: one before each part of the plan.
const RESETS: u64 = 3;
const TIMEOUT_NS: u64 = 10_000_000;

/// Polls `work` until it is ready, while a supervisor handles the card. Returns the result of
/// `work`. `scratch` is the memory that bring-up has returned.
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
        // The supervisor's future ends only to report an event. It is then started again with the
        // card of the event. This program needs the card that it began with.
        let Poll::Ready((event, _)) = supervisor.as_mut().poll(context) else { return Poll::Pending };
        say(format_args!("supervisor: {event:?}"));
        Poll::Ready(Err(if matches!(event, Event::Removed) { Error::Removed } else { Error::Changed }))
    })
    .await
}

/// Resets the card without informing the stack: the card then has neither its address nor its bus
/// settings [SD 4.2.1].
pub async fn disturb(stack: &Stack) -> Result<(), Error> {
    let phase = Phase { command: command::go_idle_state(), data: None, auto: Auto::None, tuning: false };
    let kind = Kind::Raw { prefix: None, phase, timeout_ns: TIMEOUT_NS };
    stack.request(Request::new(kind, DmaBuf::EMPTY)).await.result?;
    say(format_args!("the card has been reset"));
    Ok(())
}

/// Prints how many times recovery has initialised the card again, cycled its power, and given it
/// up. Returns whether the card was initialised again as many times as it was reset, and never
/// given up.
pub fn report(stack: &Stack) -> bool {
    let count = |step: RecoveryStep| {
        stack.with(|engine| engine.stats().recovery_steps.get(step as usize).copied().unwrap_or(0))
    };
    let [again, cycles, dead] =
        [RecoveryStep::Reinit, RecoveryStep::PowerCycle, RecoveryStep::Dead].map(count);
    say(format_args!("kept: {again} times initialised again, {cycles} power cycles, given up {dead} times"));
    again == RESETS && dead == 0
}
