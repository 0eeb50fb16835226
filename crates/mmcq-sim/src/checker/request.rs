//! Requests to a card, their answers, and what the checker stores about a request under way.

/// Kind of a request whose result the checker judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Reads sectors.
    Read,
    /// Writes sectors.
    Write {
        /// Whether the write is complete only when its data survive a power cut.
        durable: bool,
    },
    /// Flushes the cache: all complete writes become durable.
    Flush,
    /// Erases or trims sectors: they then read as 00h or FFh.
    Erase,
    /// Discards sectors: they then read as 00h or FFh, or as before.
    Discard,
    /// Writes zeros.
    Zero,
}

impl Asked {
    /// Returns whether the request changes sectors, so that a flush has something to make durable.
    pub(super) fn changes(self) -> bool {
        matches!(self, Asked::Write { .. } | Asked::Zero | Asked::Erase | Asked::Discard)
    }
}

/// Answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request succeeded.
    Done,
    /// The request failed; its first sectors, as many as this number, are certainly done.
    Failed(u32),
    /// The request failed because complete writes were lost; it is not known which of its own
    /// sectors are done.
    CacheLost,
    /// The request failed, and the card never received it.
    Refused,
}

/// Identifies a request that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) number: u32,
}

impl Ticket {
    /// Returns the number of the request in the order of submission, from 1. It is also the version
    /// of the sectors that the request writes.
    #[must_use]
    pub fn version(self) -> u32 {
        self.number
    }
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Number of the request; 0: this entry is free.
    pub(super) number: u32,
    pub(super) asked: Asked,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    pub(super) submitted_ns: u64,
    /// Number of requests that were complete when this request was submitted.
    pub(super) completions: u32,
    /// Number of times, before this request was submitted, that the card lost its power or cached
    /// data, or was reset.
    pub(super) losses: u32,
}
