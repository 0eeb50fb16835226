//! Code that ordinary reads and writes do not need: erase, write-zeroes, durable writes, accesses
//! to other partitions, long commands, and flushes by extension register.
//!
//! The engine calls this code through function pointers that [`Engine::enable_extended_ops`] sets:
//! firmware that only reads, writes and flushes does not contain the code. Each kind of request is
//! a series of steps, each of which ends with the card's status. This file has what the kinds
//! share: short commands, orders (commands with busy, however long it lasts), data, pauses.

mod next;
mod step;
use super::area::Area;
use super::bus::{Bus, COMMAND_TIMEOUT_NS, SLACK_NS};
use super::card::Card;
use super::erase::{Round, erased};
use super::phases::Stage;
use super::slot::Slot;
use super::timers::later;
use super::{Abilities, DmaBuf, Engine, Error, FlushBy, Kind, Output, Request};
use crate::host::{Auto, BusyDetect, Data, Direction, DmaError, Host, Phase, Segment};
use crate::sched::Profile;
use crate::spec::command::{Command, Resp};
use crate::spec::response::{R1, State as CardState};
pub(super) use next::Next;
pub(super) use step::{Place, Step};

/// Longest wait for an ordinary block of data, where the card's own limit is not known.
const DATA_NS: u64 = 1_000_000_000;

/// Entry points of the code that [`Engine::enable_extended_ops`] adds, as function pointers.
#[derive(Debug)]
struct Extras<H: Host, const N: usize, P: Profile> {
    on_event: fn(&mut Engine<H, N, P>, Event, u64),
    admit: fn(&Card, &Request) -> Result<(), Error>,
    plan: fn(&mut Slot, &Abilities),
}

/// The code for requests of several steps (its entry points), and its state.
#[derive(Debug)]
pub(super) struct Services<H: Host, const N: usize, P: Profile> {
    extras: Option<Extras<H, N, P>>,
    memory: Memory,
}

impl<H: Host, const N: usize, P: Profile> Services<H, N, P> {
    /// Makes the state of an engine whose [`Engine::enable_extended_ops`] was not called. This is a
    /// function, because a constant (nearly all zeros) would be copied into the firmware image.
    pub const fn new() -> Self {
        Services { extras: None, memory: Memory::new() }
    }

    #[inline(always)]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline(always)]
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Makes a request for zeroes an erase or a write, as `abilities` allow; others are kept.
    #[cold]
    #[inline(never)]
    pub fn plan(&self, slot: &mut Slot, abilities: &Abilities) {
        if P::RECOVERS
            && let Some(extras) = &self.extras
        {
            (extras.plan)(slot, abilities);
        }
    }

    /// Checks a request that is not a read, write or phase, and returns the reason if it cannot be
    /// accepted.
    #[cold]
    #[inline(never)]
    pub fn admit_other(&self, card: &Card, request: &Request) -> Result<(), Error> {
        match (request.kind, &self.extras) {
            (Kind::Flush, _) if card.target().is_none() => Err(Error::NoCard),
            (Kind::Flush | Kind::Bus(_) | Kind::Pause { .. }, _) => Ok(()),
            (_, Some(extras)) if P::RECOVERS => (extras.admit)(card, request),
            _ => Err(Error::Unsupported),
        }
    }
}

/// An event during a request that is executed in several steps, such as an erase. Each such event
/// calls a function of this module, which decides on the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A control request (no read or write) has its turn, and begins with its first step.
    Begin,
    /// The write in this slot is next; it is not an ordinary one (durable or of zeroes, for
    /// example). The write is still queued.
    Write(u8),
    /// A step of the request in progress has ended; the value is the card's status after the step.
    Done(u32),
    /// The pause between two steps of the request in progress is over.
    Woke,
    /// A step has failed, and the lines were reset.
    Failed(Error),
    /// A request needs the user area of the card, but the card is in another partition and must be
    /// switched back first.
    Return,
    /// Recovery ends the present step of the control request early: to repeat the request later, or
    /// because the card is given up.
    BreaksOff,
}

