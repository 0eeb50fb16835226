//! Explains the speed of a run: its requests, the activity on the bus, and the phases in which its
//! time was spent.
//!
//! Every nanosecond from the first submission to the last completion is in one phase:
//!
//! - wire: commands with their responses, and data with their gaps and CRC status;
//! - card: access (the bus waits for a block of a read), busy (the bus waits for DAT0), fetching
//!   (the card's queue holds tasks, and none of them is ready);
//! - held: the controller has no room, or no data, so the bus stops;
//! - waiting: the wires are quiet and the stack has no request, since the jobs think, sleep or wake
//!   up;
//! - CPU: all other time, in which the wires are quiet although the stack has a request.
//!   Interrupts, wake-ups, the work of driver and engine, and the controller's own time to begin
//!   and to report belong here. So do pauses between polls of a card whose busy the host does not
//!   see.
//!
//! A command that is sent during busy counts as wire, not as busy. A gap of a few clocks that could
//! count as wire or as busy counts as wire, too. The physical limit is the same job with software
//! that takes no time, in perfect batches ([`Setting::Limit`]).

mod conclusion;
mod report;

pub use conclusion::requests_per_transfer;
pub use report::{Fact, facts, json_lines, text};

use crate::fio::Worker;
use crate::fio::job::IoEngine;
use crate::fio::stats::DirStats;
use crate::platform::Platform;
use crate::rate::Rate;
use crate::recorded::export::{self, Completed};
use crate::recorded::passed::{self, Rules};
use crate::runner::{Counters, Outcome, Run, RunError, Setting, allowed_mib_per_s, run};
use std::sync::Arc;

/// Parts into which the time of a run is split by what it was spent on, in nanoseconds; the fields
/// add up to the whole time of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Time in ns for commands and responses on the bus.
    pub command_ns: u64,
    /// Time in ns for data blocks, with their gaps and CRC status.
    pub data_ns: u64,
    /// Time in ns in which the bus waits for a block of a read.
    pub access_ns: u64,
    /// Time in ns in which the bus waits for the end of the card's busy on DAT0.
    pub busy_ns: u64,
    /// Time in ns in which the controller has no room or no data, and so stops the bus.
    pub held_ns: u64,
    /// Time in ns in which the card's queue holds tasks but none is ready.
    pub fetching_ns: u64,
    /// Time in ns in which the stack has a request, but bus and card are quiet.
    pub cpu_ns: u64,
    /// Time in ns in which no job has work for the bus.
    pub waiting_ns: u64,
}

impl Phases {
    /// Number of parts into which the time of a run is divided.
    pub const COUNT: usize = 8;

    /// Divides the time of a run into the parts that `Phases` names, by the run's counters.
    pub fn of(c: &Counters) -> Self {
        let bus = &c.bus;
        // The phases are computed one after the other, each from the time that is left. Busy is
        // last, since it may overlap with commands that poll for its end; gaps of a few clocks are
        // counted twice.
        let mut left_ns = c.elapsed_ns;
        let mut take = |ns: u64| {
            let taken = ns.min(left_ns);
            left_ns -= taken;
            taken
        };
        Phases {
            waiting_ns: take(c.waiting_ns),
            command_ns: take(bus.command_ns),
            data_ns: take(bus.data_ns),
            access_ns: take(bus.access_ns),
            held_ns: take(bus.held_ns),
            busy_ns: take(bus.busy_ns),
            // Time of a card that fetches while the wires are in use is not counted.
            fetching_ns: take(bus.fetching_ns),
            cpu_ns: left_ns,
        }
    }

