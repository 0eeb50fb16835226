//! Tests unmodified programs on a simulated card: dd, Python, fio itself, and SQLite with power
//! cuts.

use crate::watchdog;
use rustix::fs::{FileType, Mode};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Returns the command that runs the laboratory in this folder.
fn lab(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder).args(arguments).env("XDG_CACHE_HOME", cache());
    command
}

fn mmcq(folder: &Path, arguments: &[&str]) -> Output {
    let _alive = watchdog::watch();
    lab(folder, arguments).output().unwrap()
}

/// Cache folder of all tests, so that the C library is compiled only once.
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

/// Runs the laboratory with arguments that it must refuse. Checks for exit code 2 and one line of
/// error with this text.
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
    // `sha256sum` reads by the C library's streams; the Python program makes its descriptor direct
    // after it has opened it.
    let mut part = vec![0; out.len()];
    std::fs::File::open(&image).unwrap().read_exact(&mut part).unwrap();
    std::fs::write(folder.join("same"), &part).unwrap();
    let (theirs, _) = well(folder, &[&exec[..3], &["--file=part=296K", "--", "sha256sum", "part"]].concat());
    let here = Command::new("sha256sum").arg(folder.join("same")).output().unwrap();
    assert_eq!(theirs[..64], text(&here.stdout)[..64]);
    let direct = "import os, fcntl; fd = os.open('/dev/mmcblk0', os.O_RDWR); fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)";
    well(folder, &["exec", "--", "python3", "-c", direct]);
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
    // The program measures CPU load like the one of the SDIO thread: it counts until the clock has
    // advanced a second.
    let count = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass";
    refused(folder, &["exec", "--", "python3", "-c", count], "looks at the clock again and again");
    refused(folder, &["exec", "--", "./absent"], "./absent: No such file");
    refused(folder, &["exec", "--file", "x=1.5", "--", "true"], "expected PATH=SIZE");
    refused(folder, &["exec", "--file", "x=9999G", "--", "true"], "do not fit the card");
    let failing = mmcq(folder, &["exec", "--", "python3", "-c", "raise SystemExit(7)"]);
    assert_eq!(failing.status.code(), Some(7));
    let no_compiler = lab(folder, &["exec", "--", "true"])
        .env("XDG_CACHE_HOME", folder.join("other"))
        .env("CC", "no-such-compiler")
        .output()
        .unwrap();
    let told = text(&no_compiler.stderr);
    assert_eq!(no_compiler.status.code(), Some(2), "{told}");
    assert!(told.contains("expected a C compiler") && told.lines().count() == 1, "{told}");
    for (compiler, cache, part) in [
        ("false", folder.join("third"), "false cannot compile the C library"),
        ("cc", PathBuf::from("/dev/full"), "/dev/full/mmcq: "),
    ] {
        let output = lab(folder, &["exec", "--", "true"])
            .env("XDG_CACHE_HOME", &cache)
            .env("CC", compiler)
            .output()
            .unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part) && told.lines().count() == 1, "{told}");
        let left = std::fs::read_dir(cache.join("mmcq")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "nothing half written");
    }
}

/// Checks a shell that starts more programs, one after the other, than there are slots for jobs; a
/// program that becomes another (exec); and a child that fails to do that, which must not end its
/// parent's job.
#[test]
fn programs_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let many = "i=0; while [ $i -lt 70 ]; do dd if=/dev/mmcblk0 of=/dev/null bs=512 count=1 2>&1 || exit 1; i=$((i+1)); done";
    let (_, told) = well(folder, &["exec", "--", "sh", "-c", many]);
    assert!(told.contains(" 70 reads"), "{told}");
    let becomes = "
import os, subprocess
fd = os.open('/dev/mmcblk0', os.O_RDONLY)
os.pread(fd, 512, 0)
try: subprocess.run(['./absent'])
except FileNotFoundError: pass
os.pread(fd, 512, 512)
os.execvp('dd', ['dd', 'if=/dev/mmcblk0', 'of=/dev/null', 'bs=512', 'count=5', 'status=none'])
";
    let (_, told) = well(folder, &["exec", "--", "python3", "-c", becomes]);
    assert!(told.contains("mmcq: 0.00") && told.contains(" 7 reads"), "{told}");
    // No program opens this pipe for writing, so `cat` waits for ever; the laboratory must kill it,
    // so that the output ends.
    fifo(&folder.join("silent"));
    let orphan = "cat silent & dd if=/dev/mmcblk0 of=/dev/null bs=512 count=1 status=none";
    well(folder, &["exec", "--", "sh", "-c", orphan]);
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Checks a program that uses libaio directly: one context after the other, the first destroyed
/// with I/Os under way.
#[test]
fn contexts_of_libaio_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let source = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
struct iocb { uint64_t data; uint32_t key; int32_t flags; uint16_t op; int16_t priority; uint32_t fd;
              uint64_t buffer, bytes; int64_t offset; uint64_t unused[2]; };
