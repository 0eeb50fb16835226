//! Draws the changes of every line, bit by bit: tokens with CRC7, blocks with start bit, data,
//! CRC16 on each line and end bit, CRC status, busy [SD 4.3, 4.5, 4.12].
//!
//! At one data rate, a bit lasts from the start of its cycle to the start of the next. At two data
//! rates, a line carries two streams, each with its own CRC16: one is sampled by rising edges, one
//! by falling edges. Odd bytes (the first, third ...) are sampled by rising edges [eMMC 6.15.4].

use super::capture::{Capture, Event, What};
use super::crc::{Crc16, crc7};
use super::grid::{Anchor, Grid, Place};
use mmcq_sim::card::Answer;
use mmcq_sim::cpu::{Context, Span};

/// Line of a waveform: a line of the bus, the controller's interrupt line, or a state of mmcq's
/// engine or of a CPU core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    Clk,
    Cmd,
    Dat(u8),
    Irq,
    /// High while mmcq's engine delays the start of a transfer, to wait for further requests that
    /// can join it.
    Held,
    /// High while this core is in a hard interrupt.
    Hard(u8),
    /// High while this core is in deferred work (soft interrupt).
    Deferred(u8),
    /// High while this core runs this thread.
    Thread(u8, u32),
}

impl Line {
    /// Returns the line that is high while this core is in this context.
    pub(super) fn of(core: u8, context: Context) -> Line {
        match context {
            Context::Hard => Line::Hard(core),
            Context::Deferred => Line::Deferred(core),
            Context::Thread(thread) => Line::Thread(core, thread.0),
        }
    }
}

/// Change of a line of the waveform to a new value at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub at_ps: u64,
    pub line: Line,
    pub value: bool,
}

/// Smallest number of clocks for which DAT0 is high between the end of busy and a start bit. For as
/// many clocks after data, an I/O card may not pull DAT1 low for its interrupt.
const RELEASE_CLK: u64 = 2;

/// How a waveform shows the bus clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clk {
    /// Writes each edge of the clock, which a decoder needs.
    #[default]
    Full,
    /// Writes only a signal that is high while the bus clock runs: a hundred times fewer changes
    /// than with each edge.
    Gated,
}

/// Returns all changes in the window, sorted by time. The changes at the window's start give the
/// first values of the lines. `lines`: number of data lines to draw.
pub(super) fn changes(capture: &Capture, lines: u8, clk: Clk) -> Vec<Change> {
    let grid = Grid::new(capture);
    let mut out = Vec::new();
    levels(capture, lines, &mut out);
    for place in &grid.places {
        let event = &capture.events[place.event];
        let limit_ps = limit_ps(&grid, place, event);
        let mut pen = Pen { anchor: &grid.anchors[place.anchor], place, limit_ps, out: &mut out };
        match &event.what {
            What::Command { index, arg, .. } => pen.token(&command_bits(*index, *arg), Line::Cmd),
            What::Response { answer, crc_ok, end_ok, .. } => {
                pen.token(&response_bits(answer, *crc_ok, *end_ok), Line::Cmd)
            }
            What::Block { data, crc_ok, width, ddr, .. } => pen.block(data, *crc_ok, *width, *ddr),
            What::CrcStatus { good } => {
                let bits =
                    if *good { [false, false, true, false, true] } else { [false, true, false, true, true] };
                pen.token(&bits, Line::Dat(0));
            }
            What::Busy | What::ClockStopped => {}
        }
    }
    busy(capture, &grid, &mut out);
    asking(capture, &grid, &mut out);
    for (at_ns, level) in &capture.interrupts {
        out.push(Change { at_ps: at_ns * 1_000, line: Line::Irq, value: *level });
    }
    for held in &capture.holds {
        let from_ns = held.from_ns.max(capture.from_ns);
        for (at_ns, value) in [(from_ns, true), (held.to_ns, false)] {
            out.push(Change { at_ps: at_ns * 1_000, line: Line::Held, value });
        }
    }
    for core in 0..capture.cores as u8 {
        contexts(capture, core, &mut out);
    }
    match clk {
        Clk::Full => edges(capture, &grid, &mut out),
        Clk::Gated => running(capture, &grid, &mut out),
    }
    out.sort_by_key(|change| change.at_ps);
    out
}

