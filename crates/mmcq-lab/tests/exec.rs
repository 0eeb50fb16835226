//! Unmodified programs on a simulated card: dd, Python, fio itself, and SQLite with power cuts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn mmcq(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmcq"))
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap()
}

/// One for all tests: the C library is compiled once.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-cache")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn well(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = mmcq(folder, arguments);
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}{told}");
    (said, told)
}

/// One line, and the code.
fn refused(folder: &Path, arguments: &[&str], part: &str) {
    let output = mmcq(folder, arguments);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert!(told.contains(part), "{arguments:?}: {told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
}

#[test]
fn dd_writes_and_reads_the_card_and_its_clock_is_the_cards() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    std::fs::write(folder.join("in"), &bytes).unwrap();
    let image = folder.join("card.img");
    std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
    let exec = ["exec", "--image", "card.img", "--"];
    let write = ["dd", "if=in", "of=/dev/mmcblk0", "bs=64k", "seek=3", "conv=fsync"];
    let (_, told) = well(folder, &[&exec[..], &write[..]].concat());
    assert!(told.contains("1 flushes, 0 failed"), "{told}");
    let (_, again) = well(folder, &[&exec[..], &write[..]].concat());
    assert_eq!(told, again, "dd tells how long it took, and two runs are the same");
    let read = ["dd", "if=/dev/mmcblk0", "of=out", "bs=4k", "skip=48", "count=74", "iflag=direct"];
    well(folder, &[&exec[..], &read[..]].concat());
    let out = std::fs::read(folder.join("out")).unwrap();
    assert!(out.len() == 74 * 4096 && out[..bytes.len()] == bytes, "{}", out.len());
    assert!(out[bytes.len()..].iter().all(|&byte| byte == 0));
}

#[test]
fn python_sees_a_device_sleeps_for_nothing_and_is_told_of_what_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let program = "
import os, time, threading
began = time.monotonic()
fd = os.open('/dev/mmcblk0', os.O_RDWR)
os.pwrite(fd, b'0123456789' * 99, 1020)
assert os.pread(fd, 12, 1029) == b'901234567890'
time.sleep(3600)
def work():
    for n in range(20): os.pread(fd, 512, n << 20)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
small = os.open('small', os.O_RDWR)
assert os.fstat(small).st_size == 1048576 and os.lseek(small, 0, os.SEEK_END) == 1048576
assert os.pread(small, 4, 1020) == b'0123', 'the same place'
took = time.monotonic() - began
assert 3600 < took < 3602, took
print(os.path.exists('/dev/mmcblk0'))
";
    let (said, _) = well(folder, &["exec", "--file", "small=1M", "--", "python3", "-c", program]);
    assert_eq!(said, "True\n");
    let map = "import os, mmap; fd = os.open('/dev/mmcblk0', os.O_RDWR); mmap.mmap(fd, 4096)";
    refused(folder, &["exec", "--", "python3", "-c", map], "mmap");
    refused(folder, &["exec", "--", "./absent"], "./absent: No such file");
    refused(folder, &["exec", "--file", "x=1.5", "--", "true"], "expected PATH=SIZE");
    refused(folder, &["exec", "--file", "x=9999G", "--", "true"], "do not fit the card");
    let failing = mmcq(folder, &["exec", "--", "python3", "-c", "raise SystemExit(7)"]);
    assert_eq!(failing.status.code(), Some(7));
    let no_compiler = Command::new(env!("CARGO_BIN_EXE_mmcq"))
        .args(["exec", "--", "true"])
        .env("XDG_CACHE_HOME", folder.join("other"))
        .env("CC", "no-such-compiler")
        .output()
        .unwrap();
    let told = text(&no_compiler.stderr);
    assert_eq!(no_compiler.status.code(), Some(2), "{told}");
    assert!(told.contains("expected a C compiler") && told.lines().count() == 1, "{told}");
}