struct event { uint64_t data, object; int64_t result, result2; };
static char data[2][8][4096];
int main(int count, char **words) {
  int (*io_setup)(int, void **) = dlsym(RTLD_DEFAULT, "io_setup");
  int (*io_destroy)(void *) = dlsym(RTLD_DEFAULT, "io_destroy");
  int (*io_submit)(void *, long, struct iocb **) = dlsym(RTLD_DEFAULT, "io_submit");
  int (*io_getevents)(void *, long, long, struct event *, void *) = dlsym(RTLD_DEFAULT, "io_getevents");
  void *context[2] = {0, 0};
  struct iocb io[2][8], *list[2][8];
  struct event events[8];
  int fd = open("/dev/mmcblk0", O_RDWR);
  for (int c = 0; c < 2; c++) {
    if (io_setup(8, &context[c])) return 3;
    for (int i = 0; i < 8; i++) {
      memset(data[c][i], 'a' + c, 4096);
      io[c][i] = (struct iocb){c * 8 + i, 0, 0, c ? 0 : 1, 0, fd, (uintptr_t)data[c][i], 4096, i * 4096, {0, 0}};
      list[c][i] = &io[c][i];
    }
    if (io_submit(context[c], 8, list[c]) != 8) return 4;
    if (c == 0 && count == 1 && io_destroy(context[0])) return 5;
  }
  if (io_getevents(context[1], 8, 8, events, 0) != 8) return 6;
  for (int i = 0; i < 8; i++)
    if (events[i].result != 4096 || events[i].data < 8 || data[1][i][4095] != 'a') return 7;
  return io_destroy(context[1]);
}"#;
    std::fs::write(folder.path().join("a.c"), source).unwrap();
    let built =
        Command::new("cc").args(["-o", "a", "a.c", "-ldl"]).current_dir(folder.path()).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let (_, told) = well(folder.path(), &["exec", "--", "./a"]);
    assert!(told.contains(" 8 reads") && told.contains(" 8 writes"), "{told}");
    refused(folder.path(), &["exec", "--", "./a", "both"], "two libaio contexts of one thread");
}

/// Waits until this number of processes have written to the laboratory's output that they have
/// begun.
fn begun(output: &mut impl BufRead, processes: usize) {
    for _ in 0..processes {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
    }
}

