//! Lies on purpose: wrong behaviour of a card that no stack can detect. They test whether the
//! checker detects it.
//!
//! The cards of a thread have the one lie that `choose` set. Use that only in a campaign. Only the
//! laboratory that `tools/planted.sh` builds contains lies: elsewhere `is` is a constant.

/// A lie of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Lie {
    /// A write is also stored 1 MiB further on.
    WritesFar = 1,
    /// A write is also stored in the next sector.
    WritesNear,
    /// A write to the user area changes boot partition 1 too.
    ChangesBoot,
    /// A write to the user area changes the first general purpose partition too.
    ChangesGeneral,
    /// A write to the user area changes the RPMB too.
    ChangesRpmb,
    /// A failed write's data are read by turns with the old content.
    FailedFlips,
    /// A failed write is stored some commands later.
    FailedComesLate,
    /// A failed write is stored, and some commands later its data vanish.
    FailedVanishes,
    /// Discarded sectors are read as erased and as before, by turns.
    DiscardFlips,
    /// Erased sectors are read as 00h and as FFh, by turns.
    ErasedFlips,
    /// A power cut restores what was erased, flushed or not.
    EraseUndone,
    /// A sector that a cut has torn is read as the first version that it ever held.
    TornIsOld,
    /// Once something has gone wrong, one sector in sixteen becomes unreadable.
    ReadsFail,
}

impl Lie {
    /// All lies.
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

/// Returns whether this lie is in force.
#[cfg(not(planted))]
#[inline(always)]
pub(crate) const fn is(_: Lie) -> bool {
    false
}

/// Returns whether any lie is in force.
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

    /// Sets the lie of this thread's cards, in place of the one before; `None` for none.
    pub fn choose(lie: Option<Lie>) {
        CHOSEN.set(lie);
    }

    /// Returns the lie of this thread.
    pub fn chosen() -> Option<Lie> {
        CHOSEN.get()
    }

    /// Returns whether this lie is in force.
    #[inline(always)]
    pub(crate) fn is(lie: Lie) -> bool {
        CHOSEN.get() == Some(lie)
    }

    /// Returns whether any lie is in force.
    #[inline(always)]
    pub(crate) fn any() -> bool {
        CHOSEN.get().is_some()
    }
}
