//! Writes the report as JSON with fio's keys, order and spacing. `json+` also has every histogram
//! bucket.

use super::replayed::{Fact, PERCENTILES, Program};
use super::{Entry, GroupDir, Origin, Report, cpu_percent, date, rate, share_of_group, shares};
use crate::fio::hist;
use crate::fio::job::{Dir, Job};
use crate::fio::options::reported;
use crate::fio::stats::{DirStats, Latency, Running, Stats};
use std::fmt::Write;

/// A JSON value. Objects keep their order and may repeat a key, as fio's global options do.
#[derive(Clone, Debug)]
enum Value {
    Int(u64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

type Fields = Vec<(String, Value)>;

fn put(fields: &mut Fields, key: &str, value: Value) {
    fields.push((key.to_string(), value));
}

/// Returns the report as JSON text; with `plus` also with the histograms.
pub fn json(report: &Report, plus: bool) -> String {
    let context = &report.context;
    let mut top = Fields::new();
    put(&mut top, "fio version", Value::Text(context.version.clone()));
    put(&mut top, "timestamp", Value::Int(context.timestamp_ms / 1000));
    put(&mut top, "timestamp_ms", Value::Int(context.timestamp_ms));
    put(&mut top, "time", Value::Text(date(context.timestamp_ms)));
    if !context.global_options.is_empty() {
        put(&mut top, "global options", options(&context.global_options));
    }
    let jobs = report.entries.iter().map(|entry| job_object(report, entry, plus)).collect();
    put(&mut top, "jobs", Value::List(jobs));
    if !report.disks.is_empty() {
        put(&mut top, "disk_util", disks(report));
    }
    if let Some(origin) = &context.origin {
        put(&mut top, "mmcq", of_origin(origin));
    }
    let mut out = String::new();
    write_value(&mut out, &Value::Object(top), 0);
    out.push('\n');
    out
}

fn options(list: &[(String, String)]) -> Value {
    let field = |(name, value): &(String, String)| (reported(name).to_owned(), Value::Text(value.clone()));
    Value::Object(list.iter().map(field).collect())
}

fn of_origin(origin: &Origin) -> Value {
    let text = |text: &String| Value::Text(text.clone());
    let mut o = Fields::new();
    put(&mut o, "version", text(&origin.version));
    put(&mut o, "platform", text(&origin.platform));
    put(&mut o, "card", text(&origin.card));
    put(&mut o, "setting", text(&origin.setting));
    put(&mut o, "scheduler", text(&origin.scheduler));
    put(&mut o, "seed", Value::Int(origin.seed));
    put(&mut o, "set", Value::List(origin.changes.iter().map(text).collect()));
    if !origin.job_file.is_empty() {
        put(&mut o, "job_file", Value::List(origin.job_file.iter().map(text).collect()));
    }
    let counted = |(name, value): &(String, f64)| match value.fract() == 0.0 && (0.0..9e15).contains(value) {
        true => (name.clone(), Value::Int(*value as u64)),
        false => (name.clone(), Value::Float(*value)),
    };
    put(&mut o, "counters", Value::Object(origin.counters.iter().map(counted).collect()));
    let phases = origin.phases.iter().map(|(name, ns)| (name.clone(), Value::Int(*ns)));
    put(&mut o, "phases_ns", Value::Object(phases.collect()));
    if !origin.replay.facts.is_empty() {
        let facts = origin.replay.facts.iter().map(|(name, fact)| (name.clone(), of_fact(fact)));
        put(&mut o, "replay", Value::Object(facts.collect()));
    }
    if !origin.programs.is_empty() {
        put(&mut o, "programs", Value::List(origin.programs.iter().map(of_program).collect()));
    }
    Value::Object(o)
}

fn of_fact(fact: &Fact) -> Value {
    match fact {
        Fact::Count(count) => Value::Int(*count),
        Fact::Number(number) => Value::Float(*number),
        Fact::Word(word) => Value::Text(word.clone()),
    }
}

/// Returns a program of a trace: its requests by kind, with the times from submission to completion
/// in microseconds.
fn of_program(program: &Program) -> Value {
    let mut o = Fields::new();
    put(&mut o, "name", Value::Text(program.name.clone()));
    for (kind, figures) in program.figures() {
        let mut times = Fields::new();
        put(&mut times, "mean", Value::Float(figures.mean_us));
        for ((_, name), us) in PERCENTILES.iter().zip(figures.percentiles_us) {
            put(&mut times, name, Value::Float(us));
        }
        put(&mut times, "max", Value::Float(figures.max_us));
        let mut one = Fields::new();
        put(&mut one, "ios", Value::Int(figures.ios));
        put(&mut one, "bytes", Value::Int(figures.bytes));
        put(&mut one, "clat_us", Value::Object(times));
        put(&mut o, kind, Value::Object(one));
    }
    Value::Object(o)
}

fn disks(report: &Report) -> Value {
    let one = |disk: &crate::fio::stats::DiskUtil| {
        let mut o = Fields::new();
        put(&mut o, "name", Value::Text(disk.name.clone()));
        for (key, [read, write]) in [("ios", disk.ios), ("merges", disk.merges), ("ticks", disk.ticks_ms)] {
            put(&mut o, &format!("read_{key}"), Value::Int(read));
            put(&mut o, &format!("write_{key}"), Value::Int(write));
        }
        put(&mut o, "in_queue", Value::Int(disk.in_queue_ms));
        put(&mut o, "util", Value::Float(disk.util_percent));
        Value::Object(o)
    };
    Value::List(report.disks.iter().map(one).collect())
}

fn job_object(report: &Report, entry: &Entry, plus: bool) -> Value {
    let (job, stats) = (&entry.job, &entry.stats);
    let mut o = Fields::new();
    put(&mut o, "jobname", Value::Text(job.name.clone()));
    put(&mut o, "groupid", Value::Int(entry.group.into()));
    put(&mut o, "error", Value::Int(stats.error.as_ref().map_or(0, |e| e.errno.into())));
    // fio's value for "no estimate", since the run is over.
    put(&mut o, "eta", Value::Int(0x7fff_ffff));
    put(&mut o, "elapsed", Value::Int(report.context.elapsed_ns.div_ceil(1_000_000_000)));
    put(&mut o, "job options", options(&job.given));
    for (dir, key) in Dir::ALL.into_iter().zip(["read", "write"]) {
        let group = report.group(entry.group, Some(dir));
        put(&mut o, key, direction(job, &stats.dirs[dir.index()], &group, plus));
    }
    put(&mut o, "trim", direction(job, &stats.discards, &report.group(entry.group, None), plus));
    let mut sync = Fields::new();
    put(&mut sync, "total_ios", Value::Int(stats.sync.ns.samples));
    let shown = job.clat_percentiles || job.lat_percentiles;
    put(&mut sync, "lat_ns", latency(job, &stats.sync, shown, plus));
    put(&mut o, "sync", Value::Object(sync));
    let (user, system) = cpu_percent(stats);
    put(&mut o, "job_runtime", Value::Int((stats.job_runtime_ns + 500_000) / 1_000_000));
    put(&mut o, "usr_cpu", Value::Float(user));
    put(&mut o, "sys_cpu", Value::Float(system));
    put(&mut o, "ctx", Value::Int(stats.cpu.context_switches));
    put(&mut o, "majf", Value::Int(stats.cpu.major_faults));
    put(&mut o, "minf", Value::Int(stats.cpu.minor_faults));
    distributions(&mut o, stats);
    put(&mut o, "latency_depth", Value::Int(job.iodepth.into()));
    put(&mut o, "latency_target", Value::Int(0));
    put(&mut o, "latency_percentile", Value::Float(100.0));
    put(&mut o, "latency_window", Value::Int(0));
    if let Some(text) = &job.description {
        put(&mut o, "desc", Value::Text(text.clone()));
    }
    Value::Object(o)
}

fn distributions(o: &mut Fields, stats: &Stats) {
    const DEPTHS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
    const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];
    const STEPS: [&str; 12] =
        ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];
    let total = stats.transfers();
    let mut add = |key: &str, names: &[&str], shares: &[f64]| {
        let fields = names.iter().zip(shares).map(|(n, s)| (n.to_string(), Value::Float(*s))).collect();
        put(o, key, Value::Object(fields));
    };
    add("iodepth_level", &DEPTHS, &shares(&stats.depth, total, 0.1));
    add("iodepth_submit", &BATCHES, &shares(&stats.submit, stats.submits, 0.1));
    add("iodepth_complete", &BATCHES, &shares(&stats.complete, stats.completes, 0.1));
    add("latency_ns", &STEPS[..10], &shares(&stats.lat_ns, total, 0.01));
    add("latency_us", &STEPS[..10], &shares(&stats.lat_us, total, 0.01));
    add("latency_ms", &STEPS, &shares(&stats.lat_ms, total, 0.01));
}

