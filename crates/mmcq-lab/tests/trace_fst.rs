//! Tests `mmcq trace --fst` with GTKWave's own reader (`judges/mod.rs`), and waveforms of any
//! length, which are written during the run.

use crate::job_folder::JobFolder;
use crate::judges::{crccheck, gtkwave, sigrok_agrees, text};
use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{self, Run, Setting};
use mmcq_lab::trace::{self, Clk, Dump, Start, Window};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::process::{Command, Output};

const JOB: &str = "[global]\nfilename=/dev/mmcblk0\ndirect=1\nverify=pattern\nverify_pattern=0xdeadbeef\n\
                   [one]\nrw=write\nbs=512\nsize=1k\n[many]\nstonewall\nrw=write\nbs=8k\nsize=16k\n";

fn output(folder: &JobFolder, options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder.folder()).args(["trace", "job.fio"]);
    command.args(options.split_whitespace()).output().unwrap()
}

fn accepted(folder: &JobFolder, options: &str) -> String {
    let output = output(folder, options);
    assert!(output.status.success(), "{options}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns from a value change dump the unit of time, and for each line its values with their
/// times.
fn edges(vcd: &str) -> (String, BTreeMap<String, Vec<(u64, char)>>) {
    let mut names = BTreeMap::new();
    let (mut unit, mut at, mut lines) = (String::new(), 0, BTreeMap::new());
    for line in vcd.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("$var") => {
                let [_, _, id, name] = [(); 4].map(|()| words.next().unwrap());
                names.insert(id.to_owned(), name.to_owned());
                lines.insert(name.to_owned(), Vec::new());
            }
            Some("$timescale") => unit = words.take(2).collect::<Vec<_>>().join(" "),
            Some(word) if word.starts_with('#') => at = word[1..].parse().unwrap(),
            Some(word) if word.starts_with(['0', '1', 'x']) => {
                let values: &mut Vec<(u64, char)> = lines.get_mut(&names[&word[1..]]).unwrap();
                let value = word.chars().next().unwrap();
                if values.last().is_none_or(|last| last.1 != value) {
                    values.push((at, value));
                }
            }
            _ => {}
        }
    }
    (unit, lines)
}

#[test]
fn gtkwaves_reader_finds_each_edge_of_the_value_change_dump() {
    let folder = JobFolder::new(JOB);
    for (options, job, sections) in [
        ("--platform generic --card sdhc-16g-hs --trigger bringup", JOB, 1),
        ("--platform hsq-sprd --for 1ms", JOB, 1),
        ("--platform generic --clk gated --for 100ms", LONG, 2),
    ] {
        std::fs::write(folder.path("job.fio"), job).unwrap();
        accepted(&folder, &format!("{options} --vcd own.vcd --fst w.fst"));
        let Some(read) = gtkwave(&folder.path("w.fst"), &folder.path("read.vcd")) else { return };
        let both = ["own.vcd", "read.vcd"].map(|name| std::fs::read_to_string(folder.path(name)).unwrap());
        let [own, other] = both.each_ref().map(|vcd| edges(vcd));
        assert_eq!(own.0, other.0, "{options}");
        assert_eq!(own.1.keys().collect::<Vec<_>>(), other.1.keys().collect::<Vec<_>>(), "{options}");
        for (line, values) in &own.1 {
            assert!(*values == other.1[line], "{options}: {line}");
        }
        assert!(own.1["CMD"].len() > 100 && own.1["DAT0"].len() > 20, "{options}");
        let last = both[0].lines().rfind(|line| line.starts_with('#')).unwrap();
        assert_eq!(last[1..].parse().ok(), read["end"].as_u64(), "{options}");
        assert!(read["sections"].as_u64() >= Some(sections), "{options}: {read}");
        let version = read["version"].as_str().unwrap();
        assert_eq!(version.contains("CLK is high while the clock runs"), options.contains("gated"));
    }
}

