//! Counters of this thread's work, for tests that bound it.

use std::cell::Cell;

thread_local! {
    static PARSED: Cell<u32> = const { Cell::new(0) };
    static LENT: Cell<i32> = const { Cell::new(0) };
    static BUILT: Cell<u32> = const { Cell::new(0) };
}

/// Counts a parsed file of a board or a card.
pub fn parsed() {
    PARSED.set(PARSED.get() + 1);
}

/// Counts a board that was built.
pub fn built() {
    BUILT.set(BUILT.get() + 1);
}

/// Adds to the number of memory pieces lent to drivers.
pub fn lent(more: i32) {
    LENT.set(LENT.get() + more);
}

/// Returns the number of memory pieces lent to drivers now.
pub fn lent_now() -> i32 {
    LENT.get()
}

/// Calls `what`. Returns its result, with the numbers of files parsed and boards built by it.
pub fn by<T>(what: impl FnOnce() -> T) -> (T, u32, u32) {
    let (parsed, built) = (PARSED.get(), BUILT.get());
    let done = what();
    (done, PARSED.get() - parsed, BUILT.get() - built)
}
