//! What came out: rates, gains, how far each may be off, and the value that decides it.

use super::load::Load;
use super::standin::{self, Kind};
use super::uncertain::Uncertain;
use crate::fio::stats::Latency;
use crate::runner::{Outcome, Setting};
use crate::why;

/// A value decides nothing that moves a gain by less than this, in percent: runs on other paths of
/// chance differ by as much.
const LEAST_PERCENT: f64 = 0.1;

/// What one run says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Of both directions.
    pub mib_s: f64,
    /// Requests a second.
    pub iops: f64,
    /// What 99 % of the requests take at most; of a durable load, of the flushes. In nanoseconds.
    pub p99_ns: u64,
    /// Share of all cores that is at work.
    pub cpu_share: f64,
    /// CPU time for each request, in nanoseconds.
    pub cpu_ns: u64,
}

impl Point {
    /// Of a run of this load.
    pub fn of(outcome: &Outcome, load: &Load) -> Self {
        let (all, c) = (outcome.group(), &outcome.counters);
        let steady = c.steady.mib_per_s().filter(|_| load.is_steady);
        let mib_s = steady.unwrap_or_else(|| why::mib_per_s(c));
        let p99 = |latency: &Latency| latency.histogram.percentiles(&[99.0]).first().copied().unwrap_or(0);
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

/// What a value does to a gain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Which of the answer's values.
    pub value: usize,
    /// The gain in percent with the value at its low and at its high end; `None`: that does not run.
    pub percent: [Option<f64>; 2],
    /// The rate there, in MiB/s.
    pub mib_s: [Option<f64>; 2],
    /// From the lowest to the highest gain, the one with all values as they are among them.
    pub width_percent: f64,
}

/// What decides a gain.
#[derive(Clone, Copy, Debug)]
pub enum Decides<'a> {
    /// A value of the board or the card.
    Value(&'a Uncertain),
    /// How far the stand-ins of Linux are off Linux itself.
    StandIn,
}

impl Decides<'_> {
    /// Its key.
    pub fn key(&self) -> &str {
        match self {
            Decides::Value(value) => &value.key,
            Decides::StandIn => "the stand-in",
        }
    }

    /// The last part of its key.
    pub fn short(&self) -> &str {
        match self {
            Decides::Value(value) => value.short(),
            Decides::StandIn => "stand-in",
        }
    }

    /// Whether nobody has measured it.
    pub fn is_prior(&self) -> bool {
        matches!(self, Decides::Value(value) if value.is_prior())
    }
}

/// A setting in a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The setting.
    pub setting: Setting,
    /// With all values as they are.
    pub point: Point,
    /// Against the first setting of the cell, in percent.
    pub percent: f64,
    /// The lowest and the highest gain.
    pub ends: [f64; 2],
    /// The lowest and the highest rate, in MiB/s.
    pub mib_s: [f64; 2],
    /// What each value does that does something, the widest first.
    pub effects: Vec<Effect>,
    /// By how much the gain moves, in percent, if the stand-ins of Linux are off Linux itself by as
    /// much as where both ran.
    pub stand_in_percent: f64,
    /// By value: the rates at its ends.
    rates: Vec<[Option<f64>; 2]>,
}

impl Gain {
    /// What decides: the value with the widest effect, or the stand-in.
    pub fn decides<'a>(&self, answer: &'a Answer) -> Option<Decides<'a>> {
        let widest = self.effects.first();
        match widest.map_or(LEAST_PERCENT, |effect| effect.width_percent) {
            width if self.stand_in_percent > width => Some(Decides::StandIn),
            _ => widest.map(|effect| Decides::Value(&answer.values[effect.value])),
        }
    }

    /// Whether a value without a measurement moves it.
    pub fn hangs_on_priors(&self, answer: &Answer) -> bool {
        self.effects.iter().any(|effect| answer.values[effect.value].is_prior())
    }
}

/// A load with each setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The load in words.
    pub title: String,
    /// Each write is flushed.
    pub is_durable: bool,
    /// What it does.
    pub kind: Kind,
    /// Its depth, or its jobs.
    pub depth: Option<u32>,
    /// What ran, in the order of the settings. The first is what the others are compared with.
    pub gains: Vec<Gain>,
    /// What did not run, and why.
    pub refused: Vec<(Setting, String)>,
}

impl Cell {
    /// Nothing of this load has run yet.
    pub(super) fn new(load: &Load) -> Self {
        Cell {
            title: load.title(),
            is_durable: load.is_durable,
            kind: load.kind(),
            depth: load.depth,
            gains: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// A setting ran here, or did not.
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

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The board.
    pub platform: String,
    /// The card.
    pub card: String,
    /// What was changed.
    pub set: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Runs in all.
    pub runs: usize,
    /// Intervals were wanted.
    pub has_intervals: bool,
    /// The values that were moved.
    pub values: Vec<Uncertain>,
    /// Ends that could not be run, and why.
    pub left: Vec<String>,
    /// The loads.
    pub cells: Vec<Cell>,
}

fn percent(mib_s: f64, against: f64) -> f64 {
    100.0 * (mib_s / against.max(f64::MIN_POSITIVE) - 1.0)
}

impl Answer {
    /// Why nothing ran, if nothing did.
    pub(super) fn nothing_ran(&self) -> Option<String> {
        let refused = self.cells.iter().flat_map(|cell| &cell.refused).next();
        let (_, why) = refused.filter(|_| self.cells.iter().all(|cell| cell.gains.is_empty()))?;
        Some(why.clone())
    }

    /// A setting ran with a value at one end, or did not.
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

    /// All runs are there.
    pub(super) fn conclude(&mut self) {
        let values = &self.values;
        for cell in &mut self.cells {
            let Some(first) = cell.gains.first().cloned() else { continue };
            let of_linux = |setting| standin::ratio(setting, cell.kind, cell.depth);
            // An end that is the value itself was not run: it is the point.
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
                // Both stacks as far off as Linux itself is.
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