/// The report of fio, or of ours, by job and direction: I/Os, milliseconds.
fn rates(report: &str) -> Vec<(u64, f64)> {
    let json: serde_json::Value =
        serde_json::from_str(report.get(report.find('{').unwrap()..).unwrap()).unwrap();
    let jobs = json["jobs"].as_array().unwrap().iter();
    jobs.flat_map(|job| {
        ["read", "write"]
            .map(|way| (job[way]["total_ios"].as_u64().unwrap(), job[way]["iops"].as_f64().unwrap()))
    })
    .collect()
}

#[test]
fn fio_itself_measures_what_our_jobs_measure_and_twice_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let jobs: [&[&'static str]; 4] = [
        &[
            "--name=a",
            "--rw=randread",
            "--bs=4k",
            "--iodepth=32",
            "--ioengine=libaio",
            "--size=8M",
            "--direct=1",
        ],
        &[
            "--name=a",
            "--rw=randwrite",
            "--bs=4k",
            "--ioengine=psync",
            "--size=2M",
            "--numjobs=3",
            "--fsync=64",
        ],
        &[
            "--name=a",
            "--rw=randread",
            "--bs=4k",
            "--ioengine=psync",
            "--rate_iops=300",
            "--runtime=2",
            "--time_based",
            "--name=b",
            "--stonewall",
            "--rw=write",
            "--bs=64k",
            "--size=16M",
            "--thinktime=500",
        ],
        &[
            "--thread",
            "--name=a",
            "--rw=read",
            "--bs=16k",
            "--ioengine=pvsync",
            "--size=8M",
            "--name=c",
            "--rw=write",
            "--bs=4k",
            "--size=1M",
        ],
    ];
    for job in jobs {
        let fio = ["fio", "--platform", "generic", "--", "--output-format=json"];
        let fio = [&fio[..], job].concat();
        let (first, told) = well(folder, &fio);
        assert_eq!((first.clone(), told), well(folder, &fio), "{job:?}");
        let run = ["run", "--platform", "generic", "--", "--output-format=json", "--filename=/dev/mmcblk0"];
        let known =
            |word: &&'static str| if *word == "--ioengine=pvsync" { "--ioengine=sync" } else { *word };
        let ours: Vec<&str> = run.iter().chain(job).map(known).collect();
        let (ours, _) = well(folder, &ours);
        let (theirs, ours) = (rates(&first), rates(&ours));
        assert_eq!(theirs.len(), ours.len());
        for (theirs, ours) in theirs.iter().zip(&ours) {
            // Of jobs with an end in time the last I/O may fall on either side.
            assert!(theirs.0.abs_diff(ours.0) <= 1, "{job:?}: {theirs:?} {ours:?}");
            assert!((theirs.1 - ours.1).abs() <= 0.005 * ours.1, "{job:?}: {theirs:?} {ours:?}");
        }
    }
}

/// At the end of its ramp a job writes to fio's helper, whose samples must not depend on when that
/// wakes.
#[test]
fn a_ramp_and_averaged_logs_are_the_same_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fio = ["fio", "--", "--output-format=json", "--name=a", "--rw=randread", "--bs=4k", "--size=16M"];
    let more = ["--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=1", "--ramp_time=1"];
    let log = ["--write_bw_log=log", "--log_avg_msec=100"];
    let run = || {
        let said = well(folder, &[&fio[..], &more, &log].concat());
        (said, std::fs::read_to_string(folder.join("log_bw.1.log")).unwrap())
    };
    let first = run();
    assert!(first.1.lines().count() >= 9, "{}", first.1);
    assert_eq!(first, run());
    assert_eq!(first, run());
}

