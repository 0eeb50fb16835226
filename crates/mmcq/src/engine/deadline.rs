//! What time brings: retries, the next step of something slow, questions to a busy card, and the end of patience.

use super::concurrent::Turn;
use super::extras::Event;
use super::phases::{COMMAND_TIMEOUT_NS, SLACK_NS, Stage};
use super::{Engine, Error, Output};
use crate::host::Host;
use crate::plant::{self, Bug};
use crate::sched::Policy;

/// A moment so much later, or the last one. On cores of 32 bits one copy: each would be twenty bytes.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn later(at_ns: u64, ns: u64) -> u64 {
    at_ns.saturating_add(ns)
}

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// Whatever time has brought: retries, steps, questions, deadlines. One turn of each at most.
    pub(super) fn advance(&mut self, now_ns: u64) {
        if H::CONCURRENT && now_ns >= self.concurrent.wake_ns {
            self.beside_turn(Turn::Due, now_ns);
        }
        if matches!(self.stage, Stage::Idle) {
            return self.dispatch(now_ns);
        }
        let now_ns = if plant::is(Bug::DeadlineWraps) { u64::from(now_ns as u32) } else { now_ns };
        if now_ns >= self.wake_ns {
            self.wake_ns = u64::MAX;
            match self.stage {
                Stage::Bus(op) => {
                    let begun = core::mem::replace(&mut self.bus_begun, true);
                    self.step_bus(op, !begun, now_ns);
                    self.dispatch(now_ns);
                }
                Stage::Pause => self.end_control_and_go_on(Ok(Output::default()), now_ns),
                Stage::BusyPause => self.ask_busy(now_ns),
                Stage::Status if !self.blocked => self.ask_status(Stage::Status, now_ns),
                Stage::Extra if P::RECOVERS && !self.blocked => self.extra(Event::Woke, now_ns),
                Stage::Recover(step) if !self.blocked => self.recover_wake(step, now_ns),
                _ if self.blocked => self.try_start(self.retry_timeout_ns(now_ns), now_ns),
                _ => {}
            }
        }
        if now_ns >= self.deadline_ns {
            self.overdue(now_ns);
        }
    }

    /// The controller's timer for a start that was held up: what is left.
    pub(super) fn retry_timeout_ns(&self, now_ns: u64) -> u64 {
        self.deadline_ns.saturating_sub(now_ns).saturating_sub(SLACK_NS).max(COMMAND_TIMEOUT_NS)
    }

    /// A deadline has passed: maybe only the interrupt was lost.
    pub(super) fn overdue(&mut self, now_ns: u64) {
        let waiting = !self.blocked && !matches!(self.stage, Stage::BusyPause);
        if plant::is(Bug::NoDeadline) {
            return;
        }
        if waiting && self.acknowledge(now_ns) && now_ns < self.deadline_ns {
            self.stats.lost_interrupts += 1;
            if Self::STRAIGHT {
                self.host.interrupt_lost();
            }
            return;
        }
        if now_ns < self.deadline_ns || matches!(self.stage, Stage::Idle) {
            return;
        }
        self.no_answer(now_ns);
    }

    /// The phase in progress has had its time.
    pub(super) fn no_answer(&mut self, now_ns: u64) {
        match self.stage {
            Stage::Recover(step) => self.recover_failed(step, false, now_ns),
            _ => self.fail(Error::Silent, now_ns),
        }
    }
}
