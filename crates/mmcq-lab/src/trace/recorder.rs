//! Keeps what lies in the window, and forgets the rest while the run goes on.

use super::window::{Start, Window, WindowError};
use crate::system::{Held, Io};
use mmcq::host::Direction;
use mmcq_sim::card::{Answer, BusState};
use mmcq_sim::cpu::Span;
use mmcq_sim::probe::Signal;

/// Recorded beyond the end of the window, so that what lies across it is complete: longer than a
/// block on one line at 400 kHz.
const SLACK_NS: u64 = 20_000_000;
/// How many records come between two clean-ups.
const CLEAN_EVERY: u32 = 4096;

/// What was on a line.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A command token.
    Command {
        /// Its index.
        index: u8,
        /// Its argument.
        arg: u32,
        /// The controller sent it by itself.
        auto: bool,
        /// It follows CMD55.
        app: bool,
    },
    /// A response token.
    Response {
        /// Index of the command.
        command: u8,
        /// Its content.
        answer: Answer,
        /// Its CRC7 is right.
        crc_ok: bool,
        /// Its end bit is right.
        end_ok: bool,
    },
    /// A data block.
    Block {
        /// From the card.
        read: bool,
        /// Its content.
        data: Vec<u8>,
        /// Its CRC16 are right.
        crc_ok: bool,
        /// An abort command cut it off.
        cut: bool,
        /// Lines in use.
        width: u8,
        /// Data on both edges.
        ddr: bool,
    },
    /// A CRC status token.
    CrcStatus {
        /// 010.
        good: bool,
    },
    /// DAT0 held low.
    Busy,
    /// The clock stood.
    ClockStopped,
}

/// Something on the lines from here to there.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Start bit, or beginning.
    pub start_ns: u64,
    /// End bit, or end.
    pub end_ns: u64,
    /// What.
    pub what: What,
}

impl Event {
    /// A token or block: it has bits.
    pub fn has_bits(&self) -> bool {
        !matches!(self.what, What::Busy | What::ClockStopped)
    }
}

/// An I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What was asked.
    pub io: Io,
    /// When.
    pub submitted_ns: u64,
    /// When it was complete, and whether well; `None`: not in the run recorded.
    pub done: Option<(u64, bool)>,
}

impl Request {
    /// For people: `read 8 at 4096`.
    pub fn label(&self) -> String {
        match self.io {
            Io { blocks: 0, .. } => "flush".to_owned(),
            Io { direction: Direction::Read, lba, blocks, .. } => format!("read {blocks} at {lba}"),
            Io { direction: Direction::Write, lba, blocks, .. } => format!("write {blocks} at {lba}"),
        }
    }
}

/// A recorded window. All times are absolute; what lies across its ends is whole.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
    /// When the jobs began.
    pub work_ns: Option<u64>,
    /// The trigger.
    pub start: Start,
    /// When it came.
    pub start_ns: u64,
    /// The card is an eMMC.
    pub emmc: bool,
    /// Cores of the machine.
    pub cores: usize,
    /// Jobs: threads of the first numbers.
    pub jobs: u32,
    /// Names of the first threads, on a machine without jobs.
    pub threads: Vec<&'static str>,
    /// How the bus was driven from when on, and whether the card held the lines low; the first is
    /// in force at the begin.
    pub bus: Vec<(u64, BusState, bool)>,
    /// The interrupt line, the first in force at the begin.
    pub interrupts: Vec<(u64, bool)>,
    /// The card asks for attention by DAT1, the first in force at the begin.
    pub card_irqs: Vec<(u64, bool)>,
    /// What was on the lines, by its start.
    pub events: Vec<Event>,
    /// What the cores did.
    pub spans: Vec<Span>,
    /// Starts that our engine held for the tail of a batch.
    pub holds: Vec<Held>,
    /// I/Os.
    pub requests: Vec<Request>,
}

