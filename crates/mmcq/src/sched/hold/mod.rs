//! Delays the start of a transfer (a *hold*) for the tail of its batch: the requests that are about
//! to come and would continue it.
//!
//! A submitter with `d` contiguous requests in flight sends the next one as each is complete. An
//! engine that starts at once with the waiting requests splits such a loop into two batches of `d /
//! 2`. These alternate for ever, and cost two commands instead of one. So the engine waits for the
//! other half when that is cheaper: it holds the start until the requests that were just completed
//! have come back.
//!
//! The engine learns the times for this decision from events. For each direction it learns the time
//! of a transfer without its blocks (`a`) and the time of a block (`b`), fitted to the transfers so
//! far. For each sequential stream it learns three values:
//!
//! - how many requests its clients keep in flight, counted at each completion;
//! - how long the first request takes to come back. A submitter may handle all completions before
//!   it sends the next request, and takes longer for more of them. So this pause is learned as a
//!   straight line over the number of completions;
//! - how long each further request takes.
//!
//! The start is held under three conditions: all waiting requests are one run of such a stream,
//! they are fewer than the stream keeps in flight, and one transfer is faster than two ([`ways`]).
//! Streams are updated once for each transfer, by its collected requests, and not at each arrival.
//!
//! Some batches are not aligned to the card's pages. Then, once in sixteen transfers, the engine
//! leaves the end of the batch out of the transfer. That end waits until the requests that were
//! sent come back, so that later batches begin at a page.
//!
//! If the learned costs are wrong, the measured time of both ways decides ([`measured`]). If one of
//! several missing requests comes late, the engine expects the others to come with it.
//!
//! *Guarantee: a start is held no longer than `a`. The end of a batch that was left out is held no
//! longer than twice the usual time until the first of the sent requests comes back, plus 2 us.
//! Neither is held longer than [`Config::tail_ns`](crate::engine::Config::tail_ns). If no request
//! comes, neither is held longer than twice the usual time of the next request, plus 2 us.*
//!
//! Each hold is paid from an account: the hold's gain is added, its loss is subtracted. The account
//! begins with [`CREDIT_NS`], and gets 1/256 of the time of all transfers. So the losses of holds,
//! beyond the gains of others, are at most that sum and one hold. A client that stays away costs
//! one wait, and the engine does not wait for that client again until it has come back.

mod costs;
mod measured;
mod streams;
#[cfg(test)]
mod tests;
mod ways;

use super::slot_set::SlotSet;
use crate::host::Direction;
use costs::Costs;
use measured::Measured;
pub(crate) use streams::Run;
use streams::Streams;
use ways::{Loop, Ways};

/// First balance, in ns, of an account. Time that is lost by a delayed start of a transfer is paid
/// from the account; if it has too little, no start is delayed.
const CREDIT_NS: i64 = 1_000_000;
/// Largest balance of the account from which the time that delayed starts lose is paid, in
/// multiples of the fixed time of a transfer. It limits the loss when a client that has always sent
/// its next request stops doing so.
const CREDITS_MAX: u64 = 4;
/// Divisor: each transfer allows the engine to lose 1/256 of the transfer's time by delayed starts.
/// These times are added in an account, and each loss is subtracted.
const SHARE: u64 = 256;
/// Number of started transfers in a row that do not continue an earlier request, after which the
/// engine stops watching clients for sequential requests.
const DULL_MAX: u8 = 32;
/// Number of transfers that must end before a batch may be split again. If it is split, the last
/// requests of the batch go in the next transfer.
const CUT_EVERY: u8 = 16;

/// All waiting requests, if they have one direction and contiguous blocks, so that one transfer can
/// serve them. Otherwise the engine does not make this value, and delays no start of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// All these requests as one: direction, first block and end, and clients.
    pub run: Run,
    /// The engine's slots that hold the requests of `run`, one bit each.
    pub slots: SlotSet,
    /// Number of requests that may still join the transfer.
    pub room_requests: u16,
    /// Number of blocks that may still join the transfer.
    pub room_blocks: u32,
    /// Number of transferred writes that are complete only after the card's status has been read.
    pub unsettled: u8,
}

