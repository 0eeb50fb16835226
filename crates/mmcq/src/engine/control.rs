//! Requests other than reads and writes: flush, raw phases (a command with its data, sent as
//! given), phases of I/O functions, changes of the bus, pauses.

use super::bus::{Bus, COMMAND_TIMEOUT_NS};
use super::card::Card;
use super::durability::Durability;
use super::extras::{Event, refused};
use super::outcome::not_written;
use super::phases::Stage;
use super::slot::{NONE, Slots};
use super::timers::later;
use super::{BLOCK_BYTES, Engine, Error, FlushBy, Kind, Output};
use crate::host::{BusyDetect, Host, Phase, Step};
use crate::sched::Profile;
use crate::spec::command::{Command, Resp, emmc};
use crate::spec::response::{R1, State as CardState};

/// Byte of EXT_CSD that starts a flush of the cache when 1 is written [eMMC 7.4.90].
const FLUSH_CACHE: u8 = 32;

impl<H: Host> Bus<H> {
    /// Returns whether the controller reports the end of a command with busy (R1b) only when the
    /// busy is over. If not, the engine polls the card for the end of busy.
    pub fn shows_busy(&self) -> bool {
        matches!(self.host().caps().busy, BusyDetect::Interrupt | BusyDetect::Response)
    }
}

