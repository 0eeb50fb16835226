//! What time brings: retries, the next step of something slow, questions to a busy card, and the
//! end of patience.

use super::concurrent::Turn;
use super::extras::Event;
use super::phases::{SLACK_NS, Stage};
use super::timers::later;
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
            if Self::FAST {
                self.host.interrupt_lost();
            }
            return;
        }
        if !self.timers.is_over(now_ns) || self.lane.is_idle() || self.postpone_deadline(now_ns) {
            return;
        }
        self.no_answer(now_ns);
    }

    /// Lets a transfer of reads or writes be looked at long before the card has had its whole time,
    /// since maybe only the interrupt was lost; then again when twice as long has passed. False:
    /// the card has had it, or never got the command.
    fn postpone_deadline(&mut self, now_ns: u64) -> bool {
        let Some(patience_ns) = self.patience_ns() else { return false };
        let began_ns = self.lane.began_ns();
        let end_ns = later(later(began_ns, patience_ns), SLACK_NS);
        self.timers.give_up_at(end_ns.min(later(now_ns, now_ns.saturating_sub(began_ns))));
        // Between two transfers of a chain the lines may be free for a moment.
        now_ns < end_ns && (self.lane.is_blocked() || self.has_chain() || !self.host.command_hangs())
    }

    /// When the controller is first asked of a transfer that takes so long on the wire, or may take
    /// so long with the card's own time. A profile without recovery asks once, at the end.
    #[inline(always)]
    pub(super) const fn first_look_ns(wire_ns: u64, patience_ns: u64) -> u64 {
        if P::RECOVERS { wire_ns } else { patience_ns }
    }

    /// How long the transfer of reads or writes in progress may take, where it is looked at before.
    pub(super) fn patience_ns(&self) -> Option<u64> {
        if self.has_chain() {
            return Some(self.chain_times_ns().1);
        }
        let (direction, blocks) = (self.batch.direction(), self.batch.blocks());
        let transfers = P::RECOVERS && matches!(self.lane.stage(), Stage::Main) && !self.lane.has_control();
        transfers.then(|| self.card.plan().times_ns(direction, blocks, self.card.wire().data_ns(blocks)).1)
    }

    /// The phase in progress has had its time.
    pub(super) fn no_answer(&mut self, now_ns: u64) {
        match self.lane.stage() {
            Stage::Recover(step) => self.recover_failed(step, false, now_ns),
            _ => self.fail(Error::Silent, now_ns),
        }
    }
}
