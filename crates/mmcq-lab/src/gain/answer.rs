//! Result of a comparison of stacks. It has the rates, how much faster each stack is than the first
//! one (gain), how uncertain each gain is, and what decides it.

use super::load::Load;
use super::standin::{self, Kind};
use super::uncertain::Uncertain;
use crate::fio::Worker;
use crate::fio::stats::Latency;
use crate::runner::{Outcome, Setting};
use crate::why;

/// Smallest effect of an uncertain value of board or card that is reported, in percentage points of
/// the gain (how much faster one setting is than another). Chance alone makes runs differ by as
/// much.
const LEAST_PERCENT: f64 = 0.1;

/// Figures of one run of a load with one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Rate of reads and writes together in MiB/s.
    pub mib_s: f64,
    /// Number of requests per second.
    pub iops: f64,
    /// 99th percentile of the latency in ns: of the requests; with a mixed load, of the requests of
    /// the slower direction; with a durable load, of the flushes.
    pub p99_ns: u64,
    /// Share of the time of all CPU cores in which they work, 0 to 1.
    pub cpu_share: f64,
    /// CPU time in ns for each request.
    pub cpu_ns: u64,
}

impl Point {
    /// Returns rate, latencies and CPU use of a finished run of this load.
    pub fn of(outcome: &Outcome, load: &Load) -> Self {
        let (all, c) = (outcome.group(), &outcome.counters);
        let steady = c.steady.mib_per_s().filter(|_| load.is_steady);
        let mib_s = steady.unwrap_or_else(|| why::mib_per_s(c));
        // The middle of a bucket may be above the longest time.
        let p99 = |latency: &Latency| {
            let found = latency.histogram.percentiles(&[99.0]).first().copied();
            found.unwrap_or(0).min(latency.ns.max)
        };
        let moved = all.dirs.iter().filter(|dir| dir.total_ios > 0).map(|dir| p99(&dir.lat));
        let p99_ns = match load.is_durable && all.sync.ns.samples > 0 {
            true => p99(&all.sync),
            false => moved.max().unwrap_or(0),
        };
        let bytes: u64 = all.dirs.iter().map(|dir| dir.io_bytes).sum();
        let requests: u64 = all.dirs.iter().map(|dir| dir.total_ios).sum();
        let each = bytes as f64 / requests.max(1) as f64;
        Point {
            mib_s,
            iops: mib_s * f64::from(1 << 20) / each.max(1.0),
            p99_ns,
            cpu_share: 1.0 - c.idle_share(),
            cpu_ns: c.cpu.busy_ns / requests.max(1),
        }
    }
}

/// How much a gain (by how much mmcq is faster) changes with an uncertain value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Index in [`Answer::values`] of the uncertain value.
    pub value: usize,
    /// Gain of one setting over another, in percent, computed twice: with the uncertain value at
    /// its low end, and at its high end. `None`: the simulation with this end was not possible.
    pub percent: [Option<f64>; 2],
    /// Rate in MiB/s of the setting, in the run with the uncertain value at its low end and in the
    /// run at its high end; `None`: that run was not possible.
    pub mib_s: [Option<f64>; 2],
    /// How much the value matters: difference in percentage points between the highest and the
    /// lowest of three gains (how much faster the setting is): with the value at its low end, at
    /// its high end, and unchanged.
    pub width_percent: f64,
}

/// What changes a gain (how much faster one setting is than another) most, of all that is
/// uncertain.
#[derive(Clone, Copy, Debug)]
pub enum Decides<'a> {
    /// A value of the board or the card that is not known exactly.
    Value(&'a Uncertain),
    /// The difference between the stand-ins (our models of Linux's stacks) and unmodified Linux.
    StandIn,
}

impl Decides<'_> {
    /// Returns the name of the cause that changes this gain over the first setting most: the key of
    /// an uncertain value, or `the stand-in` for the difference between Linux and its model.
    pub fn key(&self) -> &str {
        match self {
            Decides::Value(value) => &value.key,
            Decides::StandIn => "the stand-in",
        }
    }

    /// Returns a short name of the cause that changes this gain over the first setting most: the
    /// last part of the uncertain value's key, or `stand-in` for the difference between Linux and
    /// its model.
    pub fn short(&self) -> &str {
        match self {
            Decides::Value(value) => value.short(),
            Decides::StandIn => "stand-in",
        }
    }

    /// Returns whether the value that moves the gain most is only assumed (a prior), and not
    /// measured.
    pub fn is_prior(&self) -> bool {
        matches!(self, Decides::Value(value) if value.is_prior())
    }
}

