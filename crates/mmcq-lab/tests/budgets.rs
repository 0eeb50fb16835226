//! Tests `mmcq check`: loads and their budgets.

use std::path::PathBuf;
use std::process::{Command, Output};

const JOB: &str = "[one]\nrw=randrw\nbs=4k\nsize=8M\nnumber_ios=200\nioengine=libaio\niodepth=4\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.file("job.fio", JOB);
        folder
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn mmcq(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.path()).args(line.split_whitespace()).output().unwrap()
    }

    fn check(&self, text: &str) -> (Option<i32>, String, String) {
        self.file("budgets.toml", text);
        let output = self.mmcq("check budgets.toml");
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, err)
    }
}

#[test]
fn a_new_file_is_kept_and_a_slower_board_breaks_it() {
    let folder = Folder::new();
    assert!(folder.mmcq("new budgets b.toml --job job.fio").status.success());
    let kept = folder.mmcq("check b.toml");
    let text = String::from_utf8(kept.stdout).unwrap();
    assert!(kept.status.success() && text.ends_with("all 8 budgets are kept\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let slower = std::fs::read_to_string(folder.0.path().join("b.toml")).unwrap();
    let slower = slower.replace("# set = [\"cost.wake_us=40\"]", "set = [\"card.read_first_us=2000\"]");
    let (code, out, _) = folder.check(&slower);
    assert_eq!(code, Some(1), "{out}");
    let broken: Vec<&str> = out.lines().filter(|line| line.ends_with("BROKEN")).collect();
    assert!(broken.iter().any(|line| line.contains("run_mib_s")), "{out}");
    assert!(broken.iter().any(|line| line.contains("read_lat_p99_us")), "{out}");
    assert!(!broken.iter().any(|line| line.contains("interrupts_per_io")), "{out}");
}

/// Checks that a load whose job fails at its first I/O keeps no budget, whatever its rate is.
#[test]
fn jobs_that_fail_break_the_check() {
    let folder = Folder::new();
    folder.file("bad.fio", "[global]\nsize=1m\n[a]\nrw=randread\n[b]\nrw=randwrite\nbs=513\n");
    let (code, out, err) = folder.check("[[run]]\njob = \"bad.fio\"\n[run.least]\nread_mib_s = 0.1\n");
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.lines().any(|line| line.contains("failed") && line.ends_with("BROKEN")), "{out}");
}

#[test]
fn a_budget_is_compared_with_what_the_sweep_says_of_the_same_run() {
    let folder = Folder::new();
    let row = folder.mmcq("sweep job.fio --over seed=3 --platform hsq-sprd --setting none");
    let row: serde_json::Value =
        serde_json::from_slice(row.stdout.split(|b| *b == b'\n').next().unwrap()).unwrap();
    folder.file(
        "budgets.toml",
        "[[run]]\njob = \"job.fio\"\nplatform = \"hsq-sprd\"\nsetting = \"none\"\nseed = 3\n[run.least]\nread_mib_s = 1\n\
         limit_share = 0.01\nrun_mib_s = 0\n",
    );
    let output = folder.mmcq("check budgets.toml --json");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| lines.iter().find(|line| line["figure"] == name).unwrap();
    for (figure, column) in
        [("read_mib_s", "mib_s"), ("run_mib_s", "run_mib_s"), ("limit_share", "limit_share")]
    {
        assert_eq!(of(figure)["measured"], row[column], "{figure}");
    }
    assert_eq!(of("run_mib_s")["room_percent"], serde_json::Value::Null);
    assert_eq!(lines.len(), 3);
}

#[test]
fn bad_budgets_are_refused_with_their_line() {
    let folder = Folder::new();
    folder.file("bad.fio", "[a]\nrw=reed\n");
    let of = |rest: &str| format!("[[run]]\njob = \"job.fio\"\n{rest}");
    for (text, expected) in [
        ("run = []\n".to_owned(), "budgets.toml: no [[run]]"),
        ("[[run]]\njob = 3\n".to_owned(), "budgets.toml:2: "),
        ("[[run]]\njob = \"none.fio\"\n".to_owned(), "budgets.toml:2: job: "),
        ("[[run]]\njob = \"bad.fio\"\n".to_owned(), "budgets.toml:2: job: "),
        (of(""), "budgets.toml:2: no budget"),
        (
            format!("{}[run.least]\nrun_mib_s = 0\n\n[[run]]\nseed = 3\n", of("")),
            "budgets.toml:6: [[run]]: expected either job or options",
        ),
        (of("colour = \"red\"\n"), "budgets.toml:3: unknown field `colour`"),
        (of("setting = \"fast\"\n[run.least]\nrun_mib_s = 1\n"), "budgets.toml:3: setting: "),
        (of("platform = \"moon\"\n[run.least]\nrun_mib_s = 1\n"), "budgets.toml:2: platform moon: "),
        (of("set = [\"cost.wake=1\"]\n[run.least]\nrun_mib_s = 1\n"), "budgets.toml:2: --set cost.wake=1: "),
        (
            of("[run.least]\nread_lat_p98_us = 1\n"),
            "budgets.toml:4: read_lat_p98_us: no such figure; the nearest is",
        ),
        (of("[run.most]\nrun_mib_s = \"fast\"\n"), "budgets.toml:4: "),
        (
            of("[run.most]\ntrim_mib_s = 1\n"),
            "budgets.toml:4: job.fio: trim_mib_s: the run has nothing of it",
        ),
        (of("card = \"moon\"\n[run.least]\nrun_mib_s = 1\n"), "budgets.toml:2: job.fio: card moon: "),
    ] {
        let (code, out, error) = folder.check(&text);
        assert_eq!((code, out.as_str(), error.lines().count()), (Some(2), "", 1), "{text}: {error}");
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(
        String::from_utf8(folder.mmcq("check --figures").stdout).unwrap().contains("\nwrite_lat_p99.9_us\n")
    );
}

/// Returns the JSON of a report after a change of one of its figures.
fn changed(report: &str, change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut report: serde_json::Value = serde_json::from_str(report).unwrap();
    change(&mut report);
    report.to_string()
}

#[test]
fn an_earlier_report_is_a_budget() {
    let folder = Folder::new();
    folder.file("two.fio", &format!("{JOB}numjobs=2\n[two]\nstonewall\nrw=read\nbs=64k\nsize=1M\n"));
    let line = "run two.fio --platform hsq-sprd --set job.iodepth=2 --seed 3 --output-format json";
    let report = String::from_utf8(folder.mmcq(line).stdout).unwrap();
    folder.file("old.json", &report);
    let check = |line: &str| {
        let output = folder.mmcq(&format!("check {line}"));
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), out, err)
    };
    // The new run of the same load needs nothing but the report.
    let (code, out, err) = check("--baseline old.json");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.starts_with("none of ") && out.lines().count() == 1, "{out}");
    // An earlier report that was faster: one figure is worse, and `--within 6%` accepts that.
    let faster = changed(&report, |report| {
        let iops = report["jobs"][2]["read"]["iops"].as_f64().unwrap();
        report["jobs"][2]["read"]["iops"] = (iops * 1.05).into();
    });
    folder.file("faster.json", &faster);
    let (code, out, _) = check("--baseline faster.json --within 3%");
    assert_eq!((code, out.lines().count()), (Some(1), 2), "{out}");
    assert!(out.starts_with("two (3), read: IOPS: ") && out.contains("4.76 % worse\n"), "{out}");
    assert_eq!(check("--baseline faster.json --within 6%").0, Some(0));
    // Compares two reports that exist, one of which is better.
    assert_eq!(check("faster.json --baseline old.json").0, Some(0));
    let (code, out, _) = check("old.json --baseline faster.json --json");
    assert_eq!((code, out.matches("\"kept\":false").count()), (Some(1), 1), "{out}");
    // Missing figures, files and wrong options are named in the error.
    folder.file(
        "less.json",
        &changed(&report, |report| {
            report["jobs"].as_array_mut().unwrap().pop();
        }),
    );
    let (code, out, err) = check("less.json --baseline old.json");
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    assert!(err.contains("old.json: the new run has nothing of two (3): error, and "), "{err}");
    for (line, expected) in [
        ("--baseline none.json", "none.json: "),
        ("--baseline job.fio", "no report"),
        ("--baseline old.json --within fast", "expected a share"),
        ("b.toml --within 3%", "--baseline"),
    ] {
        let (code, _, err) = check(line);
        assert!(code == Some(2) && err.contains(expected), "{line}: {err}");
    }
}

