//! Tests that pictures and pages say what they show, and show what the program says.

use crate::job_folder;
use serde_json::Value;
use std::process::Output;

const JOB: &str = "[four]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=2M\nrw=randrw\niodepth=4\nioengine=libaio\n\
                   numjobs=4\nruntime=20ms\ntime_based\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.file("job.fio", JOB);
        folder
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn mmcq(&self, line: &str) -> Output {
        job_folder::mmcq(self.0.path(), line)
    }

    fn well(&self, line: &str) -> String {
        job_folder::well(self.0.path(), line)
    }

    /// Returns the line with which the program refuses a command.
    fn refused(&self, line: &str) -> String {
        let output = self.mmcq(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
        said
    }

    /// Returns the JSON of a run.
    fn run(&self, line: &str) -> Value {
        serde_json::from_str(&self.well(&format!("-q run {line} --output-format json"))).unwrap()
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_picture_says_load_board_card_and_units() {
    let folder = Folder::new();
    let sweep = "-q sweep job.fio --card hbg4a2 --out rows.jsonl";
    let begin = |line: &str| {
        let _ = std::fs::remove_file(folder.0.path().join("rows.jsonl"));
        folder.well(&format!("{sweep} {line}"));
    };
    begin("--over setting=none,mmcq --over job.iodepth=1,4 --plot lines.svg");
    let what = ["of job.fio", "platform generic", "card hbg4a2", "seed 1", "rate, MiB/s"];
    has(&folder.read("lines.svg"), &what);
    has(&folder.read("lines.svg"), &["job.iodepth, requests"]);
    begin("--over setting=none,mmcq --over seed=1,2 --plot bars.svg");
    has(
        &folder.read("bars.svg"),
        &[&what[..3], &["rate, MiB/s", "mean of 2 seeds", "black lines: what"]].concat(),
    );
    begin(
        "--over cost.wake_us=20,40 --over setting=none,mmcq --heat heat.svg cost.wake_us,setting,lat_p99_us",
    );
    let shown =
        ["lat_p99_us, us of job.fio", "across: cost.wake_us, us; down: setting", "mean of reads and writes"];
    has(&folder.read("heat.svg"), &[&what[1..4], &shown].concat());
    folder.well("-q trace job.fio --card hbg4a2 --for 1ms --no-list --svg trace.svg");
    has(&folder.read("trace.svg"), &["job.fio: platform generic, card hbg4a2, setting mmcq"]);
    folder.well("-q reproduce fair --plot fair.svg");
    has(&folder.read("fair.svg"), &["on hsq-sprd with card hbg4a2", "rate, MiB/s"]);
}

#[test]
fn a_picture_in_another_format_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    for line in [
        "sweep job.fio --over setting=none,mmcq --plot x.png",
        "sweep job.fio --over setting=none,mmcq --heat x.png setting,seed,run_mib_s",
        "reproduce fair --plot x.png",
        "trace job.fio --svg x.png",
    ] {
        let said = folder.refused(line);
        has(&said, &["x.png: pictures are SVG; expected x.svg", "rsvg-convert x.svg -o x.png"]);
        assert!(!folder.0.path().join("x.png").exists(), "{line}");
    }
}

#[test]
fn no_percentile_is_above_the_longest_time() {
    let folder = Folder::new();
    let rows =
        folder.well("-q sweep job.fio --over setting=none,hsq-tag,mmcq,limit --over job.iodepth=1,2,8");
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    let mut seen = 0;
    for row in rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for name in ["lat_p50_us", "lat_p95_us", "lat_p99_us", "lat_p99.9_us"] {
            assert!(number(&row, name) <= number(&row, "lat_max_us"), "{name}: {row}");
        }
        // The longest of a few hundred requests is their 99.9 %: the middle of fio's bucket may be above it.
        seen += u32::from(row["lat_p99.9_us"] == row["lat_max_us"]);
    }
    assert!(seen > 0, "no row had a percentile to cut: {rows}");
    for (name, setting) in [("a.json", "none"), ("b.json", "mmcq")] {
        folder.well(&format!("-q run job.fio --setting {setting} --output-format json --output {name}"));
    }
    let compared: Vec<Value> = folder
        .well("compare a.json b.json --json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let figure = |group: &str, name: &str| {
        let found = compared.iter().find(|row| row["group"] == group && row["name"] == name)?;
        Some([number(found, "a"), number(found, "b")])
    };
    let groups: std::collections::BTreeSet<&str> =
        compared.iter().filter_map(|row| row["group"].as_str()).collect();
    let mut checked = 0;
    for group in groups {
        let Some(longest) = figure(group, "latency, max") else { continue };
        for percent in ["50", "99", "99.9", "99.99"] {
            if let Some(found) = figure(group, &format!("latency, {percent} %")) {
                assert!(found[0] <= longest[0] && found[1] <= longest[1], "{group} {percent}: {found:?}");
                checked += 1;
            }
        }
    }
    assert!(checked > 8, "{compared:?}");
    // The text has a few digits and percentiles, says what is better, and fits a terminal.
    let text = folder.well("compare a.json b.json");
    has(
        &text,
        &[
            "B is",
            "better",
            " further percentiles differ (--json has all)",
            "setting\n  A: none\n  B: mmcq\n",
        ],
    );
    assert!(!text.contains("99.5 %") && !text.contains("latency, 1 %"), "{text}");
    let table = text.lines().filter(|line| line.starts_with("  "));
    assert!(table.clone().count() > 20 && table.into_iter().all(|line| line.chars().count() <= 80), "{text}");
}