/// Returns the time in ps up to which bits of a token or block may be drawn: to an abort, or to the
/// next change of the clock, whichever is first; [`u64::MAX`] if neither comes.
fn limit_ps(grid: &Grid, place: &Place, event: &Event) -> u64 {
    let cut_ps =
        if matches!(event.what, What::Block { cut: true, .. }) { event.end_ns * 1_000 } else { u64::MAX };
    grid.anchors.get(place.anchor + 1).map_or(cut_ps, |next| cut_ps.min(next.at_ps + 1_500))
}

/// Draws the idle level of lines: pulled up while the card has power, but low in a voltage switch
/// while the clock is stopped.
fn levels(capture: &Capture, lines: u8, out: &mut Vec<Change>) {
    for (at_ns, bus, low) in &capture.bus {
        let value = bus.powered && !(*low && bus.clock_hz == 0);
        let at_ps = (*at_ns).max(capture.from_ns) * 1_000;
        for line in (0..lines).map(Line::Dat).chain([Line::Cmd]) {
            out.push(Change { at_ps, line, value });
        }
    }
}

fn bits_of(bytes: &[u8]) -> Vec<bool> {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1 == 1)).collect()
}

fn short(first: u8, content: u32, crc: Option<u8>, end: bool) -> Vec<bool> {
    let mut bytes = [first, 0, 0, 0, 0, 0xff];
    bytes[1..5].copy_from_slice(&content.to_be_bytes());
    bytes[5] = crc.unwrap_or(0x7f) << 1 | u8::from(end);
    bits_of(&bytes)
}

fn crc_of(first: u8, content: u32) -> u8 {
    let [a, b, c, d] = content.to_be_bytes();
    crc7(&[first, a, b, c, d])
}

fn command_bits(index: u8, arg: u32) -> Vec<bool> {
    let first = 0x40 | index & 0x3f;
    short(first, arg, Some(crc_of(first, arg)), true)
}

fn response_bits(answer: &Answer, crc_ok: bool, end_ok: bool) -> Vec<bool> {
    let damage = u8::from(!crc_ok);
    match *answer {
        Answer::Short { index, content, crc } => {
            let first = index & 0x3f;
            let crc = crc.then(|| crc_of(first, content) ^ damage);
            short(first, content, crc, end_ok)
        }
        Answer::Long(mut bytes) => {
            // The register's last byte contains its CRC7 [SD 4.9.3].
            bytes[15] ^= damage << 1 | u8::from(!end_ok);
            let mut bits = bits_of(&[0x3f]);
            bits.extend(bits_of(&bytes));
            bits
        }
    }
}

/// Draws the bits of one token or block.
struct Pen<'a> {
    anchor: &'a Anchor,
    place: &'a Place,
    limit_ps: u64,
    out: &'a mut Vec<Change>,
}

