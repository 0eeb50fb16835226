//! How requests leave the queue: sent, put back, completed by the card's status, ended.

use super::durability::Durability;
use super::order::Order;
use super::recover::{Helping, Incident};
use super::slot::{Rules, Slots, bits};
use super::{Error, Output};
use crate::host::Direction;
use crate::sched::{Policy, Profile, Waiting};

impl<P: Profile> Order<P> {
    /// Returns the request in slot `index` in the form that the scheduling policy gets. `None`: the
    /// policy always picks the oldest request, and so gets no reports of requests.
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

    /// Ends one waiting request if all slots are in use and there is a supervisor, whose commands
    /// need a slot. Without `begun` the youngest request of which nothing was done yet is ended,
    /// with [`Error::Full`]. `begun` is the error of a transfer that has failed: if something was
    /// done of every request, the youngest of them is ended with this error.
    #[cold]
    pub fn make_room<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        helping: &Helping,
        begun: Option<Error>,
    ) {
        if !helping.has_supervisor() || !slots.is_full() {
            return;
        }
        let ended = match (slots.youngest_untouched(), begun) {
            (Some(index), None) => Some((index, Error::Full)),
            (None, Some(error)) => slots.youngest().map(|index| (index, error)),
            _ => None,
        };
        if let Some((index, error)) = ended {
            self.turn_down(slots, index, error);
        }
    }

    /// Makes the request of slot `index`, or the part of it that is still to be sent, the oldest
    /// again.
    pub fn push_front<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8, now_ns: u64) {
        slots.push_front(index);
        self.note_arrived(slots, index, now_ns);
    }

    /// Takes the request of slot `index` back from the card or the controller, which has not begun
    /// it. The request waits again, at the place that its age gives. It ends instead if it has an
    /// error already, if the card is gone (with the error `gone`), or if it is a read that no
    /// client waits for.
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
        slots.at_mut(index).note_tried();
        if slots.at(index).span().is_none() {
            return self.push_front(slots, index, now_ns);
        }
        slots.push_by_age(index);
        self.note_arrived(slots, index, now_ns);
    }
}

impl<const N: usize> Slots<N> {
    /// Ends the request in slot `index` with this result. No part of the engine uses the request
    /// any more.
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
        self.note_status();
        incident.believe(slots.settling());
        for index in bits(slots.take_settling()) {
            if let Err(error) = result {
                slots.at_mut(index).answer(Err(error));
            } else if P::RECOVERS
                && slots.at(index).rules().has(Rules::FLUSH_AFTER)
                && slots.at(index).result().is_ok()
            {
                slots.requeue_for_flush(index, order.policy().is_in_order());
                continue;
            } else {
                self.complete();
            }
            slots.end(index);
        }
    }
}
