//! The phases of a transfer: each phase is started by the event that ended the phase before.
//!
//! A read or write is [CMD22] [CMD23] command+data [CMD12] [busy] and, where nothing else shows the
//! status, [CMD13]. Some steps are not phases of the engine: commands that the controller adds by
//! itself (automatic CMD12 or CMD23), and a busy after a write for which the controller itself
//! waits.

use super::bus::{Bus, COMMAND_TIMEOUT_NS, Outcome, SLACK_NS, START_RETRY_NS};
use super::card::Card;
use super::deadline::first_look_ns;
use super::durability::Durability;
use super::extras::Event;
use super::fast::FastKind;
use super::lane::{Failure, Lane};
use super::record::Record;
use super::recover::Incident;
use super::runs::{Close, End};
use super::slot::{Rules, State};
use super::timers::later;
use super::{BLOCK_BYTES, CardParams, Count, Engine, Error};
use crate::host::{Auto, BusyDetect, Direction, DmaError, Host, Phase};
use crate::sched::{Lanes, Profile};
use crate::spec::command::{self, Command};

/// The reason why the engine waits on the bus: a command of the present request, or a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The engine waits for nothing on the bus.
    Idle,
    /// The CMD55 that goes before the raw command of a request (its prefix).
    Prefix,
    /// CMD22, which sends the upper bits of an address.
    Address,
    /// CMD23, which sends the number of blocks.
    Count,
    /// The command with its data.
    Main,
    /// CMD12 after the data.
    Stop,
    /// CMD12 that ends a transfer for which no request waits any more.
    Close,
    /// Waiting before the next poll of a busy card.
    BusyPause,
    /// CMD13 to a busy card.
    BusyStatus,
    /// CMD13 that reads the status of earlier writes, which are transferred and not complete yet.
    Status,
    /// CMD6 that flushes the card's cache.
    Flush,
    /// CMD13 that reads the result of the flush.
    FlushStatus,
    /// The operation on the bus settings (such as a new clock or width) that a control request
    /// asked for.
    Bus,
    /// The waiting time of a request of the kind [`Pause`](super::Kind::Pause).
    Pause,
    /// A command or pause of a request that needs [`Engine::enable_extended_ops`], such as an erase
    /// or a partition access.
    Extra,
    /// After a failure: the lines are reset, the card is stopped and its state is read.
    Recover(Recovery),
}

/// Steps of the engine on the bus to recover from an error or a timeout: resets, commands and
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The lines are reset: [`BusOp::ResetLines`](crate::host::BusOp::ResetLines).
    Lines,
    /// The whole controller is reset: [`BusOp::ResetAll`](crate::host::BusOp::ResetAll).
    All,
    /// CMD12 stops the card's transfer.
    Stop,
    /// CMD13 reads the card's state.
    Status,
    /// The engine waits before it sends the next CMD13.
    Wait,
}

/// Longest busy (R1b) after CMD12 of a read [SD 4.12.4.2]; the limit for a write comes from the
/// card.
pub(super) const STOP_TIMEOUT_NS: u64 = 100_000_000;

impl<E, T: Lanes> Lane<E, T> {
    /// Records that the first phase (command) of a transfer is about to start: sets how the
    /// transfer will end, and clears the error of an earlier one.
    #[inline(always)]
    pub fn note_transfer_start(&mut self, record: &mut Record, incident: &mut Incident, end: End) {
        self.streams_mut().set_end(end);
        record.transfer_started();
        incident.failed_mut().forget_error();
        self.busy_mut().not_asked();
    }

    /// Returns whether the controller is transferring data of reads or writes now.
    #[inline(always)]
    pub fn moves_data<H>(&self, bus: &Bus<H>) -> bool {
        self.stage() == Stage::Main && bus.moves_data() && !self.has_failed()
    }
}

