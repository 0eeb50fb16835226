//! Tests whole jobs on a tiny model of a disk: what the state machine requests, when, and what it
//! measures.

use mmcq_lab::fio::report::{Context, FORMAT_VERSION, Report, json, normal, terse};
use mmcq_lab::fio::state::{Io, JobState, Next, Sync, Times};
use mmcq_lab::fio::stats::{Cpu, Stats, WorkerError};
use mmcq_lab::fio::{Dir, System, Worker, expand, parse_file, parse_text};
use std::collections::BTreeMap;
use std::path::Path;

const MS: u64 = 1_000_000;

enum Doing {
    Io(Io),
    Sync(Sync),
}

/// Disk that serves all transfers at the same time, each in `service_ns`. A transfer at the offset
/// `fails_at` fails; one at `spoils_at` returns wrong data.
struct Disk {
    service_ns: u64,
    image: Vec<u8>,
    fails_at: Option<u64>,
    spoils_at: Option<u64>,
    deepest: usize,
    trace: Vec<(u64, Io)>,
    syncs: u32,
}

impl Disk {
    fn new(bytes: usize, service_ns: u64) -> Self {
        Disk {
            service_ns,
            image: vec![0; bytes],
            fails_at: None,
            spoils_at: None,
            deepest: 0,
            trace: Vec::new(),
            syncs: 0,
        }
    }

    /// Runs a worker to its end. Returns its state and the time in ns.
    fn run(&mut self, worker: &Worker) -> (JobState, u64) {
        let sizes = vec![self.image.len() as u64; worker.files.len()];
        let mut state = JobState::new(worker, &sizes, 7).expect("a job that fits");
        let mut busy: BTreeMap<(u64, u64), (u64, Doing)> = BTreeMap::new();
        let (mut now, mut serial) = (0, 0);
        for _ in 0..2_000_000 {
            serial += 1;
            let done_at = (now + self.service_ns, serial);
            let until = match state.next(now) {
                Next::Io(io) => {
                    self.trace.push((now, io));
                    busy.insert(done_at, (now, Doing::Io(io)));
                    self.deepest = self.deepest.max(busy.len());
                    continue;
                }
                Next::Sync(sync) => {
                    self.syncs += 1;
                    busy.insert(done_at, (now, Doing::Sync(sync)));
                    continue;
                }
                Next::Done => return (state, now),
                Next::Wait(until_ns) => {
                    assert!(until_ns > now, "waiting for the past");
                    Some(until_ns)
                }
                Next::AfterCompletion => {
                    assert!(!busy.is_empty(), "nothing can complete");
                    None
                }
            };
            match busy.first_entry() {
                Some(first) if until.is_none_or(|until| first.key().0 <= until) => {
                    let ((complete_ns, _), (start_ns, doing)) = first.remove_entry();
                    now = complete_ns;
                    let times = Times { start_ns, issue_ns: start_ns + 1000, complete_ns };
                    self.complete(&mut state, &doing, times);
                }
                _ => now = until.expect("something to wait for"),
            }
        }
        panic!("the job does not end");
    }

    fn complete(&mut self, state: &mut JobState, doing: &Doing, times: Times) {
        let io = match doing {
            Doing::Io(io) => io,
            Doing::Sync(sync) => return state.complete_sync(sync, times, Ok(())),
        };
        if self.fails_at == Some(io.offset) {
            let error = WorkerError { errno: 5, text: "Input/output error".to_string() };
            return state.complete(io, times, Err(error), None);
        }
        let place = io.offset as usize..(io.offset + io.bytes) as usize;
        if io.dir == Dir::Write {
            state.fill(io, times.start_ns, &mut self.image[place.clone()]);
            if self.spoils_at == Some(io.offset) {
                self.image[place.start + 100] ^= 1;
            }
        }
        state.complete(io, times, Ok(io.bytes), Some(&self.image[place]));
    }
}

fn workers(text: &str) -> Vec<Worker> {
    let file = parse_text("t.fio", text.as_bytes(), &System).unwrap_or_else(|e| panic!("{e}"));
    expand(&file.jobs).expect("few workers")
}

fn run(disk: &mut Disk, options: &str) -> Stats {
    let workers = workers(&format!("[a]\nfilename=f\n{options}\n"));
    let (mut state, now) = disk.run(&workers[0]);
    state.finish(now, Cpu::default())
}