impl Pen<'_> {
    /// Draws bits on a line at one data rate, the first bit at the start of the first cycle. After
    /// the last bit, the line is high.
    fn bits(&mut self, bits: impl Iterator<Item = bool>, line: Line) {
        let mut last = None;
        let mut at_ps = self.anchor.cycle_ps(self.place.cycle);
        let part = bits.skip(self.place.before as usize).take(self.place.cycles as usize);
        for (n, bit) in (self.place.cycle..).zip(part) {
            at_ps = self.anchor.cycle_ps(n);
            if at_ps >= self.limit_ps {
                break;
            }
            if last.replace(bit) != Some(bit) {
                self.out.push(Change { at_ps, line, value: bit });
            }
            at_ps = self.anchor.cycle_ps(n + 1);
        }
        // While the clock is stopped, the line keeps its level.
        if !self.place.goes_on {
            self.out.push(Change { at_ps: at_ps.min(self.limit_ps), line, value: true });
        }
    }

    fn token(&mut self, bits: &[bool], line: Line) {
        self.bits(bits.iter().copied(), line);
    }

    fn block(&mut self, data: &[u8], crc_ok: bool, width: u8, ddr: bool) {
        for line in 0..width {
            // A damaged block has its error on DAT0.
            let damage = u16::from(!crc_ok && line == 0);
            if ddr {
                let edge = |first: usize| {
                    let half: Vec<u8> = data.iter().copied().skip(first).step_by(2).collect();
                    framed(&half, line, width, damage)
                };
                self.double(&edge(0), &edge(1), Line::Dat(line));
            } else {
                self.bits(framed(data, line, width, damage).into_iter(), Line::Dat(line));
            }
        }
    }

    /// Draws a block's two streams of bits on a line. A bit for the rising edge lasts from the
    /// first to the third quarter of the cycle; the bit for the falling edge follows.
    fn double(&mut self, rising: &[bool], falling: &[bool], line: Line) {
        let mut last = None;
        let mut quarter = self.place.cycle * 4 + 1;
        for (rise, fall) in rising.iter().zip(falling) {
            for bit in [rise, fall] {
                let at_ps = self.anchor.quarter_ps(quarter);
                if at_ps < self.limit_ps && last.replace(*bit) != Some(*bit) {
                    self.out.push(Change { at_ps, line, value: *bit });
                }
                quarter += 2;
            }
        }
        self.out.push(Change {
            at_ps: self.anchor.quarter_ps(quarter).min(self.limit_ps),
            line,
            value: true,
        });
    }
}

/// Returns the bits of a block on data line number `line` of a bus of `width` lines: start bit,
/// data, CRC16, end bit. On 8 lines a byte is sent at once. On 4 lines it is sent in two halves,
/// the upper half first. On one line it is sent bit by bit, the top bit first [SD 3.6.1]. `damage`:
/// mask of the CRC's bits that are inverted, 0 for a right CRC.
fn framed(data: &[u8], line: u8, width: u8, damage: u16) -> Vec<bool> {
    let mut bits = Vec::with_capacity(data.len() * 8 / usize::from(width.max(1)) + 18);
    let mut crc = Crc16::default();
    bits.push(false);
    for byte in data {
        for n in (0..8u8).rev().filter(|n| n % width.max(1) == line) {
            let bit = byte >> n & 1 == 1;
            crc.shift(bit);
            bits.push(bit);
        }
    }
    let crc = crc.value() ^ damage;
    bits.extend((0..16).rev().map(|n| crc >> n & 1 == 1));
    bits.push(true);
    bits
}

/// Draws DAT0 low while the card is busy, where no block or token is on the line.
fn busy(capture: &Capture, grid: &Grid, out: &mut Vec<Change>) {
    let mut tokens = grid.places.iter().filter_map(|place| {
        let event = &capture.events[place.event];
        let on_dat0 = matches!(event.what, What::Block { .. } | What::CrcStatus { .. });
        let anchor = &grid.anchors[place.anchor];
        let from_ps = anchor.cycle_ps(place.cycle.saturating_sub(RELEASE_CLK));
        on_dat0.then(|| (from_ps, anchor.cycle_ps(place.cycle + place.cycles)))
    });
    let mut taken = tokens.next();
    let mut low: Option<(u64, u64)> = None;
    let end_ps = capture.until_ns * 1_000;
    let mut draw = |(from_ps, to_ps): (u64, u64)| {
        let mut from_ps = from_ps.max(capture.from_ns * 1_000);
        while from_ps < to_ps {
            while taken.is_some_and(|(_, until)| until <= from_ps) {
                taken = tokens.next();
            }
            let (stop_ps, next_ps) = taken.map_or((to_ps, to_ps), |(from, until)| (from.min(to_ps), until));
            if from_ps < stop_ps {
                out.push(Change { at_ps: from_ps, line: Line::Dat(0), value: false });
                out.push(Change { at_ps: stop_ps, line: Line::Dat(0), value: true });
            }
            from_ps = next_ps.max(stop_ps);
        }
    };
    for event in capture.events.iter().filter(|e| e.what == What::Busy) {
        let (from_ps, to_ps) = (event.start_ns * 1_000, event.end_ns.saturating_mul(1_000).min(end_ps));
        low = match low {
            Some((from, to)) if from_ps <= to => Some((from, to.max(to_ps))),
            Some(whole) => {
                draw(whole);
                Some((from_ps, to_ps))
            }
            None => Some((from_ps, to_ps)),
        };
    }
    if let Some(whole) = low {
        draw(whole);
    }
}