impl Durability {
    /// Stores a write error that the R1 `status` of any command shows, if complete writes are in
    /// the card's cache. The card reports only one time, in the next response, that its cache could
    /// not write, and does not name the block. So the next flush reports the error.
    #[cold]
    pub fn owe_late_status<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        card: &Card,
        status: u32,
    ) {
        let told = status & (R1::ERROR | R1::CC_ERROR) != 0;
        if P::RECOVERS && told && self.may_lose(card) {
            if self.holds() {
                self.owe(status);
            }
            slots.fail_begun(not_written(status));
        }
    }

    /// Returns the result of a flush. If a write failed after it was reported complete, only the
    /// next flush reports that, and only one time.
    pub fn flushed<P: Profile>(&mut self) -> Result<Output, Error> {
        if P::RECOVERS && self.take_loss() {
            return Err(Error::CacheLost);
        }
        match self.take_late() {
            Some(status) => Err(Error::Program(status)),
            None => Ok(Output::default()),
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Starts a request that is not a read or write.
    pub(super) fn begin_control(&mut self, index: u8, now_ns: u64) {
        self.blockers.close_fast();
        if P::RECOVERS
            && self.slots.at(index).segment().len != 0
            && matches!(self.map_in_turn(index, now_ns), Ok(false))
        {
            return;
        }
        self.slots.unlink(index);
        let slot = self.slots.at_mut(index);
        slot.set_active();
        self.lane.set_control(index);
        self.batch.forget();
        self.incident.failed_mut().forget_error();
        self.batch.no_segments();
        match slot.kind() {
            Kind::Raw { prefix, phase, timeout_ns } => {
                if !self.place_data(index) {
                    return;
                }
                match prefix {
                    Some(prefix) => self.start_command(Stage::Prefix, prefix, COMMAND_TIMEOUT_NS, now_ns),
                    None => self.begin_raw(phase, timeout_ns, now_ns),
                }
            }
            Kind::Io { phase, timeout_ns, .. } => {
                if self.place_data(index) {
                    self.begin_raw(phase, timeout_ns, now_ns);
                }
            }
            Kind::Flush => self.begin_flush(now_ns),
            Kind::Erase { .. } | Kind::PartitionAccess(_) | Kind::LongCommand { .. } => {
                self.extra(Event::Begin, now_ns)
            }
            Kind::Bus(op) => {
                self.lane.enter(Stage::Bus);
                // A card needs some more clocks after the last token before its clock changes [SD
                // 4.4].
                let clocks_ns = self.bus.wire().last_clocks_ns(op);
                self.lane.give_bus(clocks_ns.is_none());
                match clocks_ns {
                    None => self.step_bus(true, now_ns),
                    Some(ns) => self.timers.wake_at(later(now_ns, ns)),
                }
            }
            Kind::Pause { ns } => {
                self.lane.enter(Stage::Pause);
                self.timers.wake_at(later(now_ns, ns));
            }
            Kind::Read { .. } | Kind::Write { .. } | Kind::Zero { .. } => {
                self.end_control(Err(Error::Unsupported))
            }
        }
    }

    /// Flushes the cache, for the flush or the durable write in progress.
    pub(super) fn begin_flush(&mut self, now_ns: u64) {
        let Some(target) = *self.card.target() else { return self.end_control(Err(Error::NoCard)) };
        match target.flush {
            // Nothing was changed since the last flush, or only by reliable writes, which are on
            // the medium; and no loss has to be reported.
            FlushBy::EmmcCache { .. } if self.durability.is_settled() && !self.slots.have_untold() => {
                let result = self.flush_ended();
                self.end_control(result);
            }
            FlushBy::EmmcCache { timeout_ns } => {
                let mut flush = emmc::switch(emmc::SwitchMode::WriteByte, FLUSH_CACHE, 1, 0);
                let mut timer_ns = timeout_ns;
                // A flush may outlast the controller's own timer: then the controller does not wait
                // for the busy.
                if timeout_ns > self.bus.host().caps().max_busy_ns {
                    (flush.resp, timer_ns) = (Resp::R1, COMMAND_TIMEOUT_NS);
                }
                self.lane.busy_mut().begin_timed(timeout_ns);
                self.lane.busy_mut().set_next_stage(Stage::FlushStatus);
                self.start_order(Stage::Flush, flush, timer_ns, now_ns);
            }
            FlushBy::SdCache { .. } => self.extra(Event::Begin, now_ns),
            // Without a cache a settled write is on the medium, and none is unsettled here.
            FlushBy::Status => {
                let result = self.flush_ended();
                self.end_control(result);
            }
        }
    }

    /// Continues a flush after the response of CMD6, whose R1 is `status`. The card reports an
    /// earlier write error of its cache only one time. If this response shows it, that error is the
    /// result of the flush.
    pub(super) fn flush_answered(&mut self, status: u32, now_ns: u64) {
        self.flush_hears(status);
        if status & R1::OWN != 0 {
            // The card refused the command: its cache is unchanged, and no busy follows.
            self.end_control(Err(refused(status)));
        } else if self.bus.shows_busy() && self.bus.phase().command.resp == Resp::R1b {
            self.ask_status(Stage::FlushStatus, now_ns);
        } else {
            self.watch_busy(now_ns);
        }
    }

    fn flush_hears(&mut self, status: u32) {
        self.settle(status);
        if status & R1::DEFERRED != 0 {
            let slot = self.slots.at_mut(self.lane.control());
            if !matches!(slot.kind(), Kind::Flush) {
                slot.answer(Err(not_written(status)));
            }
        }
    }

    /// Starts a command after which the card is busy (R1b). `stage`: which part of the request it
    /// is. `timer_ns`: the controller's time limit for response and busy. On a host that does not
    /// see the end of busy, the engine's deadline covers only the response.
    pub(super) fn start_order(&mut self, stage: Stage, command: Command, timer_ns: u64, now_ns: u64) {
        let limit_ns = if self.bus.shows_busy() { timer_ns } else { COMMAND_TIMEOUT_NS };
        self.bus.prepare(Phase::of(command));
        self.start_phase(stage, timer_ns, limit_ns, now_ns);
    }

    pub(super) fn flush_judged(&mut self, status: u32, now_ns: u64) {
        if R1(status).current_state() == CardState::Prg {
            // The host saw the end of busy too early. The card reports an error once, so this
            // status is used.
            if P::RECOVERS {
                self.flush_hears(status);
                return self.lane.repeat_busy_question::<P>(
                    &mut self.timers,
                    &mut self.incident,
                    &self.card,
                    self.services.memory().area(),
                    now_ns,
                );
            }
            return self.watch_busy(now_ns);
        }
        let bad = status & (R1::ERRORS | R1::SWITCH_ERROR);
        let result = if bad == 0 { self.flush_ended() } else { self.flush_failed(status) };
        self.end_control(result);
    }

    /// Returns the result of a flush that the card has failed with this status. The cache had data
    /// of many requests, so all of them count as lost.
    #[cold]
    pub(super) fn flush_failed(&mut self, status: u32) -> Result<Output, Error> {
        if !P::RECOVERS {
            return Err(Error::Card(status));
        }
        if !self.durability.may_lose(&self.card) || status & R1::DEFERRED & !R1::SWITCH_ERROR == 0 {
            // The card refused the flush, and the cache is unchanged; or nothing was in the cache.
            return Err(refused(status));
        }
        self.flush_hears(status);
        match self.slots.at(self.lane.control()).kind() {
            Kind::Flush => self.durability.flushed::<P>(),
            _ => Err(not_written(status)),
        }
    }

    /// Ends a flush that the card has executed without an error, and completes the other requests
    /// that the flush has served. Returns its result: for a flush request this is an error if an
    /// earlier loss or late error has still to be reported.
    pub(super) fn flush_ended(&mut self) -> Result<Output, Error> {
        self.durability.clear_dirty();
        self.incident.close::<P>(&mut self.card);
        if P::RECOVERS {
            self.slots.end_flushed(&self.durability, self.lane.control());
        }
        match self.slots.at(self.lane.control()).kind() {
            Kind::Flush => self.durability.flushed::<P>(),
            // A late error of another request belongs to the next flush.
            _ => self.slots.at(self.lane.control()).result(),
        }
    }

    /// Maps the memory of a request that is no ordinary read or write for DMA. Returns false if
    /// that failed; then the request has ended with the error.
    pub(super) fn place_data(&mut self, index: u8) -> bool {
        if self.slots.at(index).segment().len == 0 {
            return true;
        }
        if let Err(error) = self.slots.map(self.bus.host_mut(), index) {
            self.lane.release_control();
            self.slots.end_with(index, Err(error));
            return false;
        }
        self.batch.one_segment(self.slots.at(index).segment().same());
        true
    }

    pub(super) fn begin_raw(&mut self, phase: Phase, timeout_ns: u64, now_ns: u64) {
        // Blocks that a raw phase writes are in the cache too.
        self.durability.note_change(P::RECOVERS && phase.command.changes_blocks());
        self.bus.prepare(phase);
        // The length is in bytes, since blocks of I/O functions have up to 2048.
        let blocks = self.slots.at(self.lane.control()).segment().len.div_ceil(BLOCK_BYTES);
        let limit = later(timeout_ns, self.bus.wire().data_ns(blocks));
        self.start_phase(Stage::Main, timeout_ns, limit, now_ns);
    }

    pub(super) fn step_bus(&mut self, first: bool, now_ns: u64) {
        let Kind::Bus(op) = self.slots.at(self.lane.control()).kind() else { return };
        match self.bus.host_mut().set_bus(op, first, now_ns) {
            Step::Done => {
                self.bus.wire_mut().done(op);
                self.end_control(Ok(Output::default()));
            }
            Step::Wait(until_ns) => self.timers.wake_at(until_ns.max(now_ns)),
            Step::Failed => self.end_control(Err(Error::Bus(op))),
        }
    }

    pub(super) fn end_control(&mut self, result: Result<Output, Error>) {
        let index = self.lane.take_control();
        self.durability.complete();
        self.lane.set_idle();
        self.timers.clear();
        if P::RECOVERS && self.slots.at(index).kind().resets_card() {
            // The power counts as lost also if the request failed: the card may have got it.
            self.note_supply_loss();
        }
        self.slots.end_with(index, result);
    }

    /// Decides whether the engine switches the card back to its user area now. The card may be in
    /// another partition, and nothing is in progress. Returns true if the switch begins.
    #[cold]
    pub(super) fn plan_return(&mut self) -> bool {
        let head = self.slots.head();
        self.services.memory_mut().area_mut().end_return();
        let visits = head != NONE && matches!(self.slots.at(head).kind(), Kind::PartitionAccess(_));
        let waits = self.blockers.is_stopped();
        let stopped =
            waits && (self.blockers.is_halted() || self.incident.is_open() || !self.supervisor.has_chore());
        let reachable = self.card.target().is_some() && !self.blockers.is_dead();
        // Where the other bits of PARTITION_CONFIG are not known, each partition access begins in
        // the user area.
        reachable && !stopped && (waits || !visits || self.services.memory().area().is_doubted())
    }
}
