//! What asks for attention on the card's I/O functions, and their turn beside memory.

use core::task::Waker;

/// The card interrupt, and the phases of functions that went before memory.
#[derive(Debug)]
pub(super) struct Functions {
    /// A function asks for attention, and no task has taken note yet.
    asks: bool,
    /// Of the task that waits for it.
    waker: Option<Waker>,
    /// Phases of functions in a row while memory waited.
    run: u8,
}

impl Functions {
    pub const fn new() -> Self {
        Functions { asks: false, waker: None, run: 0 }
    }

    /// A function asks, or may ask.
    #[inline(always)]
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Lets a task that waits for the card look once more: the card has gone, and its next command
    /// says so.
    pub fn note_card_gone(&mut self) {
        if self.waker.is_some() {
            self.asks = true;
        }
    }

    #[inline(always)]
    pub fn is_asking(&self) -> bool {
        self.asks
    }

    /// A task has taken note. True: there was something.
    #[inline(always)]
    pub fn take_note(&mut self) -> bool {
        core::mem::take(&mut self.asks)
    }

    /// The waker before comes back.
    #[must_use = "to be dropped outside of any lock"]
    #[inline(always)]
    pub fn set_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        core::mem::replace(&mut self.waker, waker)
    }

    /// The waker, if a function asks.
    #[inline(always)]
    pub fn take_waker(&mut self) -> Option<Waker> {
        if self.asks { self.waker.take() } else { None }
    }

    /// Have functions gone before waiting memory?
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.run != 0
    }

    /// Is it a function's turn, where memory waits?
    #[inline(always)]
    pub fn have_turn(&self, in_a_row_max: u8) -> bool {
        self.run < in_a_row_max
    }

    /// A phase of a function goes out.
    #[inline(always)]
    pub fn go(&mut self, memory_waits: bool) {
        self.run = if memory_waits { self.run + 1 } else { 0 };
    }

    /// Begins the run anew: memory goes out.
    #[inline(always)]
    pub fn reset_run(&mut self) {
        self.run = 0;
    }
}
