//! Tests the values that a user can set, and what the program says about them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const JOB: &str = "[one]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=4M\nrw=randread\n";

fn tree() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs the program in a folder that has the job files of the source tree and nothing else.
fn mmcq(line: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(tree().join("jobs"), folder.path().join("jobs")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder.path()).args(line.split_whitespace()).output().unwrap()
}

/// Returns standard output and standard error of a run that must succeed.
fn well(line: &str) -> (String, String) {
    let output = mmcq(line);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(0), "{line}: {err}");
    (out, err)
}

fn refused(line: &str) -> String {
    let output = mmcq(line);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{line}: {text}");
    text
}

/// Returns the part `mmcq` of the JSON report of a run; it says what ran, and with which values.
fn origin(line: &str) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_str(&well(line).0).unwrap();
    report["mmcq"].clone()
}

#[test]
fn a_knob_that_changes_nothing_is_named() {
    let run = "run jobs/quickstart.fio";
    let (_, said) =
        well(&format!("{run} --set cost.wake_us=40 --set card.read_first_us=1 --set job.iodepth=4"));
    assert_eq!(said.matches("made no difference in this run").count(), 2, "{said}");
    assert!(
        said.contains("--set cost.wake_us=40: made no difference in this run; it is the wake-up of a driver")
    );
    assert!(said.contains("--set job.iodepth=4: made no difference"), "it is the file's own depth");
    let (_, said) = well(&format!("{run} --setting none --set cost.wake_us=40"));
    assert_eq!(said, "");
}

#[test]
fn a_job_of_days_that_a_change_makes_short_does_not_run_for_days_to_name_what_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("days.fio");
    std::fs::write(&job, "[days]\nrw=read\nbs=256k\nsize=64m\ntime_based=1\nruntime=30d\n").unwrap();
    let (_, said) = well(&format!("run {} --set job.runtime=1 --set job.iodepth=1", job.display()));
    assert!(said.contains("--set job.iodepth=1: made no difference"), "{said}");
    assert!(!said.contains("--set job.runtime=1"), "{said}");
}

#[test]
fn the_first_job_runs_in_every_setting_that_the_board_has() {
    for setting in
        ["none", "hsq-tag", "hsq-fifo", "mmcq", "mmcq-own", "mmcq-early", "mmcq-early-own", "limit"]
    {
        let (report, _) = well(&format!("run jobs/quickstart.fio --setting {setting}"));
        let first = format!("platform generic, card sdxc-128g-uhs, setting {setting}, seed 1\n");
        assert!(report.lines().next().is_some_and(|line| format!("{line}\n").ends_with(&first)), "{report}");
        assert!(report.contains("err= 0"), "{setting}");
    }
    // With a cache on the card, a flush is a command (CMD6), which these settings send, too.
    for setting in ["none", "hsq-tag", "hsq-fifo", "mmcq"] {
        let why = format!("why jobs/quickstart.fio --setting {setting} --card emmc-hs200");
        assert!(well(&why).0.contains("CMD6 SWITCH"), "{setting}");
        assert!(!well(&format!("{why} --set job.fsync=0")).0.contains("CMD6 SWITCH"), "{setting}");
    }
    // A setting that the board's host cannot run is refused, and the error says what is possible.
    assert!(refused("run jobs/quickstart.fio --setting patch").contains("cannot continue the data"));
}

#[test]
fn a_report_says_what_it_comes_from() {
    let told = origin(
        "run jobs/quickstart.fio --seed 7 --card sdhc-16g-hs --set cost.irq_us=9 --output-format=json",
    );
    assert_eq!((&told["platform"], &told["card"]), (&"generic".into(), &"sdhc-16g-hs".into()));
    assert_eq!((&told["setting"], &told["seed"]), (&"mmcq".into(), &7.into()));
    assert_eq!(told["set"], serde_json::json!(["cost.irq_us=9"]));
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    let counters = told["counters"].as_object().unwrap();
    assert!(counters["transfers"].as_u64().unwrap() > 100 && counters["failed"] == 0, "{counters:?}");
    assert!((0.0..1.0).contains(&counters["wire_share"].as_f64().unwrap()), "{counters:?}");
}

