//! Tests `mmcq guest` with a script in QEMU's place: machines that are wrong, that hang, or that
//! answer as they should. `tools/guest-time.sh` tests real ones.
#![cfg(target_os = "linux")]

use crate::watchdog;
use mmcq_lab::guest::{Driver, Failure, Machine};
use rustix::fs::{FileType, Mode, OFlags};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Start of the script that stands in for QEMU: finds the files that it must write, as QEMU and the
/// plugin do.
const HEAD: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo "QEMU emulator version 11.1.3 (Debian)"; exit; fi
for word; do
  case $word in
    file:*) console=${word#file:} ;;
    *,counters=*) counters=${word##*,counters=}; log=${counters#*,log=}; counters=${counters%%,*} ;;
  esac
done
"#;

const SAYS: &str = r#"
printf 'Linux, scheduler none\r\nguest: begin\r\n%s\r\nguest: end\r\n' '{"load": "read", "bytes": 4096, "depth": 2, "jobs": 1, "requests": 100, "reaps": "all", "mib_per_s": RATE, "latency_us": 1.0, "merged": 1.0, "elapsed_us": 2.0, "switches": 300, "percentiles_us": {"50": 2.5}}' >$console
echo '{"mark": 1, "at_ns": 10, "instructions": 1000, "register_reads": 0, "register_writes": 0, "interrupts": 1, "commands": 1, "violations": 0}
{"mark": 2, "at_ns": 20, "instructions": 201000, "register_reads": 100, "register_writes": 150, "interrupts": 101, "commands": 201, "violations": 0}
{"mark": 0, "at_ns": 30, "instructions": 202000, "register_reads": 100, "register_writes": 150, "interrupts": 101, "commands": 201, "violations": 0}' >$counters
[ -z "$log" ] || echo bus >$log
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    /// Makes a folder with the parts of a guest, in which this script stands in for QEMU.
    fn with(qemu: &str) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        for part in ["kernel", "initrd", "plugin.so", "library.so"] {
            std::fs::write(folder.path(part), "").unwrap();
        }
        folder.qemu(qemu);
        std::fs::write(folder.path("job"), "true\n").unwrap();
        folder
    }

    /// Writes the script as the executable `qemu`. A program that is open for writing cannot be
    /// started, and a process forked by another test might keep it open. So a separate process
    /// (`install`) writes it.
    fn qemu(&self, text: &str) {
        std::fs::write(self.path("text"), text).unwrap();
        let mut install = Command::new("install");
        install.args(["-m", "755", "text", "qemu"]).current_dir(self.0.path());
        assert!(install.status().unwrap().success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        let _alive = watchdog::watch();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        command.current_dir(self.0.path()).args(["guest", "job", "--parts", "."]);
        command.args(line.split_whitespace()).output().unwrap()
    }

    /// Returns a command of the laboratory whose output is also descriptor 3, which all programs
    /// that it starts inherit.
    fn held(&self) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 3>&1", "sh", env!("CARGO_BIN_EXE_mmcq")]);
        command.current_dir(self.0.path()).args(["guest", "job", "--parts", "."]);
        command
    }

    /// Runs the laboratory with a command line that must fail. Checks for this exit code, and for
    /// one line of error with these words.
    fn refused(&self, line: &str, code: i32, words: &[&str]) {
        let output = self.run(line);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {text}");
        assert!(output.stdout.is_empty() && text.lines().count() == 1, "{line}: {text}");
        for word in words {
            assert!(text.contains(word), "{line}: {text:?} does not name {word:?}");
        }
    }
}

#[test]
fn what_a_machine_cannot_be_made_from_is_one_line() {
    let folder = Folder::with("#!/bin/sh\necho QEMU emulator version 8.2.0\n");
    folder.refused("", 2, &["version 8.2.0", "11.1.3"]);
    folder.refused("--platform stm32h7-sdmmc", 2, &["stm32h7-sdmmc", "sdhci"]);
    folder.refused("--platform stream-rtsx --setting hsq-tag", 2, &["stream-rtsx", "setting none"]);
    folder.refused("--platform stream-rtsx --image job", 2, &["stream-rtsx", "no image"]);
    folder.refused("--setting close", 2, &["close", "hsq-tag", "cqe"]);
    folder.refused("--setting cqe", 2, &["generic", "a queue engine at 0x200"]);
    folder.refused("--instruction-ns 3", 2, &["--instruction-ns 3"]);
    folder.refused("--wake-us -1", 2, &["-1"]);
    Folder::with(HEAD).refused("--initrd none", 2, &["none"]);
    std::fs::remove_file(folder.path("plugin.so")).unwrap();
    folder.refused("", 2, &["plugin.so", "tools/guest-parts.sh"]);
    std::fs::remove_file(folder.path("job")).unwrap();
    folder.refused("", 2, &["job"]);
}

