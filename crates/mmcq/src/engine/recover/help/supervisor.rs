//! Supervisors (the futures that help the engine to recover) that come and go: how one is
//! dismissed, and which waker the engine reports when it needs help.

use super::super::super::blockers::Blockers;
use super::super::super::card::Card;
use super::super::super::supervisor::Supervisor;
use super::super::super::timers::{NEVER, Timers};
use super::{Resting, ServiceRequest};
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

impl Supervisor {
    /// Asks the supervisor to end, and the tasks of the card's functions with it. Returns false if
    /// the supervisor is working, or there is none.
    pub fn dismiss<H: Host, P: Profile>(
        &mut self,
        timers: &mut Timers,
        blockers: &mut Blockers<H, P>,
        card: &mut Card,
    ) -> bool {
        let helping = self.helping_mut();
        let free = helping.supervisor && helping.asked.is_none();
        if P::RECOVERS && helping.rests() {
            // First the supervisor has to wake the card.
            helping.rest = Resting::Over;
            timers.wake_now();
        }
        if P::RECOVERS && free {
            (helping.asked, helping.taken, helping.dismissed) =
                (Some(ServiceRequest::Dismissed), false, true);
            // The time limit of earlier requests does not hold for this one.
            timers.help_until(NEVER);
            blockers.close_fast();
            card.functions_mut().note_card_gone();
        }
        free
    }

    /// Sets the supervisor's waker; `None`: there is no supervisor any more. `idle`: nothing is in
    /// progress on the bus. Returns the waker that was set before.
    pub fn set_waker<H: Host, P: Profile>(
        &mut self,
        timers: &mut Timers,
        blockers: &mut Blockers<H, P>,
        waker: Option<Waker>,
        idle: bool,
    ) -> Option<Waker> {
        let helping = self.helping_mut();
        helping.supervisor = waker.is_some();
        if waker.is_some() && core::mem::take(&mut helping.untold) {
            // The new supervisor is told what is in the card slot.
            timers.presence_at(0);
            blockers.refresh_help(helping, timers);
            timers.wake_now();
        }
        let left = waker.is_none() && helping.asked.is_some();
        // A request that this supervisor has taken and not answered goes to the next supervisor.
        helping.taken &= !left;
        if left
            && matches!(
                helping.asked,
                Some(
                    ServiceRequest::Dismissed
                        | ServiceRequest::Rest
                        | ServiceRequest::Exception
                        | ServiceRequest::Background
                )
            )
        {
            // The card has no fault: the next supervisor does this work. A dismissed supervisor is
            // gone.
            helping.dismissed &= helping.asked != Some(ServiceRequest::Dismissed);
            helping.forget();
            blockers.refresh_help(helping, timers);
        }
        if left && idle {
            // The next poll, which knows the time, continues, or limits how long the engine still
            // waits for help.
            timers.wake_now();
        }
        blockers.close_fast();
        core::mem::replace(&mut helping.waker, waker)
    }

    /// Takes the supervisor's waker if the supervisor has to be woken.
    pub fn take_waker(&mut self) -> Option<Waker> {
        if self.helping().calls() { self.helping_mut().waker.take() } else { None }
    }
}
