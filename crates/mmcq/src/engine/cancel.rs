//! Requests that no client waits for any more, and their buffers.

use super::durability::Durability;
use super::phases::Stage;
use super::slot::{Slot, Slots, State};
use super::{Claim, DmaBuf, Engine, Error, Kind, SlotId};
use crate::host::Host;
use crate::sched::Profile;
use crate::sched::tasks::Why;

impl<const N: usize> Slots<N> {
    /// Returns whether the request waits, and none of its blocks can have changed on the card. A
    /// write of which a part was sent, or that must be repeated, may have changed blocks.
    pub fn is_untouched(&self, index: u8) -> bool {
        let slot = self.at(index);
        slot.state() == State::Queued && slot.moved_blocks() == 0 && !slot.redone() && !slot.tried()
    }

    pub fn give_up(&mut self, index: u8) -> Option<DmaBuf> {
        let buf = self.at_mut(index).take_buf();
        self.release(index);
        Some(buf.unless_lent())
    }

    /// Returns the requests that use this lent memory and have not ended.
    pub fn lent(&self, memory: Claim) -> impl Iterator<Item = u8> + '_ {
        (0..N as u8).filter(move |&index| {
            let slot = self.at(index);
            let over = matches!(slot.state(), State::Free | State::Done | State::Lost);
            !over && !slot.buf().owned() && slot.buf().claim() == memory
        })
    }

    /// Erases the memory of the request in slot `index`, if it is a partition access or a raw phase
    /// (a command that the client chose itself). Called for a request whose client has gone: the
    /// memory may hold a secret (RPMB's key, a card's password).
    #[cold]
    pub fn wipe(&mut self, index: u8) {
        let slot = self.at_mut(index);
        if matches!(slot.kind(), Kind::PartitionAccess(_) | Kind::Raw { .. }) {
            slot.wipe();
        }
    }
}

impl Durability {
    /// Handles the result of a request whose client has gone. If the result is the loss of the
    /// card's cache, or a late error that a flush has found, the next flush reports it to its
    /// client.
    #[cold]
    pub fn owe_untold(&mut self, slot: &Slot) {
        if let Err(error) = slot.result() {
            self.owe_error(matches!(slot.kind(), Kind::Flush), error);
        }
    }

