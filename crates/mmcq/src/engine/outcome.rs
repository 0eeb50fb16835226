//! The results of phases (commands with their data and busy): the controller's events are read, and
//! the series of [`phases`](super::phases) continues, ends or has failed.

use super::bus::Bus;
use super::concurrent::Turn;
use super::extras::Event;
use super::lane::Lane;
use super::phases::Stage;
use super::slot::{NONE, State};
use super::timers::later;
use super::{Engine, Error, Kind, Output};
use crate::host::{Auto, BusyDetect, Cause, Direction, Done, Events, Fault, Host, Stage as FaultStage};
use crate::sched::{Lanes, Profile};
use crate::spec::command::Resp;
use crate::spec::response::{R1, State as CardState};

/// Returns the error of a write after which the card's status shows an error.
pub(super) fn not_written(status: u32) -> Error {
    if status & R1::WP_VIOLATION != 0 { Error::Protected } else { Error::Program(status) }
}

/// Returns the bit of R1 that is no error after data of this direction. A card that reads ahead
/// beyond its last block reports OUT_OF_RANGE in the response to CMD12, or in the next one [SD
/// 4.3.3]. Ignoring the bit is safe: every request is inside the card, and a refused read gets no
/// block.
#[inline]
pub(super) fn past_end(direction: Direction) -> u32 {
    if direction == Direction::Read { R1::OUT_OF_RANGE } else { 0 }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the R1 `status`, which came before the data or the busy of its command
    /// failed, reports an error of an earlier write. Then the engine must use it: the card reports
    /// such an error only once.
    #[cold]
    fn hears_in_failure<H>(&self, bus: &Bus<H>, status: u32) -> bool {
        let is_status = matches!(bus.phase().command.resp, Resp::R1 | Resp::R1b);
        is_status && status & R1::DEFERRED != 0 && !self.asks_what_is_ready()
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Whether the engine asks the host for the R1 of a transfer before its data end.
    pub(super) const EARLY: bool = H::EARLY_R1 && P::RECOVERS;

    /// Reads the controller's events, and continues the work that waited for them. Returns false if
    /// there was no event.
    pub(super) fn acknowledge(&mut self, now_ns: u64) -> bool {
        if self.lane.engine_has_lines() {
            return self.engine_interrupts(now_ns);
        }
        if self.lane.has_chain() {
            return self.chain_interrupts(now_ns);
        }
        let ended = self.lane.is_concurrent::<H, P>() && self.concurrent_turn(Turn::Ack, now_ns);
        let segments = self.batch.segments(self.bus.phase().data.is_some());
        if !Self::FAST || !self.lane.has_fast_task() {
            let events = self.bus.host_mut().ack(segments);
            return self.acknowledged(events, ended, now_ns);
        }
        // The phase is a command of the card's queue, or the data of a task.
        let events = match self.bus.host_mut().ack_fast(segments) {
            Ok(end)
                if self.lane.has_task_step()
                    && !self.bus.is_blocked()
                    && !self.lane.is_concurrent::<H, P>() =>
            {
                message!(trace, "answered {:#010x}", end.status);
                self.bus.note_end(now_ns);
                self.timers.give_up_never();
                self.task_event(Event::Done(end.status), now_ns);
                return true;
            }
            Ok(end) => end.events(self.bus.phase().auto == Auto::Stop),
            Err(events) => events,
        };
        self.acknowledged(events, ended, now_ns)
    }

    pub(super) fn acknowledged(&mut self, events: Events, ended: bool, now_ns: u64) -> bool {
        if events.phase.is_some() {
            self.blockers.forget_fast();
        }
        if events.card_irq {
            self.card.functions_mut().ask();
            self.blockers.close_fast();
        }
        if events.retune {
            self.retune_wanted(now_ns);
        }
        let mut counts = true;
        if events.presence {
            // If the card was removed, its phase has ended already.
            let recovers = P::RECOVERS && matches!(self.lane.stage(), Stage::Recover(_));
            counts = self.bus.host().present() && !(P::RECOVERS && self.card.target().is_some()) || recovers;
            self.note_presence(now_ns);
        }
        if let Some(result) = events.phase
            && counts
            && !self.bus.is_blocked()
        {
            if P::RECOVERS {
                self.bus.note_end(now_ns);
            }
            match result {
                Ok(done) => self.phase_done(done, now_ns),
                Err(fault) => self.phase_failed(fault, now_ns),
            }
        }
        let early = Self::EARLY && events.phase.is_none() && self.take_early(now_ns);
        let moved = events.phase.is_some() || H::CONCURRENT && self.go_on_concurrent(ended, now_ns);
        moved || early || events.card_irq || events.presence || events.retune || events.acknowledged
    }

    /// Handles the end of a command, with its data or busy, that the controller reported without an
    /// error, and checks the card's response.
    fn phase_done(&mut self, done: Done, now_ns: u64) {
        let status = R1(done.response.words[0]);
        message!(trace, "answered {:#010x}", status.0);
        self.timers.give_up_never();
        match self.lane.stage() {
            Stage::Prefix => match status.0 & R1::OWN {
                0 => {
                    if P::RECOVERS {
                        self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status.0);
                    }
                    if let Kind::Raw { phase, timeout_ns, .. } = self.slots.at(self.lane.control()).kind() {
                        self.begin_raw(phase, timeout_ns, now_ns);
                    }
                }
                _ => self.end_control(Err(Error::Card(status.0))),
            },
            Stage::Address | Stage::Count => {
                self.settle(status.0);
                if status.0 & R1::OWN != 0 {
                    self.lane.fail(&mut self.incident, Error::Card(status.0));
                } else if matches!(self.lane.stage(), Stage::Address) {
                    self.begin_counted(now_ns);
                } else {
                    self.begin_main(true, now_ns);
                }
            }
            Stage::Main if self.lane.has_control() => {
                let moved = self.slots.at(self.lane.control()).segment().len;
                let output = Output { bytes: moved | u32::from(done.tuned), response: done.response };
                if P::RECOVERS && done.tuned {
                    self.bus.wire_mut().tuned();
                }
                if P::RECOVERS && matches!(self.bus.phase().command.resp, Resp::R1 | Resp::R1b) {
                    self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status.0);
                }
                if let Kind::Io { chain: true, .. } = self.slots.at(self.lane.control()).kind() {
                    self.timers.chain_until(later(now_ns, self.config.chain_ns));
                }
                self.end_control(Ok(output));
            }
            // A continued transfer sends no command, so there is no status either.
            Stage::Main if H::CONTINUES && self.bus.phase().auto == Auto::Continue => {
                self.lane.streams_mut().note_data(&self.batch, &self.bus, true, now_ns);
                self.open_data_ended(now_ns)
            }
            Stage::Main => {
                self.lane.streams_mut().note_data(&self.batch, &self.bus, false, now_ns);
                self.settle_at_end(status.0);
                if status.0 & R1::OWN & !past_end(self.batch.direction()) != 0 {
                    self.lane.fail(&mut self.incident, Error::Card(status.0));
                } else if let Some(stop) = done.stop {
                    self.stopped(stop, now_ns);
                } else if self.lane.streams().is_open_ended() {
                    self.open_data_ended(now_ns);
                } else {
                    self.data_ended(now_ns);
                }
            }
            Stage::Stop => self.stopped(status.0, now_ns),
            Stage::Close if H::CONTINUES => self.closed(status.0, now_ns),
            Stage::Close => {}
            Stage::BusyStatus => {
                self.incident.failed_mut().hear(status.0);
                let prg = status.current_state() == CardState::Prg;
                if status.ready_for_data() && !prg {
                    let heard = self.incident.failed().status();
                    // Of the earlier responses in this busy only the error bits count; lean
                    // firmware uses all bits.
                    let kept = if P::RECOVERS { R1::ERRORS | R1::EXCEPTION_EVENT } else { u32::MAX };
                    self.ready(Some(status.0 | heard & kept), now_ns);
                } else {
                    self.lane.busy_again::<P>(
                        &mut self.timers,
                        &self.card,
                        self.services.memory().area(),
                        now_ns,
                    );
                }
            }
            Stage::Status if status.current_state() == CardState::Prg && status.0 & R1::DEFERRED == 0 => {
                self.lane.repeat_status::<P>(
                    &mut self.timers,
                    &mut self.incident,
                    &self.card,
                    self.services.memory().area(),
                    now_ns,
                );
            }
            Stage::Status => {
                self.lane.set_idle();
                self.settle(status.0);
            }
            Stage::Flush => self.flush_answered(status.0, now_ns),
            Stage::FlushStatus => self.flush_judged(status.0, now_ns),
            Stage::Extra if P::RECOVERS => self.extra(Event::Done(status.0), now_ns),
            Stage::Recover(step) => self.recover_done(step, status, now_ns),
            Stage::Extra | Stage::Idle | Stage::BusyPause | Stage::Bus | Stage::Pause => {}
        }
    }

    pub(super) fn phase_failed(&mut self, fault: Fault, now_ns: u64) {
        self.record.phase_failed();
        if let Stage::Recover(step) = self.lane.stage() {
            return self.recover_failed(step, fault.cause == Cause::Gone, now_ns);
        }
        let status = fault.response.map_or(0, |r| r.words[0]);
        let judged = !self.lane.has_control() && matches!(self.lane.stage(), Stage::Main | Stage::Stop);
        // The card takes no data for protected blocks: it has refused this write. A write before it
        // that waits for its status may have been refused as well, and is written once more.
        let writes = self.bus.phase().data.is_some_and(|data| data.direction == Direction::Write);
        let refused = writes && fault.stage == FaultStage::Data && status & R1::WP_VIOLATION != 0;
        let alone = !self.slots.is_settling() && !self.durability.is_unsettled();
        if P::RECOVERS && refused && !alone {
            self.incident.lose_status();
        } else if judged && fault.response.is_some() {
            self.settle_at_end(if refused && alone { status & !R1::WP_VIOLATION } else { status });
        } else if fault.response.is_some() && !refused && self.lane.hears_in_failure(&self.bus, status) {
            self.settle(status);
        }
        let error = match status & R1::OWN {
            0 if refused => Error::Protected,
            0 => Error::Host(fault),
            _ if judged => Error::Card(status),
            _ => Error::Host(fault),
        };
        self.lane.fail(&mut self.incident, error);
    }

    /// Handles the response of CMD12 after the data of a transfer; `status` is the R1 in it. The
    /// CMD12 was sent by the engine or by the controller.
    fn stopped(&mut self, status: u32, now_ns: u64) {
        let bad = status & (R1::OWN | R1::DEFERRED) & !past_end(self.batch.direction());
        let by_us = matches!(self.lane.stage(), Stage::Stop);
        match (bad, self.batch.direction()) {
            (0, _) if by_us && self.bus.host().caps().busy == BusyDetect::Response => {
                self.end_transfer(None, now_ns)
            }
            (0, _) => self.data_ended(now_ns),
            (_, Direction::Read) => {
                self.durability.owe_late_status::<N, P>(
                    &mut self.slots,
                    &self.card,
                    if bad & R1::CARD_ECC_FAILED == 0 { bad } else { 0 },
                );
                self.lane.fail(&mut self.incident, Error::Card(status));
            }
            (_, Direction::Write) => {
                // The error may belong to any piece since the last status.
                self.batch.restart_pieces(&mut self.slots);
                // Writes of the run that were completed before cannot get this error any more.
                if self.durability.take_unsettled() {
                    self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
                } else {
                    self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
                }
                self.lane.fail(&mut self.incident, not_written(status));
            }
        }
    }

    /// Handles the end of data that the card has accepted. After a write the card still programs,
    /// unless the host has seen the end of busy.
    pub(super) fn data_ended(&mut self, now_ns: u64) {
        if self.batch.direction() == Direction::Write && self.bus.host().caps().busy != BusyDetect::Interrupt
        {
            if P::RECOVERS && self.tell_early(now_ns) {
                self.lane.streams_mut().busy_of_the_end();
            }
            self.lane.streams_mut().note_ending::<H>(Direction::Write, now_ns);
            self.watch_busy(now_ns);
        } else {
            self.end_transfer(None, now_ns);
        }
    }

    /// Ends the transfer. `status`: the card's status after its writes, if it is known already. The
    /// requests get their results here; they are completed only after the next transfer has been
    /// started.
    pub(super) fn end_transfer(&mut self, status: Option<u32>, now_ns: u64) {
        self.lane.streams_mut().note_ended::<H>(now_ns);
        self.lane.set_idle();
        self.timers.clear();
        self.lane.pack_ended(self.bus.host_mut(), self.services.memory_mut());
        self.order.note_end(&self.slots, &self.batch, self.lane.is_queued(), now_ns);
        self.release_members(status.is_none(), now_ns);
        if let Some(status) = status {
            self.settle(status);
        }
    }

    /// Reads the R1 of the transfer in progress before its data end, so that earlier writes, which
    /// wait for a status of the card, become complete. Does so only if no request is queued, or if
    /// few requests are in the engine.
    #[inline]
    pub(super) fn try_early(&mut self, now_ns: u64) {
        let waits = Self::EARLY && self.slots.is_settling();
        if waits && (self.slots.head() == NONE || self.slots.are_few(self.batch.count())) {
            self.take_early(now_ns);
        }
    }

    /// Reads the R1 of the transfer in progress before its data end, and gives earlier writes their
    /// results by it. Returns false if the host does not have that R1, or no write waits for it.
    #[inline(never)]
    pub(super) fn take_early(&mut self, now_ns: u64) -> bool {
        let moving = self.lane.moves_data(&self.bus);
        if self.lane.has_control() || !moving || !self.slots.is_settling() {
            return false;
        }
        let Some(status) = self.bus.host_mut().early_r1() else { return false };
        if status & R1::WP_VIOLATION != 0 && self.batch.direction() == Direction::Write {
            // The error may belong to the write in progress; the end of its data shows that.
            return false;
        }
        self.settle(status);
        self.lane.early_mut().note_told(status);
        self.order.note_results(&self.slots, now_ns);
        true
    }

    /// Takes the R1 that came at the end of a transfer as the card's status, and gives earlier
    /// writes their results. Bits of that R1 that were handled early do not count again.
    pub(super) fn settle_at_end(&mut self, status: u32) {
        let status = if Self::EARLY { self.lane.early_mut().take_new_bits(status) } else { status };
        self.settle(status);
    }

    /// Ends the writes that waited for a status of the card: `status` says whether they succeeded.
    pub(super) fn settle(&mut self, status: u32) {
        // The test uses one mask, so a status without errors and events takes no more than that
        // test.
        let told = status & if P::RECOVERS { R1::DEFERRED | R1::EXCEPTION_EVENT } else { R1::DEFERRED };
        let bad = told & R1::DEFERRED;
        if bad != 0 && self.lane.is_queued() && self.suspect_several(bad) || self.lane.pack_keeps(status) {
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

    /// Decides the results of the writes that were sent before the failed transfer, after recovery
    /// has read the card's status. The status says whether the card has programmed them. If no
    /// status was read, the writes are sent once more; an engine without recovery fails them.
    pub(super) fn settle_pass(&mut self) {
        let status = self.incident.failed().status();
        if !P::RECOVERS {
            let known = if status == 0 { R1::ERROR } else { status };
            if self.lane.recovered_run::<H>(&mut self.durability) && known & R1::DEFERRED != 0 {
                self.durability.owe(known);
            }
            return if self.slots.is_settling() {
                self.settle(known)
            };
        }
        let lost = self.incident.take_status_lost() || status == 0;
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

    /// Handles a status (R1) of the card that shows an exception event, or an error of an earlier
    /// write. The requests that the error may belong to get it. They are those of the last transfer
    /// that are not complete, also if a part of them is still to be sent. If there is no such
    /// request, the next flush reports the error.
    #[cold]
    #[inline(never)]
    pub(super) fn told_by_status(&mut self, status: u32) {
        if P::RECOVERS && status & R1::EXCEPTION_EVENT != 0 {
            self.supervisor.exception_seen(&mut self.timers);
        }
        if status & R1::DEFERRED == 0 {
            return;
        }
        let mut owned = self.slots.is_settling();
        if self.batch.direction() == Direction::Write && !self.lane.has_control() {
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
        if P::RECOVERS && self.durability.take_piece() && !owned {
            owned = self.slots.fail_begun_writes(not_written(status));
        }
        if !owned || self.durability.is_unsettled() {
            self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
        } else {
            self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        }
    }

    /// Completes the writes of a transfer while the card still programs their data, if all of them
    /// may be complete now. Returns false if one has to wait.
    pub(super) fn tell_early(&mut self, now_ns: u64) -> bool {
        if !self.batch.are_told_early::<P>(&self.slots, &self.config) {
            return false;
        }
        self.order.note_told(&self.slots, &self.batch, self.lane.is_queued(), now_ns);
        // Called before any state is changed: a policy may panic.
        self.lane.enter(Stage::Idle);
        self.release_members(true, now_ns);
        // Other requests may get these slots before the busy is over.
        self.batch.forget();
        true
    }
}
