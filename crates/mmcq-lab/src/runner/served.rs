//! What a stack itself counted while it served a run.

use crate::linux::elevator::DiskUse;
use mmcq::engine::{Close, Stats};
use mmcq::sched::{ChainStats, Holds, PackStats, TaskStats};

/// Whether a transfer stays open for a request that goes on where it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// The host cannot move data without a command.
    #[default]
    Cannot,
    /// The setting closes each transfer.
    Closes,
    /// It stays open for a time.
    Holds,
}

/// What there is depends on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Transfers that went on in an open one, without a command.
    pub continued: u64,
    /// What becomes of a transfer that the next request would go on with.
    pub keeping: Keeping,
    /// What Linux's block layer counted.
    pub disk: Option<DiskUse>,
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
    /// I/Os that went in another's request: by Linux's block layer, or by our engine.
    pub fn merged(&self) -> u64 {
        #[allow(clippy::useless_conversion, reason = "counters have 32 bits where the core's words do")]
        let by_engine = || self.engine.map_or(0, |engine| engine.merged.into());
        self.disk.map(|disk| disk.merges.iter().sum()).unwrap_or_else(by_engine)
    }

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
        Close::Memory => "the next request's memory or length is none that the host goes on with",
        Close::Owed => "the status of its writes was owed for long enough",
    }
}
