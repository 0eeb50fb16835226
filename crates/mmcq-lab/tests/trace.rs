//! Tests `mmcq trace` as its users see it: what it writes, that it repeats exactly, and what it
//! refuses.

use crate::job_folder::JobFolder;
use crate::judges::{self, text};
use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{self, Run, Setting};
use mmcq_lab::trace::{self, Start, Window};
use std::process::{Command, Output};

const JOB: &str =
    "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=64k\nrw=randread\nioengine=libaio\niodepth=4\n";

/// Temporary folder with the test's job.
struct Folder(JobFolder);

impl Folder {
    fn new() -> Self {
        Folder(JobFolder::new(JOB))
    }

    fn trace(&self, options: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.folder()).args(["trace", "job.fio"]);
        command.args(options.split_whitespace()).output().unwrap()
    }

    fn accepted(&self, options: &str) -> String {
        let output = self.trace(options);
        assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `mmcq trace` with options that it must refuse. Checks for exit code 2, one line of
    /// error with all of these texts, and no new file.
    #[track_caller]
    fn refused(&self, options: &str, expected: &[&str]) {
        let output = self.trace(&format!("{options} --svg left.svg"));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options}: {text}");
        assert!(output.stdout.is_empty(), "{options}");
        assert_eq!(text.lines().count(), 1, "{options}: {text}");
        for part in expected {
            assert!(text.contains(part), "{options}: {text:?} does not name {part:?}");
        }
        assert!(!self.0.path("left.svg").exists(), "{options}");
    }
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing_behind() {
    let folder = Folder::new();
    for (options, expected) in [
        ("--trigger dma", &["trigger dma", "expected bringup, irq or cmd="][..]),
        ("--trigger cmd=64", &["cmd=64", "0 to 63"]),
        ("--trigger cmd=18,n=1000", &["cmd=18,n=1000", "expected at least 1000"]),
        ("--trigger cmd=25", &["cmd=25", "it comes 0 times"]),
        ("--from 100s", &["window from 100 s", "the run ends"]),
        ("--from 5", &["--from: time 5", "250us"]),
        ("--for 0us", &["--for 0"]),
        ("--for 3parsecs", &["--for: time 3parsecs"]),
        ("--vcd nowhere/w.vcd", &["--vcd nowhere/w.vcd"]),
        ("--platform generic --card nothing", &["card nothing: unknown"]),
        ("--setting nothing", &["nothing"]),
    ] {
        if options.starts_with("--setting") {
            // The parser of the command line writes its own error text.
            assert_eq!(folder.trace(options).status.code(), Some(2));
        } else {
            folder.refused(options, expected);
        }
    }
}

#[test]
fn a_window_is_limited_before_it_fills_the_disk() {
    let folder = Folder::new();
    // The job sleeps for a second between two reads, while the bus clock runs at 200 MHz.
    let lazy = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=8k\nrw=read\nthinktime=1s\n";
    std::fs::write(folder.0.path("job.fio"), lazy).unwrap();
    folder.refused(
        "--platform hsq-sprd --for 1s --vcd w.vcd",
        &["clock cycles", "a shorter --for, or --clk gated"],
    );
    assert!(!folder.0.path("w.vcd").exists());
    // Without a waveform, any length is allowed.
    folder.accepted("--platform hsq-sprd --for 1s");
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folder = Folder::new();
    let once = |name: &str| {
        let list = folder.accepted(&format!(
            "--trigger cmd=18 --for 200us --vcd {name}.vcd --svg {name}.svg --perfetto {name}.pftrace"
        ));
        let files = ["vcd", "svg", "pftrace"]
            .map(|end| std::fs::read(folder.0.path(&format!("{name}.{end}"))).unwrap());
        (list, files)
    };
    assert!(once("a") == once("b"));
}

