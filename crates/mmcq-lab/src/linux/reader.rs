//! Model of Linux's driver for Realtek's card reader. One work item does everything, in rounds. A
//! round is a command list that the chip executes, its interrupt, and waking the work item. The
//! rounds of a read are CMD18 with the data, then CMD12; those of a write are CMD25, the data, then
//! CMD12. After a write the caller polls with CMD13.
//!
//! [`Close::Late`] is this driver with a patch that was published in 2021, in the mailing-list
//! thread that `docs/threads.md` calls STREAM. With the patch a transfer stays open, and a request
//! that continues it only transfers data. CMD12, a pause and a flush of the chip's buffer come
//! before the next request that does not continue it. While the transfer is open, CMD13 is answered
//! "ready" without being sent. Errors in the answer to CMD12 are dropped.

use super::elevator::Request;
use super::port::{COMMAND_TIMEOUT_NS, Memory, alone, data_command, status, well};
use super::raw::Raw;
use super::{Ended, Port};
use crate::platform::Profile;
use crate::system::{Event, Step, System};
use mmcq::board::NoLock;
use mmcq::engine::{CardParams, Completion, DmaBuf};
use mmcq::host::{Auto, Direction, Host, Phase};
use mmcq::spec::command;
use mmcq::spec::response::R1;
use mmcq::task::Stack;
use mmcq_sim::cpu::{Priority, Thread};

/// Time in ns without a request after which the driver closes an open transfer.
const IDLE_NS: u64 = 150_000_000;
/// Number of the timer that closes an idle transfer; no other timer uses it.
const IDLE_TIMER: u64 = 1 << 62;
/// Longest busy in ns after the CMD12 of a read [SD 4.12.4.2]. After the CMD12 of a write, the
/// card's own timeout counts.
const STOP_TIMEOUT_NS: u64 = 100_000_000;
/// Card status that the driver returns during an open transfer ([`Close::Late`]) instead of asking
/// the card: READY_FOR_DATA, state `tran`.
const READY: u32 = 0x900;

/// Moment at which the driver ends a multi-block transfer by CMD12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// CMD12 ends the transfer after every request.
    AtOnce,
    /// CMD12 ends the transfer when a request arrives that does not continue it.
    Late,
}

/// Operation that the work item must do: a transfer or a status poll.
enum Task {
    Transfer(Request),
    Status,
}

/// What the reader's chip executes now: a part (round) of a task, or nothing because the driver
/// pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// The chip executes nothing: the driver's item in the workqueue is idle, and takes the next
    /// task.
    None,
    /// The chip executes CMD12 for a transfer that was left open.
    Close,
    /// The work item pauses after the CMD12 of a transfer that was left open.
    Pause,
    /// The chip executes CMD25 without its data; the data follow in a command list of their own.
    Command,
    Data,
    /// The chip executes CMD12 at the end of the present request.
    Stop,
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    direction: Direction,
    next_lba: u64,
}

/// Model of Linux's driver for Realtek's card reader chip.
pub struct Reader<H: Host> {
    raw: Raw<H>,
    target: CardParams,
    memory: Memory,
    close: Close,
    thread: Thread,
    /// Whether the work item is queued or runs.
    scheduled: bool,
    task: Option<Task>,
    round: Round,
    /// Completion of the driver's step (a command list that the chip executes) that has ended,
    /// until the work item handles it; `None`: no completion waits for the work item.
    ended: Option<Completion>,
    ok: bool,
    open: Option<Open>,
    /// Time in ns at which the driver closes the open transfer if no request comes before.
    idle_at_ns: u64,
    idle_timer: bool,
    close_due: bool,
    /// Number of requests that failed.
    pub errors: u64,
    /// Number of requests that needed no new command, because they continued a transfer that was
    /// left open.
    pub continued: u64,
    /// Number of errors that no request received, because a CMD12 reported them after the requests
    /// of its transfer had ended.
    pub dropped: u64,
}

