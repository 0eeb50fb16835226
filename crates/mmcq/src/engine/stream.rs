//! Transfers that stay open over several requests: CMD18 or CMD25 once, then only data.
//!
//! A host that [can continue data](crate::host::Caps::continue_data) transfers the data of the next
//! request in the same open transfer, without CMD12, CMD13 and a new command. An open transfer
//! saves time in sequential runs, and costs a random load a CMD12 before the next command. So a
//! transfer is left open only for one of three reasons:
//!
//! - a request that continues it is queued;
//! - the next piece of a long request follows;
//! - the requests after earlier pauses show that keeping it open pays ([`worth`](super::worth));
//!   then it stays open for [`Config::hold_ns`](super::Config::hold_ns) at most.
//!
//! A request that does not continue an open transfer closes it at once. So does a chore or a rest
//! of the card that is due.
//!
//! Open transfers make writes less safe: a write in an open transfer is complete when the card has
//! taken its data, as with a volatile write cache. The status of the write comes with the CMD12 and
//! CMD13 (or the next command) after the close. An error in that status is the result of the
//! requests of the run that are not yet complete, and of one later flush. A flush closes the open
//! transfer before it begins.
//!
//! *Guarantee: the transfer may stay open for [`Config::owed_ns`](super::Config::owed_ns) after
//! the first such write, and until the data that are being transferred then are over. After that it
//! is closed, even if requests would continue it.* Reads are complete with their data: a card that
//! cannot read sends none [SD 4.3.3].
//!
//! Where the host cannot continue a transfer, or has failed to, each transfer is closed. With a
//! CMD23 of the host or the engine, it ends by itself.

use super::bus::{Bus, COMMAND_TIMEOUT_NS};
use super::card::Card;
use super::durability::Durability;
use super::lane::Lane;
use super::outcome::past_end;
use super::phases::{STOP_TIMEOUT_NS, Stage};
use super::record::Record;
use super::runs::{Close, End, Open};
use super::slot::NONE;
use super::timers::{Timers, later};
use super::{Engine, Error, StaysOpen};
use crate::host::{Auto, BusyDetect, Direction, Host};
use crate::sched::{Lanes, Profile};
use crate::spec::command;
use crate::spec::response::R1;

/// Largest number of blocks that the engine announces by CMD23. The count in an eMMC's CMD23 has 16
/// bits. That of an SD card has 32 bits, of which the engine uses 16.
const COUNT_MAX: u32 = 0xffff;

impl Card {
    pub fn stop_timeout_ns(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => STOP_TIMEOUT_NS,
            Direction::Write => self.target().map_or(STOP_TIMEOUT_NS, |t| t.write_timeout_ns),
        }
    }
}

impl<E, T: Lanes> Lane<E, T> {
    pub fn go_idle<H: Host>(&mut self, timers: &mut Timers, now_ns: u64) {
        self.streams_mut().note_ended::<H>(now_ns);
        self.set_idle();
        timers.clear();
    }

    /// Handles the failure of a phase. Returns true if the phase was to continue an open transfer
    /// without a new command; its requests are then tried again with a command.
    pub fn continue_failed<H: Host>(&mut self, bus: &Bus<H>, record: &mut Record, error: Error) -> bool {
        if !H::CONTINUES {
            return false;
        }
        let ours = self.stage() == Stage::Main && !self.has_control();
        let auto = bus.phase().auto;
        if !ours || matches!(error, Error::Removed) {
            return false;
        }
        if auto == Auto::Open && H::CONTINUES_BY_REQUEST {
            // A controller that cannot even begin an open transfer must not be asked for ever.
            self.streams_mut().failed_to_continue(false);
        }
        if auto != Auto::Continue {
            return false;
        }
        record.not_continued();
        record.closed(Close::Fault);
        self.streams_mut().failed_to_continue(matches!(error, Error::Unsupported));
        true
    }

