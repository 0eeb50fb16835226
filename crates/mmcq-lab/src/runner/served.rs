//! Counters of a stack during a run.

use crate::linux::elevator::DiskUse;
use mmcq::engine::{Close, Stats};
use mmcq::sched::{ChainStats, Holds, PackStats, TaskStats};

/// Whether a transfer stays open after its request, for a next request that may continue it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// The host cannot transfer data without a command, so no transfer stays open from one request
    /// to the next.
    #[default]
    Cannot,
    /// The setting closes each transfer at the end of its request.
    Closes,
    /// A transfer stays open for some time after its request, so that a next request can continue
    /// it.
    Holds,
}

/// Counters of the stack that served a load: mmcq, or a model of Linux. Some exist only for certain
/// stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Number of transfers that continued an open transfer, so that the host sent no new command.
    pub continued: u64,
    /// Whether a transfer stays open for the next request.
    pub keeping: Keeping,
    /// Statistics of Linux's block layer; `None`: the stack is not a model of Linux.
    pub disk: Option<DiskUse>,
    /// Counters of mmcq's engine; `None`: a model of Linux served the run.
    pub engine: Option<Stats>,
    /// Counters of the transfers whose start mmcq's engine has delayed, so that more requests could
    /// join them.
    pub holds: Holds,
    /// Whether the host driver had claimed that it can continue a data transfer, but then failed
    /// to.
    pub continue_lost: bool,
    /// Counters of the card's command queue, if it was on.
    pub tasks: Option<TaskStats>,
    /// Counters of packed commands, if any were used.
    pub packs: Option<PackStats>,
    /// Counters of chains (lists of transfers that the controller executes), if any were used.
    pub chains: Option<ChainStats>,
}

impl Served {
    /// Returns the number of I/Os that Linux's block layer or mmcq's engine merged into another
    /// request.
    pub fn merged(&self) -> u64 {
        #[allow(clippy::useless_conversion, reason = "counters have 32 bits where the core's words do")]
        let by_engine = || self.engine.map_or(0, |engine| engine.merged.into());
        self.disk.map(|disk| disk.merges.iter().sum()).unwrap_or_else(by_engine)
    }

    /// Makes the counters of a run by mmcq's engine. They are the difference between `now`, and
    /// `before` (the engine's counters after the card was brought up).
    ///
    /// `holds` are the counters of delayed starts; they need no difference, since bring-up delays
    /// no start. `continue_lost`: the host claimed that it can continue transfers, and could not.
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

/// Returns in words the reason `close` for which mmcq's engine ended a transfer that it had left
/// open for further requests.
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
