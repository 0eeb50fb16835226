//! Tests `mmcq replay` as its users see it: the same load in every format, modes, bad input, and
//! traces of the laboratory's own runs, which are read again by the laboratory, blkparse, btt and
//! fio.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.path()).args(line.split_whitespace()).output().unwrap()
    }

    fn accepted(&self, line: &str) -> String {
        let output = self.mmcq(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{line}: {text}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.accepted(&format!("{line} --output-format json"))).unwrap()
    }

    /// Runs the laboratory with a command line that it must refuse. Checks for exit code 2, an
    /// empty standard output, and one line of error with this text.
    fn refused(&self, line: &str, expected: &str) {
        let output = self.mmcq(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
        assert_eq!(text.lines().count(), 1, "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text:?} does not have {expected:?}");
    }
}

const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Record of blktrace: time in ns, sector, bytes, action, process. In the file a number of extra
/// bytes may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Raw(u64, u64, u32, u32, u32);

impl Raw {
    fn bytes(self, big: bool, behind: usize) -> Vec<u8> {
        let Raw(at_ns, sector, bytes, action, process) = self;
        let mut out = Vec::new();
        let mut put = |value: u64, size: usize| match big {
            true => out.extend(&value.to_be_bytes()[8 - size..]),
            false => out.extend(&value.to_le_bytes()[..size]),
        };
        for (value, size) in [
            (0x6561_7407, 4),
            (1, 4),
            (at_ns, 8),
            (sector, 8),
            (bytes.into(), 4),
            (action.into(), 4),
            (process.into(), 4),
            (8 << 20 | 16, 4),
            (0, 4),
            (0, 2),
            (behind as u64, 2),
        ] {
            put(value, size);
        }
        out.extend(vec![0; behind]);
        out
    }

    /// Parses the records of a file that the laboratory wrote.
    fn all(path: &Path) -> Vec<Raw> {
        let file = std::fs::read(path).unwrap();
        let (mut at, mut records) = (0, Vec::new());
        while at < file.len() {
            let field = |from: usize, size: usize| {
                file[at + from..at + from + size].iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte))
            };
            assert_eq!(field(0, 4), 0x6561_7407);
            let word = |from| field(from, 4) as u32;
            records.push(Raw(field(8, 8), field(16, 8), word(24), word(28), word(32)));
            at += 48 + field(46, 2) as usize;
        }
        records
    }
}

/// Returns the events Q (request arrived) of a blktrace file in the order of the file: time in ns,
/// sector, bytes, kind.
fn came(path: &Path) -> Vec<(u64, u64, u32, u32)> {
    let queued = Raw::all(path).into_iter().filter(|raw| raw.3 & 0xff == 1 && raw.3 & NOTIFY == 0);
    queued.map(|raw| (raw.0, raw.1, raw.2, raw.3 & (READ | WRITE | FLUSH | DISCARD | FUA))).collect()
}

const BLKPARSE: &str = "\
  8,16   1        1     0.000000000  5529  Q  WS 274432 + 8 [fio]
  8,16   1        2     0.000001200  5529  G  WS 274432 + 8 [fio]
  8,16   1        3     0.000010000  5529  D  WS 274432 + 8 [fio]
  8,16   1        4     0.000500000     0  C  WS 274432 + 8 [0]
  8,16   0        1     0.000700000  5530  Q   R 8 + 16 [cat]
  8,16   0        2     0.000800000  5531  Q FWFS 1024 + 8 [jbd2/sdb1-8]
  8,16   0        3     0.000900000  5531  Q FWS [jbd2/sdb1-8]
  8,16   0        4     0.001000000  5532  Q   D 4096 + 8192 [fstrim]
  8,16   0        5     0.001100000  5532  P   N [fstrim]
CPU0 (8,16):
 Reads Queued:           1,        8KiB\t Writes Queued:           2,        8KiB
";

