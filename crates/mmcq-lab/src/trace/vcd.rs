//! A capture as a value change dump [IEEE 1364-2005, 18].
//!
//! Every signal is one bit wide: common readers refuse or drop anything else. A core has a line for
//! each context that it was in.

use super::lines::{self, Change, Line};
use super::recorder::Capture;
use super::steps::thread_name;
use super::window::{WindowError, time};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The waveform. Time 0 is the begin of the window; the unit is 1 ns where all edges lie on
/// nanoseconds, else 1 ps.
pub fn write(capture: &Capture) -> Result<String, WindowError> {
    let (grid, changes) = lines::changes(capture)?;
    let parts = if capture.bus.iter().any(|b| b.1.ddr) { 4 } else { 2 };
    let whole = |hz: u32| hz == 0 || 1_000_000_000 % (u64::from(hz) * parts) == 0;
    let unit_ps = if grid.anchors.iter().all(|a| whole(a.hz)) { 1_000 } else { 1 };
    let wires = wires(capture, &changes);
    let mut out = header(capture, &wires, unit_ps);
    body(capture, &wires, &changes, unit_ps, &mut out);
    Ok(out)
}

/// Identifiers of the lines in the file.
type Wires = BTreeMap<Line, String>;

fn wires(capture: &Capture, changes: &[Change]) -> Wires {
    let mut wires: Wires = changes.iter().map(|change| (change.line, String::new())).collect();
    let bus =
        [Line::Clk, Line::Cmd, Line::Irq].into_iter().chain((0..lines::dat_lines(capture)).map(Line::Dat));
    let cores = (0..capture.cores as u8).flat_map(|core| [Line::Hard(core), Line::Deferred(core)]);
    wires.extend(bus.chain(cores).map(|line| (line, String::new())));
    for (n, id) in wires.values_mut().enumerate() {
        // Printable characters without the space: 94 of them.
        let digit = |n: usize| char::from(b'!' + (n % 94) as u8);
        *id = if n < 94 { digit(n).to_string() } else { [digit(n / 94 - 1), digit(n)].iter().collect() };
    }
    wires
}

fn name(capture: &Capture, line: Line) -> String {
    match line {
        Line::Clk => "CLK".to_owned(),
        Line::Cmd => "CMD".to_owned(),
        Line::Dat(n) => format!("DAT{n}"),
        Line::Irq => "IRQ".to_owned(),
        Line::Held => "HELD".to_owned(),
        Line::Hard(core) => format!("CPU{core}_hard"),
        Line::Deferred(core) => format!("CPU{core}_soft"),
        Line::Thread(core, thread) => format!("CPU{core}_{}", thread_name(capture, thread).replace(' ', "")),
    }
}

fn header(capture: &Capture, wires: &Wires, unit_ps: u64) -> String {
    let mut out = String::new();
    let begin = match capture.work_ns.filter(|at| *at <= capture.from_ns) {
        Some(at_ns) => format!("{} after the jobs began", time(capture.from_ns - at_ns)),
        None => format!("{} after power-on", time(capture.from_ns)),
    };
    let unit = if unit_ps == 1 { "1 ps" } else { "1 ns" };
    let _ = write!(
        out,
        "$version mmcq {} $end\n$comment\n  time 0 is {begin} (virtual time)\n  \
         CPUn_hard, CPUn_soft, CPUn_job1 ...: the core is in a hard or soft interrupt, in this thread; none: idle\n  \
         HELD, if it is there: the engine holds the next start for the tail of a batch\n\
         $end\n$timescale {unit} $end\n$scope module mmcq $end\n",
        env!("CARGO_PKG_VERSION")
    );
    for (line, id) in wires {
        let _ = writeln!(out, "$var wire 1 {id} {} $end", name(capture, *line));
    }
    out.push_str("$upscope $end\n$enddefinitions $end\n");
    out
}

fn body(capture: &Capture, wires: &Wires, changes: &[Change], unit_ps: u64, out: &mut String) {
    let (from_ps, end_ps) = (capture.from_ns * 1_000, capture.until_ns * 1_000);
    let mut values: BTreeMap<Line, bool> = wires.keys().map(|line| (*line, false)).collect();
    let first = changes.partition_point(|c| c.at_ps <= from_ps);
    values.extend(changes[..first].iter().map(|c| (c.line, c.value)));
    out.push_str("#0\n$dumpvars\n");
    for (line, value) in &values {
        put(&wires[line], *value, out);
    }
    out.push_str("$end\n");
    // Changes at one time of the file count together: only what a line ends with is written.
    let mut now: BTreeMap<Line, bool> = BTreeMap::new();
    let mut rest = changes[first..].iter().take_while(|c| c.at_ps <= end_ps).peekable();
    while let Some(change) = rest.next() {
        now.insert(change.line, change.value);
        let at = change.at_ps / unit_ps;
        if rest.peek().is_some_and(|next| next.at_ps / unit_ps == at) {
            continue;
        }
        now.retain(|line, value| values.insert(*line, *value) != Some(*value));
        if !now.is_empty() {
            let _ = writeln!(out, "#{}", at - from_ps / unit_ps);
        }
        for (line, value) in std::mem::take(&mut now) {
            put(&wires[&line], value, out);
        }
    }
    let _ = writeln!(out, "#{}", (end_ps - from_ps) / unit_ps);
}

fn put(id: &str, value: bool, out: &mut String) {
    let _ = writeln!(out, "{}{id}", u8::from(value));
}
