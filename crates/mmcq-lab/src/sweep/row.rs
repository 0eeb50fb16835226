//! Rows of a sweep: their columns, and how they are written.

use crate::fio::programs::ProgramStats;
use crate::fio::stats::{DirStats, Stats};
use crate::runner::{Counters, Outcome, allowed_mib_per_s};
use crate::why::{self, Phases};
use serde_json::{Map, Value};

/// Row of a sweep: names and values of its columns, in the order in which they are written.
pub type Row = Vec<(String, Value)>;

/// Format in which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, an object per line.
    Json,
    /// CSV [RFC 4180], with a line of names.
    Csv,
    /// A table in Markdown.
    Markdown,
}

impl Format {
    /// Returns the lines before the rows, which show the column names `names`; empty for JSON.
    pub fn head(self, names: &[String]) -> String {
        match self {
            Format::Json => String::new(),
            Format::Csv => names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",") + "\n",
            Format::Markdown => format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len())),
        }
    }

    /// Returns a row as a line of text.
    pub fn line(self, row: &Row) -> String {
        match self {
            Format::Json => Value::Object(row.iter().cloned().collect::<Map<_, _>>()).to_string() + "\n",
            Format::Csv => csv(row) + "\n",
            Format::Markdown => {
                let cells = row.iter().map(|(_, value)| field(value).replace('|', "\\|"));
                format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
            }
        }
    }

    /// Returns the beginning of a written line whose first columns have the values in `row`. A
    /// continued sweep compares the lines of its file with it.
    pub fn begin(self, row: &Row) -> String {
        match self {
            Format::Json => {
                let mut text = self.line(row);
                text.truncate(text.len() - 2);
                text + ","
            }
            Format::Csv => csv(row) + ",",
            Format::Markdown => self.line(row).trim_end_matches("|\n").to_owned(),
        }
    }
}

fn csv(row: &Row) -> String {
    row.iter().map(|(_, value)| quoted(&field(value))).collect::<Vec<_>>().join(",")
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Converts a value of an axis into JSON: a number if the text is a number, otherwise a text.
pub fn value(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            text.parse::<f64>().map_or_else(|_| text.into(), Value::from)
        }
        Err(_) => text.into(),
    }
}

/// Columns about one direction of a run; their times are from submission to completion.
const OF_DIRECTION: [&str; 11] = [
    "direction",
    "ios",
    "mib_s",
    "iops",
    "lat_mean_us",
    "lat_p50_us",
    "lat_p95_us",
    "lat_p99_us",
    "lat_p99.9_us",
    "lat_max_us",
    "starves",
];
/// Columns about the whole run, equal in each row of the run. They are followed by columns with the
/// share of the time that each phase of [`Phases`] takes, such as `wire, data`.
const OF_RUN: [&str; 15] = [
    "run_s",
    "run_mib_s",
    "limit_mib_s",
    "limit_share",
    "interrupts_per_io",
    "context_switches_per_io",
    "requests_per_transfer",
    "bus_share",
    "cpu_idle_share",
    "failed",
    "flushes",
    "card_flushes",
    "sync_p50_us",
    "sync_p99_us",
    "sync_max_us",
];

/// Returns the names of all measured columns, in the order of the rows.
pub fn measures() -> Vec<String> {
    let phases = Phases::default().named();
    let phases = phases.map(|(name, _)| format!("{}_share", name.replace(", ", "_").replace(' ', "_")));
    let own = OF_DIRECTION.iter().chain(&OF_RUN).map(|name| (*name).to_owned());
    own.chain(phases.map(|name| name.to_lowercase())).chain(["error".to_owned()]).collect()
}

/// Returns the names of the measured columns in two lists: columns about one direction, and columns
/// about the whole run.
pub fn figures() -> (Vec<String>, Vec<String>) {
    let all = measures();
    let (of_direction, of_run) = all.split_at(OF_DIRECTION.len());
    let of_run = of_run.iter().filter(|name| *name != "error").cloned().collect();
    (of_direction.iter().skip(1).cloned().collect(), of_run)
}

/// Returns the statistics with the requests of only one program of a trace, named by its number.
/// The program's rates are its bytes over the time of the whole run.
fn of_program(mut all: Stats, number: u16) -> Stats {
    let program = all.programs.get(&number).cloned().unwrap_or_default();
    let ProgramStats { dirs: [reads, writes], discards, flushes } = *program;
    all.sync = flushes.clat;
    let [read, write] = &mut all.dirs;
    for (stats, taken) in [(read, reads), (write, writes), (&mut all.discards, discards)] {
        let total_ios = taken.clat.ns.samples;
        let (io_bytes, lat, clat) = (taken.bytes, taken.clat.clone(), taken.clat);
        let (runtime_ns, active) = (stats.runtime_ns, std::mem::take(&mut stats.active));
        *stats = DirStats { io_bytes, total_ios, lat, clat, runtime_ns, active, ..DirStats::default() };
    }
    all
}

