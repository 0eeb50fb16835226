//! Rest of an unused card: its clock stops, or the eMMC sleeps, until the next request
//! [eMMC 6.6.21].
//!
//! The supervisor puts the card to rest when the engine reports that nothing has used it for a
//! while. Requests that come meanwhile wait in the queue, and the supervisor wakes the card first.
//! They wait for the time of one change of the clock; for a sleeping eMMC also of CMD5, CMD7 and
//! CMD13.

use super::power::{fall_asleep, wake};
use super::session::{Failed, Session};
use super::{Card, Family, supervise};
use crate::engine::{DmaBuf, Kind, Request};
use crate::host::BusOp;
use crate::sched::Profile;
use crate::task::{Platform, Stack};
use core::future::poll_fn;
use core::task::Poll;

/// What is switched off while nothing uses the card ([`Upkeep::rest`](super::Upkeep::rest)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// No rest.
    #[default]
    Never,
    /// The SD clock stops, after a pause of `after_ns`.
    ClockOff {
        /// The pause.
        after_ns: u64,
    },
    /// After a pause of `after_ns` an eMMC's cache is flushed, the eMMC sleeps, and the clock
    /// stops. SD cards have no sleep: only their clock stops. If the supervisor is dropped while an
    /// eMMC sleeps, the engine has no card until [`bring_up`](super::bring_up).
    Sleep {
        /// The pause.
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

/// A rest that has begun. If it is dropped half-way, it leaves the card usable, or takes the card
/// from the engine.
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
            // All slots are taken: nothing is to be sent to a card without a clock.
            self.stack.with(|engine| engine.set_card_params(None));
        }
    }
}

/// Lets the card rest until a request comes, then wakes it. If the card does not wake, that request
/// fails, and recovery starts.
pub(super) async fn until_needed<B: Platform, const N: usize>(
    session: &mut Session<'_, B, N>,
    rest: Rest,
    card: &Card,
) -> Result<(), Failed> {
    let stack = session.stack;
    let mut begun = Begun { stack, clock_hz: card.clock_hz, asleep: false };
    let sleeps = matches!((rest, card.family), (Rest::Sleep { .. }, Family::Emmc(_)));
    let mut sleep_ns = None;
    if sleeps {
        // A device whose cache cannot be flushed stays awake: asleep it may lose its supply.
        supervise::flush(session).await?;
        begun.asleep = true;
        sleep_ns = fall_asleep(session).await.ok();
        begun.asleep = sleep_ns.is_some();
    }
    session.bus(BusOp::Clock(0)).await?;
    let now_ns = stack.now_ns();
    stack.with(|engine| engine.begin_rest(now_ns));
    // No alarm is needed from here on.
    stack.poll();
    poll_fn(|context| {
        // Cloned before the lock is taken, and the one before dropped after it.
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
        // What fails here fails again for the request that waits, which has the ladder of recovery.
        let _ = wake(session, sleep_ns).await;
    }
    core::mem::forget(begun);
    Ok(())
}
