//! Tests reports against those of fio 3.33. Its `json+` is converted back into statistics, from
//! which the writers must produce the same bytes as fio's JSON, terse and normal output.

use mmcq_lab::fio::hist;
use mmcq_lab::fio::report::{Context, Entry, Report, Started, json, normal, terse};
use mmcq_lab::fio::stats::{DirStats, DiskUtil, Latency, Running, Stats, WorkerError};
use mmcq_lab::fio::{System, parse_command_line};
use serde_json::Value;
use std::sync::Arc;

fn int(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("{key} in {v}"))
}

fn float(v: &Value, key: &str) -> f64 {
    v[key].as_f64().unwrap_or_else(|| panic!("{key} in {v}"))
}

fn running(samples: u64, min: u64, max: u64, mean: f64, stddev: f64) -> Running {
    Running { samples, min, max, mean, squares: stddev * stddev * samples.saturating_sub(1) as f64 }
}

fn latency(v: &Value) -> Latency {
    let ns = running(int(v, "N"), int(v, "min"), int(v, "max"), float(v, "mean"), float(v, "stddev"));
    let mut latency = Latency { ns, ..Latency::default() };
    for (value, count) in v["bins"].as_object().into_iter().flatten() {
        let bucket = hist::bucket(value.parse().expect("nanoseconds"));
        latency.histogram.add_at(bucket, count.as_u64().expect("a count"));
    }
    latency
}

fn direction(v: &Value) -> DirStats {
    let rates = |name: &str, dev: &str| {
        let at = |part: &str| int(v, &format!("{name}_{part}"));
        running(at("samples"), at("min"), at("max"), float(v, &format!("{name}_mean")), float(v, dev))
    };
    DirStats {
        io_bytes: int(v, "io_bytes"),
        total_ios: int(v, "total_ios"),
        short_ios: int(v, "short_ios"),
        drop_ios: int(v, "drop_ios"),
        runtime_ns: int(v, "runtime") * 1_000_000,
        slat: latency(&v["slat_ns"]),
        clat: latency(&v["clat_ns"]),
        lat: latency(&v["lat_ns"]),
        bw_kib: rates("bw", "bw_dev"),
        iops: rates("iops", "iops_stddev"),
        ..DirStats::default()
    }
}

/// Converts percentages of a report back into counts of `total`. The smallest percentage that fio
/// shows becomes the count 1.
fn counts<const N: usize>(v: &Value, total: u64, least: f64) -> [u64; N] {
    let shares: Vec<f64> = v.as_object().expect("shares").values().map(|s| s.as_f64().unwrap()).collect();
    let count = |share: f64| match share {
        0.0 => 0,
        share if share == least => 1,
        share => (share / 100.0 * total as f64).round() as u64,
    };
    std::array::from_fn(|i| count(shares[i]))
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no '{start}'"));
    rest.split_once(end).unwrap_or_else(|| panic!("no '{end}'")).0
}

fn options(v: &Value) -> Vec<(String, String)> {
    let pairs = v.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_string())).collect()
}

fn entry(v: &Value, globals: &[(String, String)], human: &str) -> Entry {
    let name = v["jobname"].as_str().expect("a name");
    let given = options(&v["job options"]);
    let all = globals.iter().chain(&given).filter(|(n, o)| n != "name" && o != "null");
    let mut args = vec![format!("--name={name}")];
    args.extend(all.map(|(n, o)| format!("--{n}={o}")));
    let mut job = parse_command_line(&args, &System).expect("fio's own options").jobs.remove(0);
    job.given = given;
    // Values that the JSON lacks are taken from the readable output.
    let line = human.lines().find(|l| l.starts_with(&format!("{name}: "))).expect("a line");
    let runtime_ns = int(v, "job_runtime") * 1_000_000;
    let mut stats = Stats {
        dirs: [direction(&v["read"]), direction(&v["write"])],
        sync: latency(&v["sync"]["lat_ns"]),
        job_runtime_ns: runtime_ns,
        ..Stats::default()
    };
    let total = stats.transfers();
    (stats.submits, stats.completes) = (1_000_000, 1_000_000);
    stats.depth = counts(&v["iodepth_level"], total, 0.1);
    stats.submit = counts(&v["iodepth_submit"], stats.submits, 0.1);
    stats.complete = counts(&v["iodepth_complete"], stats.completes, 0.1);
    stats.lat_ns = counts(&v["latency_ns"], total, 0.01);
    stats.lat_us = counts(&v["latency_us"], total, 0.01);
    stats.lat_ms = counts(&v["latency_ms"], total, 0.01);
    stats.cpu.user_ns = (float(v, "usr_cpu") / 100.0 * runtime_ns as f64).round() as u64;
    stats.cpu.system_ns = (float(v, "sys_cpu") / 100.0 * runtime_ns as f64).round() as u64;
    stats.cpu.context_switches = int(v, "ctx");
    stats.cpu.major_faults = int(v, "majf");
    stats.cpu.minor_faults = int(v, "minf");
    let errno = int(v, "error") as u32;
    let text = || between(line, &format!("err={errno:2} ("), "): pid").to_string();
    stats.error = (errno != 0).then(|| WorkerError { errno, text: text() });
    Entry {
        job: Arc::new(job),
        jobs: between(line, "jobs=", ")").parse().expect("a number"),
        group: int(v, "groupid") as u32,
        pid: between(line, " pid=", ":").parse().expect("a number"),
        stats,
    }
}

