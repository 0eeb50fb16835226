//! The engine's reports to [`Hold`](crate::sched::Hold), which decides whether a start is delayed
//! for the tail of a batch: the requests that are about to come and would continue it.

use super::batch::Batch;
use super::blockers::Blockers;
use super::bus::Bus;
use super::order::Order;
use super::recover::Incident;
use super::slot::{NONE, Rules, Slots};
use super::timers::Timers;
use super::{Config, Engine};
use crate::host::{Direction, Host};
use crate::sched::slot_set::SlotSet;
use crate::sched::{Holds, Pending, Policy, Profile, Run};

/// Whether the engine waits for the tail of the next batch: the requests that are about to come and
/// would continue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Requests that continue the next transfer are about to come, and the engine waits for them.
    Awaited,
    /// The engine does not wait for further requests, and the requests of the next transfer are in
    /// the batch already.
    Batch,
    Unknown,
}

impl<const N: usize> Batch<N> {
    /// Returns the requests of the batch as a [`Run`], the form in which
    /// [`Hold`](crate::sched::Hold) gets them.
    pub fn run(&self, slots: &Slots<N>) -> Run {
        let members = self.members();
        let first = slots.at(self.first());
        let last = slots.at(members.last().copied().unwrap_or(NONE));
        let second = members.get(1).map(|&at| slots.at(at).arrived_ns().saturating_sub(first.arrived_ns()));
        Run {
            direction: self.direction(),
            lba: self.lba(),
            end: self.end(),
            requests: members.len() as u8,
            client: last.origin().client,
            first_ns: first.arrived_ns().min(last.arrived_ns()),
            last_ns: last.arrived_ns().max(first.arrived_ns()),
            // A client that submits several requests wakes once: its first request comes before the
            // others.
            widest_ns: second.map_or(0, |ns| u32::try_from(ns).unwrap_or(u32::MAX)),
        }
    }
}

impl<P: Profile> Order<P> {
    /// Returns whether the engine records the requests of sequential streams (clients whose
    /// requests continue each other), to predict their next requests. `queued`: the card's queue is
    /// on; then nothing is recorded.
    #[inline(always)]
    pub fn watches(&self, queued: bool) -> bool {
        !queued && self.tails().is_some_and(|hold| hold.watches())
    }

    /// Begins to measure the times of sequential streams, because there may be one: a request
    /// continues the last transfer and was submitted before the controller was free, or several
    /// requests go together. Returns false if the profile or the configuration delays no start.
    #[cold]
    pub fn watch_streams<H: Host>(&mut self, blockers: &mut Blockers<H, P>, config: &Config) -> bool {
        if config.tail_ns == 0 {
            return false;
        }
        let Some(hold) = self.tails_mut() else { return false };
        hold.awake();
        blockers.close_fast();
        true
    }

    /// Tells [`Hold`](crate::sched::Hold) that the clients of the last writes may have their
    /// results now. Does nothing while a write still waits for a status.
    pub fn note_results<const N: usize>(&mut self, slots: &Slots<N>, now_ns: u64) {
        if !slots.is_settling()
            && let Some(hold) = self.tails_mut().filter(|hold| hold.watches())
        {
            hold.settled(now_ns);
        }
    }

    #[inline(never)]
    pub fn note_stream<const N: usize>(&mut self, slots: &Slots<N>, batch: &Batch<N>, now_ns: u64) {
        let run = batch.run(slots);
        if let Some(hold) = self.tails_mut() {
            hold.broken(now_ns);
            hold.note_start(&run, now_ns);
        }
    }