const FTRACE: &str = "\
# tracer: nop
#
             fio-5529  [001] d..1  1234.500000: block_bio_queue: 8,16 WS 274432 + 8 [fio]
          <idle>-0     [001] d.h1  1234.500500: block_rq_complete: 8,16 WS () 274432 + 8 none,0,0 [0]
             cat-5530  ( 5530) [000] d..1  1234.500700: block_bio_queue: 8,16 R 8 + 16 [cat]
     jbd2/sdb1-8-5531  [000] d..1  1234.500800: block_bio_queue: 8,16 FWFS 1024 + 8 [jbd2/sdb1-8]
     jbd2/sdb1-8-5531  [000] d..1  1234.500810: sched_switch: prev_comm=x: block_ ==> next_comm=y
     jbd2/sdb1-8-5531  [000] d..1  1234.500900: block_bio_queue: 8,16 FWS 0 + 0 [jbd2/sdb1-8]
          fstrim-5532  [000] d..1  1234.501000: block_bio_queue: 8,16 D 4096 + 8192 [fstrim]
";

fn blktrace(big: bool) -> Vec<u8> {
    let queue = 1 | 1 << 20;
    let records = [
        (Raw(7_000_000, 0, 0, NOTIFY, 5529), 16),
        (Raw(7_000_000, 274_432, 4096, queue | WRITE | 1 << 19, 5529), 0),
        (Raw(7_500_000, 274_432, 4096, 8 | 1 << 23 | WRITE, 0), 0),
        (Raw(7_700_000, 8, 8192, queue | READ, 5530), 0),
        (Raw(7_800_000, 1024, 4096, queue | WRITE | FLUSH | FUA, 5531), 4),
        (Raw(7_900_000, 0, 0, queue | WRITE | FLUSH, 5531), 0),
        (Raw(8_000_000, 4096, 8192 * 512, queue | WRITE | DISCARD, 5532), 0),
        // A command of a program itself, and an event that is not one of the three that count.
        (Raw(8_050_000, 0, 36, queue | READ | 1 << 25, 5532), 0),
        (Raw(8_100_000, 0, 0, 9 | 1 << 20, 5532), 0),
    ];
    records.iter().flat_map(|(record, behind)| record.bytes(big, *behind)).collect()
}

#[test]
fn the_same_load_in_each_format_of_linux_is_the_same() {
    let folder = Folder::new();
    folder.file("blkparse.txt", BLKPARSE);
    folder.file("ftrace.txt", FTRACE);
    folder.file("little.blktrace.0", blktrace(false));
    folder.file("big.blktrace.0", blktrace(true));
    let mut first = None;
    for name in ["blkparse.txt", "ftrace.txt", "little", "big.blktrace.0"] {
        let report = folder.json(&format!("replay {name} --card emmc-hs200 --export blktrace out"));
        let requests = came(&folder.path("out"));
        let kinds: Vec<_> = requests.iter().map(|r| (r.1, r.2, r.3)).collect();
        let expected = [
            (274_432, 4096, WRITE),
            (8, 8192, READ),
            (0, 0, WRITE | FLUSH),
            (1024, 4096, WRITE | FUA),
            (0, 0, WRITE | FLUSH),
            (4096, 8192 * 512, WRITE | DISCARD),
        ];
        assert_eq!(kinds, expected, "{name}");
        for (request, at_us) in requests.iter().zip([0, 700, 800, 800, 900, 1000]) {
            let late_ns = (request.0 - requests[0].0).checked_sub(at_us * 1000);
            assert!(late_ns.is_some_and(|ns| ns < 60_000), "{name}: {request:?} at {at_us} us");
        }
        let job = &report["jobs"][0];
        let counts = ["read", "write", "trim", "sync"].map(|key| job[key]["total_ios"].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 1, 2], "{name}");
        assert_eq!(job["trim"]["io_bytes"], 8192 * 512, "{name}");
        let text = folder.accepted(&format!("replay {name} --card emmc-hs200"));
        assert!(text.contains("issued rwts: total=1,2,1,2 "), "{name}: {text}");
        assert!(text.contains("   TRIM: bw="), "{name}: {text}");
        assert!(text.contains(" lat (usec)") && !text.contains("133."), "{name}: {text}");
        let origin = &report["mmcq"];
        assert_eq!((&origin["replay"]["processes"], &origin["replay"]["mode"]), (&4.into(), &"open".into()));
        assert!(origin["counters"]["late_max_us"].as_f64().unwrap() < 60.0, "{origin}");
        let jobs = report["jobs"].clone();
        assert_eq!(
            first.get_or_insert(jobs.clone()).to_string().replace("blkparse.txt", name),
            jobs.to_string()
        );
    }
}