#[test]
fn new_budgets_are_of_the_scene_that_was_given() {
    let folder = Folder::new();
    let line = "new budgets b.toml --job job.fio --platform hsq-sprd --card hbg4a2 --setting none --seed 3 \
                --set cost.wake_us=44 --set job.iodepth=2";
    assert!(folder.mmcq(line).status.success());
    let text = std::fs::read_to_string(folder.0.path().join("b.toml")).unwrap();
    let head = "[[run]]\njob = \"job.fio\"\nplatform = \"hsq-sprd\"\ncard = \"hbg4a2\"\nsetting = \"none\"\nseed = 3\n\
                set = [\"cost.wake_us=44\", \"job.iodepth=2\"]\n";
    assert!(text.contains(head), "{text}");
    assert_eq!(folder.mmcq("check b.toml").status.code(), Some(0));
    assert_eq!(folder.mmcq("new budgets c.toml --job job.fio --platform moon").status.code(), Some(2));
    // A tenth of room, or as much as is wanted.
    let rate = |file: &str, room: &str| {
        assert!(folder.mmcq(&format!("new budgets {file} --job job.fio {room}")).status.success());
        let text = std::fs::read_to_string(folder.0.path().join(file)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("run_mib_s = ")).map(str::to_owned);
        line.and_then(|rate| rate.parse::<f64>().ok()).unwrap()
    };
    let (tenth, three) = (rate("ten.toml", ""), rate("three.toml", "--room 3%"));
    assert!((three / tenth - 0.97 / 0.9).abs() < 0.001, "{tenth} {three}");
    assert_eq!(folder.mmcq("new budgets d.toml --job job.fio --room 100%").status.code(), Some(2));
}

