//! What a stack itself counted while it served a run.

use mmcq::engine::{Close, Stats};
use mmcq::sched::{ChainStats, Holds, PackStats, TaskStats};

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
    /// What went through the card's command queue, if it was switched on.
    pub tasks: Option<TaskStats>,
    /// What went in packed commands, if any did.
    pub packs: Option<PackStats>,
    /// What went in chains, if any did.
    pub chains: Option<ChainStats>,
}

impl Served {
    /// By our engine, whose counters were `before` when the card had come up. Until then no start
    /// is held.
    pub fn by_engine(before: &Stats, now: Stats, holds: Holds, continue_lost: bool) -> Self {
        let mut stats = now;
        for (count, earlier) in stats.closed.iter_mut().zip(before.closed) {
            *count -= earlier;
        }
        stats.requests -= before.requests;
        stats.transfers -= before.transfers;
        stats.merged -= before.merged;
        stats.continued -= before.continued;
        stats.not_continued -= before.not_continued;
        stats.busy_polls -= before.busy_polls;
        stats.status_asked -= before.status_asked;
        stats.faults -= before.faults;
        stats.start_retries -= before.start_retries;
        #[allow(clippy::useless_conversion, reason = "counters have 32 bits where the core's words do")]
        let continued = stats.continued.into();
        Served { continued, engine: Some(stats), holds, continue_lost, ..Served::default() }
    }
}

/// Why open transfers were closed, in words.
pub fn reason(close: Close) -> &'static str {
    match close {
        Close::Break => "the next request does not continue it",
        Close::Barrier => "a flush or another command is next",
        Close::Idle => "nothing came in the time that it is held",
        Close::End => "nothing is known to continue it",
        Close::Edge => "end of the card",
        Close::Stop => "the queue was stopped",
        Close::Retune => "the controller asked for tuning",
        Close::Fault => "the host failed to continue",
        Close::Owed => "the status of its writes was owed for long enough",
    }
}
