//! What time brings: retries, the next step of something slow, questions to a busy card, and the
//! end of patience.

use super::concurrent::Turn;
use super::extras::Event;
use super::phases::Stage;
use super::{Engine, Error, Output};
use crate::host::Host;
use crate::sched::Profile;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Whatever time has brought: retries, steps, questions, deadlines. One turn of each at most.
    pub(super) fn advance(&mut self, now_ns: u64) {
        if H::CONCURRENT && self.timers.concurrent_is_due(now_ns) {
            self.concurrent_turn(Turn::Due, now_ns);
        }
        if self.lane.is_idle() {
            return self.dispatch(now_ns);
        }
        if self.timers.take_turn(now_ns) {
            match self.lane.stage() {
                Stage::Bus(op) => {
                    let begun = self.lane.take_bus();
                    self.step_bus(op, !begun, now_ns);
                    self.dispatch(now_ns);
                }
                Stage::Pause => self.end_control_and_go_on(Ok(Output::default()), now_ns),
                Stage::BusyPause => self.ask_busy(now_ns),
                Stage::Status if !self.lane.is_blocked() => self.ask_status(Stage::Status, now_ns),
                Stage::Extra if P::RECOVERS && !self.lane.is_blocked() => self.extra(Event::Woke, now_ns),
                Stage::Recover(step) if !self.lane.is_blocked() => self.recover_wake(step, now_ns),
                _ if self.lane.is_blocked() => self.try_start(self.timers.left_ns(now_ns), now_ns),
                _ => {}
            }
        }
        if self.timers.is_over(now_ns) {
            self.overdue(now_ns);
        }
    }

    /// A deadline has passed: maybe only the interrupt was lost.
    pub(super) fn overdue(&mut self, now_ns: u64) {
        let waiting = !self.lane.is_blocked() && !matches!(self.lane.stage(), Stage::BusyPause);
        if waiting && self.acknowledge(now_ns) && !self.timers.is_over(now_ns) {
            self.record.interrupt_lost();
            if Self::STRAIGHT {
                self.host.interrupt_lost();
            }
            return;
        }
        if !self.timers.is_over(now_ns) || self.lane.is_idle() {
            return;
        }
        self.no_answer(now_ns);
    }

    /// The phase in progress has had its time.
    pub(super) fn no_answer(&mut self, now_ns: u64) {
        match self.lane.stage() {
            Stage::Recover(step) => self.recover_failed(step, false, now_ns),
            _ => self.fail(Error::Silent, now_ns),
        }
    }
}
