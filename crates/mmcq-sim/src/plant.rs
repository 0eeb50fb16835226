//! Planted bugs of cards, called lies: wrong behaviour that no stack can detect. They test whether
//! the checker detects it.
//!
//! All cards of a thread have the lie that `choose` has set. Only campaigns may set a lie. Lies
//! exist only in the build of the simulator that `tools/planted.sh` builds; in other builds `is`
//! and `any` always return false.

/// A planted bug (lie) of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Lie {
    /// Planted bug: a write is also stored 1 MiB behind its own place.
    WritesFar = 1,
    /// Planted bug: a write also changes the sector after its last one, which gets the data of its
    /// first sector.
    WritesNear,
    /// Planted bug: a write to the user area also changes boot partition 1.
    ChangesBoot,
    /// Planted bug: a write to the user area also changes the first general purpose partition.
    ChangesGeneral,
    /// Planted bug: a write to the user area also changes the RPMB.
    ChangesRpmb,
    /// Planted bug: after a failed write, reads return the new and the old content alternately.
    FailedFlips,
    /// Planted bug: a failed write is stored some commands later.
    FailedComesLate,
    /// Planted bug: a failed write is stored, and some commands later its data vanish.
    FailedVanishes,
    /// Planted bug: discarded sectors read alternately as erased and with the content from before
    /// the discard.
    DiscardFlips,
    /// Planted bug: erased sectors read alternately as 00h and as FFh.
    ErasedFlips,
    /// Planted bug: a power cut restores erased data, even after a flush.
    EraseUndone,
    /// Planted bug: a sector that a power cut has torn can be read from the second attempt on, and
    /// then has the first version that was ever written to it.
    TornIsOld,
    /// Planted bug: after the first fault, one block in sixteen cannot be read any more.
    ReadsFail,
}

impl Lie {
    /// All planted bugs of cards, in the order of the enum.
    pub const ALL: [Lie; 13] = [
        Lie::WritesFar,
        Lie::WritesNear,
        Lie::ChangesBoot,
        Lie::ChangesGeneral,
        Lie::ChangesRpmb,
        Lie::FailedFlips,
        Lie::FailedComesLate,
        Lie::FailedVanishes,
        Lie::DiscardFlips,
        Lie::ErasedFlips,
        Lie::EraseUndone,
        Lie::TornIsOld,
        Lie::ReadsFail,
    ];
}

/// Returns whether the cards of this thread have this planted bug; always false in a build without
/// planted bugs.
#[cfg(not(planted))]
#[inline(always)]
pub(crate) const fn is(_: Lie) -> bool {
    false
}

/// Returns whether the cards of this thread have a planted bug (a wrong behaviour, called lie, that
/// tests the checker). Always false in this build, which has no planted bugs.
#[cfg(not(planted))]
#[inline(always)]
pub(crate) const fn any() -> bool {
    false
}

#[cfg(planted)]
pub(crate) use planted::{any, is};
#[cfg(planted)]
pub use planted::{choose, chosen};

#[cfg(planted)]
mod planted {
    use super::Lie;
    use std::cell::Cell;

    thread_local!(static CHOSEN: Cell<Option<Lie>> = const { Cell::new(None) });

    /// Sets the planted bug ([`Lie`]) of this thread's cards, in place of the one before; `None`
    /// removes it.
    pub fn choose(lie: Option<Lie>) {
        CHOSEN.set(lie);
    }

    /// Returns the planted bug ([`Lie`]) of this thread's cards; `None` if they have none.
    pub fn chosen() -> Option<Lie> {
        CHOSEN.get()
    }

    /// Returns whether the cards of this thread have this planted bug.
    #[inline(always)]
    pub(crate) fn is(lie: Lie) -> bool {
        CHOSEN.get() == Some(lie)
    }

    /// Returns whether the cards of this thread have a planted bug ([`Lie`]).
    #[inline(always)]
    pub(crate) fn any() -> bool {
        CHOSEN.get().is_some()
    }
}
