//! Tests `mmcq trace --sdio`, a packet of the SDIO experiment as an oscilloscope shows it, with
//! checksums from PyPI (`tools/judge-vcd.py`). Also tests which options `mmcq trace` refuses.

use crate::judges;
use judges::{checksums, crccheck, sigrok, sigrok_agrees, text};
use mmcq_lab::sdio::packet::{self, Packet};
use mmcq_lab::sdio::platform::{Board, NAME};
use mmcq_lab::sdio::trace::Step;
use mmcq_lab::sdio::{Run, run};
use mmcq_lab::trace::{Clk, Dump, Event, Start, What, Window, record};
use std::path::Path;
use std::process::{Command, Output};

fn trace(folder: &Path, options: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder).arg("trace").args(options.split_whitespace()).output().unwrap()
}

fn packet(setting: &str) -> Packet {
    packet::record(&Board::load(NAME).unwrap(), setting, 1).unwrap()
}

/// Returns the times in ns of the rising edges of CLK in a value change dump.
fn rises(vcd: &str) -> Vec<u64> {
    assert!(vcd.contains("$timescale 1 ns"), "10 MHz has its edges on nanoseconds");
    let id = vcd.lines().find(|l| l.ends_with(" CLK $end")).unwrap().split(' ').nth(3).unwrap();
    let rise = format!("1{id}");
    let (mut now, mut rises) = (0, Vec::new());
    for line in vcd.lines() {
        if let Some(at) = line.strip_prefix('#') {
            now = at.parse().unwrap();
        } else if line == rise {
            rises.push(now);
        }
    }
    rises
}

#[test]
fn every_setting_has_right_checksums() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, _) in packet::SETTINGS {
        let output = trace(folder.path(), &format!("--sdio {setting} --vcd w.vcd"));
        assert!(output.status.success(), "{setting}: {}", text(&output.stderr));
        let Some(judged) = crccheck(&folder.path().join("w.vcd"), &[]) else { return };
        // Only one function can interrupt, so mmcq need not read INTx.
        let asks = if setting == "mmcq" { 2 } else { 3 };
        let mut commands = vec!["CMD52"; asks];
        commands.extend(["CMD53", "CMD53", "CMD52"]);
        assert_eq!(judged["commands"], serde_json::json!(commands), "{setting}");
        assert_eq!(judged["responses"], commands.len(), "{setting}");
        let blocks = judged["blocks"].as_array().unwrap().iter();
        let blocks: Vec<_> = blocks.map(|b| (b["bytes"].as_u64(), b["width"].as_u64())).collect();
        assert_eq!(blocks, [4, 512, 512, 512, 512].map(|bytes| (Some(bytes), Some(4))), "{setting}");
        // The card asserts its interrupt once, before the first command, until it is cleared.
        assert_eq!(judged["card_interrupts"], 1, "{setting}");
        let io = judged["io"].as_array().unwrap().iter();
        let io: Vec<_> =
            io.map(|c| [&c["write"], &c["address"], &c["by_blocks"], &c["count"], &c["errors"]]).collect();
        let (none, whole) = (serde_json::Value::Null, serde_json::json!([]));
        let (no, yes) = (false.into(), true.into());
        let one =
            |write, address: &serde_json::Value| [write, address, &none, &none, &whole].map(Clone::clone);
        let expected = [
            one(&no, &0x05.into()),
            one(&no, &0x13.into()),
            one(&yes, &0x13.into()),
            [no.clone(), 0.into(), no.clone(), 4.into(), whole.clone()],
            [no.clone(), 0.into(), yes.clone(), 4.into(), whole.clone()],
            one(&yes, &0x10.into()),
        ];
        assert_eq!(serde_json::json!(io), serde_json::json!(expected[3 - asks..]), "{setting}");
        // The function's register, as read, shows a pending interrupt.
        assert_eq!(judged["io"][asks - 2]["data"].as_u64().unwrap() & 1, 1, "{setting}");
        // DAT0 is low only in data blocks: there is no busy.
        assert_eq!((&judged["busy"], &judged["shortest_cycle"]), (&0.into(), &100.into()), "{setting}");
    }
}