/// Checks a Fast Signal Trace: GTKWave's reader converts the file to a value change dump, which
/// then goes to the other judges.
#[test]
fn the_bits_of_a_fast_signal_trace_before_both_judges() {
    let folder = JobFolder::new(JOB);
    let list = accepted(&folder, "--platform generic --card sdhc-16g-hs --for 20ms --fst w.fst");
    let words = list.lines().filter_map(|line| line.split_whitespace().nth(2));
    let commands: Vec<String> = words.filter(|word| word.contains("CMD")).map(str::to_owned).collect();
    let path = folder.path("read.vcd");
    if gtkwave(&folder.path("w.fst"), &path).is_none() {
        return;
    }
    sigrok_agrees(&path, &commands);
    let Some(judged) = crccheck(&path, &[]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    assert_eq!((judged["blocks"].as_array().unwrap().len(), &judged["status_good"]), (68, &34.into()));
}

/// Job file of a load that is long enough for many parts, and for several sections of the
/// compressed file.
const LONG: &str = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=64m\nrw=randrw\nioengine=libaio\niodepth=4\nfsync=32\n\
                    time_based\nruntime=400ms\n";

#[test]
fn a_waveform_without_a_list_is_drawn_while_the_run_goes_on_and_has_the_same_bytes() {
    let folder = JobFolder::new(LONG);
    for (n, window) in ["--for 40ms", "--trigger cmd=25,n=3 --before 100us --for 20ms", "--trigger bringup"]
        .iter()
        .enumerate()
    {
        let later = (n == 0).then(|| "--from 20ms --for 5ms".to_owned());
        for options in std::iter::once(format!("{window} --clk gated")).chain(later) {
            accepted(&folder, &format!("{options} --vcd kept{n}.vcd --fst kept{n}.fst"));
            let said = accepted(&folder, &format!("{options} --vcd on{n}.vcd --fst on{n}.fst --no-list"));
            assert_eq!(said, "");
            for end in ["vcd", "fst"] {
                let [kept, drawn] = ["kept", "on"]
                    .map(|name| std::fs::read(folder.path(&format!("{name}{n}.{end}"))).unwrap());
                assert!(kept == drawn && kept.len() > 1_000, "{options}: {end}");
            }
        }
    }
}

/// Checks that parts also end where the lines are idle for long while the clock runs.
#[test]
fn idle_lines_are_drawn_in_parts_and_lose_no_bit() {
    let lazy = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=16k\nrw=write\nthinktime=5ms\nthinktime_blocks=1\n";
    let folder = JobFolder::new(lazy);
    let options = "--platform generic --card sdhc-16g-hs --for 18ms";
    let list = accepted(&folder, &format!("{options} --vcd kept.vcd"));
    accepted(&folder, &format!("{options} --vcd on.vcd --no-list"));
    let [kept, drawn] = ["kept.vcd", "on.vcd"].map(|name| std::fs::read(folder.path(name)).unwrap());
    assert!(kept == drawn);
    let words = list.lines().filter_map(|line| line.split_whitespace().nth(2));
    let commands: Vec<String> = words.filter(|word| word.contains("CMD")).map(str::to_owned).collect();
    sigrok_agrees(&folder.path("on.vcd"), &commands);
    let Some(judged) = crccheck(&folder.path("on.vcd"), &[]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    let (blocks, good) = (judged["blocks"].as_array().unwrap().len(), judged["status_good"].as_u64());
    assert!(blocks >= 16 && good == Some(blocks as u64), "{blocks} {good:?}");
    // 20 ns per clock; at the end of each part, less than one clock is lost.
    let clocks = judged["clocks"].as_u64().unwrap();
    assert!((899_900..=900_000).contains(&clocks), "{clocks}");
}

/// Checks that the number of records in memory does not grow with the window.
#[test]
fn a_part_is_as_long_in_a_long_window_as_in_a_short_one() {
    let platform = Platform::load("generic").unwrap();
    let file = fio::parse_text("job", LONG.as_bytes(), &fio::System).unwrap();
    let workers = fio::expand(&file.jobs).unwrap();
    let what = Run { workers: &workers, platform: &platform, card: None, setting: Setting::Mmcq, seed: 1 };
    let run = || runner::run(&what, None, &mut |_, _| ()).unwrap();
    let sizes = [60_000_000, 360_000_000].map(|for_ns| {
        let window = Window { start: Start::At(0), before_ns: 0, for_ns: Some(for_ns) };
        let (_, survey) = trace::survey(window, run);
        let survey = survey.unwrap();
        Dump::Fst.draw((window, &survey), Clk::Gated, Cursor::new(Vec::new()), run).unwrap();
        survey.most_held()
    });
    assert!(sizes[0] > 100, "{sizes:?}");
    assert!(sizes[1] < sizes[0] * 2, "{sizes:?}");
}

#[test]
fn a_window_that_is_kept_has_a_limit_and_says_it() {
    let folder = JobFolder::new(LONG);
    let many = LONG.replace("runtime=400ms", "runtime=60s").replace("[one]", "[one]\nnumjobs=2");
    std::fs::write(folder.path("job.fio"), many).unwrap();
    let refused = output(&folder, "--for 60s --vcd w.vcd --clk gated");
    let line = text(&refused.stderr);
    assert_eq!((refused.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(
        line.contains("more than 1000000 records") && line.contains("--no-list with --vcd or --fst"),
        "{line}"
    );
    assert!(!folder.path("w.vcd").exists());
}

#[test]
fn a_full_disk_is_one_line_and_leaves_no_file() {
    let folder = JobFolder::new(LONG);
    for options in ["--no-list", ""] {
        for file in ["--vcd", "--fst"] {
            let failed = output(&folder, &format!("--for 20ms --clk gated {file} /dev/full {options}"));
            let line = text(&failed.stderr);
            assert_eq!((failed.status.code(), line.lines().count()), (Some(1), 1), "{line}");
            assert!(line.contains("/dev/full: ") && line.contains("space"), "{line}");
        }
    }
    // The output file cannot grow any further.
    for options in ["--no-list", ""] {
        let script = format!(
            "trap '' XFSZ; ulimit -f 8; exec \"$0\" trace job.fio --for 50ms --clk gated --vcd w.vcd {options}"
        );
        let mut command = Command::new("sh");
        let command = command.current_dir(folder.folder()).args(["-c", &script, env!("CARGO_BIN_EXE_mmcq")]);
        let failed = command.output().unwrap();
        let line = text(&failed.stderr);
        assert_eq!((failed.status.code(), line.lines().count()), (Some(1), 1), "{line}");
        assert!(line.contains("w.vcd: "), "{line}");
    }
    let refused = output(&folder, "--fst nowhere/w.fst");
    assert_eq!((refused.status.code(), text(&refused.stderr).lines().count()), (Some(2), 1));
    let left: Vec<_> =
        std::fs::read_dir(folder.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["job.fio"]);
}