/// State of the requests of this module (erase, other partitions and so on) between two of their
/// steps.
#[derive(Debug)]
pub(super) struct Memory {
    /// A block of memory of the engine's own, for extension registers.
    page: DmaBuf,
    /// Step of the present request that is in progress, for a request of several steps.
    step: Step,
    /// Status bits that were seen so far during the busy of the command in progress.
    status: u32,
    /// The part of an erase that one CMD38 does now (piece), and the learned speed of erases.
    erasing: Round,
    /// Time in ns at which this piece of an erase, or this flush by register, began.
    began_ns: u64,
    /// The partition that the card's block commands reach now, as far as the engine knows.
    area: Area,
    /// Number of transfers that the partition access has done.
    moves: u8,
    /// The memory that is mapped for the transfer in progress of the partition access.
    mapped: Option<(Segment, Direction)>,
    /// Whether the earlier pieces of the write in progress are known to be on the medium.
    pieces: Pieces,
}

/// Whether the earlier pieces (parts) of a long write are known to be on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    Unknown,
    Asked,
    Good,
}

impl Memory {
    /// Makes the state before any request that needs several commands. This is a function, because
    /// a constant (nearly all zeros) would be copied into the firmware image.
    pub const fn new() -> Memory {
        Memory {
            page: DmaBuf::EMPTY,
            step: Step::Pause(Place::Order),
            status: 0,
            erasing: Round::NONE,
            began_ns: 0,
            area: Area::USER,
            moves: 0,
            mapped: None,
            pieces: Pieces::Unknown,
        }
    }

    /// Returns and clears the error bits of the card's statuses that the engine has collected
    /// during the command with busy in progress.
    pub fn take_told(&mut self) -> u32 {
        core::mem::take(&mut self.status)
    }

    /// Returns which partition the card's block commands reach now.
    #[inline(always)]
    pub fn area(&self) -> &Area {
        &self.area
    }

    #[inline(always)]
    pub fn area_mut(&mut self) -> &mut Area {
        &mut self.area
    }

    #[inline(always)]
    pub fn erasing_mut(&mut self) -> &mut Round {
        &mut self.erasing
    }

    /// Starts the time measurement of a piece of an erase, or of a flush by register.
    pub fn start_timing(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// Returns the time in ns since [`start_timing`](Self::start_timing).
    pub fn took_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.began_ns)
    }

    /// Returns the engine's own block of memory, for extension registers.
    pub fn page(&self) -> &DmaBuf {
        &self.page
    }

    pub fn page_mut(&mut self) -> &mut DmaBuf {
        &mut self.page
    }

    /// Gives up the engine's own block of memory, because a controller that no reset has stopped
    /// may use it for ever.
    pub fn lose_page(&mut self) {
        self.page = DmaBuf::EMPTY;
    }

    /// Returns which step of the request in progress runs now, if the request is executed in steps.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Sets which step (command or pause) of the present request is in progress.
    pub fn set_step(&mut self, step: Step) {
        self.step = step;
    }

    /// Sets the count of the transfers of an access to another partition to 0.
    pub fn clear_moves(&mut self) {
        self.moves = 0;
    }

    /// Counts one more transfer of the partition access.
    pub fn moved(&mut self) {
        self.moves += 1;
    }

    /// Returns the number of transfers that the partition access has done.
    pub fn moves(&self) -> u8 {
        self.moves
    }

    /// Stores which memory is mapped for the data command that begins now.
    pub fn set_mapped(&mut self, segment: Segment, direction: Direction) {
        self.mapped = Some((segment, direction));
    }

    /// Returns whether memory is mapped for the transfer in progress of a partition access.
    pub fn is_mapped(&self) -> bool {
        self.mapped.is_some()
    }

    /// Removes the record that a step's memory is mapped, and returns it. The caller unmaps that
    /// memory, or gives it up.
    pub fn take_mapped(&mut self) -> Option<(Segment, Direction)> {
        self.mapped.take()
    }

    /// Returns whether the earlier pieces (transfers) of the present long write were programmed.
    pub fn pieces(&self) -> Pieces {
        self.pieces
    }

    /// Records whether the earlier pieces (transfers) of the present long write were programmed.
    pub fn set_piece_state(&mut self, fate: Pieces) {
        self.pieces = fate;
    }

    /// Returns whether the request in progress (`kind`) accesses another partition and has no data
    /// yet: only the switch (CMD6) and the count (CMD23) may have been sent.
    pub fn is_on_its_way(&self, kind: &Kind) -> bool {
        let before_data = matches!(Place::step(self.step), Place::Enter | Place::Count);
        matches!(kind, Kind::PartitionAccess(_)) && self.moves == 0 && before_data
    }

    /// Unmaps the memory that was mapped for the data of the request's last command.
    pub fn unmap_data<H: Host>(&mut self, host: &mut H) {
        if let Some((segment, direction)) = self.mapped.take() {
            host.unmap(&segment, direction);
        }
    }
}

impl<H: Host> Bus<H> {
    /// Returns whether the end of this step's command also showed the end of the card's busy, so
    /// that the card need not be polled. That depends on the controller.
    pub fn busy_is_over(&self, step: Step) -> bool {
        let read = self.phase().data.is_some_and(|data| data.direction == Direction::Read);
        match (step, self.host().caps().busy) {
            (Step::Data(_), _) if read => true,
            (Step::Data(_), BusyDetect::Interrupt) => true,
            (Step::Order(_), BusyDetect::Interrupt | BusyDetect::Response) => {
                self.phase().command.resp == Resp::R1b
            }
            _ => false,
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Enables erase, write-zeroes, durable writes, accesses to other partitions, [long
    /// commands](Kind::LongCommand), and flushes by extension register. Before that, such requests
    /// fail with [`Error::Unsupported`]. May be called again.
    ///
    /// [`BlockDevice`](crate::block::BlockDevice) calls it itself where needed, so `write_durable`
    /// and `write_zeroes` work at once. Erases also need [`set_abilities`](Self::set_abilities),
    /// which sets how this card erases; before that they fail with [`Error::Unequipped`].
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) calls both.
    pub fn enable_extended_ops(&mut self) {
        self.services.extras =
            Some(Extras { on_event: Self::on_event, admit: Card::admit_extra, plan: Slot::plan_zeroes });
    }

    /// Sets which operations the card has besides reads and writes. After a call of
    /// [`set_card_params`](Self::set_card_params) with `None`, call this method again.
    pub fn set_abilities(&mut self, abilities: Abilities) {
        self.card.set_abilities(abilities);
        self.services.memory_mut().erasing.unlearn();
    }

    /// Returns what the card can do in addition to reads and writes, as far as this was set.
    pub fn abilities(&self) -> &Abilities {
        self.card.abilities()
    }

    /// Sets a block of memory for the extension registers of SD cards. Returns the block that was
    /// set before.
    ///
    /// # Errors
    /// An error means that the controller still uses the earlier block for a flush. The error
    /// returns the new block, and the call may be tried again later.
    pub fn set_page(&mut self, page: DmaBuf) -> Result<DmaBuf, DmaBuf> {
        if self.services.memory().mapped.is_some() {
            return Err(page);
        }
        Ok(core::mem::replace(&mut self.services.memory_mut().page, page))
    }

    /// Passes an event to the part of the engine that handles it: the card's queue, the packed
    /// commands, or the code of this module for special requests. If
    /// [`Engine::enable_extended_ops`] was not called, that code is missing, and no request that
    /// needs it is accepted.
    pub(super) fn extra(&mut self, event: Event, now_ns: u64) {
        if self.lane.has_task_step() {
            return self.task_event(event, now_ns);
        }
        if self.lane.has_pack_step() {
            return self.pack_event(event, now_ns);
        }
        match &self.services.extras {
            Some(extras) if P::RECOVERS => (extras.on_event)(self, event, now_ns),
            _ => match event {
                Event::Write(index) => {
                    self.order.turn_down(&mut self.slots, index, Error::Unsupported);
                }
                _ if self.lane.has_control() => self.end_control(Err(Error::Unsupported)),
                _ => {}
            },
        }
    }

    fn on_event(&mut self, event: Event, now_ns: u64) {
        match event {
            Event::Begin => self.begin_extra(now_ns),
            Event::Write(index) => self.begin_special(index, now_ns),
            Event::Done(status) => self.step_done(self.services.memory().step, status, now_ns),
            Event::Woke => match self.services.memory().step {
                Step::Pause(Place::FlushAsk) => {
                    let next = self.services.memory().ask_flushed(&self.card);
                    self.carry_out(next, now_ns);
                }
                Step::Pause(Place::FlushStart) => self.begin_extra(now_ns),
                Step::Pause(Place::Move) => self.reached(Place::Count, 0, now_ns),
                _ => {}
            },
            // The lines have been reset.
            Event::Failed(error) => {
                self.services.memory_mut().unmap_data(self.bus.host_mut());
                self.end_control(Err(error));
            }
            Event::Return if self.durability.owes_status(&self.slots) => {
                self.ask_status(Stage::Status, now_ns)
            }
            Event::Return => {
                self.batch.forget();
                let next = self.services.memory_mut().area_mut().return_to_user();
                self.carry_out(next, now_ns);
            }
            Event::BreaksOff => {
                self.services.memory_mut().take_told();
                self.services.memory_mut().unmap_data(self.bus.host_mut());
                // A durable write whose flush failed counts as not done.
                self.slots.at_mut(self.lane.control()).answer_well(Output::default());
            }
        }
    }

    /// Ends the present step of the control request (such as an erase) without a result, and unmaps
    /// its memory. Recovery then repeats the request, or has given the card up.
    pub(super) fn break_off(&mut self, now_ns: u64) {
        if let Some(extras) = &self.services.extras {
            (extras.on_event)(self, Event::BreaksOff, now_ns);
        }
    }

    fn begin_extra(&mut self, now_ns: u64) {
        let slot = self.slots.at(self.lane.control());
        let memory = self.services.memory_mut();
        let next = match slot.kind() {
            Kind::Erase { blocks, .. } if slot.moved_blocks() < blocks => {
                let next = memory.erasing.begin(slot, &self.card, self.config.erase_budget_ns);
                if !matches!(next, Next::End(_)) {
                    memory.start_timing(now_ns);
                    self.record.erase_piece_begun();
                }
                next
            }
            Kind::PartitionAccess(visit) => memory.begin_visit(visit, &self.card, self.bus.host().caps()),
            Kind::LongCommand { command, timeout_ns } => {
                memory.area.note_order(&command, false);
                Next::Order(Place::Order, command, timeout_ns)
            }
            // A flush of its own, or the flush of a durable write or erase.
            kind => {
                let erases = matches!(kind, Kind::Erase { .. });
                if erases {
                    // The flush may begin again, and an error that it has shown stays.
                    let done = erased(slot.moved_blocks());
                    self.slots.at_mut(self.lane.control()).answer_well(done);
                }
                match self.card.target().map(|t| t.flush) {
                    Some(FlushBy::SdCache { at, .. }) => memory.begin_register_flush(at, now_ns),
                    _ if erases => return self.begin_flush(now_ns),
                    _ => Next::fail(Error::Unsupported),
                }
            }
        };
        self.carry_out(next, now_ns);
    }

    fn step_done(&mut self, step: Step, status: u32, now_ns: u64) {
        let place = Place::step(step);
        // A flush itself reports the errors in its responses.
        let flushes = matches!(place, Place::FlushStart | Place::FlushAsk);
        if !flushes && !matches!(step, Step::Pause(_)) {
            self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        }
        match step {
            // The card refused the command: no busy follows.
            Step::Order(_) if status & (R1::OWN | R1::PREVIOUS) != 0 => self.reached(place, status, now_ns),
            Step::Order(_) | Step::Data(_) => {
                self.services.memory_mut().status = status;
                self.lane.busy_mut().set_next_stage(Stage::Extra);
                let over = self.bus.busy_is_over(step);
                self.services.memory_mut().step = Step::Status(place);
                if over {
                    self.ask_status(Stage::Extra, now_ns);
                } else {
                    self.watch_busy(now_ns);
                }
            }
            // The host saw the end of busy too early. The card reports an error once.
            Step::Status(_) if R1(status).current_state() == CardState::Prg => {
                self.services.memory_mut().status |= status & R1::ERRORS;
                self.lane.repeat_busy_question::<P>(
                    &mut self.timers,
                    &mut self.incident,
                    &self.card,
                    self.services.memory().area(),
                    now_ns,
                );
            }
            Step::Status(_) => {
                let seen = self.services.memory_mut().take_told();
                self.reached(place, status | seen, now_ns);
            }
            Step::Command(_) | Step::Pause(_) => self.reached(place, status, now_ns),
        }
    }

    fn reached(&mut self, place: Place, status: u32, now_ns: u64) {
        let memory = self.services.memory_mut();
        let slot = self.slots.at(self.lane.control());
        let next = match place {
            Place::Order if status & R1::ERRORS != 0 => Next::fail(refused(status)),
            Place::Order => {
                if let Kind::LongCommand { command, .. } = slot.kind() {
                    memory.area.note_order(&command, true);
                }
                let response = crate::spec::response::Response::short(status);
                Next::End(Ok(Output { response, ..Output::default() }))
            }
            Place::EraseArgument
            | Place::EraseStartUpper
            | Place::EraseStart
            | Place::EraseEndUpper
            | Place::EraseEnd
            | Place::Erase => memory.erasing.reached(place, status, slot, &self.card),
            Place::Enter | Place::Count | Place::Move => {
                memory.unmap_data(self.bus.host_mut());
                memory.visit_reached(place, status, slot, self.card.plan())
            }
            Place::Return if status & R1::ERRORS != 0 => {
                return self.lane.fail(&mut self.incident, refused(status));
            }
            Place::Return => {
                memory.area.arrive();
                return self.lane.go_idle::<H>(&mut self.timers, now_ns);
            }
            Place::FlushStart | Place::FlushAsk => {
                memory.unmap_data(self.bus.host_mut());
                memory.register_flush_reached(place, status, &self.card, now_ns)
            }
            Place::Piece => return self.piece_judged(status, now_ns),
        };
        self.carry_out(next, now_ns);
    }

    /// Sends the next command of a request that needs several (such as an erase), or ends it.
    fn carry_out(&mut self, next: Next, now_ns: u64) {
        match next {
            Next::Command(place, command) => {
                self.services.memory_mut().step = Step::Command(place);
                self.start_command(Stage::Extra, command, COMMAND_TIMEOUT_NS, now_ns);
            }
            Next::Order(place, command, limit_ns) => {
                self.blockers.close_fast();
                self.durability.note_change(command.changes_blocks());
                self.lane.busy_mut().begin_timed(limit_ns);
                // If the busy may last longer than the controller's own timer, the controller does
                // not wait for its end.
                let (command, timer_ns) = match limit_ns > self.bus.host().caps().max_busy_ns {
                    true => (Command::new(command.index, command.arg, Resp::R1), COMMAND_TIMEOUT_NS),
                    false => (command, limit_ns),
                };
                self.services.memory_mut().step = Step::Order(place);
                self.start_order(Stage::Extra, command, timer_ns, now_ns);
            }
            Next::Data { place, command, data, segment, changes } => {
                self.durability.note_change(changes);
                match self.map_data(self.lane.control(), segment, data.direction, now_ns) {
                    Ok(true) => {
                        self.services.memory_mut().step = match data.direction {
                            Direction::Read => Step::Command(place),
                            Direction::Write => Step::Data(place),
                        };
                        self.start_data(command, data, now_ns);
                    }
                    Ok(false) => self.carry_out(Next::Pause(place, 0), now_ns),
                    Err(error) => self.end_control(Err(error)),
                }
            }
            Next::Pause(place, ns) => {
                self.lane.enter(Stage::Extra);
                self.services.memory_mut().step = Step::Pause(place);
                let wake_ns = later(now_ns, ns);
                self.timers.wake_at(wake_ns);
                self.timers.give_up_at(later(wake_ns, SLACK_NS));
            }
            Next::Erased => self.piece_erased(now_ns),
            Next::Flushed(bad) => {
                let result = if bad == 0 { self.flush_ended() } else { self.flush_failed(bad) };
                self.end_control(result);
            }
            Next::End(result) => self.end_control(result),
        }
    }

    /// Maps a segment for a data command of the request in slot `control`. Returns true if it is
    /// mapped. False: no mapping is free. The engine has begun to free one that another request
    /// uses (in the next `poll`, or by reading the card's status). The caller tries again then.
    #[inline(always)]
    pub(super) fn map_data(
        &mut self,
        control: u8,
        segment: Segment,
        direction: Direction,
        now_ns: u64,
    ) -> Result<bool, Error> {
        let mut segment = segment;
        match self.bus.host_mut().map(&mut segment, direction) {
            Err(DmaError::Exhausted) if self.free_other_mapping(control, now_ns) => return Ok(false),
            result => result.map_err(Error::Dma)?,
        }
        self.batch.one_segment(segment.same());
        self.services.memory_mut().mapped = Some((segment, direction));
        Ok(true)
    }

    /// Starts a data command of whole blocks, whose memory is mapped.
    #[inline(always)]
    pub(super) fn start_data(&mut self, command: Command, data: Data, now_ns: u64) {
        let limit_ns =
            self.card.target().map_or(DATA_NS, |t| t.read_timeout_ns.max(t.write_timeout_ns)).max(DATA_NS);
        self.lane.busy_mut().begin_timed(limit_ns);
        self.bus.prepare(Phase { command, data: Some(data), auto: Auto::None, tuning: false });
        let wire_ns = self.bus.wire().data_ns(data.blocks);
        self.start_phase(Stage::Extra, limit_ns, limit_ns.saturating_add(wire_ns), now_ns);
    }
}

/// Returns the error of a command whose R1 (`status`) shows an error, such as [`Error::Protected`].
pub(super) fn refused(status: u32) -> Error {
    match status & (R1::WP_VIOLATION | R1::WP_ERASE_SKIP) {
        0 => Error::Card(status),
        _ => Error::Protected,
    }
}

#[cfg(test)]
mod transcripts;
