//! Writes the report in fio's default format, for people and scripts.

use super::number::{latency_unit, short};
use super::{Entry, GroupDir, Report, cpu_percent, date, rate, share_of_group, shares};
use crate::fio::job::{Dir, Job};
use crate::fio::stats::{DirStats, Latency, Running, Stats};
use std::fmt::Write;

const LATENCY_STEPS: [&str; 10] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
const GROUP_NAMES: [&str; 3] = ["   READ", "  WRITE", "   TRIM"];
const LATENCY_MS: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

/// Returns the report as text in the form in which fio prints it.
pub fn normal(report: &Report) -> String {
    let mut out = String::new();
    if let Some(origin) = &report.context.origin {
        out += &origin.line();
        let _ = writeln!(out, "{}\n{}", report.context.version, report.started.lines());
    }
    for entry in &report.entries {
        job_block(&mut out, report, entry);
    }
    for group in report.groups() {
        let _ = write!(out, "\nRun status group {group} (all jobs):\n");
        let kb = report.entries.iter().find(|e| e.group == group).map_or((true, 4), |e| units(&e.job));
        for (dir, name) in [Some(Dir::Read), Some(Dir::Write), None].into_iter().zip(GROUP_NAMES) {
            group_line(&mut out, name, &report.group(group, dir), kb);
        }
    }
    if !report.disks.is_empty() {
        out.push_str("\nDisk stats (read/write):\n");
    }
    for disk in &report.disks {
        let _ = writeln!(
            out,
            "  {}: ios={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:3.2}%",
            disk.name,
            disk.ios[0],
            disk.ios[1],
            disk.merges[0],
            disk.merges[1],
            disk.ticks_ms[0],
            disk.ticks_ms[1],
            disk.in_queue_ms,
            disk.util_percent
        );
    }
    out
}

/// Returns whether sizes are shown in binary units (KiB) before decimal ones (kB), and with how
/// many digits.
fn units(job: &Job) -> (bool, u8) {
    (job.kb_base == 1024, job.significant_figures)
}

fn job_block(out: &mut String, report: &Report, entry: &Entry) {
    let (job, stats) = (&entry.job, &entry.stats);
    let time = date(report.context.timestamp_ms);
    let error = match &stats.error {
        None => "err= 0".to_string(),
        Some(e) => format!("err={:2} ({})", e.errno, e.text),
    };
    let _ = writeln!(
        out,
        "{}: (groupid={}, jobs={}): {error}: pid={}: {time}",
        job.name, entry.group, entry.jobs, entry.pid
    );
    if let Some(text) = &job.description {
        let _ = writeln!(out, "  Description  : [{text}]");
    }
    for dir in Dir::ALL {
        let words = match dir {
            Dir::Read => ("read", ""),
            Dir::Write => ("write", "; 0 zone resets"),
        };
        dir_block(out, job, words, &stats.dirs[dir.index()], &report.group(entry.group, Some(dir)));
    }
    dir_block(out, job, ("trim", ""), &stats.discards, &report.group(entry.group, None));
    let total = stats.transfers();
    for (unit, names, values) in [
        ("nsec", &LATENCY_STEPS[..], &shares(&stats.lat_ns, total, 0.01)[..]),
        ("usec", &LATENCY_STEPS[..], &shares(&stats.lat_us, total, 0.01)[..]),
        ("msec", &LATENCY_MS[..], &shares(&stats.lat_ms, total, 0.01)[..]),
    ] {
        distribution(out, unit, names, values);
    }
    if stats.sync.ns.samples > 0 {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        latency_line(out, "sync", &stats.sync.ns);
        if job.clat_percentiles || job.lat_percentiles {
            percentile_block(out, "sync", &stats.sync, &job.percentile_list);
        }
    }
    tail(out, job, stats);
}

fn dir_block(out: &mut String, job: &Job, (name, after): (&str, &str), d: &DirStats, group: &GroupDir) {
    let ms = d.runtime_ms();
    if ms == 0 {
        return;
    }
    let (binary, figures) = units(job);
    let bw = rate(d.io_bytes, ms);
    let _ = writeln!(
        out,
        "  {name}: IOPS={}, BW={} ({})({}/{ms}msec){after}",
        short(rate(d.total_ios, ms), figures, false, ""),
        short(bw, figures, binary, "B/s"),
        short(bw, figures, !binary, "B/s"),
        short(d.io_bytes, figures, binary, "B"),
    );
    latency_line(out, "slat", &d.slat.ns);
    latency_line(out, "clat", &d.clat.ns);
    latency_line(out, " lat", &d.lat.ns);
    for (wanted, name, latency) in [
        (job.slat_percentiles, "slat", &d.slat),
        (job.clat_percentiles, "clat", &d.clat),
        (job.lat_percentiles, "lat", &d.lat),
    ] {
        if wanted && latency.ns.samples > 0 {
            percentile_block(out, name, latency, &job.percentile_list);
        }
    }
    bandwidth_line(out, job, &d.bw_kib, group);
    if d.iops.samples > 0 {
        let Running { min, max, mean, samples, .. } = d.iops;
        let _ = writeln!(
            out,
            "   iops        : min={min:5}, max={max:5}, avg={mean:5.2}, stdev={:5.2}, samples={samples}",
            d.iops.stddev()
        );
    }
}