#[test]
fn every_key_is_listed_and_can_be_looked_for() {
    let (all, _) = well("params");
    assert!(all.lines().all(|line| line.chars().count() <= 100), "{all}");
    for key in
        ["cost.wake_us", "controller.base_clock_hz", "card.flash.read.read_first_us", "stack.scheduler"]
    {
        assert!(all.lines().any(|line| line.starts_with(&format!("{key} "))), "{key}");
    }
    let (rows, _) = well("params job_wake --json --platform hsq-sprd");
    let row: serde_json::Value = serde_json::from_str(&rows).unwrap();
    assert_eq!((&row["key"], &row["unit"]), (&"cost.job_wake_us".into(), &"us".into()));
    assert_eq!((&row["value"], &row["range"]), (&20.into(), &serde_json::json!([15.0, 25.0])));
    let (rows, _) = well("params prior --json --platform hsq-sprd");
    let priors: Vec<serde_json::Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert!(priors.iter().any(|row| row["kind"] == "prior" && row["key"] == "cost.job_wake_us"), "{rows}");
    // What a report names as such is in that list.
    let (why, _) = well("why jobs/quickstart.fio --platform hsq-sprd --set job.size=1m");
    let said = why.lines().find(|line| line.contains("are priors")).unwrap_or_else(|| panic!("{why}"));
    let count: usize = said.split(' ').next().unwrap().parse().unwrap();
    assert!((5..=priors.len()).contains(&count), "{said}");
    assert!(
        refused("params no.such.key")
            .contains("no kind has this name, no key and no meaning of one contains it")
    );
    assert!(
        refused("params --set card.nothing=1")
            .contains("the card's file has no such key; the nearest is card.")
    );
    assert!(refused("run jobs/quickstart.fio --set card.x.y=1").contains("sdxc-128g-uhs with --set"));
    assert!(refused("run jobs/quickstart.fio --set busy.x=1").contains("busy is one value and has no parts"));
    assert!(refused("run jobs/quickstart.fio --set wake_us=4").contains("wake_us=4: expected cost.wake_us"));
    assert!(refused("run jobs/quickstart.fio --set iodepth=4").contains("of the jobs with job.:"));
    assert!(refused("run jobs/quickstart.fio --set share.tail=7").contains("expected 0 to 1"));
    assert!(refused("run jobs/quickstart.fio --set job.iodeth=1").contains("--set job.iodeth=1:"));
    assert!(refused("run jobs/quickstart.fio --set job.iodepth").contains("expected job.OPTION=VALUE"));
}

#[test]
fn a_job_may_come_by_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(folder.path());
        command.args(["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    assert!(String::from_utf8(run(JOB).stdout).unwrap().contains("IOPS="));
    let buffered = run(&JOB.replace("direct=1", "buffered=1"));
    assert!(String::from_utf8(buffered.stderr).unwrap().contains("there is no page cache here"));
    let wrong = run("[one]\nrw=sideways\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8(wrong.stderr).unwrap().starts_with("mmcq: standard input:2: rw=sideways"));
}

#[test]
fn skeletons_pages_and_completions_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    well(&format!("new board {place}/b.toml --like hsq-sprd"));
    well(&format!("new card {place}/c.toml --like sdhc-16g-hs"));
    well(&format!("new job {place}/j.fio"));
    let (report, _) = well(&format!("run {place}/j.fio --platform {place}/b.toml --set job.runtime=100ms"));
    assert!(report.contains("IOPS="));
    well(&format!("card --card {place}/c.toml --set card.serial=5"));
    assert!(refused(&format!("new job {place}/j.fio")).contains("exists"));
    assert!(refused(&format!("new card {place}/c.txt")).contains("ends in .toml"));
    well(&format!("man {place}"));
    let page = std::fs::read_to_string(folder.path().join("mmcq-params.1")).unwrap();
    assert!(page.contains(".TH"), "{page}");
    assert!(well("completions bash").0.contains("params"));
}

#[test]
fn the_wires_of_a_board_can_be_set() {
    let rate = |set: &str| {
        let job = "--set job.rw=read --set job.bs=64k --set job.io_size=4M --output-format=json";
        let report = well(&format!("run jobs/quickstart.fio {job} {set}")).0;
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        report["jobs"][0]["read"]["bw_bytes"].as_f64().unwrap()
    };
    let (all, slow) = (rate(""), rate("--set driver.max_timing=high-speed"));
    let narrow = rate("--set driver.max_timing=high-speed --set driver.width=1");
    assert!(all > 1.5 * slow && slow > 2.0 * narrow, "{all} {slow} {narrow}");
    assert!(rate("--set driver.max_clock_hz=25000000") < slow);
    let (rows, _) = well("params driver.");
    for key in ["driver.width", "driver.max_timing", "driver.max_clock_hz", "driver.timings"] {
        assert!(rows.contains(key), "{rows}");
    }
    let run = "run jobs/quickstart.fio";
    assert!(refused(&format!("{run} --set driver.width=3")).contains("expected 1, 4 or 8"));
    assert!(refused(&format!("{run} --set driver.max_timing=warp")).contains("\"high-speed\""));
    let reader = refused(&format!("{run} --platform stream-rtsx --set driver.width=4"));
    assert!(reader.contains("driver.width: a reader's driver knows its wires"));
}

#[test]
fn what_is_printed_is_also_for_programs() {
    let objects = |line: &str| {
        let (out, _) = well(line);
        let lines: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert!(!lines.is_empty(), "{line}");
        lines
    };
    assert!(objects("trace jobs/quickstart.fio --for 400us --json")[0]["what"].is_string());
    assert_eq!(well("trace jobs/quickstart.fio --for 400us --no-list").0, "");
    let requests = objects("snoop jobs/quickstart.fio --json --set job.number_ios=20");
    assert!(requests.iter().all(|row| row["ok"] == true && row["served_ns"].as_u64() > Some(0)));
    let all = objects("torture --mode swap --json").pop().unwrap();
    assert_eq!((&all["broken"], &all["over_budget"]), (&serde_json::json!({}), &0.into()));
    assert!(objects("platforms hsq-sprd --json").iter().all(|row| row.to_string().contains("hsq-sprd")));
    let why = objects("why jobs/quickstart.fio --json --set job.number_ios=20");
    let keys = ["group", "name", "value", "unit"];
    assert!(why.iter().all(|row| keys.iter().all(|key| row.get(key).is_some())), "{why:?}");
    assert!(refused("platforms nothing-like-it").contains("lists all"));
    // By the driver of Linux that a controller has.
    let driver = &objects("platforms dwcmshc --json")[0];
    assert_eq!(
        (&driver["kind"], &driver["name"]),
        (&"driver".into(), &"sdhci-of-dwcmshc".into()),
        "{driver}"
    );
    assert!(driver["description"].as_str().unwrap().starts_with("begin with generic: "), "{driver}");
    assert!(well("platforms rtsx-pci").0.contains("begin with stream-rtsx: "));
    assert!(refused("rn").contains("did you mean run?"));
    assert!(refused("run jobs/quickstart.fio --seed -1").contains("a whole number from 0"));
}

#[test]
fn a_table_folds_at_the_page_and_has_other_forms() {
    let (text, _) = well("reproduce fair");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("* the model"), "nothing was fitted there: {text}");
    let (markdown, _) = well("reproduce fair --markdown");
    assert!(markdown.starts_with("| cell | unit |"), "{markdown}");
    let (csv, _) = well("reproduce fair --csv");
    assert!(csv.starts_with("cell,unit,") && csv.lines().count() > 3, "{csv}");
}

