//! Holding the start of a transfer for the tail of its batch.
//!
//! A submitter with `d` contiguous requests in flight sends the next as each is complete. An engine
//! that starts at once with what is there splits such a loop into two batches of `d / 2` that
//! alternate for ever, and pays for two commands where one would do. So the engine waits for the
//! other half when that is cheaper: the start is held while the requests that have just been
//! completed are about to come back.
//!
//! What it knows is learned from events. By direction: what a transfer costs besides its blocks
//! (`a`) and what a block costs (`b`), by a fit to the transfers so far. By sequential stream: how
//! many requests its clients keep in flight, seen at each completion, how long the first takes to
//! come back, and the others after one another. A submitter that looks at all that is complete
//! before it sends the next takes the longer the more that is: so the first's pause is a line
//! through the sizes of what was complete. The start is held if all that waits is one run of such a
//! stream, fewer than are kept in flight, and one transfer is better than two ([`ways`]). Streams
//! are looked at once for each transfer, by what is collected for it; an arrival is not.
//!
//! A whole batch may lie askew to the card's pages. Then once in sixteen transfers its end is left
//! off, and waits for all that went, so that the batches to come begin with a page.
//!
//! What two ways really took decides where the costs are wrong ([`measured`]). Requests that stayed
//! away, and of which one comes late, are on their way with it.
//!
//! *Written bound: a start is held no longer than `a`, or what was left off than twice what the
//! first of those that went usually takes and 2 us; than
//! [`Config::tail_ns`](crate::engine::Config::tail_ns); and without an arrival than twice what the
//! next request usually takes and 2 us.* Each hold is paid from an account that its gain, or its
//! loss, goes to; it has [`CREDIT_NS`] at first, and gets 1/256 of the time that transfers take. So
//! what holds lose, beyond what others have gained, is at most that and one hold. A client that
//! stays away costs its wait once, and is not waited for until it comes.

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

/// The account at first.
const CREDIT_NS: i64 = 1_000_000;
/// The most that the account holds, in times of `a`: so much a client that has always come back may
/// cost when it stops.
const CREDITS_MAX: u64 = 4;
/// The part of the time of all transfers that goes to the account.
const SHARE: u64 = 256;
/// After so many starts that continue no stream, the scheduler looks for streams no more.
const DULL_MAX: u8 = 32;
/// Of so many transfers, one may leave its end for the next.
const CUT_EVERY: u8 = 16;

/// All that waits: one run of contiguous requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub run: Run,
    /// The slots of its requests.
    pub slots: SlotSet,
    /// Requests and blocks that may yet join.
    pub room_requests: u16,
    pub room_blocks: u32,
    /// Requests that are moved, and complete when the card has been asked for its status.
    pub unsettled: u8,
}

/// A start that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    since_ns: u64,
    until_ns: u64,
    /// In no case longer than this.
    last_ns: u64,
    /// The time of a transfer besides its blocks.
    fixed_ns: u64,
    /// How long after one the next is overdue.
    step_ns: u64,
    /// Requests that are still away.
    awaited: u8,
    /// The requests that have come meanwhile and were not told to the streams yet: how many, when
    /// the first came, where they begin.
    joined: u8,
    joined_ns: u64,
    joined_lba: u64,
    pub pending: Pending,
}

/// The costs and gains of holding starts for the tails of their batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holds {
    /// Starts that were held.
    pub count: u64,
    /// For how many of them the tail came.
    pub came: u64,
    /// How long they were held together, in nanoseconds.
    pub waited_ns: u64,
    /// The time gained, in nanoseconds: what a transfer costs besides its blocks, less the waiting.
    pub gained_ns: u64,
}

/// The state of holding starts: a card's costs, streams, and what is being held.
#[derive(Debug)]
pub struct Hold {
    costs: [Costs; 2],
    streams: Streams,
    held: Option<Held>,
    /// Negative while a loss was larger than all there was.
    credit_ns: i64,
    measured: Measured,
    /// Starts in a row that continued nothing.
    dull: u8,
    /// Transfers until one may leave its end for the next again.
    uncut: u8,
    /// The age of the request that was passed by younger ones, and the blocks that these move.
    passed: (u32, u32),
    /// When the transfer in progress began.
    began_ns: u64,
    /// When the last one ended.
    free_ns: u64,
    /// The last writes that were moved, until they are complete.
    moved: Option<Run>,
    /// Whether the requests of the transfer in progress are complete.
    told: bool,
    counts: Holds,
}

