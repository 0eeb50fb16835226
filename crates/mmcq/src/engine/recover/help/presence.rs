//! Cards that come and go: a change of the card slot counts after it has been stable for a moment.

use super::super::super::blockers::Blockers;
use super::super::super::card::Card;
use super::super::super::supervisor::Supervisor;
use super::super::super::timers::Timers;
use super::ServiceRequest;
use crate::host::Host;
use crate::sched::Profile;

/// How long a card must be present, or absent, before the engine accepts the change.
const DEBOUNCE_NS: u64 = 50_000_000;
/// Pause in nanoseconds after a bring-up of the card has failed, before the next try. The pause
/// doubles with each try, up to [`RETRY_NS_MAX`].
const RETRY_NS: u64 = 100_000_000;
const RETRY_NS_MAX: u64 = 10_000_000_000;

impl Supervisor {
    /// Plans to report the card in the card slot to the supervisor again, after a pause twice as
    /// long as the one before it, `before_ns`.
    pub fn try_again_later(&mut self, timers: &mut Timers, before_ns: u64, now_ns: u64) {
        let retry_ns = before_ns.saturating_mul(2).clamp(RETRY_NS, RETRY_NS_MAX);
        self.helping_mut().retry_ns = retry_ns;
        timers.presence_at(now_ns.saturating_add(retry_ns));
    }

    /// Notes that a card has come or gone: the change counts when it has been stable for a moment.
    pub fn note_presence<H: Host, P: Profile>(
        &mut self,
        timers: &mut Timers,
        blockers: &mut Blockers<H, P>,
        now_ns: u64,
    ) {
        self.helping_mut().forget();
        self.helping_mut().retry_ns = 0;
        timers.presence_at(now_ns.saturating_add(DEBOUNCE_NS));
        blockers.refresh_help(self.helping(), timers);
    }

    /// Returns what the supervisor is asked for, now that the card slot has been stable; `present`:
    /// with a card in it. `None`: there is no supervisor, so the next one is told.
    pub fn stable_presence(
        &mut self,
        timers: &mut Timers,
        card: &mut Card,
        present: bool,
    ) -> Option<ServiceRequest> {
        timers.clear_presence();
        if !present {
            card.leave();
            // A task may have begun to wait for the card since the removal was noted.
            card.functions_mut().note_card_gone();
        }
        let there = self.helping().supervisor;
        self.helping_mut().untold = !there;
        there.then_some(if present { ServiceRequest::Inserted } else { ServiceRequest::Removed })
    }

    /// Stops waiting for a stable card slot: the program or the supervisor has reported which card
    /// is in it.
    pub fn settle_presence<H: Host, P: Profile>(
        &mut self,
        timers: &mut Timers,
        blockers: &mut Blockers<H, P>,
    ) {
        let helping = self.helping_mut();
        helping.untold = false;
        if core::mem::take(&mut helping.retry_ns) != 0 {
            timers.clear_presence();
            blockers.refresh_help(self.helping(), timers);
        }
    }
}
