//! Tests the order of transfers against fio 3.33: first against recorded orders, then against fio
//! itself where it is installed.
//!
//! The records are the `queue:` lines of `fio --name=a --filename=F0:F1.. --debug=io OPTIONS` on
//! sparse files. A record begins with a line of the files' sizes in bytes (with commas) and the
//! options. Then it has up to 256 steps: `rF:OFFSET+LENGTH` (read of file F; offset and length are
//! hexadecimal), `wF:OFFSET+LENGTH` (write), `sF` (fsync) or `dF` (fdatasync). At its end is `= `
//! and the number of all steps, or `= any` for a job that ends at a fixed time.

use crate::cases;
use mmcq_lab::fio::offsets::extent;
use mmcq_lab::fio::state::{Io, JobState, Next, Times};
use mmcq_lab::fio::{Dir, System, expand, parse_command_line};

const RECORDS: &str = include_str!("fio_golden/offsets.txt");

/// Runs a job in which every transfer takes a microsecond, and which reads back what it wrote.
/// Returns the job's steps in the form of the records.
fn steps_of(sizes: &[u64], files: &[String], options: &[&str]) -> Vec<String> {
    let mut args = vec!["--name=a".to_string(), format!("--filename={}", files.join(":"))];
    args.extend(options.iter().map(|o| o.to_string()));
    let jobs = parse_command_line(&args, &System).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let workers = expand(&jobs.jobs).expect("few workers");
    let mut state = JobState::new(&workers[0], sizes, 1).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    let mut images: Vec<Vec<u8>> = sizes.iter().map(|s| vec![0; *s as usize]).collect();
    let (mut steps, mut now) = (Vec::new(), 0);
    loop {
        let times = Times { start_ns: now, issue_ns: now, complete_ns: now + 1000 };
        match state.next(now) {
            Next::Io(io) => {
                let Io { dir, file, offset, bytes, .. } = io;
                let word = if dir == Dir::Read { 'r' } else { 'w' };
                steps.push(format!("{word}{file}:{offset:x}+{bytes:x}"));
                let place = offset as usize..(offset + bytes) as usize;
                if dir == Dir::Write {
                    state.fill(&io, now, &mut images[file][place.clone()]);
                }
                state.complete(&io, times, Ok(bytes), Some(&images[file][place]));
            }
            Next::Sync(sync) => {
                steps.push(format!("{}{}", if sync.data_only { 'd' } else { 's' }, sync.file));
                state.complete_sync(&sync, times, Ok(()));
            }
            Next::Wait(until_ns) => now = until_ns,
            Next::AfterCompletion => panic!("nothing is outstanding"),
            Next::Done => break,
        }
        now += 1000;
        assert!(steps.len() < 500_000, "{options:?} does not end");
    }
    assert_eq!(state.verify_errors(), [], "{options:?}");
    steps
}

fn names(count: usize, folder: &str) -> Vec<String> {
    (0..count).map(|i| format!("{folder}/f{i}")).collect()
}

fn head(line: &str) -> (Vec<u64>, Vec<&str>) {
    let mut words = line.split(' ');
    let sizes = words.next().expect("sizes").split(',').map(|s| s.parse().expect("a size")).collect();
    (sizes, words.collect())
}

#[test]
fn recorded_orders() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for record in RECORDS.split("\n\n") {
        let (line, rest) = record.split_once('\n').expect("a record");
        let (steps, total) = rest.split_once("= ").expect("a total");
        let wanted: Vec<&str> = steps.split_whitespace().collect();
        // The number of steps is not recorded for a job that ends at a fixed time.
        let total: Option<usize> = (total.trim() != "any").then(|| total.trim().parse().expect("a number"));
        let (sizes, options) = head(line);
        let found = steps_of(&sizes, &names(sizes.len(), "/x"), &options);
        seen += 1;
        if let Some(i) = (0..wanted.len()).find(|i| found.get(*i).map(String::as_str) != Some(wanted[*i])) {
            let from = i.saturating_sub(3);
            let end = |n: usize| (i + 4).min(n);
            wrong.push(format!(
                "{line}\n  step {i}\n  fio  {:?}\n  ours {:?}",
                &wanted[from..end(wanted.len())],
                &found[from.min(found.len())..end(found.len())]
            ));
        } else if total.is_some_and(|total| found.len() != total) {
            wrong.push(format!("{line}\n  {} steps, fio has {total:?}", found.len()));
        }
    }
    assert!(seen > 80, "only {seen} records");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs fio itself on sparse files with these options. Returns fio's steps in the form of the