    /// Handles the error of a request that has no client any more. `of_flush`: it was a flush, so
    /// that a late error is one of earlier writes.
    fn owe_error(&mut self, of_flush: bool, error: Error) {
        match error {
            Error::CacheLost => self.owe_loss(),
            Error::Program(status) if of_flush => self.owe_again(status),
            _ => {}
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Takes back the error of a flush whose caller reports something else to its client. The next
    /// flush reports the loss that the error stands for.
    pub(crate) fn take_back_error(&mut self, error: Error) {
        self.durability.owe_error(true, error);
    }

    /// Takes back a request of which the controller has got nothing yet: it is never sent, and its
    /// memory returns unchanged. Returns `None` and changes nothing if the request has begun, is
    /// over, or does not exist. The completion of a request that has begun comes as usual. Only the
    /// slot and its use are checked, not the client: the caller makes sure that the request is its
    /// own.
    pub fn take_back(&mut self, id: SlotId) -> Option<DmaBuf> {
        let slot = self.slots.at(id.index);
        if slot.generation() != id.generation || slot.orphan() || !self.slots.is_untouched(id.index) {
            return None;
        }
        self.order.withdraw(&mut self.slots, id.index);
        self.slots.unmap(self.bus.host_mut(), id.index);
        self.slots.give_up(id.index)
    }

    /// Cancels a request whose client has gone. If the request has not been sent to the controller,
    /// it leaves the queue. Otherwise it ends by itself, and [`reclaim`](Self::reclaim) returns its
    /// buffer. Returns the buffer if it is free at once. A second call does nothing. Only the slot
    /// and its use are checked, not the client: the caller makes sure that the request is its own.
    pub fn cancel(&mut self, id: SlotId) -> Option<DmaBuf> {
        let slot = self.slots.at(id.index);
        // A request that was cancelled before is not changed: it may be queued again by now, and
        // ends by itself.
        if slot.generation() != id.generation || slot.orphan() {
            return None;
        }
        match slot.state() {
            State::Queued if self.slots.is_untouched(id.index) => {
                self.order.withdraw(&mut self.slots, id.index);
                self.slots.unmap(self.bus.host_mut(), id.index);
                if P::RECOVERS {
                    self.slots.wipe(id.index);
                }
                self.slots.give_up(id.index)
            }
            State::Done => {
                self.slots.forget_report(id.index);
                self.durability.owe_untold(self.slots.at(id.index));
                if P::RECOVERS {
                    self.slots.wipe(id.index);
                }
                self.slots.give_up(id.index)
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

    /// Cancels a request as [`cancel`](Self::cancel) does, for an owner that cannot take the buffer
    /// back now: the buffer waits for [`reclaim`](Self::reclaim).
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

    /// Lets a request without memory run to its end, and drops its result: no client waits for it.
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

    /// Returns whether this memory is lent to a request that is not over.
    pub(crate) fn has_lent(&self, memory: Claim) -> bool {
        self.slots.lent(memory).next().is_some()
    }

    /// Returns the request to which a blocking call has lent this memory; `None`: there is none, or
    /// more than one.
    pub(crate) fn only_lent(&self, memory: Claim) -> Option<SlotId> {
        let mut lent = self.slots.lent(memory);
        let only = lent.next().filter(|_| lent.next().is_none())?;
        self.id_of(only.into())
    }

    /// Returns the buffer that this claim was made from, if its request was cancelled or abandoned
    /// and has ended. A client gets only its own buffer. The buffer waits until a request finds no
    /// other free slot: then it is lost for ever, and [`Stats::leaked`](super::Stats::leaked)
    /// counts it.
    pub fn reclaim(&mut self, claim: Claim) -> Option<DmaBuf> {
        let own = |&index: &u8| self.slots.at(index).buf().claim() == claim;
        let index = self.slots.with_state(State::Lost).find(own)?;
        self.slots.give_up(index)
    }

    /// Ends the request `id` because its memory goes out of scope, with an error if it has no
    /// result yet. If the controller still transfers its data, that transfer is stopped first.
    pub(super) fn give_up_request(&mut self, id: SlotId, now_ns: u64) {
        let _ = self.cancel(id);
        if self.slots.at(id.index).generation() != id.generation {
            return;
        }
        // A request that the command queue engine has ends by itself, or this engine is halted.
        let queued = !self.lane.engine_has_memory() && self.lane.tasks().is_some_and(|t| t.has(id.index));
        if queued {
            // The task waits on the card.
            self.call_back(now_ns);
            self.timers.wake_now();
        }
        let slot = self.slots.at(id.index);
        match slot.state() {
            State::Queued => {
                self.order.turn_down(&mut self.slots, id.index, Error::Silent);
            }
            State::Settling => {
                self.slots.stop_settling(id.index);
                self.incident.give_up(id.index);
                self.slots.end_with(id.index, Err(Error::Silent));
            }
            // The command queue engine has the request: its task ends by itself, or the command
            // queue engine is halted.
            State::Active if self.lane.engine_has(id.index) => {}
            // A policy has panicked when the end of this transfer was reported to it.
            State::Active if self.lane.is_idle() => self.slots.end_with(id.index, Err(Error::Silent)),
            State::Active => self.stop_transfer(now_ns),
            State::Free | State::Kept | State::Ended | State::Done | State::Lost => {}
        }
    }

    /// Stops the controller's DMA: the transfer in progress fails.
    pub(super) fn stop_transfer(&mut self, now_ns: u64) {
        if self.lane.is_idle() && self.lane.engine_has_memory() {
            self.take_tasks_away(Why::Silent, now_ns);
        } else if !matches!(self.lane.stage(), Stage::Idle | Stage::Bus | Stage::Pause | Stage::Recover(_)) {
            self.lane.fail(&mut self.incident, Error::Silent);
        }
    }
}