fn direction(job: &Job, d: &DirStats, group: &GroupDir, plus: bool) -> Value {
    let ms = d.runtime_ms();
    let bw = rate(d.io_bytes, ms);
    let iops = if ms == 0 { 0.0 } else { d.total_ios as f64 * 1000.0 / ms as f64 };
    let mut o = Fields::new();
    put(&mut o, "io_bytes", Value::Int(d.io_bytes));
    put(&mut o, "io_kbytes", Value::Int(d.io_bytes / 1024));
    put(&mut o, "bw_bytes", Value::Int(bw));
    put(&mut o, "bw", Value::Int(bw / 1024));
    put(&mut o, "iops", Value::Float(iops));
    put(&mut o, "runtime", Value::Int(ms));
    put(&mut o, "total_ios", Value::Int(d.total_ios));
    put(&mut o, "short_ios", Value::Int(d.short_ios));
    put(&mut o, "drop_ios", Value::Int(d.drop_ios));
    put(&mut o, "slat_ns", latency(job, &d.slat, job.slat_percentiles, plus));
    put(&mut o, "clat_ns", latency(job, &d.clat, job.clat_percentiles, plus));
    put(&mut o, "lat_ns", latency(job, &d.lat, job.lat_percentiles, plus));
    let share = if d.bw_kib.samples == 0 { 0.0 } else { share_of_group(&d.bw_kib, group) };
    put(&mut o, "bw_min", Value::Int(d.bw_kib.min));
    put(&mut o, "bw_max", Value::Int(d.bw_kib.max));
    put(&mut o, "bw_agg", Value::Float(share));
    put(&mut o, "bw_mean", Value::Float(d.bw_kib.mean));
    put(&mut o, "bw_dev", Value::Float(d.bw_kib.stddev()));
    put(&mut o, "bw_samples", Value::Int(d.bw_kib.samples));
    put(&mut o, "iops_min", Value::Int(d.iops.min));
    put(&mut o, "iops_max", Value::Int(d.iops.max));
    put(&mut o, "iops_mean", Value::Float(d.iops.mean));
    put(&mut o, "iops_stddev", Value::Float(d.iops.stddev()));
    put(&mut o, "iops_samples", Value::Int(d.iops.samples));
    Value::Object(o)
}