/// records.
fn fio_steps(folder: &std::path::Path, sizes: &[u64], options: &[&str]) -> Vec<String> {
    let files = names(sizes.len(), &folder.display().to_string());
    for (name, bytes) in files.iter().zip(sizes) {
        std::fs::File::create(name).and_then(|f| f.set_len(*bytes)).expect("a sparse file");
    }
    let output = std::process::Command::new("fio")
        .current_dir(folder)
        .args(["--name=a", "--debug=io", &format!("--filename={}", files.join(":"))])
        .args(options)
        .output()
        .expect("fio runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let step = |line: &str| {
        let rest = line.split_once("queue: io_u ")?.1;
        let field = |name: &str| Some(rest.split_once(name)?.1.split(',').next()?.to_string());
        let file = field("file=")?;
        let file = files.iter().position(|f| *f == file.trim())?;
        let hex = |text: String| text.trim_start_matches("0x").to_string();
        let place = format!("{file}:{}+{}", hex(field("off=")?), hex(field("len=")?));
        Some(match field("ddir=")?.as_str() {
            "0" => format!("r{place}"),
            "1" => format!("w{place}"),
            "3" => format!("s{file}"),
            _ => format!("d{file}"),
        })
    };
    text.lines().filter_map(step).collect()
}

#[test]
fn orders_of_the_installed_fio() {
    let version = std::process::Command::new("fio").arg("--version").output();
    if !version.is_ok_and(|v| v.stdout.starts_with(b"fio-3.33")) {
        println!("skipped: fio 3.33 is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut cases: Vec<(Vec<u64>, String)> = Vec::new();
    // Combinations of options without a record, chosen by a fixed sequence.
    let choices: [&[&str]; 5] = [
        &["--rw=read", "--rw=randread", "--rw=randrw", "--rw=rw", "--rw=randwrite", "--rw=randread:3"],
        &["--bs=4k", "--bs=2k,8k", "--bsrange=1k-6k", "--bssplit=1k/30:4k/50:16k/", "--bs=3000"],
        &["--size=96k", "--size=100000", "--size=25%", "--offset=25% --size=50000"],
        &["--loops=2", "--io_size=250k", "--norandommap", "--rwmixread=80", "--randrepeat=0 --randseed=123"],
        &["--fsync=5", "--number_ios=30", "--allrandrepeat=1", "--end_fsync=1"],
    ];
    for case in 0..cases::rounds(3, 24) as usize {
        let pick = |list: &'static [&str], by: usize| list[case * by % list.len()];
        let words: Vec<&str> = choices.iter().zip([1, 3, 3, 2, 1]).map(|(list, by)| pick(list, by)).collect();
        cases.push((if case % 3 == 0 { vec![262_144; 2] } else { vec![524_288] }, words.join(" ")));
    }
    // Jobs with random draws, and jobs that read back in between.
    for line in [
        "--rw=randread --bs=4k --random_generator=lfsr",
        "--rw=randwrite --bs=4k --random_generator=lfsr --loops=2",
        "--rw=randrw --bs=4k --size=100000 --random_generator=lfsr",
        "--rw=randread --bs=4k --random_generator=tausworthe64",
        "--rw=randrw --bs=2k --norandommap --random_generator=tausworthe64 --randrepeat=0 --randseed=9",
        "--rw=randread --bs=4k --random_distribution=zoned:50/5:30/15:20/ --norandommap",
        "--rw=randread --bs=4k --random_distribution=zoned:60/10:40/90 --number_ios=60",
        "--rw=randread --bs=4k --random_distribution=zoned_abs:60/64k:40/256k --norandommap",
        "--rw=randread --bs=4k --random_distribution=zipf:0.5 --randrepeat=0 --randseed=5",
        "--rw=randwrite --bs=4k --random_distribution=zipf:1.2:0.3 --randrepeat=0 --randseed=6",
        "--rw=randread --bs=4k --random_distribution=pareto:0.3 --randrepeat=0 --randseed=5",
        "--rw=randread --bs=4k --random_distribution=normal:0 --randrepeat=0 --randseed=5",
        "--rw=randread --bs=4k --random_distribution=normal:20 --randrepeat=0 --randseed=5",
        "--rw=randread --bs=4k --random_distribution=normal:20:0.3 --randrepeat=0 --randseed=5",
        "--rw=write --bs=4k --verify=crc32c --verify_backlog=5",
        "--rw=randwrite --bs=4k --verify=crc32c --verify_backlog=8 --verify_backlog_batch=3",
        "--rw=randwrite --bs=8k --verify=meta --verify_interval=512 --verify_backlog=1",
        "--rw=randread --bs=4k --filesize=128k",
        "--rw=write --bs=4k --filesize=64k-256k",
        "--rw=write --bs=4k --filesize=128k --size=50%",
        "--rw=read --bs=4k --filesize=64k-256k --size=25%",
        "--rw=read --bs=4k --filesize=128k --size=50% --offset=32k",
        "--rw=write:-8k --bs=4k --offset=128k --size=256k",
        "--rw=read:-8k --bs=4k --offset=256k --size=128k",
        "--rw=read:-4k --bs=4k --offset=64k --size=256k --number_ios=100",
        "--rw=read:-8k --bs=4k --size=256k",
        // All numbers of 64 bits, not those of the offsets alone.
        "--rw=randread --bsrange=1k-8k --random_generator=tausworthe64",
        "--rw=randwrite --bssplit=4k/50:16k/30:8k/20 --random_generator=tausworthe64",
        // A job that collects completions ends a pass by its bytes.
        "--rw=randrw:5 --bs=4k --size=100k --loops=3 --ioengine=libaio",
        "--rw=randread --bs=4k --size=128k --io_size=300k --norandommap --ioengine=libaio",
        "--rw=randwrite --bs=4k --size=128k --io_size=300k --norandommap --ioengine=libaio",
        // The largest block of both directions, even if one has no transfers.
        "--rw=write --bssplit=4k/50:16k/50,8k/100 --size=300k --io_size=600k",
        // A share of the files, not of the pass.
        "--rw=randwrite --bs=12k --size=300k --io_size=50%",
        "--rw=read --bs=4k --size=200k --io_size=25% --loops=2",
        // Written blocks are read back in order where fio keeps no map of them.
        "--rw=randwrite --bs=4k --size=128k --random_generator=lfsr --verify=crc32c",
        "--rw=randwrite --bs=4k --random_distribution=zoned:50/10:50/90 --verify=crc32c",
        "--rw=randwrite --bs=4k --random_distribution=zoned:50/10:50/90 --verify=crc32c --verify_backlog=6",
    ] {
        cases.push((vec![524_288], line.to_string()));
    }
    let mut wrong = Vec::new();
    for (sizes, line) in &cases {
        let options: Vec<&str> = line.split(' ').collect();
        let (fio, ours) =
            (fio_steps(folder.path(), sizes, &options), steps_of(sizes, &names(sizes.len(), "/x"), &options));
        if fio != ours {
            let i = (0..fio.len().max(ours.len())).find(|i| fio.get(*i) != ours.get(*i)).unwrap_or(0);
            wrong.push(format!(
                "{sizes:?} {line}\n  step {i}: fio {:?} of {}, ours {:?} of {}",
                fio.get(i),
                fio.len(),
                ours.get(i),
                ours.len()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Checks where the copies of a job begin if their distance, or their offset, is a share of the
/// file: at the next whole block, as in fio 3.33.
#[test]
fn shares_of_a_file_begin_at_whole_blocks() {
    for (options, expected) in [
        ("--offset_increment=33%", [0, 5_537_792, 11_075_584]),
        ("--offset=1% --offset_increment=33%", [167_936, 5_705_728, 11_243_520]),
        ("--offset=1% --offset_increment=1000", [167_936, 172_032, 172_032]),
        ("--offset_increment=1000", [0, 1000, 2000]),
    ] {
        let args = ["--name=a", "--bs=4k", "--size=64k"].into_iter().chain(options.split(' '));
        let args: Vec<String> = args.map(str::to_owned).collect();
        let jobs = parse_command_line(&args, &System).expect("a job");
        let starts = [0, 1, 2]
            .map(|subjob| extent(&jobs.jobs[0], subjob, &[16 << 20], 1).expect("an extent").regions[0].start);
        assert_eq!(starts, expected, "{options}");
    }
}