    /// Tells [`Hold`](crate::sched::Hold) that the writes in progress were completed before the end
    /// of their transfer. Does nothing if the card's queue is on (`queued`).
    pub fn note_told<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        batch: &Batch<N>,
        queued: bool,
        now_ns: u64,
    ) {
        if !self.watches(queued) {
            return;
        }
        let run = batch.run(slots);
        if let Some(hold) = self.tails_mut() {
            hold.note_answered(&run, now_ns);
        }
    }

    /// Records, for the learned times of sequential requests, that the card has programmed the last
    /// transfer. Does nothing if its writes were not reported complete before, or if the card's
    /// queue is on (`queued`).
    pub fn note_end_of_told<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        batch: &Batch<N>,
        queued: bool,
        now_ns: u64,
    ) {
        if self.tails().is_some_and(|hold| hold.is_told()) {
            self.note_end(slots, batch, queued, now_ns);
        }
    }

    /// Notes that a transfer has ended, and the controller is free. `queued`: the card's queue is
    /// on; then the times of sequential streams are not measured.
    #[inline]
    pub fn note_end<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        batch: &Batch<N>,
        queued: bool,
        now_ns: u64,
    ) {
        if self.watches(queued) {
            self.note_end_of_run(slots, batch, now_ns);
        }
    }

    #[inline(never)]
    fn note_end_of_run<const N: usize>(&mut self, slots: &Slots<N>, batch: &Batch<N>, now_ns: u64) {
        self.note_results(slots, now_ns);
        let run = batch.run(slots);
        if let Some(hold) = self.tails_mut() {
            hold.note_transfer_end(&run, now_ns);
        }
    }

    /// Records the time at which the engine reads the status by which the transferred writes become
    /// complete.
    pub fn note_question(&mut self, now_ns: u64) {
        if let Some(hold) = self.tails_mut() {
            hold.asked(now_ns);
        }
    }

    /// Records that the transfer whose start was delayed is not the next one to start: another
    /// request starts first, or none.
    pub fn hold_broken(&mut self, now_ns: u64) {
        if let Some(hold) = self.tails_mut() {
            hold.broken(now_ns);
        }
    }

    /// Moves the last requests of a batch to the next batch, so that the transfer ends, and the
    /// next one begins, at a page boundary of the card or at a smaller power of two
    /// ([`Batch::square`]). Does so only if the engine has no request outside of the batch. The
    /// batch must also end a known sequential stream, and the last such split must be some
    /// transfers ago.
    pub fn square<const N: usize>(&mut self, slots: &Slots<N>, batch: &mut Batch<N>) {
        let requests = batch.count();
        // Another client's requests might come between the end of this batch and the request that
        // continues it.
        if slots.used() != usize::from(requests) {
            return;
        }
        let (direction, end) = (batch.direction(), batch.end());
        if let Some(hold) = self.tails_mut().filter(|hold| hold.may_cut(direction, end, requests))
            && batch.square(slots)
        {
            hold.cut();
        }
    }

    /// Delays the start of the next transfer until `until_ns`, if the policy allows that for the
    /// request `first`. Returns false if there is no delay: `until_ns` is `None`, or the policy
    /// refuses.
    #[inline(always)]
    pub fn hold_until<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        timers: &mut Timers,
        until_ns: Option<u64>,
        first: u8,
        now_ns: u64,
    ) -> bool {
        let Some(until_ns) = until_ns else { return false };
        if let Some(picked) = self.view(slots, first)
            && !self.policy().bears(&picked, until_ns)
        {
            self.hold_broken(now_ns);
            return false;
        }
        timers.wake_at(until_ns);
        true
    }

    /// Decides until when the start of the pending transfer is delayed for further requests, by
    /// what a delay costs and gains. `first`: slot of the transfer's first request. Returns false
    /// if the transfer starts now.
    pub fn decide_hold<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        timers: &mut Timers,
        config: &Config,
        pending: &Pending,
        first: u8,
        now_ns: u64,
    ) -> bool {
        let bound_ns = config.tail_ns.into();
        let until_ns = self.tails_mut().and_then(|hold| hold.decide(pending, bound_ns, now_ns));
        self.hold_until(slots, timers, until_ns, first, now_ns)
    }

    /// Returns whether the engine delays the start of a transfer now, to wait for more requests
    /// that join it.
    #[inline(always)]
    pub fn is_held(&self) -> bool {
        self.tails().is_some_and(|hold| hold.until_ns().is_some())
    }
}

