//! Virtual time.

use std::cell::Cell;
use std::rc::Rc;

/// The time of the code that runs right now, in nanoseconds.
///
/// Code runs in no time and is charged for what it did: the charger moves this cursor forward, so
/// that what the code does next (a register write, say) happens at the right moment. The world's
/// event loop sets it back when it turns to an earlier event of another actor.
#[derive(Clone, Debug, Default)]
pub struct Time(Rc<Cell<u64>>);

impl Time {
    /// A new time line, at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Now, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.0.get()
    }

    /// The running code takes `ns` longer.
    pub fn charge(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    /// The event loop turns to another moment.
    pub fn set(&self, now: u64) {
        self.0.set(now);
    }
}
