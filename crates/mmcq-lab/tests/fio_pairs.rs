//! Tests options of fio in random combinations of three or more: `mmcq run` against fio itself on
//! the same card.

use crate::{cases, watchdog};
use mmcq_sim::world::Stream;
use std::path::Path;
use std::process::Command;

/// Options of fio to combine. A combination takes one entry of each of the first three lists, and
/// of some of the others.
const AXES: &[&[&str]] = &[
    &["--rw=randwrite", "--rw=write", "--rw=randread", "--rw=randrw", "--rw=rw --rwmixread=30"],
    &["--bs=4k", "--bs=64k", "--bs=16k", "--bssplit=4k/60:16k/30:64k/10", "--bsrange=4k-64k"],
    &[
        "--ioengine=psync",
        "--ioengine=libaio --iodepth=2",
        "--ioengine=libaio --iodepth=4",
        "--ioengine=libaio --iodepth=16",
    ],
    &["--fsync=1", "--fsync=8", "--fsync=32", "--fdatasync=4", "--sync=1", "--sync=dsync", "--end_fsync=1"],
    &["--rate_iops=200", "--rate_iops=400,100", "--rate=2m", "--rate=4m,1m"],
    &["--thinktime=2ms --thinktime_blocks=8", "--numjobs=2 --group_reporting", "--randrepeat=0"],
];

fn report(subcommand: &str, words: &[&str]) -> serde_json::Value {
    let _alive = watchdog::watch();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache");
    let all = ["--card", "emmc-queue", "--", "--output-format=json", "--name=a", "--direct=1"];
    let more = ["--filename=/dev/mmcblk0", "--size=64m", "--time_based", "--runtime=1s"];
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command
        .current_dir(folder.path())
        .arg(subcommand)
        .args(all)
        .args(more)
        .args(words)
        .env("XDG_CACHE_HOME", cache);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{subcommand} {words:?}: {told}");
    let json = said.get(said.find('{').unwrap_or(0)..).unwrap_or_default();
    serde_json::from_str(json).unwrap()
}

/// Returns from a report the numbers of requests and bytes of both directions, and the number of
/// flushes with a latency.
fn figures(report: &serde_json::Value) -> ([u64; 4], u64) {
    let job = &report["jobs"][0];
    let of = |way: &str, name: &str| job[way][name].as_u64().unwrap();
    let moved =
        [of("read", "total_ios"), of("write", "total_ios"), of("read", "io_bytes"), of("write", "io_bytes")];
    (moved, job["sync"]["lat_ns"]["N"].as_u64().unwrap_or(0))
}

#[test]
fn pairs_of_options_are_what_fio_makes_of_them() {
    let mut luck = Stream::new(1, "pairs");
    let mut worst: f64 = 0.0;
    for _ in 0..cases::rounds(3, 24) {
        let mut words = Vec::new();
        for (nth, axis) in AXES.iter().enumerate() {
            // The first three lists always contribute an option, each other list in half of the
            // cases.
            if nth < 3 || luck.bits().is_multiple_of(2) {
                words.extend(axis[luck.bits() as usize % axis.len()].split(' '));
            }
        }
        let (theirs, their_syncs) = figures(&report("fio", &words));
        let (ours, our_syncs) = figures(&report("run", &words));
        for (nth, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            // Jobs end after a second, and the last I/O of each job and depth may be before or
            // after this end.
            let edge = if nth < 2 { 34 } else { 34 << 16 };
            let off = (*theirs as f64 - *ours as f64).abs() / (*ours).max(1) as f64;
            assert!(
                off <= 0.005 || theirs.abs_diff(*ours) <= edge.min(ours / 50),
                "{words:?}, {nth}: fio {theirs}, run {ours}"
            );
            worst = worst.max(off);
        }
        assert!(
            their_syncs.abs_diff(our_syncs) <= 2 + our_syncs / 200,
            "{words:?}: {their_syncs} {our_syncs}"
        );
    }
    println!("worst difference {:.3} %", 100.0 * worst);
}

/// Returns the shares in percent of the calls that submit or collect one transfer, 2 to 4, 5 to 8
/// and so on, and of the depths.
fn shares(report: &serde_json::Value, what: &str) -> Vec<f64> {
    let shares = report["jobs"][0][what].as_object().unwrap();
    shares.values().map(|share| share.as_f64().unwrap()).collect()
}

#[test]
fn groups_of_submissions_and_completions_are_those_of_fio() {
    for words in [
        "--rw=randread --iodepth=32 --iodepth_batch=16 --iodepth_batch_complete_min=32",
        "--rw=randread --iodepth=16 --iodepth_batch=4 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=16",
        "--rw=randwrite --iodepth=16 --iodepth_low=4 --iodepth_batch_complete_min=5",
        "--rw=randread --iodepth=8 --iodepth_batch=8 --iodepth_batch_complete_max=8",
        "--rw=write --iodepth=16 --iodepth_batch=8 --iodepth_batch_complete_min=4 --fsync=10",
        "--rw=randread --iodepth=16 --iodepth_batch=4 --iodepth_batch_complete_min=4 --rate_iops=900",
    ] {
        let mut all = vec!["--bs=4k", "--ioengine=libaio"];
        all.extend(words.split(' '));
        let (theirs, ours) = (report("fio", &all), report("run", &all));
        let ios = |report| figures(report).0[..2].iter().sum::<u64>() as f64;
        let off = ios(&ours) / ios(&theirs) - 1.0;
        println!("{words}: {:+.2} %", 100.0 * off);
        assert!(off.abs() <= 0.01, "{words}: fio {}, run {}", ios(&theirs), ios(&ours));
        for what in ["iodepth_submit", "iodepth_complete", "iodepth_level"] {
            let (theirs, ours) = (shares(&theirs, what), shares(&ours, what));
            println!("  {what}: fio {theirs:?}, run {ours:?}");
            let near = theirs.iter().zip(&ours).all(|(theirs, ours)| (theirs - ours).abs() <= 3.0);
            assert!(near, "{words}, {what}: fio {theirs:?}, run {ours:?}");
        }
    }
}

/// Checks that no flush in fio's report is longer than its run. fio measures a flush without a
/// start time from time 0.
#[test]
fn fio_measures_no_flush_longer_than_its_run() {
    let words = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--fsync=8", "--ioengine=libaio"];
    let report = report("fio", &words);
    let longest = report["jobs"][0]["sync"]["lat_ns"]["max"].as_u64().unwrap();
    assert!(longest > 0 && longest < 1_100_000_000, "{longest} ns in a run of a second");
}
