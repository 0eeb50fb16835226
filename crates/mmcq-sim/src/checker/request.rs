//! What is asked of a card, how it is answered, and what the judge keeps of a request under way.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Read.
    Read,
    /// Write; `durable`: complete only when it is on the medium.
    Write {
        /// It survives a power cut once it is complete.
        durable: bool,
    },
    /// Make durable what is complete.
    Flush,
    /// Erase or trim: the sectors read as 00h or FFh afterwards.
    Erase,
    /// Discard: the same, or as before.
    Discard,
    /// Zeros.
    Zero,
}

impl Asked {
    /// It changes sectors, so that a flush has something to make durable.
    pub(super) fn changes(self) -> bool {
        matches!(self, Asked::Write { .. } | Asked::Zero | Asked::Erase | Asked::Discard)
    }
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Well.
    Done,
    /// With an error; the first sectors (so many) are surely done.
    Failed(u32),
    /// With the message that the card lost complete writes; otherwise as `Failed(0)`.
    CacheLost,
    /// With an error that says the card never saw it.
    Refused,
}

/// Names a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) number: u32,
}

impl Ticket {
    /// Its number in the order of submission, from 1: the version that a write gives its sectors.
    #[must_use]
    pub fn version(self) -> u32 {
        self.number
    }
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// 0: the place is free.
    pub(super) number: u32,
    pub(super) asked: Asked,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) submitted_ns: u64,
    /// Completions before it was submitted.
    pub(super) completions: u32,
    /// Losses of the card's supply before it was submitted.
    pub(super) losses: u32,
}