/// A transfer whose start is delayed, because more requests that continue it are expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    since_ns: u64,
    until_ns: u64,
    /// Latest time in ns at which the delayed transfer starts, even if more requests are still
    /// expected.
    last_ns: u64,
    /// Time in ns that a transfer takes in addition to the time of its blocks.
    fixed_ns: u64,
    /// Time in ns after the arrival of a request at which the next one is overdue.
    step_ns: u64,
    /// Number of requests that have not come yet and for which the engine delays the start of a
    /// transfer.
    awaited: u8,
    /// Number of requests that came during the hold and that the statistics of sequential streams
    /// do not count yet.
    joined: u8,
    /// When the first of the requests counted in `joined` came.
    joined_ns: u64,
    /// First block of the first request that has joined the delayed transfer (`joined` counts these
    /// requests).
    joined_lba: u64,
    pub pending: Pending,
}

/// Counters of delayed starts: what the engine has lost and gained by waiting for requests that
/// continue a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holds {
    /// Number of transfers whose start was delayed.
    pub count: u64,
    /// Number of delayed starts whose tail (the missing requests of the batch) came.
    pub came: u64,
    /// Sum of the times by which starts of transfers were delayed, in nanoseconds.
    pub waited_ns: u64,
    /// Sum of the gains, in nanoseconds: for each delayed start whose missing requests came, the
    /// fixed time of a transfer minus the delay.
    pub gained_ns: u64,
}

/// State of delayed starts (holds): the learned costs of a card, its streams, and the transfer
/// whose start is delayed now.
#[derive(Debug)]
pub struct Hold {
    costs: [Costs; 2],
    streams: Streams,
    held: Option<Held>,
    /// Balance of the account of delayed starts, in ns: the time that they saved is added, the time
    /// that they lost is taken off. Negative if the last loss was larger than the balance.
    credit_ns: i64,
    measured: Measured,
    /// Number of transfers that have ended since a request last continued an earlier one.
    dull: u8,
    /// Number of transfers that must end until the engine may again split a batch, so that its last
    /// requests wait for the next transfer.
    uncut: u8,
    /// Age number of the oldest request that later requests have overtaken, and the number of
    /// blocks of those later requests.
    passed: (u32, u32),
    /// Time in ns at which the transfer in progress began.
    began_ns: u64,
    /// When the last transfer ended, in ns.
    free_ns: u64,
    /// The last writes that were transferred and are not complete yet; `None`: there are none.
    moved: Option<Run>,
    /// Whether the requests of the transfer in progress were completed before the transfer's end.
    told: bool,
    counts: Holds,
}

/// Selects whether an engine delays the start of a transfer for its tail: the requests that are
/// about to come and would continue it.
#[allow(private_bounds, reason = "sealed")]
pub trait Tails: core::fmt::Debug + Send + Sync + 'static + Sealed {
    #[doc(hidden)]
    const NEW: Self;

    #[doc(hidden)]
    fn get(&self) -> Option<&Hold>;

    #[doc(hidden)]
    fn get_mut(&mut self) -> Option<&mut Hold>;
}

trait Sealed {}

/// Delays the start of a transfer, where that pays, for requests that are about to come and would
/// continue it. Takes half a kilobyte for each engine.
#[derive(Debug)]
pub struct Whole(Hold);

/// Starts every waiting request at once. Takes no memory.
#[derive(Debug)]
pub struct AtOnce;

impl Sealed for Whole {}
impl Sealed for AtOnce {}

impl Tails for Whole {
    const NEW: Self = Whole(Hold::NEW);

    #[inline(always)]
    fn get(&self) -> Option<&Hold> {
        Some(&self.0)
    }

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut Hold> {
        Some(&mut self.0)
    }
}

impl Tails for AtOnce {
    const NEW: Self = AtOnce;

    #[inline(always)]
    fn get(&self) -> Option<&Hold> {
        None
    }