#[test]
fn sigrok_reads_every_command_and_its_argument() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, _) in packet::SETTINGS {
        assert!(trace(folder.path(), &format!("--sdio {setting} --vcd w.vcd")).status.success());
        let path = folder.path().join("w.vcd");
        let asks = if setting == "mmcq" { 2 } else { 3 };
        let commands = [vec!["CMD52"; asks], vec!["CMD53", "CMD53", "CMD52"]].concat();
        let commands: Vec<String> = commands.into_iter().map(str::to_owned).collect();
        sigrok_agrees(&path, &commands);
        let Some(arguments) = sigrok(&path, "field-arg") else { return };
        // Arguments of the host's commands; a response of the card follows each.
        let arguments: Vec<&str> = arguments.iter().step_by(2).map(String::as_str).collect();
        let expected = [
            "0x00000a00", // function 0, 00005h: whose interrupt is it?
            "0x10002600", // function 1, 00013h: its register
            "0x90002601", // the same, 1 written: cleared
            "0x10000004", // CMD53 from 00000h: 4 bytes, by bytes
            "0x18000004", // 4 blocks
            "0x90002000", // 00010h, 0 written: acknowledged
        ];
        let expected = expected[3 - asks..].iter().map(|argument| format!("Argument: {argument}"));
        assert_eq!(arguments, expected.collect::<Vec<_>>(), "{setting}");
    }
}

/// Checks a window from the first CMD5 to the first packet. (No card answers the CMD8 before it,
/// and sigrok expects an answer to each command.) The judge takes the block size of the payload
/// from the CMD52 that set it.
#[test]
fn bring_up_from_cmd5_and_the_first_packet_before_both_judges() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.vcd");
    let board = Board::load(NAME).unwrap();
    let way = packet::SETTINGS[3].1;
    let start = Start::Command { index: 5, n: 1 };
    let window = Window { start, before_ns: 0, for_ns: Some(60_000_000) };
    let (outcome, recording) =
        record(window, || run(&Run { board: &board, way, thief: None, for_ns: 8_000_000, seed: 1 }));
    outcome.unwrap();
    let capture = recording.capture().unwrap();
    Dump::Vcd.write(&capture, Clk::Full, std::fs::File::create(&path).unwrap()).unwrap();
    let sent = capture.events.iter().filter_map(|event| match event.what {
        What::Command { index, .. } => Some(format!("CMD{index}")),
        _ => None,
    });
    let commands: Vec<String> = sent.collect();
    for command in ["CMD5", "CMD3", "CMD7", "CMD52", "CMD53"] {
        assert!(commands.iter().any(|c| c == command), "{command} is not in {commands:?}");
    }
    sigrok_agrees(&path, &commands);
    // The judge uses the block size that the card was set to, not the one of the option.
    let Some(judged) = crccheck(&path, &["--io-block=256"]) else { return };
    assert_eq!(judged["commands"], serde_json::json!(commands));
    let blocks = judged["blocks"].as_array().unwrap().iter();
    let blocks: Vec<_> = blocks.map(|b| (b["bytes"].as_u64(), b["width"].as_u64())).collect();
    assert!(blocks.len() >= 5, "{blocks:?}");
    assert_eq!(blocks[..5], [4, 512, 512, 512, 512].map(|bytes| (Some(bytes), Some(4))));
}

#[test]
fn the_judge_takes_a_block_size_from_its_option_where_the_file_says_none() {
    let folder = tempfile::tempdir().unwrap();
    assert!(trace(folder.path(), "--sdio async --vcd w.vcd").status.success());
    let path = folder.path().join("w.vcd");
    let Some(output) = checksums(&path, &["--io-block=256"]) else { return };
    assert!(!output.status.success() && text(&output.stderr).starts_with("judge-vcd.py: cycle "));
    assert!(checksums(&path, &["--io-block=512"]).unwrap().status.success());
}

#[test]
fn the_judge_sees_a_spoiled_bit_of_a_payload() {
    let folder = tempfile::tempdir().unwrap();
    assert!(trace(folder.path(), "--sdio async --vcd w.vcd").status.success());
    let path = folder.path().join("w.vcd");
    if checksums(&path, &[]).is_none() {
        return;
    }
    let good = std::fs::read_to_string(&path).unwrap();
    for name in ["CMD", "DAT0", "DAT3"] {
        let var = good.lines().find(|l| l.ends_with(&format!(" {name} $end"))).unwrap();
        let change = format!("\n0{}\n", var.split(' ').nth(3).unwrap());
        let changes: Vec<usize> = good.match_indices(&change).map(|m| m.0).collect();
        let at = changes[changes.len() / 2];
        std::fs::write(&path, format!("{}{}", &good[..at], &good[at + change.len() - 1..])).unwrap();
        let output = checksums(&path, &[]).unwrap();
        assert!(!output.status.success(), "{name}");
        assert!(text(&output.stderr).starts_with("judge-vcd.py: cycle "), "{name}: {}", text(&output.stderr));
    }
}

