//! Virtual time.

use std::cell::Cell;
use std::rc::Rc;

/// Virtual time in ns of the code that is executed at present.
///
/// Code takes no time by itself: [`charge`](Self::charge) moves the time forward by the price of
/// what the code did. So the next action of the code, such as a register write, happens at the
/// right time. The event loop sets the time back when it continues with an earlier event of another
/// part of the system.
#[derive(Clone, Debug, Default)]
pub struct Time(Rc<Cell<u64>>);

impl Time {
    /// Makes a clock at time 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the virtual time in ns.
    pub fn now(&self) -> u64 {
        self.0.get()
    }

    /// Moves the time forward by `ns` nanoseconds, the time that the code has taken.
    pub fn charge(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }

    /// Sets the time; the event loop does this when it continues with another event.
    pub fn set(&self, now: u64) {
        self.0.set(now);
    }
}
