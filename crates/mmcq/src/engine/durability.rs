//! What the engine owes for writes that are complete: the status that has not come, the flush that
//! has not been made, the error and the loss that no flush has been told.
//!
//! A write whose slot is still held has its result there ([`State::Settling`](super::slot::State)).
//! What is here has no slot any more: the next flush is its owner.

use super::outcome::not_written;
use super::phases::Stage;
use super::slot::Rules;
use super::timers::later;
use super::{Acknowledge, Engine};
use crate::host::{Direction, Host};
use crate::sched::Profile;

/// A card that no command goes to for so long is asked how the writes went that are complete
/// already.
const ASK_AFTER_NS: u64 = 1_000_000;

/// Something was changed since the last flush.
const DIRTY: u8 = 1;
/// Writes were completed of which no status has come since.
const UNSETTLED: u8 = 1 << 1;
/// Of what was changed since the last flush, something is complete.
const HOLDS: u8 = 1 << 2;

/// The debts.
#[derive(Debug)]
pub(super) struct Durability {
    /// [`DIRTY`], [`UNSETTLED`], [`HOLDS`].
    flags: u8,
    /// Writes were lost with a cache, and no flush has been told.
    lost: bool,
    /// The status of a late error that no flush has been told; 0: there is none.
    late: u32,
    /// Losses and late errors so far, the low bits.
    losses: u8,
}

impl Durability {
    pub const CLEAN: Durability = Durability { flags: 0, lost: false, late: 0, losses: 0 };

    /// Notes what changes blocks in the card's cache, if this does. Whatever goes to the card by
    /// whichever lane is noted here. What goes past the cache is none of it.
    #[inline(always)]
    pub fn note_change(&mut self, changes: bool) {
        self.flags |= u8::from(changes) * DIRTY;
    }

    pub fn is_dirty(&self) -> bool {
        self.flags & DIRTY != 0
    }

    /// Is all that was complete on the medium, and everything told that is to be told?
    pub fn is_settled(&self) -> bool {
        self.flags & (DIRTY | UNSETTLED | HOLDS) == 0 && !self.lost && self.late == 0
    }

    /// Are there complete changes, so that an error may be theirs?
    pub fn holds(&self) -> bool {
        self.flags & HOLDS != 0
    }

    /// Notes that the card has flushed what it was given.
    pub fn clear_dirty(&mut self) {
        self.flags &= !(DIRTY | HOLDS);
    }

    /// A change is complete.
    #[inline(always)]
    pub fn complete(&mut self) {
        self.flags |= (self.flags & DIRTY) * HOLDS;
    }

    /// Notes whether writes are complete while their status is still to come.
    pub fn mark_unsettled(&mut self, written: bool) {
        self.flags |= u8::from(written) * (UNSETTLED | HOLDS);
    }

    #[inline(always)]
    pub fn is_unsettled(&self) -> bool {
        self.flags & UNSETTLED != 0
    }

    /// A status has come, or its writes have another owner now. True: one was owed.
    pub fn take_unsettled(&mut self) -> bool {
        let owed = self.is_unsettled();
        self.flags &= !UNSETTLED;
        owed
    }

    /// An error came too late for its owner: the next flush is told.
    pub fn owe(&mut self, status: u32) {
        self.losses = self.losses.wrapping_add(1);
        self.owe_again(status);
    }

    /// A late error was told to a flush that was given up: the next is told.
    pub fn owe_again(&mut self, status: u32) {
        self.late = status;
    }

    /// A loss was told to a flush that was given up: the next is told.
    pub fn owe_loss(&mut self) {
        self.lost = true;
    }

    /// A request that asks for durability is told of a loss, once. True: there was one.
    pub fn take_loss(&mut self) -> bool {
        let lost = self.lost;
        self.lost = false;
        lost
    }

    /// Is a loss still to be told?
    pub fn owes_loss(&self) -> bool {
        self.lost
    }

    /// A flush is told of a late error, once.
    pub fn take_late(&mut self) -> Option<u32> {
        Some(core::mem::take(&mut self.late)).filter(|&status| status != 0)
    }