#[test]
fn perfettos_own_package_reads_each_request_to_its_end() {
    let folder = Folder::new();
    let list = folder.accepted("--for 5ms --perfetto t.pftrace");
    let Some(trace) = judges::perfetto(&folder.0.path("t.pftrace")) else { return };
    let tracks = &trace["tracks"];
    // All 16 reads of 4 KiB are in the window.
    assert_eq!(
        (&tracks["requests/job 1"]["slices"], &tracks["requests/job 1"]["instants"]),
        (&16.into(), &16.into())
    );
    let requests = list.lines().filter(|l| l.contains(" request read") && !l.contains("done")).count();
    assert_eq!(requests, 16);
    for lane in ["phases", "CMD", "DAT", "interrupt line"] {
        assert!(tracks[&format!("bus/{lane}")]["slices"].as_u64() > Some(0), "{lane}");
    }
    assert!(trace["names"]["irq"].as_u64() > Some(0) && trace["names"]["job 1"].as_u64() > Some(0));
    // Each request has an arrow over request, transfer, interrupt and completion.
    let way = "requests/job 1 > bus/phases > bus/interrupt line > requests/job 1 > end";
    assert_eq!(trace["arrows"], serde_json::json!({ way: 16 }));
    let counters = ["requests under way", "bus in use", "CPU in use"];
    for (counter, most) in counters.into_iter().zip([4.0, 100.0, 100.0]) {
        let largest = tracks[&format!("counters/{counter}")]["largest"].as_f64().unwrap();
        assert!(largest > 0.0 && largest <= most, "{counter}: {largest}");
    }
}

#[test]
fn a_picture_has_every_lane() {
    let folder = Folder::new();
    folder.accepted("--for 5ms --svg t.svg");
    let svg = std::fs::read_to_string(folder.0.path("t.svg")).unwrap();
    for lane in ["phase", "CMD", "DAT", "interrupt", "core ", "requests"] {
        assert!(svg.contains(&format!(">{lane}")), "{lane}");
    }
    assert!(svg.contains("CMD18 READ_MULTIPLE_BLOCK") && svg.ends_with("</svg>\n"));
}

