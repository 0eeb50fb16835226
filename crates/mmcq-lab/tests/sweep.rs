//! Tests sweeps: the same bytes with any number of threads, with shards, and after any
//! interruption.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const JOB: &str = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=64k\nrw=randrw\nioengine=libaio\n";
/// Grid of twelve points: two axes vary together, and are crossed with two others.
const GRID: &str = "--over setting=none,mmcq --over job.iodepth=1,4 --over cost.wake_us=5,80 \
                    --over seed=1..3 --zip job.iodepth,cost.wake_us";

/// Temporary folder with the job `j.fio`.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        fs::write(place.path("j.fio"), JOB).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sweep(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.path()).arg("sweep").args(line.split_whitespace()).output().unwrap()
    }

    /// Returns the rows that a sweep, which must succeed, writes to the file `name`.
    fn rows(&self, line: &str, name: &str) -> String {
        let output = self.sweep(&format!("j.fio {line} --out {name}"));
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {error}");
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn refused(&self, line: &str) -> String {
        let output = self.sweep(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
        text
    }
}

fn objects(rows: &str) -> Vec<Value> {
    rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_row_has_its_axes_and_what_was_measured() {
    let place = Place::new();
    let rows = objects(&place.rows(GRID, "a.jsonl"));
    assert_eq!(rows.len(), 12 * 2, "a row for each direction");
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["point"], at / 2);
        assert_eq!(row["direction"], ["read", "write"][at % 2]);
        assert_eq!(row["setting"], ["none", "mmcq"][at / 12]);
        let pair = [&row["job.iodepth"], &row["cost.wake_us"]].map(|value| value.as_u64().unwrap());
        assert_eq!(pair, [[1, 5], [4, 80]][at / 6 % 2]);
        assert_eq!(row["seed"], at / 2 % 3 + 1);
        let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        let times = ["lat_p50_us", "lat_p95_us", "lat_p99_us", "lat_p99.9_us"].map(number);
        assert!(times.is_sorted() && times[0] > 0.0, "{row}");
        let rate = number("iops") / 256.0;
        assert!((number("mib_s") / rate - 1.0).abs() < 1e-9, "{row}");
        let phases = row.as_object().unwrap().iter().skip_while(|(name, _)| *name != "wire_commands_share");
        let whole: f64 = phases.filter_map(|(_, share)| share.as_f64()).sum();
        assert!((whole - 1.0).abs() < 1e-9, "phases add up to the run: {whole}");
        let share = number("run_mib_s") / number("limit_mib_s");
        assert!((number("limit_share") - share).abs() < 1e-9 && share <= 1.0, "{row}");
        assert!(number("interrupts_per_io") > 0.1 && number("requests_per_transfer") > 0.9, "{row}");
        assert_eq!((&row["failed"], &row["error"]), (&0.into(), &Value::Null));
    }
    let hashes: std::collections::BTreeSet<String> =
        rows.iter().map(|row| row["config_hash"].to_string()).collect();
    assert_eq!(hashes.len(), 12, "one for each point");
    let slower =
        |at: usize| rows[at]["run_mib_s"].as_f64().unwrap() < rows[at + 12]["run_mib_s"].as_f64().unwrap();
    assert!(slower(6), "depth 4 with dear wake-ups: none is behind mmcq");
}

#[test]
fn threads_and_shards_change_no_byte() {
    let place = Place::new();
    let one = place.rows(&format!("{GRID} --jobs 1"), "one.jsonl");
    assert_eq!(one, place.rows(&format!("{GRID} --jobs 5"), "five.jsonl"));
    let output = place.sweep(&format!("j.fio {GRID}"));
    assert_eq!(one, String::from_utf8(output.stdout).unwrap(), "standard output");
    let mut parts: Vec<Value> = (1..=5)
        .flat_map(|i| objects(&place.rows(&format!("{GRID} --shard {i}/5"), &format!("{i}.jsonl"))))
        .collect();
    parts.sort_by_key(|row| row["point"].as_u64());
    assert_eq!(parts, objects(&one));
    let third = objects(&fs::read_to_string(place.path("3.jsonl")).unwrap());
    assert!(third.iter().all(|row| row["point"].as_u64().unwrap() % 5 == 2));
}

