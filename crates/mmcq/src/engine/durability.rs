//! What the engine still owes for writes that are complete (its *debts*). There are three: a status
//! that has not come, a flush that has not been made, and an error or loss that no flush has
//! reported.
//!
//! A write whose slot is still in use has its result in the slot
//! ([`State::Settling`](super::slot::State)). The debts in this module belong to no slot any more:
//! the next flush reports them.

use super::batch::Batch;
use super::blockers::Blockers;
use super::card::Card;
use super::outcome::not_written;
use super::record::Record;
use super::slot::{Rules, Slots};
use super::{Acknowledge, Config};
use crate::host::{Direction, Host};
use crate::sched::Profile;

/// Flag: blocks were changed since the last flush.
const DIRTY: u8 = 1;
/// Flag: writes were completed, and no status has come since.
const UNSETTLED: u8 = 1 << 1;
/// Flag: since the last flush, requests that have changed the card's content were completed.
const HOLDS: u8 = 1 << 2;

/// Flag: a piece of a longer write was transferred, and no status of the card has come since.
const PIECE: u8 = 1 << 3;
/// Flag: a request that is bound to no card has changed blocks of this card.
const UNBOUND: u8 = 1 << 4;

/// State of the writes that were reported complete, and what they still need: a status of the card,
/// a flush, or an error that the next flush must report. The description of the module explains each.
#[derive(Debug)]
pub(super) struct Durability {
    /// The flags [`DIRTY`], [`UNSETTLED`], [`HOLDS`], [`PIECE`] and [`UNBOUND`], one bit each.
    flags: u8,
    /// Whether writes were lost with a cache, and no flush has reported it.
    lost: bool,
    /// The status with an error that the card reported after its write was complete, and that no
    /// flush has reported to a client; 0: there is none.
    late: u32,
    /// Number of times so far that written data were lost, or that an error came after its write
    /// was complete. Only the low eight bits are stored.
    losses: u8,
}

impl Durability {
    pub const CLEAN: Durability = Durability { flags: 0, lost: false, late: 0, losses: 0 };

    /// Notes that a request is sent to the card. `changes`: the request changes blocks in the
    /// card's cache, so that a flush is needed. Writes that bypass the cache do not count.
    #[inline(always)]
    pub fn note_change(&mut self, changes: bool) {
        self.flags |= u8::from(changes) * DIRTY;
    }

    pub fn is_dirty(&self) -> bool {
        self.flags & DIRTY != 0
    }

    /// Returns whether all complete changes are on the medium, and no loss or error is left to
    /// report.
    pub fn is_settled(&self) -> bool {
        self.flags & (DIRTY | UNSETTLED | HOLDS) == 0 && !self.lost && self.late == 0
    }

    /// Returns whether writes or other changes have been completed on the card since the last
    /// flush. If so, a later error of the card may belong to one of them.
    pub fn holds(&self) -> bool {
        self.flags & HOLDS != 0
    }

    /// Notes that the card has flushed all the data that it was given.
    pub fn clear_dirty(&mut self) {
        self.flags &= !(DIRTY | HOLDS);
    }

    /// Notes that the changes of the card so far (writes, erases) are complete, so that a later
    /// error may belong to them.
    #[inline(always)]
    pub fn complete(&mut self) {
        self.flags |= (self.flags & DIRTY) * HOLDS;
    }

    /// Notes, if `written` is true, that writes are complete although their status is still to
    /// come.
    pub fn mark_unsettled(&mut self, written: bool) {
        self.flags |= u8::from(written) * (UNSETTLED | HOLDS);
    }

    #[inline(always)]
    pub fn is_unsettled(&self) -> bool {
        self.flags & UNSETTLED != 0
    }

    /// Returns whether complete writes still wait for the status that shows their result, and
    /// clears this flag. Called when the status has come, or when another part of the engine waits
    /// for it.
    pub fn take_unsettled(&mut self) -> bool {
        let owed = self.is_unsettled();
        self.flags &= !UNSETTLED;
        owed
    }

    /// Notes that a piece of a write has been transferred, while the status that shows its result
    /// is still to come. The rest of the write waits in the queue.
    pub fn mark_piece(&mut self) {
        self.flags |= PIECE;
    }

    /// Returns whether blocks of an unfinished write were transferred and their status has not come
    /// yet. Clears this note.
    pub fn take_piece(&mut self) -> bool {
        let owed = self.flags & PIECE != 0;
        self.flags &= !PIECE;
        owed
    }

    /// Notes that a status of the card has come. It shows the result of all earlier writes, also of
    /// unfinished writes whose first blocks were transferred.
    #[inline(always)]
    pub fn note_status(&mut self) {
        self.flags &= !(UNSETTLED | PIECE);
    }

    /// Returns whether the card's status is still to be read for complete writes, or for the
    /// transferred parts of a long write, and no slot waits for it.
    pub fn owes_without_slot(&self) -> bool {
        self.flags & (UNSETTLED | PIECE) != 0
    }

    /// Keeps an error that came after its write was complete: the next flush reports it.
    pub fn owe(&mut self, status: u32) {
        self.losses = self.losses.wrapping_add(1);
        self.owe_again(status);
    }

    /// Stores the status of a late error (an error of an earlier write) again, because the flush
    /// that should report it was dropped. The next flush reports it. The error is not counted
    /// again.
    pub fn owe_again(&mut self, status: u32) {
        self.late = status;
    }

    /// Notes again that the card has lost acknowledged writes: the client that was to get this
    /// error has gone, so the next flush reports it.
    pub fn owe_loss(&mut self) {
        self.lost = true;
    }