#[test]
fn a_qemu_without_the_symbols_and_a_kernel_without_a_module_are_named() {
    let symbol = "echo 'qemu: plugin.so: undefined symbol: bql_unlock' >&2; exit 1\n";
    Folder::with(&format!("{HEAD}{symbol}")).refused("", 1, &["undefined symbol: bql_unlock"]);
    let module = "echo 'guest: wrong: no module mmc_hsq' >$console\n";
    Folder::with(&format!("{HEAD}{module}")).refused("", 1, &["the guest: no module mmc_hsq"]);
    let early = "echo 'guest: begin' >$console\n";
    Folder::with(&format!("{HEAD}{early}")).refused("", 1, &["no end", "guest: begin"]);
}

#[test]
fn a_guest_that_hangs_ends_with_its_program_and_nothing_stays() {
    let _alive = watchdog::watch();
    let folder = Folder::with(&format!("{HEAD}echo begun >&3; exec tail -f /dev/null\n"));
    for signal in ["TERM", "KILL"] {
        let mut child = folder.held().stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "begun\n");
        Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(!child.wait().unwrap().success(), "{signal}");
        // The pipe has an end, since QEMU has ended and does not hold its other side any more.
        output.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_guest_that_takes_too_long_is_ended() {
    let _alive = watchdog::watch();
    let folder = Folder::with("");
    let lives = folder.path("lives");
    rustix::fs::mknodat(rustix::fs::CWD, &lives, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let hangs = format!("{HEAD}exec 3>{}; exec tail -f /dev/null\n", lives.display());
    folder.qemu(&hangs);
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut lives = std::fs::File::options().read(true).custom_flags(flags).open(lives).unwrap();
    let machine = Machine {
        parts: folder.0.path().to_owned(),
        kernel: None,
        initrd: None,
        arguments: String::new(),
        image: None,
        schedule: None,
        platform: "generic".to_owned(),
        card: None,
        setting: "none".to_owned(),
        driver: Driver::Linux,
        scheduler: None,
        cpus: 1,
        instruction_ns: 1,
        wake_ns: None,
        irq_ns: 1500,
        limit: Duration::ZERO,
    };
    let ended = machine.run("true", None, &AtomicBool::new(false));
    let Err(Failure::Run(why)) = ended else { panic!("{ended:?}") };
    assert!(why.starts_with("no end after 0 s; it said last: "), "{why}");
    // If a process still held the other side of the pipe, this read would be an error.
    lives.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_job_s_loads_stand_beside_what_was_counted() {
    let folder = Folder::with(&format!("{HEAD}{}", SAYS.replace("RATE", "8.0")));
    let output = folder.run("--log bus");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("read 4096")).unwrap_or_else(|| panic!("{text}"));
    let numbers: Vec<&str> = line.split_whitespace().skip(6).filter(|word| *word != "|").collect();
    assert_eq!(numbers, ["8.00", "488.3", "1.00", "2000", "2.50", "1.00", "2.00", "3.00"], "{text}");
    assert_eq!(std::fs::read_to_string(folder.path("bus")).unwrap(), "bus\n");
    let output = folder.run("--json --twice");
    assert_eq!(output.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["loads"][0]["counters"]["instructions"], 200_000);
    assert_eq!(value["wake_ns"], 20_000, "the board's, where the command does not say");
    assert!(String::from_utf8(output.stderr).unwrap().contains("two runs: the same"));
}

/// Script that checks the guest's files and command line, and then answers like [`SAYS`].
const LOOKS: &str = r#"
while [ $# -gt 1 ]; do
  case $1 in
    -initrd) initrd=$2 ;;
    -append) words=$2 ;;
  esac
  shift
done
echo "$words" >words
if grep -q "modules/mmcq.ko" "$initrd" && grep -q "the module itself" "$initrd"; then echo with; else echo without; fi >begins
"#;

#[test]
fn a_guest_has_linux_s_driver_or_ours() {
    let folder = Folder::with(&format!("{HEAD}{LOOKS}{}", SAYS.replace("RATE", "8.0")));
    folder.refused("--driver mmcq", 2, &["mmcq.ko", "tools/guest-parts.sh --module"]);
    std::fs::write(folder.path("mmcq.ko"), "the module itself").unwrap();
    let ran = |line: &str| {
        let output = folder.run(&format!("{line} --json"));
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap().trim().to_owned();
        let words: Vec<String> = read("words").split(' ').map(str::to_owned).collect();
        (report["setting"].as_str().unwrap().to_owned(), read("begins"), words)
    };
    let has = |words: &[String], word: &str| words.iter().any(|given| given == word);
    let (setting, begins, words) = ran("--driver linux");
    assert_eq!((setting.as_str(), begins.as_str()), ("none", "without"));
    assert!(has(&words, "mmcq.setting=none") && !has(&words, "mmcq.driver=mmcq"), "{words:?}");
    let (setting, begins, words) = ran("--driver hsq");
    assert_eq!((setting.as_str(), begins.as_str()), ("hsq-tag", "without"));
    assert!(has(&words, "mmcq.setting=hsq-tag"), "{words:?}");
    // `mmcq.ko` receives parameters about the board: whether its lines can be at 1.8 V for an eMMC,
    // and its quirks.
    for (line, kind, emmc_18, departures) in [
        ("", "sdhci", 0, ""),
        ("--card emmc-hs200", "sdhci", 1, ""),
        ("--platform hsq-sprd", "sdhci", 1, ""),
        ("--platform fifo-sdhci", "sdhci", 1, ""),
        ("--platform hsq-nobusy", "sdhci", 1, "no-busy-irq"),
        ("--platform stream-rtsx", "realtek", 0, ""),
    ] {
        let (setting, begins, words) = ran(&format!("--driver mmcq {line}"));
        assert_eq!((setting.as_str(), begins.as_str()), ("mmcq.ko", "with"), "{line}");
        for word in ["mmcq.driver=mmcq", "mmcq.setting=none"] {
            assert!(has(&words, word), "{line}: {words:?}");
        }
        assert!(has(&words, &format!("mmcq.kind={kind}")), "{line}: {words:?}");
        assert!(has(&words, &format!("mmcq.emmc_18={emmc_18}")), "{line}: {words:?}");
        assert!(has(&words, &format!("mmcq.departures={departures}")), "{line}: {words:?}");
    }
}

#[test]
fn what_a_driver_cannot_have_is_one_line() {
    let folder = Folder::with(HEAD);
    std::fs::write(folder.path("mmcq.ko"), "").unwrap();
    folder.refused("--driver hsq --setting cqe", 2, &["--driver hsq", "cqe"]);
    folder.refused("--driver mmcq --setting hsq-tag", 2, &["--driver mmcq", "hsq-tag", "Linux's own"]);
    folder.refused(
        "--driver mmcq --platform mshc-pci",
        2,
        &["mshc-pci", "SDHCI and Realtek's readers alone"],
    );
    folder.refused("--driver mmcq --card bt-type-a", 2, &["SD cards and eMMCs alone", "bt-type-a"]);
    folder.refused("--driver mmcq --image job", 2, &["--driver mmcq", "image"]);
}

#[test]
fn two_runs_that_differ_say_by_how_much() {
    // Of the two runs, the one that makes the folder second reports a higher rate.
    let says =
        format!("{HEAD}rate=8.0; mkdir taken 2>/dev/null || rate=8.1{}", SAYS.replace("RATE", "'$rate'"));
    let folder = Folder::with(&says);
    let output = folder.run("--twice");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("not the same") && text.contains("1.2"), "{text}");
}

