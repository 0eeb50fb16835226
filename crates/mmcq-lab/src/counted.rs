//! Counters of the work of this thread, for tests that limit it.

use std::cell::Cell;

thread_local! {
    static PARSED: Cell<u32> = const { Cell::new(0) };
    static LENT: Cell<i32> = const { Cell::new(0) };
    static BUILT: Cell<u32> = const { Cell::new(0) };
}

/// Counts a board's or card's file that was parsed.
pub fn parsed() {
    PARSED.set(PARSED.get() + 1);
}

/// Counts a board that was built.
pub fn built() {
    BUILT.set(BUILT.get() + 1);
}

/// Adds `more`, which may be negative, to the number of values lent to drivers.
pub fn lent(more: i32) {
    LENT.set(LENT.get() + more);
}

/// Returns the number of values that are lent to drivers now.
pub fn lent_now() -> i32 {
    LENT.get()
}

/// Calls `what`. Returns its result, the number of files it parsed, and the number of boards it
/// built.
pub fn by<T>(what: impl FnOnce() -> T) -> (T, u32, u32) {
    let (parsed, built) = (PARSED.get(), BUILT.get());
    let done = what();
    (done, PARSED.get() - parsed, BUILT.get() - built)
}
