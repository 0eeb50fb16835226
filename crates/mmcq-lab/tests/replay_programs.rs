//! Tests what a replay reports about its trace: each program separately, facts about the trace, and
//! the share of think time.

use serde_json::Value;
use std::process::Command;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        std::fs::write(folder.0.path().join(name), content).unwrap();
        folder
    }

    fn well(&self, line: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = command.current_dir(self.0.path()).args(line.split_whitespace()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.well(&format!("{line} --output-format json"))).unwrap()
    }
}

/// Returns requests as text in blkparse's format, each with its arrival, its end, and the program
/// that made it.
fn blkparse(requests: &[(u32, u32, &str, u32, u64, u32, &str)]) -> String {
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (at_us, end_us, letters, process, sector, count, name) in requests {
        let line = |us: &u32, process: &u32, action: &str, name: &str| {
            let (s, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
            format!("  8,16 0 1 {s:5}.{ns:09} {process} {action} {letters} {sector} + {count} [{name}]\n")
        };
        lines.push((*at_us, line(at_us, process, "Q", name)));
        lines.push((*end_us, line(end_us, &0, "C", "0")));
    }
    lines.sort_by_key(|(us, _)| *us);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the trace of two programs: a database that reads a page every 2 ms, and the file
/// system's journal, which writes 64 KiB every 10 ms.
fn trace() -> String {
    let mut all = Vec::new();
    for nth in 0..100 {
        let at_us = nth * 2000;
        all.push((at_us, at_us + 400, "R", 71, 4096 + u64::from(nth) * 5000, 8, "data base"));
        if nth % 5 == 0 {
            all.push((
                at_us + 1000,
                at_us + 1800,
                "WFS",
                72,
                900_000 + u64::from(nth) * 128,
                128,
                "jbd2/mmcblk0p2-8",
            ));
        }
    }
    all.sort_by_key(|request| request.0);
    blkparse(&all)
}

#[test]
fn each_program_has_percentiles_of_its_own() {
    let folder = Folder::with("t.blkparse", trace());
    for mode in ["open", "think", "closed"] {
        let report = folder.json(&format!("replay t.blkparse --card emmc-hs200 --mode {mode}"));
        let programs = report["mmcq"]["programs"].as_array().unwrap();
        let names: Vec<_> = programs.iter().map(|program| program["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["data base", "jbd2/mmcblk0p2-8"], "{mode}");
        let (app, journal) = (&programs[0], &programs[1]);
        assert_eq!((&app["read"]["ios"], &app["read"]["bytes"]), (&100.into(), &409_600.into()));
        assert_eq!((&journal["write"]["ios"], &journal["write"]["bytes"]), (&20.into(), &1_310_720.into()));
        assert!(app.get("write").is_none() && journal.get("read").is_none(), "{mode}");
        // Each direction has only one program here, so the program's times are those of the whole
        // report.
        for (program, direction) in [(app, "read"), (journal, "write")] {
            let whole = &report["jobs"][0][direction]["clat_ns"];
            let us = |key: &str| program[direction]["clat_us"][key].as_f64().unwrap();
            for (key, at) in [("p50", "50.000000"), ("p99", "99.000000")] {
                let ns = whole["percentile"][at].as_f64().unwrap().min(whole["max"].as_f64().unwrap());
                assert_eq!(us(key), ns / 1e3, "{mode} {direction} {key}");
            }
            assert!((us("mean") / (whole["mean"].as_f64().unwrap() / 1e3) - 1.0).abs() < 1e-6);
            assert_eq!(us("max"), whole["max"].as_f64().unwrap() / 1e3);
        }
    }
    let text = folder.well("replay t.blkparse --card emmc-hs200");
    let line = text.lines().find(|line| line.starts_with("data base")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[2..5], ["read", "100", "400"], "{text}");
    assert!(text.contains("jbd2/mmcblk0p2-8  write"), "{text}");
}

#[test]
fn every_format_with_names_has_programs() {
    let ftrace = "\
# tracer: nop
#
          my app-71    [000] d..1     1.000000: block_bio_queue: 8,16 R 4096 + 8 [my app]
          <idle>-0     [000] d.h1     1.000400: block_rq_complete: 8,16 R () 4096 + 8 none,0,0 [0]
   kworker/u8:1-88     [000] d..1     1.001000: block_bio_queue: 8,16 W 8192 + 8 [kworker/u8:1]
   kworker/u9:7-89     [000] d..1     1.002000: block_bio_queue: 8,16 W 9192 + 8 [kworker/u9:7]
           <...>-71    [000] d..1     1.003000: block_bio_queue: 8,16 R 5096 + 8 [my app]
";
    let csv = "ts,who,op,at,len\n0,my app,R,4096,4096\n1,kworker,W,8192,4096\n2,kworker,W,9216,4096\n\
               3,my app,R,16384,4096\n";
    for (name, text, options) in [
        ("ftrace", ftrace, ""),
        ("csv", csv, "--columns time=ts,process=who,op=op,offset=at,bytes=len,unit=ms"),
        (
            "csv2",
            &csv.replace("my app", "my app-71"),
            "--columns time=ts,process=who,op=op,offset=at,bytes=len,unit=ms",
        ),
    ] {
        let folder = Folder::with("t", text);
        let report = folder.json(&format!("replay t {options} --card emmc-hs200"));
        let programs = report["mmcq"]["programs"].as_array().unwrap_or_else(|| panic!("{name}"));
        let mut told: Vec<_> = programs
            .iter()
            .map(|p| (p["name"].as_str().unwrap(), p["read"]["ios"].as_u64(), p["write"]["ios"].as_u64()))
            .collect();
        told.sort_unstable();
        assert_eq!(told, [("kworker", None, Some(2)), ("my app", Some(2), None)], "{name}");
    }
    // Process numbers alone do not count as names.
    let folder = Folder::with("t", csv.replace("my app", "71").replace("kworker", "88"));
    let report =
        folder.json("replay t --columns time=ts,process=who,op=op,offset=at,bytes=len --card emmc-hs200");
    assert!(report["mmcq"].get("programs").is_none());
}

/// Returns a record of blktrace in little-endian byte order; `behind` are the bytes that follow it.
fn record(at_us: u64, sector: u64, bytes: u32, action: u32, process: u32, behind: &[u8]) -> Vec<u8> {
    let mut out = 0x6561_7407_u32.to_le_bytes().to_vec();
    out.extend(1_u32.to_le_bytes());
    out.extend((at_us * 1000).to_le_bytes());
    out.extend(sector.to_le_bytes());
    for word in [bytes, action, process, 8 << 20 | 16, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0_u16.to_le_bytes());
    out.extend((behind.len() as u16).to_le_bytes());
    out.extend(behind);
    out
}

#[test]
fn blktrace_names_a_process_once_in_the_file_of_one_cpu() {
    const NOTIFY: u32 = 1 << 26;
    const QUEUE: u32 = 1 | 1 << 20;
    let read = QUEUE | 1 << 16;
    let name = b"database\0\0\0\0\0\0\0\0";
    let first = [
        record(1, 0, 0, NOTIFY, 71, name),
        record(1, 64, 4096, read, 71, b""),
        record(900, 640, 4096, read, 72, b""),
    ];
    let second = [record(500, 128, 4096, read, 71, b""), record(700, 256, 4096, read, 71, b"")];
    let folder = Folder::with("t.blktrace.0", first.concat());
    std::fs::write(folder.0.path().join("t.blktrace.1"), second.concat()).unwrap();
    let report = folder.json("replay t --card emmc-hs200");
    let told: Vec<_> = report["mmcq"]["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|program| (program["name"].as_str().unwrap(), program["read"]["ios"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("database", 3), ("(others)", 1)]);
}

#[test]
fn the_trace_is_described_with_its_think_time() {
    let folder = Folder::with("t.blkparse", trace());
    let report = folder.json("replay t.blkparse --card emmc-hs200 --mode think --report page.html");
    let facts = &report["mmcq"]["replay"];
    let count = |name: &str| facts[name].as_u64().unwrap_or_else(|| panic!("{name}: {facts}"));
    assert_eq!(["requests", "reads", "writes", "flushes"].map(count), [120, 100, 20, 0]);
    assert_eq!(["reads_bytes", "writes_bytes", "durable"].map(count), [409_600, 1_310_720, 20]);
    assert_eq!(["writes_min_bytes", "writes_max_bytes"].map(count), [65536; 2]);
    // 100 reads of 400 us and 20 writes of 800 us in 198.4 ms; the rest is think time.
    let share = facts["think_share"].as_f64().unwrap();
    assert!((share - (1.0 - 56.0 / 198.4)).abs() < 1e-3, "{share}");
    let page = std::fs::read_to_string(folder.0.path().join("page.html")).unwrap();
    assert!(!page.contains("64 at a time"), "the load is the trace, no job");
    for told in [
        "The recorded load t.blkparse (blkparse), of 2 processes: 120 requests in 0.198 s.",
        "100 reads of 4 KiB: 0.39 MiB. 20 writes of 64 KiB: 1.25 MiB. 20 of the writes are durable (FUA).",
        "In 71.8 % of the recorded time no request was under way: the programs thought.",
        "In this replay nothing was under way for",
        "The programs of the trace",
        "jbd2/mmcblk0p2-8",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let bare = Folder::with("t.csv", "0,R,4096,4096\n1000000,R,8192,4096\n");
    let report = bare.json("replay t.csv --columns time=1,op=2,offset=3,bytes=4 --card emmc-hs200");
    assert_eq!(report["mmcq"]["replay"]["think_share"], "unknown");
}