    #[inline(always)]
    fn get_mut(&mut self) -> Option<&mut Hold> {
        None
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Held {
    /// Adds a request that continues the transfer whose start is delayed. `slot`: the bit of its
    /// slot; `end`: the block after its last one; `blocks`: its length; `client`: who submitted it.
    /// Returns until when the engine waits for the requests that are still missing. `None`: the
    /// transfer must start now, because none is missing or the time has passed.
    #[inline(always)]
    pub(crate) fn join(
        &mut self,
        slot: SlotSet,
        end: u64,
        blocks: u32,
        client: u8,
        now_ns: u64,
    ) -> Option<u64> {
        let Pending { run, slots, room_requests, room_blocks, .. } = &mut self.pending;
        if self.joined == 0 {
            (self.joined_ns, self.joined_lba) = (now_ns, run.end);
        }
        self.joined = self.joined.wrapping_add(1);
        let gap_ns = u32::try_from(now_ns.saturating_sub(run.last_ns)).unwrap_or(u32::MAX);
        run.widest_ns = if self.joined == 0 { 0 } else { run.widest_ns.max(gap_ns) };
        (run.end, run.last_ns, run.client) = (end, now_ns, client);
        run.requests = run.requests.wrapping_add(1);
        *slots |= slot;
        *room_requests = room_requests.wrapping_sub(1);
        *room_blocks = room_blocks.wrapping_sub(blocks);
        self.awaited = self.awaited.saturating_sub(1);
        self.until_ns = now_ns.saturating_add(self.step_ns).min(self.last_ns);
        (self.awaited != 0 && self.until_ns > now_ns).then_some(self.until_ns)
    }
}

impl Hold {
    pub(crate) const NEW: Hold = Hold {
        costs: [Costs::NEW; 2],
        streams: Streams::NEW,
        held: None,
        credit_ns: CREDIT_NS,
        measured: Measured::NEW,
        dull: DULL_MAX,
        uncut: 0,
        passed: (0, 0),
        began_ns: 0,
        free_ns: 0,
        moved: None,
        told: false,
        counts: Holds { count: 0, came: 0, waited_ns: 0, gained_ns: 0 },
    };

    fn costs(&mut self, direction: Direction) -> &mut Costs {
        let [reads, writes] = &mut self.costs;
        match direction {
            Direction::Read => reads,
            Direction::Write => writes,
        }
    }

    /// Returns whether the engine learns how fast sequential requests follow each other. If not,
    /// the caller need not report requests and their ends to this struct.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.dull < DULL_MAX
    }

    /// Makes [`watches`](Self::watches) true again: the engine learns how fast sequential requests
    /// follow each other. Called if a transfer begins where another ended, or has several requests.
    pub(crate) fn awake(&mut self) {
        self.dull = 0;
    }

    /// Returns the time in ns until which the start of the next transfer is delayed; `None`: no
    /// start is delayed.
    pub(crate) fn until_ns(&self) -> Option<u64> {
        self.held.map(|held| held.until_ns)
    }

    /// Returns the transfer whose start is delayed now; `None`: no start is delayed.
    #[inline(always)]
    pub(crate) fn held(&mut self) -> Option<&mut Held> {
        self.held.as_mut()
    }

    /// Records the requests that came while the start was delayed, so that the engine learns how
    /// fast the client's requests follow each other.
    fn note_joined(&mut self) {
        let Some(held) = &mut self.held else { return };
        let requests = core::mem::take(&mut held.joined);
        let run = Run { lba: held.joined_lba, requests, first_ns: held.joined_ns, ..held.pending.run };
        if requests > 0 {
            self.came(&run);
        }
    }

    /// Ends the delay of a start: the expected requests have come, or the wait is over.
    pub(crate) fn release(&mut self, now_ns: u64) {
        self.note_joined();
        self.end(now_ns);
    }

    /// Returns whether a transfer may leave out the last requests of a stream's batch, which the
    /// next transfer then takes. `end`: the block after the batch; `requests`: their number in the
    /// batch. The batch must have all requests that the stream's clients keep in flight. The engine
    /// must not have done this in the last [`CUT_EVERY`] transfers.
    pub(crate) fn may_cut(&self, direction: Direction, end: u64, requests: u8) -> bool {
        let stream = self.streams.ending_at(direction, end).filter(|_| self.uncut == 0 && requests > 1);
        stream.is_some_and(|stream| stream.away(requests) == 0)
    }

    pub(crate) fn cut(&mut self) {
        self.uncut = CUT_EVERY;
    }

    /// Counts `blocks` blocks that go before the oldest request; `age` is that request's age.
    /// Returns false and counts nothing if, together with earlier ones, they would reach `most`.
    pub(crate) fn try_pass(&mut self, age: u32, blocks: u32, most: u32) -> bool {
        let before = if self.passed.0 == age { self.passed.1 } else { 0 };
        let blocks = before.saturating_add(blocks);
        let may = blocks < most;
        if may {
            self.passed = (age, blocks);
        }
        may
    }

    fn came(&mut self, run: &Run) {
        // A pause longer than a transfer counts as one transfer: in that time the controller idles
        // in any case, whether the batch goes whole or not.
        let most_ns = self.costs(run.direction).mean_ns();
        if self.streams.came(run, most_ns) {
            self.dull = 0;
        }
    }

    /// Notes that the transfer of these contiguous requests begins, so that its times can be
    /// measured.
    pub(crate) fn note_start(&mut self, run: &Run, now_ns: u64) {
        self.came(run);
        (self.began_ns, self.told) = (now_ns, false);
        self.measured.begin(run.blocks(), now_ns);
    }

    /// Notes that the transfer of `run` has ended at `now_ns`, and includes its duration in the
    /// measured times of such transfers. Its reads are complete now; its writes may become complete
    /// later.
    pub(crate) fn note_transfer_end(&mut self, run: &Run, now_ns: u64) {
        self.free_ns = now_ns;
        self.dull = self.dull.saturating_add(1);
        self.uncut = self.uncut.saturating_sub(1);
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let costs = self.costs(run.direction);
        costs.learn(run.blocks(), took_ns);
        let fixed_ns = costs.fixed_ns().unwrap_or(0);
        self.credit(took_ns / SHARE, fixed_ns);
        match run.direction {
            Direction::Read => self.streams.completed(run, now_ns),
            Direction::Write if core::mem::take(&mut self.told) => {}
            Direction::Write => self.moved = Some(*run),
        }
    }

    /// Records that the writes in progress were reported complete, although the card still programs
    /// them.
    pub(crate) fn note_answered(&mut self, run: &Run, now_ns: u64) {
        self.told = true;
        self.streams.completed(run, now_ns);
    }

    /// Returns whether the requests of the transfer in progress were completed before the
    /// transfer's end.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// Records that the writes of the last transfer are complete. From this time on the engine
    /// measures how long their client takes to send the next requests.
    pub(crate) fn settled(&mut self, now_ns: u64) {
        if let Some(run) = self.moved.take() {
            self.streams.completed(&run, now_ns);
        }
    }

    fn credit(&mut self, gained_ns: u64, fixed_ns: u64) {
        let most_ns = signed(CREDITS_MAX.saturating_mul(fixed_ns)).max(CREDIT_NS).max(self.credit_ns);
        self.credit_ns = self.credit_ns.saturating_add(signed(gained_ns)).min(most_ns);
    }

    fn debit(&mut self, lost_ns: u64) {
        self.credit_ns = self.credit_ns.saturating_sub(signed(lost_ns));
    }

    /// Decides until when the next start of a transfer is delayed; `None`: it starts now.
    /// `bound_ns`: the longest time that it may be delayed.
    pub(crate) fn decide(&mut self, pending: &Pending, bound_ns: u64, now_ns: u64) -> Option<u64> {
        self.note_joined();
        self.came(&pending.run);
        let held = self.wanted(pending, bound_ns, now_ns);
        if held.is_none() {
            self.end(now_ns);
        }
        self.held = held;
        self.until_ns()
    }

    /// Returns how often starts were delayed to wait for more requests, and the time that this cost
    /// and gained.
    pub(crate) fn holds(&self) -> Holds {
        self.counts
    }

    fn count(&mut self, waited_ns: u64, gained_ns: Option<u64>) {
        self.counts.count += 1;
        self.counts.came += u64::from(gained_ns.is_some());
        self.counts.waited_ns = self.counts.waited_ns.saturating_add(waited_ns);
        self.counts.gained_ns = self.counts.gained_ns.saturating_add(gained_ns.unwrap_or(0));
    }

    /// Ends the hold (the delay of a start) before all expected requests have come, because another
    /// request starts or because nothing starts.
    pub(crate) fn broken(&mut self, now_ns: u64) {
        let Some(held) = self.held.take() else { return };
        let waited_ns = now_ns.saturating_sub(held.since_ns);
        self.debit(waited_ns);
        self.count(waited_ns, None);
    }

    fn wanted(&mut self, pending: &Pending, bound_ns: u64, now_ns: u64) -> Option<Held> {
        let Run { direction, end, requests, .. } = pending.run;
        let stream = self.streams.ending_at(direction, end)?;
        let request_blocks = (pending.run.blocks() / u32::from(requests.max(1))).max(1);
        let fitting = (pending.room_blocks / request_blocks).min(pending.room_requests.into());
        let tail = u32::from(stream.away(requests)).min(fitting);
        if tail == 0 {
            return None;
        }
        let settles_ns = self.streams.settles_ns(pending.unsettled);
        let next_ns = stream.next_by_ns(settles_ns, now_ns);
        let costs = match direction {
            Direction::Read => &self.costs[0],
            Direction::Write => &self.costs[1],
        };
        let fixed_ns = costs.fixed_ns()?;
        // Whether this run is the end of a batch that the last transfer left out. Such a run waits
        // until the requests of that transfer have come back.
        let is_rest = self.uncut == CUT_EVERY - 1;
        let most_ns = if is_rest { next_ns.saturating_sub(now_ns) } else { fixed_ns };
        let fresh = Held {
            since_ns: now_ns,
            until_ns: 0,
            last_ns: now_ns.saturating_add(most_ns.min(bound_ns)),
            fixed_ns,
            step_ns: 0,
            awaited: 0,
            joined: 0,
            joined_ns: 0,
            joined_lba: 0,
            pending: *pending,
        };
        let held = self.held.unwrap_or(fresh);
        let until_ns = next_ns.min(held.last_ns);
        let held =
            Held { until_ns, awaited: tail as u8, step_ns: stream.step_ns(), pending: *pending, ..held };
        // Whether a hold pays is decided when it begins: later, the time already waited is lost
        // either way.
        let pays = self.held.is_some() || {
            let requests = Loop { here: requests.into(), away: tail, blocks: request_blocks };
            let ways = Ways::of(requests, costs, &stream, settles_ns, self.free_ns)?;
            let alone = self.streams.is_alone(&stream);
            let mut better = ways.whole_is_better();
            if ways.are_level() {
                better = self.measured.again(better);
            }
            let better = is_rest || self.measured.decide(better, ways.are_close(), alone);
            let holds = better && signed(until_ns.saturating_sub(now_ns)) <= self.credit_ns;
            self.measured.decided(holds);
            holds
        };
        (pays && until_ns > now_ns).then_some(held)
    }

    fn end(&mut self, now_ns: u64) {
        let Some(held) = self.held.take() else { return };
        let waited_ns = now_ns.saturating_sub(held.since_ns);
        let Run { direction, end, requests, .. } = held.pending.run;
        let stays_away = now_ns >= held.until_ns && self.streams.gave_up(direction, end, requests);
        if stays_away {
            self.debit(waited_ns);
            return self.count(waited_ns, None);
        }
        let gained_ns = held.fixed_ns.saturating_sub(waited_ns);
        self.credit(gained_ns, held.fixed_ns);
        self.debit(waited_ns.saturating_sub(held.fixed_ns));
        self.count(waited_ns, Some(gained_ns));
    }

    /// Notes that the engine reads the card's status, which will complete the transferred writes.
    pub(crate) fn asked(&mut self, now_ns: u64) {
        self.streams.asked(now_ns);
    }
}
