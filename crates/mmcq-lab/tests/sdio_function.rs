//! Tests a user's own SDIO function as the load of `mmcq run`, `why` and `trace`.

use mmcq_lab::sdio::linux::Advance;
use mmcq_lab::sdio::load::Load;
use mmcq_lab::sdio::packet::SETTINGS;
use mmcq_lab::sdio::platform::{Board, NAME, PC};
use mmcq_lab::sdio::served::{Seen, run};
use mmcq_lab::sdio::{Run, Way};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Bluetooth function of the SDIO thread, written as a file with its six steps.
const TYPE_A: &str = r#"
description = "Bluetooth Type-A"
per_second = 250
[[step]]
read = 0x05
function = 0
[[step]]
read = 0x13
[[step]]
write = 0x13
value = 1
clears = true
[[step]]
read = 0x00
bytes = 4
[[step]]
read = 0x00
bytes = 2048
[[step]]
write = 0x10
"#;

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/sdio-function.toml")
}

fn seen(load: &Load, board: &str, way: Way) -> Seen {
    run(&Board::load(board).unwrap(), load, way, 1).unwrap()
}

fn packets_per_s(seen: &Seen) -> f64 {
    seen.outcome.packets as f64 / (seen.outcome.for_ns as f64 / 1e9)
}

/// Checks that the built-in function and a file with the same steps give the same figures.
#[test]
fn the_threads_function_from_a_file_gives_the_figures_of_reproduce() {
    let board = Board::load(NAME).unwrap();
    let load = Load::of(TYPE_A).unwrap();
    for (setting, way) in SETTINGS {
        let of_file = seen(&load, NAME, way);
        // The steps of the file read INTx, so the built-in packet must also read INTx with mmcq.
        let way = match way {
            Way::Ours { stay, own, dma, .. } => Way::Ours { stay, own, dma, asks: true },
            linux => linux,
        };
        let what = Run { board: &board, way, thief: None, for_ns: load.for_ns, seed: 1 };
        let built_in = mmcq_lab::sdio::run(&what).unwrap();
        let near = |a: f64, b: f64, within: f64, what: &str| {
            assert!((a / b - 1.0).abs() <= within, "{setting}, {what}: {a} of the file, {b} built in");
        };
        near(of_file.outcome.mean_ns(), built_in.mean_ns(), 0.01, "latency");
        near(of_file.outcome.kcycles, built_in.kcycles, 0.01, "counter");
        near(of_file.outcome.completion_ns, built_in.completion_ns, 0.01, "completion");
        assert!((of_file.outcome.wakes - built_in.wakes).abs() < 0.01, "{setting}");
        assert_eq!(of_file.outcome.packets, built_in.packets, "{setting}");
        // The first step of the built-in function begins with the interrupt and is not in the list.
        let steps = built_in.steps_ns.iter().zip(&of_file.means.steps_ns[1..]);
        for ((step, built_in), of_file) in steps {
            near(*of_file, *built_in, 0.01, step.name());
        }
    }
}

#[test]
fn the_shipped_function_keeps_its_rate_on_both_boards() {
    let load = Load::read(&shipped()).unwrap();
    assert_eq!((load.steps.len(), load.packet_bytes(), load.poll_ns), (6, 1504, None));
    for board in [NAME, PC] {
        for (setting, way) in SETTINGS {
            let seen = seen(&load, board, way);
            assert!((packets_per_s(&seen) - 400.0).abs() < 1.0, "{board}, {setting}");
            assert_eq!(seen.outcome.overrun, 0, "{board}, {setting}");
        }
        let wakes = |n: usize| seen(&load, board, SETTINGS[n].1).outcome.wakes;
        // A thread is woken by the interrupt and by each of seven commands (1500 bytes need two);
        // callbacks wake none.
        assert!((wakes(1) - 8.0).abs() < 0.05 && wakes(2) == 0.0, "{board}: {} {}", wakes(1), wakes(2));
    }
}

/// Checks a driver that polls: it finds a packet on average half a period after its arrival, and
/// polls in vain between.
#[test]
fn a_polled_function_is_found_by_looking() {
    let text = TYPE_A.replace("per_second = 250", "per_second = 97\npoll_us = 1000").replacen(
        "[[step]]\nread = 0x05\nfunction = 0\n",
        "",
        1,
    );
    let load = Load::of(&text).unwrap();
    for (setting, way) in SETTINGS {
        let seen = seen(&load, NAME, way);
        assert!((packets_per_s(&seen) - 97.0).abs() < 1.0, "{setting}: {}", packets_per_s(&seen));
        let first_us = (seen.outcome.mean_ns() - seen.means.to_clear_ns) / 1e3;
        assert!((450.0..700.0).contains(&first_us), "{setting}: {first_us}");
        // Each poll needs at least one timer interrupt, and there are about ten polls per packet.
        assert!(seen.outcome.interrupts > 10.0, "{setting}: {}", seen.outcome.interrupts);
    }
    let wakes = seen(&load, NAME, Way::Linux(Advance::Thread)).outcome.wakes;
    assert!(wakes > 18.0, "a look and its result wake the thread: {wakes}");
}