/// Gain of a setting for one load: by how much it is faster than the first setting that ran this
/// load.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Setting (stack and configuration) that is compared with the first setting of the cell.
    pub setting: Setting,
    /// Figures of the run in which all values are as they are in the files of board and card.
    pub point: Point,
    /// By how many percent the rate of this setting is above that of the cell's first setting;
    /// below 0: this setting is slower.
    pub percent: f64,
    /// Lowest and highest gain in percent. They are taken over the run with all values as they are,
    /// and all runs in which one value was at its low or high end. If our models of Linux
    /// (stand-ins) are known to differ from unmodified Linux by more, that difference makes the
    /// interval wider. Without uncertain values, both are [`Gain::percent`].
    pub ends: [f64; 2],
    /// Lowest and highest rate in MiB/s over the same runs as for [`Gain::ends`]. How much the
    /// stand-ins (our models of Linux) are known to differ from unmodified Linux is not included.
    pub mib_s: [f64; 2],
    /// Effects of the uncertain values on this gain, the largest first. Values that change the gain
    /// by less than 0.1 percentage points are left out.
    pub effects: Vec<Effect>,
    /// How many percentage points this gain would move if both settings' stand-ins (our models of
    /// Linux) differed from unmodified Linux as much as in the loads that both ran.
    pub stand_in_percent: f64,
    /// Rates in MiB/s at both ends of each value, by the value's index; `None`: no such run was
    /// done, or it was not possible.
    rates: Vec<[Option<f64>; 2]>,
}

impl Gain {
    /// Returns what the gain (how much faster one setting is than another) depends on most: the
    /// uncertain value with the largest effect, or the difference between our models of Linux and
    /// unmodified Linux. `None`: nothing changes the gain.
    pub fn decides<'a>(&self, answer: &'a Answer) -> Option<Decides<'a>> {
        let widest = self.effects.first();
        match widest.map_or(LEAST_PERCENT, |effect| effect.width_percent) {
            width if self.stand_in_percent > width => Some(Decides::StandIn),
            _ => widest.map(|effect| Decides::Value(&answer.values[effect.value])),
        }
    }

    /// Returns whether the gain (how much faster one setting is than another) depends on a prior: a
    /// value of board or card that comes from no measurement.
    pub fn hangs_on_priors(&self, answer: &Answer) -> bool {
        self.effects.iter().any(|effect| answer.values[effect.value].is_prior())
    }
}

/// Results of one load with each setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name of the load (the I/O jobs), with its queue depth.
    pub title: String,
    /// Whether the load flushes its writes, as [`Load::is_durable`].
    pub is_durable: bool,
    /// Kind of the load (reads, writes or flushed writes).
    pub kind: Kind,
    /// Depth of the load; with a durable load, number of jobs. `None`: as in the user's job file.
    pub depth: Option<u32>,
    /// Largest number of requests that the jobs which run together have under way.
    under_way: u32,
    /// Results of the settings that ran, in order. The first one is the setting with which the
    /// others are compared.
    pub gains: Vec<Gain>,
    /// Settings that did not run with this load, each with the reason.
    pub refused: Vec<(Setting, String)>,
}

