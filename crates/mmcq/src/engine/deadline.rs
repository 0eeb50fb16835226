//! The deadline of the command (with its data) in progress, and polls of the controller before it.

use super::batch::Batch;
use super::bus::{Bus, SLACK_NS};
use super::card::Card;
use super::lane::Lane;
use super::phases::Stage;
use super::timers::{Timers, later};
use crate::host::Host;
use crate::sched::{Lanes, Profile};

impl<E, T: Lanes> Lane<E, T> {
    /// Returns how long the transfer of reads or writes in progress may take, in nanoseconds.
    /// `None`: the phase in progress is another one; then the controller is not polled before the
    /// deadline.
    pub fn patience_ns<H, const N: usize, P: Profile>(
        &self,
        bus: &Bus<H>,
        card: &Card,
        batch: &Batch<N>,
    ) -> Option<u64> {
        if self.has_chain() {
            return Some(self.chain_times_ns(bus, card).1);
        }
        let (direction, blocks) = (batch.direction(), batch.blocks());
        let transfers = P::RECOVERS && matches!(self.stage(), Stage::Main) && !self.has_control();
        transfers.then(|| card.plan().times_ns(direction, blocks, bus.wire().data_ns(blocks)).1)
    }

    /// Plans the next poll of the controller, after a poll has found that a transfer of reads or
    /// writes is still in progress. Such polls find a lost interrupt early. The interval doubles:
    /// the next poll comes when twice the time since the transfer's begin has passed. Returns false
    /// if the transfer's time limit has passed, or if the command never left the controller.
    pub fn postpone_deadline<H: Host, const N: usize, P: Profile>(
        &mut self,
        bus: &Bus<H>,
        card: &Card,
        batch: &Batch<N>,
        timers: &mut Timers,
        now_ns: u64,
    ) -> bool {
        let Some(patience_ns) = self.patience_ns::<H, N, P>(bus, card, batch) else {
            return false;
        };
        let began_ns = bus.began_ns();
        let end_ns = later(later(began_ns, patience_ns), SLACK_NS);
        timers.give_up_at(end_ns.min(later(now_ns, now_ns.saturating_sub(began_ns))));
        // Between two transfers of a chain no command may be on the lines for a moment.
        now_ns < end_ns && (bus.is_blocked() || self.has_chain() || !bus.host().command_hangs())
    }
}

/// Returns after how many nanoseconds the controller is first polled for the end of a transfer.
/// That is `wire_ns`, its time on the wire. Without recovery in the profile it is `patience_ns`,
/// the time limit of the transfer, and there is only this poll.
#[inline(always)]
pub(super) const fn first_look_ns<P: Profile>(wire_ns: u64, patience_ns: u64) -> u64 {
    if P::RECOVERS { wire_ns } else { patience_ns }
}