#[test]
fn a_trace_does_not_change_the_run() {
    let platform = Platform::load("generic").unwrap();
    let file = fio::parse_text("job", JOB.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let what = Run { workers: &workers, platform: &platform, card: None, setting: Setting::Mmcq, seed: 1 };
    let run = || format!("{:?}", runner::run(&what, None, &mut |_, _| ()).unwrap());
    let window = Window { start: Start::At(0), before_ns: 0, for_ns: None };
    let (traced, recording) = trace::record(window, run);
    assert!(traced == run());
    assert!(recording.capture().unwrap().requests.len() > 4);
}

#[test]
fn every_setting_and_a_uhs_card_can_be_traced() {
    let folder = Folder::new();
    for setting in ["none", "hsq-tag", "mmcq", "mmcq-own", "limit"] {
        let list = folder.accepted(&format!("--setting {setting} --vcd {setting}.vcd --for 500us"));
        assert!(list.contains("request read") && list.contains("R1 0x00000900"), "{setting}: {list}");
    }
    let list = folder.accepted("--card sdxc-128g-uhs --trigger bringup --vcd b.vcd");
    assert!(list.contains("CMD0 GO_IDLE_STATE") && list.contains("ACMD41"), "{list}");
}

/// Job file of a sequential load of depth 8, for which mmcq holds starts until the tail of a batch
/// has come.
const STREAM: &str =
    "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=4m\nrw=write\nioengine=libaio\niodepth=8\n";

#[test]
fn a_start_that_is_held_is_in_every_trace() {
    let folder = Folder::new();
    std::fs::write(folder.0.path("job.fio"), STREAM).unwrap();
    let options = "--setting mmcq-own --card sdxc-128g-uhs --from 100ms --for 10ms --vcd h.vcd --svg h.svg --perfetto h.pftrace";
    let list = folder.accepted(options);
    let held = list.lines().filter(|l| l.contains("start held for the tail, which came: gained")).count();
    assert!(held >= 3, "{list}");
    let read = |name: &str| std::fs::read_to_string(folder.0.path(name)).unwrap();
    if let Some(trace) = judges::perfetto(&folder.0.path("h.pftrace")) {
        assert_eq!(trace["tracks"]["bus/held starts"]["slices"], held);
    }
    assert!(read("h.svg").contains(">held</text>") && read("h.svg").contains("start held for the tail"));
    // The line HELD of the waveform rises once for each hold.
    let vcd = read("h.vcd");
    let id = vcd.lines().find_map(|l| l.strip_suffix(" HELD $end")).and_then(|l| l.split(' ').next_back());
    let up = format!("1{}", id.unwrap());
    assert_eq!(vcd.lines().filter(|l| **l == up).count(), held);
    // Linux never holds a start.
    let list = folder.accepted(&options.replace("mmcq-own", "none"));
    assert!(!list.contains("held") && !read("h.vcd").contains(" HELD "), "{list}");
}

#[test]
fn snoop_lists_each_request_and_its_histogram_counts_them() {
    let folder = Folder::new();
    let said = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = command.current_dir(folder.0.folder()).args(["snoop", "job.fio"]).args(options).output();
        let output = output.unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, list, _) = said(&[]);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    let columns = ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"];
    assert_eq!((code, &rows[0][..9]), (Some(0), &columns[..]));
    assert_eq!(rows[0][9..], ["DRV(ms)", "YOUNGER"]);
    assert_eq!(rows.len(), 1 + 16, "{list}");
    let number = |row: &[&str], at: usize| row[at].parse::<f64>().unwrap();
    assert!(rows[1..].windows(2).all(|two| number(&two[0], 0) <= number(&two[1], 0)), "{list}");
    let mut sectors: Vec<u64> = rows[1..].iter().map(|row| number(row, 5) as u64).collect();
    sectors.sort_unstable();
    assert_eq!(sectors, (0..16).map(|n| n * 8).collect::<Vec<u64>>());
    for row in &rows[1..] {
        assert_eq!(row[1..5], ["one", "1", "mmcblk0", "R"], "{list}");
        assert!(row[6] == "4096" && number(row, 8) > 0.0, "{list}");
    }
    // With depth 4, most requests wait for others first. They wait in mmcq's queue, which receives
    // them at once.
    assert!(rows[1..].iter().all(|row| number(row, 7) == 0.0 && number(row, 9) <= number(row, 8)), "{list}");
    assert!(rows[1..].iter().filter(|row| number(row, 9) > 0.0).count() >= 8, "{list}");
    let flushes = ["--set", "job.rw=write", "--set", "job.fsync=4"];
    let (_, list, _) = said(&flushes);
    let rows = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let sectors: Vec<&str> = rows.filter(|row| row[4] == "F").map(|row| row[5]).collect();
    assert!(!sectors.is_empty() && sectors.iter().all(|sector| *sector == "-"), "{list}");
    let (_, lines, _) = said(&[&flushes[..], &["--json"]].concat());
    let rows = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(rows.filter(|row| row["kind"] == "F").all(|row| row["sector"].is_null()), "{lines}");
    let (code, bars, _) = said(&["--histogram"]);
    let counts = bars
        .lines()
        .filter_map(|line| line.split_once(" : ")?.1.split_whitespace().next()?.parse::<u64>().ok());
    assert_eq!((code, counts.sum::<u64>()), (Some(0), 16), "{bars}");
    let (code, _, error) = said(&["--setting", "limit"]);
    assert_eq!(code, Some(2));
    assert_eq!(error.lines().count(), 1, "{error}");
}