#[test]
fn an_image_does_its_job_and_stands_beside_others_in_a_table() {
    let says = r#"
for word; do
  case $word in
    file,id=report,path=*) console=${word#*path=} ;;
    *,schedule=list,*) scheduled=and ;;
    guest*) told=$word ;;
  esac
done
[ "$told" = "guest probe 5" ] && [ "$scheduled" = and ] || exit 33
printf 'card\nguest: begin\nprobe: gap 900 1900\nguest: end\n' >$console
echo '{"mark": 0, "at_ns": 30, "instructions": 1, "register_reads": 0, "register_writes": 0, "interrupts": 1, "commands": 1, "violations": 0}' >$counters
exit $(cat status)
"#;
    let folder = Folder::with(&format!("{HEAD}{says}"));
    for (name, text) in [("list", "1 resp_crc\n"), ("image", ""), ("job", "probe 5\n"), ("status", "33")] {
        std::fs::write(folder.path(name), text).unwrap();
    }
    let line = "--image image --setting mmcq --schedule list --json";
    let output = folder.run(line);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut reports = String::from_utf8(output.stdout).unwrap();
    reports += &reports.replace("\"mmcq\"", "\"none\"").replace("900 1900", "900 10000900");
    std::fs::write(folder.path("reports"), &reports).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    let table = command.current_dir(folder.0.path()).args(["guest", "--table", "reports"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("| 1 resp_crc | 1.0 ms | 0 | 10.00 s | 0 |  |"), "{table}");
    std::fs::write(folder.path("status"), "35").unwrap();
    folder.refused(line, 1, &["QEMU ended with"]);
    std::fs::write(folder.path("job"), "x".repeat(201)).unwrap();
    folder.refused(line, 2, &["201 bytes", "200"]);
    folder.refused("--image nothing", 2, &["nothing"]);
    folder.refused("--image image --kernel image", 2, &["--kernel"]);
}