#[test]
fn a_change_without_effect_is_named() {
    let folder = Folder::new();
    let said = |line: &str| String::from_utf8(folder.mmcq(line).stderr).unwrap();
    let idle = "--set cost.hop_us=4: made no difference";
    folder.file(
        "b.toml",
        "[[run]]\njob = \"job.fio\"\nset = [\"cost.hop_us=4\", \"job.iodepth=2\"]\n[run.least]\nrun_mib_s = 0\n",
    );
    let err = said("check b.toml");
    assert!(
        err.contains(&format!("b.toml:2: job.fio: {idle} in this run")) && err.lines().count() == 1,
        "{err}"
    );
    let err = said("why job.fio --set cost.hop_us=4 --set job.iodepth=2");
    assert!(err.contains(&format!("{idle} in this run")) && err.lines().count() == 1, "{err}");
    let err = said("sweep job.fio --set cost.hop_us=4 --set job.iodepth=2 --over seed=1,2");
    assert!(err.contains(&format!("{idle} at any point")) && err.lines().count() == 1, "{err}");
    // The changed cost exists with setting `none`, which has a worker thread to wake.
    let err = said("sweep job.fio --set cost.hop_us=4 --over setting=mmcq,none --platform hsq-sprd");
    assert_eq!(err, "");
    let err = said("sweep job.fio --set cost.hop_us=4 --over seed=1..20");
    assert!(err.contains(&format!("{idle} at 8 of 20 points")), "{err}");
}

