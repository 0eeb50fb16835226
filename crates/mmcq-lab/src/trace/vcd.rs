//! A capture as a value change dump [IEEE 1364-2005, 18].

use super::lines::{self, Change, Line, NO_THREAD};
use super::recorder::Capture;
use super::window::{WindowError, time};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The waveform. Time 0 is the begin of the window; the unit is 1 ns where all edges lie on nanoseconds, else 1 ps.
pub fn write(capture: &Capture) -> Result<String, WindowError> {
    let (grid, changes) = lines::changes(capture)?;
    let quarter = capture.bus.iter().any(|b| b.1.ddr);
    let whole = |hz: u32| hz == 0 || 1_000_000_000 % (u64::from(hz) * if quarter { 4 } else { 2 }) == 0;
    let unit_ps = if grid.anchors.iter().all(|a| whole(a.hz)) { 1_000 } else { 1 };
    let lines = wires(capture);
    let mut out = header(capture, &lines, unit_ps);
    body(capture, &lines, &changes, unit_ps, &mut out);
    Ok(out)
}

/// A line in the file: its name, its width in bits, its short identifier.
struct Wire {
    name: String,
    bits: u8,
    id: char,
}

fn wires(capture: &Capture) -> BTreeMap<Line, Wire> {
    let mut wires = BTreeMap::new();
    let mut add = |line, name: String, bits| {
        let id = char::from(b'!' + wires.len() as u8);
        wires.insert(line, Wire { name, bits, id });
    };
    add(Line::Clk, "CLK".to_owned(), 1);
    add(Line::Cmd, "CMD".to_owned(), 1);
    for n in 0..lines::dat_lines(capture) {
        add(Line::Dat(n), format!("DAT{n}"), 1);
    }
    add(Line::Irq, "IRQ".to_owned(), 1);
    // One character for each line: enough for 38 cores.
    for core in 0..capture.cores.min(38) as u8 {
        add(Line::Context(core), format!("CPU{core}_context"), 2);
        add(Line::Thread(core), format!("CPU{core}_thread"), 16);
    }
    wires
}

fn header(capture: &Capture, wires: &BTreeMap<Line, Wire>, unit_ps: u64) -> String {
    let mut out = String::new();
    let begin = match capture.work_ns.filter(|at| *at <= capture.from_ns) {
        Some(at_ns) => format!("{} after the jobs began", time(capture.from_ns - at_ns)),
        None => format!("{} after power-on", time(capture.from_ns)),
    };
    let unit = if unit_ps == 1 { "1 ps" } else { "1 ns" };
    let _ = write!(
        out,
        "$version mmcq {} $end\n$comment\n  time 0 is {begin} (virtual time)\n  \
         CPUn_context: 0 idle, 1 thread, 2 soft interrupt, 3 hard interrupt; CPUn_thread: its number, {NO_THREAD} for none\n\
         $end\n$timescale {unit} $end\n$scope module mmcq $end\n",
        env!("CARGO_PKG_VERSION")
    );
    for Wire { name, bits, id } in wires.values() {
        let range = if *bits > 1 { format!(" [{}:0]", bits - 1) } else { String::new() };
        let _ = writeln!(out, "$var wire {bits} {id} {name}{range} $end");
    }
    out.push_str("$upscope $end\n$enddefinitions $end\n");
    out
}

fn body(capture: &Capture, wires: &BTreeMap<Line, Wire>, changes: &[Change], unit_ps: u64, out: &mut String) {
    let from_ps = capture.from_ns * 1_000;
    let end_ps = capture.until_ns * 1_000;
    let idle = |line: &Line| match line {
        Line::Thread(_) => NO_THREAD,
        _ => 0,
    };
    let mut values: BTreeMap<Line, u32> = wires.keys().map(|line| (*line, idle(line))).collect();
    let first = changes.partition_point(|c| c.at_ps <= from_ps);
    for change in &changes[..first] {
        values.insert(change.line, change.value);
    }
    out.push_str("#0\n$dumpvars\n");
    for (line, value) in &values {
        put(&wires[line], *value, out);
    }
    out.push_str("$end\n");
    // Changes at one time of the file count together: only what a line ends with is written.
    let mut rest = &changes[first..];
    while let Some(at) = rest.first().map(|c| c.at_ps / unit_ps).filter(|at| *at <= end_ps / unit_ps) {
        let n = rest.partition_point(|c| c.at_ps / unit_ps == at);
        let mut stamped = false;
        let now: BTreeMap<Line, u32> = rest[..n].iter().map(|c| (c.line, c.value)).collect();
        for (line, value) in now {
            let Some(wire) = wires.get(&line) else { continue };
            if values.insert(line, value) != Some(value) {
                if !std::mem::replace(&mut stamped, true) {
                    let _ = writeln!(out, "#{}", at - from_ps / unit_ps);
                }
                put(wire, value, out);
            }
        }
        rest = &rest[n..];
    }
    let _ = writeln!(out, "#{}", (end_ps - from_ps) / unit_ps);
}

fn put(wire: &Wire, value: u32, out: &mut String) {
    let _ = match wire.bits {
        1 => writeln!(out, "{value}{}", wire.id),
        bits => writeln!(out, "b{value:0width$b} {}", wire.id, width = usize::from(bits)),
    };
}
