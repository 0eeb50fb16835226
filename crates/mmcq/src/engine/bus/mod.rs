//! The bus: the driver, the phase (one command with its data) that the driver runs or will run
//! next, and the state of the wire. This module knows no slots and no requests. The engine prepares
//! a phase, hands over the memory when it starts the phase, and handles the result.

mod wire;
use crate::host::{Auto, Host, Phase, Segment, StartError};
use crate::spec::command::{Command, Resp};
use wire::Wire;

pub(super) const NO_PHASE: Phase = Phase::of(Command::new(0, 0, Resp::None));

/// Longest time in ns of a command without data. On the wire it takes microseconds, and one or two
/// milliseconds at 100 kHz, the slowest clock.
pub(crate) const COMMAND_TIMEOUT_NS: u64 = 20_000_000;
/// Time that the engine waits beyond the card's limit; only needed if the controller's own timer
/// has failed.
pub(crate) const SLACK_NS: u64 = 50_000_000;
/// Time in ns until the engine tries a start again that was refused because the lines were in use.
pub(crate) const START_RETRY_NS: u64 = 10_000;
/// Longest time for which the engine repeats a start that was refused because the lines were in
/// use. No card is busy for longer after a write [SD 4.6.2.2], so lines that are still in use will
/// stay in use.
const START_TIMEOUT_NS: u64 = 500_000_000;
/// Longest time for which the engine repeats a start that was refused because the CMD line was in
/// use: the slowest command uses the line no longer than this.
const LINE_TIMEOUT_NS: u64 = COMMAND_TIMEOUT_NS + SLACK_NS;

/// A phase (one command with its data) that has ended, well or not, and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The phase: its command and its data.
    pub phase: Phase,
    /// Time in ns at which the engine passed the command and its data to the controller.
    pub began_ns: u64,
    /// Time at which the engine learned that the phase (a command with its data and busy) had
    /// ended, in nanoseconds.
    pub ended_ns: u64,
}

/// The results of an attempt to start a phase (a command with or without data) on the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The controller has accepted the phase (a command with its data) and executes it.
    Started,
    /// The lines are in use, and the engine tries again soon. `first`: this command was refused for
    /// the first time.
    Again { first: bool },
    /// The command was not started: the lines were still in use when the time limit since the first
    /// refusal had passed.
    Late,
    /// The controller does not support this command, or its data.
    Unsupported,
}

/// The driver, and the phase (a command with its response, data and busy) that it executes.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Bus<H> {
    /// Whether the controller refuses the phase (the command with its data and busy) since
    /// `began_ns`, so that it is not started yet.
    blocked: bool,
    /// The phase (a command with its data) that the controller executes, or that is the next to
    /// start.
    phase: Phase,
    /// Time in ns at which the controller got the phase `phase`, or first refused it.
    began_ns: u64,
    wire: Wire,
    /// The phase (a command with or without data) that ended last, and when it began and ended;
    /// `None`: none has ended.
    last: Option<Span>,
    host: H,
}

impl<H> Bus<H> {
    pub const fn new(host: H) -> Self {
        Bus { blocked: false, phase: NO_PHASE, began_ns: 0, wire: Wire::UNSET, last: None, host }
    }

    #[inline(always)]
    pub fn host(&self) -> &H {
        &self.host
    }

    #[inline(always)]
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// Returns whether the host declares that it can continue an open transfer.
    #[inline(always)]
    pub fn may_continue(&self) -> bool
    where
        H: Host,
    {
        H::CONTINUES && self.host.caps().continue_data
    }

    #[inline(always)]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    #[inline(always)]
    pub fn wire_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }

    #[inline(always)]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Sets the next command with its data (a [`Phase`]) for the controller; does not start it.
    #[inline(always)]
    pub fn prepare(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Handles the driver's answer when a command (a [`Phase`]) was to be started: it was started,
    /// or refused because the lines are in use or because of an error.
    #[inline(always)]
    pub fn note_start(&mut self, result: Result<(), StartError>, now_ns: u64) -> Outcome {
        match result {
            Ok(()) => {
                self.started(now_ns);
                Outcome::Started
            }
            Err(error) => self.refused(error, now_ns),
        }
    }

    #[inline(always)]
    fn started(&mut self, now_ns: u64) {
        self.blocked = false;
        self.began_ns = now_ns;
        if self.phase.auto == Auto::Continue {
            message!(trace, "the transfer goes on");
        } else {
            message!(trace, "CMD{} {:#010x}", self.phase.command.index, self.phase.command.arg);
        }
    }

    #[cold]
    fn refused(&mut self, error: StartError, now_ns: u64) -> Outcome {
        let limit_ns = match error {
            StartError::Unsupported => return Outcome::Unsupported,
            StartError::CommandLine => LINE_TIMEOUT_NS,
            StartError::DataLine => START_TIMEOUT_NS,
        };
        let first = !core::mem::replace(&mut self.blocked, true);
        if first {
            self.began_ns = now_ns;
        } else if now_ns.saturating_sub(self.began_ns) >= limit_ns {
            return Outcome::Late;
        }
        Outcome::Again { first }
    }

    /// Clears the note that the lines were in use when a command was to be started: the command has
    /// failed, or will not be started any more.
    #[inline(always)]
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns whether the phase that the controller has transfers data; a phase is a command with
    /// or without data. Call it only while a transfer is in progress.
    #[inline(always)]
    pub fn moves_data(&self) -> bool {
        !self.blocked && self.phase.data.is_some()
    }

    /// Stores the phase that has just ended, as the last one. `now_ns`: time at which its end was
    /// reported to the engine.
    #[inline(always)]
    pub fn note_end(&mut self, now_ns: u64) {
        self.last = Some(Span { phase: self.phase, began_ns: self.began_ns, ended_ns: now_ns });
    }

    #[inline(always)]
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    #[inline(always)]
    pub fn last(&self) -> Option<Span> {
        self.last
    }
}

