//! What is wrong with a card at this moment, and what the host did that this card does not stand.

use crate::faults::{Faults, Point, Strike};

/// Far beyond every deadline.
pub(crate) const NEVER_NS: u64 = u64::MAX / 2;

/// Something that this card must not be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it was.
    pub what: &'static str,
    /// When.
    pub at_ns: u64,
}

/// More violations than this are not kept.
const MOST_VIOLATIONS: usize = 1024;

/// The state of a card's troubles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// Busy until the power goes.
    pub(crate) stuck: bool,
    /// Deaf and mute until the power goes.
    pub(crate) locked_up: bool,
    /// Busy, but not seen on DAT0, until then.
    hidden_until_ns: u64,
    /// The supply dips once the command at hand is over.
    pub(crate) dips: bool,
    /// More time for the power-up.
    pub(crate) late_ns: u64,
    /// The power-up never ends.
    pub(crate) never_ready: bool,
    violations: Vec<Violation>,
}

impl Trouble {
    /// The supply comes up.
    pub(crate) fn power_up(&mut self, faults: &Faults) {
        *self = Trouble { violations: std::mem::take(&mut self.violations), ..Trouble::default() };
        match faults.strike(Point::PowerUp) {
            Some(Strike::Never) => self.never_ready = true,
            Some(Strike::Late(ns)) => self.late_ns = ns,
            Some(Strike::Fail) => self.locked_up = true,
            _ => {}
        }
    }

    /// The card becomes busy: until then, really; and what the host is told.
    pub(crate) fn busy(&mut self, faults: &Faults, until_ns: u64) -> (u64, Option<u64>) {
        match faults.strike(Point::Busy) {
            Some(Strike::Late(ns)) => {
                let until_ns = until_ns.saturating_add(ns).min(NEVER_NS);
                (until_ns, Some(until_ns))
            }
            Some(Strike::Never) => {
                self.stuck = true;
                (NEVER_NS, Some(NEVER_NS))
            }
            Some(Strike::Hidden) => {
                self.hidden_until_ns = until_ns;
                (until_ns, None)
            }
            Some(Strike::BrownOut) => {
                self.dips = true;
                (until_ns, Some(until_ns))
            }
            _ => (until_ns, Some(until_ns)),
        }
    }

    /// Does DAT0 show that the card is busy?
    pub(crate) fn shows_busy(&self, now_ns: u64) -> bool {
        now_ns >= self.hidden_until_ns
    }

    /// Remembers what the host should not have done.
    pub(crate) fn violate(&mut self, what: &'static str, at_ns: u64) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(Violation { what, at_ns });
        }
    }

    /// All of them, oldest first.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