/// Checks that the judge finds an interrupt during data. The interrupt uses a data line, so it is
/// allowed only while no data are transferred.
#[test]
fn the_judge_sees_an_interrupt_while_data_have_the_lines() {
    let folder = tempfile::tempdir().unwrap();
    assert!(trace(folder.path(), "--sdio async --vcd w.vcd").status.success());
    let path = folder.path().join("w.vcd");
    let Some(judged) = crccheck(&path, &[]) else { return };
    assert_eq!(judged["card_interrupts"], 1);
    let good = std::fs::read_to_string(&path).unwrap();
    let id = |name: &str| {
        let var = good.lines().find(|l| l.ends_with(&format!(" {name} $end"))).unwrap();
        var.split(' ').nth(3).unwrap().to_owned()
    };
    // DAT1 is made to fall ten clocks before the first block, whose start bit is on all data lines.
    let (dat0, dat1) = (id("DAT0"), id("DAT1"));
    let (mut at, mut block) = (0, None);
    let times: Vec<&str> = good.lines().collect();
    for line in &times {
        if let Some(time) = line.strip_prefix('#') {
            at = time.parse::<u64>().unwrap();
        } else if *line == format!("0{dat0}") && at > 0 && block.is_none() {
            block = Some(at);
        }
    }
    let fall = block.unwrap() - 1_000;
    let mut spoiled = String::new();
    let mut done = false;
    for line in times {
        let time = line.strip_prefix('#').and_then(|time| time.parse::<u64>().ok());
        if !done && time.is_some_and(|time| time >= fall) {
            spoiled.push_str(&format!("#{}\n0{dat1}\n", fall.min(time.unwrap())));
            done = true;
        }
        spoiled.push_str(line);
        spoiled.push('\n');
    }
    std::fs::write(&path, spoiled).unwrap();
    let output = checksums(&path, &[]).unwrap();
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("DAT1 is low where data have the lines"), "{line}");
}

#[test]
fn the_clock_stops_in_the_payload_and_nowhere_else_while_bits_move() {
    let folder = tempfile::tempdir().unwrap();
    for (setting, _) in packet::SETTINGS {
        assert!(trace(folder.path(), &format!("--sdio {setting} --vcd w.vcd")).status.success());
        let rises = rises(&std::fs::read_to_string(folder.path().join("w.vcd")).unwrap());
        let packet = packet(setting);
        let capture = &packet.capture;
        let blocks = capture.events.iter().filter(|e| matches!(e.what, What::Block { .. }));
        for Event { start_ns, end_ns, what } in blocks {
            let What::Block { data, .. } = what else { unreachable!() };
            let (from, to) = (start_ns - capture.from_ns, end_ns - capture.from_ns);
            let inside: Vec<u64> = rises.iter().copied().filter(|at| (from..to).contains(at)).collect();
            // A block has exactly these clocks: start bit, two per byte, CRC16, end bit; stops of
            // the clock add none.
            assert_eq!(inside.len(), 18 + 2 * data.len(), "{setting}");
            let stood = inside.windows(2).map(|pair| pair[1] - pair[0] - 100).sum::<u64>();
            let held = capture.events.iter().filter(|e| e.what == What::ClockStopped);
            let held = held.filter(|e| e.start_ns > *start_ns && e.end_ns <= *end_ns);
            assert_eq!(stood, held.map(|e| e.end_ns - e.start_ns).sum::<u64>(), "{setting}");
            // 64 bytes take 12.8 us on the bus. A tasklet is too late for them, but 4 bytes always
            // fit in the FIFO.
            if setting == "thread+tasklet" {
                assert_eq!(stood > 0, data.len() == 512, "{stood}");
            }
        }
    }
}

#[test]
fn one_packet_is_as_all_of_them() {
    let board = Board::load(NAME).unwrap();
    for (setting, way) in packet::SETTINGS {
        let packet = packet(setting);
        let steps: Vec<Step> = packet.steps.iter().map(|(step, ..)| *step).collect();
        let first = if setting == "mmcq" { 1 } else { 0 };
        assert_eq!(steps, Step::ALL[first..], "{setting}");
        assert!(packet.steps.windows(2).all(|two| two[0].2 == two[1].1 && two[1].1 < two[1].2), "{setting}");
        let of = |step| packet.steps.iter().find(|(s, ..)| *s == step).unwrap();
        let latency_ns = (of(Step::Clear).2 - packet.capture.start_ns) as f64;
        let many = run(&Run { board: &board, way, thief: None, for_ns: 400_000_000, seed: 1 }).unwrap();
        let off = (latency_ns / many.mean_ns() - 1.0).abs();
        assert!(off < 0.02, "{setting}: {latency_ns} ns, on average {} ns", many.mean_ns());
        // The card asserts its interrupt until it is cleared, and no longer.
        let falls: Vec<(u64, bool)> = packet.capture.card_irqs.iter().copied().skip(1).collect();
        let [(fall_ns, true), (rise_ns, false)] = falls[..] else { panic!("{setting}: {falls:?}") };
        assert!(fall_ns == packet.capture.start_ns && rise_ns <= of(Step::Clear).2, "{setting}");
    }
}