fn disk(v: &Value) -> DiskUtil {
    let pair = |what: &str| [int(v, &format!("read_{what}")), int(v, &format!("write_{what}"))];
    DiskUtil {
        name: v["name"].as_str().expect("a name").to_string(),
        ios: pair("ios"),
        merges: pair("merges"),
        ticks_ms: pair("ticks"),
        in_queue_ms: int(v, "in_queue"),
        util_percent: float(v, "util"),
    }
}

fn report(v: &Value, human: &str) -> Report {
    let global_options = options(&v["global options"]);
    let jobs = v["jobs"].as_array().expect("jobs");
    Report {
        entries: jobs.iter().map(|j| entry(j, &global_options, human)).collect(),
        started: Started::default(),
        disks: v["disk_util"].as_array().into_iter().flatten().map(disk).collect(),
        context: Context {
            version: v["fio version"].as_str().expect("a version").to_string(),
            timestamp_ms: int(v, "timestamp_ms"),
            elapsed_ns: int(&jobs[0], "elapsed") * 1_000_000_000,
            global_options,
            origin: None,
        },
    }
}

/// Compares a report of fio with that of the laboratory. Numbers that were read from six decimals
/// may differ in the last one.
fn same(what: &str, fio: &str, ours: &str) {
    let (a, b): (Vec<&str>, Vec<&str>) = (fio.lines().collect(), ours.lines().collect());
    for (i, (fio, ours)) in a.iter().zip(&b).enumerate() {
        if fio == ours {
            continue;
        }
        let fields =
            |line: &str| -> Vec<String> { line.split([';', ' ', ',']).map(str::to_string).collect() };
        let (x, y) = (fields(fio), fields(ours));
        let close = |(x, y): (&String, &String)| {
            let number = |t: &str| t.trim_end_matches('%').parse::<f64>();
            x == y || matches!((number(x), number(y)), (Ok(x), Ok(y)) if (x - y).abs() < 2.5e-6 && x != y)
        };
        let equal = x.len() == y.len() && x.iter().zip(&y).all(close);
        assert!(equal, "{what}, line {}:\n fio  {fio}\n ours {ours}", i + 1);
    }
    assert_eq!(a.len(), b.len(), "{what}: lines");
}

fn compare(name: &str, text: &str) {
    let start = text.find("\n{\n").map_or(0, |at| at + 1);
    let lines: String =
        text[..start].lines().filter(|l| l.starts_with("3;")).map(|l| format!("{l}\n")).collect();
    let end = start + text[start..].find("\n}\n").expect("the end of the JSON") + 3;
    let (json_text, human) = (&text[start..end], text[end..].trim_start_matches('\n'));
    let report = report(&serde_json::from_str(json_text).expect("JSON"), human);
    same(&format!("{name} json"), json_text, &json::json(&report, true));
    same(&format!("{name} normal"), human, &normal(&report));
    // fio shows disks only in the last line; programs that read the format accept them in any line.
    let ours = terse(&report);
    for (fio, ours) in lines.lines().zip(ours.lines()) {
        same(&format!("{name} terse"), fio, ours);
    }
    assert!(lines.lines().count() > 0);
}

#[test]
fn an_asynchronous_reader() {
    compare("a", include_str!("fio_golden/report_a.txt"));
}

#[test]
fn a_group_of_writers_with_flushes() {
    compare("b", include_str!("fio_golden/report_b.txt"));
}

#[test]
fn mixed_verifying_and_tiny_jobs_in_two_groups() {
    compare("c", include_str!("fio_golden/report_c.txt"));
}

#[test]
fn a_paced_reader() {
    compare("d", include_str!("fio_golden/report_d.txt"));
}

#[test]
fn a_failed_writer() {
    compare("e", include_str!("fio_golden/report_e.txt"));
}
