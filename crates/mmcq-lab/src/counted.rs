//! What this thread has done, counted for tests that bound it.

use std::cell::Cell;

thread_local! {
    static PARSED: Cell<u32> = const { Cell::new(0) };
    static LENT: Cell<i32> = const { Cell::new(0) };
    static BUILT: Cell<u32> = const { Cell::new(0) };
}

/// The file of a board or of a card was parsed.
pub fn parsed() {
    PARSED.set(PARSED.get() + 1);
}

/// A board was built.
pub fn built() {
    BUILT.set(BUILT.get() + 1);
}

/// So many more pieces of memory are lent to drivers.
pub fn lent(more: i32) {
    LENT.set(LENT.get() + more);
}

/// How many are.
pub fn lent_now() -> i32 {
    LENT.get()
}

/// Files that were parsed, and boards that were built, by this.
pub fn by<T>(what: impl FnOnce() -> T) -> (T, u32, u32) {
    let (parsed, built) = (PARSED.get(), BUILT.get());
    let done = what();
    (done, PARSED.get() - parsed, BUILT.get() - built)
}
