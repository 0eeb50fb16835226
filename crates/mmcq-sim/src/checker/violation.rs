//! Violations: broken promises of a stack.

use super::PARTITION_SHIFT;
use super::content::Seen;
use super::sector::Wrong;
use std::fmt;

/// Kinds of broken guarantees about data ([`Violation`]). Statistics count each kind separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// An acknowledged (or durable) write is not on the card.
    Lost,
    /// A sector has parts of different contents, and nothing explains it.
    Torn,
    /// Requests on the same sector did not keep their order.
    Misordered,
    /// Data are at a place or on a card where they do not belong, or no request wrote the bytes.
    Misdirected,
    /// A request was answered twice, or was never submitted.
    Twice,
    /// A request did not get an answer in bounded time.
    Hang,
    /// An answer is false: it reports a success or an error that did not happen, or hides a loss.
    Untrue,
}

impl Fault {
    /// Number of kinds of violations.
    pub const COUNT: usize = 7;
    /// Names of the kinds, in the order of the enum.
    pub const NAMES: [&'static str; Fault::COUNT] =
        ["lost", "torn", "misordered", "misdirected", "twice", "hangs", "untrue"];
}

/// Returns the text that names a sector.
pub(super) fn named(lba: u64) -> String {
    match (lba >> PARTITION_SHIFT, lba & ((1 << PARTITION_SHIFT) - 1)) {
        (0, sector) => format!("sector {sector}"),
        (partition, sector) => format!("sector {sector} of partition {partition}"),
    }
}

/// A guarantee about data that the stack has broken, with what has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Kind of the violation.
    pub fault: Fault,
    /// Description of what happened, one line.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Fault::NAMES[self.fault as usize], self.text)
    }
}

impl Violation {
    /// Makes a violation of this kind with this description.
    #[must_use]
    pub fn new(fault: Fault, text: impl Into<String>) -> Self {
        Violation { fault, text: text.into() }
    }

    pub(super) fn of_sector(lba: u64, seen: Seen, wrong: Wrong, when: fmt::Arguments<'_>) -> Self {
        let fault = match (wrong, seen) {
            (Wrong::Early, _) => Fault::Misordered,
            (Wrong::Torn, _) => Fault::Torn,
            (Wrong::Strange, _) => Fault::Misdirected,
            (Wrong::Old, _) => Fault::Lost,
        };
        Violation::new(fault, format!("{} holds {seen:?} {when}", named(lba)))
    }
}
