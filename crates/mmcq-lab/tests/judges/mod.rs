//! Judges of traces, which are independent of this program: sigrok's decoder of the SD bus, a
//! reader of value change dumps with checksums from PyPI (`tools/judge-vcd.py`), GTKWave's reader
//! of Fast Signal Traces (`tools/judge-fst.py`), and Perfetto's own package
//! (`tools/judge-perfetto.py`). `tools/install-judges.sh` installs them. If one is missing, its
//! part of a test is skipped, but fails where `CI` is set.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Reports that a judge is not installed; fails the test where `CI` is set.
fn missing(what: &str) {
    let line = format!("{what} is not there; tools/install-judges.sh installs it");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    println!("skipped: {line}");
}

/// Returns the annotations of one kind that sigrok finds in a waveform; `None` if sigrok is not
/// installed. The kind `cmd` has each command and each reply.
pub fn sigrok(vcd: &Path, kind: &str) -> Option<Vec<String>> {
    let mut command = Command::new("sigrok-cli");
    command.args(["-I", "vcd:compress=8", "-P", "sdcard_sd:cmd=CMD:clk=CLK", "-A"]);
    let output = command.arg(format!("sdcard_sd={kind}")).arg("-i").arg(vcd).output();
    let Ok(Output { status, stdout, stderr }) = output else {
        missing("sigrok-cli");
        return None;
    };
    assert!(status.success(), "{}", text(&stderr));
    let lines = text(&stdout);
    Some(lines.lines().filter_map(|l| l.split_once(": ")).map(|(_, rest)| rest.to_owned()).collect())
}

/// Checks that sigrok finds these commands in the waveform, in order, each with one reply (none for
/// CMD0), and never takes a reply for a command.
#[track_caller]
pub fn sigrok_agrees(vcd: &Path, commands: &[String]) {
    let Some(seen) = sigrok(vcd, "cmd") else { return };
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let named: Vec<String> = seen.iter().map(|l| name(l)).filter(|n| n.contains("CMD")).collect();
    assert_eq!(named, commands);
    let mut expected = Vec::new();
    for command in commands {
        expected.push("Transmission: host");
        if command != "CMD0" {
            expected.push("Transmission: card");
        }
    }
    assert_eq!(sigrok(vcd, "field-transmission").unwrap(), expected);
    let replies = seen.iter().filter(|l| l.starts_with("Reply") || *l == "R2").count();
    assert_eq!(replies, expected.iter().filter(|sender| sender.ends_with("card")).count());
}

/// Runs a script of `tools/` on a file; `None` if the `package` of PyPI that it needs is not
/// installed.
fn judged(script: &str, package: &str, file: &Path, options: &[&str]) -> Option<Output> {
    let own = root().join("target/judges/bin/python");
    let python = if own.exists() { own } else { PathBuf::from("python3") };
    let has = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        missing(&format!("PyPI's {package}"));
        return None;
    }
    let mut command = Command::new(python);
    Some(command.arg(root().join("tools").join(script)).arg(file).args(options).output().unwrap())
}

/// Runs `judge-vcd.py` on a waveform; `None` if its package is not installed.
pub fn checksums(vcd: &Path, options: &[&str]) -> Option<Output> {
    judged("judge-vcd.py", "crccheck", vcd, options)
}

/// Returns what GTKWave's library reads in a Fast Signal Trace; `None` if it is not installed. The
/// library also writes the trace to the file `vcd`, as a value change dump.
#[track_caller]
pub fn gtkwave(fst: &Path, vcd: &Path) -> Option<serde_json::Value> {
    let output = judged("judge-fst.py", "pylibfst", fst, &[vcd.to_str().unwrap()])?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns what Perfetto's own package finds in a trace; `None` if it is not installed.
#[track_caller]
pub fn perfetto(trace: &Path) -> Option<serde_json::Value> {
    let output = judged("judge-perfetto.py", "perfetto", trace, &[])?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Returns what `judge-vcd.py` finds in a waveform; `None` if its package is not installed. The
/// script fails at a wrong frame or checksum.
#[track_caller]
pub fn crccheck(vcd: &Path, options: &[&str]) -> Option<serde_json::Value> {
    let output = checksums(vcd, options)?;
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}