#[test]
fn logs_of_fio_and_columns_are_read() {
    let folder = Folder::new();
    let tables = [
        (
            "v2",
            "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb read 4096 8192\n/dev/sdb wait 500 0\n\
          /dev/sdb write 65536 4096\n/dev/sdb close\n",
            "",
        ),
        (
            "v3",
            "fio version 3 iolog\n0 f add\n0 f open\n10 f read 4096 8192\n510 f write 65536 4096\n520 f close\n",
            "",
        ),
        (
            "msr",
            "128166372003061629,hm,1,Read,4096,8192,1331\n128166372003066629,hm,1,Write,65536,4096,100\n",
            "",
        ),
        ("spc", "0,8,8192,R,0.000010\n0,128,4096,w,0.000510,extra\n", ""),
        ("mqsim", "1000 0 8 16 1\n501000 0 128 8 0\n", ""),
        (
            "pixel",
            "proces,device,rw_flag,sector,size,timestamp\n<...>-21515,8388608,R,8,16,653406.907265\n\
          preconditioning_ended\nloop40-27,8388608,W,128,8,653406.907765\n",
            "",
        ),
        (
            "csv",
            "len;where;what;when\n8192;4096;in;3\n4096;65536;out;3.5\n",
            "--columns time=when,op=what,offset=where,bytes=len,read=in,write=out,unit=ms",
        ),
        ("csv", "3 R 4096 8192\n3.5 W 65536 4096\n", "--columns time=1,op=2,offset=3,bytes=4 --time-unit ms"),
    ];
    for (name, text, options) in tables {
        folder.file("trace", text);
        let report = folder.json(&format!("replay trace {options} --export blktrace out"));
        let requests = came(&folder.path("out"));
        let kinds: Vec<_> = requests.iter().map(|r| (r.1, r.2, r.3)).collect();
        assert_eq!(kinds, [(8, 8192, READ), (128, 4096, WRITE)], "{name}");
        let gap_us = (requests[1].0 - requests[0].0) / 1000;
        assert!((450..550).contains(&gap_us), "{name}: {gap_us}");
        let format = report["mmcq"]["replay"]["format"].as_str().unwrap();
        assert!(name == format || ["v2", "v3"].contains(&name) && format == "iolog", "{name}: {format}");
    }
}