    /// Returns whether the card has lost acknowledged writes and no client knows it yet. Clears
    /// this mark, because the caller reports the loss to a client that asks for durability.
    pub fn take_loss(&mut self) -> bool {
        let lost = self.lost;
        self.lost = false;
        lost
    }

    /// Returns whether the card has lost acknowledged writes and no client has been told yet.
    pub fn owes_loss(&self) -> bool {
        self.lost
    }

    /// Takes the status bits of a late error (an error of a write that was complete already), for
    /// the one flush that reports it; `None`: there is none.
    pub fn take_late(&mut self) -> Option<u32> {
        Some(core::mem::take(&mut self.late)).filter(|&status| status != 0)
    }

    /// Notes that the card has lost power, and a volatile cache with it. Returns true if data were
    /// lost. `cached`: the card has a volatile cache. `streamed`: a transfer was open whose
    /// complete writes had no status yet.
    pub fn note_supply_loss(&mut self, cached: bool, streamed: bool) -> bool {
        let cached = self.is_dirty() && cached;
        self.clear_dirty();
        // A card without power owes no status any more, whatever else was lost with it.
        let unsettled = self.take_unsettled();
        let lost = cached || streamed || unsettled;
        if lost {
            self.losses = self.losses.wrapping_add(1);
            self.lost = true;
            self.late = 0;
        }
        lost
    }

    /// Notes that no status will show any more whether complete writes succeeded: they count as
    /// lost.
    #[cold]
    pub fn lose_status(&mut self) {
        self.take_piece();
        if self.take_unsettled() {
            self.losses = self.losses.wrapping_add(1);
            self.lost = true;
        }
    }

    pub fn losses(&self) -> u8 {
        self.losses
    }

    /// Notes that a request which is bound to no card changes blocks.
    #[inline(always)]
    pub fn note_unbound(&mut self) {
        self.flags |= UNBOUND;
    }

    /// Notes that the next card is in the slot. What a card before it has lost is reported to a
    /// client that is bound to no card, if one wrote there. All others get [`Error::Changed`](super::Error::Changed).
    pub fn begin_card(&mut self) {
        if self.flags & UNBOUND == 0 {
            (self.lost, self.late) = (false, 0);
        }
        // What is still to be reported stays so over further exchanges.
        if !self.lost && self.late == 0 {
            self.flags &= !UNBOUND;
        }
    }

    /// Clears two facts: that the card's status must be read after writes, and the error of an
    /// earlier write. Called in firmware whose profile has no recovery, and so reports no lost
    /// writes.
    pub fn forget(&mut self) {
        self.note_status();
        self.late = 0;
    }

    /// Returns whether the card's status has to be read. Requests wait for it, or are complete
    /// without it, or the first blocks of an unfinished write were transferred without it.
    #[inline(always)]
    pub fn owes_status<const N: usize>(&self, slots: &Slots<N>) -> bool {
        slots.is_settling() || self.owes_without_slot()
    }

    /// Stores an error of the card that belongs to a write which was already reported complete. The
    /// next flush reports this error. `status`: the R1 with the error bits.
    #[cold]
    pub fn owe_late<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        record: &mut Record,
        card: &Card,
        status: u32,
    ) {
        record.late_error_unowned();
        self.owe(status);
        if P::RECOVERS && self.may_lose(card) {
            slots.fail_begun(not_written(status));
        }
    }

    /// Completes a write before its status has come; no request waits for that status.
    pub fn end_early<H: Host, const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        blockers: &mut Blockers<H, P>,
        index: u8,
    ) {
        slots.end(index);
        self.mark_unsettled(true);
        blockers.close_fast();
    }

    /// Returns whether the engine asks for the status of earlier writes by a CMD13 of its own, as
    /// soon as no other command is sent. False if all these writes are complete already
    /// ([`Acknowledge::Transferred`]): then the response of the next command shows the status early
    /// enough.
    #[inline(always)]
    pub fn asks_soon<const N: usize, P: Profile>(&self, slots: &Slots<N>, config: &Config) -> bool {
        slots.is_settling() || self.is_unsettled() && !config.tells_transferred::<P>()
    }
}

impl<const N: usize> Slots<N> {
    /// Returns whether the write in slot `index` may be complete as soon as its data are over. That
    /// holds if the settings allow it, and the write is not durable and has not failed before.
    pub fn is_told_early<P: Profile>(&self, config: &Config, index: u8) -> bool {
        let slot = self.at(index);
        config.tells_transferred::<P>()
            && slot.rules() == Rules::NONE
            && !slot.redone()
            && slot.result().is_ok()
    }
}

impl<const N: usize> Batch<N> {
    /// Returns whether the transfer consists of writes that may all be reported complete when their
    /// data are transferred, before the card's status is known.
    pub fn are_told_early<P: Profile>(&self, slots: &Slots<N>, config: &Config) -> bool {
        let (write, blocks) = (self.direction() == Direction::Write, self.blocks());
        let whole = |index: u8| slots.at(index).span().is_some_and(|(_, _, left)| left <= blocks);
        let mut members = self.members().iter();
        write
            && config.tells_transferred::<P>()
            && members.all(|&at| slots.is_told_early::<P>(config, at) && whole(at))
    }
}

impl Config {
    /// Returns whether ordinary writes are reported as complete as soon as their data are
    /// transferred, before the card's status shows that they were programmed.
    #[inline(always)]
    pub(super) fn tells_transferred<P: Profile>(&self) -> bool {
        P::RECOVERS && self.acknowledge == Acknowledge::Transferred
    }
}
