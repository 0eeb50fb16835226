//! Counters of the work that this thread has done, for tests that limit this work.

use std::cell::Cell;

thread_local! {
    static PARSED: Cell<u32> = const { Cell::new(0) };
    static LENT: Cell<i32> = const { Cell::new(0) };
    static BUILT: Cell<u32> = const { Cell::new(0) };
}

/// Counts that this thread has parsed the file of a board or card.
pub fn parsed() {
    PARSED.set(PARSED.get() + 1);
}

/// Counts that this thread has built a board.
pub fn built() {
    BUILT.set(BUILT.get() + 1);
}

/// Changes the counter of values that are lent to drivers (see `lent.rs`) by `more`, which may be
/// negative.
pub fn lent(more: i32) {
    LENT.set(LENT.get() + more);
}

/// Returns the number of values that are lent to drivers now: `lent.rs` gives a driver a value for
/// its lifetime, and gets the value back when the driver is dropped.
pub fn lent_now() -> i32 {
    LENT.get()
}

/// Calls `what`. Returns its result, the number of files that it parsed, and the number of boards
/// that it built.
pub fn by<T>(what: impl FnOnce() -> T) -> (T, u32, u32) {
    let (parsed, built) = (PARSED.get(), BUILT.get());
    let done = what();
    (done, PARSED.get() - parsed, BUILT.get() - built)
}