    /// Notes that the card has lost its supply, and with it a volatile cache. True: something was
    /// lost.
    pub fn note_supply_loss(&mut self, cached: bool, streamed: bool) -> bool {
        let cached = self.is_dirty() && cached;
        self.clear_dirty();
        // The card that owed a status owes none any more, whatever else was lost with it.
        let unsettled = self.take_unsettled();
        let lost = cached || streamed || unsettled;
        if lost {
            self.losses = self.losses.wrapping_add(1);
            self.lost = true;
            self.late = 0;
        }
        lost
    }

    pub fn losses(&self) -> u8 {
        self.losses
    }

    /// Lean firmware tells no loss.
    pub fn forget(&mut self) {
        self.take_unsettled();
        self.late = 0;
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// How often complete writes were lost, or failed when they had no owner any more: the number's
    /// low bits. The next flush is told of each, and only that one; a client that shares the card
    /// compares this number with the one at its own flush before.
    pub fn losses(&self) -> u8 {
        self.durability.losses()
    }

    /// The card is to be asked how writes went: their requests wait for it, or are complete without
    /// it.
    #[inline(always)]
    pub(super) fn owes_status(&self) -> bool {
        self.slots.is_settling() || self.durability.is_unsettled()
    }

    /// A status is owed, and is asked for as soon as nothing else goes. If all that it is owed for
    /// is complete ([`Acknowledge::Transferred`]), the next command tells it soon enough.
    #[inline(always)]
    pub(super) fn asks_soon(&self) -> bool {
        self.slots.is_settling() || self.durability.is_unsettled() && !self.tells_transferred()
    }

    /// Puts off the question for a status that is owed while the queue is empty, and wakes the
    /// engine for it. False: it is asked for now.
    pub(super) fn postpone_status(&mut self, now_ns: u64) -> bool {
        if self.asks_soon() || !self.blockers.is_running() {
            return false;
        }
        let at_ns = later(self.bus.last().map_or(0, |last| last.ended_ns), ASK_AFTER_NS);
        if now_ns < at_ns {
            self.timers.wake_by(at_ns);
        }
        now_ns < at_ns
    }

    /// Writes are complete with their data.
    #[inline(always)]
    pub(crate) fn tells_transferred(&self) -> bool {
        P::RECOVERS && self.config.acknowledge == Acknowledge::Transferred
    }

    /// Asks whether this write may be complete with its data: nothing more is promised of it, and
    /// it has failed at nothing.
    pub(super) fn is_told_early(&self, index: u8) -> bool {
        let slot = self.slots.at(index);
        self.tells_transferred() && slot.rules() == Rules::NONE && !slot.redone() && slot.result().is_ok()
    }

    /// All of the collected writes may be complete with their data.
    pub(super) fn are_told_early(&self) -> bool {
        let (write, blocks) = (self.batch.direction() == Direction::Write, self.batch.blocks());
        let whole = |index: u8| self.slots.at(index).span().is_some_and(|(_, _, left)| left <= blocks);
        let mut members = self.batch.members().iter();
        write && self.tells_transferred() && members.all(|&at| self.is_told_early(at) && whole(at))
    }

    /// The data of a transfer are over, and the card programs. If all of its writes may be complete
    /// now, they are. False: one has to wait.
    pub(super) fn tell_early(&mut self, now_ns: u64) -> bool {
        if !self.are_told_early() {
            return false;
        }
        self.note_told(now_ns);
        // Before anything is changed: a policy may panic.
        self.lane.enter(Stage::Idle);
        self.release_members(true, now_ns);
        // Their slots may be others' before the busy is over.
        self.batch.forget();
        true
    }

    /// Completes a write whose status is owed to no request any more.
    pub(super) fn end_early(&mut self, index: u8) {
        self.slots.end(index);
        self.durability.mark_unsettled(true);
        self.close_fast();
    }

    /// An error that no write waits for: the next flush is to tell it.
    #[cold]
    pub(super) fn owe_late(&mut self, status: u32) {
        self.record.late_error_unowned();
        self.durability.owe(status);
        if P::RECOVERS && self.may_lose() {
            self.slots.fail_begun(not_written(status));
        }
    }
}
