//! The card interrupt of I/O functions, and when a command of a function goes before the requests
//! to the card's memory.

use core::task::Waker;

/// State of the card interrupt. Also counts the commands of I/O functions that were sent before
/// waiting memory requests.
#[derive(Debug)]
pub(super) struct Functions {
    /// Whether the card interrupt has come, and no task has taken it yet.
    asks: bool,
    /// Whether a task has asked to be woken at the card interrupt. The controller's card interrupt
    /// is then enabled, or will be enabled again when the task has served the last one.
    heard: bool,
    /// Waker of the task that waits for the card interrupt.
    waker: Option<Waker>,
    /// Number of phases in a row (a phase is a command, with its data or busy) that the engine has
    /// executed for functions of the card while requests to its memory waited.
    run: u8,
}

impl Functions {
    pub const fn new() -> Self {
        Functions { asks: false, heard: false, waker: None, run: 0 }
    }

    /// Notes that a function of the I/O card has raised the card interrupt, or may have.
    #[inline(always)]
    pub fn ask(&mut self) {
        self.asks = true;
    }

    /// Notes whether a task waits for the card interrupt (`on`).
    pub fn hear(&mut self, on: bool) {
        self.heard = on;
    }

    /// Returns whether a task wants to hear of the card interrupt. Then no transfer of the memory
    /// stays open: on several data lines a card does not interrupt while its data are under way.
    #[inline(always)]
    pub fn is_heard(&self) -> bool {
        self.heard
    }

    /// Notes that the card is gone: the task that waits for its interrupt is woken, now or when it
    /// begins to wait. The task's next command then fails.
    pub fn note_card_gone(&mut self) {
        self.asks |= self.waker.is_some() | self.heard;
    }

    #[inline(always)]
    pub fn is_asking(&self) -> bool {
        self.asks
    }

    /// Returns whether a function of the card has requested attention, and clears this flag.
    #[inline(always)]
    pub fn take_note(&mut self) -> bool {
        core::mem::take(&mut self.asks)
    }

    /// Sets the waker of the task that waits for the card interrupt. Returns the waker that was set
    /// before.
    #[must_use = "to be dropped outside of any lock"]
    #[inline(always)]
    pub fn set_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        core::mem::replace(&mut self.waker, waker)
    }

    /// Takes the waker of the task that waits for the card interrupt, if a function requests
    /// attention; otherwise `None`, and the waker stays.
    #[inline(always)]
    pub fn take_waker(&mut self) -> Option<Waker> {
        if self.asks { self.waker.take() } else { None }
    }

    /// Returns whether the last command on the bus was for an I/O function although a read or write
    /// of the card's memory part waited.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.run != 0
    }

    /// Returns whether a function of the card may have the next turn although memory requests wait:
    /// it has had fewer than `in_a_row_max` turns in a row.
    #[inline(always)]
    pub fn have_turn(&self, in_a_row_max: u8) -> bool {
        self.run < in_a_row_max
    }

    /// Counts a command to an I/O function that is sent now. `memory_waits` true: a read or write
    /// of memory waits meanwhile, so the count of such commands in a row rises by 1; false: it
    /// becomes 0.
    #[inline(always)]
    pub fn go(&mut self, memory_waits: bool) {
        self.run = if memory_waits { self.run + 1 } else { 0 };
    }

    /// Sets to 0 the number of commands in a row that were sent to I/O functions while a memory
    /// request waited, since a memory request is sent now.
    #[inline(always)]
    pub fn reset_run(&mut self) {
        self.run = 0;
    }
}
