//! The deadline of the phase in progress, and polls of the controller before it.

use super::Engine;
use super::bus::SLACK_NS;
use super::lane::Failure;
use super::phases::Stage;
use super::timers::later;
use crate::host::Host;
use crate::sched::Profile;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Polls the controller during a transfer of reads or writes, long before the card has had its
    /// whole time: perhaps only the interrupt was lost. The next poll comes when twice as much time
    /// has passed. Returns false if the card has had its time, or never got the command.
    pub(super) fn postpone_deadline(&mut self, now_ns: u64) -> bool {
        let Some(patience_ns) = self.patience_ns() else { return false };
        let began_ns = self.bus.began_ns();
        let end_ns = later(later(began_ns, patience_ns), SLACK_NS);
        self.timers.give_up_at(end_ns.min(later(now_ns, now_ns.saturating_sub(began_ns))));
        // Between two transfers of a chain no command may be on the lines for a moment.
        now_ns < end_ns
            && (self.bus.is_blocked() || self.lane.has_chain() || !self.bus.host().command_hangs())
    }

    /// Returns when the controller is first polled for a transfer that takes `wire_ns` on the wire,
    /// and at most `patience_ns` with the card's own time. A profile without recovery polls only
    /// one time, at the end.
    #[inline(always)]
    pub(super) const fn first_look_ns(wire_ns: u64, patience_ns: u64) -> u64 {
        if P::RECOVERS { wire_ns } else { patience_ns }
    }

    /// Returns how long the transfer of reads or writes in progress may take; `None`: what is in
    /// progress is not polled before its deadline.
    pub(super) fn patience_ns(&self) -> Option<u64> {
        if self.lane.has_chain() {
            return Some(self.chain_times_ns().1);
        }
        let (direction, blocks) = (self.batch.direction(), self.batch.blocks());
        let transfers = P::RECOVERS && matches!(self.lane.stage(), Stage::Main) && !self.lane.has_control();
        transfers.then(|| self.card.plan().times_ns(direction, blocks, self.bus.wire().data_ns(blocks)).1)
    }

    /// Notes that the time of the phase in progress is over.
    pub(super) fn no_answer(&mut self) {
        self.lane.note_failure(Failure::Silence);
    }
}