/// Checks the trace of FIFO's starved request, which waits nearly 200 ms in mmc_hsq while thousands
/// of others are served.
#[test]
fn the_starved_request_is_found_in_the_drivers_queue() {
    let said = |setting: &str, options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(env!("CARGO_TARGET_TMPDIR"));
        command.args(["-q", "snoop", "--platform", "fifo-allwinner", "--setting", setting]).args(options);
        let job = ["--", "-name=r", "-rw=randread", "-bs=4K", "-numjobs=8", "-size=1G", "-io_size=8M"];
        let output = command.args(job).args(["-direct=1", "-thread"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let worst = said("hsq-tag", &["--slowest", "2"]);
    assert_eq!(worst.lines().count(), 2, "{worst}");
    let first = worst.lines().next().unwrap();
    let before = |part: &str| {
        let words = first.split(part).next().unwrap().split_whitespace();
        words.last().unwrap().parse::<f64>().unwrap()
    };
    assert!(before(" in the driver's queue") > 100.0 && before(" at the card") < 1.0, "{first}");
    assert!(before(" younger ones went first") > 500.0, "{first}");
    assert!(first.contains("because the queue takes the next tag, not the oldest request"), "{first}");
    // The recipe in the help finds the same request: its column LAT is the largest.
    let list = said("hsq-tag", &[]);
    let column = |row: &str, at: usize| row.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap();
    let slow = list.lines().skip(1).max_by(|a, b| column(a, 8).total_cmp(&column(b, 8))).unwrap();
    assert!(column(slow, 8) > 100.0 && column(slow, 9) > 100.0 && column(slow, 10) > 500.0, "{slow}");
    // In order of arrival, no request is overtaken.
    assert!(!said("hsq-fifo", &["--slowest", "1"]).contains("refused"), "first in, first out");
    let list = said("hsq-fifo", &[]);
    assert!(list.lines().skip(1).all(|row| column(row, 8) < 10.0), "no request waits long");
}

/// Returns the changes of a line in a waveform: time and value.
fn changes(vcd: &str, name: &str) -> Vec<(u64, bool)> {
    let wire = vcd.lines().find_map(|line| line.strip_suffix(&format!(" {name} $end"))).unwrap();
    let id = wire.split(' ').next_back().unwrap();
    let (mut at, mut found) = (0, Vec::new());
    for line in vcd.lines() {
        if let Some(time) = line.strip_prefix('#') {
            let next: u64 = time.parse().unwrap();
            assert!(next >= at, "time {next} after {at}");
            at = next;
        } else if line.strip_prefix(['0', '1']) == Some(id) {
            found.push((at, line.starts_with('1')));
        }
    }
    found
}

/// Checks a long waveform, which is drawn in parts: the waveform of a short window must be in it,
/// exactly once.
#[test]
fn a_long_waveform_with_a_gated_clock_has_the_same_bits() {
    let folder = Folder::new();
    let options = "--platform generic --clk gated --no-list";
    folder.accepted(&format!("{options} --for 30ms --vcd long.vcd"));
    folder.accepted(&format!("{options} --from 1500us --for 1ms --vcd short.vcd"));
    let [long, short] =
        ["long.vcd", "short.vcd"].map(|name| std::fs::read_to_string(folder.0.path(name)).unwrap());
    assert!(long.contains("CLK is high while the clock runs"));
    assert!(changes(&long, "CLK").len() < 100, "{}", changes(&long, "CLK").len());
    let unit = |vcd: &str| if vcd.contains("$timescale 1 ps") { 1_000 } else { 1 };
    let ns = |vcd: &str, line| -> Vec<(u64, bool)> {
        changes(vcd, line).into_iter().map(|(at, value)| (at / unit(vcd), value)).collect()
    };
    let begin = ns(&short, "CMD").into_iter().find(|(_, value)| !value).unwrap().0;
    let starts =
        ns(&long, "CMD").into_iter().filter(|(at, value)| !value && (1_200_000..2_600_000).contains(at));
    let fits = |start: u64| {
        ["CMD", "DAT0", "DAT3", "IRQ", "CPU0_hard"].iter().all(|line| {
            let (all, mut at) = (ns(&long, line), 0);
            // The end of the window may cut off the last changes.
            let own: Vec<_> =
                ns(&short, line).into_iter().filter(|(t, _)| (begin..900_000).contains(t)).collect();
            own.iter().all(|(t, value)| {
                let wanted = t - begin + start;
                while all.get(at).is_some_and(|(t, _)| t + 2 < wanted) {
                    at += 1;
                }
                all[at..].iter().take(4).any(|(t, other)| t.abs_diff(wanted) <= 2 && other == value)
            })
        })
    };
    let found = starts.map(|(at, _)| at).filter(|start| fits(*start)).count();
    assert_eq!(found, 1, "the window is in the long one, once");
    assert!(ns(&short, "CMD").len() > 20 && ns(&short, "DAT0").len() > 50);
}