pub(super) struct Recorder {
    window: Window,
    pub(super) attached: bool,
    /// The beginning of the window, once it is known.
    start_ns: Option<u64>,
    work_ns: Option<u64>,
    /// How often the trigger came.
    came: u64,
    last_ns: u64,
    since_clean: u32,
    app: bool,
    got: Capture,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new(Window { start: Start::BringUp, before_ns: 0, for_ns: None })
    }
}

impl Recorder {
    pub(super) fn new(window: Window) -> Self {
        Recorder {
            window,
            attached: false,
            start_ns: (window.start == Start::BringUp).then_some(0),
            work_ns: None,
            came: 0,
            last_ns: 0,
            since_clean: 0,
            app: false,
            got: Capture {
                from_ns: 0,
                until_ns: 0,
                work_ns: None,
                start: window.start,
                start_ns: 0,
                emmc: false,
                cores: 0,
                jobs: 0,
                threads: Vec::new(),
                bus: vec![(0, BusState { width: 1, ..BusState::default() }, false)],
                interrupts: vec![(0, false)],
                card_irqs: vec![(0, false)],
                events: Vec::new(),
                spans: Vec::new(),
                holds: Vec::new(),
                requests: Vec::new(),
            },
        }
    }

    pub(super) fn work_begins(&mut self, now_ns: u64, cores: usize, jobs: u32) {
        self.work_ns.get_or_insert(now_ns);
        (self.got.cores, self.got.jobs) = (cores, jobs);
        if let Start::At(ns) = self.window.start {
            self.start_ns = Some(now_ns.saturating_add(ns));
        }
        self.last_ns = self.last_ns.max(now_ns);
    }

    fn trigger(&mut self, at_ns: u64) {
        self.came += 1;
        let n = match self.window.start {
            Start::Command { n, .. } | Start::Interrupt { n } | Start::CardInterrupt { n } => n,
            _ => return,
        };
        if self.came == n {
            self.start_ns = Some(at_ns);
        }
    }

    /// The window's end; unknown before its beginning is known.
    fn end_ns(&self) -> u64 {
        let Some(start_ns) = self.start_ns else { return u64::MAX };
        match (self.window.for_ns, self.window.start) {
            (Some(ns), _) => start_ns.saturating_add(ns),
            (None, Start::BringUp) => self.work_ns.unwrap_or(u64::MAX),
            (None, _) => start_ns.saturating_add(Window::LENGTH_NS),
        }
    }

    /// Is something from here to there of interest?
    fn wants(&mut self, from_ns: u64, to_ns: u64) -> bool {
        if to_ns != u64::MAX {
            self.last_ns = self.last_ns.max(to_ns);
        }
        self.since_clean += 1;
        if self.since_clean >= CLEAN_EVERY {
            self.since_clean = 0;
            self.clean();
        }
        from_ns <= self.end_ns().saturating_add(SLACK_NS)
    }

    /// Nothing that ended before this will be in the window.
    fn horizon_ns(&self) -> u64 {
        self.start_ns.unwrap_or(self.last_ns).saturating_sub(self.window.before_ns).saturating_sub(SLACK_NS)
    }

    fn clean(&mut self) {
        let horizon_ns = self.horizon_ns();
        let got = &mut self.got;
        got.events.retain(|e| e.end_ns >= horizon_ns);
        got.spans.retain(|s| s.to_ns >= horizon_ns);
        got.holds.retain(|held| held.to_ns >= horizon_ns);
        got.requests.retain(|r| r.done.is_none_or(|(at_ns, _)| at_ns >= horizon_ns));
        forget(&mut got.bus, horizon_ns, |b| b.0);
        forget(&mut got.interrupts, horizon_ns, |i| i.0);
        forget(&mut got.card_irqs, horizon_ns, |i| i.0);
    }

