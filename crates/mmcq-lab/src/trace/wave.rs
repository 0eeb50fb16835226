//! A waveform in any format: its header, and the changes of its lines, part by part.
//!
//! Every signal is one bit wide, since common readers refuse or drop wider ones. So a CPU core has
//! one line for each context that it was in.

use super::capture::{Capture, PART_NS};
use super::lines::{self, Change, Clk, Line};
use super::steps::thread_name;
use super::window::{WindowError, time};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Header of a waveform: ends of the window, unit of time, and names of the lines.
#[derive(Clone, Debug)]
pub struct Head {
    begin_ns: Option<u64>,
    end_ns: u64,
    work_ns: Option<u64>,
    cores: usize,
    jobs: u32,
    threads: Vec<&'static str>,
    /// Number of data lines (DAT0, DAT1 and so on) that are drawn.
    dat_lines: u8,
    /// Lines that the window (the recorded part of a run) needs in addition to the bus and the
    /// interrupt: one for each context of a CPU core (such as a thread), and one for starts of
    /// transfers that the engine held back.
    lines: BTreeSet<Line>,
    clocks_hz: BTreeSet<u32>,
    ddr: bool,
    /// Number of cycles of the bus clock in the window.
    cycles: u64,
}

impl Head {
    pub(super) fn new() -> Self {
        Head {
            begin_ns: None,
            end_ns: 0,
            work_ns: None,
            cores: 0,
            jobs: 0,
            threads: Vec::new(),
            dat_lines: 4,
            lines: BTreeSet::new(),
            clocks_hz: BTreeSet::new(),
            ddr: false,
            cycles: 0,
        }
    }

    /// Makes the header of the waveform of a captured window.
    pub fn of(capture: &Capture) -> Self {
        let mut head = Head::new();
        capture.parts(PART_NS).into_iter().for_each(|part| head.add(&capture.part(part)));
        head
    }

    pub(super) fn add(&mut self, part: &Capture) {
        self.begin_ns.get_or_insert(part.from_ns);
        self.end_ns = part.until_ns;
        (self.work_ns, self.cores, self.jobs) = (part.work_ns, part.cores, part.jobs);
        self.threads.clone_from(&part.threads);
        if part.emmc || part.bus.iter().any(|bus| bus.1.width == 8) {
            self.dat_lines = 8;
        }
        let spans = part.spans.iter().filter(|span| usize::from(span.core) < part.cores);
        self.lines.extend(spans.map(|span| Line::of(span.core, span.context)));
        self.lines.extend(part.holds.first().map(|_| Line::Held));
        self.clocks_hz.extend(part.bus.iter().map(|bus| bus.1.clock_hz));
        self.ddr |= part.bus.iter().any(|bus| bus.1.ddr);
        let ends = part.bus.iter().skip(1).map(|bus| bus.0).chain([part.until_ns]);
        let cycles = part.bus.iter().zip(ends).map(|((from_ns, bus, _), until_ns)| {
            let length_ns = until_ns.saturating_sub((*from_ns).max(part.from_ns));
            u128::from(length_ns) * u128::from(bus.clock_hz) / 1_000_000_000
        });
        self.cycles = self.cycles.saturating_add(u64::try_from(cycles.sum::<u128>()).unwrap_or(u64::MAX));
    }

    /// Checks that the window is short enough to write each edge of the clock, if `clk` asks for
    /// that.
    ///
    /// # Errors
    /// The window has more than `most` clock cycles.
    pub fn fits(&self, clk: Clk, most: u64) -> Result<(), WindowError> {
        if clk == Clk::Full && self.cycles > most {
            let length_ns = self.end_ns - self.begin_ns.unwrap_or(0);
            return Err(WindowError::TooLong { length_ns, cycles: self.cycles, most });
        }
        Ok(())
    }

    /// Returns the unit of time of the file in ps: 1 ns if all edges are at whole nanoseconds,
    /// otherwise 1 ps.
    pub(super) fn unit_ps(&self) -> u64 {
        let quarters = if self.ddr { 4 } else { 2 };
        let whole = |hz: &u32| *hz == 0 || 1_000_000_000 % (u64::from(*hz) * quarters) == 0;
        if self.clocks_hz.iter().all(whole) { 1_000 } else { 1 }
    }

    /// Returns all signals of the waveform ([`Line`]), in the order in which the file declares
    /// them.
    pub(super) fn lines(&self) -> Vec<Line> {
        let bus = [Line::Clk, Line::Cmd, Line::Irq].into_iter().chain((0..self.dat_lines).map(Line::Dat));
        let cores = (0..self.cores as u8).flat_map(|core| [Line::Hard(core), Line::Deferred(core)]);
        let all: BTreeSet<Line> = bus.chain(cores).chain(self.lines.iter().copied()).collect();
        all.into_iter().collect()
    }

