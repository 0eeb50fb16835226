//! Supervisors (the futures that help the engine to recover) that come and go: how one is
//! dismissed, and which waker the engine reports when it needs help.

use super::super::super::Engine;
use super::super::super::timers::NEVER;
use super::{Resting, ServiceRequest};
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Ends the supervisor, which then returns [`Event::Dismissed`](crate::card::Event::Dismissed)
    /// and its scratch memory. Returns false if the supervisor is working, or there is none; try
    /// again later. The supervisor ends when it is polled next, so wake it.
    pub fn dismiss_supervisor(&mut self) -> bool {
        let free = self.supervisor.helping().supervisor && self.supervisor.helping().asked.is_none();
        if P::RECOVERS && self.supervisor.helping().rests() {
            // First the supervisor has to wake the card.
            self.supervisor.helping_mut().rest = Resting::Over;
            self.timers.wake_now();
        }
        if P::RECOVERS && free {
            let helping = self.supervisor.helping_mut();
            (helping.asked, helping.taken, helping.dismissed) =
                (Some(ServiceRequest::Dismissed), false, true);
            // The time limit of earlier requests does not hold for this one.
            self.timers.help_until(NEVER);
            self.blockers.close_fast();
            self.card.functions_mut().note_card_gone();
        }
        free
    }

    /// Sets the waker to call when help is needed; the engine itself wakes nothing. While a waker
    /// is set (and after [`take_service_request`](Self::take_service_request)) the engine waits for
    /// help, and keeps one slot free for urgent requests. `None`: there is no supervisor any more.
    /// Returns the waker that is not used any more, to be dropped outside of any lock.
    #[must_use = "to be dropped outside of any lock"]
    pub(crate) fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        if !P::RECOVERS {
            return waker;
        }
        self.supervisor.helping_mut().supervisor = waker.is_some();
        if waker.is_some() && core::mem::take(&mut self.supervisor.helping_mut().untold) {
            // The new supervisor is told what is in the card slot.
            self.timers.presence_at(0);
            self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
            self.timers.wake_now();
        }
        let left = waker.is_none() && self.supervisor.helping().asked.is_some();
        // A request that this supervisor has taken and not answered goes to the next supervisor.
        self.supervisor.helping_mut().taken &= !left;
        if left
            && matches!(
                self.supervisor.helping().asked,
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
            let helping = self.supervisor.helping_mut();
            helping.dismissed &= helping.asked != Some(ServiceRequest::Dismissed);
            helping.forget();
            self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        }
        if left && self.lane.is_idle() {
            // The next poll, which knows the time, continues, or limits how long the engine still
            // waits for help.
            self.timers.wake_now();
        }
        self.blockers.close_fast();
        // Without a supervisor no slot is reserved.
        let kept = u8::from(waker.is_some());
        self.blockers.limit(self.config.admitted.min((N as u8).saturating_sub(kept).max(1)));
        core::mem::replace(&mut self.supervisor.helping_mut().waker, waker)
    }

    /// Takes the supervisor's waker if the supervisor has to be woken: the engine needs its help,
    /// or the card's rest (sleep or stopped clock) is over. Otherwise returns `None`.
    pub(crate) fn take_service_waker(&mut self) -> Option<Waker> {
        if self.supervisor.helping().calls() { self.supervisor.helping_mut().waker.take() } else { None }
    }
}
