//! A capture as a value change dump [IEEE 1364-2005, 18].
//!
//! Every signal is one bit wide: common readers refuse or drop anything else. A core has a line for
//! each context that it was in.

use super::lines::{self, Change, Clk, Line};
use super::recorder::Capture;
use super::steps::thread_name;
use super::window::{WindowError, time};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Most edges of the clock that are written one by one: some hundred megabytes.
const CYCLES_MAX: u64 = 3_000_000;
/// A part of the window that is drawn at once: what the waveform needs of memory is this much.
const PART_NS: u64 = 2_000_000;

/// Whether the window is short enough for each edge of the clock.
///
/// # Errors
/// It is too long.
pub fn fits(capture: &Capture, clk: Clk) -> Result<(), WindowError> {
    let ends = capture.bus.iter().skip(1).map(|bus| bus.0).chain([capture.until_ns]);
    let cycles = capture.bus.iter().zip(ends).map(|((from_ns, bus, _), until_ns)| {
        let length_ns = until_ns.saturating_sub((*from_ns).max(capture.from_ns));
        u128::from(length_ns) * u128::from(bus.clock_hz) / 1_000_000_000
    });
    let cycles = u64::try_from(cycles.sum::<u128>()).unwrap_or(u64::MAX);
    if clk == Clk::Full && cycles > CYCLES_MAX {
        let length_ns = capture.until_ns - capture.from_ns;
        return Err(WindowError::TooLong { length_ns, cycles, most: CYCLES_MAX });
    }
    Ok(())
}

/// Writes the waveform. Time 0 is the begin of the window; the unit is 1 ns where all edges lie on
/// nanoseconds, else 1 ps.
///
/// # Errors
/// Those of `out`.
pub fn write(capture: &Capture, clk: Clk, out: &mut dyn Write) -> io::Result<()> {
    let quarters = if capture.bus.iter().any(|b| b.1.ddr) { 4 } else { 2 };
    let whole = |hz: u32| hz == 0 || 1_000_000_000 % (u64::from(hz) * quarters) == 0;
    let unit_ps = if capture.bus.iter().all(|bus| whole(bus.1.clock_hz)) { 1_000 } else { 1 };
    let wires = wires(capture);
    out.write_all(header(capture, &wires, clk, unit_ps).as_bytes())?;
    let mut body = Body {
        wires: &wires,
        values: BTreeMap::new(),
        unit_ps,
        from_ps: capture.from_ns * 1_000,
        at: 0,
        now: BTreeMap::new(),
    };
    for (at, part) in capture.parts(PART_NS).into_iter().enumerate() {
        let changes = lines::changes(&capture.part(part), clk);
        let (from_ps, until_ps) = (part.0 * 1_000, part.1 * 1_000);
        let begin = changes.partition_point(|change| change.at_ps <= from_ps);
        if at == 0 {
            body.begin(&changes[..begin], out)?;
        } else {
            changes[..begin].iter().try_for_each(|change| body.change(from_ps, change, out))?;
        }
        let rest = changes[begin..].iter().take_while(|change| change.at_ps <= until_ps);
        rest.into_iter().try_for_each(|change| body.change(change.at_ps, change, out))?;
    }
    body.end(capture.until_ns * 1_000, out)
}

/// Identifiers of the lines in the file.
type Wires = BTreeMap<Line, String>;

fn wires(capture: &Capture) -> Wires {
    let spans = capture.spans.iter().filter(|span| usize::from(span.core) < capture.cores);
    let mut wires: Wires = spans.map(|span| (Line::of(span.core, span.context), String::new())).collect();
    wires.extend(capture.holds.first().map(|_| (Line::Held, String::new())));
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

fn header(capture: &Capture, wires: &Wires, clk: Clk, unit_ps: u64) -> String {
    let mut out = String::new();
    let begin = match capture.work_ns.filter(|at| *at <= capture.from_ns) {
        Some(at_ns) => format!("{} after the jobs began", time(capture.from_ns - at_ns)),
        None => format!("{} after power-on", time(capture.from_ns)),
    };
    let gated = match clk {
        Clk::Full => "",
        Clk::Gated => "  CLK is high while the clock runs\n",
    };
    let unit = if unit_ps == 1 { "1 ps" } else { "1 ns" };
    let _ = write!(
        out,
        "$version mmcq {} $end\n$comment\n  time 0 is {begin} (virtual time)\n{}  \
         CPUn_hard, CPUn_soft, CPUn_job1 ...: the core is in a hard or soft interrupt, in this thread; none: idle\n  \
         HELD, if it is there: the engine holds the next start for the tail of a batch\n\
         $end\n$timescale {unit} $end\n$scope module mmcq $end\n",
        env!("CARGO_PKG_VERSION"),
        gated
    );
    for (line, id) in wires {
        let _ = writeln!(out, "$var wire 1 {id} {} $end", name(capture, *line));
    }
    out.push_str("$upscope $end\n$enddefinitions $end\n");
    out
}

/// What is written one change after the other.
struct Body<'a> {
    wires: &'a Wires,
    values: BTreeMap<Line, bool>,
    unit_ps: u64,
    from_ps: u64,
    /// Changes at one time of the file count together: only what a line ends with is written.
    at: u64,
    now: BTreeMap<Line, bool>,
}

impl Body<'_> {
    fn begin(&mut self, changes: &[Change], out: &mut dyn Write) -> io::Result<()> {
        self.values = self.wires.keys().map(|line| (*line, false)).collect();
        self.values.extend(changes.iter().map(|change| (change.line, change.value)));
        out.write_all(b"#0\n$dumpvars\n")?;
        for (line, value) in &self.values {
            put(&self.wires[line], *value, out)?;
        }
        out.write_all(b"$end\n")
    }

    fn change(&mut self, at_ps: u64, change: &Change, out: &mut dyn Write) -> io::Result<()> {
        let at = at_ps / self.unit_ps - self.from_ps / self.unit_ps;
        if at != self.at {
            self.flush(out)?;
            self.at = at;
        }
        self.now.insert(change.line, change.value);
        Ok(())
    }

    fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let values = &mut self.values;
        self.now.retain(|line, value| values.insert(*line, *value) != Some(*value));
        if !self.now.is_empty() {
            writeln!(out, "#{}", self.at)?;
        }
        for (line, value) in std::mem::take(&mut self.now) {
            put(&self.wires[&line], value, out)?;
        }
        Ok(())
    }

    fn end(mut self, until_ps: u64, out: &mut dyn Write) -> io::Result<()> {
        self.flush(out)?;
        writeln!(out, "#{}", (until_ps - self.from_ps) / self.unit_ps)
    }
}

fn put(id: &str, value: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}{id}", u8::from(value))
}