#[test]
fn a_recorded_packet_is_the_same_as_one_that_is_not() {
    let board = Board::load(NAME).unwrap();
    let (_, way) = packet::SETTINGS[0];
    let all = || {
        format!("{:?}", run(&Run { board: &board, way, thief: None, for_ns: 40_000_000, seed: 1 }).unwrap())
    };
    let window = mmcq_lab::trace::Window {
        start: mmcq_lab::trace::Start::CardInterrupt { n: 1 },
        before_ns: 0,
        for_ns: None,
    };
    let (seen, _) = mmcq_lab::trace::record(window, all);
    assert_eq!(seen, all());
}

#[test]
fn the_picture_has_all_settings_with_their_steps() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let output = trace(folder.path(), &format!("--sdio --svg {name}.svg --perfetto {name}.pftrace"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let list = text(&output.stdout);
        assert!(list.contains("DAT1 low: the card asks") && list.contains("CMD53"), "{list}");
    }
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("a.svg"), read("b.svg"));
    let svg = read("a.svg");
    for (setting, _) in packet::SETTINGS {
        assert!(svg.contains(&format!(">{setting}: cleared after ")), "{setting}");
    }
    for lane in
        ["steps", "DAT1 (interrupt)", "CLK", "CMD", "DAT", "hard interrupt", "tasklet", "thread", "idle"]
    {
        assert_eq!(svg.matches(&format!("\"end\">{lane}</text>")).count(), 4, "{lane}");
    }
    for step in Step::ALL {
        // mmcq does not need the first step.
        let count = if step == Step::Whose { 3 } else { 4 };
        assert_eq!(svg.matches(&format!("<title>{}, ", step.name())).count(), count, "{}", step.name());
    }
    if let Some(trace) = judges::perfetto(&folder.path().join("a.pftrace")) {
        assert!(trace["tracks"]["bus/CMD"]["slices"].as_u64() > Some(1), "{trace}");
    }
}

/// Runs the laboratory with options that it must refuse. Checks for exit code 2 and one line of
/// error with all of these texts.
#[track_caller]
fn refused(folder: &Path, options: &str, expected: &[&str]) {
    let output = trace(folder, options);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{options}: {line}");
    assert!(output.stdout.is_empty() && line.lines().count() == 1, "{options}: {line}");
    for part in expected {
        assert!(line.contains(part), "{options}: {line:?} does not name {part:?}");
    }
}

#[test]
fn wrong_options_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("job.fio"), "[a]\nfilename=/dev/mmcblk0\nbs=4k\nsize=8k\nrw=read\n").unwrap();
    let same = "writes the same file";
    refused(folder, "job.fio --vcd w --svg w", &["--svg w: --vcd", same]);
    refused(folder, "job.fio --vcd w --perfetto ./w", &["--perfetto ./w: --vcd", same]);
    refused(folder, "--sdio --svg w --perfetto w", &["--perfetto w: --svg", same]);
    assert!(!folder.join("w").exists());
    refused(folder, "job.fio --for 0us", &["--for 0us: expected a time above 0"]);
    refused(folder, "job.fio --for 0ms", &["--for 0ms: "]);
    refused(folder, "--sdio tasklet", &["--sdio tasklet", "thread+tasklet, thread, async or mmcq"]);
    // A device such as /dev/null may be given twice, since it is not a file that is overwritten.
    assert!(trace(folder, "--sdio async --vcd /dev/null --perfetto /dev/null").status.success());
    // Either jobs or `--sdio` must be given, not both.
    for options in ["", "job.fio --sdio", "--sdio --trigger irq", "--sdio --platform generic"] {
        assert_eq!(trace(folder, options).status.code(), Some(2), "{options}");
    }
}

#[test]
fn a_board_that_cannot_be_traced_is_named_with_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("job.fio"), "[a]\nfilename=/dev/mmcblk0\nbs=4k\nsize=8k\nrw=read\n").unwrap();
    refused(
        folder,
        "job.fio --platform stream-rtsx --vcd w.vcd",
        &["board stream-rtsx", "controller rtsx cannot be traced"],
    );
    assert!(!folder.join("w.vcd").exists());
}