#[test]
fn fio_verifies_what_it_wrote_and_its_log_has_our_offsets() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let job = [
        "--name=a",
        "--rw=randwrite",
        "--bs=4k",
        "--size=1M",
        "--ioengine=libaio",
        "--iodepth=4",
        "--verify=crc32c",
        "--write_lat_log=log",
        "--log_offset=1",
    ];
    let (said, _) =
        well(folder, &[&["fio", "--file", "data=4M", "--", "--filename=data"][..], &job].concat());
    assert!(said.contains("err= 0"), "{said}");
    let offsets = |name: &str| {
        let log = std::fs::read_to_string(folder.join(name)).unwrap();
        let fields =
            log.lines().map(|line| line.split(", ").skip(2).take(3).map(str::to_owned).collect::<Vec<_>>());
        let mut fields: Vec<_> = fields.collect();
        fields.sort();
        fields
    };
    let theirs = offsets("log_clat.1.log");
    assert_eq!(theirs.len(), 512, "256 writes, and as many reads that verify");
    std::fs::remove_file(folder.join("log_clat.1.log")).unwrap();
    well(folder, &[&["run", "--", "--filename=/dev/mmcblk0"][..], &job].concat());
    assert_eq!(theirs, offsets("log_clat.1.log"));
}

#[test]
fn what_fio_cannot_have_is_one_line_and_nothing_stays_behind() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (arguments, part) in [
        (&["fio", "--fio", "no-such-fio", "--", "--name=a"][..], "no-such-fio: not found; expected fio 3"),
        (&["fio", "--fio", "/bin/true", "--", "--name=a"], "expected fio-3.20"),
        (&["fio", "--", "--name=a", "--ioengine=io_uring"], "ioengine io_uring: expected one of libaio"),
        (&["fio", "--", "--name=a", "--startdelay=3"], "startdelay"),
        (&["fio", "--", "--name=a", "--filename=here"], "--file here=SIZE"),
        (&["fio", "--", "absent.fio"], "absent.fio"),
    ] {
        refused(folder, arguments, part);
    }
    let cached = ["fio", "--card", "emmc-51-full", "--setting", "none", "--"];
    let job = ["--name=a", "--rw=write", "--bs=4k", "--size=64k", "--fsync=1"];
    refused(folder, &[&cached[..], &job].concat(), "setting none on a card with a cache");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "no file of fio's");
}

/// A laboratory that is killed takes its program along, and the jobs that this forked.
#[test]
fn no_process_outlives_the_laboratory() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let program = format!(
        "import os\nos.fork()\nfd = os.open('/dev/mmcblk0', os.O_RDONLY)\nopen({:?}, 'a').write('%d\\n' % os.getpid())\n\
         while True: os.pread(fd, 512, 0)",
        pids
    );
    let mut lab = Command::new(env!("CARGO_BIN_EXE_mmcq"))
        .args(["exec", "--", "python3", "-c", &program])
        .env("XDG_CACHE_HOME", cache())
        .spawn()
        .unwrap();
    let running = || -> Vec<PathBuf> {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        text.lines().map(|pid| Path::new("/proc").join(pid)).collect()
    };
    let wait = |done: &dyn Fn() -> bool| {
        (0..6000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            done()
        })
    };
    assert!(wait(&|| running().len() == 2), "both have begun");
    lab.kill().unwrap();
    lab.wait().unwrap();
    let gone = |path: &PathBuf| {
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    assert!(wait(&|| running().iter().all(gone)), "both have ended");
}

#[test]
fn sqlite_survives_power_cuts_and_a_cache_that_lies_is_found() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/sqlite-cuts.py");
    for (more, ending) in
        [(&["--random", "6"][..], ", 0 with damage\n"), (&["--random", "0", "--lying"], " with damage\n")]
    {
        let output = Command::new("python3")
            .arg(&script)
            .args(["--mmcq", env!("CARGO_BIN_EXE_mmcq"), "--transactions", "2"])
            .args(more)
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success() && said.ends_with(ending), "{said}{}", text(&output.stderr));
        assert!(said.contains("2 transactions, 8 flushes, "), "{said}");
        assert!(!said.contains(" 0 with sectors at stake"), "{said}");
    }
}
