//! Recorder of a window (a part of a run's time). It drops all records outside of the window during
//! the run. It stores the window, or passes the window on in parts, each as soon as it is complete.

use super::capture::{Capture, Event, IDLE_NS, PART_NS, Request, What, forget, whole};
use super::window::{Start, Window, WindowError};
use crate::system::{Held, Io};
use mmcq_sim::card::BusState;
use mmcq_sim::cpu::Span;
use mmcq_sim::probe::Signal;

/// Time in ns for which the recorder goes on after the end of the window, so that activity across
/// the end is complete. It is longer than a block on one data line at 400 kHz.
pub(super) const SLACK_NS: u64 = 20_000_000;
/// Number of new records after which old records that cannot belong to the window are removed.
const CLEAN_EVERY: u32 = 4096;
/// Largest number of records of a stored window, which need some hundred megabytes.
const KEPT_MAX: usize = 1_000_000;

/// Function that receives a recorded window during the run, in parts, one after the other.
pub(super) type Taker = Box<dyn FnMut(&Capture)>;

/// The function that receives a recorded window in parts during the run, and the delay of each
/// part.
pub(super) struct HandOn {
    /// Time in ns that must pass after the end of a part of the window before the part is passed to
    /// [`take`](Self::take). Until then later events may still add to it.
    pub slack_ns: u64,
    pub take: Taker,
}

/// What the recorder has found about the order and the number of a window's events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// Longest time in ns by which an event was reported out of order: it began this long before
    /// another event that had already been reported.
    pub late_ns: u64,
    /// Largest number of records that the recorder stored at a time.
    pub most_held: usize,
}

pub(super) struct Recorder {
    window: Window,
    hand_on: Option<HandOn>,
    /// Start in ns of the next part of the recording that goes to the writer; `None`: the start of
    /// the first part is not known yet.
    part_ns: Option<u64>,
    /// Latest start in ns of any event that was reported so far.
    newest_ns: u64,
    /// Facts about the events so far: by how much an event was reported out of order, and the
    /// largest number of stored records.
    told: Told,
    /// Whether more records came than can be stored, so that some are lost.
    full: bool,
    pub(super) attached: bool,
    /// Start of the window in ns; `None`: the trigger has not come.
    start_ns: Option<u64>,
    work_ns: Option<u64>,
    /// Number of times that the trigger has occurred so far.
    came: u64,
    last_ns: u64,
    since_clean: u32,
    app: bool,
    got: Capture,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new(Window { start: Start::BringUp, before_ns: 0, for_ns: None }, None)
    }
}