/// Draws DAT1 low while an I/O card interrupts. With four data lines, the card must release DAT1
/// from the end of a command with data until two clocks after the data [SDIO 8.1.2].
fn asking(capture: &Capture, grid: &Grid, out: &mut Vec<Change>) {
    let (mut taken, mut command_ps): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
    for place in &grid.places {
        let anchor = &grid.anchors[place.anchor];
        let end_ps = |more| anchor.cycle_ps(place.cycle + place.cycles + more);
        match capture.events[place.event].what {
            What::Command { .. } => command_ps = end_ps(0),
            What::Block { width: 4.., .. } => taken.push((command_ps, end_ps(RELEASE_CLK))),
            _ => {}
        }
    }
    let ends = capture.card_irqs.iter().skip(1).map(|i| i.0).chain([capture.until_ns]);
    for ((from_ns, _), to_ns) in capture.card_irqs.iter().zip(ends).filter(|((_, low), _)| *low) {
        let (mut from_ps, to_ps) = ((*from_ns).max(capture.from_ns) * 1_000, to_ns * 1_000);
        let mut low = |from_ps, to_ps| {
            if from_ps < to_ps {
                out.push(Change { at_ps: from_ps, line: Line::Dat(1), value: false });
                out.push(Change { at_ps: to_ps, line: Line::Dat(1), value: true });
            }
        };
        for &(data_ps, free_ps) in taken.iter().filter(|(from, _)| *from < to_ps) {
            low(from_ps, data_ps.min(to_ps));
            from_ps = from_ps.max(free_ps);
        }
        low(from_ps, to_ps);
    }
}

/// Draws the edges of the bus clock. While the controller stops the clock, and no token needs it,
/// the clock stays low.
fn edges(capture: &Capture, grid: &Grid, out: &mut Vec<Change>) {
    let held: Vec<(u64, u64)> = capture
        .events
        .iter()
        .filter(|e| e.what == What::ClockStopped)
        .map(|e| (e.start_ns * 1_000, e.end_ns * 1_000))
        .collect();
    let mut used: Vec<(u64, u64)> = grid
        .places
        .iter()
        .map(|p| {
            let anchor = &grid.anchors[p.anchor];
            (anchor.cycle_ps(p.cycle), anchor.cycle_ps(p.cycle + p.cycles))
        })
        .collect();
    used.sort_unstable();
    let (mut h, mut u, mut used_until) = (0, 0, 0);
    out.push(Change { at_ps: capture.from_ns * 1_000, line: Line::Clk, value: false });
    for anchor in &grid.anchors {
        for cycle in 0..anchor.cycles {
            let (from, to) = (anchor.cycle_ps(cycle), anchor.cycle_ps(cycle + 1));
            while held.get(h).is_some_and(|held| held.1 < to) {
                h += 1;
            }
            while let Some(next) = used.get(u).filter(|next| next.0 < to) {
                used_until = used_until.max(next.1);
                u += 1;
            }
            if held.get(h).is_some_and(|held| held.0 <= from) && used_until <= from {
                continue;
            }
            out.push(Change { at_ps: anchor.quarter_ps(cycle * 4 + 2), line: Line::Clk, value: true });
            out.push(Change { at_ps: to, line: Line::Clk, value: false });
        }
    }
}

/// Draws the signal that is high while the bus clock runs.
fn running(capture: &Capture, grid: &Grid, out: &mut Vec<Change>) {
    let mut put = |at_ps, value| out.push(Change { at_ps, line: Line::Clk, value });
    put(capture.from_ns * 1_000, false);
    for anchor in &grid.anchors {
        put(anchor.at_ps, anchor.hz > 0);
    }
    for event in capture.events.iter().filter(|event| event.what == What::ClockStopped) {
        put(event.start_ns.max(capture.from_ns) * 1_000, false);
        put(event.end_ns * 1_000, true);
    }
}

