//! Power saving for an unused card: its clock stops, or the eMMC sleeps, until the next request
//! [eMMC 6.6.21].
//!
//! The supervisor puts the card to rest when the engine reports that nothing has used it for a
//! while. Requests that arrive during the rest wait in the queue until the supervisor has woken the
//! card. Waking takes one change of the clock; for a sleeping eMMC also CMD5, CMD7 and CMD13.

use super::link::Queued;
use super::power::{fall_asleep, wake};
use super::session::Failed;
use super::{Card, Family, emmc, supervise};
use crate::engine::{DmaBuf, Kind, Request};
use crate::host::BusOp;
use crate::sched::Profile;
use crate::task::{Platform, Stack};
use core::future::poll_fn;
use core::task::Poll;

/// How an unused card saves power ([`Upkeep::rest`](super::Upkeep::rest)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// The card is never put to rest.
    #[default]
    Never,
    /// The SD clock stops when nothing has used the card for `after_ns`.
    ClockOff {
        /// Time without use after which the clock stops, in nanoseconds.
        after_ns: u64,
    },
    /// When nothing has used the card for `after_ns`, the supervisor flushes an eMMC's cache, puts
    /// the eMMC to sleep, and stops the clock. SD cards cannot sleep: only their clock stops. If
    /// the supervisor is dropped while an eMMC sleeps, the engine has no card until
    /// [`bring_up`](super::bring_up).
    Sleep {
        /// Time without use after which the card is put to sleep, in nanoseconds.
        after_ns: u64,
    },
}

impl Rest {
    pub(super) fn after_ns(self) -> u64 {
        match self {
            Rest::Never => u64::MAX,
            Rest::ClockOff { after_ns } | Rest::Sleep { after_ns } => after_ns,
        }
    }
}

/// Guard of a rest that has begun, for a future that is dropped while the card goes to rest or
/// wakes. The drop of the guard then makes the card usable again, or removes the card from the
/// engine.
struct Begun<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    clock_hz: u32,
    asleep: bool,
}

impl<B: Platform, const N: usize> Drop for Begun<'_, B, N> {
    fn drop(&mut self) {
        if self.asleep {
            return self.stack.with(|engine| engine.set_card_params(None));
        }
        let clock = Request::new(Kind::Bus(BusOp::Clock(self.clock_hz)), DmaBuf::EMPTY);
        if !self.stack.send(Request { urgent: B::Profile::RECOVERS, ..clock }) {
            // No slot is free for the request that starts the clock, and a card without a clock
            // must receive no request.
            self.stack.with(|engine| engine.set_card_params(None));
        }
    }
}

/// Lets the card rest until a request arrives, then wakes it. If the card does not wake, the
/// request fails, and recovery starts.
pub(super) async fn until_needed<B: Platform, const N: usize>(
    session: &mut Queued<'_, B, N>,
    rest: Rest,
    card: &Card,
) -> Result<(), Failed> {
    let stack = session.link;
    let mut begun = Begun { stack, clock_hz: card.clock_hz, asleep: false };
    let sleeps = matches!((rest, card.family), (Rest::Sleep { .. }, Family::Emmc(_)));
    let mut sleep_ns = None;
    if sleeps {
        // A device whose cache cannot be flushed stays awake, because a sleeping device may lose
        // its supply.
        supervise::flush(session, emmc::FLUSH_NS).await?;
        begun.asleep = true;
        sleep_ns = fall_asleep(session).await.ok();
        begun.asleep = sleep_ns.is_some();
    }
    session.bus(BusOp::Clock(0)).await?;
    let now_ns = stack.now_ns();
    stack.with(|engine| engine.begin_rest(now_ns));
    // The resting card needs no timer; this call sets the alarm anew.
    stack.poll();
    poll_fn(|context| {
        // Clone the new waker before the lock is taken, and drop the old one after the lock is
        // released.
        let waker = Some(context.waker().clone());
        let (over, _before) = stack.with(|engine| {
            let before = engine.set_service_waker(waker);
            (engine.rest_is_over(), before)
        });
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let now_ns = stack.now_ns();
    stack.with(|engine| engine.end_rest(now_ns));
    session.bus(BusOp::Clock(card.clock_hz)).await?;
    if let Some(sleep_ns) = sleep_ns {
        // A failure here also fails the waiting request, and that request starts the recovery.
        let _ = wake(session, sleep_ns).await;
    }
    core::mem::forget(begun);
    Ok(())
}