/// Checks a function that is too fast for the CPU: packets are lost with the tasklet, and mmcq
/// handles more of them.
#[test]
fn a_function_that_is_too_fast_loses_packets() {
    let load = Load::of(&TYPE_A.replace("per_second = 250", "per_second = 3000")).unwrap();
    let (tasklet, ours) = (seen(&load, NAME, SETTINGS[0].1), seen(&load, NAME, SETTINGS[3].1));
    assert!(tasklet.outcome.overrun > 0 && packets_per_s(&tasklet) < 1_500.0);
    assert!(packets_per_s(&ours) > packets_per_s(&tasklet));
}

/// Tests a function to which the driver writes data.
#[test]
fn data_go_to_the_card_too() {
    let load = Load::of(&TYPE_A.replace("read = 0x00\nbytes = 2048", "write = 0x40\nbytes = 1000")).unwrap();
    for board in [NAME, PC] {
        for (setting, way) in SETTINGS {
            let rate = packets_per_s(&seen(&load, board, way));
            assert!((rate - 250.0).abs() < 1.0, "{board}, {setting}: {rate}");
        }
    }
}

#[test]
fn mistakes_in_a_file_are_named_in_one_line() {
    for (from, to, expected) in [
        ("per_second = 250", "per_second = 0", "per_second = 0: expected 0.1 to 100000"),
        ("per_second = 250", "rate = 250", "line 3: unknown field `rate`"),
        ("clears = true", "", "clears = true in 0 of them; expected one"),
        ("read = 0x13", "read = 0x13\nwrite = 0x13", "step 2: expected read = ADDRESS or write = ADDRESS"),
        ("read = 0x13", "read = 0x20000", "step 2: address 0x20000"),
        ("function = 0", "function = 2", "step 1: function = 2: expected 0 or 1"),
        ("bytes = 2048", "bytes = 0", "step 5: bytes: expected 1 to 65536"),
        ("read = 0x00\nbytes = 4", "read = 0x00\nbytes = 4\nvalue = 1", "step 4: value: expected a write"),
        ("function = 0", "function = 0\nbytes = 4", "step 1: of function 0 one register may be read"),
        ("write = 0x10", "read = 0x10\nfunction = 0", "the last step: function 0"),
        ("read = 0x05\nfunction = 0", "write = 0x14", "poll_us: step 1"),
    ] {
        let mut text = TYPE_A.replacen(from, to, 1);
        if expected.starts_with("poll_us") {
            text = text.replace("per_second", "poll_us = 100\nper_second");
        }
        assert_ne!(text, TYPE_A);
        let line = Load::of(&text).unwrap_err();
        assert!(line.contains(expected) && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn run_why_and_trace_take_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.toml"), "description = 1\n").unwrap();
    std::fs::copy(shipped(), folder.path().join("f.toml")).unwrap();
    let mmcq = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
        let output = command.current_dir(folder.path()).args(line.split_whitespace()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, table, said) = mmcq("run f.toml");
    assert_eq!((code, said.as_str()), (Some(0), ""));
    for row in
        ["packets ", "wake-ups", "context switches", "interrupt latency", "completion latency", "CPU idle"]
    {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row}\n{table}");
    }
    for setting in SETTINGS {
        assert!(table.contains(setting.0), "{table}");
    }
    let (_, json, _) = mmcq("run f.toml --output-format json --platform sdio-pc --set cost.wake_us=9");
    assert!(
        json.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()) && json.len() > 999
    );
    let (code, why, _) = mmcq("why f.toml");
    assert!(
        code == Some(0) && why.contains("step 5 packet") && why.contains("async: a packet takes"),
        "{why}"
    );
    let (code, list, _) = mmcq("trace f.toml --way thread --vcd w.vcd");
    assert!(code == Some(0) && list.contains("DAT1 low: the card asks") && list.contains("CMD53"), "{list}");
    assert!(std::fs::metadata(folder.path().join("w.vcd")).unwrap().len() > 10_000);
    for (line, expected) in [
        ("run bad.toml", "function bad.toml: "),
        ("run none.toml", "none.toml: No such file"),
        ("run f.toml --platform hsq-sprd", "hsq-sprd: not an SDIO board"),
        ("run f.toml --card hbg4a2", "--card hbg4a2"),
        ("run f.toml --setting none", "--setting none"),
        ("run f.toml --counters", "--counters"),
        ("run f.toml --output-format terse", "expected normal or json"),
        ("trace f.toml --way soon", "--way soon"),
        ("trace f.toml --trigger irq", "--trigger"),
        ("trace f.toml --platform sdio-pc", "board sdio-pc"),
        ("why f.toml --set cost.wake=3", "--set cost.wake=3"),
    ] {
        let (code, _, message) = mmcq(line);
        assert_eq!((code, message.lines().count()), (Some(2), 1), "{line}: {message}");
        assert!(message.contains(expected), "{line}: {message}");
    }
}
