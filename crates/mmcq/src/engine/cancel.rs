//! Requests that no client waits for any more, and their buffers.

use super::slot::State;
use super::{Claim, DmaBuf, Engine, Error, Kind, SlotId};
use crate::host::Host;
use crate::sched::Profile;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Takes a request back that the controller has got nothing of yet: it never goes out, and its
    /// memory returns as it was. `None`: it has begun or is over, or there is no such request;
    /// nothing is changed then, and its completion comes as ever. The number is all that is asked
    /// for: the caller answers for it that the request is its own.
    pub fn take_back(&mut self, id: SlotId) -> Option<DmaBuf> {
        let slot = self.slots.at(id.index);
        if slot.generation() != id.generation || slot.orphan() || !self.is_untouched(id.index) {
            return None;
        }
        self.withdraw(id.index);
        self.unmap(id.index);
        self.give_up(id.index)
    }

    /// Does it wait, with nothing done? A write of which a part has gone out, or that is made again
    /// because its fate is not known, is not half undone.
    fn is_untouched(&self, index: u8) -> bool {
        let slot = self.slots.at(index);
        slot.state() == State::Queued && slot.moved_blocks() == 0 && !(P::RECOVERS && slot.redone())
    }

    /// No client waits for this request any more. What the controller has not got yet is taken out;
    /// what it has got ends by itself, and its buffer comes back through
    /// [`reclaim`](Self::reclaim). Returns the buffer if it is free at once. A second call does
    /// nothing. The number is all that is asked for: the caller answers for it that the request is
    /// its own.
    pub fn cancel(&mut self, id: SlotId) -> Option<DmaBuf> {
        let slot = self.slots.at(id.index);
        // A client that has given it up before has no say any more: it may be queued again by then,
        // and ends by itself all the same.
        if slot.generation() != id.generation || slot.orphan() {
            return None;
        }
        match slot.state() {
            State::Queued if self.is_untouched(id.index) => {
                self.withdraw(id.index);
                self.unmap(id.index);
                self.wipe(id.index);
                self.give_up(id.index)
            }
            State::Done => {
                self.slots.forget_report(id.index);
                self.pass_on_untold(id.index);
                self.wipe(id.index);
                self.give_up(id.index)
            }
            State::Queued | State::Active | State::Kept | State::Settling | State::Ended => {
                let slot = self.slots.at_mut(id.index);
                slot.set_orphan();
                if slot.waker().is_some() {
                    self.slots.leave_waker(id.index);
                }
                None
            }
            State::Free | State::Lost => None,
        }
    }

    /// As [`cancel`](Self::cancel), for an owner that cannot take the buffer back now: it waits for
    /// [`reclaim`](Self::reclaim).
    pub fn abandon(&mut self, id: SlotId) {
        let Some(buf) = self.cancel(id) else { return };
        if !buf.owned() || buf.len_bytes() == 0 {
            return;
        }
        // `cancel` has just freed a slot, so there is one to keep the buffer in.
        if let Some(index) = self.slots.allocate() {
            self.slots.at_mut(index).keep(buf);
        }
    }

    /// A request without memory goes on to its end although its owner is gone; its result is
    /// dropped.
    pub(crate) fn detach(&mut self, id: SlotId) {
        let slot = self.slots.at_mut(id.index);
        if slot.generation() != id.generation {
            return;
        }
        match slot.state() {
            State::Free | State::Lost => {}
            State::Done => {
                self.slots.forget_report(id.index);
                self.slots.release(id.index);
            }
            _ => slot.set_orphan(),
        }
    }

    /// Leaves to the next flush what this one was to report of the writes before it, if no client
    /// has heard its result.
    #[cold]
    pub(super) fn pass_on_untold(&mut self, index: u8) {
        let slot = self.slots.at(index);
        match (slot.kind(), slot.result()) {
            (_, Err(Error::CacheLost)) if P::RECOVERS => self.durability.owe_loss(),
            (Kind::Flush, Err(Error::Program(status))) => self.durability.owe_again(status),
            _ => {}
        }
    }

    /// The client of a visit or a raw phase has gone: what it sent may be a secret (RPMB's key, a
    /// card's password), and stays in no memory.
    #[cold]
    pub(super) fn wipe(&mut self, index: u8) {
        let slot = self.slots.at_mut(index);
        if P::RECOVERS && matches!(slot.kind(), Kind::PartitionAccess(_) | Kind::Raw { .. }) {
            slot.wipe();
        }
    }

    pub(super) fn give_up(&mut self, index: u8) -> Option<DmaBuf> {
        let buf = self.slots.at_mut(index).take_buf();
        self.slots.release(index);
        Some(buf.unless_lent())
    }

    /// Requests that have this lent memory and are not over.
    fn lent(&self, memory: Claim) -> impl Iterator<Item = u8> + '_ {
        (0..N as u8).filter(move |&index| {
            let slot = self.slots.at(index);
            let over = matches!(slot.state(), State::Free | State::Done | State::Lost);
            !over && !slot.buf().owned() && slot.buf().claim() == memory
        })
    }

    /// Is this memory lent to a request that is not over?
    pub(crate) fn has_lent(&self, memory: Claim) -> bool {
        self.lent(memory).next().is_some()
    }

    /// The request that this memory is lent to, if there is one and no other.
    pub(crate) fn only_lent(&self, memory: Claim) -> Option<SlotId> {
        let mut lent = self.lent(memory);
        let only = lent.next().filter(|_| lent.next().is_none())?;
        self.id_of(only.into())
    }

    /// The buffer of this claim, if its request was cancelled while the controller had it, or
    /// abandoned, and has ended. Each client gets its own. It waits until a request finds no free
    /// slot but its own: then it is lost for good, and [`Stats::leaked`](super::Stats::leaked)
    /// counts it.
    pub fn reclaim(&mut self, claim: Claim) -> Option<DmaBuf> {
        let own = |&index: &u8| self.slots.at(index).buf().claim() == claim;
        let index = self.slots.with_state(State::Lost).find(own)?;
        self.give_up(index)
    }
}
