//! A platform with one thread: a lock that does nothing, and a clock that the test sets.

use mmcq::task::{Lock, Timer};
use std::cell::Cell;

/// A lock that does nothing: every test has one thread, which nothing interrupts.
pub struct OneThread;

// SAFETY: one thread; the stack never nests `with`.
unsafe impl Lock for OneThread {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

thread_local!(pub static NOW_NS: Cell<u64> = const { Cell::new(0) });

/// A timer that reads [`NOW_NS`] and has no alarm: the test itself reads the engine's deadline.
pub const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };
