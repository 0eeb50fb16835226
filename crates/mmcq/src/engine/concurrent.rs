//! Commands during a data transfer: of an I/O function, or for the card's queue.
//!
//! A card whose CCCR has SDC set answers CMD52 while data of CMD53, or of its memory, are on the
//! DAT lines [SDIO 6.9]. The engine uses this on hosts that can send a command during data
//! ([`Caps::concurrent_command`](crate::host::Caps::concurrent_command)). If the oldest waiting
//! phase of an I/O function is such a CMD52, the engine does not wait for the end of the data
//! before it sends the command.
//!
//! This command has a slot and a deadline of its own. Data and command end independently. Nothing
//! new begins until both are over. A failure of the data ends the command too, since the lines are
//! reset then. A failure of the command does not affect the data.
//!
//! Where the card has a command queue, its tasks are sent during data transfers: see
//! `tasks/beside.rs`.
//!
//! Writes to function 0 (except IENx) are not sent during data, since they abort, reset, or change
//! the bus under the data. Such writes wait.

use super::bus::{SLACK_NS, START_RETRY_NS};
use super::lane::Lane;
use super::slot::Slots;
use super::timers::{NEVER, Timers};
use super::{Engine, Error, Kind, Output};
use crate::host::{self, Cause, Fault, Host, Phase, StartError};
use crate::sched::tasks::Step;
use crate::sched::{Lanes, Profile};
use crate::spec::command::Resp;
use crate::spec::response::Response;
use crate::spec::sdio::cccr::reg;

/// IO_RW_DIRECT: reads or writes one byte of an I/O function.
const CMD52: u8 = 52;

/// The command on the CMD line during data; `E` is the engine.
#[derive(Debug)]
pub(super) struct Concurrent<E> {
    /// Whether the card answers CMD52 during data.
    allowed: bool,
    /// The command on the CMD line.
    line: OnLine,
    /// The code that handles commands during data. A pointer, so that firmware that never
    /// [allows](Engine::set_concurrent_commands) such commands does not contain that code.
    turn: Option<fn(&mut E, Turn, u64) -> bool>,
}

/// The command on the CMD line during data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLine {
    Nothing,
    /// The command of an I/O function (CMD52 or CMD53), of the request in this slot.
    Io(u8),
    /// A command for the card's queue: CMD44, CMD45, or CMD13 that reads which tasks are ready.
    Task(Step),
}

/// The occasion on which the engine calls the code that sends a second command during the data of
/// another one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// A command to an I/O function waits while another command transfers data. The called code
    /// returns true if it sends the waiting command now.
    Begin,
    /// Called before the controller's events are read: handles the end of the command on the line,
    /// if it has come. Returns true if it has.
    Ack,
    /// The command is over: requests that waited for the CMD line continue.
    GoOn,
    /// Another try of a refused command is due, or the deadline of the command on the line has
    /// passed.
    Due,
    /// The lines are about to be reset: the result of the command will not be known. `removed`: the
    /// reason is that the card is gone.
    Lost { removed: bool },
}

impl<E> Concurrent<E> {
    pub const NONE: Self = Concurrent { allowed: false, line: OnLine::Nothing, turn: None };

    /// Returns whether a command for the card's queue is on the line.
    #[inline(always)]
    pub fn has_task_step(&self) -> bool {
        matches!(self.line, OnLine::Task(_))
    }

    /// Notes that a command for the card's queue is sent.
    pub fn set_task(&mut self, step: Step) {
        self.line = OnLine::Task(step);
    }

    /// Returns the step of the queue command whose sending has ended, and removes it from the
    /// record; `None` if no such command was under way.
    pub fn take_task_step(&mut self) -> Option<Step> {
        let OnLine::Task(step) = self.line else { return None };
        self.line = OnLine::Nothing;
        Some(step)
    }

    /// Forbids commands during data: the card does not answer them, or another card may be in the
    /// slot.
    #[inline(always)]
    pub fn forbid(&mut self) {
        self.allowed = false;
    }
}

/// Returns whether the command that `phase` describes may be sent during the data of another: it is
/// a CMD52 that does not abort, reset or change the bus.
fn suits(phase: &Phase) -> bool {
    let command = &phase.command;
    let (write, function) = (command.arg >> 31 != 0, command.arg >> 28 & 7);
    let addr = command.arg >> 9 & 0x1_ffff;
    command.index == CMD52
        && command.resp == Resp::R5
        && phase.data.is_none()
        && (!write || function != 0 || addr == reg::INT_ENABLE)
}

