//! What a stack itself counted while it served a run.

use mmcq::engine::{Close, Stats};
use mmcq::sched::Holds;

/// What there is depends on the stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Transfers that went on in an open one, without a command.
    pub continued: u64,
    /// Our engine's counters.
    pub engine: Option<Stats>,
    /// Starts that our engine held for the tail of a batch.
    pub holds: Holds,
    /// The host said that it can continue data, and could not.
    pub continue_lost: bool,
}

impl Served {
    /// By our engine, whose counters were `before` when the card had come up. Until then no start
    /// is held.
    pub fn by_engine(before: &Stats, now: Stats, holds: Holds, continue_lost: bool) -> Self {
        let mut closed = now.closed;
        for (count, earlier) in closed.iter_mut().zip(before.closed) {
            *count -= earlier;
        }
        let stats = Stats {
            requests: now.requests - before.requests,
            transfers: now.transfers - before.transfers,
            merged: now.merged - before.merged,
            continued: now.continued - before.continued,
            not_continued: now.not_continued - before.not_continued,
            busy_polls: now.busy_polls - before.busy_polls,
            status_asked: now.status_asked - before.status_asked,
            faults: now.faults - before.faults,
            start_retries: now.start_retries - before.start_retries,
            closed,
            ..now
        };
        Served { continued: stats.continued, engine: Some(stats), holds, continue_lost }
    }
}

/// Why open transfers were closed, in words.
pub fn reason(close: Close) -> &'static str {
    match close {
        Close::Break => "the next request does not continue it",
        Close::Barrier => "a flush or another command is next",
        Close::Idle => "nothing came in the learned time",
        Close::End => "nothing is known to continue it",
        Close::Edge => "end of the card",
        Close::Stop => "the queue was stopped",
        Close::Retune => "the controller asked for tuning",
        Close::Fault => "the host failed to continue",
    }
}