#[test]
fn lists_have_three_forms_for_programs() {
    for line in [
        "params cost",
        "platforms hsq",
        "card",
        "why jobs/quickstart.fio --set job.number_ios=20",
        "snoop jobs/quickstart.fio --set job.number_ios=20",
        "trace jobs/quickstart.fio --for 400us",
        "sweep jobs/quickstart.fio --set job.number_ios=20 --over seed=1..2",
    ] {
        let forms = ["json", "csv", "markdown"].map(|form| well(&format!("{line} --{form}")).0);
        let [json, csv, markdown] = &forms;
        let first: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(json.lines().next().unwrap()).unwrap();
        let head = first.keys().cloned().collect::<Vec<_>>();
        assert!(csv.starts_with(&head.join(",")), "{line}: {csv}");
        assert!(markdown.starts_with(&format!("| {}", head.join(" | "))), "{line}: {markdown}");
        let rows = [json.lines().count(), csv.lines().count() - 1, markdown.lines().count() - 2];
        assert_eq!(rows, [rows[0]; 3], "{line}");
        assert!(refused(&format!("{line} --csv --json")).contains("cannot be used with"), "{line}");
    }
}

#[test]
fn notes_are_left_out_when_they_are_not_wanted() {
    let line = "run jobs/quickstart.fio --set cost.wake_us=40 --set job.number_ios=20";
    assert!(well(line).1.contains("made no difference"));
    assert_eq!(well(&format!("{line} -q")).1, "");
    let (report, _) = well(line);
    assert!(report.contains("\ncounted: ") && report.contains(" idle of 8 cores"), "{report}");
    assert!(report.contains("\nfio-3.33\nStarting 1 process\n\nquickstart: "), "{report}");
    assert!(refused("rn --color always").starts_with("\u{1b}[1;31mmmcq:\u{1b}[0m rn: no command"));
}

#[test]
fn a_card_says_what_its_values_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let card = |range: &str| {
        let text = include_str!("../../mmcq-sim/cards/hbg4a2.toml");
        let text = text.replace("read_first_us = 100.5\n", &format!("read_first_us = 100.5\n{range}\n"));
        let path = folder.path().join("card.toml");
        std::fs::write(&path, text).unwrap();
        format!("params --card {} --json read_first", path.display())
    };
    let (out, _) = well(&card("range = { read_first_us = [60, 400] }"));
    let param: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(param["range"], serde_json::json!([60.0, 400.0]));
    let error = refused(&card("range = { read_first_us = [400, 60] }"));
    assert!(error.contains("card.toml:32: ") && error.contains("range.read_first_us"), "{error}");
    let error = refused(&card("range = { read_frist_us = [60, 400] }"));
    assert!(error.contains("card.flash.read.read_frist_us: the card's file has a range for it"), "{error}");
}