fn failed(cause: Cause) -> Error {
    Error::Host(Fault { cause, stage: host::Stage::Command, response: None })
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether a command that was sent during data, for an I/O function or for the card's
    /// queue, is still on the CMD line. The data may have ended before the command.
    pub fn is_concurrent<H: Host, P: Profile>(&self) -> bool {
        H::CONCURRENT && P::RECOVERS && self.concurrent().line != OnLine::Nothing
    }

    pub fn end_concurrent<const N: usize>(
        &mut self,
        timers: &mut Timers,
        slots: &mut Slots<N>,
        result: Result<Output, Error>,
    ) {
        let line = core::mem::replace(&mut self.concurrent_mut().line, OnLine::Nothing);
        timers.concurrent_at(NEVER);
        if let OnLine::Io(index) = line {
            slots.end_with(index, result);
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sets by `allowed` whether the engine may send a CMD52 during data of an I/O card (SDC in its
    /// CCCR). Bring-up sets it; a board may switch it off. Without a card it is off.
    pub fn set_concurrent_commands(&mut self, allowed: bool) {
        self.lane.concurrent_mut().allowed = allowed && H::CONCURRENT && P::RECOVERS;
        if self.lane.concurrent().allowed {
            self.lane.concurrent_mut().turn = Some(Self::work_concurrent);
        }
    }

    /// Tries to send a waiting command on the CMD line while data are transferred. Returns true if
    /// one was sent.
    #[inline]
    pub(super) fn try_concurrent(&mut self, now_ns: u64) -> bool {
        let may = H::CONCURRENT && P::RECOVERS;
        may && (self.slots.has_io() && self.concurrent_turn(Turn::Begin, now_ns) || self.try_beside(now_ns))
    }

    /// Handles the command that was sent during the data of a phase, after the controller's events
    /// were read. `ended`: the command is over, so its result is handled. Otherwise a waiting
    /// command may be sent. Returns true if something was done.
    #[inline]
    pub(super) fn go_on_concurrent(&mut self, ended: bool, now_ns: u64) -> bool {
        if ended {
            self.concurrent_turn(Turn::GoOn, now_ns);
            return true;
        }
        self.try_concurrent(now_ns)
    }

    /// Ends the command on the CMD line with an error because the data have failed.
    pub(super) fn fail_concurrent(&mut self, error: Error) {
        if self.lane.is_concurrent::<H, P>() {
            self.concurrent_turn(Turn::Lost { removed: matches!(error, Error::Removed) }, 0);
        }
    }

    #[inline(never)]
    pub(super) fn concurrent_turn(&mut self, turn: Turn, now_ns: u64) -> bool {
        let tasks = self.lane.tasks().is_some();
        if P::RECOVERS && tasks && (self.lane.concurrent().has_task_step() || matches!(turn, Turn::GoOn)) {
            return self.task_beside(turn, now_ns);
        }
        P::RECOVERS && self.lane.concurrent().turn.is_some_and(|work| work(self, turn, now_ns))
    }

    fn work_concurrent(&mut self, turn: Turn, now_ns: u64) -> bool {
        match turn {
            Turn::Begin => return self.begin_beside(now_ns),
            Turn::Ack => return self.ack_concurrent(now_ns),
            // A phase that was refused meanwhile is tried again soon anyway.
            Turn::GoOn => self.lane.note_free(),
            Turn::Due => self.beside_due(now_ns),
            Turn::Lost { removed: true } => {
                self.lane.end_concurrent(&mut self.timers, &mut self.slots, Err(Error::Removed))
            }
            Turn::Lost { removed: false } => {
                self.lane.end_concurrent(&mut self.timers, &mut self.slots, Err(failed(Cause::Other)))
            }
        }
        false
    }

    fn begin_beside(&mut self, now_ns: u64) -> bool {
        let moving = self.lane.moves_data(&self.bus);
        let theirs =
            !self.lane.has_control() || matches!(self.slots.at(self.lane.control()).kind(), Kind::Io { .. });
        let free = self.lane.concurrent().allowed
            && !self.lane.is_concurrent::<H, P>()
            && !self.blockers.is_halted();
        if !(moving && theirs && free && self.bus.host().caps().concurrent_command) {
            return false;
        }
        let Some(index) = self.slots.oldest_io() else { return false };
        let Kind::Io { phase, timeout_ns, .. } = self.slots.at(index).kind() else { return false };
        if !suits(&phase) {
            return false;
        }
        match self.bus.host_mut().start_concurrent(&phase.command) {
            Ok(()) => {
                message!(trace, "CMD{} {:#010x} beside data", phase.command.index, phase.command.arg);
                self.slots.unlink(index);
                self.slots.at_mut(index).set_active();
                self.lane.concurrent_mut().line = OnLine::Io(index);
                self.timers.concurrent_at(now_ns.saturating_add(timeout_ns).saturating_add(SLACK_NS));
                self.record.phase_started();
                self.record.concurrent_started();
                return true;
            }
            Err(StartError::CommandLine) => self.timers.concurrent_at(now_ns.saturating_add(START_RETRY_NS)),
            Err(StartError::DataLine | StartError::Unsupported) => self.timers.concurrent_at(NEVER),
        }
        false
    }

    /// Reads from the host how the command on the CMD line has ended. Returns true if it is over.
    fn ack_concurrent(&mut self, now_ns: u64) -> bool {
        let OnLine::Io(index) = self.lane.concurrent().line else { return false };
        let Some(result) = self.bus.host_mut().ack_concurrent() else { return false };
        match (&result, self.slots.at(index).kind()) {
            (Ok(_), Kind::Io { chain: true, .. }) => {
                self.timers.chain_until(now_ns.saturating_add(self.config.chain_ns));
            }
            (Ok(_), _) => {}
            (Err(_), _) => self.record.phase_failed(),
        }
        let output = |content| Output { response: Response::short(content), ..Output::default() };
        self.lane.end_concurrent(&mut self.timers, &mut self.slots, result.map(output).map_err(failed));
        true
    }

    /// Handles a due time of commands during data. Without a command on the CMD line, tries to send
    /// the next one. Otherwise the controller has not reported the command's end in time: reads its
    /// registers, since perhaps only the interrupt was lost, and aborts the command if they show no
    /// end.
    fn beside_due(&mut self, now_ns: u64) {
        if !self.lane.is_concurrent::<H, P>() {
            self.timers.concurrent_at(NEVER);
            self.try_concurrent(now_ns);
            return;
        }
        self.acknowledge(now_ns);
        if !self.timers.concurrent_is_due(now_ns) {
            self.record.interrupt_lost();
            return;
        }
        self.bus.host_mut().abort_concurrent();
        self.record.phase_failed();
        self.lane.end_concurrent(&mut self.timers, &mut self.slots, Err(Error::Silent));
        self.lane.note_free();
    }
}
