//! The scheduler that sends reads before older writes, up to a limit for each write.
//!
//! A client usually waits for its reads, and for few of its writes: an operating system collects
//! writes and sends them later, many at a time. In the order of arrival one small read then waits
//! for all of them.
//!
//! Among the reads, and among the writes, the oldest goes first. If a write is the oldest of all
//! waiting requests, the oldest read goes before it. This ends when the reads that went before this
//! write have at least [`SHARE`] times as many blocks as the write. Then the write is next.
//!
//! # Bound
//! If nothing fails, a read waits for the reads before it, for the transfer in progress, and for
//! those writes before it that the limit sends first. A write waits for the requests before it, and
//! for younger reads. Those that go before one write, while it is the oldest request, have fewer
//! than [`SHARE`] times its blocks, and one transfer more.
//!
//! If both wait all the time, and all requests have the same length, two reads go before each
//! write, as with the defaults of Linux' mq-deadline (`writes_starved`).
//!
//! Cost: while only reads or only writes wait, the engine's fast path needs no call of the
//! scheduler. Each other pick makes one pass over the waiting requests, at most to the first read.
//! The state takes 24 bytes.

use super::{Choice, Policy, Waiting};
use crate::host::Direction;

/// The limit for the reads that go before a write, as a multiple of the blocks of the write.
pub const SHARE: u32 = 2;

/// The oldest waiting write, and how much has gone before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    /// Index and time of arrival of the write. Together they distinguish it from other writes.
    write: (u8, u64),
    /// Number of blocks of the reads that were sent before it while it was the oldest request.
    blocks: u32,
}

/// The scheduler that sends the oldest read before older writes, up to a limit for each write; see
/// [the module](self).
///
/// # Examples
/// ```
/// use mmcq::host::Direction;
/// use mmcq::sched::{Choice, Origin, Policy, ReadsFirst, Waiting};
///
/// let write = Waiting {
///     index: 0,
///     direction: Direction::Write,
///     lba: 0,
///     blocks: 1024,
///     origin: Origin::DEFAULT,
///     arrived_ns: 0,
/// };
/// let read = Waiting { index: 1, direction: Direction::Read, blocks: 8, arrived_ns: 1000, ..write };
/// assert_eq!(ReadsFirst::new().pick([write, read].into_iter(), 2000), Choice::Go(1));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadsFirst {
    passed: Option<Passed>,
    /// Whether the request that was picked last is a read that goes before an older write.
    passes: bool,
}

impl ReadsFirst {
    /// Makes a scheduler without requests.
    pub const fn new() -> Self {
        ReadsFirst { passed: None, passes: false }
    }
}

impl Policy for ReadsFirst {
    const MAY_BE_IN_ORDER: bool = true;

    fn is_in_order(&self) -> bool {
        true
    }

    fn yields(&self) -> bool {
        true
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        self.passes = false;
        let Some(oldest) = waiting.next() else { return Choice::IdleUntil(now_ns) };
        if oldest.direction == Direction::Read {
            return Choice::Go(oldest.index);
        }
        let Some(read) = waiting.find(|request| request.direction == Direction::Read) else {
            return Choice::Go(oldest.index);
        };
        let write = (oldest.index, oldest.arrived_ns);
        let passed = match self.passed {
            Some(passed) if passed.write == write => passed,
            _ => Passed { write, blocks: 0 },
        };
        self.passed = Some(passed);
        self.passes = passed.blocks < oldest.blocks.saturating_mul(SHARE);
        Choice::Go(if self.passes { read.index } else { oldest.index })
    }

    fn sent(&mut self, request: &Waiting, _now_ns: u64) {
        if let Some(passed) = &mut self.passed
            && self.passes
            && request.direction == Direction::Read
        {
            passed.blocks = passed.blocks.saturating_add(request.blocks);
        }
    }
}