impl<H: Host, P: Profile> Blockers<H, P> {
    /// Returns whether the next transfer must start at once, without a delay for more requests.
    /// That holds while a failure is handled, before a tuning, while the engine is suspended or
    /// halted, and when periodic work for the card (such as a tuning) is due.
    pub fn must_go(&self, incident: &Incident, bus: &Bus<H>, timers: &Timers, now_ns: u64) -> bool {
        let ails = incident.is_open() || bus.wire().is_doubted();
        ails || !self.is_running() || P::RECOVERS && timers.chore_is_due(now_ns)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Returns until when the start of the next transfer is delayed for the requests that are about
    /// to continue it; `None`: no start is delayed.
    pub fn held_until_ns(&self) -> Option<u64> {
        self.order.tails()?.until_ns()
    }

    /// Returns what it has cost and gained so far to delay starts of transfers for requests that
    /// join them. All values are zero with a profile that delays no start.
    pub fn holds(&self) -> Holds {
        self.order.tails().map_or(Holds::default(), |hold| hold.holds())
    }

    /// Returns whether request `first`, which begins at block `lba`, continues the last transfer
    /// and came before the controller was free. In that case requests come in sequence faster than
    /// they are transferred, and the engine begins to measure the times of such streams.
    #[inline(always)]
    pub(super) fn watch_new_stream(&mut self, first: u8, lba: u64, now_ns: u64) -> bool {
        self.order.tails().is_some()
            && lba == self.batch.end()
            && self.slots.at(first).arrived_ns() < now_ns
            && self.order.watch_streams(&mut self.blockers, &self.config)
    }

    /// Notes that the first command of a transfer is sent. While sequential streams are measured,
    /// [`Hold`](crate::sched::Hold) gets the transfer's requests.
    #[inline]
    pub(super) fn note_begin(&mut self, now_ns: u64) {
        if self.order.watches(self.lane.is_queued())
            || self.batch.members().len() > 1 && self.order.watch_streams(&mut self.blockers, &self.config)
        {
            self.order.note_stream(&self.slots, &self.batch, now_ns);
        }
    }

    /// Decides whether the next transfer, which begins with the request in slot `first`, starts now
    /// or is delayed for requests that are about to come and would continue it. If it is delayed,
    /// sets the time at which the engine wakes.
    #[inline]
    pub(super) fn tail_of(&mut self, first: u8, now_ns: u64) -> Tail {
        if self.order.watches(self.lane.is_queued())
            || self.watch_new_stream(first, self.slots.span(first).start, now_ns)
        {
            self.judge_tail(first, now_ns)
        } else {
            Tail::Unknown
        }
    }

    /// Decides whether the start of the next transfer is delayed for its tail: requests that are
    /// about to come and would continue it. `first`: slot of the transfer's first request.
    #[inline(never)]
    fn judge_tail(&mut self, first: u8, now_ns: u64) -> Tail {
        let Some(pending) = self.one_run(first, now_ns) else {
            self.order.hold_broken(now_ns);
            return Tail::Unknown;
        };
        if self.order.decide_hold(&self.slots, &mut self.timers, &self.config, &pending, first, now_ns) {
            return Tail::Awaited;
        }
        self.order.square(&self.slots, &mut self.batch);
        Tail::Batch
    }

    /// Lets the new request of slot `index` join the transfer whose start is delayed, if it
    /// continues that transfer. The transfer then waits longer or starts. Returns false if the
    /// request did not join, so that the caller must handle it.
    #[inline(always)]
    pub(super) fn join_held(&mut self, index: u8, now_ns: u64) -> bool {
        let special = self.slots.has_barrier() || !self.lane.is_idle() || self.is_special();
        !special && self.slots.at(index).rules() == Rules::NONE && self.join_run(index, now_ns)
    }

    /// Lets the request of slot `index`, a read or write without special rules, join the transfer
    /// whose start is delayed. Returns false if it does not continue that transfer, or if something
    /// else (such as recovery) needs the engine.
    #[inline(always)]
    pub(super) fn join_run(&mut self, index: u8, now_ns: u64) -> bool {
        if self.blockers.must_go(&self.incident, &self.bus, &self.timers, now_ns) || self.slots.is_settling()
        {
            return false;
        }
        let (span, client, bit) =
            (*self.slots.span(index), self.slots.at(index).origin().client, (1 as SlotSet) << index);
        let waits = self.slots.queued_reads() | self.slots.queued_writes();
        let count = self.batch.members().len();
        let Some(held) = self.order.tails_mut().and_then(|hold| hold.held()) else { return false };
        let Pending { run, slots, room_requests, room_blocks, .. } = held.pending;
        let blocks = span.end.saturating_sub(span.start) as u32;
        // The requests that wait are still the held ones, in the same slots, and this one continues
        // them.
        let continues = span.start == run.end
            && waits == slots | bit
            && slots & bit == 0
            && span.direction == run.direction
            && count == usize::from(run.requests);
        if !continues || room_requests == 0 || blocks > room_blocks {
            return false;
        }
        let until_ns = held.join(bit, span.end, blocks, client, now_ns);
        self.batch.append(index, blocks);
        let first = self.batch.first();
        if !self.order.hold_until(&self.slots, &mut self.timers, until_ns, first, now_ns) {
            self.go_with_tail(first, now_ns);
        }
        true
    }

    #[inline(never)]
    fn go_with_tail(&mut self, first: u8, now_ns: u64) {
        if let Some(hold) = self.order.tails_mut() {
            hold.release(now_ns);
        }
        self.order.square(&self.slots, &mut self.batch);
        self.begin_transfer(first, true, now_ns);
        if self.lane.is_idle() {
            self.lane.note_free();
        }
    }

    /// Collects all waiting requests, the first of which is that of slot `first`, if they make one
    /// transfer of ordinary requests and no other work is to be done first. Otherwise returns
    /// `None`.
    fn one_run(&mut self, first: u8, now_ns: u64) -> Option<Pending> {
        if self.blockers.must_go(&self.incident, &self.bus, &self.timers, now_ns) {
            return None;
        }
        let slot = self.slots.at(first);
        let (direction, ..) = slot.span()?;
        if slot.solo() || slot.moved_blocks() != 0 || slot.rules() != Rules::NONE || self.slots.head() == NONE
        {
            return None;
        }
        let (reads, writes) = (self.slots.queued_reads(), self.slots.queued_writes());
        let unsettled = self.slots.settling().count_ones() as u8;
        let (ours, others) = match direction {
            Direction::Read => (reads, writes | self.slots.settling()),
            Direction::Write => (writes, reads),
        };
        if others != 0 || self.slots.has_barrier() || self.slots.has_io() {
            return None;
        }
        let limits = self.bus.limits(&self.config, &self.incident, self.lane.streams());
        self.batch.collect(&self.slots, first, limits);
        let requests = self.batch.members().len() as u8;
        if u32::from(requests) != ours.count_ones() {
            return None;
        }
        // No request is in progress: any request that does not wait is about to leave its slot.
        let most = self.blockers.queue_limit().min(N).min(limits.segments.into());
        let room = most.saturating_sub(requests.into());
        Some(Pending {
            run: self.batch.run(&self.slots),
            slots: ours,
            room_requests: room as u16,
            room_blocks: limits.merged_blocks.saturating_sub(self.batch.blocks()),
            unsettled,
        })
    }
}