/// Checks that a request that is not whole blocks is widened to whole blocks, as by a kernel's page
/// cache.
#[test]
fn what_is_no_whole_block_becomes_one() {
    let folder = Folder::new();
    // Some spreadsheets write a byte order mark first.
    folder.file("t.csv", "\u{feff}at,what,first,size\n0,R,1000,100\n0.001,W,1536,513\n0.002,R,4607,2\n");
    let wanted = "--columns time=at,op=what,offset=first,bytes=size";
    let output = folder.mmcq(&format!("replay t.csv {wanted} --export blktrace out"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("3 requests are rounded to whole blocks of 512 bytes"), "{told}");
    let blocks: Vec<_> = came(&folder.path("out")).into_iter().map(|raw| (raw.1, raw.2)).collect();
    assert_eq!(blocks, [(1, 1024), (3, 1024), (8, 1024)]);
}

/// Checks that no request is late with `--mode closed`, where requests follow one another as fast
/// as they end.
#[test]
fn a_closed_replay_tells_no_lateness() {
    let folder = Folder::new();
    folder.file("t.csv", "0 R 0 512\n5 R 512 512\n");
    let wanted = "--columns time=1,op=2,offset=3,bytes=4";
    let report = |mode| folder.json(&format!("replay t.csv {wanted} --mode {mode}")).to_string();
    let late = |mode| report(mode).contains("late_mean_us");
    assert_eq!((late("open"), late("closed")), (true, false));
}

#[test]
fn bad_input_is_one_line_that_names_the_place() {
    let folder = Folder::new();
    let back = "fio version 3 iolog\n5 f read 0 512\n4 f read 0 512\n";
    let mut cut = blktrace(false);
    cut.truncate(100);
    let mut other = blktrace(true);
    other[64 + 3] = 9;
    let cases: [(&[u8], &str, &str); 24] = [
        (back.as_bytes(), "", "trace:3: the time goes back by 1000 ns; --sort"),
        (&cut, "", "trace: byte 64: truncated record: 36 of 48 bytes"),
        (&blktrace(false)[..52], "", "trace: byte 0: truncated record: 4 of 16 bytes behind it"),
        (&other, "", "trace: byte 64: magic 0x65617409: expected 0x65617407"),
        (b"", "", "trace: empty: expected a trace"),
        (
            &[0x1f, 0x8b, 8],
            "",
            "trace: compressed by gzip; expected what `gzip -dc FILE | mmcq replay -` reads",
        ),
        (b"what is this\n", "", "trace: format not recognised; expected --format of one of: iolog, blkparse"),
        (b"fio version 4 iolog\n", "", "trace:1: fio version 4 iolog: expected `fio version 2 iolog`"),
        (b"fio version 2 iolog\nf read 0\n", "", "trace:2: read: expected offset and length"),
        (b"fio version 3 iolog\n0 f wait 5\n", "", "trace:2: wait: expected add, open"),
        (b"fio version 3 iolog\n-1 f read 0 512\n", "", "trace:2: -1: expected a time"),
        (b"fio version 3 iolog\n0 f open\n", "", "trace: no request is left"),
        (b"fio version 2 iolog\nf read 0 512\n", "--device g", "trace: no request is left"),
        (b"a,b\n1,2\n", "--format csv", "trace: CSV: expected --columns"),
        (b"a,b\n1,2\n", "--columns op=a,lba=b", "--columns: lba: expected time, op"),
        (b"a,b\n1,2\n", "--columns op=a,bytes=b", "--columns: expected offset or sector=COLUMN"),
        (
            b"a,b\n1,2\n",
            "--columns op=a,sector=b,bytes=c --mode closed",
            "trace:1: bytes=c: no such column; the first line has 2: a, b",
        ),
        (
            b"a,b\nR,2\nR\n",
            "--columns op=a,sector=b,bytes=b --mode closed",
            "trace:3: 1 columns: expected at least 2",
        ),
        (b"a,b\nX,2\n", "--columns op=a,sector=b,bytes=b --mode closed", "trace:2: X: expected read, write"),
        (
            b"a,b\nR,2.5\n",
            "--columns op=a,sector=b,bytes=b --mode closed",
            "trace:2: 2.5: expected a whole number",
        ),
        (
            b"fio version 2 iolog\nf read 0 99999999\n",
            "",
            "trace:2: 100000256 bytes: expected at most 33553920",
        ),
        (
            b"fio version 2 iolog\nf read 18446744073709551615 512\n",
            "",
            "trace:2: offset 18446744073709551615:",
        ),
        (
            b"fio version 2 iolog\nf read 512 512\nf read 999999999488 512\nf read 0 512\n",
            "",
            "trace:3: it ends at byte 1000000000000, and the card has ",
        ),
        (b"  8,16 1 1 0.5 1 Q R 8 + x [p]\n", "", "trace:1: x: expected a number of blocks"),
    ];
    for (text, options, expected) in cases {
        folder.file("trace", text);
        folder.refused(&format!("replay trace {options}"), expected);
    }
    folder.file("trace", back);
    folder.accepted("replay trace --sort");
    folder.refused("replay none", "none: No such file");
    folder.refused("replay trace --sort --set job.bs=4k", "--set job.bs=4k: a trace has no jobs");
    folder.refused("replay trace --sort --mode fast", "expected open, closed or think");
    folder.refused("replay trace --sort --gap-max 10", "expected a number and s, ms, us or ns");
    folder.refused("replay trace --sort --export csv x", "--export csv: expected blktrace");
    folder.refused("replay trace --sort --setting limit --export blktrace x", "expected another setting");
    assert!(!folder.path("x").exists(), "nothing is written");
    folder.file("trace", BLKPARSE);
    folder.refused("replay trace --setting none", "--without discard");
    // Only an eMMC with a cache receives flushes and durable writes.
    let line = "replay trace --setting none --card emmc-hs200";
    folder.refused(line, "limit, or --without discard\n");
    folder.accepted(&format!("{line} --without discard"));
    folder.refused("why trace", "trace: a trace (blkparse); expected a job file: `mmcq replay trace`");
    folder.refused("replay trace --count 0", "no request is left");
    folder.accepted("replay trace --setting none --card emmc-hs200 --without discard,flush,fua");
}

#[test]
fn a_trace_that_is_larger_than_the_card_is_mapped_onto_it() {
    let folder = Folder::new();
    folder.file("trace", "fio version 2 iolog\nf read 1000000000000 4096\nf read 0 4096\n");
    for how in ["modulo", "scale"] {
        folder.json(&format!("replay trace --remap {how} --mode closed --export blktrace out"));
        let requests = came(&folder.path("out"));
        assert_eq!((requests.len(), requests[1].1), (2, 0), "{how}");
        let bytes = requests[0].1 * 512;
        assert!(bytes > 0 && bytes < 200_000_000_000, "{how}: {bytes}");
    }
}

#[test]
fn processes_think_after_what_they_had_waited_for() {
    let folder = Folder::new();
    // Process a reads, waits for the end and thinks 5 ms; process b has two requests under way at
    // the same time.
    folder.file(
        "trace",
        "8,0 0 1 0.000000 10 Q R 0 + 1024 [a]\n8,0 0 2 0.000001 11 Q R 80000 + 1024 [b]\n\
         8,0 0 3 0.000002 11 Q R 160000 + 8 [b]\n8,0 0 4 0.000100 0 C R 0 + 1024 [0]\n\
         8,0 0 5 0.005100 10 Q R 40000 + 8 [a]\n8,0 0 6 0.006000 0 C R 80000 + 1024 [0]\n",
    );
    let at = |options: &str| {
        folder.accepted(&format!("replay trace {options} --export blktrace out"));
        let rows = Raw::all(&folder.path("out"));
        let find = |code: u32, sector: u64| {
            let found =
                rows.iter().find(|raw| raw.3 & 0xff == code && raw.1 == sector && raw.3 & NOTIFY == 0);
            found.unwrap_or_else(|| panic!("{code} of {sector}")).0
        };
        (find(8, 0), find(1, 40_000), find(1, 160_000) - find(1, 80_000))
    };
    let (ended, came, apart) = at("--mode think");
    assert!((5_000_000..5_200_000).contains(&(came - ended)), "{ended} {came}");
    assert!(apart < 200_000, "{apart}");
    let (ended, came, _) = at("--mode think --scale 0.1 --gap-max 2ms");
    assert!((200_000..400_000).contains(&(came - ended)), "{ended} {came}");
    let (_, came, _) = at("--mode open");
    assert!((5_100_000..5_300_000).contains(&came), "{came}");
    let (ended, came, _) = at("--mode closed --depth 1");
    assert!(came > ended && came < 100_000_000, "{ended} {came}");
}

#[test]
fn a_run_of_ours_replays_with_equal_requests() {
    let folder = Folder::new();
    let job = "-name=a -filename=/dev/mmcblk0 -direct=1 -size=4m -ioengine=libaio -iodepth=4 -rw=randrw -bsrange=4k-32k -fsync=8";
    for setting in ["mmcq", "none"] {
        folder.accepted(&format!("run --setting {setting} --export blktrace one -- {job}"));
        let report = folder.json(&format!("replay one --setting {setting} --export blktrace two"));
        let [one, two] = ["one", "two"].map(|name| came(&folder.path(name)));
        assert!(one.len() > 200, "{}", one.len());
        let plain = |list: &[(u64, u64, u32, u32)]| list.iter().map(|r| (r.1, r.2, r.3)).collect::<Vec<_>>();
        assert_eq!(plain(&one), plain(&two), "{setting}");
        assert_eq!(report["mmcq"]["replay"]["requests"], one.len() as u64);
        // The events of each request are in order: arrived, sent to the driver, complete.
        let rows = Raw::all(&folder.path("one"));
        for code in [4, 7, 8, 12] {
            let count = rows.iter().filter(|raw| raw.3 & 0xff == code && raw.3 & NOTIFY == 0).count();
            assert_eq!(count, one.len(), "{setting}: event {code}");
        }
        assert!(rows.is_sorted_by_key(|raw| raw.0), "{setting}");
    }
}

/// Returns the output of a program of Debian, if it is installed.
fn judge(folder: &Folder, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap();
    let path = format!("/usr/bin:/usr/sbin:/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).env("PATH", path).current_dir(folder.0.path()).args(words).output();
    match output {
        Err(_) => {
            println!("{program} is not installed: left out");
            None
        }
        Ok(output) => {
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.status.success(), "{line}: {text}");
            Some(text)
        }
    }
}

#[test]
fn blkparse_btt_and_fio_read_what_we_write() {
    let folder = Folder::new();
    let job = "-name=a -filename=/dev/mmcblk0 -direct=1 -size=1m -numjobs=2 -offset_increment=1m -ioengine=libaio -iodepth=4 -rw=randrw -bs=4k";
    folder.accepted(&format!("run --export blktrace x.blktrace.0 -- {job}"));
    let requests = came(&folder.path("x.blktrace.0")).len();
    if let Some(text) = judge(&folder, "blkparse -i x") {
        folder.file("text", &text);
        let count =
            |letter: &str| text.lines().filter(|line| line.split_whitespace().nth(5) == Some(letter)).count();
        assert_eq!(["Q", "G", "I", "D", "C"].map(count), [requests; 5], "{text}");
        assert!(text.contains("[job1]"), "{text}");
        let report = folder.json("replay text");
        assert_eq!(report["mmcq"]["replay"]["requests"], requests as u64);
    }
    if let Some(text) = judge(&folder, "btt -i x.blktrace.0") {
        let counted = |name: &str| {
            let line =
                text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            line.split_whitespace().last().unwrap().parse::<usize>().unwrap()
        };
        assert_eq!(["Q2C", "D2C", "I2D"].map(counted), [requests; 3], "{text}");
    }
    std::fs::File::create(folder.path("disk")).unwrap().set_len(2 << 20).unwrap();
    let fio = "fio --name=r --read_iolog=x.blktrace.0 --replay_redirect=disk --replay_no_stall=1 --ioengine=psync --output-format=json";
    if let Some(text) = judge(&folder, fio) {
        let from = text.find('{').unwrap();
        let report: serde_json::Value = serde_json::from_str(&text[from..]).unwrap();
        let job = &report["jobs"][0];
        let all = ["read", "write"].map(|key| job[key]["total_ios"].as_u64().unwrap());
        assert_eq!(all[0] + all[1], requests as u64, "{job}");
    }
}

/// Replays what blktrace recorded in a Linux guest (jobs/traces/README.md).
#[test]
fn a_trace_of_linux_itself_is_replayed_in_every_mode() {
    let folder = Folder::new();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/traces/linux-ext4.blktrace");
    for mode in ["open", "closed", "think"] {
        let report = folder.json(&format!("replay {} --card emmc-51-full --mode {mode}", trace.display()));
        let told = &report["mmcq"];
        assert_eq!(told["replay"]["requests"], 917, "{mode}");
        assert_eq!(
            (&told["counters"]["ios"], &told["counters"]["failed"]),
            (&911.into(), &0.into()),
            "{mode}"
        );
        let jobs = report["jobs"].as_array().unwrap();
        assert!(jobs.iter().all(|job| job["error"] == 0), "{mode}");
    }
    assert!(std::fs::metadata(trace).unwrap().len() < 200_000);
}

/// Checks that a lateness of hours is shown as such, and not as the largest value of fio's
/// histogram.
#[test]
fn lateness_has_no_end_at_seventeen_seconds() {
    let folder = Folder::new();
    // On this card, 40 writes of 32 MiB that arrive together take minutes.
    let lines: String = (0..40).map(|n| format!("0.{n:06},w,{},33553920\n", n * 33_553_920)).collect();
    folder.file("late.csv", format!("time,op,offset,bytes\n{lines}"));
    let cols = "time=time,op=op,offset=offset,bytes=bytes,unit=s";
    let report = folder.json(&format!(
        "replay late.csv --format csv --columns {cols} --card sdsc-1g --depth 1 --mode open --remap modulo"
    ));
    let counters = &report["mmcq"]["counters"];
    let (p99, most) = (counters["late_p99_us"].as_f64().unwrap(), counters["late_max_us"].as_f64().unwrap());
    assert!(most > 60e6 && p99 > 0.9 * most && p99 < 1.1 * most, "{counters}");
}

/// Checks that a named pipe is refused as a trace. Opening it without a writer would block the
/// program for ever.
#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_is_refused() {
    let folder = Folder::new();
    assert!(Command::new("mkfifo").arg(folder.path("pipe")).status().unwrap().success());
    folder.refused("replay pipe", "pipe: a named pipe");
    folder.file("job.fio", "[a]\nrw=read\nbs=4k\nsize=64k\n");
    folder.refused("run job.fio --image pipe", "pipe: a named pipe");
}

