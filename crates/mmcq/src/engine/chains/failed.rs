//! Failures of a chain.
//!
//! The controller reports at which transfer it stopped. The recovery ladder handles that transfer
//! like a failed transfer outside of a chain. The transfers after the failed one were not begun;
//! their requests wait again with their age, and the failure does not count against them. The
//! transfers before the failed one are done. The reads among them are complete. The writes among
//! them are complete if the last R1 that the controller received for the chain shows no error. If
//! that R1 shows an error, or if none came, the writes are sent again, in order and one at a time.
//! All this happens only after the lines are reset, since the controller has the memory of the
//! whole chain until then.
//!
//! The controller may report success although its registers contradict that, or each other. Then no
//! transfer of the chain counts as done, and all are repeated one at a time. After the first such
//! end no further chains are made.

use super::super::Error;
use super::super::batch::Batch;
use super::super::durability::Durability;
use super::super::lane::Lane;
use super::super::order::Order;
use super::super::recover::Incident;
use super::super::slot::{Slots, State, bits};
use super::{BLOCK_BYTES, ChainAt};
use crate::host::Direction;
use crate::sched::chains::Link;
use crate::sched::slot_set::SlotSet;
use crate::sched::{Lanes, Profile};

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the chain (a list of transfers) has a write before the transfer with the
    /// number `passed`; false if that number is not known.
    pub(in crate::engine) fn has_written(&self, passed: Option<u8>) -> bool {
        let links = self.chains().map_or(&[][..], |chains| chains.links());
        let before = links.iter().take(usize::from(passed.unwrap_or(0)));
        before.into_iter().any(|link| link.direction == Direction::Write)
    }

    /// Counts the failure of a chain at the transfer `link`. `known`: the controller has named that
    /// transfer. `well`: the last R1 that came shows no error of an earlier write. Returns the
    /// transfer.
    #[cold]
    pub fn chain_stopped(&mut self, link: u8, known: bool, well: bool, now_ns: u64) -> Option<Link> {
        let chains = self.chains_mut()?;
        chains.note_failure(link, known, well, now_ns);
        if let Some(why) = chains.stats().demoted {
            message!(warn, "chains of transfers are given up: {}", why);
        }
        chains.links().get(usize::from(link)).copied()
    }

    /// Ends or puts back the requests of a chain that failed, after a reset: the controller does
    /// not use their memory any more. `gone`: the error of requests that cannot be sent again,
    /// since there is no card any more.
    #[cold]
    #[inline(never)]
    pub fn split_chain<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        ledger: &mut Durability,
        incident: &mut Incident,
        gone: Option<Error>,
        now_ns: u64,
    ) {
        let Some(chains) = self.chains_mut() else { return };
        let at = chains.at();
        chains.set_rest();
        let (failed, believed, well) = match at {
            ChainAt::Failed { link, believed, well } => (usize::from(link), believed, well),
            _ => (usize::MAX, false, false),
        };
        let mut suspects: SlotSet = 0;
        for (place, link) in chains.links().iter().enumerate() {
            for index in bits(link.members) {
                if place == failed || slots.at(index).state() != State::Active {
                    continue;
                }
                let done = believed && place < failed;
                match link.direction {
                    Direction::Read if done => {
                        order.link_moved(slots, index, now_ns);
                        slots.end(index);
                    }
                    Direction::Write if done && well => {
                        order.link_moved(slots, index, now_ns);
                        ledger.complete();
                        slots.end(index);
                    }
                    Direction::Write if done && gone.is_none() => {
                        order.link_moved(slots, index, now_ns);
                        slots.at_mut(index).forbid_merge(true);
                        slots.await_status(index);
                        suspects |= 1 << index;
                    }
                    _ => order.take_back(slots, index, gone, now_ns),
                }
            }
        }
        if suspects != 0 {
            chains.count_suspects();
            incident.doubt(slots);
        }
    }
}

impl<const N: usize> Batch<N> {
    /// Collects the requests of this transfer of a chain, in the order of their blocks.
    pub fn gather_link(&mut self, slots: &Slots<N>, link: &Link) {
        self.begin(link.direction, link.start);
        let mut left = link.members;
        // Each turn of the loop removes one request.
        while left != 0 {
            let Some(index) = bits(left).min_by_key(|&at| slots.at(at).span().map_or(0, |s| s.1)) else {
                break;
            };
            left &= !(1 << index);
            let slot = slots.at(index);
            let blocks = slot.span().map_or(0, |(_, _, blocks)| blocks);
            let segment = slot.segment().part(0, blocks.saturating_mul(BLOCK_BYTES));
            self.add(index, blocks, segment);
        }
    }
}