    /// Forgets the open transfer (one that waits for requests that continue it) after a recovery.
    /// Returns true if the caller must read the card's status now: some writes were reported
    /// complete before their status was read. `ledger` keeps track of these writes.
    pub fn recovered_run<H: Host>(&mut self, ledger: &mut Durability) -> bool {
        let exposed = H::CONTINUES && self.streams_mut().take_open().is_some_and(|open| open.owes());
        // Complete writes of the open transfer are among those that a later error may belong to.
        ledger.mark_unsettled(exposed);
        ledger.take_unsettled()
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Decides how the transfer that the engine has collected (its batch) will end: with the last
    /// block of its requests, after a known number of blocks, or open for requests that continue
    /// it.
    pub(super) fn foresee(&mut self) -> End {
        if !self.lane.streams().can_continue(self.bus.host(), &self.config, &self.incident)
            || !self.blockers.is_running()
            || H::CARD_IRQ && self.card.functions().is_heard()
            || !self.batch.goes_on_in(self.bus.host())
        {
            return End::Here;
        }
        if self.card.target().is_none_or(|t| self.batch.end() >= t.sectors) {
            return End::Here;
        }
        let rest = self.batch.unfitted_blocks(&self.slots);
        if self.batch.queued_at(&self.slots, self.batch.end().saturating_add(u64::from(rest)))
            || self.lane.streams().stay_ns(self.batch.direction(), &self.config) > 0
        {
            return End::Unknown;
        }
        // A continued transfer, which has no command, ends without busy, also where the host sees
        // busy after data: a write is then better closed by CMD12.
        let write = self.batch.direction() == Direction::Write;
        let unseen = write && self.bus.host().caps().busy == BusyDetect::Interrupt;
        let counts = self.card.target().is_some_and(|t| t.count)
            && self.bus.counts(self.batch.direction())
            && !unseen
            && !self.bus.host().caps().open_until_stopped;
        match self.batch.blocks().saturating_add(rest) {
            _ if rest == 0 => End::Here,
            total if counts && total <= COUNT_MAX => End::After(total),
            _ => End::Unknown,
        }
    }

    /// Decides whether an open transfer stays open when its data are over. Returns the time in ns
    /// until which it may stay open, or why it is closed. `was`: the open transfer before these
    /// data; `None`: these data were its first.
    fn hold_or_close(&mut self, was: Option<Open>, now_ns: u64) -> Result<u64, Close> {
        if !self.lane.streams().can_continue(self.bus.host(), &self.config, &self.incident) {
            return Err(if self.lane.streams().may_continue() { Close::End } else { Close::Fault });
        }
        if self.bus.host().caps().open_until_stopped && self.bus.phase().auto == Auto::None {
            return Err(Close::End);
        }
        if self.bus.wire().is_doubted() {
            return Err(Close::Retune);
        }
        if self.card.target().is_none_or(|t| self.batch.end() >= t.sectors) {
            return Err(Close::Edge);
        }
        // A durable write is answered when the card has ended its transfer, and a request that must
        // be alone leaves nothing open.
        if self.batch.members().first().is_some_and(|&first| self.slots.stands_alone(first)) {
            return Err(Close::End);
        }
        if self.blockers.is_halted() {
            return Err(Close::Stop);
        }
        // A transfer whose length CMD23 has set ends soon by itself.
        if was.is_some_and(|open| open.counted == 0 && open.owed_by_ns(self.config.owed_ns) <= now_ns) {
            return Err(Close::Owed);
        }
        if self.batch.unfitted_blocks(&self.slots) > 0 || self.batch.queued_at(&self.slots, self.batch.end())
        {
            return Ok(now_ns);
        }
        let head = self.slots.head();
        if head != NONE && !self.lane.streams().prefers_pause(self.batch.direction(), &self.config) {
            return Err(if self.slots.at(head).span().is_some() { Close::Break } else { Close::Barrier });
        }
        match self.lane.streams().stay_ns(self.batch.direction(), &self.config) {
            _ if !self.blockers.is_running() => Err(Close::Stop),
            0 => Err(Close::End),
            // A chore, or a rest of the card, does not wait for an open transfer that no request
            // continues.
            hold_ns => Ok(later(now_ns, hold_ns).min(self.supervisor.quiet_chore_ns::<H, P>(
                &self.bus,
                &self.timers,
                &self.record,
            ))),
        }
    }

    /// Handles the end of the data of an open transfer (a CMD18 or CMD25 that is not ended on the
    /// card, so that the next request may continue it).
    pub(super) fn open_data_ended(&mut self, now_ns: u64) {
        let (direction, next) = (self.batch.direction(), self.batch.end());
        if H::CONTINUES && self.bus.phase().auto == Auto::Continue {
            self.lane.streams_mut().continued();
        }
        if !H::CONTINUES {
            return self.stop_alone(now_ns);
        }
        self.blockers.note_left_open();
        // An ordinary transfer that only lacks its CMD12 does not count as left open.
        let (was, end) = (self.lane.streams().open(), self.lane.streams().end());
        let left_open = was.is_some() || end != End::Stopped;
        let before = was.is_some_and(|open| open.owes());
        let announced = match (was, end) {
            (Some(open), _) => open.counted,
            (None, End::After(total)) => total,
            (None, _) => 0,
        };
        let counted = announced.saturating_sub(self.batch.blocks());
        if announced > 0 && counted == 0 {
            // The card ends the transfer by itself.
            self.lane.streams_mut().leave_open(None);
            self.durability.mark_unsettled(before);
            return self.data_ended(now_ns);
        }
        let mut open = Open { direction, next, told_ns: was.and_then(|open| open.told_ns), counted };
        match self.hold_or_close(was, now_ns) {
            Ok(until_ns) => {
                // A write of which blocks are still to be sent is not complete.
                if direction == Direction::Write && self.batch.unfitted_blocks(&self.slots) == 0 {
                    open.told_ns.get_or_insert(now_ns);
                }
                self.lane.streams_mut().leave_open(Some(open));
                self.timers.hold_until(until_ns.min(open.owed_by_ns(self.config.owed_ns)));
                self.end_transfer(None, now_ns);
            }
            // The data of a read are here: its clients need not wait for the end of the transfer.
            // Clients of writes that are complete with their data need not either.
            Err(reason)
                if direction == Direction::Read
                    || self.batch.are_told_early::<P>(&self.slots, &self.config) =>
            {
                if direction == Direction::Write {
                    open.told_ns.get_or_insert(now_ns);
                }
                self.lane.streams_mut().leave_open(Some(open));
                if left_open {
                    self.record.closed(reason);
                }
                self.stop_open(now_ns);
                self.release_members(false, now_ns);
            }
            // The client of the last write still waits: it gets the result that the end of the
            // transfer shows.
            Err(reason) => {
                self.lane.streams_mut().leave_open(None);
                self.durability.mark_unsettled(before);
                if left_open {
                    self.record.closed(reason);
                }
                self.stop_alone(now_ns);
            }
        }
    }

    /// Sends CMD12 to end a transfer whose requests wait for the result of this end: any transfer
    /// on a host that cannot keep transfers open, or an open transfer whose last write is not
    /// complete yet.
    fn stop_alone(&mut self, now_ns: u64) {
        self.lane.streams_mut().note_ending::<H>(self.batch.direction(), now_ns);
        let limit_ns = self.card.stop_timeout_ns(self.batch.direction());
        self.start_command(Stage::Stop, command::stop_transmission(), limit_ns, now_ns);
    }

    /// Returns why the open transfer (a CMD18 or CMD25 that later requests continue) must be closed
    /// now; `None`: it may stay open.
    pub(super) fn must_close(&self, now_ns: u64) -> Option<Close> {
        if !H::CONTINUES {
            return None;
        }
        let head = self.slots.head();
        if self.blockers.is_halted() || self.blockers.is_suspended() && head == NONE {
            return Some(Close::Stop);
        }
        if self.bus.wire().is_doubted() {
            return Some(Close::Retune);
        }
        if self.slots.oldest_io().is_some() || H::CARD_IRQ && self.card.functions().is_heard() {
            return Some(Close::Break);
        }
        if head != NONE {
            return self.slots.at(head).span().is_none().then_some(Close::Barrier);
        }
        self.timers.hold_is_over(now_ns).then(|| self.lane.streams().held_out(&self.config, now_ns))
    }

    /// Ends by CMD12 the transfer that was left open for a next request. Counts `reason`.
    pub(super) fn close(&mut self, reason: Close, now_ns: u64) {
        if !self.lane.streams().is_open() {
            return;
        }
        self.record.closed(reason);
        if matches!(reason, Close::Break | Close::Barrier | Close::Memory) {
            let head = self.slots.head();
            let arrived_ns = if head == NONE { now_ns } else { self.slots.at(head).arrived_ns() };
            self.lane.streams_mut().break_run(arrived_ns, self.config.hold_ns);
        }
        self.stop_open(now_ns);
    }

    fn stop_open(&mut self, now_ns: u64) {
        let Some(open) = self.lane.streams().open() else { return };
        self.lane.streams_mut().note_ending::<H>(open.direction, now_ns);
        self.lane.busy_mut().not_asked();
        let limit_ns = self.card.stop_timeout_ns(open.direction).max(COMMAND_TIMEOUT_NS);
        self.start_command(Stage::Close, command::stop_transmission(), limit_ns, now_ns);
    }

    /// Handles the response of the CMD12 that has closed an open transfer, when no request needs
    /// this transfer any more. `status`: the R1 in that response.
    pub(super) fn closed(&mut self, status: u32, now_ns: u64) {
        let Some(open) = self.lane.streams_mut().take_open() else {
            return self.lane.go_idle::<H>(&mut self.timers, now_ns);
        };
        if status & (R1::OWN | R1::DEFERRED) & !past_end(open.direction) != 0 {
            // A read has its data. An error that its read-ahead met belongs to no request and to no
            // flush.
            match open.owes() {
                true => {
                    self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status)
                }
                false => {
                    self.record.late_error_unowned();
                    self.durability.owe_late_status::<N, P>(
                        &mut self.slots,
                        &self.card,
                        if status & R1::CARD_ECC_FAILED == 0 { status } else { 0 },
                    );
                }
            }
        }
        self.durability.mark_unsettled(open.owes());
        let shown = matches!(self.bus.host().caps().busy, BusyDetect::Interrupt | BusyDetect::Response);
        if open.direction == Direction::Write && !shown {
            self.lane.streams_mut().busy_of_the_end();
            self.watch_busy(now_ns);
        } else {
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        }
    }

