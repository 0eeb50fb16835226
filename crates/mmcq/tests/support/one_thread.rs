//! A platform of one thread: nothing to exclude, and a clock that the test sets.

use mmcq::task::{Lock, Timer};
use std::cell::Cell;

/// Every test has one thread, and nothing interrupts it.
pub struct OneThread;

// SAFETY: one thread; the stack never nests `with`.
unsafe impl Lock for OneThread {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

thread_local!(pub static NOW_NS: Cell<u64> = const { Cell::new(0) });

/// Reads [`NOW_NS`]; the test asks the engine for its deadline itself.
pub const TIMER: Timer = Timer { now_ns: || NOW_NS.get(), set_alarm: |_| {} };
