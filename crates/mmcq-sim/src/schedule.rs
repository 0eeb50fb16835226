//! Schedule of events at a slot: a list of times, each with an event. An event is a fault of the
//! [`catalogue`](crate::faults::catalogue), a power loss of the card, or the removal of the card
//! and its later insertion.
//!
//! A line of the list has a time in milliseconds, a word, and for some words a duration in
//! milliseconds. `#` begins a comment:
//!
//! ```text
//! 100  resp_crc      # this fault of the catalogue, at the next event that it can strike
//! 200  no_cd 50      # a fault that lasts, here for 50 ms
//! 300  cut 20        # the card has no supply for 20 ms, and the slot does not report it
//! 400  out 500       # the card is taken out, and is inserted again after 500 ms
//! ```
//!
//! The time of a line must not be earlier than the end of the line above. Faults after which the
//! card or the controller never comes back are not allowed.

use crate::card::Card;
use crate::faults::catalogue::{Means, by_injection};
use crate::faults::{Faults, Plan, Point, Strike};
use crate::slot::Controller;
use std::fmt;

/// Largest number of lines in the list of a schedule.
pub const LINES_MAX: usize = 1000;

/// Latest time in milliseconds that a line of a schedule may have: a day.
const END_MS: f64 = 86_400_000.0;

/// What happens at the card slot when a line of the schedule begins, or when the duration of the
/// line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The fault strikes once, at the next event of this point (kind of event).
    Aim(Point, Strike),
    /// The fault strikes at every event of this point (kind of event) from now on.
    Begin(Point, Strike),
    /// The fault of such a [`Step::Begin`] does not strike any more.
    Forgive(Point, Strike),
    Supply(bool),
    Out,
    In,
}

/// A line of a schedule's list: when an event happens, which event, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Time of the event in nanoseconds from the beginning of the schedule.
    pub at_ns: u64,
    /// Name of what happens: a fault of the catalogue, `cut` (the card loses its supply) or `out`
    /// (the card is out of the slot).
    pub what: String,
    /// Duration in ns; 0 for an event that happens once.
    pub for_ns: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at_ns as f64 / 1e6, self.what)?;
        if self.for_ns > 0 { write!(f, " {}", self.for_ns as f64 / 1e6) } else { Ok(()) }
    }
}

/// A list of events, and how far it is executed.
#[derive(Default)]
pub struct Schedule {
    lines: Vec<Line>,
    steps: Vec<(u64, Step)>,
    next: usize,
    begun_ns: Option<u64>,
    faults: Faults,
    away: Option<Box<dyn Card>>,
}

impl Schedule {
    /// Parses a list of events with their times (see the [module](self)). `Err` is one line that
    /// says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut lines, mut steps) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let said = |why: String| format!("line {number}: {why}");
            let (line, two) = parse_line(&words).map_err(said)?;
            if lines.len() == LINES_MAX {
                return Err(said(format!("expected at most {LINES_MAX} lines")));
            }
            if lines.last().is_some_and(|before: &Line| line.at_ns < before.at_ns + before.for_ns) {
                return Err(said("it begins before the line above has ended".to_owned()));
            }
            steps.extend(two.into_iter().flatten());
            lines.push(line);
        }
        Ok(Schedule { lines, steps, faults: Faults::new(Plan::none()), ..Schedule::default() })
    }

    /// Returns the lines of the schedule, one for each event.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Begins the schedule: the times of its lines count from now. Does nothing if the schedule has
    /// begun already.
    pub fn begin(&mut self, model: &mut (impl Controller + ?Sized), now_ns: u64) {
        if self.begun_ns.is_some() || self.steps.is_empty() {
            return;
        }
        self.begun_ns = Some(now_ns);
        model.set_faults(self.faults.clone());
        if let Some(card) = model.card_mut() {
            card.set_faults(self.faults.clone());
        }
    }

    /// Returns the virtual time in ns of the next action, which is the begin of a line or the end
    /// of its duration; `None` if the list has not begun, or no action is left.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        let (at_ns, _) = self.steps.get(self.next)?;
        Some(self.begun_ns?.saturating_add(*at_ns))
    }

    /// Executes all actions whose time is `now_ns` or earlier, and advances the model to `now_ns`.
    pub fn advance(&mut self, model: &mut (impl Controller + ?Sized), now_ns: u64) {
        while let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= now_ns) {
            reach(model, at_ns);
            let (_, step) = self.steps[self.next];
            self.next += 1;
            self.step(model, step, at_ns);
        }
        reach(model, now_ns);
    }

    fn step(&mut self, model: &mut (impl Controller + ?Sized), step: Step, now_ns: u64) {
        match step {
            Step::Aim(point, strike) => self.faults.aim(point, strike),
            Step::Begin(point, strike) => self.faults.begin(point, strike),
            Step::Forgive(point, strike) => self.faults.end(point, strike),
            Step::Supply(on) => model.set_supply(on, now_ns),
            Step::Out => {
                let card = model.remove(now_ns);
                self.away = card.or(self.away.take());
            }
            Step::In => {
                if let Some(card) = self.away.take() {
                    model.insert(card, now_ns);
                }
            }
        }
    }

    /// Removes the card, or inserts it again if it was removed. Returns true if the card is in the
    /// slot now.
    pub fn swap(&mut self, model: &mut (impl Controller + ?Sized), now_ns: u64) -> bool {
        let out = self.away.is_some();
        self.step(model, if out { Step::In } else { Step::Out }, now_ns);
        out
    }
}