impl Cell {
    /// Makes the results of this load, without any result yet. `workers` are those that run the
    /// load.
    pub(super) fn new(load: &Load, workers: &[Worker]) -> Self {
        let (mut together, mut under_way) = (0_u32, 0);
        for worker in workers {
            together = if worker.waits_for_earlier { 0 } else { together };
            together = together.saturating_add(worker.job.depth());
            under_way = under_way.max(together);
        }
        Cell {
            title: load.title(),
            is_durable: load.is_durable,
            kind: load.kind(),
            depth: load.depth,
            under_way,
            gains: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Adds the result of one setting to the results of this load, or the reason why the setting
    /// did not run.
    pub(super) fn add(&mut self, setting: Setting, point: Result<Point, String>) {
        match point {
            Ok(point) => self.gains.push(Gain {
                setting,
                point,
                percent: 0.0,
                ends: [0.0; 2],
                mib_s: [point.mib_s; 2],
                effects: Vec::new(),
                stand_in_percent: 0.0,
                rates: Vec::new(),
            }),
            Err(why) => self.refused.push((setting, why)),
        }
    }
}

/// Answer to the question how much faster each card stack (setting) is on a board than the first
/// one, for each load, and how certain these gains are.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Name of the board.
    pub platform: String,
    /// Name of the card.
    pub card: String,
    /// Changes of board, card and jobs that the user gave (`KEY=VALUE`).
    pub set: Vec<String>,
    /// Seed of the runs.
    pub seed: u64,
    /// Number of runs that this comparison needed.
    pub runs: usize,
    /// Whether the user asked how uncertain each gain (of one stack's rate over another's) is.
    pub has_intervals: bool,
    /// Uncertain values of board and card. Each was set to its lower and to its upper end in runs
    /// of their own.
    pub values: Vec<Uncertain>,
    /// For each end of an uncertain value with which a run was not possible: a text with the
    /// reason.
    pub left: Vec<String>,
    /// Results of each load, with all compared stacks (settings).
    pub cells: Vec<Cell>,
}

fn percent(mib_s: f64, against: f64) -> f64 {
    100.0 * (mib_s / against.max(f64::MIN_POSITIVE) - 1.0)
}

impl Answer {
    /// Returns the reason why no setting ran with any load; `None`: one did.
    pub(super) fn nothing_ran(&self) -> Option<String> {
        let refused = self.cells.iter().flat_map(|cell| &cell.refused).next();
        let (_, why) = refused.filter(|_| self.cells.iter().all(|cell| cell.gains.is_empty()))?;
        Some(why.clone())
    }

    /// Stores the rate `mib_s` in MiB/s of a setting with one load (`cell`) while the uncertain
    /// value with the index `value` is at its low or high end (`end`: 0 or 1), or the reason why
    /// that run was not possible.
    pub(super) fn vary(
        &mut self,
        cell: usize,
        setting: Setting,
        value: usize,
        end: usize,
        mib_s: Result<f64, String>,
    ) {
        let count = self.values.len();
        let found = self.cells[cell].gains.iter_mut().find(|gain| gain.setting == setting);
        let Some(gain) = found else { return };
        gain.rates.resize(count, [None; 2]);
        match mib_s {
            Ok(mib_s) => gain.rates[value][end] = Some(mib_s),
            Err(why) => {
                let moved = &self.values[value];
                let change = moved.change(moved.ends[end]);
                self.left.push(format!("{change}: setting {}: {why}", setting.name()));
            }
        }
    }

    /// Computes all gains and effects from the rates, when all runs are done.
    pub(super) fn conclude(&mut self) {
        let values = &self.values;
        for cell in &mut self.cells {
            let Some(first) = cell.gains.first().cloned() else { continue };
            let of_linux = |setting| standin::ratio(setting, cell.kind, cell.under_way);
            // An end that equals the value was not run, so the rate with all values as they are is
            // used.
            let rate = |gain: &Gain, value: usize, end: usize| match gain.rates.get(value) {
                Some(rates) if values[value].ends[end] != values[value].value => rates[end],
                _ => Some(gain.point.mib_s),
            };
            for gain in &mut cell.gains {
                gain.percent = percent(gain.point.mib_s, first.point.mib_s);
                gain.ends = [gain.percent; 2];
                for value in 0..values.len() {
                    let mib_s = [0, 1].map(|end| rate(gain, value, end));
                    let gains = [0, 1].map(|end| Some(percent(mib_s[end]?, rate(&first, value, end)?)));
                    let all = || gains.into_iter().flatten().chain([gain.percent]);
                    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
                    gain.ends = [gain.ends[0].min(low), gain.ends[1].max(high)];
                    for rate in mib_s.into_iter().flatten() {
                        gain.mib_s = [gain.mib_s[0].min(rate), gain.mib_s[1].max(rate)];
                    }
                    let effect = Effect { value, percent: gains, mib_s, width_percent: high - low };
                    if effect.width_percent >= LEAST_PERCENT {
                        gain.effects.push(effect);
                    }
                }
                // Moves the gain as if both settings differed from unmodified Linux by as much as
                // their stand-ins.
                let ratio = of_linux(gain.setting) / of_linux(first.setting);
                let moved = |percent: f64| (100.0 + percent) * ratio - 100.0;
                gain.stand_in_percent = (moved(gain.percent) - gain.percent).abs();
                if !values.is_empty() {
                    let [low, high] = gain.ends;
                    gain.ends = [low.min(moved(low)), high.max(moved(high))];
                }
                gain.effects.sort_by(|a, b| b.width_percent.total_cmp(&a.width_percent));
            }
        }
        self.left.dedup();
    }
}