/// Draws the contexts of a CPU core. Where contexts overlap, only the most urgent is drawn.
fn contexts(capture: &Capture, core: u8, out: &mut Vec<Change>) {
    let mut last = None;
    for (at_ns, context) in flat(capture, core) {
        let at_ps = at_ns * 1_000;
        let ends = std::mem::replace(&mut last, context).map(|context| (context, false));
        let begins = context.map(|context| (context, true));
        for (context, value) in [ends, begins].into_iter().flatten() {
            out.push(Change { at_ps, line: Line::of(core, context), value });
        }
    }
}

/// Returns the consecutive contexts of a core, each with its start in ns; `None` stands for idle.
/// The first entry is the context at the window's start.
pub(super) fn flat(capture: &Capture, core: u8) -> Vec<(u64, Option<Context>)> {
    let mut edges: Vec<(u64, bool, &Span)> = Vec::new();
    for span in capture.spans.iter().filter(|s| s.core == core) {
        edges.push((span.from_ns.max(capture.from_ns), true, span));
        edges.push((span.to_ns.min(capture.until_ns), false, span));
    }
    // At the same time, ends come before begins.
    edges.sort_by_key(|(at_ns, begins, _)| (*at_ns, *begins));
    let (mut hard, mut deferred, mut threads) = (0u32, 0u32, Vec::new());
    let mut out = vec![(capture.from_ns, None)];
    for (at_ns, begins, span) in edges {
        match (span.context, begins) {
            (Context::Hard, true) => hard += 1,
            (Context::Hard, false) => hard -= 1,
            (Context::Deferred, true) => deferred += 1,
            (Context::Deferred, false) => deferred -= 1,
            (Context::Thread(thread), true) => threads.push(thread),
            (Context::Thread(thread), false) => {
                if let Some(at) = threads.iter().position(|t| *t == thread) {
                    threads.remove(at);
                }
            }
        }
        let now = if hard > 0 {
            Some(Context::Hard)
        } else if deferred > 0 {
            Some(Context::Deferred)
        } else {
            threads.last().copied().map(Context::Thread)
        };
        match out.last_mut() {
            Some(last) if last.0 == at_ns => last.1 = now,
            Some(last) if last.1 == now => {}
            _ => out.push((at_ns, now)),
        }
    }
    out.dedup_by(|b, a| a.1 == b.1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bits: &[bool]) -> u64 {
        bits.iter().fold(0, |n, bit| n << 1 | u64::from(*bit))
    }

    #[test]
    fn tokens_as_in_the_standard() {
        // Example of [SD 4.5].
        assert_eq!(number(&command_bits(0, 0)), 0x4000_0000_0095);
        assert_eq!(number(&command_bits(17, 0)), 0x5100_0000_0055);
        let r1 = Answer::Short { index: 17, content: 0x900, crc: true };
        assert_eq!(number(&response_bits(&r1, true, true)), 0x1100_0009_0067);
        let r3 = Answer::Short { index: 0x3f, content: 0x80ff_8000, crc: false };
        assert_eq!(number(&response_bits(&r3, true, true)), 0x3f80_ff80_00ff);
        assert_eq!(number(&response_bits(&r1, false, false)), 0x1100_0009_0064);
    }

    #[test]
    fn a_byte_on_one_four_and_eight_lines() {
        let body = |line, width| {
            let bits = framed(&[0xa5, 0x0f], line, width, 0);
            assert!(!bits[0] && bits[bits.len() - 1]);
            bits[1..bits.len() - 17].to_vec()
        };
        assert_eq!(number(&body(0, 1)), 0xa50f);
        // Byte 1010 0101 0000 1111 of the data: DAT3 carries the top bit of each half byte.
        assert_eq!([3, 2, 1, 0].map(|l| number(&body(l, 4))), [0b1001, 0b0101, 0b1001, 0b0101]);
        assert_eq!([7, 6, 0].map(|l| number(&body(l, 8))), [0b10, 0b00, 0b11]);
    }

    #[test]
    fn the_crc_of_a_line_is_that_of_its_own_bits() {
        let bits = framed(&[0xff; 512], 0, 1, 0);
        assert_eq!(number(&bits[4097..4113]), 0x7fa1);
        assert_eq!(number(&framed(&[0xff; 512], 0, 1, 1)[4097..4113]), 0x7fa0);
    }
}
