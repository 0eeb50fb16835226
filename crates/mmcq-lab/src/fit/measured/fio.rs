//! Reads fio's JSON: each job with its options and figures.
//!
//! fio leaves flags such as `stonewall` out of the `job options`. So `groupid` tells what ran
//! together: a job with another `groupid` began after the jobs before it had ended.

use super::{Figure, Load, Wanted, What, in_words, job};
use crate::fio::{Dir, Job};
use serde_json::{Map, Value};
use std::sync::Arc;

const MIB: f64 = (1 << 20) as f64;

/// Returns the part of the text that begins with the JSON, since fio may write notes before it;
/// `None`: there is no JSON.
fn body(text: &str) -> Option<&str> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with('{') {
            return Some(&text[at..]);
        }
        at += line.len();
    }
    None
}

/// Returns whether the text is fio's JSON. (In rows of a sweep, each line is a whole object.)
pub(super) fn is_report(text: &str) -> bool {
    body(text).is_some_and(|body| {
        let first = body.lines().next().unwrap_or_default();
        serde_json::from_str::<Value>(first).is_err() || first.contains("\"jobs\"")
    })
}

pub(super) fn read(name: &str, text: &str, wanted: Wanted<'_>) -> Result<Vec<Load>, String> {
    let fault = |what: String| format!("{name}: {what}");
    let body = body(text).unwrap_or_default();
    // Text after the first JSON value is ignored, since fio may write notes there, too.
    let value = serde_json::Deserializer::from_str(body).into_iter::<Value>().next();
    let value = value.unwrap_or(Ok(Value::Null)).map_err(|error| fault(format!("not JSON: {error}")))?;
    let none = Map::new();
    let global = value.get("global options").and_then(Value::as_object).unwrap_or(&none);
    let jobs = value.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or_else(|| fault("no `jobs`; expected fio's JSON".to_owned()))?;
    let mut loads: Vec<Load> = Vec::new();
    let mut before: Option<(String, Map<String, Value>)> = None;
    let mut group = None;
    for entry in jobs {
        let called = entry.get("jobname").and_then(Value::as_str).unwrap_or("job");
        let place = format!("{name}: job {called}");
        let fault = |what: &str| format!("{place}: {what}");
        if let Some(error) = entry.get("error").and_then(Value::as_u64).filter(|error| *error != 0) {
            return Err(fault(&format!("it failed on the board with error {error}; leave it out")));
        }
        let own = entry.get("job options").and_then(Value::as_object);
        let own = own.ok_or_else(|| fault("no `job options`; expected the JSON of fio 3"))?;
        let same = before.as_ref().is_some_and(|(known, options)| known == called && options == own);
        before = Some((called.to_owned(), own.clone()));
        let given = global.iter().chain(own).filter(|(option, _)| *option != "name");
        let given = given.map(|(option, value)| (option.as_str(), value.as_str().filter(|v| !v.is_empty())));
        let job = job(called, &place, given)?;
        let copy = same && job.numjobs > 1 && !job.group_reporting;
        match loads.last_mut() {
            Some(load) if copy => {
                // These are copies of one job, so their rates are added.
                for figure in &mut load.figures {
                    if figure.what == What::Rate && figure.sections.1 == load.jobs.len() {
                        figure.measured += rate(entry, figure.dir).unwrap_or(0.0);
                    }
                }
                continue;
            }
            Some(load) if group == entry.get("groupid") => load.jobs.push(job.clone()),
            _ => loads.push(Load {
                jobs: vec![job.clone()],
                trace: Arc::default(),
                changes: Vec::new(),
                setting: None,
                seed: None,
                figures: Vec::new(),
            }),
        }
        group = entry.get("groupid");
        let Some(load) = loads.last_mut() else { continue };
        let at = load.jobs.len() - 1;
        load.figures.extend(figures(entry, &job, &place, (at, at + 1), wanted)?);
    }
    Ok(loads)
}

/// Returns the rate in MiB/s of one direction of a job's JSON entry; `None` if the job transferred
/// nothing in this direction.
fn rate(entry: &Value, dir: Dir) -> Option<f64> {
    let of = entry.get(key(dir))?;
    let number = |key: &str| of.get(key).and_then(Value::as_f64);
    let bytes = number("bw_bytes").or_else(|| number("bw").map(|kib| kib * 1024.0));
    bytes.filter(|bytes| *bytes > 0.0).map(|bytes| bytes / MIB)
}

fn key(dir: Dir) -> &'static str {
    match dir {
        Dir::Read => "read",
        Dir::Write => "write",
    }
}

fn figures(
    entry: &Value,
    job: &Job,
    place: &str,
    sections: (usize, usize),
    wanted: Wanted<'_>,
) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for dir in Dir::ALL {
        let Some(rate) = rate(entry, dir) else { continue };
        let figure = |what, measured| Figure {
            place: place.to_owned(),
            name: in_words(job, dir),
            what,
            dir,
            sections,
            block_bytes: job.bs[dir.index()].max,
            measured,
        };
        figures.push(figure(What::Rate, rate));
        for percent in wanted.percentiles {
            let list = entry.get(key(dir)).and_then(|of| of.get("clat_ns")?.get("percentile"));
            let value = list.and_then(|list| list.get(format!("{percent:.6}"))).and_then(Value::as_f64);
            let value = value.filter(|ns| *ns > 0.0).ok_or_else(|| {
                format!(
                    "{place}: no percentile {percent} of {}.clat_ns; expected one of fio's list",
                    key(dir)
                )
            })?;
            figures.push(figure(What::Percentile(*percent), value / 1e3));
        }
    }
    match figures.is_empty() {
        true => Err(format!("{place}: neither read nor write moved; expected a rate")),
        false => Ok(figures),
    }
}
