//! Faults that have an effect on a card now, and the actions of the host that the card does not
//! support.

use crate::faults::{Faults, Point, Strike};

/// A time in ns beyond every deadline.
pub(crate) const NEVER_NS: u64 = u64::MAX / 2;

/// An action of the host that this card does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Description of what the host did.
    pub what: &'static str,
    /// Time in ns at which the host did this.
    pub at_ns: u64,
}

/// Largest number of violations that the card stores.
const MOST_VIOLATIONS: usize = 1024;

/// Faults that act on a card at present.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    /// Whether the card stays busy until power-off.
    pub(crate) stuck: bool,
    /// Whether the card is locked up: it ignores everything until power-off.
    pub(crate) locked_up: bool,
    /// Time in ns until which the card is busy without holding DAT0 low.
    hidden_until_ns: u64,
    /// Whether the supply voltage dips at the end of the present command.
    pub(crate) dips: bool,
    /// Extra time in ns that the power-up takes.
    pub(crate) late_ns: u64,
    /// Whether the power-up never ends.
    pub(crate) never_ready: bool,
    violations: Vec<Violation>,
}

impl Trouble {
    /// Ends the effects of earlier faults at a power-up, and applies a fault that strikes the
    /// power-up.
    pub(crate) fn power_up(&mut self, faults: &Faults) {
        *self = Trouble { violations: std::mem::take(&mut self.violations), ..Trouble::default() };
        match faults.strike(Point::PowerUp) {
            Some(Strike::Never) => self.never_ready = true,
            Some(Strike::Late(ns)) => self.late_ns = ns,
            Some(Strike::Fail) => self.locked_up = true,
            _ => {}
        }
    }

    /// Begins busy until `until_ns`, which faults may change. Returns the real end in ns, and the
    /// end that DAT0 shows.
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

    /// Returns false while a fault hides the card's busy: DAT0 then stays high although the card
    /// may be busy. Otherwise returns true. Whether the card is busy is not checked.
    pub(crate) fn shows_busy(&self, now_ns: u64) -> bool {
        now_ns >= self.hidden_until_ns
    }

    /// Records an action `what` of the host, at the time `at_ns`, that the card does not support.
    pub(crate) fn violate(&mut self, what: &'static str, at_ns: u64) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(Violation { what, at_ns });
        }
    }

    /// Returns all violations, oldest first.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }
}
