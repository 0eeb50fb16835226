//! Tests traces as loads: traces of Perfetto are read, a sweep runs them, and a card is fitted to
//! their D2C times.

use crate::job_folder;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn mmcq(&self, line: &str) -> Output {
        job_folder::mmcq(self.0.path(), line)
    }

    fn well(&self, line: &str) -> String {
        job_folder::well(self.0.path(), line)
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.well(line)).unwrap()
    }

    /// Runs the laboratory with a command line that it must refuse. Checks for exit code 2 and one
    /// line of error with this text.
    fn refused(&self, line: &str, part: &str) {
        let output = self.mmcq(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{line}: {said}");
        assert!(said.contains(part), "{line}: {said}");
    }
}

/// Encoder of Protobuf messages, written by hand from Perfetto's `.proto` files.
mod proto {
    pub fn varint(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    pub fn number(field: u64, value: u64) -> Vec<u8> {
        [varint(field << 3), varint(value)].concat()
    }

    pub fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
        [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
    }

    /// Encodes an event of ftrace: time, process, and its own message.
    pub fn event(at_ns: u64, pid: u64, field: u64, message: &[Vec<u8>]) -> Vec<u8> {
        let all = [number(1, at_ns), number(2, pid), bytes(field, &message.concat())].concat();
        bytes(2, &all)
    }

    /// Encodes a packet with the events of one CPU, after a packet of another kind.
    pub fn packet(cpu: u64, events: &[Vec<u8>]) -> Vec<u8> {
        let bundle = [number(1, cpu), events.concat()].concat();
        let other = bytes(1, &[number(8, 77), bytes(11, &number(9, 3))].concat());
        [other, bytes(1, &[number(10, 1), bytes(1, &bundle)].concat())].concat()
    }
}

use proto::{bytes, event, number, packet};

const MMCBLK0: u64 = 179 << 8;

fn queue(at_us: u64, pid: u64, comm: &str, rwbs: &str, sector: u64, count: u64) -> Vec<u8> {
    let place = [number(1, MMCBLK0), number(2, sector), number(3, count)].concat();
    event(at_us * 1000, pid, 119, &[place, bytes(4, rwbs.as_bytes()), bytes(5, comm.as_bytes())])
}

fn issue(at_us: u64, rwbs: &str, sector: u64, count: u64) -> Vec<u8> {
    let place = [number(1, MMCBLK0), number(2, sector), number(3, count), number(4, count * 512)].concat();
    event(at_us * 1000, 99, 45, &[place, bytes(5, rwbs.as_bytes()), bytes(6, b"kworker/0:1H")])
}

fn complete(at_us: u64, rwbs: &str, sector: u64, count: u64) -> Vec<u8> {
    let place = [number(1, MMCBLK0), number(2, sector), number(3, count)].concat();
    event(at_us * 1000, 0, 125, &[place, bytes(5, rwbs.as_bytes())])
}

fn perfetto() -> Vec<u8> {
    // The events of the second CPU are first in the file.
    let second = [
        queue(2000, 71, "my app", "R", 5000, 8),
        issue(2010, "R", 5000, 8),
        complete(2400, "R", 5000, 8),
        // A switch of tasks is not one of the three events that count.
        event(2_450_000, 71, 4, &[number(2, 5)]),
    ];
    let first = [
        queue(1000, 71, "my app", "R", 4096, 8),
        complete(1400, "R", 4096, 8),
        queue(3000, 88, "kworker/u8:1", "WS", 8192, 128),
        complete(3900, "WS", 8192, 128),
        queue(4000, 88, "kworker/u8:1", "FF", u64::MAX, 0),
    ];
    [packet(1, &second), packet(0, &first)].concat()
}

#[test]
fn a_trace_of_perfetto_is_replayed_with_its_programs() {
    let folder = Folder::new();
    folder.file("t.pftrace", perfetto());
    let report = folder.json("replay t.pftrace --card emmc-hs200 --output-format json");
    let facts = &report["mmcq"]["replay"];
    let count = |name: &str| facts[name].as_u64().unwrap();
    assert_eq!(facts["format"], "perfetto");
    assert_eq!(["requests", "reads", "writes", "flushes"].map(count), [4, 2, 1, 1]);
    let sizes = ["writes_min_bytes", "writes_median_bytes", "writes_max_bytes"];
    assert_eq!(sizes.map(count), [65536; 3]);
    // Requests take 400, 400 and 900 us of 3000 us; the rest is think time.
    assert_eq!(facts["think_share"], 0.4333);
    let names: Vec<_> = report["mmcq"]["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|program| (program["name"].as_str().unwrap(), program["read"]["ios"].as_u64()))
        .collect();
    assert_eq!(names, [("my app", Some(2)), ("kworker", None)]);
    // The driver received only one of the requests.
    let issued = folder.json("replay t.pftrace --event D --card emmc-hs200 --output-format json");
    assert_eq!(issued["mmcq"]["replay"]["requests"], 1);
    folder.well("replay t.pftrace --device 179,0 --card emmc-hs200");
    folder.refused("replay t.pftrace --device 8,0 --card emmc-hs200", "no request is left");
}

#[test]
fn a_bad_trace_of_perfetto_says_where() {
    let folder = Folder::new();
    let whole = perfetto();
    folder.file("cut.pftrace", &whole[..whole.len() - 5]);
    folder.refused("replay cut.pftrace --card emmc-hs200", "cut.pftrace: byte ");
    folder.refused("replay cut.pftrace --card emmc-hs200", "truncated packet");
    folder.file("junk.pftrace", [&whole[..], b"junk"].concat());
    let at = format!("junk.pftrace: byte {}: 0x6a: expected a packet", whole.len());
    folder.refused("replay junk.pftrace --card emmc-hs200", &at);
    folder.file("small.pftrace", [bytes(1, &bytes(50, b"xx")), whole].concat());
    folder.refused("replay small.pftrace --card emmc-hs200", "small.pftrace: byte 0: compressed packets");
}

/// Writes a run as the text of tracefs, from what `mmcq snoop` prints about each request.
fn ftrace(folder: &Folder, line: &str) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for line in folder.well(&format!("snoop job.fio {line} --json")).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let of = |key: &str| row[key].as_u64().unwrap();
        let kind = row["kind"].as_str().unwrap();
        let Some(sector) = row["sector"].as_u64() else { continue };
        let (done_ns, served_ns, count) = (of("at_ns"), of("served_ns"), of("bytes") / 512);
        let mut put = |at_ns: u64, event: &str| {
            let (s, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
            let text = format!(
                "  app-71  [000] d..1 {s}.{ns:09}: block_rq_{event}: 179,0 {kind} () {sector} + {count} [app]\n"
            );
            lines.push((at_ns, text));
        };
        put(done_ns - served_ns, "issue");
        put(done_ns, "complete");
    }
    lines.sort_by_key(|(at_ns, _)| *at_ns);
    lines.into_iter().fold("# tracer: nop\n#\n".to_owned(), |all, (_, line)| all + &line)
}

#[test]
fn a_card_is_fitted_to_the_times_of_a_trace() {
    let folder = Folder::new();
    folder.file(
        "job.fio",
        "[global]\nfilename=/dev/mmcblk0\ndirect=1\nsize=16M\nioengine=psync\nthinktime=700\n\
         [small]\nrw=randread\nbs=4k\nio_size=256k\n\
         [large]\nstonewall\nrw=randread\nbs=64k\nio_size=2M\n\
         [write]\nstonewall\nrw=randwrite\nbs=4k\nio_size=256k\n",
    );
    let hidden = "--set card.read_first_us=143 --set card.read_next_4k_us=27 --set card.write_first_us=61";
    let trace = ftrace(&folder, &format!("--platform hsq-sprd --setting none {hidden}"));
    folder.file("app.ftrace", &trace);
    let free =
        "card.flash.read.read_first_us,card.flash.read.read_next_4k_us,card.flash.write.write_first_us";
    let line = format!("fit --platform hsq-sprd --measured app.ftrace --free {free} --threads 2");
    let fit = folder.json(&format!("{line} --json"));
    let values = fit["values"].as_array().unwrap();
    let found = |key: &str| {
        let value = values.iter().find(|value| value["key"].as_str().unwrap().ends_with(key)).unwrap();
        value["after"].as_f64().unwrap()
    };
    for (key, expected) in [("read_first_us", 143.0), ("read_next_4k_us", 27.0), ("write_first_us", 61.0)] {
        let off = found(key) / expected - 1.0;
        assert!(off.abs() < 0.02, "{key}: {} is off by {:.1} %", found(key), 100.0 * off);
    }
    let text = folder.well(&line);
    assert!(text.contains("read 64k elsewhere, alone") && text.contains("D2C"), "{text}");
    folder.refused(&format!("{line} --set job.bs=4k"), "a trace has no jobs");
    // Without completions, or with requests that overlap, a trace has no usable times.
    let begins: String =
        trace.lines().filter(|line| !line.contains("complete")).map(|l| l.to_owned() + "\n").collect();
    folder.file("begins.ftrace", begins);
    folder.refused("fit --platform hsq-sprd --measured begins.ftrace", "expected the events D and C");
}

#[test]
fn a_grid_runs_a_trace_at_every_point() {
    let folder = Folder::new();
    let mut text = String::new();
    for nth in 0..60 {
        let (at_ms, sector) = (nth, 4096 + nth * 8);
        text += &format!(
            "{at_ms},app,R,{},4096\n{at_ms}.5,log,W,{},65536\n",
            sector * 512,
            (1 << 24) + sector * 8192
        );
    }
    folder.file("t.csv", &text);
    let columns = "--columns time=1,process=2,op=3,offset=4,bytes=5,unit=ms";
    let rows = |line: &str| -> Vec<Value> {
        folder.well(line).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let line =
        format!("sweep t.csv {columns} --card emmc-hs200 --over setting=none,mmcq --over cost.wake_us=5,80");
    let all = rows(&line);
    assert_eq!(all.len(), 8, "two directions at four points");
    let replay = folder.json(&format!(
        "replay t.csv {columns} --card emmc-hs200 --setting none --set cost.wake_us=80 --output-format json"
    ));
    let row = all
        .iter()
        .find(|row| row["setting"] == "none" && row["cost.wake_us"] == 80 && row["direction"] == "read")
        .unwrap();
    let whole = &replay["jobs"][0]["read"]["clat_ns"];
    assert_eq!(row["ios"], 60);
    assert!(
        (row["lat_mean_us"].as_f64().unwrap() / (whole["mean"].as_f64().unwrap() / 1e3) - 1.0).abs() < 0.05
    );
    // The mode of replay is part of the rows' job hash.
    let hash = |line: &str| rows(line)[0]["job_hash"].clone();
    assert_eq!(hash(&line), all[0]["job_hash"]);
    assert_ne!(hash(&format!("{line} --mode think")), all[0]["job_hash"]);
    assert_ne!(hash(&format!("{line} --scale 0.5")), all[0]["job_hash"]);
    // Only the requests of the program `log` are replayed, while those of the application run, too.
    let of_log = rows(&format!("{line} --program log"));
    assert_eq!(of_log.len(), 4);
    for (row, whole) in of_log.iter().zip(all.iter().filter(|row| row["direction"] == "write")) {
        assert_eq!(
            (&row["program"], &row["direction"], &row["ios"]),
            (&"log".into(), &"write".into(), &60.into())
        );
        assert_eq!(row["run_mib_s"], whole["run_mib_s"]);
        assert_eq!(row["mib_s"], whole["mib_s"], "it alone writes");
    }
    assert!(all[0].get("program").is_none());
    folder
        .refused(&format!("{line} --program lag"), "--program lag: no such program; the trace has app, log");
    folder.refused(&format!("{line} --over job.bs=4k,8k"), "--over job.bs=4k: a trace has no jobs");
    folder.file("job.fio", "[t]\nfilename=/dev/mmcblk0\nrw=read\nbs=4k\nsize=64k\n");
    folder.refused("sweep job.fio --over seed=1,2 --program app", "--program: job.fio is no trace");
    folder.refused("sweep job.fio --over seed=1,2 --mode think", "--mode: job.fio is no trace; expected one");
}