    pub(super) fn signal(&mut self, signal: &Signal<'_>) {
        let (start_ns, end_ns, what) = match *signal {
            Signal::Bus { at_ns, bus, low } => {
                if self.wants(at_ns, at_ns) {
                    self.got.bus.push((at_ns, bus, low));
                }
                return;
            }
            Signal::Interrupt { at_ns, level } => {
                if level && self.work_ns.is_some() && matches!(self.window.start, Start::Interrupt { .. }) {
                    self.trigger(at_ns);
                }
                if self.wants(at_ns, at_ns) {
                    self.got.interrupts.push((at_ns, level));
                }
                return;
            }
            Signal::Command { index, arg, auto, start_ns, end_ns } => {
                if matches!(self.window.start, Start::Command { index: i, .. } if i == index) {
                    self.trigger(start_ns);
                }
                let app = std::mem::replace(&mut self.app, index == 55);
                (start_ns, end_ns, What::Command { index, arg, auto, app })
            }
            Signal::Response { command, answer, crc_ok, end_ok, start_ns, end_ns } => {
                self.got.emmc |= command == 1;
                (start_ns, end_ns, What::Response { command, answer, crc_ok, end_ok })
            }
            Signal::Block { read, data, crc_ok, start_ns, end_ns, cut } => {
                if !self.wants(start_ns, end_ns) {
                    return;
                }
                let bus = self.got.bus.last().map(|b| b.1).unwrap_or_default();
                let (width, ddr) = (bus.width, bus.ddr);
                (start_ns, end_ns, What::Block { read, data: data.to_vec(), crc_ok, cut, width, ddr })
            }
            Signal::CrcStatus { good, start_ns, end_ns } => (start_ns, end_ns, What::CrcStatus { good }),
            Signal::Busy { from_ns, until_ns } => (from_ns, until_ns, What::Busy),
            Signal::ClockStopped { from_ns, until_ns } => (from_ns, until_ns, What::ClockStopped),
        };
        if self.wants(start_ns, end_ns) {
            self.got.events.push(Event { start_ns, end_ns, what });
        }
    }

    pub(super) fn card_irq(&mut self, at_ns: u64, low: bool) {
        if low && self.work_ns.is_some() && matches!(self.window.start, Start::CardInterrupt { .. }) {
            self.trigger(at_ns);
        }
        if self.wants(at_ns, at_ns) {
            self.got.card_irqs.push((at_ns, low));
        }
    }

    pub(super) fn threads(&mut self, names: &[&'static str]) {
        self.got.threads = names.to_vec();
    }

    pub(super) fn span(&mut self, span: Span) {
        if self.wants(span.from_ns, span.to_ns) {
            self.got.spans.push(span);
        }
    }

    pub(super) fn held(&mut self, held: Held) {
        if self.wants(held.from_ns, held.to_ns) {
            self.got.holds.push(held);
        }
    }

    pub(super) fn io(&mut self, io: &Io, result: Option<bool>, now_ns: u64) {
        let Some(ok) = result else {
            if self.wants(now_ns, now_ns) {
                self.got.requests.push(Request { io: *io, submitted_ns: now_ns, done: None });
            }
            return;
        };
        self.last_ns = self.last_ns.max(now_ns);
        let same = |r: &&mut Request| r.done.is_none() && (r.io.job, r.io.buffer) == (io.job, io.buffer);
        if let Some(request) = self.got.requests.iter_mut().rev().find(same) {
            request.done = Some((now_ns, ok));
        }
    }

    pub(super) fn capture(self) -> Result<Capture, WindowError> {
        if !self.attached {
            return Err(WindowError::NoProbe);
        }
        let end_ns = self.end_ns();
        let Recorder { window, start_ns, work_ns, came, last_ns, mut got, .. } = self;
        let Some(start_ns) = start_ns else {
            let (Start::Command { n, .. } | Start::Interrupt { n } | Start::CardInterrupt { n }) =
                window.start
            else {
                return Err(WindowError::Outside { from_ns: 0, end_ns: 0 });
            };
            return Err(WindowError::NotSeen { start: window.start, n, came });
        };
        if start_ns >= last_ns {
            let begin_ns = work_ns.unwrap_or(0);
            let (from_ns, end_ns) = (start_ns.saturating_sub(begin_ns), last_ns.saturating_sub(begin_ns));
            return Err(WindowError::Outside { from_ns, end_ns });
        }
        got.events.sort_by_key(|e| e.start_ns);
        let from_ns = start_ns.saturating_sub(window.before_ns);
        (got.from_ns, got.until_ns) = whole(&got.events, from_ns, end_ns.min(last_ns));
        got.drop_the_rest();
        (got.work_ns, got.start_ns) = (work_ns, start_ns);
        Ok(got)
    }
}

impl Capture {
    /// The window ends earlier, but not within a token or block.
    pub fn shorten(&mut self, until_ns: u64) {
        self.until_ns = whole(&self.events, self.from_ns, until_ns.clamp(self.from_ns, self.until_ns)).1;
        self.drop_the_rest();
    }