/// Advances the model to `now_ns`; the model stops at each rise of its interrupt and is continued.
fn reach(model: &mut (impl Controller + ?Sized), now_ns: u64) {
    while model.advance(now_ns) < now_ns {}
}

/// Parses a time in milliseconds. Returns it in ns.
fn time(word: &str) -> Result<u64, String> {
    let ms = word.parse::<f64>().ok().filter(|ms| (0.0..=END_MS).contains(ms));
    let ms = ms.ok_or_else(|| format!("{word}: expected milliseconds, 0 to {END_MS}"))?;
    Ok((ms * 1e6).round() as u64)
}

/// A parsed line, with its actions at the begin and at the end of its duration.
type Parsed = (Line, [Option<(u64, Step)>; 2]);

fn parse_line(words: &[&str]) -> Result<Parsed, String> {
    let (at, what, length) = match *words {
        [at, what] => (at, what, None),
        [at, what, length] => (at, what, Some(length)),
        _ => return Err("expected a time in milliseconds, a word, and for some a length".to_owned()),
    };
    let at_ns = time(at)?;
    let (begin, end) = match what {
        "cut" => (Step::Supply(false), Some(Step::Supply(true))),
        "out" => (Step::Out, Some(Step::In)),
        name => match by_injection(name).map(|(_, injection)| injection.means) {
            Some(Means::Once(_, Strike::Remove | Strike::Gone)) => {
                return Err(format!("{name}: nothing brings it back; `out` takes a card out, and in again"));
            }
            Some(Means::Once(point, strike)) => (Step::Aim(point, strike), None),
            Some(Means::From(point, strike)) => {
                (Step::Begin(point, strike), Some(Step::Forgive(point, strike)))
            }
            Some(_) => return Err(format!("{name}: no fault that strikes at an event")),
            None => return Err(format!("{name}: expected cut, out or a fault of the catalogue")),
        },
    };
    let for_ns = match (end, length) {
        (Some(_), Some(length)) => time(length)?,
        (Some(_), None) => return Err(format!("{what}: expected how long it lasts, in milliseconds")),
        (None, Some(length)) => return Err(format!("{what} {length}: it strikes once, and has no length")),
        (None, None) => 0,
    };
    let steps = [Some((at_ns, begin)), end.map(|step| (at_ns + for_ns, step))];
    Ok((Line { at_ns, what: what.to_owned(), for_ns }, steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{CardProfile, Fill, Medium};
    use crate::faults::Shot;
    use crate::memory::{MemoryConfig, ShadowMemory};
    use crate::sdhci::{Sdhci, SdhciConfig};

    const MS: u64 = 1_000_000;

    /// Makes a controller whose card has power and a clock, and has received commands.
    fn warm() -> Sdhci {
        let name = "sdhc-16g-hs";
        let profile = CardProfile::from_toml(crate::cards::named(name).unwrap(), name).unwrap();
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap();
        let card = profile.build(medium).unwrap();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let mut model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory, Some(card));
        for (offset, size, value) in [(0x29, 1, 0x0f), (0x2c, 2, 0xfa01), (0x34, 4, 0xffff_ffff)] {
            model.write(offset, size, value, MS);
        }
        model.write(0x2c, 2, 0xfa05, 2 * MS);
        model
    }

    /// Sends CMD8. Returns the interrupt status after the command.
    fn answers(model: &mut Sdhci, now_ns: &mut u64) -> u32 {
        model.write(0x2f, 1, 6, *now_ns);
        *now_ns += MS;
        model.write(0x30, 4, u32::MAX, *now_ns);
        model.write(0x08, 4, 0x1aa, *now_ns);
        model.write(0x0e, 2, 0x081a, *now_ns);
        *now_ns += MS;
        model.read(0x30, 4, *now_ns)
    }

    #[test]
    fn what_is_in_a_list_happens_at_its_time() {
        let mut model = warm();
        let mut list = Schedule::parse("10 resp_crc # one\n\n20 no_cd 5\n40 cut 5\n60 out 200\n").unwrap();
        let whats: Vec<String> = list.lines().iter().map(Line::to_string).collect();
        assert_eq!(whats, ["10 resp_crc", "20 no_cd 5", "40 cut 5", "60 out 200"]);
        let begin = 10 * MS;
        assert_eq!(list.next_ns(), None);
        list.advance(&mut model, begin);
        list.begin(&mut model, begin);
        list.begin(&mut model, begin + MS);
        assert_eq!(list.next_ns(), Some(begin + 10 * MS));
        // The cases are Command Complete, Command Complete with a CRC error, and a timeout.
        let cases = [(5, 1), (11, 0x2_8001), (15, 1), (21, 0x1_8000), (26, 1), (41, 0x1_8000), (50, 1)];
        for (ms, status) in cases {
            let mut now = begin + ms * MS;
            list.advance(&mut model, now);
            assert_eq!(answers(&mut model, &mut now), status, "at {ms} ms");
        }
        for (ms, inserted) in [(59, true), (200, false), (500, true)] {
            let now = begin + ms * MS;
            list.advance(&mut model, now);
            assert_eq!(model.read(0x24, 4, now) & 0x1_0000 != 0, inserted, "at {ms} ms");
        }
        let now = begin + 600 * MS;
        let swapped = [0; 3].map(|_| list.swap(&mut model, now));
        assert_eq!(swapped, [false, true, false]);
        assert_eq!(list.next_ns(), None);
        let struck: Vec<_> = list.faults.struck().iter().map(|shot| shot.strike).collect();
        assert_eq!(struck, [Strike::Crc, Strike::Lost], "each line struck once");
    }

    /// Checks a line whose fault finds no event before a lasting fault of a later line has come and
    /// gone.
    #[test]
    fn a_fault_waits_for_its_event_while_others_begin_and_end() {
        let mut model = warm();
        let mut list = Schedule::parse("10 resp_crc\n20 no_cd 5\n").unwrap();
        let begin = 10 * MS;
        list.begin(&mut model, begin);
        list.advance(&mut model, begin + 30 * MS);
        let mut now = begin + 30 * MS;
        let answers = [0; 2].map(|_| answers(&mut model, &mut now));
        assert_eq!(answers, [0x2_8001, 1], "Command Complete with a CRC error, then without");
    }

    #[test]
    fn a_fault_strikes_at_the_next_event_and_those_before_it_are_kept() {
        let faults = Faults::new(Plan::none());
        let [first, second] = [Strike::Crc, Strike::Lost];
        assert_eq!(faults.strike(Point::Response), None);
        faults.aim(Point::Response, first);
        faults.aim(Point::Command, second);
        assert_eq!((faults.strike(Point::Response), faults.strike(Point::Response)), (Some(first), None));
        assert_eq!(faults.strike(Point::Command), Some(second));
        assert_eq!(faults.struck()[0], Shot { point: Point::Response, nth: 2, strike: first });
    }

    #[test]
    fn what_is_wrong_with_a_list_is_one_line() {
        let wrong = [
            ("x cut 1", "x: expected milliseconds"),
            ("-1 cut 1", "-1"),
            ("inf cut 1", "inf"),
            ("1", "expected a time"),
            ("1 cut 1 1", "expected a time"),
            ("1 cut", "how long"),
            ("1 no_cd", "how long"),
            ("1 resp_crc 5", "no length"),
            ("1 nothing", "nothing: expected cut, out or a fault"),
            ("1 swap", "swap: no fault that strikes"),
            ("1 remove", "`out`"),
            ("1 mmio_dead", "`out`"),
            ("5 out 10\n14 resp_crc", "line 2: it begins before"),
            ("5 resp_crc\n4 resp_crc", "line 2"),
        ];
        for (text, says) in wrong {
            let why = Schedule::parse(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(why.contains(says) && why.lines().count() == 1, "{text}: {why}");
        }
        let long = "1 resp_crc\n".repeat(LINES_MAX + 1);
        assert!(Schedule::parse(&long).is_err_and(|why| why.contains("at most")));
    }
}
