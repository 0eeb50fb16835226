//! Part of a report about a replayed trace: facts about the trace, and measurements of each
//! program.

use crate::fio::programs::{ProgramStats, Programs, Taken};
use std::fmt::Write;

/// Percentiles of each program's latencies that are shown, with their names in JSON.
pub(super) const PERCENTILES: [(f64, &str); 4] =
    [(50.0, "p50"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99.9")];

/// One fact that a report states about a replayed trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A fact that is a count, or a size in bytes.
    Count(u64),
    /// A fact whose value is a number with decimals, such as a rate.
    Number(f64),
    /// A fact that is text, such as a name.
    Word(String),
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fact::Count(count) => write!(f, "{count}"),
            Fact::Number(number) => write!(f, "{number}"),
            Fact::Word(word) => f.write_str(word),
        }
    }
}

/// A trace that is replayed.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Facts about the trace and the options of the replay, each as name and value.
    pub facts: Vec<(String, Fact)>,
    /// Sentences that describe the trace, for the HTML page of the report.
    pub told: Vec<String>,
    /// Names of the trace's programs, by their number; empty if the trace names no programs.
    pub names: Vec<String>,
}

/// A program of a trace, with the measurements of its requests.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the program in the trace.
    pub name: String,
    /// Measurements of the requests of this program, which the trace recorded and the replay
    /// repeated.
    pub stats: ProgramStats,
}

/// Latencies of a program's requests of one kind, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Number of requests of this kind.
    pub ios: u64,
    /// Number of bytes of all requests of this kind.
    pub bytes: u64,
    /// Mean latency of all requests of this kind in us.
    pub mean_us: f64,
    /// Latencies in us that 50, 95, 99 and 99.9 % of the requests do not exceed.
    pub percentiles_us: [f64; PERCENTILES.len()],
    /// Longest latency of these requests in us.
    pub max_us: f64,
}

impl Figures {
    fn of(taken: &Taken) -> Option<Self> {
        let ns = &taken.clat.ns;
        if ns.samples == 0 {
            return None;
        }
        let found = taken.clat.histogram.percentiles(&PERCENTILES.map(|(at, _)| at));
        // The middle of a histogram's bucket may be above the longest latency.
        let us = |at: usize| found.get(at).map_or(0.0, |bucket_ns| (*bucket_ns).min(ns.max) as f64 / 1e3);
        Some(Figures {
            ios: ns.samples,
            bytes: taken.bytes,
            mean_us: ns.mean / 1e3,
            percentiles_us: std::array::from_fn(us),
            max_us: ns.max as f64 / 1e3,
        })
    }
}

impl Program {
    /// Returns the programs of a replayed trace that have made requests, the one with the most
    /// requests first. `names`: the program's name, by its number.
    pub fn all(names: &[String], programs: &Programs) -> Vec<Program> {
        let all = programs.iter().filter_map(|(number, stats)| {
            let name = names.get(usize::from(*number))?.clone();
            Some(Program { name, stats: (**stats).clone() })
        });
        let mut all: Vec<Program> = all.collect();
        let count = |program: &Program| program.figures().iter().map(|(_, figures)| figures.ios).sum::<u64>();
        all.sort_by_key(|program| std::cmp::Reverse(count(program)));
        all
    }

    /// Returns the figures of each kind of request of the program. The kinds have fio's names:
    /// read, write, trim, sync.
    pub fn figures(&self) -> Vec<(&'static str, Figures)> {
        let [reads, writes] = &self.stats.dirs;
        let kinds = [
            ("read", reads),
            ("write", writes),
            ("trim", &self.stats.discards),
            ("sync", &self.stats.flushes),
        ];
        kinds.into_iter().filter_map(|(name, taken)| Some((name, Figures::of(taken)?))).collect()
    }
}

/// Returns the sums over the requests of all programs, separate for each kind of request.
fn sums(programs: &[Program]) -> Program {
    let mut stats = ProgramStats::default();
    programs.iter().for_each(|program| stats.pool(&program.stats));
    Program { name: "all".to_owned(), stats }
}

/// Returns a table with a line for each program and kind of request, then a line for each kind over
/// all programs, in microseconds. The column `time` is the share of the time that all requests took
/// together.
pub(super) fn lines(programs: &[Program]) -> String {
    if programs.is_empty() {
        return String::new();
    }
    let wide = programs.iter().map(|program| program.name.chars().count()).max().unwrap_or(0).max(7);
    let mut out = format!(
        "{:<wide$}  {:<5} {:>8} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "program", "usec", "requests", "KiB", "time", "mean", "50.00th", "99.00th", "99.90th", "max"
    );
    let all = sums(programs);
    let took_us = |figures: &Figures| figures.mean_us * figures.ios as f64;
    let whole_us: f64 = all.figures().iter().map(|(_, figures)| took_us(figures)).sum();
    for program in programs.iter().chain([&all]) {
        for (kind, figures) in program.figures() {
            let [median, _, most, tail] = figures.percentiles_us;
            let _ = writeln!(
                out,
                "{:<wide$}  {kind:<5} {:>8} {:>10} {:>5.1} % {:>9.1} {median:>9.1} {most:>9.1} {tail:>9.1} {:>9.1}",
                program.name,
                figures.ios,
                figures.bytes / 1024,
                100.0 * took_us(&figures) / whole_us.max(f64::MIN_POSITIVE),
                figures.mean_us,
                figures.max_us
            );
        }
    }
    out
}