/// Returns the measured columns of a point, one row for each direction (read, write, trim) that had
/// I/Os. If there were none, there is one row with the direction `none`. `limit` has the counters
/// of the same job at its physical limit; `None`: the job cannot run at the limit.
pub fn measured(outcome: &Outcome, limit: Option<&Counters>) -> Vec<Row> {
    measured_of(outcome, limit, None)
}

/// Returns the same columns as [`measured`]. With a number `program`, the columns about requests
/// count only the requests of this program of a trace; the others are about the whole run.
pub fn measured_of(outcome: &Outcome, limit: Option<&Counters>, program: Option<u16>) -> Vec<Row> {
    let (all, c) = (outcome.group(), &outcome.counters);
    let all = match program {
        Some(number) => of_program(all, number),
        None => all,
    };
    let per_io = |n: u64| n as f64 / c.ios.max(1) as f64;
    let rate = why::mib_per_s(c);
    let limit_mib_s = limit.map(|limit| allowed_mib_per_s(limit, c));
    let failed = c.failed + outcome.verify_errors.len() as u64;
    let sync = Some(&all.sync).filter(|sync| sync.ns.samples > 0);
    let sync_us = |at| {
        let found = sync.and_then(|sync| sync.histogram.percentiles(&[at]).first().copied());
        found.zip(sync).map(|(ns, sync)| ns.min(sync.ns.max) as f64 / 1e3).into()
    };
    let mut of_run: Vec<Value> = vec![
        (c.elapsed_ns as f64 / 1e9).into(),
        rate.into(),
        limit_mib_s.into(),
        limit_mib_s.map(|limit| rate / limit.max(f64::MIN_POSITIVE)).into(),
        per_io(c.cpu.interrupts).into(),
        per_io(c.cpu.switches).into(),
        why::requests_per_transfer(c).into(),
        c.bus_share().into(),
        c.idle_share().into(),
        failed.into(),
        c.flushes.into(),
        c.work.flushes.count.into(),
        sync_us(50.0),
        sync_us(99.0),
        sync.map(|sync| sync.ns.max as f64 / 1e3).into(),
    ];
    let elapsed_ns = c.elapsed_ns.max(1) as f64;
    of_run.extend(Phases::of(c).named().map(|(_, ns)| Value::from(ns as f64 / elapsed_ns)));
    of_run.push(Value::Null);
    let directions = [("read", &all.dirs[0]), ("write", &all.dirs[1]), ("trim", &all.discards)];
    let moved: Vec<_> = directions.iter().filter(|(_, stats)| stats.total_ios > 0).collect();
    let row = |name: &str, stats: &DirStats| {
        let values = of_direction(name, stats).into_iter().chain(of_run.iter().cloned());
        measures().into_iter().zip(values).collect()
    };
    match moved.is_empty() {
        true => vec![row("none", &DirStats::default())],
        false => moved.into_iter().map(|(name, stats)| row(name, stats)).collect(),
    }
}

fn of_direction(name: &str, stats: &DirStats) -> Vec<Value> {
    let latency = &stats.lat;
    // Over the time in which any job moved data in this direction. Where nothing moved, since each
    // I/O failed, there is no such time and no rate.
    let seconds = stats.active.ns() as f64 / 1e9;
    let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let percentiles = latency.histogram.percentiles(&[50.0, 95.0, 99.0, 99.9]);
    // A percentile is the middle of a bucket, which may be above the longest time.
    let us = |ns: Option<&u64>| ns.map(|ns| (*ns).min(latency.ns.max) as f64 / 1e3).into();
    vec![
        name.into(),
        stats.total_ios.into(),
        rate(stats.io_bytes as f64 / f64::from(1 << 20)).into(),
        // An I/O that failed has no latency, and is none of the rate.
        rate(latency.ns.samples as f64).into(),
        (latency.ns.mean / 1e3).into(),
        us(percentiles.first()),
        us(percentiles.get(1)),
        us(percentiles.get(2)),
        us(percentiles.get(3)),
        (latency.ns.max as f64 / 1e3).into(),
        u64::from(why::starves(stats).is_some()).into(),
    ]
}

/// Returns the single row of a point of a sweep (one combination of values) that cannot run, with
/// the reason.
pub fn refused(why: &str) -> Vec<Row> {
    let value = |name: &str| if name == "error" { why.into() } else { Value::Null };
    vec![measures().into_iter().map(|name| (name.clone(), value(&name))).collect()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_begins_as_its_first_values_say() {
        let row: Row = vec![("point".to_owned(), 3.into()), ("set".to_owned(), "a=\"1,2\"".into())];
        for format in [Format::Json, Format::Csv] {
            let mut whole = row.clone();
            whole.push(("ios".to_owned(), 1.5.into()));
            assert!(format.line(&whole).starts_with(&format.begin(&row)));
        }
        assert_eq!(Format::Csv.line(&row), "3,\"a=\"\"1,2\"\"\"\n");
    }

    #[test]
    fn numbers_are_numbers() {
        let texts = ["4k", "8", "0.5", "-3", "inf", "mmcq"];
        let values = texts.map(|text| value(text).to_string());
        assert_eq!(values, ["\"4k\"", "8", "0.5", "-3", "\"inf\"", "\"mmcq\""]);
    }
}