fn latency(job: &Job, latency: &Latency, percentiles: bool, plus: bool) -> Value {
    let series: &Running = &latency.ns;
    let mut o = Fields::new();
    put(&mut o, "min", Value::Int(series.min));
    put(&mut o, "max", Value::Int(series.max));
    put(&mut o, "mean", Value::Float(series.mean));
    put(&mut o, "stddev", Value::Float(series.stddev()));
    put(&mut o, "N", Value::Int(series.samples));
    if percentiles && series.samples > 0 {
        let values = latency.histogram.percentiles(&job.percentile_list);
        let list = job.percentile_list.iter().zip(values);
        let fields = list.map(|(p, ns)| (format!("{p:.6}"), Value::Int(ns))).collect();
        put(&mut o, "percentile", Value::Object(fields));
        if plus {
            let bins = latency.histogram.filled();
            let fields =
                bins.map(|(bucket, n)| (hist::middle_ns(bucket).to_string(), Value::Int(n))).collect();
            put(&mut o, "bins", Value::Object(fields));
        }
    }
    Value::Object(o)
}

fn write_value(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Int(n) => {
            let _ = write!(out, "{n}");
        }
        Value::Float(x) => {
            let _ = write!(out, "{x:.6}");
        }
        Value::Text(text) => write_text(out, text),
        Value::List(list) => {
            let parts = list.iter().map(|v| (None, v));
            write_parts(out, parts, ['[', ']'], depth);
        }
        Value::Object(fields) => {
            let parts = fields.iter().map(|(k, v)| (Some(k.as_str()), v));
            write_parts(out, parts, ['{', '}'], depth);
        }
    }
}

fn write_parts<'a>(
    out: &mut String,
    parts: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    [open, close]: [char; 2],
    depth: usize,
) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    out.push(open);
    for (i, (key, value)) in parts.enumerate() {
        if i > 0 {
            out.push(',');
        }
        line(out, depth + 1);
        if let Some(key) = key {
            write_text(out, key);
            out.push_str(" : ");
        }
        write_value(out, value, depth + 1);
    }
    line(out, depth);
    out.push(close);
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
