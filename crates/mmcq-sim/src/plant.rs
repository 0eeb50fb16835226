//! Lies on purpose: what a card may do that no stack can know, to try whether the checker sees it.
//!
//! One of them is told at a time, by the cards of the thread that calls `choose`. Never use that
//! for anything but a campaign. Nothing of this is left but in the laboratory that
//! `tools/planted.sh` builds: `is` is a constant.

/// What a card lies about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Lie {
    /// What is written is written once more, 1 MiB further on.
    WritesFar = 1,
    /// What is written goes to the next sector as well.
    WritesNear,
    /// A write to the user area changes boot partition 1 too.
    ChangesBoot,
    /// A write to the user area changes the first general purpose partition too.
    ChangesGeneral,
    /// A write to the user area changes the RPMB too.
    ChangesRpmb,
    /// What a failed write was to bring is read by turns with what was there.
    FailedFlips,
    /// A failed write is programmed some commands later.
    FailedComesLate,
    /// A failed write is there, and some commands later it is gone.
    FailedVanishes,
    /// Discarded sectors are read as erased and as before, by turns.
    DiscardFlips,
    /// Erased sectors are read as 00h and as FFh, by turns.
    ErasedFlips,
    /// A power cut brings back what was erased, flushed or not.
    EraseUndone,
    /// A sector that a cut has torn is read as the first version that was ever there.
    TornIsOld,
    /// Once something has gone wrong, one sector in sixteen cannot be read any more.
    ReadsFail,
}

impl Lie {
    /// All of them.
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

/// Is this lie told?
#[cfg(not(planted))]
#[inline(always)]
pub(crate) const fn is(_: Lie) -> bool {
    false
}

/// Is any?
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

    /// The cards of this thread tell this lie in place of the one before; `None` for none.
    pub fn choose(lie: Option<Lie>) {
        CHOSEN.set(lie);
    }

    /// What is told in this thread.
    pub fn chosen() -> Option<Lie> {
        CHOSEN.get()
    }

    /// Is this lie told?
    #[inline(always)]
    pub(crate) fn is(lie: Lie) -> bool {
        CHOSEN.get() == Some(lie)
    }

    /// Is any?
    #[inline(always)]
    pub(crate) fn any() -> bool {
        CHOSEN.get().is_some()
    }
}
