//! Results around a failed transfer: which pieces count as done, and which request reports a loss.
//!
//! The pieces of a request that ended well before the failure are *kept* (`moved_blocks`). Nothing
//! of the failed transfer itself is kept. For a read, no host reports how many of its blocks were
//! good. For a write, ACMD22 of SD cards would report it, but its answer needs memory that may be
//! missing. Writing the same blocks again is as good. If a block fails in every try, the search for
//! the bad block finds it, and `done_bytes` is exact.
//!
//! The one response with the result of earlier writes may be *lost*: the card clears the bits when
//! it has sent them. Writes whose buffers are still there are then written again. The data of
//! writes that were complete, in a cache or an open transfer, no longer exist: the next flush
//! reports the loss.

use super::super::batch::Batch;
use super::super::card::Card;
use super::super::lane::Lane;
use super::super::order::Order;
use super::super::outcome::not_written;
use super::super::record::Record;
use super::super::recover::Incident;
use super::super::slot::{Slots, State, bits};
use super::super::{Engine, Error, FlushBy, Kind, SlotId};
use super::RecoveryStep;
use crate::host::{Direction, Host};
use crate::sched::{Lanes, Profile};
use crate::spec::response::R1;

impl<const N: usize> Batch<N> {
    /// Marks those writes of the batch of which earlier blocks were already sent in another
    /// transfer: they are written once more from their first block.
    pub fn restart_pieces(&mut self, slots: &mut Slots<N>) {
        if self.direction() != Direction::Write {
            return;
        }
        for &index in self.members() {
            let slot = slots.at_mut(index);
            if slot.state() == State::Active && slot.moved_blocks() != 0 && slot.result().is_ok() {
                slot.restart();
            }
        }
    }
}

