//! Chains: several transfers that the controller executes from one list [SDHC 4.10, 1.13.5].
//!
//! A chain is made of the requests that wait when the controller is free. The policy picks the
//! first request of each transfer, and requests that continue it are merged to it, as for an
//! ordinary transfer. Reads and writes may be in one chain: the controller keeps their order. The
//! chain ends before the first request that cannot join. Such a request is a barrier, has special
//! rules (for example, a durable write), has failed before, or overlaps another request of the
//! chain where one of the two writes. So all rules of order hold as without chains.
//!
//! All requests of a chain end together. So a chain has at most half as many transfers as requests
//! wait (rounded up; two are always allowed): the next chain runs while the clients of the first
//! are notified. *Guarantee: a chain has at most 16 transfers, and at most as many blocks as a
//! merged transfer may have. The time limit of the chain is the sum of the limits of its
//! transfers.*
//!
//! The controller does not show the R1 responses of a chain, and stops at one that has an error. So
//! each response without an error confirms the writes before it. The result of a last write is in
//! the card's next status, as for any transfer; the engine reads it before the next chain.
//! `failed.rs` handles failures.

mod failed;
use super::blockers::COLLECTIONS;
use super::bus::{Bus, SLACK_NS};
use super::card::Card;
use super::deadline::first_look_ns;
use super::durability::Durability;
use super::lane::Lane;
use super::order::Order;
use super::phases::Stage;
use super::runs::End;
use super::slot::{NONE, Slots, bits};
use super::timers::later;
use super::{BLOCK_BYTES, Batch, Count, Engine, Error};
use crate::host::{Auto, Cause, ChainFault, Direction, Events, Fault, Host};
use crate::sched::chains::{ChainAt, Link};
use crate::sched::slot_set::SlotSet;
use crate::sched::{ChainStats, Lanes, Policy, Profile};
use crate::spec::command;
use crate::spec::response::{R1, Response};

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the controller has a chain (a list of transfers), or is about to get one.
    #[inline(always)]
    pub(in crate::engine) fn has_chain(&self) -> bool {
        self.chains().is_some_and(|chains| matches!(chains.at(), ChainAt::Waits | ChainAt::Runs))
    }

    /// Returns two sums over all transfers of the chain, in ns: the time on the wire, and the time
    /// limits.
    pub fn chain_times_ns<H>(&self, bus: &Bus<H>, card: &Card) -> (u64, u64) {
        let (plan, wire) = (card.plan(), bus.wire());
        let links = self.chains().map_or(&[][..], |chains| chains.links());
        links.iter().fold((0, 0), |(wires_ns, limit_ns), link| {
            let wire_ns = wire.data_ns(link.blocks);
            let (_, patience_ns) = plan.times_ns(link.direction, link.blocks, wire_ns);
            (later(wires_ns, wire_ns), later(limit_ns, patience_ns))
        })
    }
}

impl<const N: usize> Slots<N> {
    /// Returns whether a request waits that could be the second transfer of a chain (a list of
    /// several transfers). The requests in `part` are to be the first one.
    pub fn has_other_link<P: Profile>(&self, card: &Card, ledger: &Durability, part: &Batch<N>) -> bool {
        let waits = |at: &u8| !part.members().contains(at);
        let may =
            |at: u8| self.at(at).direction().is_some_and(|way| self.is_packable(card, ledger, at, way).0);
        if P::Policy::IN_ORDER {
            return self.queue().find(waits).is_some_and(may);
        }
        let offered = self.mergeable(Direction::Read) | self.mergeable(Direction::Write);
        bits(offered).any(|at| waits(&at) && may(at))
    }
}

impl Card {
    /// Returns whether the card may report an error because of where this transfer ends. A read of
    /// the card's last block that CMD12 ends may cause one [SD 4.3.3]. That error means nothing,
    /// but the controller would stop the chain there.
    pub fn ends_at_the_edge<const N: usize>(&self, part: &Batch<N>) -> bool {
        let edge = self.target().is_none_or(|target| part.end() >= target.sectors);
        edge && part.direction() == Direction::Read && self.plan().auto(2) == Auto::Stop
    }
}