impl<H: Host> Reader<H> {
    /// Makes the driver of an engine whose card is in the transfer state. The host must be able to
    /// continue a transfer with later requests, without a new command. `max_bytes`: size of the
    /// largest request in bytes.
    pub fn new(
        stack: Stack<(NoLock, H, Profile), 1>,
        target: CardParams,
        max_bytes: usize,
        close: Close,
        sys: &mut System,
    ) -> Self {
        Reader {
            raw: Raw::new(stack),
            target,
            memory: Memory::new(max_bytes),
            close,
            thread: sys.cpu.spawn(Priority::Normal),
            scheduled: false,
            task: None,
            round: Round::None,
            ended: None,
            ok: true,
            open: None,
            idle_at_ns: 0,
            idle_timer: false,
            close_due: false,
            errors: 0,
            continued: 0,
            dropped: 0,
        }
    }

    fn schedule(&mut self, sys: &mut System) {
        if !std::mem::replace(&mut self.scheduled, true) {
            sys.hop(self.thread, sys.irq_core, Step::HostWork);
        }
    }

    fn start(&mut self, sys: &mut System, round: Round, phase: Phase, timeout_ns: u64) {
        self.round = round;
        let memory = if phase.data.is_some() { self.memory.piece.take() } else { None };
        if let Err(memory) = self.raw.start(sys, phase, timeout_ns, memory.unwrap_or(DmaBuf::EMPTY)) {
            self.errors += 1;
            if phase.data.is_some() {
                self.memory.piece = Some(memory);
            }
        }
    }

    fn stop(&mut self, sys: &mut System, round: Round, direction: Direction) {
        let timeout_ns = match direction {
            Direction::Read => STOP_TIMEOUT_NS,
            Direction::Write => self.target.write_timeout_ns,
        };
        self.start(sys, round, alone(command::stop_transmission()), timeout_ns);
    }

    /// Begins the driver's next task: a request of the block layer, or a status poll. If a transfer
    /// is open that the task cannot continue, closes this transfer first. Returns the operation
    /// that has ended, if any.
    fn begin(&mut self, sys: &mut System) -> Option<Ended> {
        match (&self.task, self.open) {
            (Some(Task::Status), Some(_)) => return self.finish(sys, Ended::Status(READY)),
            (Some(Task::Status), None) => {
                let phase = alone(command::send_status(self.target.rca));
                self.start(sys, Round::Status, phase, COMMAND_TIMEOUT_NS);
            }
            (Some(Task::Transfer(request)), open) => {
                let here = Open { direction: request.direction, next_lba: request.lba };
                let multiple = request.blocks > 1;
                match open {
                    Some(open) if open == here && multiple => {
                        self.continued += 1;
                        self.data(sys, Auto::Continue);
                    }
                    Some(open) => self.stop(sys, Round::Close, open.direction),
                    None if multiple && here.direction == Direction::Write => {
                        let (command, _, _) = data_command(&self.target, request);
                        self.start(sys, Round::Command, alone(command), COMMAND_TIMEOUT_NS);
                    }
                    None => self.data(sys, Auto::None),
                }
            }
            (None, Some(open)) if self.close_due => self.stop(sys, Round::Close, open.direction),
            (None, _) => self.rest(),
        }
        None
    }

    fn data(&mut self, sys: &mut System, auto: Auto) {
        let Some(Task::Transfer(request)) = &self.task else { return };
        self.memory.gather(sys, request);
        let (command, data, timeout_ns) = data_command(&self.target, request);
        let phase = Phase { command, data: Some(data), auto, tuning: false };
        self.start(sys, Round::Data, phase, timeout_ns);
    }

    /// Handles the end of the round (one command list of the chip) that transfers data. Returns the
    /// operation that has ended, if any.
    fn data_ended(&mut self, sys: &mut System, completion: Completion) -> Option<Ended> {
        let Some(Task::Transfer(request)) = &self.task else { return None };
        self.ok = well(&completion);
        self.memory.scatter(sys, request, self.ok, completion.buf);
        let (direction, blocks) = (request.direction, request.blocks);
        let next_lba = request.lba + u64::from(blocks);
        if blocks == 1 {
            return self.finish(sys, Ended::Transfer { ok: self.ok });
        }
        if self.close == Close::Late && self.ok {
            self.open = Some(Open { direction, next_lba });
            self.idle_at_ns = sys.time.now() + IDLE_NS;
            self.set_idle_timer(sys);
            return self.finish(sys, Ended::Transfer { ok: true });
        }
        self.open = None;
        self.stop(sys, Round::Stop, direction);
        None
    }