fn bandwidth_line(out: &mut String, job: &Job, bw: &Running, group: &GroupDir) {
    if bw.samples == 0 {
        return;
    }
    let base = job.kb_base;
    let large = bw.mean > (base * base) as f64;
    let divisor = if large { base } else { 1 };
    let unit = match (large, base) {
        (false, 1024) => "KiB",
        (true, 1024) => "MiB",
        (false, _) => "kB",
        (true, _) => "MB",
    };
    let _ = writeln!(
        out,
        "   bw ({unit:>5}/s): min={:5}, max={:5}, per={:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
        bw.min / divisor,
        bw.max / divisor,
        share_of_group(bw, group),
        bw.mean / divisor as f64,
        bw.stddev() / divisor as f64,
        bw.samples
    );
}

fn latency_line(out: &mut String, name: &str, series: &Running) {
    if series.samples == 0 {
        return;
    }
    let (divisor, unit) = latency_unit(series.min, series.max, series.stddev());
    let whole = |ns: u64| short(ns / divisor as u64, 6, false, "");
    let _ = writeln!(
        out,
        "    {name} ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        whole(series.min),
        whole(series.max),
        series.mean / divisor,
        series.stddev() / divisor
    );
}

fn percentile_block(out: &mut String, name: &str, latency: &Latency, list: &[f64]) {
    let values = latency.histogram.percentiles(list);
    let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return };
    let (divisor, unit) = if min > 2_000_000 && max > 99_999_999 {
        (1_000_000, "msec")
    } else if min > 2_000 && max > 99_999 {
        (1_000, "usec")
    } else {
        (1, "nsec")
    };
    let _ = writeln!(out, "    {name} percentiles ({unit}):");
    // Number of decimals: as many as the list needs, at most 6.
    let precision = list.iter().map(|p| decimals(*p)).max().unwrap_or(0);
    let width = (max / divisor).checked_ilog10().map_or(1, |n| n as usize + 1).max(5);
    let per_line = (73 / (precision + 10 + width)).max(1);
    for (i, (percent, ns)) in list.iter().zip(&values).enumerate() {
        if i % per_line == 0 {
            out.push_str("     |");
        }
        let shown = if divisor == 1 { *ns } else { ns.div_ceil(divisor) };
        let _ = write!(out, " {percent:w$.precision$}th=[{shown:width$}]", w = precision + 3);
        let last = i + 1 == values.len();
        out.push(if last { '\n' } else { ',' });
        if !last && i % per_line == per_line - 1 {
            out.push('\n');
        }
    }
}

fn decimals(percent: f64) -> usize {
    let text = format!("{percent:.6}");
    let fraction = text.split_once('.').map_or("", |(_, f)| f).trim_end_matches('0');
    fraction.len()
}

/// Writes shares in percent, five per line, each with its name; shares of 0 are left out.
fn distribution(out: &mut String, unit: &str, names: &[&str], shares: &[f64]) {
    let shown: Vec<String> = names
        .iter()
        .zip(shares)
        .filter(|(_, share)| **share > 0.0)
        .map(|(name, share)| format!("{name}={share:3.2}%"))
        .collect();
    for line in shown.chunks(5) {
        let _ = writeln!(out, "  lat ({unit})   : {}", line.join(", "));
    }
}

fn tail(out: &mut String, job: &Job, stats: &Stats) {
    let (user, system) = cpu_percent(stats);
    let cpu = &stats.cpu;
    let _ = writeln!(
        out,
        "  cpu          : usr={user:3.2}%, sys={system:3.2}%, ctx={}, majf={}, minf={}",
        cpu.context_switches, cpu.major_faults, cpu.minor_faults
    );
    let [a, b, c, d, e, f, g] = shares(&stats.depth, stats.transfers(), 0.1);
    let _ = writeln!(
        out,
        "  IO depths    : 1={a:3.1}%, 2={b:3.1}%, 4={c:3.1}%, 8={d:3.1}%, 16={e:3.1}%, 32={f:3.1}%, \
         >=64={g:3.1}%"
    );
    for (name, counts, total) in
        [("submit   ", &stats.submit, stats.submits), ("complete ", &stats.complete, stats.completes)]
    {
        let [a, b, c, d, e, f, g] = shares(counts, total, 0.1);
        let _ = writeln!(
            out,
            "     {name} : 0={a:3.1}%, 4={b:3.1}%, 8={c:3.1}%, 16={d:3.1}%, 32={e:3.1}%, 64={f:3.1}%, \
             >=64={g:3.1}%"
        );
    }
    let [r, w] = &stats.dirs;
    let _ = writeln!(
        out,
        "     issued rwts: total={},{},{},{} short={},{},0,0 dropped={},{},0,0",
        r.total_ios,
        w.total_ios,
        stats.discards.total_ios,
        stats.sync.ns.samples,
        r.short_ios,
        w.short_ios,
        r.drop_ios,
        w.drop_ios
    );
    let _ = writeln!(out, "     latency   : target=0, window=0, percentile=100.00%, depth={}", job.iodepth);
}

fn group_line(out: &mut String, name: &str, group: &GroupDir, (binary, figures): (bool, u8)) {
    if group.max_run_ms == 0 {
        return;
    }
    let bw = |bytes, binary| short(bytes, figures, binary, "B/s");
    let _ = writeln!(
        out,
        "{name}: bw={} ({}), {}-{} ({}-{}), io={} ({}), run={}-{}msec",
        bw(group.aggregate_bw, binary),
        bw(group.aggregate_bw, !binary),
        bw(group.min_bw, binary),
        bw(group.max_bw, binary),
        bw(group.min_bw, !binary),
        bw(group.max_bw, !binary),
        short(group.bytes, figures, binary, "B"),
        short(group.bytes, figures, !binary, "B"),
        group.min_run_ms,
        group.max_run_ms
    );
}