fn signal(lab: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &lab.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Reads a pipe to its end, which comes when all processes that could write to it have ended.
fn rest(mut pipe: impl Read) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn an_interrupted_program_ends_and_leaves_nothing_behind() {
    let _alive = watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let reads = "import os\nos.fork()\nfd = os.open('/dev/mmcblk0', os.O_RDONLY)\nos.pread(fd, 512, 0)\n\
                 os.write(1, b'begun\\n')\nwhile True: os.pread(fd, 512, 0)";
    let hears = "import os, signal\nsignal.signal(signal.SIGINT, lambda *_: os.write(1, b'begun\\n'))\n";
    let deaf = format!("{hears}{reads}");
    let shell = "while dd if=/dev/mmcblk0 of=/dev/null bs=512 count=1 status=none; do echo begun; done & cat";
    let job =
        "fio -- --name=a --rw=randwrite --bs=4k --numjobs=2 --time_based --runtime=1000000 --write_iolog=log";
    let job: Vec<&str> = job.split(' ').collect();
    let runs: [(&[&str], &str, i32, &str); 4] = [
        (&["exec", "--", "python3", "-c", reads], "INT", 130, ""),
        (&["exec", "--", "python3", "-c", &deaf], "INT", 130, ""),
        (&["exec", "--", "sh", "-c", shell], "TERM", 143, ""),
        (&job, "INT", 130, "fio: terminating on signal 2"),
    ];
    let log = folder.path().join("log");
    fifo(&log);
    // The first run compiles the C library, so that later runs start quickly.
    well(folder.path(), &["exec", "--", "true"]);
    for (arguments, name, code, part) in runs {
        let mut lab = lab(folder.path(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // While this pipe is open, the shell's `cat` waits for its end.
        let held = lab.stdin.take();
        let mut output = BufReader::new(lab.stdout.take().unwrap());
        let logged = (arguments[0] == "fio").then(|| {
            let mut log = std::fs::File::open(&log).unwrap();
            log.read_exact(&mut [0]).unwrap();
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()))
        });
        if logged.is_none() {
            begun(&mut output, 2);
        }
        signal(&lab, name);
        if arguments.contains(&deaf.as_str()) {
            // The signal was forwarded, and the program has ignored it. A second signal kills the
            // program.
            begun(&mut output, 1);
            signal(&lab, name);
        }
        let (said, told) = (rest(output), rest(lab.stderr.take().unwrap()));
        logged.map(|log| log.join().unwrap().unwrap());
        assert_eq!(lab.wait().unwrap().code(), Some(code), "{arguments:?}: {said}{told}");
        assert!(said.contains(part), "{arguments:?}: {said}{told}");
        drop(held);
    }
    std::fs::remove_file(log).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Checks that a power cut leaves a sector that was being programmed old, new, or half of each, and
/// every other sector old or new.
#[test]
fn a_cut_in_the_middle_of_a_write_tears_what_is_programmed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image = folder.join("card.img");
    let (mut torn_all, mut cuts) = (0, 0);
    for seed in 1..=8 {
        let card = std::fs::File::create(&image).unwrap();
        card.set_len(1 << 30).unwrap();
        let program = "
import os
fd = os.open('/dev/mmcblk0', os.O_RDWR)
for n in range(64): os.pwrite(fd, b'N' * (1 << 18), n << 18)
";
        let seed = seed.to_string();
        let cut = ["exec", "--image", "card.img", "--seed", &seed, "--cut-at", "9000", "--", "python3", "-c"];
        let (_, told) = well(folder, &[&cut[..], &[program]].concat());
        let number = |before: &str| -> usize {
            let words = told.split(before).next().unwrap();
            words.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{told}"))
        };
        let mut bytes = vec![0; 64 << 18];
        std::fs::File::open(&image).unwrap().read_exact(&mut bytes).unwrap();
        let mut torn = 0;
        for sector in bytes.chunks(512) {
            let (first, second) = sector.split_at(256);
            assert!(first.iter().all(|b| *b == first[0]) && second.iter().all(|b| *b == second[0]));
            assert!(first[0] == second[0] || (first[0], second[0]) == (b'N', 0));
            torn += usize::from(first[0] != second[0]);
        }
        assert_eq!(torn, number(" are half new"), "{told}");
        torn_all += torn;
        cuts += usize::from(number(" sectors were") > 0);
    }
    assert!(torn_all > 0 && cuts > 0, "{torn_all} {cuts}");
}

/// Returns the number of I/Os and the I/Os per second of each job and direction in a report of fio
/// or of the laboratory.
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
        // Several jobs share a flush, and microseconds decide which job asks first and waits
        // longest. So the tolerance is larger.
        let share = if job.iter().any(|word| word.starts_with("--fsync")) { 0.01 } else { 0.005 };
        for (theirs, ours) in theirs.iter().zip(&ours) {
            // If jobs end at a fixed time, the last I/O may be before or after that time.
            assert!(theirs.0.abs_diff(ours.0) <= 1, "{job:?}: {theirs:?} {ours:?}");
            assert!((theirs.1 - ours.1).abs() <= share * ours.1, "{job:?}: {theirs:?} {ours:?}");
        }
        let sum = |rates: &[(u64, f64)]| rates.iter().map(|rate| rate.1).sum::<f64>();
        assert!((sum(&theirs) - sum(&ours)).abs() <= 0.005 * sum(&ours), "{job:?}: {theirs:?} {ours:?}");
    }
}

/// Checks that fio's reports and averaged logs are the same in each run, whenever fio's helper
/// thread wakes up to take its samples. At the end of its ramp time, a job also writes to the
/// helper thread.
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

