//! Tests contents and reports against the installed fio and Python. Each test prints when it is
//! skipped.

use mmcq_lab::fio::report::{Context, FORMAT_VERSION, Report, json};
use mmcq_lab::fio::state::{JobState, Next, Times};
use mmcq_lab::fio::stats::Cpu;
use mmcq_lab::fio::{Dir, System, Worker, expand, parse_command_line};
use std::path::Path;
use std::process::{Command, Stdio};

fn installed(program: &str, start: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|v| String::from_utf8_lossy(&v.stdout).starts_with(start));
    if !found {
        println!("skipped: {start} is not installed");
    }
    found
}

fn worker(options: &[String]) -> Worker {
    let jobs = parse_command_line(options, &System).unwrap_or_else(|e| panic!("{e}"));
    expand(&jobs.jobs).expect("one worker").remove(0)
}

/// Runs a worker to its end on an image in memory. Returns its state and the time in ns.
fn run(worker: &Worker, image: &mut [u8]) -> (JobState, u64) {
    let mut state = JobState::new(worker, &[image.len() as u64], 1).expect("a job that fits");
    let mut now = 1_000_000;
    loop {
        let times = Times { start_ns: now, issue_ns: now, complete_ns: now + 1000 };
        match state.next(now) {
            Next::Io(io) => {
                let place = io.offset as usize..(io.offset + io.bytes) as usize;
                if io.dir == Dir::Write {
                    state.fill(&io, now, &mut image[place.clone()]);
                }
                state.complete(&io, times, Ok(io.bytes), Some(&image[place]));
            }
            Next::Sync(sync) => state.complete_sync(&sync, times, Ok(())),
            Next::Wait(_) | Next::AfterCompletion => panic!("nothing to wait for"),
            Next::Done => return (state, now),
        }
        now += 1000;
    }
}

const KINDS: [&str; 6] = [
    "--verify=meta",
    "--verify=crc7",
    "--verify=crc16",
    "--verify=crc32",
    "--verify=crc32c",
    "--verify=pattern --verify_pattern=0xdeadbeef",
];

fn options(path: &Path, rest: &str) -> Vec<String> {
    let mut list =
        vec!["--name=a".to_string(), format!("--filename={}", path.display()), "--size=256k".to_string()];
    list.extend(rest.split(' ').map(str::to_string));
    list
}

#[test]
fn fio_accepts_what_we_wrote() {
    if !installed("fio", "fio-3.33") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    for kind in KINDS {
        // One kind of verification is tested with all block sizes and orders. One of each is enough
        // for the others, since all have the same header.
        let all = kind == "--verify=crc32c";
        for shape in ["--bs=4k", "--bs=64k", "--bsrange=2k-16k"].into_iter().take(if all { 3 } else { 1 }) {
            for order in ["write", "randwrite"].into_iter().take(if all { 2 } else { 1 }) {
                let mut image = vec![0; 262_144];
                let (state, _) =
                    run(&worker(&options(&path, &format!("--rw={order} {shape} {kind}"))), &mut image);
                assert_eq!(state.stats().error, None);
                let read = format!("--rw={} {shape} {kind}", order.replace("write", "read"));
                let accepts = |image: &[u8]| {
                    std::fs::write(&path, image).expect("an image");
                    let arguments = options(&path, &read);
                    let fio = Command::new("fio").current_dir(folder.path()).args(arguments).output();
                    let fio = fio.expect("fio runs");
                    // fio reports a failure of the last block only in its text, not by its exit
                    // code.
                    let text = [fio.stdout, fio.stderr].concat();
                    fio.status.success() && !String::from_utf8_lossy(&text).contains("verify")
                };
                assert!(accepts(&image), "{read}");
                image[70_000] ^= 4;
                // With `meta`, the header has no checksum of the data, so the damage is not found.
                assert_eq!(accepts(&image), kind == "--verify=meta", "spoiled, {read}");
            }
        }
    }
}

#[test]
fn we_accept_what_fio_wrote() {
    if !installed("fio", "fio-3.33") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    for kind in KINDS {
        for shape in ["--bs=4k", "--bsrange=2k-16k"] {
            std::fs::File::create(&path).and_then(|f| f.set_len(262_144)).expect("a sparse file");
            let write = options(&path, &format!("--rw=randwrite {shape} {kind} --do_verify=0"));
            let fio = Command::new("fio").current_dir(folder.path()).args(write).output().expect("fio runs");
            assert!(fio.status.success());
            let mut image = std::fs::read(&path).expect("an image");
            let read = worker(&options(&path, &format!("--rw=randread {shape} {kind}")));
            let (state, _) = run(&read, &mut image);
            assert_eq!(state.verify_errors(), [], "{shape} {kind}");
            image[70_000] ^= 4;
            let (state, _) = run(&read, &mut image);
            assert_eq!(state.verify_errors().is_empty(), kind == "--verify=meta", "{shape} {kind}");
        }
    }
}

