//! How a transfer fails: the lines are reset, the card is brought back to `tran`, and then everybody gets his own result.
//!
//! No buffer is given back before the controller has let go of it. Requests that failed together are tried again one by one, in their
//! order and before everybody else, so that each gets its own result.

use super::extras::Event;
use super::phases::{Recovery, Stage};
use super::slot::{NONE, State};
use super::{Engine, Error, Kind};
use crate::host::BusOp;
use crate::host::{Host, Step};
use crate::sched::Policy;
use crate::spec::command;
use crate::spec::response::{R1, State as CardState};

/// Between two questions for the card's state.
const STATE_INTERVAL_NS: u64 = 1_000_000;
/// Questions until the card is given up: one second.
const STATE_QUESTIONS_MAX: u32 = 1_000;
/// Phases of one recovery that may fail themselves; then the card counts as gone for this transfer.
const FAULTS_MAX: u32 = 3;
/// CMD12 with its busy.
const STOP_TIMEOUT_NS: u64 = 1_000_000_000;

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// The phase in progress has failed with this error.
    pub(super) fn fail(&mut self, error: Error, now_ns: u64) {
        self.beside_lost(error);
        self.again = self.continue_failed(error);
        self.failure = Some(error);
        self.blocked = false;
        self.questions = 0;
        self.recovery_faults = 0;
        self.recovered_status = 0;
        self.recover_by_reset(Recovery::ResetLines, now_ns);
    }

    fn recover_by_reset(&mut self, step: Recovery, now_ns: u64) {
        self.stage = Stage::Recover(step);
        (self.wake_ns, self.deadline_ns) = (u64::MAX, u64::MAX);
        self.step_reset(step, true, now_ns);
    }

    fn step_reset(&mut self, step: Recovery, first: bool, now_ns: u64) {
        let all = matches!(step, Recovery::ResetAll | Recovery::Last);
        let op = if all { BusOp::ResetAll } else { BusOp::ResetLines };
        match (self.host.set_bus(op, first, now_ns), step) {
            (Step::Wait(until_ns), _) => self.wake_ns = until_ns.max(now_ns),
            (Step::Done, Recovery::ResetAgain) => self.ask_state(now_ns),
            (Step::Done, Recovery::Last) => self.give_in(now_ns),
            (Step::Done, _) => self.lines_are_back(now_ns),
            (Step::Failed, Recovery::ResetLines | Recovery::ResetAgain) => {
                self.recover_by_reset(Recovery::ResetAll, now_ns)
            }
            (Step::Failed, _) => self.give_in(now_ns),
        }
    }

    /// The controller is idle again; now the card. A raw request's card is its owner's business.
    fn lines_are_back(&mut self, now_ns: u64) {
        if self.target.is_none() || self.control != NONE && !self.minds_the_card() {
            return self.give_in(now_ns);
        }
        // A card that is in `tran` already does not answer: as good as an answer.
        self.start_command(
            Stage::Recover(Recovery::Stop),
            command::stop_transmission(),
            STOP_TIMEOUT_NS,
            now_ns,
        );
    }

    /// Does the control request in progress leave the card's state to the engine?
    fn minds_the_card(&self) -> bool {
        !matches!(
            self.slots.at(self.control).kind,
            Kind::Raw { .. } | Kind::Io { .. } | Kind::Bus(_) | Kind::Pause { .. }
        )
    }

    fn control_failed(&mut self, error: Error, now_ns: u64) {
        match self.slots.at(self.control).kind {
            // It has to find its way home first; and a flush by register its memory.
            Kind::Visit(_) => self.extra(Event::Failed(error), now_ns),
            _ if self.memory.mapped.is_some() => self.extra(Event::Failed(error), now_ns),
            _ => self.end_control_and_go_on(Err(error), now_ns),
        }
    }

    pub(super) fn recover_done(&mut self, step: Recovery, status: R1, now_ns: u64) {
        self.recovered_status |= status.0;
        match step {
            Recovery::Status if status.current_state() == CardState::Tran && status.ready_for_data() => {
                self.give_in(now_ns);
            }
            Recovery::Status => {
                self.stage = Stage::Recover(Recovery::Wait);
                self.wake_ns = now_ns.saturating_add(STATE_INTERVAL_NS);
            }
            _ => self.ask_state(now_ns),
        }
    }

    /// A phase of the recovery failed itself.
    pub(super) fn recover_failed(&mut self, step: Recovery, now_ns: u64) {
        self.blocked = false;
        self.recovery_faults += 1;
        match step {
            _ if self.recovery_faults > FAULTS_MAX => self.recover_by_reset(Recovery::Last, now_ns),
            // The circuits may be upset again: once more through the reset, then straight to the status.
            Recovery::Stop | Recovery::Status | Recovery::Wait => {
                self.recover_by_reset(Recovery::ResetAgain, now_ns);
            }
            Recovery::ResetLines | Recovery::ResetAgain | Recovery::ResetAll | Recovery::Last => {
                self.give_in(now_ns)
            }
        }
    }

    fn ask_state(&mut self, now_ns: u64) {
        self.questions += 1;
        if self.questions > STATE_QUESTIONS_MAX {
            return self.recover_by_reset(Recovery::Last, now_ns);
        }
        self.ask_status(Stage::Recover(Recovery::Status), now_ns);
    }

    pub(super) fn recover_wake(&mut self, step: Recovery, now_ns: u64) {
        match step {
            Recovery::ResetLines | Recovery::ResetAgain | Recovery::ResetAll | Recovery::Last => {
                self.step_reset(step, false, now_ns);
            }
            Recovery::Wait => self.ask_state(now_ns),
            Recovery::Stop | Recovery::Status => {}
        }
    }

    /// Recovery is over, well or not: results.
    fn give_in(&mut self, now_ns: u64) {
        let error = self.failure.take().unwrap_or(Error::Silent);
        (self.wake_ns, self.deadline_ns) = (u64::MAX, u64::MAX);
        // Writes that were complete before this transfer: no clean status has been seen of them if the bits say so, or if none came.
        if self.settling != 0 {
            let silent = self.recovered_status == 0;
            let status = if silent { R1::ERROR } else { self.recovered_status };
            self.settle(status);
        }
        self.recovered_run();
        let again = core::mem::take(&mut self.again);
        if self.control != NONE {
            return self.control_failed(error, now_ns);
        }
        self.stage = Stage::Idle;
        let together = self.gathered.members().len() > 1 && error != Error::Removed;
        for place in (0..self.gathered.members().len()).rev() {
            let Some(&index) = self.gathered.members().get(place) else { continue };
            if self.slots.at(index).state != State::Active {
                continue;
            }
            if let Some(sent) = self.told(index) {
                self.policy.done(&sent, now_ns);
            }
            if together || again && error != Error::Removed {
                // A transfer that could not continue another is whole once it has a command of its own.
                self.slots.at_mut(index).solo |= !again;
                self.push_front(index, now_ns);
            } else {
                self.end_slot(index, Err(error));
            }
        }
        self.dispatch(now_ns);
    }

    /// The card is gone: everything that needs it fails now, what the controller has as soon as it has let go.
    pub(super) fn removed(&mut self, now_ns: u64) {
        self.target = None;
        for index in 0..N as u8 {
            let slot = self.slots.at(index);
            let card = slot.span().is_some() || matches!(slot.kind, Kind::Io { .. });
            let queued = slot.state == State::Queued && card;
            if queued || slot.state == State::Settling {
                if queued {
                    self.withdraw(index);
                }
                self.end_slot(index, Err(Error::Removed));
            }
        }
        self.settling = 0;
        (self.open, self.unsettled, self.late) = (None, false, None);
        match self.stage {
            Stage::Idle | Stage::Bus(_) | Stage::Pause => {}
            Stage::Recover(_) => self.failure = Some(Error::Removed),
            _ => self.fail(Error::Removed, now_ns),
        }
    }

    /// Used where a transfer's own buffers must be free before the caller returns: stops DMA without asking the card.
    pub fn abort(&mut self, now_ns: u64) {
        if !matches!(self.stage, Stage::Idle | Stage::Bus(_) | Stage::Pause | Stage::Recover(_)) {
            self.fail(Error::Silent, now_ns);
        }
    }
}