/// Checks job files like fio's examples: [global] has a name, and `numjobs` makes many jobs.
#[test]
fn job_files_with_a_common_name_and_with_many_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let job = "[global]\nname=common\nfilename=data\nrw=randread\nnumjobs=4\nsize=64k\n[a]\n[b]\nbs=8k\n";
    std::fs::write(folder.join("a.fio"), job).unwrap();
    let (_, told) = well(folder, &["fio", "--file", "data=1M", "--", "a.fio"]);
    assert!(told.contains(&format!(" {} reads (0.50 MiB)", 4 * 16 + 4 * 8)), "{told}");
    let mixed = ["fio", "--file", "data=1M", "--", "--name=a", "--filename=data", "--size=64k", "--name=b"];
    refused(folder, &mixed, "job b: no filename, and others have one");
    let mut many = vec!["fio", "--", "--size=4k", "--stonewall"];
    many.extend(std::iter::repeat_n("--name=a", 70));
    let (_, told) = well(folder, &many);
    assert!(told.contains(" 70 reads"), "{told}");
    let wrong = mmcq(folder, &["fio", "--", "--name=a", "--bs=none"]);
    assert!(!wrong.status.success() && text(&wrong.stderr).contains("bs"), "{}", text(&wrong.stderr));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "no file of fio's");
}

#[test]
fn what_fio_cannot_have_is_one_line_and_nothing_stays_behind() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (arguments, part) in [
        (&["fio", "--fio", "no-such-fio", "--", "--name=a"][..], "no-such-fio: not found; expected fio 3"),
        (&["fio", "--fio", "/bin/true", "--", "--name=a"], "expected fio-3.20"),
        (&["fio", "--", "--name=a", "--ioengine=io_uring"], "ioengine io_uring: expected one of libaio"),
        (
            &["fio", "--", "--name=a", "--ioengine=null", "--size=1m", "--time_based", "--runtime=1"],
            "ioengine null: expected one of libaio",
        ),
        (&["fio", "--", "--name=a", "--startdelay=3"], "startdelay"),
        (&["fio", "--", "--name=a", "--thinktime=9", "--thinktime_spin=9"], "fio's thinktime_spin: no time"),
        (&["fio", "--", "--name=a", "--flow=3", "--name=b", "--flow=1"], "fio's flow: no time passes"),
        (
            &["fio", "--", "--name=a", "--ioengine=libaio", "--iodepth=300"],
            "fio's iodepth 300, job a: expected",
        ),
        (&["fio", "--", "--name=a", "--filename=here"], "--file here=SIZE"),
        (&["fio", "--", "absent.fio"], "absent.fio"),
    ] {
        refused(folder, arguments, part);
    }
    let long = ["fio", "--file", "data=1M", "--", "--name=a", "--filename=data", "--size=2M", "--rw=write"];
    let output = mmcq(folder, &long);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("mmcq: fio wants to make a file of the card longer than it is"), "{told}");
    let cached = ["fio", "--card", "emmc-51-full", "--setting", "none", "--"];
    let job = ["--name=a", "--rw=write", "--bs=4k", "--size=64k", "--fsync=1"];
    let (_, told) = well(folder, &[&cached[..], &job].concat());
    assert!(told.contains("16 writes (0.06 MiB), 15 flushes"), "{told}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "no file of fio's");
}

/// Checks that, if the laboratory is killed, its program and all processes that the program forked
/// end, too.
#[test]
fn no_process_outlives_the_laboratory() {
    let _alive = watchdog::watch();
    let folder = tempfile::tempdir().unwrap();
    let program = "import os\nos.fork()\nfd = os.open('/dev/mmcblk0', os.O_RDONLY)\nos.write(1, b'begun\\n')\n\
                   while True: os.pread(fd, 512, 0)";
    let exec = ["exec", "--", "python3", "-c", program];
    let mut lab = lab(folder.path(), &exec).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(lab.stdout.take().unwrap());
    begun(&mut output, 2);
    lab.kill().unwrap();
    lab.wait().unwrap();
    rest(output);
}

#[test]
fn sqlite_survives_power_cuts_and_a_cache_that_lies_is_found() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/sqlite-cuts.py");
    for (more, ending, flushes) in [
        (&["--random", "6"][..], ", 0 with damage\n", 8),
        (&["--random", "0", "--lying"], " with damage\n", 8),
        (&["--random", "4", "--journal", "wal"], ", 0 with damage\n", 5),
        (&["--random", "4", "--journal", "wal-exclusive"], ", 0 with damage\n", 5),
        (&["--random", "0", "--journal", "wal", "--lying"], " with damage\n", 5),
    ] {
        let output = Command::new("python3")
            .arg(&script)
            .args(["--mmcq", env!("CARGO_BIN_EXE_mmcq"), "--transactions", "2"])
            .args(more)
            .env("XDG_CACHE_HOME", cache())
            .output()
            .unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success() && said.ends_with(ending), "{said}{}", text(&output.stderr));
        assert!(said.contains(&format!("2 transactions, {flushes} flushes, ")), "{said}");
        assert!(!said.contains(" 0 with sectors at stake"), "{said}");
    }
}