#[test]
fn a_file_cut_anywhere_becomes_the_same_file() {
    let place = Place::new();
    let grid = "--over setting=none,mmcq --over job.bs=4k,8k";
    for name in ["a.jsonl", "a.csv"] {
        let whole = place.rows(grid, name);
        let lines: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
        let mut cuts = vec![0, 1, whole.len() / 2, whole.len() - 1, whole.len()];
        // The file is cut after a line, before its end, and in the middle of the next.
        cuts.extend(lines[..lines.len() - 1].iter().step_by(3).flat_map(|at| [*at, at - 1, at + 20]));
        for cut in cuts {
            fs::write(place.path(name), &whole[..cut]).unwrap();
            assert_eq!(place.rows(&format!("{grid} --resume"), name), whole, "{name} cut at {cut}");
        }
        fs::remove_file(place.path(name)).unwrap();
        assert_eq!(place.rows(&format!("{grid} --resume"), name), whole, "nothing yet");
    }
}

#[test]
fn a_line_of_csv_has_as_many_values_as_names() {
    let place = Place::new();
    let text = place.rows("--over setting=none,mmcq", "a.csv");
    let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    assert_eq!(names[..3], ["point", "setting", "platform"]);
    assert!(text.lines().all(|line| line.split(',').count() == names.len()), "{text}");
}

#[test]
fn a_point_that_cannot_be_run_says_why_in_its_row() {
    let place = Place::new();
    // The host of this board cannot continue data, so the setting `patch` does not run.
    let output = place.sweep("j.fio --over setting=patch,mmcq");
    assert_eq!(output.status.code(), Some(1));
    let rows = objects(&String::from_utf8(output.stdout).unwrap());
    assert!(rows[0]["error"].as_str().unwrap().contains("cannot continue the data"), "{}", rows[0]);
    assert_eq!((rows.len(), &rows[0]["ios"], &rows[1]["error"]), (3, &Value::Null, &Value::Null));
}

#[test]
fn bad_input_is_one_line_and_writes_nothing() {
    let place = Place::new();
    for (line, said) in [
        ("--over cost.wake_su=1,2", "--over cost.wake_su=1"),
        ("--over card.nothing=1,2", "card.nothing"),
        ("--over job.iodeth=1,2", "--over job.iodeth=1"),
        ("--over setting=mmcq,fast", "--over setting=fast"),
        ("--over card=hbg4a2,nocard", "nocard"),
        ("--over platform=generic,noboard", "noboard"),
        ("--over seed=1,x", "--over seed=x"),
        ("--over seed=1 --shard 5/3", "5/3"),
        ("--over seed=1 --over seed=2", "--over seed: given twice"),
        ("--over seed=1,2 --over job.bs=4k --zip seed,job.bs", "seed has 2 values and job.bs has 1"),
    ] {
        let text = place.refused(&format!("j.fio {line} --out new.jsonl"));
        assert!(text.contains(said), "{text:?} does not name {said:?}");
        assert!(!place.path("new.jsonl").exists(), "{line}");
    }
    for name in ["no/such/folder.csv", "no/such/folder.parquet", "rows.xls", "."] {
        assert!(place.refused(&format!("j.fio --over seed=1 --out {name}")).contains(name));
    }
}

#[test]
fn rows_of_another_grid_are_not_lost() {
    let place = Place::new();
    for name in ["a.jsonl", "a.csv"] {
        let before = place.rows("--over seed=1..3", name);
        for (other, said) in [
            ("--over seed=1..3", "it has rows already"),
            ("--over seed=2..3 --resume", "not of this grid"),
            ("--over seed=1..2 --resume", "not of this grid"),
            ("--over seed=1..3 --shard 2/2 --resume", "not of this grid"),
            ("--over seed=1..3 --set cost.wake_us=9 --resume", "not of this grid"),
            ("--over job.bs=4k,8k --resume", "not of this grid"),
        ] {
            let text = place.refused(&format!("j.fio {other} --out {name}"));
            assert!(text.contains(name) && text.contains(said), "{text}");
            assert_eq!(fs::read_to_string(Path::new(&place.path(name))).unwrap(), before, "{other}");
        }
    }
}