#[test]
fn rates_are_in_the_unit_that_is_wanted() {
    let folder = Folder::new();
    let rate = |unit: &str| {
        let line = format!("why job.fio --platform hsq-sprd --json --rates {unit}");
        let text = String::from_utf8(folder.mmcq(&line).stdout).unwrap();
        // The facts follow after the line with the title.
        let fact: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!((&fact["name"], &fact["unit"]), (&"this run".into(), &unit.into()), "{text}");
        fact["value"].as_f64().unwrap()
    };
    let mib = rate("MiB/s");
    assert!((rate("MB/s") / mib - 1.048_576).abs() < 1e-6);
    assert!((rate("IOPS") / mib - 256.0).abs() < 1e-6, "all are of 4 KiB");
    for seed in [1, 2] {
        let output = format!("--output-format json --output {seed}.json --seed {seed}");
        let setting = if seed == 1 { "none" } else { "mmcq" };
        let line = format!("run job.fio --platform hsq-sprd --setting {setting} {output}");
        assert!(folder.mmcq(&line).status.success());
    }
    let compared = |unit: &str| {
        let output = folder.mmcq(&format!("compare 1.json 2.json --json --rates {unit}"));
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut rates = lines.filter(|line| line["name"] == "rate");
        let run = rates.next().unwrap();
        assert!(run["group"] == "run" && run["unit"] == unit, "{text}");
        (run["b"].as_f64().unwrap(), rates.count())
    };
    let ((iops, alone), (mib, all)) = (compared("IOPS"), compared("MiB/s"));
    assert!((iops / mib - 256.0).abs() < 1e-6, "{iops} {mib}");
    assert_eq!((alone, all), (0, 2), "the requests a second of each direction have a line of their own");
    let refused = folder.mmcq("why job.fio --rates knots");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("expected MiB/s, MB/s or IOPS"));
}

#[test]
fn a_sweep_is_drawn_by_one_flag() {
    let folder = Folder::new();
    let drawn = |axes: &str| {
        let output = folder.mmcq(&format!("sweep job.fio --platform hsq-sprd {axes} --plot p.svg"));
        assert!(output.status.success(), "{output:?}");
        std::fs::read_to_string(folder.0.path().join("p.svg")).unwrap()
    };
    let lines = drawn("--over setting=none,mmcq --over job.bs=4k,16k,64k");
    assert_eq!(lines.matches("<circle").count(), 6, "{lines}");
    assert!(["job.bs", "16k", "none", "mmcq", "MiB/s"].iter().all(|text| lines.contains(text)), "{lines}");
    let bars = drawn("--over setting=none,mmcq --over seed=1,2");
    assert_eq!(bars.matches("<rect").count(), 1 + 2, "{bars}");
    assert_eq!(bars.matches(" MiB/s, 99 % in ").count(), 2, "{bars}");
}

#[test]
fn the_rate_of_jobs_that_run_in_turn_keeps_no_budget_above_the_wire() {
    let folder = Folder::new();
    let job = "[global]\nfilename=/dev/mmcblk0\nioengine=libaio\nbs=64k\nrw=read\nsize=16m\n[a]\n[b]\n\
               stonewall\noffset=32m\n";
    folder.file("wall.fio", job);
    let (code, out, err) = folder
        .check("[[run]]\njob = \"wall.fio\"\nplatform = \"intel-jsl\"\n[run.least]\nread_mib_s = 100\n");
    assert_eq!(code, Some(1), "{out}{err}");
}

#[test]
fn new_budgets_in_another_folder_find_their_files() {
    let folder = Folder::new();
    for name in ["ci", "jobs", "jobs/deep"] {
        std::fs::create_dir(folder.0.path().join(name)).unwrap();
    }
    folder.file("jobs/deep/x.fio", JOB);
    assert!(folder.mmcq("new board jobs/mine.toml --like hsq-sprd").status.success());
    let line = "new budgets ci/b.toml --job jobs/deep/x.fio --platform jobs/mine.toml --card hbg4a2";
    let output = folder.mmcq(line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.0.path().join("ci/b.toml")).unwrap();
    let head = "job = \"../jobs/deep/x.fio\"\nplatform = \"../jobs/mine.toml\"\ncard = \"hbg4a2\"\n";
    assert!(text.contains(head), "{text}");
    let output = folder.mmcq("check ci/b.toml");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    // The job's folder may be above that of the budgets.
    assert!(folder.mmcq("new budgets jobs/deep/b.toml --job job.fio").status.success());
    assert_eq!(folder.mmcq("check jobs/deep/b.toml").status.code(), Some(0));
}