    /// Returns the name of each part of the run's time (such as `wire, data`) with its length in
    /// ns, in the order of the report.
    pub fn named(&self) -> [(&'static str, u64); Self::COUNT] {
        [
            ("wire, commands", self.command_ns),
            ("wire, data", self.data_ns),
            ("card, access", self.access_ns),
            ("card, busy", self.busy_ns),
            ("card, fetching", self.fetching_ns),
            ("controller held", self.held_ns),
            ("CPU", self.cpu_ns),
            ("waiting", self.waiting_ns),
        ]
    }
}

/// Analysis of a run: its counters, those of the same job at its physical limit, and those with two
/// requests under way at a time.
#[derive(Clone, Debug)]
pub struct Why {
    /// Board, card and setting, as the user named them.
    pub title: String,
    /// Counters of the run that is explained, such as I/Os, bus times and CPU times.
    pub counters: Counters,
    /// Counters of the same job at its physical limit.
    pub limit: Counters,
    /// Counters of the same job with two requests under way at a time. `None`: the job was not run
    /// so. It is run so only if the run has a single job with one request at a time, and most of
    /// the loss is the time in which the bus waits for this job.
    pub deeper: Option<Counters>,
    /// Times of the run's requests in scheduler, driver and card; `None`: they were not recorded.
    pub requests: Option<Requests>,
    /// Unit in which the run's rates are shown.
    pub rate: Rate,
    /// Number of values of board and card that no measurement supports, and on which times and
    /// rates may depend; 0: none, or they were not counted.
    pub priors: usize,
}

/// Times of a run's requests in scheduler, driver and card, and the slowest request.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Mean and longest time in ns of a request in the scheduler, in the driver's queue, and at the
    /// card.
    pub spans: [(&'static str, f64, u64); 3],
    /// The slowest request, in one line.
    pub slowest: String,
    /// Requests that starved, in one line; `None`: there are none.
    pub starved: Option<String>,
}

impl Requests {
    fn of(completed: &[Completed], rules: Rules) -> Option<Self> {
        let slowest = passed::slowest(completed, 1, rules).first()?.line(rules);
        let span = |name, of: fn(&Completed) -> u64| {
            let sum: u64 = completed.iter().map(of).sum();
            let longest = completed.iter().map(of).max().unwrap_or(0);
            (name, sum as f64 / completed.len() as f64, longest)
        };
        let spans = [
            span("in the scheduler", |one| one.driver_ns - one.came_ns),
            span("in the driver's queue", |one| one.went_ns - one.driver_ns),
            span("at the card", |one| one.done_ns - one.went_ns),
        ];
        Some(Requests { spans, slowest, starved: starved(completed) })
    }
}

/// Smallest share of the time, in percent, in which the bus waits for the jobs' next requests even
/// in the run at the physical limit. From this share on, the report says that the pace of the jobs
/// limits the rate.
const PACED_PERCENT: f64 = 5.0;

/// A request counts as starved if its latency is more than this many times the 99th percentile of
/// all requests' latencies.
const STARVES: u64 = 20;
/// Smallest number of requests of a run for the check whether one starved. With fewer requests the
/// 99th percentile is the slowest request itself, so none is slower than the percentile.
const ENOUGH: usize = 101;

/// Returns one line about the requests that starved ([`STARVES`]); `None`: there are none, or the
/// run has too few requests ([`ENOUGH`]).
fn starved(completed: &[Completed]) -> Option<String> {
    let mut took: Vec<u64> = completed.iter().map(|one| one.done_ns - one.came_ns).collect();
    took.sort_unstable();
    let p99_ns = *took.get(took.len() * 99 / 100)?;
    let longest_ns = *took.last()?;
    let count = took.iter().filter(|ns| **ns > STARVES.saturating_mul(p99_ns)).count();
    (took.len() >= ENOUGH && count > 0).then(|| {
        let (longest, p99) = (longest_ns as f64 / 1e6, p99_ns as f64 / 1e6);
        format!(
            "starved: {count} of {} requests, up to {longest:.1} ms where 99 % take {p99:.3} ms; \
             percentiles do not show it",
            took.len()
        )
    })
}

/// Returns one line for each direction in which a request starved.
pub fn starved_directions(outcome: &Outcome) -> Vec<String> {
    let all = outcome.group();
    let directions = [("read", &all.dirs[0]), ("write", &all.dirs[1]), ("trim", &all.discards)];
    let line = |(name, stats): (&str, &DirStats)| {
        let (p99_ns, max_ns) = starves(stats)?;
        let [p99, max] = [p99_ns, max_ns].map(|ns| ns as f64 / 1e6);
        Some(format!("a {name} took {max:.1} ms where 99 % take {p99:.3} ms; percentiles do not show it"))
    };
    directions.into_iter().filter_map(line).collect()
}

/// Returns the 99th percentile and the longest time in ns, if the longest is more than 20 times the
/// percentile: other requests then overtook a request again and again. Otherwise returns `None`.
pub fn starves(stats: &DirStats) -> Option<(u64, u64)> {
    let p99_ns = stats.lat.histogram.percentiles(&[99.0]).first().copied()?;
    let max_ns = stats.lat.ns.max;
    (max_ns > p99_ns.saturating_mul(STARVES)).then_some((p99_ns, max_ns))
}

/// Returns the rate of a run in MiB/s.
pub fn mib_per_s(c: &Counters) -> f64 {
    c.bytes as f64 / f64::from(1 << 20) / (c.elapsed_ns.max(1) as f64 / 1e9)
}

impl Why {
    /// Runs the job of `run` in its setting, then the runs with which it is compared.
    pub fn new(run: &Run<'_>) -> Result<Self, RunError> {
        let (counters, completed) = export::completed(|| counted(run));
        let limit = counted(&Run { setting: Setting::Limit, ..*run })?;
        let mut why = Why::of(run, counters?, limit)?;
        // At the limit requests are joined and several lanes run, so places are not recorded.
        if run.setting != Setting::Limit {
            why.requests = Requests::of(&completed, run.setting.rules(run.platform));
        }
        Ok(why)
    }

    /// Makes the analysis of a finished run. `limit`: counters of the same job at its physical
    /// limit. If the bus mainly waits for a single job with one request at a time, also runs this
    /// job with two requests at a time.
    pub fn of(run: &Run<'_>, counters: Counters, limit: Counters) -> Result<Self, RunError> {
        let (title, rate) = (title(run.platform, run), Rate::default());
        let mut why = Why { title, counters, limit, deeper: None, requests: None, rate, priors: 0 };
        if conclusion::waits(&why)
            && let Some(workers) = with_depth_2(run.workers)
        {
            why.deeper = Some(counted(&Run { workers: &workers, ..*run })?);
        }
        Ok(why)
    }

    /// Returns the physical limit in MiB/s for a run of this length ([`allowed_mib_per_s`]).
    pub fn limit_mib_per_s(&self) -> f64 {
        allowed_mib_per_s(&self.limit, &self.counters)
    }

    /// Converts a rate in MiB/s into the unit of the report, for requests that have the mean size
    /// of this run's requests.
    fn told(&self, mib_per_s: f64) -> f64 {
        self.rate.of(mib_per_s, self.counters.ios as f64, self.counters.bytes as f64)
    }

    /// Returns the rate of the run in percent of its physical limit.
    pub fn share_percent(&self) -> f64 {
        100.0 * (mib_per_s(&self.counters) / self.limit_mib_per_s().max(f64::MIN_POSITIVE))
    }

    /// Returns the share of the time, in percent, in which the run at the limit waits for the
    /// load's own pace (rates, think times, pauses). `None`: the share is below 5 %.
    pub fn pace_percent(&self) -> Option<f64> {
        let limit = &self.limit;
        let share = 100.0 * Phases::of(limit).waiting_ns as f64 / limit.elapsed_ns.max(1) as f64;
        Some(share).filter(|share| *share >= PACED_PERCENT)
    }

    /// Returns what costs the run most, in one line.
    pub fn conclusion(&self) -> String {
        conclusion::line(self)
    }
}

fn counted(run: &Run<'_>) -> Result<Counters, RunError> {
    self::run(run, None, &mut |_, _| ()).map(|outcome| outcome.counters)
}

fn title(platform: &Platform, run: &Run<'_>) -> String {
    let card = run.card.unwrap_or(&platform.card);
    format!("platform {}, card {card}, setting {}", platform.name, run.setting.name())
}

/// Returns the workers with depth 2 if there is a single job with one request under way; otherwise
/// `None`.
fn with_depth_2(workers: &[Worker]) -> Option<Vec<Worker>> {
    let [only] = workers else { return None };
    if only.job.depth() != 1 {
        return None;
    }
    let mut deeper = only.clone();
    let job = Arc::make_mut(&mut deeper.job);
    (job.ioengine, job.iodepth) = (IoEngine::Libaio, 2);
    Some(vec![deeper])
}