    pub(super) fn name(&self, line: Line) -> String {
        match line {
            Line::Clk => "CLK".to_owned(),
            Line::Cmd => "CMD".to_owned(),
            Line::Dat(n) => format!("DAT{n}"),
            Line::Irq => "IRQ".to_owned(),
            Line::Held => "HELD".to_owned(),
            Line::Hard(core) => format!("CPU{core}_hard"),
            Line::Deferred(core) => format!("CPU{core}_soft"),
            Line::Thread(core, thread) => {
                format!("CPU{core}_{}", thread_name(&self.threads, self.jobs, thread).replace(' ', ""))
            }
        }
    }

    /// Returns a readable text that says what time 0 is.
    pub(super) fn begin(&self) -> String {
        let from_ns = self.begin_ns.unwrap_or(0);
        match self.work_ns.filter(|at| *at <= from_ns) {
            Some(at_ns) => format!("{} after the jobs began", time(from_ns - at_ns)),
            None => format!("{} after power-on", time(from_ns)),
        }
    }
}

/// Writer of a waveform's file format. Times are in the file's units from the start of the window,
/// and increase with each call.
pub(super) trait Format {
    /// Writes the new values of lines that change at time `at` (in the file's units). Each line is
    /// named by its index in [`Head::lines`]; at time 0 all lines have values.
    fn values(&mut self, at: u64, values: &[(usize, bool)]) -> io::Result<()>;
    /// Completes the file; the lines keep their values until the time `at`.
    fn end(&mut self, at: u64) -> io::Result<()>;
}

/// A waveform that is being written to a file.
pub(super) struct Wave {
    clk: Clk,
    dat_lines: u8,
    from_ps: u64,
    until_ps: u64,
    unit_ps: u64,
    places: BTreeMap<Line, usize>,
    /// Present value of each line, by its index in [`Head::lines`]; empty before the first part.
    values: Vec<bool>,
    /// Time in file units for which changes are being collected. If a line changes several times at
    /// one time, only its last value is written.
    at: u64,
    now: BTreeMap<usize, bool>,
    format: Box<dyn Format>,
}

impl Wave {
    pub(super) fn new(head: &Head, clk: Clk, format: Box<dyn Format>) -> Self {
        Wave {
            clk,
            dat_lines: head.dat_lines,
            from_ps: head.begin_ns.unwrap_or(0) * 1_000,
            until_ps: head.end_ns * 1_000,
            unit_ps: head.unit_ps(),
            places: head.lines().into_iter().zip(0..).collect(),
            values: Vec::new(),
            at: 0,
            now: BTreeMap::new(),
            format,
        }
    }

    /// Draws the next part of the window (the recorded part of a run) into the file.
    pub(super) fn part(&mut self, part: &Capture) -> io::Result<()> {
        let changes = lines::changes(part, self.dat_lines, self.clk);
        let (from_ps, until_ps) = (part.from_ns * 1_000, part.until_ns * 1_000);
        let begin = changes.partition_point(|change| change.at_ps <= from_ps);
        if self.values.is_empty() {
            self.values = vec![false; self.places.len()];
            for change in &changes[..begin] {
                if let Some(place) = self.places.get(&change.line) {
                    self.values[*place] = change.value;
                }
            }
            let all: Vec<(usize, bool)> = self.values.iter().copied().enumerate().collect();
            self.format.values(0, &all)?;
        } else {
            changes[..begin].iter().try_for_each(|change| self.change(from_ps, change))?;
        }
        let mut rest = changes[begin..].iter().take_while(|change| change.at_ps <= until_ps);
        rest.try_for_each(|change| self.change(change.at_ps, change))
    }

    fn change(&mut self, at_ps: u64, change: &Change) -> io::Result<()> {
        let at = at_ps / self.unit_ps - self.from_ps / self.unit_ps;
        if at != self.at {
            self.flush()?;
            self.at = at;
        }
        if let Some(place) = self.places.get(&change.line) {
            self.now.insert(*place, change.value);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let values = &mut self.values;
        self.now.retain(|place, value| std::mem::replace(&mut values[*place], *value) != *value);
        if !self.now.is_empty() {
            let now: Vec<(usize, bool)> = std::mem::take(&mut self.now).into_iter().collect();
            self.format.values(self.at, &now)?;
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        self.format.end((self.until_ps - self.from_ps) / self.unit_ps)
    }

    /// Draws a whole stored window into the file, and completes the file.
    pub(super) fn whole(mut self, capture: &Capture) -> io::Result<()> {
        capture.parts(PART_NS).into_iter().try_for_each(|part| self.part(&capture.part(part)))?;
        self.end()
    }
}
