//! Tests pages: one file contains all, loads nothing, and carries the data. It is written
//! completely or not at all.

use crate::job_folder;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const JOB: &str =
    "[mixed <b>]\nfilename=/dev/mmcblk0\ndirect=1\nbs=4k\nsize=2M\nrw=randrw\niodepth=4\nioengine=libaio\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.0.path().join("job.fio"), JOB).unwrap();
        folder
    }

    fn mmcq(&self, line: &str) -> Output {
        job_folder::mmcq(self.0.path(), line)
    }

    /// Returns the standard output of a command that must succeed.
    fn well(&self, line: &str) -> String {
        job_folder::well(self.0.path(), line)
    }

    /// Runs the laboratory with a command line that it must refuse. Checks for exit code 2 and one
    /// line of error with these texts.
    fn refused(&self, line: &str, parts: &[&str]) {
        let output = self.mmcq(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{line}: {said}");
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Returns the JSON data in a page, as it is written there.
fn data(page: &str) -> &str {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"mmcq-report\">\n").unwrap();
    rest.split_once("</script>").unwrap().0
}

/// Checks that each HTML element is closed in the right order, except those that need no end.
fn well_formed(page: &str) {
    const EMPTY: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap_or_else(|| panic!("no end: {after:.60}"));
        let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !EMPTY.contains(&name) && !tag.ends_with('/') {
            open.push(name);
            // The content of style and data elements is plain text.
            if ["style", "script"].contains(&name) {
                rest = &rest[rest.find("</").unwrap()..];
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn a_page_says_all_loads_nothing_and_is_data() {
    let folder = Folder::new();
    let line = "--set cost.wake_us=30 --seed 3 --setting none";
    let said = folder.well(&format!("report job.fio -o page.html {line}"));
    let page = folder.read("page.html");
    assert!(page.len() < 500_000, "{} bytes", page.len());
    well_formed(&page);
    // The page begins with the verdict of `mmcq why`.
    let why = folder.well(&format!("why job.fio {line}"));
    assert_eq!(why.lines().last().unwrap(), said.trim_end());
    let verdict = page.find("class=\"verdict\"").unwrap();
    assert!(page[verdict..].contains(said.trim_end()) && verdict < page.find("<h2>").unwrap());
    // The page has nothing that a browser would load.
    for part in ["http://", "https://", "src=", "url(", "@import", "<link", "<img", "onload"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (1, 1));
    // The page has charts with a title that take the width of their place, and tables with
    // captions.
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 5);
    assert_eq!(page.matches("<svg class=\"scope\"").count(), 1);
    assert_eq!(page.matches("width=\"100%\" role=\"img\" aria-label=\"").count(), 6);
    let tables = page.matches("<table>").count();
    assert_eq!((tables, page.matches("<caption>").count()), (5, tables));
    assert!(page.matches("<th scope=\"col\"").count() > 20);
    let parts = [
        "hsq-tag",
        "mmcq-own",
        "limit",
        "99.9 %",
        ">CMD<",
        "cost.wake_us",
        "card.flash",
        "prior",
        "--seed 3",
        "mixed &lt;b&gt;",
        "wire, commands",
        "prefers-color-scheme:dark",
    ];
    for part in parts {
        assert!(page.contains(part), "{part}");
    }
    // The data of the page are the report of `run`, with each `<` escaped.
    let json = folder.well(&format!("run job.fio {line} --output-format json"));
    assert_eq!(data(&page), json.replace('<', "\\u003c"));
    let [inside, run] = [data(&page), &json].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(inside, run);
    let phases = run["mmcq"]["phases_ns"].as_object().unwrap();
    let sum: u64 = phases.values().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!((phases.len(), sum), (8, run["mmcq"]["counters"]["elapsed_ns"].as_u64().unwrap()));
}

#[test]
fn a_run_and_a_replay_leave_a_page_too() {
    let folder = Folder::new();
    let plain = folder.well("run job.fio");
    assert_eq!(folder.well("run job.fio --report a.html"), plain);
    assert_eq!(folder.well("run job.fio --report b.html"), plain);
    assert_eq!(folder.read("a.html").replace("a.html", "b.html"), folder.read("b.html"));
    folder.well("run job.fio --export blktrace x.blktrace.0 --report with-export.html");
    assert_eq!(data(&folder.read("with-export.html")), data(&folder.read("a.html")));
    folder.well("replay x --report replay.html");
    let page = folder.read("replay.html");
    well_formed(&page);
    assert!(page.contains("The recorded load") && page.contains("blktrace"));
    // The laboratory cannot trace the controller of this board, so the page has no picture of its
    // bus. Also, the board has other settings of Linux.
    folder.well("report job.fio -o reader.html --platform stream-rtsx --setting patch");
    let page = folder.read("reader.html");
    assert!(page.contains("No picture: the controller cannot be traced") && page.contains(">close<"));
}

#[test]
fn a_page_is_whole_or_not_there() {
    let folder = Folder::new();
    folder.refused("report job.fio -o no/page.html", &["--output no/page.html"]);
    folder.refused("report job.fio -o .", &["--output ."]);
    folder.refused("report none.fio -o page.html", &["none.fio"]);
    folder.refused("report job.fio -o page.html --set cost.wake=1", &["cost.wake"]);
    folder.refused("run job.fio --image card.img --report page.html", &["card.img"]);
    assert_eq!(folder.names(), ["job.fio"]);
    std::fs::write(folder.0.path().join("card.img"), vec![0; 64 << 20]).unwrap();
    folder.refused("run job.fio --image card.img --write --report page.html", &["an image has one writer"]);
    assert_eq!(folder.names(), ["card.img", "job.fio"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_what_was_there() {
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("old.html"), "as it was").unwrap();
    folder.well("run job.fio --output-format json --output a.json");
    folder.well("run job.fio --seed 2 --output-format json --output b.json");
    folder.well("run job.fio --export blktrace trace.blktrace.0 --output run.txt");
    let names = folder.names();
    for line in [
        "report job.fio -o",
        "run job.fio --report",
        "replay trace --report",
        "compare a.json b.json --report",
        "sweep job.fio --over seed=1..2 --report",
        "reproduce fair --report",
        "torture --mode queues --ios 500 --report",
    ] {
        // The shell limits each file to 2 KiB.
        let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"";
        // A table takes seconds: once is enough.
        let once = usize::from(line.starts_with("reproduce")) * 2;
        for name in &["old.html", "new.html", "/dev/full"][once..] {
            let mut shell = Command::new("sh");
            shell.args(["-c", script, env!("CARGO_BIN_EXE_mmcq")]).args(line.split(' ')).arg(name);
            let output = shell.current_dir(folder.0.path()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            // Lines about the progress end with their seconds; all other lines are errors.
            let is_fault = |line: &&str| line.starts_with("mmcq: ") && !line.ends_with(" s");
            let faults: Vec<&str> = said.lines().filter(is_fault).collect();
            assert_eq!((output.status.code(), faults.len()), (Some(1), 1), "{line} {name}: {said}");
            assert!(faults[0].contains(name), "{line}: {said}");
        }
        assert_eq!(
            (folder.names(), folder.read("old.html").as_str()),
            (names.clone(), "as it was"),
            "{line}"
        );
    }
    assert!(Path::new("/dev/full").exists());
}

/// Makes a folder like that of `tools/playground.sh`, with only a form.
fn playground(folder: &Folder) {
    let place = folder.0.path().join("play");
    std::fs::create_dir(&place).unwrap();
    let put = |name: &str, text: &str| std::fs::write(place.join(name), text).unwrap();
    put("version", env!("CARGO_PKG_VERSION"));
    put("index.html", "<!-- play --><form id=\"form\"></form><!-- /play -->");
    put("style.css", "form{display:grid}");
    put("lab.js", "export const lab = 1;\n");
    put("page.js", "import { lab } from './lab.js';\nconsole.log(lab);\n");
    put("worker.js", "import { lab } from './lab.js';\n");
    put("mmcq_playground.wasm.gz", "abc");
}

#[test]
fn a_live_page_is_a_report_with_a_playground_inside() {
    let folder = Folder::new();
    playground(&folder);
    let line = "job.fio --set cost.wake_us=30 --platform stm32h7-sdmmc";
    folder.well(&format!("report {line} -o plain.html"));
    folder.well(&format!("report {line} -o live.html --live=play"));
    let [plain, live] = ["plain.html", "live.html"].map(|name| folder.read(name));
    well_formed(&live);
    assert_eq!(data(&live), data(&plain));
    assert!(live.contains("default-src 'none'") && live.contains("; script-src 'sha256-"));
    for part in ["http://", "https://", "src=", "url(", "@import", "<link", "<img", "connect-src"] {
        assert!(!live.contains(part), "{part}");
    }
    let start = live.split_once("id=\"play-start\">").unwrap().1.split_once("</script>").unwrap().0;
    let start: Value = serde_json::from_str(start).unwrap();
    assert_eq!(start["fields"]["platform"], "stm32h7-sdmmc");
    assert_eq!((&start["fields"]["rw"], &start["fields"]["size"]), (&"randrw".into(), &"2M".into()));
    assert_eq!(start["set"], serde_json::json!(["cost.wake_us=30"]));
    assert!(folder.well("compare plain.html live.html").starts_with("no difference: "));
    // Errors: missing files, files of another version, and a board that the page cannot know.
    folder.refused(
        "report job.fio -o x.html --live=nowhere",
        &["--live: nowhere: version: ", "tools/playground.sh"],
    );
    std::fs::write(folder.0.path().join("play/version"), "0.0.1").unwrap();
    folder.refused("report job.fio -o x.html --live=play", &["--live: play: of version 0.0.1; this is "]);
    assert!(!folder.names().contains(&"x.html".to_owned()));
}

#[test]
fn two_reports_are_compared_exactly() {
    let folder = Folder::new();
    folder.well("report job.fio -o a.html --setting none");
    folder.well("report job.fio -o b.html --setting none --set cost.wake_us=80");
    folder.well("run job.fio --setting none --output-format json --output a.json");
    let same = folder.well("compare a.html a.json");
    assert!(same.starts_with("no difference: ") && same.lines().count() == 1, "{same}");
    let text = folder.well("compare a.json b.html --report c.html");
    for part in [
        "set\n",
        "cost.wake_us=80",
        "run time for each request",
        "CPU (us)",
        "latency, 99 % (us)",
        "are equal",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("wire, data"), "the bus moves the same: {text}");
    // The table, the JSON lines and the page have the same figures.
    let lines = folder.well("compare a.json b.html --json");
    let page = folder.read("c.html");
    well_formed(&page);
    assert_eq!((data(&page), page.len() < 100_000), (lines.as_str(), true));
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cpu = rows.iter().find(|row| row["name"] == "CPU").unwrap();
    let of = |name: &str| cpu[name].as_f64().unwrap();
    assert!(of("difference") > 1.0 && (of("b") - of("a") - of("difference")).abs() < 1e-9, "{cpu}");
    let percent = format!("{:+.2} %", of("percent"));
    assert!(text.contains(&percent) && page.contains(&percent), "{percent}");
}

#[test]
fn what_is_no_report_is_refused_in_one_line() {
    let folder = Folder::new();
    folder.well("run job.fio --output-format json --output a.json");
    let json = folder.read("a.json");
    let put = |name: &str, text: &str| std::fs::write(folder.0.path().join(name), text).unwrap();
    put("old.json", &json.replace("\"version\" : \"", "\"version\" : \"0.0."));
    put("cut.json", &json[..json.len() / 2]);
    put("page.html", "<!DOCTYPE html><html></html>");
    std::fs::write(folder.0.path().join("bytes"), [0xff; 64]).unwrap();
    folder.refused("compare a.json none.json", &["none.json", "No such file"]);
    folder.refused("compare a.json .", &[".: "]);
    folder.refused(
        "compare old.json a.json",
        &["old.json: a report of mmcq 0.0.", "expected a run by this version"],
    );
    for name in ["cut.json", "page.html", "bytes", "job.fio"] {
        folder.refused(&format!("compare a.json {name}"), &[name, "no report"]);
    }
    folder.refused("compare a.json a.json --report no/c.html", &["--report no/c.html"]);
}

#[test]
fn lists_leave_a_page_too() {
    let folder = Folder::new();
    for (line, said, rows) in [
        (
            "sweep job.fio --over seed=1..3 --over setting=none,mmcq --heat heat.svg seed,setting,mib_s",
            "Fastest: ",
            6,
        ),
        ("reproduce fair", "Nothing was published", 1),
        ("torture --mode queues --ios 500", "No promise was broken", 1),
    ] {
        folder.well(&format!("{line} --report page.html"));
        let page = folder.read("page.html");
        well_formed(&page);
        assert!(page.len() < 500_000 && page.contains("default-src 'none'") && page.contains(said), "{line}");
        assert!(page.contains(&line[..12]), "the command: {line}");
        let objects: Vec<serde_json::Value> =
            data(&page).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(objects.len() >= rows, "{line}: {}", objects.len());
        folder.well(&format!("{line} --report again.html").replace("heat.svg", "more.svg"));
        let command = |page: &str| page.replace("again.html", "page.html").replace("more.svg", "heat.svg");
        assert_eq!(command(&folder.read("again.html")), page, "{line}");
    }
    folder.refused("sweep job.fio --over seed=1..3 --report no/page.html", &["--report no/page.html"]);
    folder.refused("reproduce never --thin --report page2.html", &["never: "]);
}

#[test]
fn a_page_has_the_settings_of_linux_that_card_and_board_have() {
    let folder = Folder::new();
    let names = ["hsq-tag", "hsq-fifo", "linux-cqe"];
    let has = |line: &str| {
        folder.well(&format!("report job.fio -o page.html {line}"));
        let page = folder.read("page.html");
        names.map(|name| page.contains(&format!(">{name}</th>")))
    };
    assert_eq!(has("--platform intel-jsl --card emmc-queue"), [true; 3]);
    assert_eq!(has("--platform hsq-sprd"), [true, true, false]);
    assert!(!folder.read("page.html").contains("linux-cqe"), "a card without a queue");
}