#[test]
fn an_earlier_report_may_have_marks_of_comments_in_names() {
    let folder = Folder::new();
    let job = "--name=a#1 --rw=randread --bs=4k --size=256k --description=b;c";
    let report = folder.mmcq(&format!("run --platform hsq-sprd --output-format json -- {job}"));
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    folder.file("old.json", &String::from_utf8(report.stdout).unwrap());
    let output = folder.mmcq("check --baseline old.json");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that a comparison with another run says what ran differently, and that a baseline whose
/// job failed is none.
#[test]
fn a_baseline_of_another_run_is_told_and_one_that_failed_is_refused() {
    let folder = Folder::new();
    let report = |line: &str, name: &str| {
        let output = folder.mmcq(&format!("run {line} --output-format json"));
        folder.file(name, &String::from_utf8(output.stdout).unwrap());
    };
    report("job.fio", "old.json");
    let other = "--platform hsq-sprd --card emmc-hs200 --setting none --seed 4 --set cost.wake_us=30 --set job.rwmixread=60";
    report(&format!("job.fio {other}"), "new.json");
    let check = |line: &str| {
        let output = folder.mmcq(&format!("check {line}"));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (_, said) = check("new.json --baseline old.json");
    for part in
        ["platform: hsq-sprd, and", "card: ", "setting: none", "seed: 4", "cost.wake_us=30", "rwmixread=60"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(check("old.json --baseline old.json"), (Some(0), String::new()));
    folder.file("bad.fio", "[b]\nrw=randwrite\nbs=513\nsize=1m\n");
    report("bad.fio", "bad.json");
    let (code, said) = check("bad.json --baseline bad.json");
    assert!(code == Some(2) && said.contains("expected a baseline without failures"), "{said}");
    let (code, said) = check("bad.json --baseline old.json");
    assert_ne!(code, Some(0), "{said}");
}

/// Checks that a job that fails makes no file of budgets.
#[test]
fn a_job_that_fails_gets_no_budgets() {
    let folder = Folder::new();
    folder.file("bad.fio", "[global]\nsize=1m\n[b]\nrw=randwrite\nbs=513\n");
    let output = folder.mmcq("new budgets b.toml --job bad.fio");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("bad.fio: ") && text.contains("multiples of 512"), "{text}");
    assert!(!folder.0.path().join("b.toml").exists());
    // A job that only flushes, or that trims nothing, has no figure of a direction.
    let null = "new budgets n.toml -- --name=n --ioengine=null --rw=read --size=64k";
    assert!(folder.mmcq(null).status.success());
    let check = folder.mmcq("check n.toml");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

/// Checks that job files among options, and cards that a change names, are found from another
/// folder.
#[test]
fn all_paths_count_from_the_folder_of_the_budgets() {
    let folder = Folder::new();
    assert!(folder.mmcq("new card mine.toml --like emmc-hs200").status.success());
    std::fs::create_dir(folder.0.path().join("sub")).unwrap();
    let given =
        "[[run]]\noptions = [\"../job.fio\"]\nset = [\"card=../mine.toml\"]\n[run.least]\nrun_mib_s = 0.1\n";
    folder.file("sub/given.toml", given);
    let made = folder.mmcq("new budgets sub/made.toml --set card=mine.toml -- job.fio");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = std::fs::read_to_string(folder.0.path().join("sub/made.toml")).unwrap();
    assert!(text.contains("options = [\"../job.fio\"]") && text.contains("\"card=../mine.toml\""), "{text}");
    for file in ["sub/given.toml", "sub/made.toml"] {
        let output = folder.mmcq(&format!("check {file}"));
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
