//! Writes fio's terse version 3: one line for each job, fields separated by semicolons, as scripts
//! on small boards parse it.

use super::{Entry, GroupDir, Report, cpu_percent, main_percentiles, rate, shares};
use crate::fio::job::{Dir, Job};
use crate::fio::stats::{DirStats, Running};
use std::fmt::Write;

/// Number of percentiles in a line of the terse format.
const PERCENTILES: usize = 20;

/// Returns the report in terse format, one line for each job.
pub fn terse(report: &Report) -> String {
    let mut out = String::new();
    for entry in &report.entries {
        line(&mut out, report, entry);
    }
    out
}

fn line(out: &mut String, report: &Report, entry: &Entry) {
    let stats = &entry.stats;
    let name = entry.job.name.replace(';', ",");
    let error = stats.error.as_ref().map_or(0, |e| e.errno);
    let _ = write!(out, "3;{};{name};{};{error}", report.context.version, entry.group);
    for dir in Dir::ALL {
        direction(out, &entry.job, &stats.dirs[dir.index()], &report.group(entry.group, Some(dir)));
    }
    let (user, system) = cpu_percent(stats);
    let cpu = &stats.cpu;
    let _ = write!(
        out,
        ";{user:.6}%;{system:.6}%;{};{};{}",
        cpu.context_switches, cpu.major_faults, cpu.minor_faults
    );
    for share in shares(&stats.depth, stats.transfers(), 0.1) {
        let _ = write!(out, ";{share:3.1}%");
    }
    // Latencies below 1 us count in the first field.
    let total = stats.transfers();
    let below: f64 = shares(&stats.lat_ns, total, 0.01).iter().sum();
    let mut micro = shares(&stats.lat_us, total, 0.01);
    micro[0] += below;
    for share in micro.iter().chain(&shares(&stats.lat_ms, total, 0.01)) {
        let _ = write!(out, ";{share:3.2}%");
    }
    for disk in &report.disks {
        let [(r, w), (rm, wm), (rt, wt)] =
            [disk.ios, disk.merges, disk.ticks_ms].map(|[read, write]| (read, write));
        let _ = write!(
            out,
            ";{};{r};{w};{rm};{wm};{rt};{wt};{};{:3.2}%",
            disk.name, disk.in_queue_ms, disk.util_percent
        );
    }
    if let Some(text) = &entry.job.description {
        let _ = write!(out, ";{}", text.replace(';', ","));
    }
    out.push('\n');
}

fn direction(out: &mut String, job: &Job, d: &DirStats, group: &GroupDir) {
    let ms = d.runtime_ms();
    let (bw, iops) = (rate(d.io_bytes, ms) / 1024, rate(d.total_ios, ms));
    let _ = write!(out, ";{};{bw};{iops};{ms}", d.io_bytes / 1024);
    latency(out, &d.slat.ns);
    latency(out, &d.clat.ns);
    let values = main_percentiles(job, d);
    for i in 0..PERCENTILES {
        match job.percentile_list.get(i) {
            Some(p) => {
                let _ = write!(out, ";{p:.6}%={}", values.get(i).map_or(0, |ns| ns / 1000));
            }
            None => out.push_str(";0%=0"),
        }
    }
    latency(out, &d.lat.ns);
    let share = if d.bw_kib.samples == 0 { 0.0 } else { share(&d.bw_kib, group) };
    let _ = write!(
        out,
        ";{};{};{share:.6}%;{:.6};{:.6}",
        d.bw_kib.min,
        d.bw_kib.max,
        d.bw_kib.mean,
        d.bw_kib.stddev()
    );
}

/// Returns the share in percent that an entry has of its group's bandwidth. Unlike in the other
/// formats, the group's bandwidth is rounded down to whole KiB per second.
fn share(bw_kib: &Running, group: &GroupDir) -> f64 {
    match group.aggregate_bw / 1024 {
        0 => 100.0,
        whole => (bw_kib.mean * 100.0 / whole as f64).min(100.0),
    }
}

/// Writes the smallest, largest and mean latency and the standard deviation, in us.
fn latency(out: &mut String, series: &Running) {
    let _ = write!(
        out,
        ";{};{};{:.6};{:.6}",
        series.min / 1000,
        series.max / 1000,
        series.mean / 1000.0,
        series.stddev() / 1000.0
    );
}
