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
use super::super::record::Record;
use super::super::recover::Incident;
use super::super::slot::{Slots, State, bits};
use super::super::{Error, FlushBy, Kind};
use super::RecoveryStep;
use crate::host::Direction;
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

    /// Forgets that the write of slot `index` is in doubt or must be written once more, because the
    /// client has dropped the request.
    pub fn give_up(&mut self, index: u8) {
        let others = !(1 << index);
        self.redo &= others;
        self.doubted &= others;
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
