//! Tests what the models of Linux send to the card: durable writes, flushes, long requests, and
//! what the log of a run's requests has.

use crate::job_folder::{JobFolder, mmcq, refused, well};
use serde_json::Value;
use std::path::Path;

const WRITES: &str = "[w]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=psync\nbs=4k\nsize=128k\nrw=randwrite\n";

/// Runs a sweep, and returns the first row of each point.
fn rows(folder: &JobFolder, line: &str) -> Vec<Value> {
    let text = well(folder.folder(), &format!("sweep {line}"));
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut first = rows.clone();
    first.dedup_by_key(|row| row["point"].as_u64());
    first
}

/// Returns the numbers of blocks of all reliable writes in a log of the bus.
fn reliable(folder: &JobFolder, name: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.path(name)).unwrap();
    let counts = text.lines().filter_map(|line| line.strip_prefix("Command { index: 23, arg: "));
    let counts = counts.map(|rest| rest.split(',').next().unwrap().parse::<u32>().unwrap());
    counts.filter(|arg| arg >> 31 == 1).map(|arg| arg & 0xffff).collect()
}

/// Replays what blktrace recorded of Linux 6.1, which sent 70 flushes: 64 before a durable write,
/// and 6 alone. On this card the 68 durable writes are reliable writes.
#[test]
fn linux_flushes_as_often_as_linux_itself() {
    let folder = JobFolder::new(WRITES);
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/traces/linux-ext4.blktrace");
    let trace = trace.display();
    let line = "--card emmc-51-full --mode think --without discard";
    for row in rows(&folder, &format!("{trace} {line} --over setting=none,hsq-tag,hsq-fifo")) {
        let [asked, card] = ["flushes", "card_flushes"].map(|name| row[name].as_u64().unwrap());
        assert_eq!(asked, 70, "{}", row["setting"]);
        assert!((65..=70).contains(&card), "{}: {card}", row["setting"]);
    }
    well(folder.folder(), &format!("replay {trace} {line} --setting none --bus-log bus"));
    assert_eq!(reliable(&folder, "bus").len(), 68);
}

/// Checks a synchronous write of Linux 6.1: a durable write, and then a flush.
#[test]
fn a_synchronous_write_of_linux_is_a_reliable_write_and_a_flush() {
    let folder = JobFolder::new(&format!("{WRITES}sync=1\n"));
    for (cache, count) in [("", 32), ("--set card.cache_size_kib=0", 0)] {
        for setting in ["none", "hsq-tag", "hsq-fifo"] {
            let line = format!("--platform hsq-sprd {cache}");
            let row = &rows(&folder, &format!("job.fio {line} --over setting={setting}"))[0];
            assert_eq!((&row["flushes"], &row["card_flushes"]), (&32.into(), &count.into()), "{setting}");
            well(folder.folder(), &format!("run job.fio {line} --setting {setting} --bus-log bus"));
            assert_eq!(reliable(&folder, "bus"), vec![8; count], "{cache} {setting}");
        }
    }
    let line = "job.fio --platform intel-jsl --card emmc-queue --over setting=linux-cqe,none";
    for row in rows(&folder, line) {
        assert_eq!((&row["flushes"], &row["failed"]), (&32.into(), &0.into()), "{}", row["setting"]);
    }
}

/// Checks that a discard of a trace is refused by every model of Linux, and never written as data.
#[test]
fn no_setting_of_linux_writes_a_discard_as_data() {
    let folder =
        JobFolder::new("fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x trim 0 4096\n/dev/x close\n");
    for setting in ["none", "hsq-tag", "hsq-fifo", "linux-cqe"] {
        let line = format!("replay job.fio --platform intel-jsl --card emmc-queue --setting {setting}");
        refused(folder.folder(), &line, &["--without discard"]);
    }
}

#[test]
fn a_long_request_is_split_in_every_setting_of_linux() {
    let job = "[w]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=libaio\niodepth=2\nbs=1536k\nsize=6M\nrw=write\n\
               verify=crc32c\n";
    let folder = JobFolder::new(job);
    for setting in ["none", "hsq-tag", "hsq-fifo", "linux-cqe"] {
        let line = "--platform intel-jsl --card emmc-queue --output-format json";
        let report = well(folder.folder(), &format!("run job.fio {line} --setting {setting}"));
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["jobs"][0]["error"], 0, "{setting}");
        let disk = &report["disk_util"][0];
        // Two pieces of 512 KiB that follow one another may not merge, since a request has no more.
        assert_eq!((&disk["write_ios"], &disk["read_ios"]), (&12.into(), &12.into()), "{setting}");
    }
}

#[test]
fn the_log_of_a_run_is_its_load() {
    let folder = JobFolder::new(&format!("{WRITES}fsync=5\nend_fsync=1\nwrite_iolog=run.log\n"));
    let line = "--platform hsq-sprd --card emmc-cache --output-format json";
    let read = |line: &str| -> Value { serde_json::from_str(&well(folder.folder(), line)).unwrap() };
    let run = read(&format!("run job.fio {line}"));
    let text = std::fs::read_to_string(folder.path("run.log")).unwrap();
    let count = |word: &str| text.lines().filter(|line| line.split(' ').nth(2) == Some(word)).count();
    assert_eq!((count("write"), count("sync")), (32, 6 + 1), "{text}");
    let times: Vec<u64> =
        text.lines().skip(1).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{text}");
    // The first request began at once.
    assert!(
        times.iter().find(|us| **us > 0).is_none_or(|us| *us < 1000)
            && text.contains("\n0 /dev/mmcblk0 write")
    );
    let replayed = read(&format!("replay run.log {line}"));
    for (part, key) in [("write", "total_ios"), ("write", "io_bytes")] {
        assert_eq!(run["jobs"][0][part][key], replayed["jobs"][0][part][key], "{part} {key}");
    }
    assert_eq!(replayed["jobs"][0]["sync"]["total_ios"], 7);
    // A job with one request at a time takes as long in the replay.
    let [took, again] = [&run, &replayed].map(|report| report["mmcq"]["counters"]["elapsed_ns"].as_f64());
    assert!((again.unwrap() / took.unwrap() - 1.0).abs() < 0.05, "{took:?} {again:?}");
}

/// Checks that a file that cannot be written is refused before the run.
#[test]
fn a_log_of_the_bus_needs_a_folder() {
    let folder = JobFolder::new(WRITES);
    let output = mmcq(folder.folder(), "run job.fio --bus-log no/such/folder");
    assert_eq!(output.status.code(), Some(2));
}