/// Checks a file that begins with a byte order mark, as some spreadsheets write it: the mark is no
/// part of the first column's name.
#[test]
fn a_byte_order_mark_is_no_part_of_a_name() {
    let folder = Folder::new();
    folder.file("t.csv", "\u{feff}time,op,offset,bytes\n0,R,0,4096\n1000,W,8192,4096\n");
    let line = "replay t.csv --columns time=time,op=op,offset=offset,bytes=bytes";
    assert_eq!(folder.json(line)["mmcq"]["counters"]["ios"], 2);
}

#[test]
fn a_request_in_pieces_ends_with_its_last_byte() {
    let folder = Folder::new();
    // The driver gets 1 MiB in two pieces. The process thinks 4 ms after the second.
    let head = "8,0 0 1 0.000000 10 Q R 0 + 2048 [a]\n8,0 0 2 0.001000 0 C R 0 + 1024 [0]\n";
    let tail = "8,0 0 4 0.010000 10 Q R 40000 + 8 [a]\n";
    let pauses = ["8,0 0 3 0.006000 0 C R 1024 + 1024 [0]\n", ""].map(|last| {
        folder.file("trace", format!("{head}{last}{tail}"));
        folder.accepted("replay trace --mode think --setting mmcq --export blktrace out");
        let rows = Raw::all(&folder.path("out"));
        let of = |code: u32, sector: u64| {
            let is_it = |raw: &&Raw| raw.3 & 0xff == code && raw.1 == sector && raw.3 & NOTIFY == 0;
            rows.iter().find(is_it).unwrap().0
        };
        of(1, 40_000) - of(8, 0)
    });
    assert!((4_000_000..4_200_000).contains(&pauses[0]), "{pauses:?}");
    // Where the trace has no end of the second piece, the request has none, and all of the gap is
    // thought.
    assert!((10_000_000..10_200_000).contains(&pauses[1]), "{pauses:?}");
}

#[test]
fn what_blkparse_says_of_its_input_is_no_event() {
    let folder = Folder::new();
    folder.file(
        "trace",
        format!("Input file sda.blktrace.0 added\nInput file sda.blktrace.1 added\n{BLKPARSE}"),
    );
    let report = folder.json("replay trace --card emmc-hs200");
    let replay = &report["mmcq"]["replay"];
    assert_eq!((&replay["format"], &replay["requests"]), (&"blkparse".into(), &5.into()));
}