    /// Returns true, only one time, if the engine has stopped leaving transfers open because of
    /// failures: the host declares that it can continue data, and several continuations in a row
    /// have failed.
    pub fn take_continue_lost(&mut self) -> bool {
        self.lane.streams_mut().take_notice()
    }

    /// Sets [`Config::stays_open`](super::Config::stays_open), and returns the setting before. The
    /// new setting takes effect with the next transfer.
    pub fn set_stays_open(&mut self, stays_open: StaysOpen) -> StaysOpen {
        core::mem::replace(&mut self.config.stays_open, stays_open)
    }

    /// Ends the present transfer for its requests. Each request is complete, or waits for the
    /// card's status, or is queued again with the blocks that it still has to transfer.
    ///
    /// `unknown`: for a write transfer, no status has shown yet that the card has programmed it.
    pub(super) fn release_members(&mut self, unknown: bool, now_ns: u64) {
        let write = self.batch.direction() == Direction::Write;
        let settles = write && !self.lane.streams().is_left_open::<H>();
        let (piece, next) = (self.batch.blocks(), self.batch.end());
        if H::CONTINUES {
            self.lane.streams_mut().went_out(self.batch.direction(), next, now_ns);
        }
        for place in 0..self.batch.members().len() {
            let Some(&index) = self.batch.members().get(place) else { break };
            self.order.note_done(&self.slots, index, now_ns);
            let slot = self.slots.at_mut(index);
            let left = slot.span().map_or(0, |(_, _, blocks)| blocks);
            let moved = left.min(piece);
            slot.moved_more(moved);
            if moved < left && slot.result().is_ok() {
                // The rest is the oldest request of all: it goes next. The next status may have a
                // late error of this piece.
                if P::RECOVERS && settles && unknown {
                    self.durability.mark_piece();
                }
                self.order.push_front(&mut self.slots, index, now_ns);
            } else if settles && unknown && self.slots.is_told_early::<P>(&self.config, index) {
                self.durability.end_early(&mut self.slots, &mut self.blockers, index);
            } else if settles {
                self.slots.await_status(index);
            } else {
                self.slots.end(index);
            }
        }
        if P::RECOVERS && self.incident.is_open() {
            self.incident.went_well::<N, P>(&self.slots, &mut self.card);
        }
    }
}