impl Recorder {
    pub(super) fn new(window: Window, hand_on: Option<HandOn>) -> Self {
        Recorder {
            window,
            hand_on,
            part_ns: None,
            newest_ns: 0,
            told: Told::default(),
            full: false,
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
        self.got.work_ns = Some(*self.work_ns.get_or_insert(now_ns));
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

    /// Returns the end of the window in ns; the largest value while its start is not known.
    fn end_ns(&self) -> u64 {
        let Some(start_ns) = self.start_ns else { return u64::MAX };
        match (self.window.for_ns, self.window.start) {
            (Some(ns), _) => start_ns.saturating_add(ns),
            (None, Start::BringUp) => self.work_ns.unwrap_or(u64::MAX),
            (None, _) => start_ns.saturating_add(Window::LENGTH_NS),
        }
    }

    /// Returns whether an event from `from_ns` to `to_ns` may belong to the window, and counts the
    /// event for the recorder's own figures. A `to_ns` of `u64::MAX` means that the end is not
    /// known.
    fn wants(&mut self, from_ns: u64, to_ns: u64) -> bool {
        if to_ns != u64::MAX {
            self.last_ns = self.last_ns.max(to_ns);
        }
        self.newest_ns = self.newest_ns.max(from_ns);
        self.told.late_ns = self.told.late_ns.max(self.newest_ns - from_ns);
        self.since_clean += 1;
        if self.since_clean >= CLEAN_EVERY {
            self.since_clean = 0;
            self.clean();
            self.hand_on();
        }
        !self.full && from_ns <= self.end_ns().saturating_add(SLACK_NS)
    }

    /// Gives the writer all those parts of the recorded window that are complete, and removes them
    /// from memory. Does nothing if the window is stored as a whole.
    fn hand_on(&mut self) {
        let (Some(start_ns), end_ns) = (self.start_ns, self.end_ns()) else { return };
        let Some(HandOn { slack_ns, take }) = &mut self.hand_on else { return };
        let settled_ns = self.newest_ns.saturating_sub(*slack_ns).min(end_ns);
        let from_ns = self.part_ns.unwrap_or(start_ns.saturating_sub(self.window.before_ns));
        if settled_ns <= from_ns {
            return;
        }
        let got = &mut self.got;
        got.events.sort_by_key(|e| e.start_ns);
        (got.from_ns, got.until_ns) = (from_ns, settled_ns);
        if self.part_ns.is_none() {
            got.from_ns = whole(&got.events, from_ns, settled_ns).0;
        }
        // A part may end at idle lines only when these are known to stay idle.
        let known = |part: &(u64, u64)| part.1.saturating_add(IDLE_NS) <= settled_ns;
        for part in got.parts(PART_NS).into_iter().take_while(known) {
            take(&got.part(part));
            got.from_ns = part.1;
        }
        self.part_ns = Some(got.from_ns);
        got.drop_before();
    }

    /// Returns a time in ns: events that have ended before it cannot belong to the window any more,
    /// and may be removed.
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
        let kept = got.events.len() + got.spans.len() + got.holds.len() + got.requests.len();
        let kept = kept + got.interrupts.len();
        self.told.most_held = self.told.most_held.max(kept);
        if self.hand_on.is_none() && kept > KEPT_MAX {
            self.full = true;
            (got.events, got.spans, got.holds, got.requests) = Default::default();
        }
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
            if self.wants(now_ns, now_ns) && self.hand_on.is_none() {
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

    /// Passes those parts of the recorded window that the receiver did not get during the run to
    /// the receiver. Returns the facts that the recorder has found.
    pub(super) fn rest(mut self) -> Result<Told, WindowError> {
        let (told, hand_on) = (self.told, self.hand_on.take());
        let got = self.capture()?;
        if let Some(HandOn { mut take, .. }) = hand_on {
            got.parts(PART_NS).into_iter().for_each(|part| take(&got.part(part)));
        }
        Ok(told)
    }

    pub(super) fn capture(self) -> Result<Capture, WindowError> {
        if !self.attached {
            return Err(WindowError::NoProbe);
        }
        let end_ns = self.end_ns();
        let Recorder { window, start_ns, work_ns, came, last_ns, part_ns, full, mut got, .. } = self;
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
        if full {
            return Err(WindowError::TooMany { most: KEPT_MAX });
        }
        got.events.sort_by_key(|e| e.start_ns);
        let from_ns = start_ns.saturating_sub(window.before_ns);
        (got.from_ns, got.until_ns) = whole(&got.events, from_ns, end_ns.min(last_ns));
        got.from_ns = part_ns.unwrap_or(got.from_ns);
        got.drop_the_rest();
        got.start_ns = start_ns;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(index: u8, start_ns: u64) -> Signal<'static> {
        Signal::Command { index, arg: 0, auto: false, start_ns, end_ns: start_ns + 960 }
    }

    fn recorder(start: Start) -> Recorder {
        let mut recorder = Recorder::new(Window { start, before_ns: 100, for_ns: Some(5_000) }, None);
        recorder.attached = true;
        recorder
    }

    #[test]
    fn a_window_grows_over_what_lies_across_its_ends() {
        let mut r = recorder(Start::At(10_000));
        r.work_begins(1_000, 1, 1);
        // The first command begins 900 ns before the window, the last begins inside.
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

    /// Checks that a window is split into the same short parts if it is stored first and if it is
    /// passed on during the run, also where the lines are idle for long.
    #[test]
    fn parts_are_short_over_idle_lines_too_and_the_same_on_the_way() {
        let window = Window { start: Start::At(0), before_ns: 0, for_ns: Some(900_000_000) };
        let tell = |r: &mut Recorder| {
            r.attached = true;
            r.work_begins(0, 1, 1);
            // Bursts of commands of 2 us each, with up to 50 ms of idle lines between bursts.
            let mut at_ns = 0;
            for n in 0..20_000u64 {
                at_ns += if n % 1_000 == 0 { n % 7_000 * 7_000 } else { 2_000 };
                r.signal(&command(13, at_ns));
            }
        };
        let mut kept = Recorder::new(window, None);
        tell(&mut kept);
        let kept = kept.capture().unwrap().parts(PART_NS);
        let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let sink = seen.clone();
        let take = Box::new(move |part: &Capture| sink.borrow_mut().push((part.from_ns, part.until_ns)));
        let mut handed = Recorder::new(window, Some(HandOn { slack_ns: SLACK_NS, take }));
        tell(&mut handed);
        assert!(handed.rest().unwrap().most_held < 20_000);
        assert_eq!(*seen.borrow(), kept);
        assert!(kept.len() > 100 && kept.iter().all(|(from_ns, until_ns)| until_ns - from_ns < 2 * PART_NS));
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