/// Whether an engine waits for the tails of batches.
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

/// Starts are held for the tails of their batches where that pays. It takes half a kilobyte for
/// each engine.
#[derive(Debug)]
pub struct Whole(Hold);

/// Whatever waits is started at once. It takes nothing.
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
    /// Lets one more join. Until when the others are waited for; `None`: it was the last.
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

    /// Is there anything sequential about what comes? Otherwise nothing need be told.
    #[inline(always)]
    pub(crate) fn watches(&self) -> bool {
        self.dull < DULL_MAX
    }

    /// A transfer begins where another ended, or has several requests: a stream may be there.
    pub(crate) fn awake(&mut self) {
        self.dull = 0;
    }

    /// Until when the start is held.
    pub(crate) fn until_ns(&self) -> Option<u64> {
        self.held.map(|held| held.until_ns)
    }

    /// The start that is held.
    #[inline(always)]
    pub(crate) fn held(&mut self) -> Option<&mut Held> {
        self.held.as_mut()
    }

    /// Tells the streams what has joined.
    fn note_joined(&mut self) {
        let Some(held) = &mut self.held else { return };
        let requests = core::mem::take(&mut held.joined);
        let run = Run { lba: held.joined_lba, requests, first_ns: held.joined_ns, ..held.pending.run };
        if requests > 0 {
            self.came(&run);
        }
    }

    /// Lets the held start go: its tail has come, or is not waited for any longer.
    pub(crate) fn release(&mut self, now_ns: u64) {
        self.note_joined();
        self.end(now_ns);
    }

    /// Asks whether these are all that a stream's clients keep in flight, so that their end may
    /// wait for the next transfer.
    pub(crate) fn may_cut(&self, direction: Direction, end: u64, requests: u8) -> bool {
        let stream = self.streams.ending_at(direction, end).filter(|_| self.uncut == 0 && requests > 1);
        stream.is_some_and(|stream| stream.away(requests) == 0)
    }

    pub(crate) fn cut(&mut self) {
        self.uncut = CUT_EVERY;
    }

    /// Counts so many blocks that go before the oldest request, of this age. False, and nothing
    /// counted: together with those that did they are not fewer than `most`.
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
        // While it is away for longer than a transfer takes, nothing else is done either, be the
        // batch whole or not.
        let most_ns = self.costs(run.direction).mean_ns();
        if self.streams.came(run, most_ns) {
            self.dull = 0;
        }
    }

    /// Notes that a transfer begins.
    pub(crate) fn note_start(&mut self, run: &Run, now_ns: u64) {
        self.came(run);
        (self.began_ns, self.told) = (now_ns, false);
        self.measured.begin(run.blocks(), now_ns);
    }

    /// Notes that a transfer has ended. Reads are complete then.
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

    /// Notes that what is being written is complete, and the card programs it still.
    pub(crate) fn note_answered(&mut self, run: &Run, now_ns: u64) {
        self.told = true;
        self.streams.completed(run, now_ns);
    }

    /// Was that the transfer in progress?
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// Notes that what was written is complete.
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

    /// Decides until when what goes next is held; `None`: it starts now. `bound_ns`: no longer than
    /// this.
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

    /// Returns what holding has cost and gained so far.
    pub(crate) fn holds(&self) -> Holds {
        self.counts
    }

    fn count(&mut self, waited_ns: u64, gained_ns: Option<u64>) {
        self.counts.count += 1;
        self.counts.came += u64::from(gained_ns.is_some());
        self.counts.waited_ns = self.counts.waited_ns.saturating_add(waited_ns);
        self.counts.gained_ns = self.counts.gained_ns.saturating_add(gained_ns.unwrap_or(0));
    }

    /// Something else goes, or nothing: what was held is held no more.
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
        // What was left off so that the next ends with a page: it waits for all that went.
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
        // Whether it pays is asked at its beginning; after that, what has been waited is spent
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

    /// A status has been asked for, so that what is moved becomes complete.
    pub(crate) fn asked(&mut self, now_ns: u64) {
        self.streams.asked(now_ns);
    }
}