impl<P: Profile> Order<P> {
    /// Notes that the data of this request have been transferred as part of a chain (several
    /// transfers in one list).
    pub fn link_moved<const N: usize>(&mut self, slots: &mut Slots<N>, index: u8, now_ns: u64) {
        self.note_done(slots, index, now_ns);
        let slot = slots.at_mut(index);
        let blocks = slot.span().map_or(0, |(_, _, blocks)| blocks);
        slot.moved_more(blocks);
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Sends ordinary reads and writes to the controller in chains (lists) of at most `most`
    /// transfers, where several wait. A `most` below two switches chains off. If the engine has
    /// stopped using chains after failures, the call lets it try them again. The setting holds for
    /// every card.
    ///
    /// Returns false if the profile sends no chains ([`Chained`](crate::sched::Chained)), or the
    /// controller executes none ([`ChainHost::chain_caps`](crate::host::ChainHost::chain_caps) says
    /// why).
    pub fn set_chains(&mut self, most: u8) -> bool {
        if self.lane.chains().is_none() {
            return false;
        }
        self.blockers.close_fast();
        let caps = match self.bus.host_mut().chain().map(|chain| chain.chain_caps()) {
            Some(Ok(caps)) => caps,
            Some(Err(why)) => {
                message!(warn, "{}: one transfer at a time", why);
                return false;
            }
            None => return false,
        };
        let Some(chains) = self.lane.chains_mut() else { return false };
        chains.configure(crate::host::ChainCaps { entries: most.min(caps.entries), ..caps });
        chains.is_armed()
    }

    /// Returns the counters of chains (lists of transfers that the controller executes); `None`:
    /// the firmware's [`Profile`] leaves chains out.
    pub fn chain_stats(&self) -> Option<&ChainStats> {
        self.lane.chains().map(|chains| chains.stats())
    }

    /// Begins a chain (a list of transfers) with the request `first`, if several transfers can go
    /// together. Returns true if the engine has done something: it has started the chain, an
    /// ordinary transfer of these requests, or a read of the card's status that must come before;
    /// or it has ended `first` with an error.
    #[inline(always)]
    pub(super) fn start_chain_with(&mut self, first: u8, now_ns: u64) -> bool {
        self.lane.chains().is_some_and(|chains| chains.is_armed()) && self.collect_chain(first, now_ns)
    }

    /// Returns whether the engine may begin to collect transfers for a chain now: the card ends
    /// transfers by itself, its addresses have no more than 32 bits, and nothing in the engine's
    /// state (such as a failure that is handled) forbids it.
    fn may_chain(&self, now_ns: u64) -> bool {
        let ends =
            self.card.plan().ends_by_itself() && self.card.target().is_some_and(|t| !t.extended_address);
        ends && !self.is_lane_stopped::<COLLECTIONS>(now_ns)
    }

    /// Collects into `part` the request `next` and the requests that continue it. Returns true if
    /// their transfer may be the next link (transfer) of the chain; it may not if a request does
    /// not fit into it as a whole. `blocks` and `members`: number of blocks and of requests that
    /// the chain has already.
    fn collects_link(&self, part: &mut Batch<N>, next: u8, blocks: u32, members: usize) -> bool {
        let Some(direction) = self.slots.at(next).direction() else { return false };
        let limits = self.bus.limits(&self.config, &self.incident, self.lane.streams());
        let chain = self.lane.chains().map_or((0, 0, 0), |chains| chains.limits());
        let limits = limits.of_link::<N>(chain, blocks, members);
        let blocks = self.slots.at(next).span().map_or(u32::MAX, |(_, _, blocks)| blocks);
        if !self.slots.is_packable(&self.card, &self.durability, next, direction).0
            || limits.segments == 0
            || blocks > limits.blocks
        {
            return false;
        }
        part.collect(&self.slots, next, limits);
        let met = self.lane.chains().is_none_or(|chains| chains.meets(direction, part.lba(), part.end()));
        self.batch.is_whole(&self.slots, part) && !met && !self.card.ends_at_the_edge(part)
    }

    #[inline(never)]
    fn collect_chain(&mut self, first: u8, now_ns: u64) -> bool {
        let mut part = Batch::new();
        if let Some(chains) = self.lane.chains_mut() {
            chains.begin();
        }
        if !self.may_chain(now_ns)
            || !self.collects_link(&mut part, first, 0, 0)
            || !self.slots.has_other_link::<P>(&self.card, &self.durability, &part)
            || !self.bus.host_mut().chain().is_some_and(|chain| chain.begin_chain())
        {
            return false;
        }
        if self.slots.is_settling() {
            // The status of earlier writes is read first: their error must not be taken for one of
            // the chain's.
            self.ask_status(Stage::Status, now_ns);
            return true;
        }
        let waiting = (self.slots.queued_reads() | self.slots.queued_writes()).count_ones() as usize;
        let (links, _, _) = self.lane.chains().map_or((0, 0, 0), |chains| chains.limits());
        let most = links.min(waiting.div_ceil(2).max(2));
        match self.map_in_turn(first, now_ns) {
            Ok(true) => {}
            // The request is not mapped yet; the engine comes here again when it is.
            Ok(false) => return false,
            Err(error) => {
                self.order.turn_down(&mut self.slots, first, error);
                return true;
            }
        }
        self.batch.begin(part.direction(), part.lba());
        let reliable = self.slots.is_packable(&self.card, &self.durability, first, part.direction()).1;
        if !self.add_link(&mut part, now_ns) {
            return false;
        }
        self.order.hold_broken(now_ns);
        self.timers.clear_idle();
        for _ in 1..most {
            let head = self.slots.head();
            if head == NONE {
                break;
            }
            let Some(next) =
                self.order.pick(&self.slots, &mut self.timers, self.incident.is_open(), head, now_ns)
            else {
                break;
            };
            let (blocks, members) = (self.batch.blocks(), self.batch.members().len());
            if !self.collects_link(&mut part, next, blocks, members) || !self.add_link(&mut part, now_ns) {
                break;
            }
        }
        let links = self.lane.chains().map_or(0, |chains| chains.links().len());
        self.record.merged(self.batch.members().len().saturating_sub(links) as Count);
        if links > 1 {
            self.lane.note_transfer_start(&mut self.record, &mut self.incident, End::Here);
            self.give_chain(now_ns);
        } else {
            // A chain of one link is sent as an ordinary transfer instead.
            self.bus.host_mut().chain().map(|chain| chain.begin_chain());
            self.go_by_phases(reliable, now_ns);
        }
        true
    }

    /// Makes the requests in `part` the next transfer of the chain. Returns false if they cannot be
    /// one; then they stay in the queue.
    fn add_link(&mut self, part: &mut Batch<N>, now_ns: u64) -> bool {
        let (first, direction, count) = (part.first(), part.direction(), part.members().len());
        part.no_segments();
        let mut members: SlotSet = 0;
        for place in 0..count {
            let Some(&index) = part.members().get(place) else { return false };
            if self.slots.map(self.bus.host_mut(), index).is_err() {
                self.slots.at_mut(index).forbid_merge(index != first);
                return false;
            }
            let slot = self.slots.at(index);
            let blocks = slot.span().map_or(0, |(_, _, blocks)| blocks);
            let segment = slot.segment().part(0, blocks.saturating_mul(BLOCK_BYTES));
            part.fill(place, segment);
            members |= 1 << index;
        }
        let (_, reliable) = self.slots.is_packable(&self.card, &self.durability, first, direction);
        let mut auto = self.card.plan().auto(part.blocks());
        if reliable {
            let Auto::Count(_) = auto else {
                self.slots.at_mut(first).forbid_merge(true);
                return false;
            };
            auto = Auto::Count(command::set_block_count(part.blocks(), true).arg);
        }
        let transfer = self.card.plan().transfer((direction, part.lba(), part.blocks()), false, auto, 0);
        let described = self
            .bus
            .host_mut()
            .chain()
            .map(|chain| chain.describe_transfer(&transfer.phase, part.segments(true)));
        if described != Some(Ok(())) {
            self.slots.at_mut(first).forbid_merge(true);
            return false;
        }
        let link = Link { direction, start: part.lba(), blocks: part.blocks(), members };
        if !self.lane.chains_mut().is_some_and(|chains| chains.add(link)) {
            return false;
        }
        self.durability.note_change(direction == Direction::Write && !reliable);
        for place in 0..count {
            let Some(&index) = part.members().get(place) else { break };
            self.order.note_sent(&self.slots, index, now_ns);
            let slot = self.slots.at(index);
            let (blocks, segment) = (slot.span().map_or(0, |span| span.2), slot.segment());
            let segment = segment.part(0, blocks.saturating_mul(BLOCK_BYTES));
            self.batch.add_behind(index, blocks, segment);
            self.slots.unlink(index);
            self.slots.at_mut(index).set_active();
        }
        true
    }

    /// Starts the chain (several transfers in one list), which is complete now, on the controller.
    fn give_chain(&mut self, now_ns: u64) {
        let (wire_ns, patience_ns) = self.lane.chain_times_ns(&self.bus, &self.card);
        // Code that reads the present phase sees the whole chain as one phase of its first
        // transfer's kind.
        let (lba, blocks, direction) = (self.batch.lba(), self.batch.blocks(), self.batch.direction());
        let phase = self.card.plan().transfer((direction, lba, blocks), false, Auto::None, 0).phase;
        let timeout_ns = self.card.plan().longest_ns();
        self.bus.prepare(phase);
        if let Some(chains) = self.lane.chains_mut() {
            chains.set_waiting();
        }
        self.lane.enter(Stage::Extra);
        self.blockers.forget_fast();
        let look_ns = first_look_ns::<P>(wire_ns, patience_ns);
        self.timers.give_up_at(later(later(now_ns, look_ns), SLACK_NS));
        self.try_chain(timeout_ns, now_ns);
    }

    pub(super) fn try_chain(&mut self, timeout_ns: u64, now_ns: u64) {
        let Some(chain) = self.bus.host_mut().chain() else { return };
        let result = chain.start_chain(timeout_ns);
        if result.is_ok()
            && let Some(chains) = self.lane.chains_mut()
        {
            chains.set_running();
        }
        let outcome = self.bus.note_start(result, now_ns);
        self.note_start(outcome, now_ns);
    }

    /// Handles the controller's events while it has a chain. Returns false if there was no event.
    #[inline(never)]
    pub(super) fn chain_interrupts(&mut self, now_ns: u64) -> bool {
        let Some(chain) = self.bus.host_mut().chain() else { return false };
        let seen = chain.ack_chain();
        let rare = seen.card_irq || seen.presence || seen.retune;
        if rare {
            let (card_irq, presence, retune) = (seen.card_irq, seen.presence, seen.retune);
            let events = Events { card_irq, presence, retune, ..Events::default() };
            self.acknowledged(events, false, now_ns);
        }
        let Some(end) = seen.end else { return rare };
        // If the card was removed, its chain has ended already.
        if self.lane.has_chain() && !self.lane.has_failed() {
            self.bus.note_end(now_ns);
            match end {
                Ok(()) => self.chain_ended(now_ns),
                Err(fault) => self.chain_fault(fault, now_ns),
            }
        }
        true
    }

    /// Completes the requests of a chain (a list of transfers): all of its transfers have ended
    /// well.
    fn chain_ended(&mut self, now_ns: u64) {
        self.lane.set_idle();
        self.timers.clear();
        if let Some(chains) = self.lane.chains_mut() {
            chains.set_rest();
        }
        self.batch.forget();
        let links = self.lane.chains().map_or(0, |chains| chains.links().len());
        for place in 0..links {
            let Some(&link) = self.lane.chains().and_then(|chains| chains.links().get(place)) else { break };
            for index in bits(link.members) {
                self.order.link_moved(&mut self.slots, index, now_ns);
                // The response of each later transfer confirms this write; only the last write
                // waits for a status.
                if link.direction == Direction::Read || place + 1 < links {
                    self.durability.complete();
                    self.slots.end(index);
                } else if self.slots.is_told_early::<P>(&self.config, index) {
                    self.durability.end_early(&mut self.slots, &mut self.blockers, index);
                } else {
                    self.slots.await_status(index);
                }
            }
        }
    }

    /// Handles a chain that the controller reports as failed.
    #[cold]
    fn chain_fault(&mut self, seen: ChainFault, now_ns: u64) {
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

    /// Ends a chain that the controller has not reported as ended or failed: something else has
    /// failed, or the engine breaks the chain off.
    #[cold]
    #[inline(never)]
    pub(super) fn break_chain(&mut self, now_ns: u64) {
        let begun = self.lane.chains().is_some_and(|chains| chains.at() == ChainAt::Runs);
        let passed =
            if begun { self.bus.host_mut().chain().and_then(|chain| chain.passed()) } else { Some(0) };
        self.stop_chain(passed, None, now_ns);
    }

    /// Ends a chain that stopped at the transfer with the number `passed` (from 0; `None`: not
    /// known). That transfer becomes the one in progress. `told`: the last R1 that came.
    #[cold]
    fn stop_chain(&mut self, passed: Option<u8>, told: Option<u32>, now_ns: u64) {
        let last = self.lane.chains().map_or(0, |chains| chains.links().len()).saturating_sub(1) as u8;
        let well = told.is_some_and(|status| status & R1::DEFERRED == 0);
        let link = passed.unwrap_or(0).min(last);
        let Some(failed) = self.lane.chain_stopped(link, passed.is_some(), well, now_ns) else { return };
        self.batch.gather_link(&self.slots, &failed);
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
    pub(super) fn release_reset_chain(&mut self, now_ns: u64) {
        if self.lane.chains().is_none_or(|chains| chains.at() == ChainAt::Rest) {
            return;
        }
        let dead = self.blockers.is_dead();
        let is_gone = dead || self.card.target().is_none();
        let unknown = if dead { Error::Dead } else { Error::NoCard };
        let gone = is_gone.then(|| self.incident.failed().error().unwrap_or(unknown));
        self.lane.split_chain(
            &mut self.slots,
            &mut self.order,
            &mut self.durability,
            &mut self.incident,
            gone,
            now_ns,
        );
    }
}
