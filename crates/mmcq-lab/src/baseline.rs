//! Uses the report of an earlier run as the budget for a new run of the same load. Only figures for
//! which a lower or a higher value is known to be better are compared, such as rates, latencies and
//! counters per request.

use crate::budgets::{Kept, Side};
use crate::compare;
use crate::finished;
use crate::fio::{self, report};
use crate::runner::{self, RunError};
use crate::scene::Scene;
use serde_json::Value;
use std::fmt::Write as _;

/// A figure of a report, and whether a lower or a higher value of it is worse.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    /// Name of the part of the report that the figure describes: `run`, or a direction of a job.
    of: String,
    name: String,
    /// Whether the figure must not become lower, or must not become higher.
    side: Side,
    value: f64,
}

/// Names of the counters of a report that the baseline limits per request: a smaller number per
/// request is better.
const OF_EACH: [&str; 6] =
    ["transfers", "commands", "interrupts", "context_switches", "register_reads", "register_writes"];

/// Returns those figures of a report that can be compared with a budget.
fn figures(report: &Value) -> Vec<Figure> {
    let mut all = Vec::new();
    let counted = |name: &str| report["mmcq"]["counters"][name].as_f64();
    let mut add = |of: &str, name: &str, side: Side, value: Option<f64>| {
        let (of, name) = (of.to_owned(), name.to_owned());
        all.extend(value.map(|value| Figure { of, name, side, value }));
    };
    let seconds = counted("elapsed_ns").map(|ns| ns.max(1.0) / 1e9);
    let rate = counted("bytes").zip(seconds).map(|(bytes, seconds)| bytes / f64::from(1 << 20) / seconds);
    add("run", "MiB/s", Side::Least, rate);
    for name in OF_EACH {
        let each = counted(name).zip(counted("ios")).map(|(count, ios)| count / ios.max(1.0));
        add("run", &format!("{} for each request", name.replace('_', " ")), Side::Most, each);
    }
    add("run", "failed", Side::Most, counted("failed"));
    for (at, job) in (1..).zip(report["jobs"].as_array().into_iter().flatten()) {
        let job_name = format!("{} ({at})", job["jobname"].as_str().unwrap_or("-"));
        add(&job_name, "error", Side::Most, job["error"].as_f64().map(|error| error.abs()));
        for direction in ["read", "write", "trim", "sync"] {
            let side = &job[direction];
            if side["total_ios"].as_f64().unwrap_or_default() == 0.0 {
                continue;
            }
            let of = format!("{job_name}, {direction}");
            add(&of, "IOPS", Side::Least, side["iops"].as_f64());
            add(&of, "MiB/s", Side::Least, side["bw_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20)));
            let times = if direction == "sync" { &side["lat_ns"] } else { &side["clat_ns"] };
            let us = |ns: &Value| ns.as_f64().map(|ns| ns / 1e3);
            for part in ["mean", "max"] {
                add(&of, &format!("latency, {part} (us)"), Side::Most, us(&times[part]));
            }
            for (percent, ns) in times["percentile"].as_object().into_iter().flatten() {
                let shown = percent.trim_end_matches('0').trim_end_matches('.');
                add(&of, &format!("latency, {shown} % (us)"), Side::Most, us(ns));
            }
        }
    }
    all
}

/// Returns a line for each difference in what ran: board, card, setting, seed, changes and options of
/// the jobs. Figures of different runs say nothing about a change of the code.
pub fn differences(old: &Value, new: &Value) -> Vec<String> {
    let mut all: Vec<String> = compare::compare(old, new)
        .origins
        .iter()
        .map(|[name, was, is]| format!("{name}: {is}, and the baseline has {was}"))
        .collect();
    let lines = |report: &Value| -> Vec<String> {
        let lines = report["mmcq"]["job_file"].as_array().into_iter().flatten();
        lines.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (was, is) = (lines(old), lines(new));
    // Options that the comparison above names already are not repeated.
    let is_told = |line: &str| {
        line.split_once('=')
            .is_some_and(|(name, _)| all.iter().any(|told| told.starts_with(&format!("{name}: "))))
    };
    let missing = |line: &&String, other: &[String]| !other.contains(line) && !is_told(line);
    let gone = was
        .iter()
        .filter(|line| missing(line, &is))
        .map(|line| format!("jobs: the baseline alone has {line}"));
    let came =
        is.iter().filter(|line| missing(line, &was)).map(|line| format!("jobs: the baseline lacks {line}"));
    let more: Vec<String> = gone.chain(came).collect();
    all.extend(more);
    all
}

/// Compares each figure of the old report with the new one. A figure passes if it is worse by at
/// most `within_percent`.
///
/// # Errors
/// A job of the old report failed, or the new report lacks a figure; the error is one line.
pub fn check(old: &Value, new: &Value, within_percent: f64) -> Result<Vec<Kept>, String> {
    let (old, new) = (figures(old), figures(new));
    let fails = |figure: &&Figure| ["failed", "error"].contains(&figure.name.as_str()) && figure.value > 0.0;
    if let Some(Figure { of, name, value, .. }) = old.iter().find(fails) {
        return Err(format!("{of}: {name} {value}; expected a baseline without failures"));
    }
    let found = |figure: &Figure| new.iter().find(|f| f.of == figure.of && f.name == figure.name);
    let missing: Vec<&Figure> = old.iter().filter(|figure| found(figure).is_none()).collect();
    if let Some(first) = missing.first() {
        let more = match missing.len() {
            1 => String::new(),
            count => format!(", and {} further figures", count - 1),
        };
        return Err(format!("the new run has nothing of {}: {}{more}", first.of, first.name));
    }
    let kept = |(figure, measured): (&Figure, &Figure)| {
        let (budget, measured) = (figure.value, measured.value);
        let more = match figure.side {
            Side::Least => measured - budget,
            Side::Most => budget - measured,
        };
        Kept {
            run: figure.of.clone(),
            figure: figure.name.clone(),
            side: figure.side,
            budget,
            measured,
            room_percent: (budget != 0.0).then(|| 100.0 * more / budget.abs()),
            kept: more >= -budget.abs() * within_percent / 100.0,
        }
    };
    Ok(old.iter().filter_map(|figure| Some((figure, found(figure)?))).map(kept).collect())
}

/// Returns one line for each figure that is worse than in the old report by more than
/// `within_percent`. A last line says how many figures are worse.
pub fn text(all: &[Kept], within_percent: f64) -> String {
    let mut out = String::new();
    let worse: Vec<&Kept> = all.iter().filter(|kept| !kept.kept).collect();
    for kept in &worse {
        let (was, is) = (number(kept.budget), number(kept.measured));
        let by = kept.room_percent.map_or(String::new(), |room| format!(", {:.2} % worse", -room));
        let _ = writeln!(out, "{}: {}: {is}, was {was}{by}", kept.run, kept.figure);
    }
    let _ = match worse.len() {
        0 => writeln!(out, "none of {} figures is worse by more than {within_percent} %", all.len()),
        count => {
            writeln!(out, "{count} of {} figures are worse by more than {within_percent} %", all.len())
        }
    };
    out
}

fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reason why a report's load cannot be run again.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// The report lacks something about the load, or has something that cannot be run again; the
    /// text says what.
    #[error("{0}")]
    Report(String),
    /// The new run itself failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs the load of the report `old` again, and returns the new report. `name` names the old report
/// in errors.
///
/// # Errors
/// The report is of a replay, or its load does not run.
pub fn again(name: &str, old: &Value) -> Result<Value, AgainError> {
    let wrong = |why: String| AgainError::Report(why);
    if old["mmcq"]["replay"].is_object() {
        let why = "of a replay, whose trace it has not; expected a report of now beside it: check NEW.json";
        return Err(wrong(why.to_owned()));
    }
    let scene = scene(old).map_err(wrong)?;
    let lines = old["mmcq"]["job_file"].as_array().ok_or_else(|| {
        let why = "an older report, without its job file; expected a report of now beside it: check NEW.json";
        wrong(why.to_owned())
    })?;
    let file = fio::parse_lines(name, lines.iter().filter_map(Value::as_str), &fio::System);
    let file = file.map_err(|error| wrong(format!("its jobs: {error}")))?;
    let loaded = scene.load(&file, &scene.set).map_err(|error| wrong(error.to_string()))?;
    let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ())?;
    let origin = finished::origin(&scene, &loaded.platform, &outcome);
    let text = report::json::json(&finished::report(loaded, outcome, origin), false);
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// Returns what the report's run used: board, card, setting (stack), changes of values, and seed.
fn scene(report: &Value) -> Result<Scene, String> {
    let own = &report["mmcq"];
    let text = |name: &str| own[name].as_str().map(str::to_owned).ok_or_else(|| format!("it has no {name}"));
    let set = own["set"].as_array().into_iter().flatten();
    Ok(Scene {
        platform: text("platform")?,
        card: Some(text("card")?),
        setting: text("setting")?.parse().map_err(|why| format!("setting: {why}"))?,
        set: set.filter_map(|change| change.as_str().map(str::to_owned)).collect(),
        seed: own["seed"].as_u64().ok_or("it has no seed")?,
    })
}
