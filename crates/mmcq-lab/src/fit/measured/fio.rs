//! Reads fio's JSON: each job with its options and figures.
//!
//! fio leaves flags such as `stonewall` out of the `job options`. So `groupid` tells what ran
//! together: a job with another `groupid` began after the jobs before it had ended.
//!
//! With `group_reporting`, an entry has the sum of all sections of a group, and the options of the
//! first. Its figures are of use only if the other sections are known: mmcq's own reports have the
//! whole job file.

use super::{Figure, Load, Wanted, What, in_words, job, size};
use crate::fio::job::Verify;
use crate::fio::{self, Dir, Job};
use crate::platform::JOB;
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
        let group_of_jobs = grouped(name, &value, entry.get("groupid"))?;
        match loads.last_mut() {
            _ if !group_of_jobs.is_empty() => loads.push(Load {
                jobs: group_of_jobs.clone(),
                trace: Arc::default(),
                changes: Vec::new(),
                setting: None,
                seed: None,
                figures: Vec::new(),
            }),
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
        let (at, end) = (load.jobs.len() - 1, load.jobs.len());
        if group_of_jobs.is_empty() {
            of_this_job(entry, &job).map_err(|what| fault(&what))?;
            load.figures.extend(figures(entry, &job, &place, (at, end), wanted)?);
            continue;
        }
        let mut all = figures(entry, &job, &place, (0, end), wanted)?;
        for figure in &mut all {
            let blocks = group_of_jobs.iter().map(|job| job.bs[figure.dir.index()].max);
            figure.block_bytes = blocks.max().unwrap_or(figure.block_bytes);
            figure.name = format!("{} jobs together ({})", group_of_jobs.len(), key(figure.dir));
        }
        load.figures.extend(all);
    }
    Ok(loads)
}

/// Returns the jobs of the report group `group` if `report` is an entry of mmcq's own fio report
/// that sums up the whole group (`group_reporting`). Empty: the entry is of one job, or the report
/// has no job file. `name` names the report in errors.
fn grouped(name: &str, report: &Value, group: Option<&Value>) -> Result<Vec<Job>, String> {
    let Some(lines) = report["mmcq"]["job_file"].as_array() else { return Ok(Vec::new()) };
    let lines = lines.iter().filter_map(Value::as_str);
    let mut file = fio::parse_lines(name, lines, &fio::System).map_err(|error| error.to_string())?;
    for change in report["mmcq"]["set"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(change) = change.strip_prefix(JOB) {
            file.set(change, change).map_err(|error| error.to_string())?;
        }
    }
    let group = group.and_then(Value::as_u64).unwrap_or(0);
    let workers = fio::expand(&file.jobs).map_err(|error| error.to_string())?;
    let mut first = workers.iter().filter(|worker| worker.subjob == 0 && u64::from(worker.group) == group);
    let jobs: Vec<Job> = first.by_ref().map(|worker| Job::clone(&worker.job)).collect();
    let is_sum = jobs.len() > 1 && jobs.iter().all(|job| job.group_reporting);
    Ok(if is_sum { jobs } else { Vec::new() })
}

/// Largest share by which a job's mean request size may be below the smallest block size, whatever
/// the number of requests: 2 %. A job with few requests may be further below, since the last
/// request of a pass may be short.
const SHORT: f64 = 0.02;

/// Checks that the figures of a JSON entry fit the options in the entry. They may not fit if the
/// entry sums up several sections, since it then has only the options of the first section.
fn of_this_job(entry: &Value, job: &Job) -> Result<(), String> {
    // A job that verifies reads what it wrote.
    if job.verify != Verify::Off {
        return Ok(());
    }
    for dir in Dir::ALL {
        let of = |key_of: &str| entry.get(key(dir)).and_then(|of| of.get(key_of)?.as_f64()).unwrap_or(0.0);
        let (bytes, ios) = (of("io_bytes"), of("total_ios"));
        if bytes <= 0.0 || ios <= 0.0 {
            continue;
        }
        let moves = if dir == Dir::Read { job.rw.read } else { job.rw.write };
        let (mean, bs) = (bytes / ios, &job.bs[dir.index()]);
        // The last request of each pass over a file may be short.
        let passes = f64::from(job.numjobs) * f64::from(job.nrfiles) * f64::from(job.loops);
        let least = bs.min as f64 * (1.0 - SHORT.max(passes / ios));
        let most = bs.max as f64;
        if !moves || !(least..=most).contains(&mean) {
            let what = if moves { format!("{mean:.0} bytes per request") } else { "requests".to_owned() };
            return Err(format!(
                "{what} in direction {}, which are not of rw={} and bs={}: with group_reporting, an entry has \
                 several sections and the options of the first; leave group_reporting out",
                key(dir),
                job.rw.word(),
                size(bs.max)
            ));
        }
    }
    Ok(())
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