impl Incident {
    /// Takes partly written writes out of the queue, and marks them to be written once more from
    /// their first block. A write that only waits for its flush stays as it is: its status has
    /// come, and younger writes of the same blocks may have followed it.
    #[cold]
    pub fn restart_waiting_pieces<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
    ) {
        for index in bits(slots.queued_writes()) {
            let slot = slots.at(index);
            if slot.moved_blocks() != 0 && slot.result().is_ok() && !slot.awaits_flush() {
                self.redo_waiting(slots, order, index);
            }
        }
    }

    /// Takes the write of slot `index` out of the queue, and marks it to be written once more:
    /// [`write_again`](Self::write_again) queues all its blocks.
    fn redo_waiting<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        index: u8,
    ) {
        order.withdraw(slots, index);
        slots.at_mut(index).await_rewrite();
        self.redo |= 1 << index;
    }

    /// Marks all writes whose status has not come yet: their result is unknown, so the engine
    /// writes them once more. Writes that were already written a second time end with an error.
    pub fn doubt<const N: usize>(&mut self, slots: &mut Slots<N>) {
        for index in bits(slots.take_settling()) {
            let slot = slots.at_mut(index);
            match slot.result() {
                Ok(_) if !slot.mark_rewritten() => {
                    self.redo |= 1 << index;
                    self.doubted |= 1 << index;
                }
                Ok(_) => slots.end_with(index, Err(Error::Program(R1::ERROR))),
                Err(error) => slots.end_with(index, Err(error)),
            }
        }
    }

    /// Puts the writes that must be written once more back into the queue, before everything else.
    pub fn write_again<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        now_ns: u64,
    ) {
        for index in bits(core::mem::take(&mut self.redo)) {
            slots.at_mut(index).restart();
            order.push_again(slots, index, now_ns);
        }
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the failed transfer is a read whose requests have not ended yet.
    pub fn read_failed<const N: usize>(&self, batch: &Batch<N>, slots: &Slots<N>) -> bool {
        !self.has_control()
            && batch.direction() == Direction::Read
            && batch.members().iter().any(|&index| slots.at(index).state() == State::Active)
    }

    /// Counts the step [`RecoveryStep::Salvage`] if some requests of the failed transfer have
    /// blocks that are transferred already, so that only their other blocks are sent again.
    pub fn salvage<const N: usize, P: Profile>(
        &mut self,
        batch: &Batch<N>,
        slots: &Slots<N>,
        incident: &mut Incident,
        record: &mut Record,
        now_ns: u64,
    ) {
        if !self.has_control() && batch.members().iter().any(|&index| slots.at(index).moved_blocks() != 0) {
            incident.climb::<P>(record, RecoveryStep::Salvage, now_ns);
        }
    }

    /// Restarts writes whose data a cache has lost: writes of which only a part was transferred,
    /// and a write that waits for the flush which makes it durable. Erases of which a part is done
    /// end with [`Error::CacheLost`], and so does a write if a later request has changed its blocks:
    /// to send the write again would replace later data.
    pub fn begin_again<const N: usize, P: Profile>(
        &mut self,
        incident: &mut Incident,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        card: &Card,
    ) {
        if self.has_control() {
            let control = self.control();
            match slots.is_covered(control) {
                true => slots.at_mut(control).answer(Err(Error::CacheLost)),
                false => slots.set_flush_after(control, false, false),
            }
        }
        if card.target().is_none_or(|target| matches!(target.flush, FlushBy::Status)) {
            return;
        }
        for index in 0..N as u8 {
            let slot = slots.at(index);
            let begun = slot.state() == State::Queued && slot.moved_blocks() != 0;
            match slot.kind() {
                Kind::Write { .. } if begun && !slots.is_covered(index) => {
                    incident.redo_waiting(slots, order, index);
                }
                Kind::Write { .. } if begun => order.turn_down(slots, index, Error::CacheLost),
                // The erased blocks may have been written since: they are not erased again.
                Kind::Erase { .. } if begun => order.turn_down(slots, index, Error::CacheLost),
                _ => {}
            }
        }
        if self.has_control() {
            let slot = slots.at_mut(self.control());
            if matches!(slot.kind(), Kind::Erase { .. }) && slot.moved_blocks() != 0 {
                slot.answer(Err(Error::CacheLost));
            }
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Decides the results of the writes that were sent before the failed transfer, after recovery
    /// has read the card's status. The status says whether the card has programmed them. If no
    /// status was read, the writes are sent once more; an engine without recovery fails them.
    pub(super) fn settle_pass(&mut self) {
        let status = self.incident.failed.status();
        if !P::RECOVERS {
            let known = if status == 0 { R1::ERROR } else { status };
            if self.lane.recovered_run::<H>(&mut self.durability) && known & R1::DEFERRED != 0 {
                self.durability.owe(known);
            }
            return if self.slots.is_settling() {
                self.settle(known)
            };
        }
        let lost = core::mem::take(&mut self.incident.status_lost) || status == 0;
        // An error of an earlier piece, or of one that has left the cache since.
        let told = status & (R1::ERROR | R1::CC_ERROR) != 0;
        // An error of the failed read is its own. Its response, if it came, has shown errors of
        // writes before.
        let own = self.lane.read_failed(&self.batch, &self.slots);
        if !own || status & R1::CARD_ECC_FAILED == 0 {
            self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        }
        // The protection error of a refused write is its own too.
        let writes = self.batch.direction() == Direction::Write && !self.lane.has_control();
        let failed = |&index: &u8| self.slots.at(index).state() == State::Active;
        let refused = writes && self.batch.members().iter().any(failed);
        let status = match (own, refused) {
            (true, _) => status & !R1::DEFERRED,
            (_, true) => status & !R1::WP_VIOLATION,
            _ => status,
        };
        let bad = status & R1::DEFERRED != 0;
        let unowned = self.lane.recovered_run::<H>(&mut self.durability);
        if unowned && (bad || lost) {
            self.durability.owe_late::<N, P>(
                &mut self.slots,
                &mut self.record,
                &self.card,
                if bad { status } else { R1::ERROR },
            );
        }
        if self.slots.is_settling() {
            if lost && !bad { self.incident.doubt(&mut self.slots) } else { self.settle(status) }
        }
        let piece = self.durability.take_piece();
        if piece && bad {
            self.slots.fail_begun_writes(not_written(status));
        } else if piece && lost {
            self.incident.restart_waiting_pieces(&mut self.slots, &mut self.order);
        }
        if lost || told {
            self.batch.restart_pieces(&mut self.slots);
        }
    }

    /// Handles a card that has lost its state (after a power loss or a reset): no status will show
    /// any more whether earlier writes succeeded. These writes are handled like writes whose status
    /// was lost on the bus.
    pub(super) fn settle_unknown(&mut self) {
        self.incident.status_lost = true;
        self.settle_pass();
    }

    /// Ends the request `id` because its memory goes out of scope, with an error if it has no
    /// result yet. If the controller still transfers its data, that transfer is stopped first.
    pub(in super::super) fn give_up_request(&mut self, id: SlotId, now_ns: u64) {
        let _ = self.cancel(id);
        self.take_from_card(id, now_ns);
        let slot = self.slots.at(id.index);
        if slot.generation() != id.generation {
            return;
        }
        match slot.state() {
            State::Queued => {
                self.order.turn_down(&mut self.slots, id.index, Error::Silent);
            }
            State::Settling => {
                let others = !(1 << id.index);
                self.slots.stop_settling(id.index);
                self.incident.redo &= others;
                self.incident.doubted &= others;
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

    /// Notes that the card's power was switched off, or that the card was reset: a volatile cache
    /// has lost the data that were not flushed.
    pub(in super::super) fn note_supply_loss(&mut self) {
        if !P::RECOVERS {
            self.lane.streams_mut().leave_open(None);
            self.durability.forget();
            return;
        }
        let cached = self.card.target().is_some_and(|target| !matches!(target.flush, FlushBy::Status));
        if self.durability.take_piece() {
            self.incident.restart_waiting_pieces(&mut self.slots, &mut self.order);
        }
        self.lane.begin_again(&mut self.incident, &mut self.slots, &mut self.order, &self.card);
        let streamed = self.lane.streams_mut().take_open().is_some_and(|open| open.owes());
        if self.durability.note_supply_loss(cached, streamed) {
            self.record.cache_lost();
        }
    }

    /// Notes that the supervisor has flushed the cache. Returns false if the engine did not wait
    /// for that flush, so that something may have been written since.
    pub(crate) fn note_flushed(&mut self) -> bool {
        let stopped = self.supervisor.helping().is_at_it();
        if stopped {
            self.durability.clear_dirty();
            // This flush served the durable writes that waited for one.
            for index in bits(self.slots.take_written()) {
                let result = self.slots.at(index).result();
                self.slots.end_with(index, result);
            }
        }
        stopped
    }
}
