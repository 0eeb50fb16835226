//! How requests leave the queue: sent, put back, completed by the card's status, ended.

use super::durability::Durability;
use super::order::Order;
use super::outcome::not_written;
use super::recover::Incident;
use super::slot::{Rules, Slots, State, bits};
use super::{Engine, Error, Output};
use crate::host::{Direction, Host};
use crate::sched::{Policy, Profile, Waiting};
use crate::spec::response::R1;

impl<P: Profile> Order<P> {
    /// Returns a request as the policy sees it; `None`: requests are not reported to the policy.
    pub fn view<const N: usize>(&self, slots: &Slots<N>, index: u8) -> Option<Waiting> {
        if P::Policy::IN_ORDER { None } else { slots.waiting(index) }
    }

    /// Takes a request out of the queue without sending it, and tells the policy.
    pub fn withdraw<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8) {
        if let Some(waiting) = self.view(slots, index) {
            self.policy_mut().cancelled(&waiting);
        }
        slots.unlink(index);
    }

    /// Ends a waiting request with this error; it is never sent.
    #[cold]
    #[inline(never)]
    pub fn turn_down<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8, error: Error) {
        self.withdraw(slots, index);
        slots.end_with(index, Err(error));
    }

    /// Makes a request, or the part of it that is still to be sent, the oldest again.
    pub fn push_front<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8, now_ns: u64) {
        slots.push_front(index);
        self.note_arrived(slots, index, now_ns);
    }

    /// Takes a request back that the card or the controller had, and has not begun: it waits again
    /// with its age, or ends with the result that is known. `gone`: the error if there is no card any
    /// more.
    pub fn take_back<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        index: u8,
        gone: Option<Error>,
        now_ns: u64,
    ) {
        self.note_done(slots, index, now_ns);
        let slot = slots.at(index);
        let is_forgotten = slot.orphan() && slot.direction() == Some(Direction::Read);
        match (slot.result(), gone) {
            (Err(error), _) | (Ok(_), Some(error)) => slots.end_with(index, Err(error)),
            (Ok(_), None) if is_forgotten => slots.end_with(index, Err(Error::Silent)),
            (Ok(_), None) => self.push_again(slots, index, now_ns),
        }
    }

    /// Puts a request back into the queue. Of two reads or writes on the same blocks the older one
    /// goes first again; other requests go to the front.
    pub fn push_again<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8, now_ns: u64) {
        if slots.at(index).span().is_none() {
            return self.push_front(slots, index, now_ns);
        }
        slots.push_by_age(index);
        self.note_arrived(slots, index, now_ns);
    }
}

impl<const N: usize> Slots<N> {
    /// Gives a request its result, when no part of the engine uses it any more.
    pub fn end_with(&mut self, index: u8, result: Result<Output, Error>) {
        self.at_mut(index).answer(result);
        self.end(index);
    }
}

impl Durability {
    /// Gives all writes that wait for a status this result.
    #[inline(always)]
    pub fn settled<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        incident: &mut Incident,
        order: &Order<P>,
        result: Result<(), Error>,
    ) {
        self.take_unsettled();
        incident.believe(slots.settling());
        for index in bits(slots.take_settling()) {
            if let Err(error) = result {
                slots.at_mut(index).answer(Err(error));
            } else if P::RECOVERS && slots.at(index).rules().has(Rules::FLUSH_AFTER) {
                slots.requeue_for_flush(index, order.policy().is_in_order());
                continue;
            } else {
                self.complete();
            }
            slots.end(index);
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Gives all earlier writes their result, by this status of the card.
    pub(super) fn settle(&mut self, status: u32) {
        // The test uses one mask, so a status without errors and events takes no more than that
        // test.
        let told = status & if P::RECOVERS { R1::DEFERRED | R1::EXCEPTION_EVENT } else { R1::DEFERRED };
        let bad = told & R1::DEFERRED;
        if bad != 0 && self.rewrite_suspects(bad) || self.lane.pack_keeps(status) {
            return;
        }
        if told != 0 {
            self.told_by_status(status);
        }
        self.durability.settled(
            &mut self.slots,
            &mut self.incident,
            &self.order,
            if bad != 0 { Err(not_written(status)) } else { Ok(()) },
        );
    }

    /// Handles a status that shows more than success.
    #[cold]
    #[inline(never)]
    pub(super) fn told_by_status(&mut self, status: u32) {
        if P::RECOVERS && status & R1::EXCEPTION_EVENT != 0 {
            self.supervisor.exception_seen(&mut self.timers);
        }
        if status & R1::DEFERRED != 0 {
            self.late_error(status);
        }
    }

    /// Finds the requests that a late programming error belongs to: those of the last transfer that
    /// are not complete. A request of which a part is still to be sent is one of them.
    #[cold]
    pub(super) fn late_error(&mut self, status: u32) {
        let mut owned = self.slots.is_settling();
        if P::RECOVERS && self.batch.direction() == Direction::Write && !self.lane.has_control() {
            for &index in self.batch.members() {
                let slot = self.slots.at_mut(index);
                // The rest of a request is queued, or under way again already.
                let goes_on = matches!(slot.state(), State::Active | State::Queued);
                if goes_on && slot.moved_blocks() != 0 {
                    slot.answer(Err(not_written(status)));
                    owned = true;
                }
            }
        }
        if !owned || self.durability.is_unsettled() {
            self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
        } else {
            self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        }
    }
}