/// Returns the text of a page without its marks and pictures.
fn text(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('<') {
        text += before;
        text.push(' ');
        let end = if after.starts_with("svg") { "</svg>" } else { ">" };
        rest = after.split_once(end).map_or("", |(_, rest)| rest);
    }
    (text + rest).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_page_shows_what_the_program_says() {
    let folder = Folder::new();
    for setting in ["none", "mmcq"] {
        folder.well(&format!("-q report job.fio --setting {setting} -o page.html"));
        let page = text(&folder.read("page.html"));
        let report = folder.run(&format!("job.fio --setting {setting}"));
        let facts: Vec<Value> = folder
            .well(&format!("-q why job.fio --setting {setting} --json"))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let fact = |name: &str| facts.iter().find(|fact| fact["name"] == name).unwrap();
        let counted = |name: &str| report["mmcq"]["counters"][name].as_f64().unwrap();
        let rate = counted("bytes") / f64::from(1 << 20) / (counted("elapsed_ns") / 1e9);
        let share = fact("this run")["percent_of_the_limit"].as_f64().unwrap();
        let limit = fact("physical limit")["value"].as_f64().unwrap();
        let longest = |way: &str| {
            let jobs = report["jobs"].as_array().unwrap().iter();
            jobs.map(|job| job[way]["clat_ns"]["max"].as_u64().unwrap()).max().unwrap()
        };
        let ms = |ns: u64| {
            let text = format!("{:.3}", ns as f64 / 1e6);
            text.trim_end_matches('0').trim_end_matches('.').to_owned() + " ms"
        };
        has(
            &page,
            &[
                &format!("this run {rate:.2} MiB/s bus and card allow {limit:.2} MiB/s"),
                &format!("share of that {share:.1} %"),
                &format!("longest of the reads {}", ms(longest("read"))),
                &format!("longest of the writes {}", ms(longest("write"))),
                "4 at a time, 4 jobs, again and again for 20 ms.",
            ],
        );
        has(&page, &["Nobody has measured these", "cost.prep_us"]);
        assert!(!page.contains("other jobs"), "four threads of one job: {page}");
    }
    folder.file("two.fio", format!("{JOB}[other]\nrw=read\nsize=64k\n"));
    folder.well("-q report two.fio -o two.html");
    has(&text(&folder.read("two.html")), &["; and other jobs."]);
    folder.well("-q sweep job.fio --over setting=none,mmcq --out rows.jsonl --report sweep.html");
    let shown = text(&folder.read("sweep.html"));
    has(&shown, &["99 %, us longest, us", "Rates of the runs, both directions together"]);
    has(&folder.read("sweep.html"), &["Rate of job.fio", "rate, MiB/s"]);
}

#[test]
fn a_page_shows_how_long_flushes_take() {
    let folder = Folder::new();
    let job = "--card emmc-queue -- --name=a --rw=randwrite --bs=4k --size=2m --io_size=512k --fdatasync=4";
    let report: Value =
        serde_json::from_str(&folder.well(&format!("-q run --output-format json {job}"))).unwrap();
    folder.well(&format!("-q report -o page.html {job}"));
    let sync = &report["jobs"][0]["sync"];
    let count = sync["total_ios"].as_u64().unwrap();
    assert_eq!(count, 31);
    let page = text(&folder.read("page.html"));
    let (_, table) = page.split_once("so many are complete within").unwrap();
    let (table, _) = table.split_once("Over the time of the run").unwrap();
    let us = |name: &str| sync["lat_ns"][name].as_f64().unwrap() / 1e3;
    assert!(table.starts_with(&format!(" latency writes flushes requests 128 {count} ")), "{table}");
    let longest = table.trim_end().rsplit_once(' ').unwrap();
    let longest = longest.0.rsplit_once(' ').unwrap().1;
    assert_eq!(longest.parse::<f64>().unwrap(), us("max"), "{table}");
}

#[test]
fn a_page_names_all_of_the_load() {
    let folder = Folder::new();
    for (options, said) in [
        ("--rw=randread --bsrange=4k-64k", "randread of 4 to 64 KiB, 1 at a time, 1 job."),
        (
            "--rw=randrw --bs=4k,8k --rate_iops=500,100",
            "randrw of 4 KiB and 8 KiB, 1 at a time, 1 job, at most 500 requests/s of reads, at most 100 requests/s of writes.",
        ),
        (
            "--rw=write --bs=64k --rate=2m --fdatasync=8",
            "write of 64 KiB, 1 at a time, 1 job, at most 2 MiB/s, a flush after each 8 writes.",
        ),
        (
            "--rw=randwrite --bs=4k --thinktime=2ms --thinktime_blocks=4 --sync=1",
            "1 job, a pause of 2 ms after each 4 requests, each write durable before it ends.",
        ),
    ] {
        let job = format!("--card emmc-queue -- --name=a --size=1m --io_size=256k {options}");
        folder.well(&format!("-q report -o page.html {job}"));
        has(&text(&folder.read("page.html")), &[said]);
    }
}

#[test]
fn a_job_with_a_pace_of_its_own_is_not_said_to_meet_the_card() {
    let folder = Folder::new();
    for pace in ["--rate_iops=100", "--rate=400k", "--thinktime=10ms"] {
        let job = format!("--card hbg4a2 -- --name=a --rw=randread --bs=4k --size=4m --io_size=256k {pace}");
        let said = folder.well(&format!("why {job}"));
        has(&said, &["the job's own pace is the limit", "the bus is free for 9"]);
        assert!(!said.contains("of what wire and card allow"), "{said}");
        folder.well(&format!("-q report -o page.html {job}"));
        let page = text(&folder.read("page.html"));
        has(&page, &["bus, card and the load's own pace allow", "the job's own pace is the limit"]);
        has(&page, &["leaves the bus without work for 9"]);
    }
    let job = "--card hbg4a2 -- --name=a --rw=randread --bs=4k --size=4m --io_size=256k";
    assert!(!folder.well(&format!("why {job}")).contains("pace"));
}

#[test]
fn all_options_that_are_missing_are_named_at_once() {
    let folder = Folder::new();
    let said = folder.refused(
        "run -- --name=a --rw=read --serialize_overlap=1 --bs=4k --rate_min=1 --steadystate=iops:1%",
    );
    has(
        &said,
        &[
            "argument 3: 3 options of fio are not supported here: 'serialize_overlap', 'rate_min' (argument 5), ",
        ],
    );
    folder.file("bad.fio", "[a]\nrw=read\nrate_min=1\nbs=x\nzonemode=zbd\n");
    let said = folder.refused("run bad.fio");
    // What cannot be read ends the reading; an option before it is still the first fault.
    has(&said, &["bad.fio:3: option 'rate_min' of fio is not supported here"]);
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let folder = Folder::new();
    folder.file("marked.fio", format!("\u{feff}{JOB}"));
    let counted = |report: &Value| report["mmcq"]["counters"].clone();
    assert_eq!(counted(&folder.run("marked.fio")), counted(&folder.run("job.fio")));
    let lines: String = (0..4).map(|n| format!("{},host,0,Read,{},4096,0\n", n * 1000, n * 4096)).collect();
    folder.file("plain.csv", &lines);
    folder.file("marked.csv", format!("\u{feff}{lines}"));
    let replayed = |name: &str| folder.well(&format!("-q replay {name} --output-format json"));
    assert_eq!(replayed("marked.csv").replace("marked", "plain"), replayed("plain.csv"));
}

#[test]
fn a_key_that_stands_twice_is_named() {
    let folder = Folder::new();
    folder.file("b.toml", "[[run]]\njob = \"job.fio\"\nplatform = \"generic\"\nplatform = \"hsq-sprd\"\n");
    has(&folder.refused("check b.toml"), &["b.toml:4: duplicate key `platform`"]);
    folder.file("f.toml", "a = \"x\"\na = \"y\"\n");
    has(&folder.refused("run f.toml"), &["line 2: duplicate key `a`"]);
}

#[test]
fn budgets_are_written_for_options_of_fio_too() {
    let folder = Folder::new();
    let scene = "--platform hsq-sprd --card hbg4a2 --setting none --seed 3 --set cost.wake_us=40";
    folder.well(&format!("new budgets b.toml {scene} -- --name=a --rw=randread --bs=4k --size=256k"));
    let text = folder.read("b.toml");
    has(
        &text,
        &[
            "options = [\"--name=a\", \"--rw=randread\", \"--bs=4k\", \"--size=256k\"]",
            "platform = \"hsq-sprd\"",
            "card = \"hbg4a2\"",
            "setting = \"none\"",
            "seed = 3",
            "set = [\"cost.wake_us=40\"]",
        ],
    );
    has(&folder.well("check b.toml"), &["budgets are kept"]);
    folder.file("c.toml", text.replace("options", "job = \"job.fio\"\noptions"));
    has(&folder.refused("check c.toml"), &["c.toml:4: [[run]]: expected either job or options"]);
}