impl<H: Host> Bus<H> {
    /// Returns whether the engine may announce the blocks of a transfer by CMD23, so that it needs
    /// no CMD12. On a host where only the busy after a response ends with an interrupt, CMD12 is
    /// better for a write.
    pub fn counts(&self, direction: Direction) -> bool {
        let caps = self.host().caps();
        !caps.no_count
            && (direction == Direction::Read || caps.busy != BusyDetect::Response || caps.auto_count)
    }

    /// Prepares the data command of a transfer. `single`: CMD17 or CMD24, for one block. `cached`:
    /// written data may stay in the card's cache. Returns two times in ns: how long the controller
    /// waits for the card, and after how long the engine polls for the end.
    #[inline(always)]
    pub fn prepare_main<P: Profile>(
        &mut self,
        ledger: &mut Durability,
        card: &Card,
        run: (Direction, u64, u32),
        single: bool,
        auto: Auto,
        cached: bool,
    ) -> (u64, u64) {
        let (direction, _, blocks) = run;
        ledger.note_change(direction == Direction::Write && cached);
        let wire_ns = self.wire().data_ns(blocks);
        let transfer = card.plan().transfer(run, single, auto, wire_ns);
        self.prepare(transfer.phase);
        (transfer.timeout_ns, first_look_ns::<P>(wire_ns, transfer.patience_ns))
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Puts the request in slot `first` and the requests that join it into the batch (unless
    /// `collected` says that they are there already), and starts the first command of their
    /// transfer.
    pub(super) fn begin_transfer(&mut self, first: u8, collected: bool, now_ns: u64) {
        if P::RECOVERS && self.timers.chore_is_due(now_ns) && self.upkeep(false, now_ns) {
            return;
        }
        if P::RECOVERS {
            let slot = self.slots.at(first);
            let singly = self.card.writes_singly() && slot.direction() == Some(Direction::Write);
            if singly || slot.rules() != Rules::NONE {
                return self.go_specially(first, now_ns);
            }
        }
        self.timers.clear_idle();
        let Some(&CardParams { extended_address, .. }) = self.card.target().as_ref() else {
            return self.order.turn_down(&mut self.slots, first, Error::NoCard);
        };
        if !collected {
            let limits = self.bus.limits(&self.config, &self.incident, self.lane.streams());
            self.batch.collect(&self.slots, first, limits);
        }
        let (streams, parts) = (self.lane.streams(), (&self.config, &self.incident));
        if H::CONTINUES
            && streams.is_open()
            && !streams.are_continued_by(&self.batch, &self.slots, &self.bus, &self.card, parts)
        {
            let reason = if self.bus.wire().is_doubted() { Close::Retune } else { Close::Break };
            return self.close(reason, now_ns);
        }
        let doubted = P::RECOVERS && self.incident.doubts(self.slots.settling());
        if doubted || self.slots.is_settling() && self.batch.blocks() > self.config.settle_blocks {
            return self.ask_status(Stage::Status, now_ns);
        }
        let mut left = self.batch.blocks().saturating_mul(BLOCK_BYTES);
        self.batch.no_segments();
        for place in 0..self.batch.members().len() {
            let Some(&index) = self.batch.members().get(place) else { break };
            // A request that is mapped ahead gives its mapping to the first of the batch, not to
            // the others.
            let mapped = if place == 0 {
                self.map_in_turn(index, now_ns)
            } else {
                self.slots.map(self.bus.host_mut(), index).map(|()| true)
            };
            if let Ok(false) = mapped {
                return;
            }
            if let Err(error) = mapped {
                // If the first request fails, it ends. Another one that fails is left out, and
                // fails in its own turn.
                if place == 0 {
                    return self.order.turn_down(&mut self.slots, index, error);
                }
                self.slots.at_mut(index).forbid_merge(true);
                for &taken in self.batch.members() {
                    self.slots.at_mut(taken).set_queued();
                }
                return;
            }
            let slot = self.slots.at(index);
            let skip = slot.moved_blocks().saturating_mul(BLOCK_BYTES);
            let segment = slot.segment().part(skip, left);
            left -= segment.len;
            self.batch.fill(place, segment);
        }
        if H::CONTINUES && self.lane.streams().is_left_open::<H>() && !self.batch.goes_on_in(self.bus.host())
        {
            return self.close(Close::Memory, now_ns);
        }
        let count = self.batch.members().len();
        // Called before any state is changed: a policy may panic.
        for &index in self.batch.members() {
            self.order.note_sent(&self.slots, index, now_ns);
        }
        let all = P::RECOVERS && count > 1 && self.slots.leave_all(count);
        for place in 0..count {
            let Some(&index) = self.batch.members().get(place) else { break };
            if !all {
                self.slots.unlink(index);
            }
            self.slots.at_mut(index).set_active();
        }
        if let Some(&lowest) = self.batch.members().first() {
            self.lane.streams_mut().note_run::<H, N>(
                &self.batch,
                &self.slots,
                self.config.hold_ns,
                lowest,
                now_ns,
            );
        }
        let end = if self.lane.streams().is_left_open::<H>() { End::Unknown } else { self.foresee() };
        self.note_begin(now_ns);
        self.record.merged(self.batch.members().len() as Count - 1);
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, end);
        if self.lane.streams().is_left_open::<H>() {
            self.begin_main(false, now_ns);
        } else if extended_address {
            let upper = command::sd::address_extension((self.batch.lba() >> 32) as u8);
            self.start_command(Stage::Address, upper, COMMAND_TIMEOUT_NS, now_ns);
        } else {
            self.begin_counted(now_ns);
        }
    }

    /// Sends CMD23 as a command of its own where that is faster, otherwise sends the data command
    /// at once.
    ///
    /// A closed-ended transfer with automatic CMD23 is the cheapest: the card ends by itself and
    /// needs no CMD12. An automatic CMD12 is next. A CMD23 or CMD12 of the engine costs one
    /// interrupt more. CMD23 is the better of the two: after a CMD12 the card drops what it has
    /// read ahead.
    #[inline(never)]
    pub(super) fn begin_counted(&mut self, now_ns: u64) {
        let caps = self.bus.host().caps();
        let counts =
            self.card.target().as_ref().is_some_and(|t| t.count) && self.bus.counts(self.batch.direction());
        let by_hand = self.batch.blocks() > 1 && !caps.auto_count && !caps.auto_stop;
        let blocks = match self.lane.streams().end_of::<H, P>() {
            End::Here if by_hand => self.batch.blocks(),
            End::After(total) => total,
            _ => 0,
        };
        if blocks > 0 && counts {
            let count = command::set_block_count(blocks, false);
            self.start_command(Stage::Count, count, COMMAND_TIMEOUT_NS, now_ns);
        } else {
            self.begin_main(false, now_ns);
        }
    }

    pub(super) fn begin_main(&mut self, counted: bool, now_ns: u64) {
        if self.card.target().is_none() {
            return self.lane.fail(&mut self.incident, Error::NoCard);
        }
        let (lba, blocks, direction) = (self.batch.lba(), self.batch.blocks(), self.batch.direction());
        let single = blocks == 1 && self.lane.streams().end_of::<H, P>() == End::Here;
        let auto = if self.lane.streams().is_left_open::<H>() {
            self.record.transfer_continued();
            Auto::Continue
        } else if H::CONTINUES && !counted && self.lane.streams().end_of::<H, P>() == End::Unknown {
            Auto::Open
        } else if single || counted || self.lane.streams().end_of::<H, P>() != End::Here {
            Auto::None
        } else {
            self.card.plan().auto(blocks)
        };
        if auto == Auto::None && !single && !counted && self.lane.streams().end_of::<H, P>() == End::Here {
            self.lane.streams_mut().set_end(End::Stopped);
        }
        // A reliable write goes past the cache.
        let cached = !(P::RECOVERS && self.lane.streams().end_of::<H, P>() == End::Reliable);
        let (timeout_ns, look_ns) = self.bus.prepare_main::<P>(
            &mut self.durability,
            &self.card,
            (direction, lba, blocks),
            single,
            auto,
            cached,
        );
        self.start_phase(Stage::Main, timeout_ns, look_ns, now_ns);
    }

    /// Starts a command without data.
    pub(super) fn start_command(&mut self, stage: Stage, command: Command, timeout_ns: u64, now_ns: u64) {
        self.bus.prepare(Phase::of(command));
        self.start_phase(stage, timeout_ns, timeout_ns, now_ns);
    }

    /// Starts the prepared phase (a command with its data and busy) on the controller. `stage`:
    /// which part of a request it is. `timeout_ns`: how long the controller waits for the card.
    /// `limit_ns`: after this time, plus [`SLACK_NS`], the engine polls the controller itself, or
    /// gives up.
    pub(super) fn start_phase(&mut self, stage: Stage, timeout_ns: u64, limit_ns: u64, now_ns: u64) {
        self.enter_phase(FastKind::Nothing, stage, limit_ns, now_ns);
        self.timers.wake_never();
        self.try_start(timeout_ns, now_ns);
    }

    /// Makes the prepared phase the one in progress. `stage`: which part of a request it is.
    /// `kind`: how the fast path may end it. `limit_ns`: time in ns after which, plus [`SLACK_NS`],
    /// the engine gives the phase up.
    #[inline(always)]
    pub(super) fn enter_phase(&mut self, kind: FastKind, stage: Stage, limit_ns: u64, now_ns: u64) {
        self.lane.enter(stage);
        if Self::FAST {
            self.blockers.set_fast_kind(kind);
        }
        if Self::EARLY {
            self.lane.early_mut().begin();
        }
        self.timers.give_up_at(later(later(now_ns, limit_ns), SLACK_NS));
    }

    pub(super) fn try_start(&mut self, timeout_ns: u64, now_ns: u64) {
        if self.lane.has_chain() {
            return self.try_chain(timeout_ns, now_ns);
        }
        let segments = self.batch.segments(self.bus.phase().data.is_some());
        let outcome = self.bus.start(segments, timeout_ns, now_ns);
        self.note_start(outcome, now_ns);
    }

    #[inline(always)]
    pub(super) fn note_start(&mut self, outcome: Outcome, now_ns: u64) {
        if outcome != Outcome::Started {
            return self.not_started(outcome, now_ns);
        }
        self.record.phase_started();
        self.timers.wake_never();
    }

    #[cold]
    fn not_started(&mut self, outcome: Outcome, now_ns: u64) {
        self.blockers.forget_fast();
        if outcome == Outcome::Unsupported {
            return self.lane.fail(&mut self.incident, Error::Unsupported);
        }
        self.record.start_refused();
        if outcome == (Outcome::Again { first: true })
            && let Some(patience_ns) = self.lane.patience_ns::<H, N, P>(&self.bus, &self.card, &self.batch)
        {
            // This deadline covers this start and all its further tries.
            self.timers.give_up_at(later(later(now_ns, patience_ns), SLACK_NS));
        }
        if P::RECOVERS && outcome == Outcome::Late {
            self.lane.note_failure(Failure::Silence);
            return;
        }
        self.timers.wake_at(later(now_ns, START_RETRY_NS));
    }

    /// Starts CMD13, which reads the card's status. `stage`: what the result of this command is
    /// for.
    pub(super) fn ask_status(&mut self, stage: Stage, now_ns: u64) {
        if matches!(stage, Stage::Status) {
            self.record.status_asked();
            if !matches!(self.lane.stage(), Stage::Status) {
                self.lane.busy_mut().not_asked();
            }
        }
        self.start_command(stage, self.card.plan().status(), COMMAND_TIMEOUT_NS, now_ns);
    }

    /// Maps the memory of a request whose turn it is for DMA. Returns `Ok(true)` if it is mapped.
    /// `Ok(false)`: no mapping is free. The engine then frees another request's mapping, and this
    /// request gets its turn again.
    pub(super) fn map_in_turn(&mut self, index: u8, now_ns: u64) -> Result<bool, Error> {
        match self.slots.map(self.bus.host_mut(), index) {
            Err(Error::Dma(DmaError::Exhausted)) if P::RECOVERS && self.free_other_mapping(index, now_ns) => {
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// Begins to free a DMA mapping, because request `index` needs one. A request that waits or has
    /// ended loses its mapping in the next `poll`. If there is none, reads the card's status
    /// (CMD13), which ends the writes that still wait for their result. Returns false if no mapping
    /// can be freed in these ways.
    #[cold]
    #[inline(never)]
    pub(super) fn free_other_mapping(&mut self, index: u8, now_ns: u64) -> bool {
        let gives = |at: u8| {
            let slot = self.slots.at(at);
            at != index && slot.is_mapped() && matches!(slot.state(), State::Queued | State::Ended)
        };
        let cramped = (0..N as u8).any(gives);
        self.slots.set_cramped(cramped);
        if cramped {
            self.blockers.close_fast();
            self.timers.wake_now();
        } else if self.slots.is_settling() && self.lane.is_idle() && self.lane.free_lines(&mut self.bus) {
            self.ask_status(Stage::Status, now_ns);
            return true;
        }
        cramped
    }

    /// Starts watching for the end of the card's busy, which no interrupt shows: by the level of
    /// DAT0 or by CMD13.
    pub(super) fn watch_busy(&mut self, now_ns: u64) {
        self.lane.enter(Stage::BusyPause);
        self.incident.failed_mut().forget_status();
        let limit = self.lane.busy_limit_ns::<P>(&self.card, self.services.memory().area());
        // The learned time includes the platform's own delays, and may be longer than any busy.
        let blocks = self.lane.busy_blocks::<N, P>(self.services.memory().area(), &self.batch);
        let first = self.lane.busy_mut().begin(blocks, now_ns).min(limit);
        self.timers.wake_at(later(now_ns, first));
        self.timers.give_up_at(later(later(now_ns, limit), SLACK_NS));
        if first == 0 {
            self.ask_busy(now_ns);
        }
    }

    pub(super) fn ask_busy(&mut self, now_ns: u64) {
        self.lane.busy_mut().asked();
        self.record.busy_polled();
        if self.bus.host().caps().busy == BusyDetect::Level {
            if self.bus.host().dat0_busy() {
                self.lane.busy_again::<P>(&mut self.timers, &self.card, self.services.memory().area(), now_ns)
            } else {
                self.ready(None, now_ns)
            }
        } else {
            // A poll by CMD13 has the time limit of a command, and not that of the busy: its
            // interrupt may get lost.
            self.ask_status(Stage::BusyStatus, now_ns);
        }
    }

    /// Handles the end of the card's busy. `status`: the response of CMD13, if CMD13 has shown the
    /// end.
    pub(super) fn ready(&mut self, status: Option<u32>, now_ns: u64) {
        let blocks = self.lane.busy_blocks::<N, P>(self.services.memory().area(), &self.batch);
        self.lane.busy_mut().learn_duration(blocks, now_ns);
        self.timers.clear();
        if (H::CONTINUES || P::RECOVERS) && self.lane.streams_mut().take_busy_of_the_end() {
            self.order.note_end_of_told(&self.slots, &self.batch, self.lane.is_queued(), now_ns);
            if let Some(status) = status {
                self.settle(status);
            }
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        } else if self.lane.is_control_busy::<P>(self.services.memory().area()) {
            match (self.lane.busy().next_stage(), status) {
                (Stage::Extra, Some(status)) if P::RECOVERS => self.extra(Event::Done(status), now_ns),
                (Stage::FlushStatus, Some(status)) => self.flush_judged(status, now_ns),
                (stage, _) => self.ask_status(stage, now_ns),
            }
        } else {
            self.end_transfer(status, now_ns);
        }
    }
}