    /// Ends the present task (one request of the block layer), and returns `ended` for the caller.
    /// The driver's item in the workqueue ends too, unless an open transfer must be closed now.
    fn finish(&mut self, sys: &mut System, ended: Ended) -> Option<Ended> {
        self.task = None;
        if let Ended::Transfer { ok } = ended {
            self.errors += u64::from(!ok);
        }
        if self.close_due && self.open.is_some() {
            self.round = Round::None;
            sys.go_on(self.thread, 0, Step::HostWork);
        } else {
            self.rest();
        }
        Some(ended)
    }

    fn rest(&mut self) {
        self.round = Round::None;
        self.scheduled = false;
        self.close_due = false;
    }

    /// Sets the timer that closes an open transfer without requests, if the timer is not running.
    /// If it expires too early, it is set again.
    fn set_idle_timer(&mut self, sys: &mut System) {
        if !std::mem::replace(&mut self.idle_timer, true) {
            sys.queue.push(self.idle_at_ns, Event::Timer(IDLE_TIMER));
        }
    }

    fn wake(&mut self, sys: &mut System, completion: Option<Completion>) {
        if completion.is_some() {
            self.ended = completion;
            sys.wake(self.thread, Step::HostWork);
        }
    }
}

impl<H: Host> Port for Reader<H> {
    fn transfer(&mut self, sys: &mut System, request: &Request) {
        self.task = Some(Task::Transfer(request.clone()));
        self.schedule(sys);
    }

    fn status(&mut self, sys: &mut System) {
        self.task = Some(Task::Status);
        self.schedule(sys);
    }

    fn irq(&mut self, sys: &mut System) -> Option<Ended> {
        let completion = self.raw.irq(sys);
        self.wake(sys, completion);
        None
    }

    fn busy(&self) -> bool {
        false
    }

    fn work(&mut self, sys: &mut System) -> Option<Ended> {
        let ended = self.ended.take();
        match (self.round, ended) {
            (Round::None, _) => {
                sys.time.charge(sys.costs.setup_ns);
                self.begin(sys)
            }
            (Round::Pause, _) => self.begin(sys),
            (Round::Close, Some(completion)) => {
                self.open = None;
                self.close_due = false;
                let errors = status(&completion) & R1::ERRORS & !R1::OUT_OF_RANGE;
                self.dropped += u64::from(errors != 0 || completion.result.is_err());
                self.round = Round::Pause;
                sys.go_on(self.thread, sys.costs.close_ns, Step::HostWork);
                None
            }
            (Round::Command, Some(completion)) => {
                if well(&completion) {
                    self.data(sys, Auto::Continue);
                    return None;
                }
                self.finish(sys, Ended::Transfer { ok: false })
            }
            (Round::Data, Some(completion)) => self.data_ended(sys, completion),
            (Round::Stop, Some(completion)) => {
                // Reading up to the last block makes some cards report OUT_OF_RANGE here.
                let errors = status(&completion) & R1::ERRORS & !R1::OUT_OF_RANGE;
                let ok = self.ok && errors == 0 && completion.result.is_ok();
                self.finish(sys, Ended::Transfer { ok })
            }
            (Round::Status, Some(completion)) => self.finish(sys, Ended::Status(status(&completion))),
            (_, None) => None,
        }
    }

    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        if number != IDLE_TIMER {
            let completion = self.raw.timer(sys, number);
            self.wake(sys, completion);
            return None;
        }
        self.idle_timer = false;
        if self.open.is_some() {
            if sys.time.now() < self.idle_at_ns {
                self.set_idle_timer(sys);
            } else {
                self.close_due = true;
                self.schedule(sys);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