#[test]
fn the_depth_is_the_engines() {
    for (options, depth) in [
        ("iodepth=8", 1),
        ("ioengine=libaio\niodepth=8", 8),
        ("ioengine=io_uring\niodepth=8\niodepth_low=2", 8),
    ] {
        let mut disk = Disk::new(1 << 20, 100_000);
        let stats = run(&mut disk, &format!("rw=randread\n{options}"));
        assert_eq!(disk.deepest, depth, "{options}");
        assert_eq!(stats.dirs[0].io_bytes, 1 << 20);
        assert_eq!(stats.dirs[0].slat.ns.samples > 0, depth > 1);
        assert_eq!(stats.transfers(), stats.depth.iter().sum::<u64>());
    }
}

#[test]
fn time_is_measured() {
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=read\ntime_based\nruntime=3s");
    let d = &stats.dirs[0];
    assert_eq!((d.runtime_ms(), d.total_ios, d.clat.ns.min, d.lat.ns.max), (3000, 30_000, 99_000, 100_000));
    assert_eq!((d.bw_kib.samples, d.bw_kib.min, d.bw_kib.max), (6, 39_992, 40_000));
    assert!((d.iops.mean - 10_000.0).abs() < 1.0, "{}", d.iops.mean);
    assert_eq!(stats.lat_us[5], 30_000);
}

#[test]
fn the_ramp_is_not_measured() {
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=read\ntime_based\nruntime=1s\nramp_time=2s");
    assert_eq!((stats.dirs[0].runtime_ms(), stats.dirs[0].total_ios), (1000, 10_001));
    assert_eq!(disk.trace.len(), 30_000);
}

#[test]
fn pacing_and_thinking() {
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=read\nrate_iops=100");
    assert_eq!((disk.trace[1].0, disk.trace[255].0), (10 * MS, 2550 * MS));
    assert_eq!(stats.dirs[0].bw_kib.max, 400);
    let mut disk = Disk::new(1 << 20, 100_000);
    run(&mut disk, "rw=read\nsize=64k\nrate=40k");
    assert_eq!(disk.trace[10].0, 1000 * MS);
    let mut disk = Disk::new(1 << 20, 100_000);
    run(&mut disk, "rw=read\nsize=64k\nthinktime=5ms\nthinktime_blocks=4\nstartdelay=1s");
    let starts: Vec<u64> = disk.trace.iter().map(|(at, _)| at / 100_000).collect();
    assert_eq!(starts[..6], [10_000, 10_001, 10_002, 10_003, 10_054, 10_055]);
}

#[test]
fn transfers_are_submitted_and_collected_in_groups() {
    let options = "rw=read\nioengine=libaio\niodepth=8\niodepth_batch=4\niodepth_batch_complete_min=8";
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, options);
    assert_eq!((stats.transfers(), stats.submits, stats.completes), (256, 64, 32));
    let starts: Vec<u64> = disk.trace.iter().map(|(at, _)| at / 100_000).collect();
    assert_eq!((starts[7], starts[8], starts[15], starts[16], starts[255]), (0, 1, 1, 2, 31));
    // A group ends for the job when its last transfer does.
    let options =
        "rw=read\nsize=16k\nioengine=libaio\niodepth=2\niodepth_batch_complete_min=2\nthinktime=1ms";
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, options);
    assert_eq!(stats.transfers(), 4);
    // Without a minimum, as many are collected at once as have ended.
    let options = "rw=read\nioengine=libaio\niodepth=8\niodepth_batch_complete_max=4";
    let stats = run(&mut Disk::new(1 << 20, 100_000), options);
    assert!(stats.completes <= 256, "{}", stats.completes);
}

/// Returns after how many thinktimes each transfer of a job begins.
fn thoughts_before(options: &str) -> Vec<u64> {
    let mut disk = Disk::new(1 << 20, 100_000);
    run(&mut disk, &format!("rw=read\nsize=64k\nioengine=libaio\nthinktime=20ms\n{options}"));
    disk.trace.iter().map(|(at_ns, _)| at_ns / (20 * MS)).collect()
}