impl<H: Host> Bus<H> {
    /// Starts the prepared command (phase) on the controller. Its data use the memory of
    /// `segments`, and the controller's own timer is set to `timeout_ns`. Returns whether the
    /// controller has accepted it.
    #[inline(always)]
    pub fn start(&mut self, segments: &[Segment], timeout_ns: u64, now_ns: u64) -> Outcome {
        let result = self.host.start(&self.phase, segments, timeout_ns);
        self.note_start(result, now_ns)
    }

    /// Starts the prepared phase (a command with its data) as [`start`](Self::start) does, by the
    /// driver's method for common commands, which needs fewer instructions. `timeout_ns`: how long
    /// the controller waits for the card.
    #[inline(always)]
    pub fn start_fast(&mut self, segments: &[Segment], timeout_ns: u64, now_ns: u64) -> Outcome {
        let result = self.host.start_fast(&self.phase, segments, timeout_ns);
        self.note_start(result, now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::BusOp;
    use StartError::{CommandLine, DataLine, Unsupported};

    const FIRST: Outcome = Outcome::Again { first: true };
    const AGAIN: Outcome = Outcome::Again { first: false };

    /// Passes a driver's answers to [`Bus::note_start`], checks the outcome of each, and returns
    /// the bus. A tuple is the time in ns, the driver's answer, and the expected outcome.
    fn judged(answers: &[(u64, Result<(), StartError>, Outcome)]) -> Bus<()> {
        let mut bus = Bus::new(());
        for &(now_ns, answer, outcome) in answers {
            assert_eq!(bus.note_start(answer, now_ns), outcome, "{answer:?} at {now_ns}");
        }
        bus
    }

    #[test]
    fn no_tuning_outlives_the_supply_of_its_card() {
        for op in [BusOp::TuneAbort, BusOp::ResetAll, BusOp::PowerOff, BusOp::PowerOn] {
            let mut bus = Bus::new(());
            bus.wire_mut().done(BusOp::TuneStart);
            assert!(bus.wire().is_tuning());
            bus.wire_mut().done(op);
            assert!(!bus.wire().is_tuning(), "{op:?}");
        }
    }

    #[test]
    fn lines_that_come_free_in_time_get_the_phase() {
        let bus = judged(&[
            (7, Err(DataLine), FIRST),
            (START_TIMEOUT_NS + 6, Err(DataLine), AGAIN),
            (START_TIMEOUT_NS + 8, Ok(()), Outcome::Started),
        ]);
        assert_eq!((bus.is_blocked(), bus.began_ns()), (false, START_TIMEOUT_NS + 8));
    }

    #[test]
    fn lines_that_stay_in_use_are_given_up() {
        for (error, limit_ns) in [(DataLine, START_TIMEOUT_NS), (CommandLine, LINE_TIMEOUT_NS)] {
            let bus = judged(&[
                (7, Err(error), FIRST),
                (limit_ns + 6, Err(error), AGAIN),
                (limit_ns + 7, Err(error), Outcome::Late),
            ]);
            assert!(bus.is_blocked() && !bus.moves_data());
        }
    }

    #[test]
    fn a_phase_that_the_controller_does_not_have_waits_for_nothing() {
        let bus = judged(&[(7, Err(Unsupported), Outcome::Unsupported)]);
        assert!(!bus.is_blocked());
    }

    /// Tests that each command has its own time limit for refusals of its start: the time that an
    /// earlier command was refused does not count.
    #[test]
    fn each_phase_is_refused_for_the_first_time() {
        let mut bus = judged(&[(7, Err(DataLine), FIRST)]);
        bus.unblock();
        assert_eq!(bus.note_start(Err(DataLine), START_TIMEOUT_NS + 7), FIRST);
    }

    #[test]
    fn the_last_phase_has_begin_and_end() {
        let mut bus = judged(&[(7, Ok(()), Outcome::Started)]);
        bus.note_end(9);
        assert_eq!(bus.last(), Some(Span { phase: NO_PHASE, began_ns: 7, ended_ns: 9 }));
    }
}
