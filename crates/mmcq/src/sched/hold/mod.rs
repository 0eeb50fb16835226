//! Holding the start of a transfer for the tail of its batch.
//!
//! A submitter with `d` contiguous requests in flight sends the next as each is complete. An engine that starts at once with what is there splits such a loop into
//! two batches of `d / 2` that alternate for ever, and pays for two commands where one would do. So the engine waits for the other half when that is cheaper:
//! the start is held while the requests that have just been completed are about to come back.
//!
//! What it knows is learned from events: by direction what a transfer costs besides its blocks (`a`) and what a block costs (`b`), by a fit to the transfers so far; by
//! sequential stream how many of its completed requests have not come back yet, how long the first takes to (`w`), and the others after one another. The start is
//! held if all that waits is one run of such a stream and `w` for the whole tail is below `a`.
//!
//! *Written bound: a start is held no longer than `a`, than [`Config::tail_ns`](crate::engine::Config::tail_ns), and without an arrival than twice what the next
//! request usually takes and 2 us.* Each hold is paid from an account that its gain, or its loss, goes to; it has [`CREDIT_NS`] at first, and gets 1/128 of the time that
//! transfers take. So what holds lose, beyond what others have gained, is at most that and one hold. A client that stays away costs its wait once, and is not
//! waited for until it comes.

mod costs;
mod streams;
#[cfg(test)]
mod tests;

use crate::host::Direction;
use costs::Costs;
use streams::Streams;

/// What the account holds at first.
const CREDIT_NS: i64 = 1_000_000;
/// What it holds at most, in times of `a`: so much a client that has always come back may cost when it stops.
const CREDITS_MAX: u64 = 4;
/// The part of the time of all transfers that goes to the account.
const SHARE: u64 = 128;
/// Of so many chances one is decided the other way, so that what was learned does not stay wrong.
const DOUBTED: u8 = 128;
/// After so many starts that continue no stream, the scheduler looks for streams no more.
const DULL_MAX: u8 = 32;

/// All that waits: one run of contiguous requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub direction: Direction,
    /// One past its last block.
    pub end: u64,
    pub blocks: u32,
    pub requests: u8,
    /// Requests and blocks that may yet join.
    pub room_requests: u16,
    pub room_blocks: u32,
    /// Requests that are moved, and complete when the card has been asked for its status.
    pub unsettled: u8,
}

/// A start that is held.
#[derive(Clone, Copy, Debug)]
struct Held {
    since_ns: u64,
    until_ns: u64,
    /// What a transfer costs besides its blocks.
    fixed_ns: u64,
    pending: Pending,
}

/// What holding starts for the tails of their batches has cost and gained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Starts that were held.
    pub count: u64,
    /// For how many of them the tail came.
    pub came: u64,
    /// How long they were held together, in nanoseconds.
    pub waited_ns: u64,
    /// What that gained, in nanoseconds: what a transfer costs besides its blocks, less the waiting.
    pub gained_ns: u64,
}