    /// Parts of about this length, one after the other: no token or block lies across their ends.
    pub(super) fn parts(&self, length_ns: u64) -> Vec<(u64, u64)> {
        let (mut parts, mut from_ns, mut free_ns) = (Vec::new(), self.from_ns, self.from_ns);
        for event in self.events.iter().filter(|event| event.has_bits()) {
            if event.start_ns >= free_ns && event.start_ns - from_ns >= length_ns {
                parts.push((from_ns, event.start_ns));
                from_ns = event.start_ns;
            }
            free_ns = free_ns.max(event.end_ns);
        }
        parts.push((from_ns, self.until_ns));
        parts
    }

    /// What is on the lines and in the cores in a part; without the requests.
    pub(super) fn part(&self, (from_ns, until_ns): (u64, u64)) -> Capture {
        let events = self.events.iter().filter(|e| e.end_ns > from_ns && e.start_ns < until_ns);
        let spans = self.spans.iter().filter(|s| s.to_ns > from_ns && s.from_ns < until_ns);
        let holds = self.holds.iter().filter(|held| held.to_ns > from_ns && held.from_ns < until_ns);
        Capture {
            from_ns,
            until_ns,
            threads: self.threads.clone(),
            bus: within(&self.bus, from_ns, until_ns, |b| b.0),
            interrupts: within(&self.interrupts, from_ns, until_ns, |i| i.0),
            card_irqs: within(&self.card_irqs, from_ns, until_ns, |i| i.0),
            events: events.cloned().collect(),
            spans: spans.copied().collect(),
            holds: holds.copied().collect(),
            requests: Vec::new(),
            ..*self
        }
    }