#[test]
fn python_reads_our_json() {
    if !installed("python3", "Python 3") {
        return;
    }
    let worker = worker(&options(Path::new("f\"\\é"), "--rw=randrw --bs=4k --description=a\"b\\c"));
    let (mut state, now) = run(&worker, &mut vec![0; 262_144]);
    let stats = state.finish(now, Cpu::default());
    let context = Context {
        version: FORMAT_VERSION.to_string(),
        timestamp_ms: 0,
        elapsed_ns: 1,
        global_options: vec![("bs".to_string(), "4k".to_string())],
        origin: None,
    };
    let text = json::json(&Report::new(context, vec![(worker, stats)], Vec::new()), true);
    let script = "import json,sys; r=json.load(sys.stdin); j=r['jobs'][0]; \
                  o=r['global options']; \
                  print(j['read']['total_ios']+j['write']['total_ios'], j['desc'], o['bs'])";
    let mut python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut python.stdin.take().expect("a pipe"), text.as_bytes()).expect("written");
    let output = python.wait_with_output().expect("python ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "64 a\"b\\c 4k");
}

#[test]
fn the_key_list_is_fios() {
    if !installed("fio", "fio-3.33") {
        return;
    }
    let output = Command::new("fio")
        .args(["--name=a", "--ioengine=null", "--rw=randrw", "--size=1m", "--output-format=json+"])
        .output()
        .expect("fio runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in include_str!("fio_golden/json_keys.txt").lines() {
        // fio's null engine does no flushes.
        if !key.starts_with("/jobs/*/sync/lat_ns/") {
            // Path with escaped parts: a separator is a slash that is not escaped.
            let path = key.replace("/*/", "/0/");
            assert!(report.pointer(&path).is_some(), "{path}");
        }
    }
}

/// Runs jobs over files of their own, whose sizes `filesize=` draws.
#[test]
fn files_of_their_own_have_the_sizes_that_fio_draws() {
    if !installed("fio", "fio-3.33") {
        return;
    }
    for options in [
        "--rw=write --filesize=2m --size=50%",
        "--rw=write --nrfiles=3 --filesize=16k-64k --size=200k",
        "--rw=randwrite --nrfiles=5 --filesize=16k-64k",
        "--rw=write --filesize=100k-300k --size=50% --numjobs=2",
        "--rw=write --nrfiles=2 --filesize=64k-1m --randseed=77 --numjobs=2",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |mut command: Command| -> Vec<u64> {
            let words = ["--output-format=json", "--name=a", "--bs=4k"].into_iter().chain(options.split(' '));
            let output = command.current_dir(folder.path()).args(words).output().expect("it runs");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{options}: {told}");
            let text = String::from_utf8(output.stdout).expect("a report");
            let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let jobs = report["jobs"].as_array().expect("jobs").iter();
            jobs.map(|job| job["write"]["total_ios"].as_u64().expect("a number")).collect()
        };
        let mut ours = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        ours.current_dir(folder.path()).args(["-q", "run", "--"]);
        assert_eq!(of(ours), of(Command::new("fio")), "{options}");
    }
}

/// Runs two job files in one command, of which the first has defaults.
#[test]
fn two_job_files_are_two_groups_as_in_fio() {
    if !installed("fio", "fio-3.33") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a job file");
    file("a.fio", "[global]\nbs=8k\nsize=64k\nrw=randread\nioengine=null\n[a]\n");
    file("b.fio", "[b]\nsize=32k\nioengine=null\n");
    let entries = |mut command: Command| -> Vec<(String, u64, u64)> {
        let output = command
            .current_dir(folder.path())
            .args(["--output-format=json", "--bs=16k", "a.fio", "b.fio"])
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let jobs = report["jobs"].as_array().expect("jobs").iter();
        let of = |job: &serde_json::Value| {
            let number = |value: &serde_json::Value| value.as_u64().expect("a number");
            (job["jobname"].to_string(), number(&job["groupid"]), number(&job["read"]["total_ios"]))
        };
        jobs.map(of).collect()
    };
    let mut ours = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    ours.current_dir(folder.path()).args(["run", "--"]);
    let theirs = entries(Command::new("fio"));
    assert_eq!(entries(ours), theirs);
    assert_eq!(theirs.len(), 2);
}