/// What is known of a card's costs and of streams, and what is being held.
#[derive(Debug)]
pub struct Hold {
    costs: [Costs; 2],
    streams: Streams,
    held: Option<Held>,
    /// Negative while a loss was larger than all there was.
    credit_ns: i64,
    chances: u8,
    /// Starts in a row that continued nothing.
    dull: u8,
    /// One past the last request that came.
    last_end: u64,
    /// When the transfer in progress began.
    began_ns: u64,
    /// When the last one ended.
    free_ns: u64,
    /// Slots whose result has been noted.
    noted: u64,
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

/// Starts are held for the tails of their batches where that pays. It takes half a kilobyte for each engine.
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

impl Hold {
    pub(crate) const NEW: Hold = Hold {
        costs: [Costs::NEW; 2],
        streams: Streams::NEW,
        held: None,
        credit_ns: CREDIT_NS,
        chances: 0,
        dull: DULL_MAX,
        last_end: u64::MAX,
        began_ns: 0,
        free_ns: 0,
        noted: 0,
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

    /// A request has come in. True if there has been nothing sequential, and may be now.
    pub(crate) fn arrived(
        &mut self,
        direction: Direction,
        lba: u64,
        blocks: u32,
        client: u8,
        now_ns: u64,
    ) -> bool {
        let wakes = !self.watches() && lba == self.last_end;
        self.last_end = lba.saturating_add(u64::from(blocks));
        if wakes || self.watches() {
            // While it is away for longer than a transfer takes, nothing else is done either, be the batch whole or not.
            let most_ns = self.costs(direction).mean_ns();
            let continues = self.streams.arrived((direction, lba, blocks), client, most_ns, now_ns);
            self.dull = if wakes || continues { 0 } else { self.dull };
        }
        wakes
    }

    /// Of the slots whose results are known, those that are new.
    pub(crate) fn new_results(&mut self, ended: u64) -> u64 {
        ended & !core::mem::replace(&mut self.noted, ended)
    }

    /// A transfer begins.
    pub(crate) fn begins(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// It has ended.
    pub(crate) fn ends(&mut self, direction: Direction, blocks: u32, now_ns: u64) {
        self.free_ns = now_ns;
        self.moved(direction, blocks, now_ns.saturating_sub(self.began_ns));
    }

    /// A request's result is known: its owner may send the next.
    pub(crate) fn completed(&mut self, direction: Direction, lba: u64, blocks: u32, now_ns: u64) {
        self.streams.completed(direction, lba, blocks, now_ns);
    }

    /// A transfer has run from its first command to its end.
    fn moved(&mut self, direction: Direction, blocks: u32, took_ns: u64) {
        self.dull = self.dull.saturating_add(1);
        let costs = self.costs(direction);
        costs.learn(blocks, took_ns);
        let fixed_ns = costs.fixed_ns().unwrap_or(0);
        self.credit(took_ns / SHARE, fixed_ns);
    }

    fn credit(&mut self, gained_ns: u64, fixed_ns: u64) {
        let most_ns = signed(CREDITS_MAX.saturating_mul(fixed_ns)).max(CREDIT_NS).max(self.credit_ns);
        self.credit_ns = self.credit_ns.saturating_add(signed(gained_ns)).min(most_ns);
    }

    fn debit(&mut self, lost_ns: u64) {
        self.credit_ns = self.credit_ns.saturating_sub(signed(lost_ns));
    }

    /// This goes next. Until when it is held; `None`: it starts now. `bound_ns`: no longer than this.
    pub(crate) fn decide(&mut self, pending: &Pending, bound_ns: u64, now_ns: u64) -> Option<u64> {
        let until_ns = self.wanted(pending, bound_ns, now_ns);
        match (&mut self.held, until_ns) {
            (Some(held), Some(until_ns)) => (held.until_ns, held.pending) = (until_ns, *pending),
            (Some(_), None) => self.end(now_ns),
            (None, None) => {}
            (None, Some(until_ns)) => {
                let fixed_ns = self.costs(pending.direction).fixed_ns().unwrap_or(0);
                self.held = Some(Held { since_ns: now_ns, until_ns, fixed_ns, pending: *pending });
            }
        }
        until_ns
    }

    /// What holding has cost and gained so far.
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

    fn wanted(&mut self, pending: &Pending, bound_ns: u64, now_ns: u64) -> Option<u64> {
        let stream = self.streams.ending_at(pending.direction, pending.end)?;
        let request_blocks = (pending.blocks / u32::from(pending.requests.max(1))).max(1);
        let fitting = (pending.room_blocks / request_blocks).min(pending.room_requests.into());
        let tail = u32::from(stream.away(pending.unsettled)).min(fitting);
        if tail == 0 {
            return None;
        }
        let settles_ns = self.streams.settles_ns(pending.unsettled);
        let next_ns = stream.next_by_ns(settles_ns, now_ns);
        let fixed_ns = self.costs(pending.direction).fixed_ns()?;
        // All in one transfer: the controller rests until the last is back. In two, each half comes back during the other's transfer, or is waited for.
        let all = u32::from(pending.requests).saturating_add(tail);
        let blocks_ns = self.costs(pending.direction).blocks_ns(all.saturating_mul(request_blocks));
        let back_ns = stream.back_ns(all)?.saturating_sub(stream.hidden_ns(self.free_ns));
        let one_ns = fixed_ns.saturating_add(blocks_ns);
        let whole_ns = one_ns.saturating_add(back_ns).saturating_add(settles_ns);
        let half_ns = fixed_ns.saturating_add(blocks_ns / 2).saturating_add(stream.back_ns(all / 2)?);
        let halves_ns = one_ns.saturating_add(fixed_ns).max(half_ns);
        let since_ns = self.held.map_or(now_ns, |held| held.since_ns);
        let fixed_ns = self.held.map_or(fixed_ns, |held| held.fixed_ns);
        let last_ns = since_ns.saturating_add(fixed_ns.min(bound_ns));
        let until_ns = next_ns.min(last_ns);
        // Whether it pays is asked at its beginning; after that, what has been waited is spent either way.
        let pays = self.held.is_some() || {
            let risk_ns = until_ns.saturating_sub(now_ns);
            self.chances = self.chances.wrapping_add(1) % DOUBTED;
            let is_better = whole_ns.saturating_add(whole_ns / 128) < halves_ns;
            let is_close = whole_ns.abs_diff(halves_ns) < halves_ns / 8;
            is_better != (self.chances == 0 && is_close) && signed(risk_ns) <= self.credit_ns
        };
        (pays && until_ns > now_ns).then_some(until_ns)
    }

    fn end(&mut self, now_ns: u64) {
        let Some(held) = self.held.take() else { return };
        let waited_ns = now_ns.saturating_sub(held.since_ns);
        let Pending { direction, end, .. } = held.pending;
        let stays_away = now_ns >= held.until_ns && self.streams.gave_up(direction, end);
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
