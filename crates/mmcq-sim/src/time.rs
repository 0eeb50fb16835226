//! Virtual time.

use std::cell::Cell;
use std::rc::Rc;

/// Virtual time of the code that runs right now, in nanoseconds.
///
/// Code itself takes no time and is charged for what it did. The charge advances this cursor, so
/// that the next action of the code, such as a register write, happens at the right time. The event
/// loop sets the cursor back when it continues with an earlier event of another actor.
#[derive(Clone, Debug, Default)]
pub struct Time(Rc<Cell<u64>>);

impl Time {
    /// Makes a time line, at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.0.get()
    }

    /// Charges the running code `ns` nanoseconds.
    pub fn charge(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    /// Sets the time, when the event loop continues with another event.
    pub fn set(&self, now: u64) {
        self.0.set(now);
    }
}
