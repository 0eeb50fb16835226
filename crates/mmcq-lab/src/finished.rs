//! Report of a finished run: fio's report, with additions of the laboratory.

use crate::fio::report::{self, Context, Origin, Program, Replayed, Report};
use crate::fio::stats::{Cpu, DirStats, DiskUtil};
use crate::linux::elevator::DiskUse;
use crate::platform::Platform;
use crate::runner::Outcome;
use crate::scene::{Loaded, Scene};
use crate::why::{self, Phases};

/// Returns fio's report of a run. Its date is virtual time, which begins in 1970.
pub fn report(loaded: Loaded, outcome: Outcome, origin: Origin) -> Report {
    let Loaded { file, workers, .. } = loaded;
    let counters = &outcome.counters;
    let context = Context {
        version: report::FORMAT_VERSION.to_owned(),
        timestamp_ms: counters.elapsed_ns / 1_000_000,
        elapsed_ns: counters.elapsed_ns,
        global_options: file.global_options,
        origin: Some(Origin { job_file: file.lines, ..origin }),
    };
    let jobs = workers.len().max(1) as u64;
    let disk = disk(&outcome);
    let mut results = Vec::new();
    for ((at, worker), mut stats) in workers.into_iter().enumerate().zip(outcome.stats) {
        stats.cpu = Cpu {
            system_ns: counters.cpu.busy_ns / jobs,
            // As in getrusage, only switches of the job's own thread count.
            context_switches: counters.job_switches.get(at).copied().unwrap_or(0),
            ..Cpu::default()
        };
        results.push((worker, stats));
    }
    Report::new(context, results, vec![disk])
}

/// Returns the statistics of the report's disk. With a model of Linux, they are those of its block
/// layer. With mmcq's engine, they are what Linux would have counted for the requests that the
/// engine merged. A request that continues an open transfer does not count as merged.
fn disk(outcome: &Outcome) -> DiskUtil {
    let counters = &outcome.counters;
    let used = counters.stack.disk.unwrap_or_else(|| as_linux_counts(outcome));
    let ticks_ms = used.ticks_ns.map(|ns| ns / 1_000_000);
    let in_stack_ns = counters.elapsed_ns.saturating_sub(counters.without_ns);
    DiskUtil {
        name: "mmcblk0".to_owned(),
        ios: used.ios,
        merges: used.merges,
        ticks_ms,
        in_queue_ms: ticks_ms[0] + ticks_ms[1],
        util_percent: 100.0 * in_stack_ns as f64 / counters.elapsed_ns.max(1) as f64,
    }
}

/// Returns the disk use of a run by mmcq's engine. The engine counts merged requests of both
/// directions together. Here this number is divided between reads and writes, in proportion to the
/// requests of each that had no command of their own.
fn as_linux_counts(outcome: &Outcome) -> DiskUse {
    let c = &outcome.counters;
    let of = |direction: usize, f: fn(&DirStats) -> u64| -> u64 {
        outcome.stats.iter().map(|stats| f(&stats.dirs[direction])).sum()
    };
    let all = [0, 1].map(|d| of(d, |dir| dir.total_ios));
    let commands = |a: usize, b: usize| c.bus.commands[a] + c.bus.commands[b];
    let begun = [commands(17, 18), commands(24, 25)];
    let without = [0, 1].map(|d| all[d].saturating_sub(begun[d]));
    let merged = c.stack.merged();
    let reads = u128::from(merged) * u128::from(without[0]) / u128::from((without[0] + without[1]).max(1));
    let reads = (reads as u64).min(all[0]);
    let merges = [reads, (merged - reads).min(all[1])];
    let ticks_ns = [0, 1].map(|d| of(d, |dir| dir.under_way_ns));
    DiskUse { ios: [0, 1].map(|d| all[d] - merges[d]), merges, ticks_ns }
}

/// Returns the counters of the run, and other facts that a saved report needs so that a program can
/// run its load again; the jobs are saved separately.
pub fn origin(scene: &Scene, platform: &Platform, outcome: &Outcome) -> Origin {
    let c = &outcome.counters;
    let share = |ns: u64| ns as f64 / c.elapsed_ns.max(1) as f64;
    let counters = [
        ("ios", c.ios as f64),
        ("flushes", c.flushes as f64),
        ("card_flushes", c.work.flushes.count as f64),
        ("reads_repeated", c.work.retries.count as f64),
        ("garbage_collections", c.work.collections.count as f64),
        ("beyond_slc_bytes", c.work.beyond_slc_bytes as f64),
        ("bytes", c.bytes as f64),
        ("elapsed_ns", c.elapsed_ns as f64),
        ("transfers", c.transfers as f64),
        ("units_4k_per_transfer", c.merge()),
        ("commands", c.bus.commands.iter().sum::<u64>() as f64),
        ("interrupts", c.cpu.interrupts as f64),
        ("context_switches", c.cpu.switches as f64),
        ("register_reads", c.accesses.0 as f64),
        ("register_writes", c.accesses.1 as f64),
        ("failed", c.failed as f64),
        ("cores", f64::from(platform.cores)),
        ("held_for_the_tail", c.stack.holds.count as f64),
        ("wire_share", share(c.bus.wire_ns())),
        ("card_share", share(c.bus.physical_ns() - c.bus.wire_ns())),
        ("cpu_idle_share", c.idle_share()),
    ];
    Origin {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: platform.name.clone(),
        card: scene.card_of(platform).to_owned(),
        setting: scene.setting.name().to_owned(),
        scheduler: scheduler(scene, platform).to_owned(),
        seed: scene.seed,
        changes: scene.set.clone(),
        counters: counters
            .into_iter()
            .chain(lateness(outcome))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        phases: Phases::of(c).named().map(|(name, ns)| (name.to_owned(), ns)).to_vec(),
        replay: Replayed::default(),
        programs: Vec::new(),
        job_file: Vec::new(),
        starved: why::starved_directions(outcome),
    }
}

/// Returns the facts `origin` about a run, with the trace that was replayed and the measurements of
/// each program in the trace.
pub fn with_trace(origin: Origin, replay: Replayed, outcome: &Outcome) -> Origin {
    let programs = Program::all(&replay.names, &outcome.group().programs);
    Origin { replay, programs, ..origin }
}

/// Returns the name of the scheduler that picks the next request in this scene.
fn scheduler(scene: &Scene, platform: &Platform) -> &'static str {
    match platform.stack.scheduler {
        _ if scene.setting.is_linux() => "mq-deadline",
        any => any.name(),
    }
}

/// Returns counters that say how late requests started, compared with the times of the replayed
/// trace.
fn lateness(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let late = outcome.group().late;
    if late.ns.samples == 0 {
        return Vec::new();
    }
    let percentiles = late.histogram.percentiles(&[50.0, 99.0]);
    // The middle of a bucket may be above the longest lateness.
    let max_us = late.ns.max as f64 / 1e3;
    let percentile = |at: usize| percentiles.get(at).map_or(0.0, |us| (*us as f64).min(max_us));
    vec![
        ("late_mean_us", late.ns.mean / 1e3),
        ("late_p50_us", percentile(0)),
        ("late_p99_us", percentile(1)),
        ("late_max_us", max_us),
    ]
}
