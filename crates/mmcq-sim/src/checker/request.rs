//! Requests to a card, their answers, and what the checker keeps of a request under way.

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Read.
    Read,
    /// Write.
    Write {
        /// Whether it is complete only when it survives a power cut.
        durable: bool,
    },
    /// Flush: what is complete becomes durable.
    Flush,
    /// Erase or trim: the sectors read as 00h or FFh afterwards.
    Erase,
    /// Discard: the sectors read as 00h or FFh afterwards, or as before.
    Discard,
    /// Write zeros.
    Zero,
}

impl Asked {
    /// Returns whether it changes sectors, so that a flush has something to make durable.
    pub(super) fn changes(self) -> bool {
        matches!(self, Asked::Write { .. } | Asked::Zero | Asked::Erase | Asked::Discard)
    }
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success.
    Done,
    /// Error; this number of first sectors is surely done.
    Failed(u32),
    /// The error that reports the loss of complete writes; otherwise as `Failed(0)`.
    CacheLost,
    /// An error that says that the card never received the request.
    Refused,
}

/// Identifies a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) number: u32,
}

impl Ticket {
    /// Returns its number in the order of submission, from 1. It is the version of the sectors that
    /// the request writes.
    #[must_use]
    pub fn version(self) -> u32 {
        self.number
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Number of the request; 0: the place is free.
    pub(super) number: u32,
    pub(super) asked: Asked,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) submitted_ns: u64,
    /// Number of completions before it was submitted.
    pub(super) completions: u32,
    /// Number of power losses of the card before it was submitted.
    pub(super) losses: u32,
}
