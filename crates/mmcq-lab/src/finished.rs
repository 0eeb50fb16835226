//! What a finished run says of itself: fio's report, with what the laboratory adds to it.

use crate::fio::report::{self, Context, Origin, Report};
use crate::fio::stats::{Cpu, DirStats, DiskUtil};
use crate::platform::Platform;
use crate::runner::Outcome;
use crate::scene::{Loaded, Scene};
use crate::why::Phases;

/// fio's report of a run. Its clock is the virtual one, which begins in 1970.
pub fn report(loaded: Loaded, outcome: Outcome, origin: Origin) -> Report {
    let Loaded { file, workers, .. } = loaded;
    let counters = &outcome.counters;
    let context = Context {
        version: report::FORMAT_VERSION.to_owned(),
        timestamp_ms: counters.elapsed_ns / 1_000_000,
        elapsed_ns: counters.elapsed_ns,
        global_options: file.global_options,
        origin: Some(origin),
    };
    let jobs = workers.len().max(1) as u64;
    let commands = |a: usize, b: usize| counters.bus.commands[a] + counters.bus.commands[b];
    let transfers = [commands(17, 18), commands(24, 25)];
    let of = |direction: usize, f: fn(&DirStats) -> u64| -> u64 {
        outcome.stats.iter().map(|stats| f(&stats.dirs[direction])).sum()
    };
    let ticks_ms = [0, 1].map(|d| of(d, |dir| (dir.lat.ns.mean * dir.lat.ns.samples as f64 / 1e6) as u64));
    let disk = DiskUtil {
        name: "mmcblk0".to_owned(),
        ios: transfers,
        merges: [0, 1].map(|d| of(d, |dir| dir.total_ios).saturating_sub(transfers[d])),
        ticks_ms,
        in_queue_ms: ticks_ms[0] + ticks_ms[1],
        util_percent: (100.0 * counters.bus_share()).min(100.0),
    };
    let mut results = Vec::new();
    for (worker, mut stats) in workers.into_iter().zip(outcome.stats) {
        stats.cpu = Cpu {
            system_ns: counters.cpu.busy_ns / jobs,
            context_switches: counters.cpu.switches / jobs,
            ..Cpu::default()
        };
        results.push((worker, stats));
    }
    Report::new(context, results, vec![disk])
}

/// What a saved report needs to be run again, and what was counted.
pub fn origin(scene: &Scene, platform: &Platform, outcome: &Outcome) -> Origin {
    let c = &outcome.counters;
    let share = |ns: u64| ns as f64 / c.elapsed_ns.max(1) as f64;
    let counters = [
        ("ios", c.ios as f64),
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
        seed: scene.seed,
        changes: scene.set.clone(),
        counters: counters
            .into_iter()
            .chain(lateness(outcome))
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        phases: Phases::of(c).named().map(|(name, ns)| (name.to_owned(), ns)).to_vec(),
        replay: Vec::new(),
    }
}

/// How late requests went, against the times of a trace.
fn lateness(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    let late = outcome.group().late;
    if late.ns.samples == 0 {
        return Vec::new();
    }
    let percentiles = late.histogram.percentiles(&[50.0, 99.0]);
    // A bucket's end may lie behind the longest of all.
    let max_us = late.ns.max as f64 / 1e3;
    let percentile = |at: usize| percentiles.get(at).map_or(0.0, |us| (*us as f64).min(max_us));
    vec![
        ("late_mean_us", late.ns.mean / 1e3),
        ("late_p50_us", percentile(0)),
        ("late_p99_us", percentile(1)),
        ("late_max_us", max_us),
    ]
}