/// Checks that thinktime counts transfers that the job has collected, as fio 3.33 does, or those
/// that it has issued.
#[test]
fn thinktime_counts_what_is_complete_or_what_is_issued() {
    for (options, expected) in [
        ("iodepth=1\nthinktime_blocks=4", [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
        ("iodepth=4\nthinktime_blocks=1", [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ("iodepth=4\nthinktime_blocks=4", [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]),
        ("iodepth=4\nthinktime_blocks=6", [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2]),
        ("iodepth=8\nthinktime_blocks=3", [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2]),
    ] {
        assert_eq!(thoughts_before(options), expected, "{options}");
        assert_eq!(thoughts_before(&format!("{options}\nthinktime_blocks_type=complete")), expected);
    }
    for (options, expected) in [
        ("iodepth=4\nthinktime_blocks=4", [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
        ("iodepth=4\nthinktime_blocks=1", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        ("iodepth=4\nthinktime_blocks=6", [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]),
    ] {
        let options = format!("{options}\nthinktime_blocks_type=issue");
        assert_eq!(thoughts_before(&options), expected, "{options}");
    }
}

/// Checks that a pause follows the last transfer too and counts as run time, as in fio 3.33.
#[test]
fn the_last_thinktime_is_a_part_of_the_run_time() {
    for (options, transfers, run_us) in [
        ("ioengine=psync\nthinktime=400ms\nsize=8k", 2, 800_200),
        ("ioengine=psync\nthinktime=400ms\nthinktime_blocks=2\nsize=8k", 2, 400_200),
        ("ioengine=psync\nthinktime=400ms\nthinktime_blocks=3\nsize=8k", 2, 200),
        ("ioengine=psync\nthinktime=300ms\nruntime=1\ntime_based", 4, 1_200_400),
        ("ioengine=psync\nthinktime=200ms\nsize=32k", 8, 1_600_800),
        // Four transfers end before the first pause, and one before each of the others.
        ("ioengine=libaio\niodepth=4\nthinktime=200ms\nsize=32k", 8, 1_000_500),
    ] {
        let stats = run(&mut Disk::new(1 << 20, 100_000), &format!("rw=read\n{options}"));
        let told = (stats.transfers(), stats.job_runtime_ns / 1000, stats.dirs[0].runtime_ns / 1000);
        assert_eq!(told, (transfers, run_us, run_us), "{options}");
    }
}

/// Checks that the run time alone ends a job with `time_based`, as in fio.
#[test]
fn a_time_based_job_has_no_number_of_ios() {
    let stats = run(&mut Disk::new(1 << 20, 100_000), "rw=read\ntime_based\nruntime=1s\nnumber_ios=50");
    assert_eq!(stats.dirs[0].total_ios, 10_000);
    let stats = run(&mut Disk::new(1 << 20, 100_000), "rw=read\nruntime=1s\nnumber_ios=50");
    assert_eq!(stats.dirs[0].total_ios, 50);
}

/// Checks that a job with `time_based` and an engine that blocks only writes, as in fio; with
/// another engine it verifies after each round.
#[test]
fn a_time_based_job_verifies_only_with_an_engine_that_does_not_block() {
    for (options, read) in [
        ("ioengine=psync", 0),
        ("ioengine=libaio\nio_submit_mode=offload", 0),
        ("ioengine=null", 0),
        ("ioengine=libaio", 5_000),
        ("ioengine=psync\nverify_backlog=16", 5_000),
    ] {
        let options = format!("rw=write\nsize=64k\nverify=crc32c\ntime_based\nruntime=1s\n{options}");
        let stats = run(&mut Disk::new(1 << 20, 100_000), &options);
        let [reads, writes] = stats.dirs.each_ref().map(|dir| dir.total_ios);
        assert!(reads.abs_diff(read) <= 16 && (reads + writes).abs_diff(10_000) <= 1, "{options}: {reads}");
    }
    let file = parse_text("t.fio", b"[a]\nrw=write\nverify=meta\ntime_based\nruntime=1", &System).unwrap();
    assert!(file.notes.iter().any(|note| note.option == "verify"), "{:?}", file.notes);
}

/// Checks that the part of a window after a job's end gives no sample, even if other jobs run on.
#[test]
fn a_job_that_ends_early_has_no_sample_of_the_time_behind_it() {
    let workers = workers("[a]\nfilename=f\nrw=read\nrate_iops=100\nnumber_ios=120\n");
    let (mut state, now) = Disk::new(1 << 20, 100_000).run(&workers[0]);
    assert_eq!(now / (100 * MS), 11);
    let stats = state.finish(100 * now, Cpu::default());
    let dir = &stats.dirs[0];
    assert_eq!((dir.iops.samples, dir.iops.min, dir.bw_kib.samples, dir.bw_kib.min), (2, 100, 2, 400));
}

/// Checks that a job of depth 4 collects one completion at a time, and only when its queue is full,
/// as fio does: the depth stays 4, and the last ones end together.
#[test]
fn completions_are_collected_when_the_queue_is_full() {
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=read\nsize=64k\nioengine=libaio\niodepth=4");
    // The classes are a depth of 1, of 2 and 3, and of 4 and more.
    assert_eq!(stats.depth[..3], [1, 2, 13]);
    assert_eq!((stats.transfers(), stats.completes), (16, 14));
}

/// Checks that the last transfers end together for the job, and each for itself at the disk.
#[test]
fn a_disk_is_busy_until_each_transfer_is_complete() {
    let list = workers("[a]\nrw=read\nsize=8k\nioengine=libaio\niodepth=4");
    let mut state = JobState::new(&list[0], &[1 << 20], 1).unwrap();
    let [first, second] = [0, 1].map(|_| match state.next(0) {
        Next::Io(io) => io,
        other => panic!("{other:?}"),
    });
    for (io, complete_ns) in [(first, 1000), (second, 5000)] {
        assert_eq!(state.next(complete_ns), Next::AfterCompletion);
        state.complete(&io, Times { start_ns: 0, issue_ns: 0, complete_ns }, Ok(4096), None);
    }
    assert_eq!(state.next(5000), Next::Done);
    let dir = &state.stats().dirs[0];
    assert_eq!((dir.clat.ns.min, dir.clat.ns.max, dir.under_way_ns), (5000, 5000, 6000));
}

#[test]
fn threads_of_their_own_keep_the_pace_while_transfers_are_under_way() {
    let gaps = |mode: &str| -> Vec<u64> {
        let mut disk = Disk::new(1 << 20, 3 * MS);
        let options = format!("rw=read\nrate_iops=1000\nioengine=libaio\niodepth=16\nio_submit_mode={mode}");
        run(&mut disk, &options);
        disk.trace.windows(2).map(|pair| pair[1].0 - pair[0].0).collect()
    };
    // The job itself waits until nothing is under way before it sleeps.
    assert!(gaps("inline").iter().any(|gap| *gap >= 3 * MS));
    assert!(gaps("offload").iter().all(|gap| *gap == MS), "{:?}", gaps("offload"));
    let mut disk = Disk::new(1 << 20, MS);
    run(&mut disk, "rw=read\nioengine=psync\niodepth=4\nio_submit_mode=offload");
    assert_eq!(disk.deepest, 4);
}

#[test]
fn flushes_happen_and_are_measured() {
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=write\nsize=40k\nfsync=4\nend_fsync=1");
    // As in fio, the flush of end_fsync is done but not counted.
    assert_eq!((disk.syncs, stats.sync.ns.samples, stats.sync.ns.max), (3, 2, 100_000));
}

/// Checks that transfers which are under way during a flush were submitted before the flush, since
/// the thread waits for the flush.
#[test]
fn a_thread_does_nothing_else_during_its_flush() {
    let list = workers("[a]\nrw=write\nsize=64k\nfsync=4\nioengine=libaio\niodepth=8");
    let mut state = JobState::new(&list[0], &[1 << 20], 1).unwrap();
    let times = Times { start_ns: 0, issue_ns: 0, complete_ns: 1000 };
    let mut writes = Vec::new();
    let sync = loop {
        match state.next(0) {
            Next::Io(io) => writes.push(io),
            Next::Sync(sync) => break sync,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(writes.len(), 4);
    assert_eq!(state.next(10), Next::AfterCompletion);
    state.complete(&writes[0], times, Ok(4096), None);
    assert_eq!(state.next(20), Next::AfterCompletion, "a place is free, and the thread is not");
    state.complete_sync(&sync, times, Ok(()));
    assert!(matches!(state.next(30), Next::Io(_)));
}

/// Checks that a direction that is behind its rate goes first, whatever the mix is, and that a rate
/// in I/Os per second counts as bytes per second with the smallest block.
#[test]
fn rates_of_mixes_and_of_many_sizes_are_kept() {
    let mut disk = Disk::new(1 << 22, 100_000);
    let stats = run(&mut disk, "rw=randrw\nrate_iops=400,200\ntime_based\nruntime=2");
    let count = |stats: &Stats| [0, 1].map(|i| stats.dirs[i].total_ios);
    let [reads, writes] = count(&stats);
    assert!(reads.abs_diff(800) <= 2 && writes.abs_diff(400) <= 2, "{reads} {writes}");
    let mut disk = Disk::new(1 << 22, 100_000);
    let [reads, writes] =
        count(&run(&mut disk, "rw=randrw\nrwmixread=70\nrate_iops=400\ntime_based\nruntime=2"));
    assert!(reads.abs_diff(800) <= 2 && writes.abs_diff(800) <= 2, "{reads} {writes}");
    let mut disk = Disk::new(1 << 22, 100_000);
    let stats = run(&mut disk, "rw=randread\nbsrange=4k-64k\nrate_iops=400\ntime_based\nruntime=2");
    let bytes = stats.dirs[0].io_bytes;
    assert!(bytes.abs_diff(2 * 400 * 4096) <= 1 << 17, "{bytes}");
}

#[test]
fn spoiled_data_is_found_and_named() {
    for verify in ["crc32c", "crc32", "crc16", "crc7", "pattern\nverify_pattern=0x5a"] {
        let mut disk = Disk::new(1 << 20, 100_000);
        disk.spoils_at = Some(0x3000);
        let stats = run(&mut disk, &format!("rw=randwrite\nsize=64k\nverify={verify}"));
        let error = stats.error.expect("an error");
        assert_eq!((error.errno, stats.total_errors), (84, 1), "{verify}");
        assert!(error.text.contains("offset 12288") || error.text.contains("offset 12388"), "{}", error.text);
        assert_eq!(stats.dirs[0].total_ios, 16, "fio reads on without verify_fatal");
    }
    let mut disk = Disk::new(1 << 20, 100_000);
    disk.spoils_at = Some(0x3000);
    let stats = run(&mut disk, "rw=write\nsize=64k\nverify=crc32c\nverify_fatal=1");
    assert_eq!(stats.dirs[0].total_ios, 4);
    let mut disk = Disk::new(1 << 20, 100_000);
    let stats = run(&mut disk, "rw=write\nsize=64k\nverify=crc32c\nioengine=libaio\niodepth=4");
    assert_eq!((stats.error, stats.dirs[0].total_ios, stats.dirs[1].total_ios), (None, 16, 16));
    assert_eq!(stats.dirs.each_ref().map(|d| d.runtime_ns), [400_000, 400_000]);
}

#[test]
fn errors_end_the_job_unless_it_says_otherwise() {
    for (options, transfers) in [("", 4), ("continue_on_error=write", 4), ("continue_on_error=read", 16)] {
        let mut disk = Disk::new(1 << 20, 100_000);
        disk.fails_at = Some(0x3000);
        let stats = run(&mut disk, &format!("rw=read\nsize=64k\n{options}"));
        assert_eq!(stats.error.map(|e| e.errno), Some(5), "{options}");
        assert_eq!((stats.dirs[0].total_ios, stats.dirs[0].clat.ns.samples), (transfers, transfers - 1));
    }
}

#[test]
fn a_short_transfer_goes_on_where_it_stopped() {
    let workers = workers("[a]\nfilename=f\nrw=read\nbs=64k\nsize=64k\n");
    let mut state = JobState::new(&workers[0], &[65536], 1).unwrap();
    let times = Times { start_ns: 0, issue_ns: 0, complete_ns: 1000 };
    let Next::Io(first) = state.next(0) else { panic!("a transfer") };
    state.complete(&first, times, Ok(4096), None);
    let Next::Io(rest) = state.next(1000) else { panic!("the rest") };
    assert_eq!((rest.offset, rest.bytes), (4096, 61440));
    state.complete(&rest, times, Ok(61440), None);
    assert_eq!(state.next(1000), Next::Done);
    assert_eq!((state.stats().dirs[0].io_bytes, state.stats().dirs[0].short_ios), (65536, 1));
}

fn results(text: &str) -> Report {
    let results = workers(text)
        .into_iter()
        .map(|worker| {
            let (mut state, now) = Disk::new(1 << 20, 100_000).run(&worker);
            let cpu = Cpu { user_ns: now / 10, system_ns: now / 5, context_switches: 12, ..Cpu::default() };
            (worker, state.finish(now, cpu))
        })
        .collect();
    let context = Context {
        version: FORMAT_VERSION.to_string(),
        timestamp_ms: 1_795_296_509_242,
        elapsed_ns: 2_000_000_000,
        global_options: Vec::new(),
        origin: None,
    };
    Report::new(context, results, Vec::new())
}

#[test]
fn a_group_sums_what_each_worker_shows() {
    let job = "filename=f\nrw=randread\ntime_based\nruntime=2s\nnumjobs=3\n";
    let single = results(&format!("[a]\n{job}"));
    let group = results(&format!("[a]\n{job}group_reporting\n[b]\n{job}stonewall\ngroup_reporting\n"));
    assert_eq!((single.entries.len(), group.entries.len(), group.groups()), (3, 2, vec![0, 1]));
    let (one, all) = (&single.entries[0].stats.dirs[0], &group.entries[0].stats.dirs[0]);
    assert_eq!((all.io_bytes, all.runtime_ms()), (3 * one.io_bytes, one.runtime_ms()));
    assert_eq!((all.iops.min, all.iops.max), (3 * one.iops.min, 3 * one.iops.max));
    assert!((all.bw_kib.mean - 3.0 * one.bw_kib.mean).abs() < 1e-6);
    assert_eq!(all.clat.ns.max, one.clat.ns.max);
    let text = normal(&group);
    assert!(text.contains("a: (groupid=0, jobs=3): err= 0: pid=1: Sat Nov 21 21:28:29 2026\n"), "{text}");
    assert!(text.contains("  read: IOPS=30.0k, BW=117MiB/s (123MB/s)(234MiB/2000msec)\n"), "{text}");
    assert!(text.contains("usr=10.00%, sys=20.00%, ctx=36"), "{text}");
    assert_eq!(
        normal(&group),
        normal(&results(&format!("[a]\n{job}group_reporting\n[b]\n{job}stonewall\ngroup_reporting\n")))
    );
    assert_eq!(terse(&single).lines().count(), 3);
}

#[test]
fn json_has_the_keys_that_fio_has() {
    let report = results("[a]\nfilename=f\nrw=randrw\nfsync=4\nsize=256k\n");
    let value: serde_json::Value = serde_json::from_str(&json::json(&report, true)).expect("JSON");
    let mut keys = Vec::new();
    paths(&value, String::new(), &mut keys);
    for wanted in include_str!("fio_golden/json_keys.txt").lines() {
        assert!(keys.iter().any(|k| k == wanted), "{wanted} is missing");
    }
    assert_eq!(value["jobs"][0]["read"]["clat_ns"]["percentile"]["99.990000"], 98816);
}

/// Collects the paths of all keys in a JSON value, without the buckets of histograms.
fn paths(value: &serde_json::Value, at: String, keys: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) if !at.ends_with("/bins") => {
            for (key, value) in fields {
                keys.push(format!("{at}/{key}"));
                paths(value, format!("{at}/{key}"), keys);
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|v| paths(v, format!("{at}/*"), keys)),
        _ => {}
    }
}

#[test]
fn the_projects_jobs_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    for (name, jobs, count) in [
        ("hsq", 4, 80),
        ("fifo", 4, 32),
        ("stream", 8, 8),
        ("gnome-disks", 2, 2),
        ("iozone", 36, 36),
        ("verify", 4, 4),
        ("quickstart", 1, 1),
    ] {
        let file = parse_file(&folder.join(format!("{name}.fio")), &System).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(file.jobs.len(), jobs, "{name}");
        assert_eq!(file.notes, [], "{name}");
        assert_eq!(expand(&file.jobs).expect("few workers").len(), count, "{name}");
    }
}

#[test]
fn the_verify_job_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let file = parse_file(&folder.join("verify.fio"), &System).expect("a job file");
    for worker in expand(&file.jobs).expect("few workers") {
        let mut disk = Disk::new(16 << 20, 100_000);
        let (mut state, now) = disk.run(&worker);
        let stats = state.finish(now, Cpu::default());
        assert_eq!(stats.error, None, "{}", worker.job.name);
        assert!(stats.dirs[0].total_ios > 0 && stats.dirs[1].total_ios > 0);
    }
}