    /// Forgets what lies outside.
    fn drop_the_rest(&mut self) {
        let (from_ns, until_ns) = (self.from_ns, self.until_ns);
        self.events.retain(|e| e.end_ns > from_ns && e.start_ns < until_ns);
        self.spans.retain(|s| s.to_ns > from_ns && s.from_ns < until_ns);
        self.holds.retain(|held| held.to_ns > from_ns && held.from_ns < until_ns);
        let in_window =
            |r: &Request| r.done.is_none_or(|(at_ns, _)| at_ns > from_ns) && r.submitted_ns < until_ns;
        self.requests.retain(in_window);
        forget(&mut self.bus, from_ns, |b| b.0);
        forget(&mut self.interrupts, from_ns, |i| i.0);
        forget(&mut self.card_irqs, from_ns, |i| i.0);
        self.bus.retain(|b| b.0 < until_ns);
        self.interrupts.retain(|i| i.0 < until_ns);
        self.card_irqs.retain(|i| i.0 < until_ns);
    }
}

/// Moves the ends of a window outwards until no token or block lies across them.
fn whole(events: &[Event], mut from_ns: u64, mut until_ns: u64) -> (u64, u64) {
    for event in events.iter().rev().filter(|e| e.has_bits()) {
        if event.start_ns < from_ns && event.end_ns > from_ns {
            from_ns = event.start_ns;
        }
    }
    for event in events.iter().filter(|e| e.has_bits()) {
        if event.start_ns < until_ns && event.end_ns > until_ns {
            until_ns = event.end_ns;
        }
    }
    (from_ns, until_ns)
}

/// Drops what was superseded by then.
fn forget<T>(changes: &mut Vec<T>, by_ns: u64, at_ns: fn(&T) -> u64) {
    let past = changes.iter().take_while(|change| at_ns(change) <= by_ns).count();
    changes.drain(..past.saturating_sub(1));
}

/// The changes of a part, the first in force at its begin.
fn within<T: Copy>(changes: &[T], from_ns: u64, until_ns: u64, at_ns: fn(&T) -> u64) -> Vec<T> {
    let first = changes.partition_point(|change| at_ns(change) <= from_ns).saturating_sub(1);
    let end = changes.partition_point(|change| at_ns(change) < until_ns).max(first);
    changes[first..end].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(index: u8, start_ns: u64) -> Signal<'static> {
        Signal::Command { index, arg: 0, auto: false, start_ns, end_ns: start_ns + 960 }
    }

    fn recorder(start: Start) -> Recorder {
        let mut recorder = Recorder::new(Window { start, before_ns: 100, for_ns: Some(5_000) });
        recorder.attached = true;
        recorder
    }

    #[test]
    fn a_window_grows_over_what_lies_across_its_ends() {
        let mut r = recorder(Start::At(10_000));
        r.work_begins(1_000, 1, 1);
        // 900 ns of the first lie before the window, the last begins inside.
        for (index, at) in [(1, 9_000), (2, 10_500), (3, 15_900), (4, 40_000)] {
            r.signal(&command(index, at));
        }
        let got = r.capture().unwrap();
        assert_eq!((got.from_ns, got.until_ns), (10_500, 16_860));
        assert_eq!(got.events.len(), 2);
    }

    #[test]
    fn a_trigger_counts_and_says_how_often_it_came() {
        let mut r = recorder(Start::Command { index: 18, n: 3 });
        for n in 0..10 {
            r.signal(&command(17 + (n & 1) as u8, n * 10_000));
        }
        assert_eq!(r.capture().unwrap().start_ns, 50_000);
        let mut r = recorder(Start::Command { index: 18, n: 3 });
        r.signal(&command(18, 5));
        let error = r.capture().unwrap_err();
        assert_eq!(error.to_string(), "trigger cmd=18,n=3: it comes 1 times in the run; expected at least 3");
    }

    #[test]
    fn a_long_run_is_forgotten_on_the_way() {
        let mut r = recorder(Start::Command { index: 25, n: 1 });
        for n in 0..100_000 {
            r.signal(&command(18, n * 10_000));
            r.signal(&Signal::Interrupt { at_ns: n * 10_000, level: n & 1 == 0 });
        }
        assert!(r.got.events.len() < 10_000 && r.got.interrupts.len() < 10_000);
        r.signal(&command(25, 1_000_000_000));
        for n in 100_001..200_000 {
            r.signal(&command(18, n * 10_000));
        }
        assert!(r.got.events.len() < 12_000);
        let got = r.capture().unwrap();
        assert_eq!((got.start_ns, got.events.len(), got.interrupts.len()), (1_000_000_000, 1, 1));
    }

    #[test]
    fn a_window_after_the_end_is_refused() {
        let mut r = recorder(Start::At(50_000));
        r.work_begins(1_000, 1, 1);
        r.signal(&command(17, 9_000));
        let error = r.capture().unwrap_err();
        assert_eq!(error, WindowError::Outside { from_ns: 50_000, end_ns: 8_960 });
    }
}
