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
use super::super::lane::Lane;
use super::super::slot::{State, bits};
use super::{BLOCK_BYTES, ChainAt, Engine, Stage};
use crate::host::{Cause, ChainFault, Direction, Fault, Host};
use crate::sched::slot_set::SlotSet;
use crate::sched::{Lanes, Profile};
use crate::spec::response::{R1, Response};

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the chain (a list of transfers) has a write before the transfer with the
    /// number `passed`; false if that number is not known.
    pub(in crate::engine) fn has_written(&self, passed: Option<u8>) -> bool {
        let links = self.chains().map_or(&[][..], |chains| chains.links());
        let before = links.iter().take(usize::from(passed.unwrap_or(0)));
        before.into_iter().any(|link| link.direction == Direction::Write)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Handles a chain that the controller reports as failed.
    #[cold]
    pub(super) fn chain_fault(&mut self, seen: ChainFault, now_ns: u64) {
        message!(warn, "{}", seen);
        let ChainFault { mut fault, passed } = seen;
        let early = fault.cause == Cause::Other && passed.is_none() && fault.response.is_none();
        if let Some(chains) = self.lane.chains_mut().filter(|_| early) {
            chains.demote_early_end();
        }
        let told = fault.response.map(|response| response.words[0]);
        self.stop_chain(passed, told, now_ns);
        // An error of an earlier write of the chain is not the failed transfer's own.
        if self.lane.has_written(passed)
            && let Some(status) = told
        {
            // It may also be one of complete writes, which no response names.
            if status & R1::DEFERRED != 0 && self.durability.take_unsettled() {
                self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
            } else {
                self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
            }
            fault.response = Some(Response { words: [status & !R1::DEFERRED, 0, 0, 0] });
        }
        self.phase_failed(Fault { ..fault }, now_ns);
    }

    /// Handles a failure: ends the chain (transfers that the controller executes from one list) if
    /// the controller has one; otherwise does nothing.
    #[inline(always)]
    pub(in super::super) fn chain_failed(&mut self, now_ns: u64) {
        if self.lane.has_chain() {
            self.break_chain(now_ns);
        }
    }

    /// Ends a chain that the controller has not reported as ended or failed: something else has
    /// failed, or the engine breaks the chain off.
    #[cold]
    #[inline(never)]
    fn break_chain(&mut self, now_ns: u64) {
        let begun = self.lane.chains().is_some_and(|chains| chains.at() == ChainAt::Runs);
        let passed =
            if begun { self.bus.host_mut().chain().and_then(|chain| chain.passed()) } else { Some(0) };
        self.stop_chain(passed, None, now_ns);
    }

    /// Ends a chain that stopped at the transfer with the number `passed` (from 0; `None`: not
    /// known). That transfer becomes the one in progress. `told`: the last R1 that came.
    #[cold]
    fn stop_chain(&mut self, passed: Option<u8>, told: Option<u32>, now_ns: u64) {
        let Some(chains) = self.lane.chains_mut() else { return };
        let last = chains.links().len().saturating_sub(1) as u8;
        let link = passed.unwrap_or(0).min(last);
        let well = told.is_some_and(|status| status & R1::DEFERRED == 0);
        chains.note_failure(link, passed.is_some(), well, now_ns);
        if let Some(why) = chains.stats().demoted {
            message!(warn, "chains of transfers are given up: {}", why);
        }
        let Some(&failed) = chains.links().get(usize::from(link)) else { return };
        self.batch.begin(failed.direction, failed.start);
        let mut left = failed.members;
        // Each turn of the loop removes one request.
        while left != 0 {
            let Some(index) = bits(left).min_by_key(|&at| self.slots.at(at).span().map_or(0, |s| s.1)) else {
                break;
            };
            left &= !(1 << index);
            let slot = self.slots.at(index);
            let blocks = slot.span().map_or(0, |(_, _, blocks)| blocks);
            let segment = slot.segment().part(0, blocks.saturating_mul(BLOCK_BYTES));
            self.batch.add(index, blocks, segment);
        }
        let plan = self.card.plan();
        let auto = plan.auto(failed.blocks);
        let phase = plan.transfer((failed.direction, failed.start, failed.blocks), false, auto, 0).phase;
        self.bus.prepare(phase);
        self.lane.enter(Stage::Main);
        self.timers.clear();
        if Self::EARLY {
            self.lane.early_mut().begin();
        }
    }

    /// Ends or puts back the requests of a chain (a list of transfers) that failed, after a reset:
    /// the controller does not use their memory any more.
    #[inline(always)]
    pub(in super::super) fn release_reset_chain(&mut self, now_ns: u64) {
        if self.lane.chains().is_some_and(|chains| chains.at() != ChainAt::Rest) {
            self.split_chain(now_ns);
        }
    }

    #[cold]
    #[inline(never)]
    fn split_chain(&mut self, now_ns: u64) {
        let Some(chains) = self.lane.chains_mut() else { return };
        let at = chains.at();
        chains.set_rest();
        let (failed, believed, well) = match at {
            ChainAt::Failed { link, believed, well } => (usize::from(link), believed, well),
            _ => (usize::MAX, false, false),
        };
        let dead = if self.blockers.is_dead() { Error::Dead } else { Error::NoCard };
        let is_gone = self.card.target().is_none() || self.blockers.is_dead();
        let gone = is_gone.then(|| self.incident.failed().error().unwrap_or(dead));
        let mut suspects: SlotSet = 0;
        for place in 0..chains.links().len() {
            let Some(&link) = self.lane.chains().and_then(|chains| chains.links().get(place)) else { break };
            for index in bits(link.members) {
                if place == failed || self.slots.at(index).state() != State::Active {
                    continue;
                }
                let done = believed && place < failed;
                match link.direction {
                    Direction::Read if done => {
                        self.order.link_moved(&mut self.slots, index, now_ns);
                        self.slots.end(index);
                    }
                    Direction::Write if done && well => {
                        self.order.link_moved(&mut self.slots, index, now_ns);
                        self.durability.complete();
                        self.slots.end(index);
                    }
                    Direction::Write if done && !is_gone => {
                        self.order.link_moved(&mut self.slots, index, now_ns);
                        self.slots.at_mut(index).forbid_merge(true);
                        self.slots.await_status(index);
                        suspects |= 1 << index;
                    }
                    _ => self.order.take_back(&mut self.slots, index, gone, now_ns),
                }
            }
        }
        if suspects != 0 {
            if let Some(chains) = self.lane.chains_mut() {
                chains.count_suspects();
            }
            self.incident.doubt(&mut self.slots);
        }
    }
}
