//! What a stack must never do.

use super::PARTITION_SHIFT;
use super::content::Seen;
use super::sector::Wrong;
use std::fmt;

/// Kinds of violations, as a scoreboard counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// An acknowledged (or durable) write is not there.
    Lost,
    /// A sector in pieces, where nothing excuses it.
    Torn,
    /// Order among requests on the same sector was not kept.
    Misordered,
    /// Data at a place, or on a card, where they do not belong; bytes that no request wrote.
    Misdirected,
    /// A request that is answered twice, or was never asked.
    Twice,
    /// No answer in bounded time.
    Hang,
    /// Success, or a report, that is not true.
    Untrue,
}

impl Fault {
    /// How many kinds there are.
    pub const COUNT: usize = 7;
    /// Their names, in order.
    pub const NAMES: [&'static str; Fault::COUNT] =
        ["lost", "torn", "misordered", "misdirected", "twice", "hangs", "untrue"];
}

/// A sector in words.
pub(super) fn named(lba: u64) -> String {
    match (lba >> PARTITION_SHIFT, lba & ((1 << PARTITION_SHIFT) - 1)) {
        (0, sector) => format!("sector {sector}"),
        (partition, sector) => format!("sector {sector} of partition {partition}"),
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Kind.
    pub fault: Fault,
    /// What happened, in one line.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", Fault::NAMES[self.fault as usize], self.text)
    }
}

impl Violation {
    /// A violation of this kind.
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