#[test]
fn columns_are_made_of_whole_rows_and_a_picture_of_all() {
    let place = Place::new();
    let ended = |line: &str| {
        let output = place.sweep(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let heat = "--heat h.svg cost.wake_us,setting,run_mib_s";
    ended(&format!("j.fio {GRID} --out a.parquet {heat}"));
    let (columns, picture) =
        (fs::read(place.path("a.parquet")).unwrap(), fs::read(place.path("h.svg")).unwrap());
    assert!(columns.starts_with(b"PAR1") && columns.ends_with(b"PAR1") && picture.starts_with(b"<svg"));
    assert!(!place.path("a.parquet.jsonl").exists());
    ended(&format!("j.fio {GRID} --out a.csv {}", heat.replace("h.svg", "c.svg")));
    assert_eq!(fs::read(place.path("c.svg")).unwrap(), picture);
    // A sweep that was killed leaves its rows, and a second start completes them to the same file.
    let rows = place.rows(GRID, "whole.jsonl");
    for end in [0, 1, rows.len() / 2, rows.len()] {
        fs::write(place.path("b.parquet.jsonl"), &rows[..end]).unwrap();
        ended(&format!("j.fio {GRID} --out b.parquet --resume {heat}"));
        assert_eq!(fs::read(place.path("b.parquet")).unwrap(), columns, "cut at {end}");
        assert_eq!(fs::read(place.path("h.svg")).unwrap(), picture, "cut at {end}");
        fs::remove_file(place.path("b.parquet")).unwrap();
    }
    assert!(place.refused(&format!("j.fio {GRID} --out a.parquet")).contains("has rows already"));
    ended(&format!("j.fio {GRID} --out a.parquet --resume"));
    assert!(place.refused(&format!("j.fio {GRID} --heat h.svg a,b")).contains("expected three columns"));
    assert!(place.refused(&format!("j.fio {GRID} --heat h.svg seed,no,mib_s")).contains("no is no column"));
}

/// Two reads of 16 MiB, the second after the end of the first.
const IN_TURN: &str = "[global]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=libaio\nbs=64k\nrw=read\nsize=16m\n\
                       [a]\n[b]\nstonewall\noffset=32m\n";

#[test]
fn the_rate_of_jobs_that_run_in_turn_is_not_above_the_limit() {
    let place = Place::new();
    fs::write(place.path("wall.fio"), IN_TURN).unwrap();
    fs::write(place.path("delay.fio"), IN_TURN.replace("stonewall", "startdelay=2")).unwrap();
    fs::write(place.path("both.fio"), IN_TURN.replace("stonewall\n", "")).unwrap();
    let rates = |name: &str| {
        let output = place.sweep(&format!("{name} --over seed=1 --platform intel-jsl"));
        let row = objects(&String::from_utf8(output.stdout).unwrap()).remove(0);
        ["mib_s", "run_mib_s", "limit_mib_s"].map(|column| row[column].as_f64().unwrap())
    };
    for name in ["wall.fio", "both.fio"] {
        let [rate, run, limit] = rates(name);
        assert!((rate / run - 1.0).abs() < 0.01 && rate < limit, "{name}: {rate} {run} {limit}");
    }
    // The pause between the jobs is no time of the direction.
    let ([rate, run, _], [wall, ..]) = (rates("delay.fio"), rates("wall.fio"));
    assert!(run < 0.5 * rate, "{rate} {run}");
    assert!((rate / wall - 1.0).abs() < 0.01, "{rate} {wall}");
}

#[test]
fn rows_of_a_job_with_other_flags_are_not_continued() {
    let place = Place::new();
    fs::write(place.path("wall.fio"), IN_TURN).unwrap();
    fs::write(place.path("both.fio"), IN_TURN.replace("stonewall\n", "")).unwrap();
    let sweep = |name: &str| place.sweep(&format!("{name} --over seed=1,2 --out rows.jsonl --resume"));
    assert_eq!(sweep("wall.fio").status.code(), Some(0));
    let before = fs::read_to_string(place.path("rows.jsonl")).unwrap();
    assert_eq!(sweep("both.fio").status.code(), Some(2));
    assert_eq!(fs::read_to_string(place.path("rows.jsonl")).unwrap(), before);
    assert_eq!(sweep("wall.fio").status.code(), Some(0));
}

#[test]
fn a_depth_without_effect_is_named() {
    let place = Place::new();
    fs::write(place.path("waits.fio"), JOB.replace("ioengine=libaio\n", "")).unwrap();
    let said = |line: &str| String::from_utf8(place.sweep(line).stderr).unwrap();
    let text = said("waits.fio --over job.iodepth=1,4");
    assert_eq!(
        (text.lines().count(), text.contains("job 'one': iodepth=4 has no effect")),
        (1, true),
        "{text}"
    );
    assert_eq!(said("j.fio --over job.iodepth=1,4"), "");
}

/// Checks that I/Os that fail at once give no rate.
#[test]
fn a_job_that_fails_has_no_rate() {
    let place = Place::new();
    fs::write(place.path("bad.fio"), JOB.replace("4k", "513")).unwrap();
    let output = place.sweep("bad.fio --over seed=1");
    assert_eq!(output.status.code(), Some(1));
    let rows = objects(&String::from_utf8(output.stdout).unwrap());
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!([&row["iops"], &row["mib_s"]].map(Value::as_f64), [Some(0.0), Some(0.0)], "{row}");
    }
}
