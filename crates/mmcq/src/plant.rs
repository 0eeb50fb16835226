//! Bugs on purpose, to try whether the torture campaign finds them.
//!
//! Without the feature `plant` nothing of this is left: `is` is a constant. With it, one of the bugs is switched on at run time by `choose`, for the
//! thread that calls it; never use that for anything but a campaign. It is the only place where this crate needs `std`.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Bug {
    /// A request joins a transfer although it passes an older one on the same blocks.
    OverlapReorder = 1,
    /// The scheduler's choice goes although an older request on the same blocks waits.
    ChoiceUnchecked,
    /// Requests with a gap of one block between them are joined.
    MergeGap,
    /// A request put in front of a transfer takes the place of the one that was first.
    PrependSwaps,
    /// Reads and writes are joined.
    MergeDirections,
    /// A cancelled request's memory is given back while the controller has it.
    CancelFrees,
    /// A cancelled request stays mapped.
    CancelKeepsMapping,
    /// Only one of those that are complete is woken.
    WakesOne,
    /// The waker of a second poll is not kept, and that of the first is gone.
    ForgetsWaker,
    /// Deadlines are compared in 32 bits.
    DeadlineWraps,
    /// There is no deadline.
    NoDeadline,
    /// A busy card is taken as ready at the first question.
    BusyOnce,
    /// The status of a busy card is believed while it says `prg`.
    BusyInPrg,
    /// Errors of the card's status while it was busy are forgotten.
    BusyErrorsForgotten,
    /// A slot is used again under the same name.
    SlotSameName,
    /// A taken completion's slot is not free again.
    SlotLeaks,
    /// The descriptor table is not made visible to the controller.
    TableUnsynced,
    /// The last descriptor is one block short.
    TableShort,
    /// Acknowledges all events, also those not seen.
    AckEverything,
    /// SDMA goes on at its old place after a boundary.
    SdmaBoundary,
    /// PIO leaves out the last word of a block.
    PioShort,
    /// Errors that come together with the end are ignored.
    ErrorWithEnd,
    /// A late event of the last phase ends the next one.
    StaleEvent,
    /// A write is complete when its data are over, although the card programs.
    AckBeforeBusyEnd,
    /// Late errors of a write are ignored.
    DeferredIgnored,
    /// A harmless OUT_OF_RANGE at the end of the card is an error.
    EndOfCardFatal,
    /// CMD12 after an open-ended transfer is left out.
    StopForgotten,
    /// CMD23 announces one block more.
    CountOffByOne,
    /// A flush is answered without asking the card.
    FlushSkipped,
    /// A flush is answered while the card still works on it.
    FlushUnwaited,
    /// A durable write is one like any other.
    DurableIgnored,
    /// One block more counts as surely done than was.
    SalvageOffByOne,
    /// A failed transfer counts as done.
    ErrorIsSuccess,
    /// A card that is initialised again is taken for the one before: what was meant for that goes to another.
    ReplayToOther,
    /// A lost cache is forgotten.
    LossUntold,
    /// A lost cache is told again and again.
    LossToldTwice,
    /// Writes whose fate was lost are answered as done.
    DoubtIsDone,
    /// What a read ran into is an earlier write's error.
    ReadBlamesWrite,
    /// A late error of a piece is not its request's.
    PieceErrorLost,
    /// A request beside a transfer still has the members of the one before.
    MembersKept,
    /// A write that is given up in the queue goes to its end, and is written all the same.
    AbandonedLate,
    /// After a visit that was cancelled the card is taken to be in its user area.
    VisitStays,
    /// The card is taken to be in a partition before its status has shown so.
    AreaAssumed,
    /// A visit to a partition takes away how the card boots.
    BootForgotten,
    /// How the card before booted is written to the one in its place.
    BootOfOther,
    /// A write comes back without its memory.
    MemoryKept,
    /// A write comes back with other data in its memory.
    MemoryChanged,
    /// What is done tells of a block fewer.
    DoneShort,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 48] = [
        Bug::OverlapReorder,
        Bug::ChoiceUnchecked,
        Bug::MergeGap,
        Bug::PrependSwaps,
        Bug::MergeDirections,
        Bug::CancelFrees,
        Bug::CancelKeepsMapping,
        Bug::WakesOne,
        Bug::ForgetsWaker,
        Bug::DeadlineWraps,
        Bug::NoDeadline,
        Bug::BusyOnce,
        Bug::BusyInPrg,
        Bug::BusyErrorsForgotten,
        Bug::SlotSameName,
        Bug::SlotLeaks,
        Bug::TableUnsynced,
        Bug::TableShort,
        Bug::AckEverything,
        Bug::SdmaBoundary,
        Bug::PioShort,
        Bug::ErrorWithEnd,
        Bug::StaleEvent,
        Bug::AckBeforeBusyEnd,
        Bug::DeferredIgnored,
        Bug::EndOfCardFatal,
        Bug::StopForgotten,
        Bug::CountOffByOne,
        Bug::FlushSkipped,
        Bug::FlushUnwaited,
        Bug::DurableIgnored,
        Bug::SalvageOffByOne,
        Bug::ErrorIsSuccess,
        Bug::ReplayToOther,
        Bug::LossUntold,
        Bug::LossToldTwice,
        Bug::DoubtIsDone,
        Bug::ReadBlamesWrite,
        Bug::PieceErrorLost,
        Bug::MembersKept,
        Bug::AbandonedLate,
        Bug::VisitStays,
        Bug::AreaAssumed,
        Bug::BootForgotten,
        Bug::BootOfOther,
        Bug::MemoryKept,
        Bug::MemoryChanged,
        Bug::DoneShort,
    ];
}

/// Is this bug planted?
#[cfg(not(feature = "plant"))]
#[inline(always)]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

/// Is any? The straight path through the engine has none of them: it is closed then.
#[cfg(not(feature = "plant"))]
#[inline(always)]
pub(crate) const fn any() -> bool {
    false
}

#[cfg(feature = "plant")]
pub(crate) use planted::{any, is};
#[cfg(feature = "plant")]
pub use planted::{choose, chosen};

#[cfg(feature = "plant")]
mod planted {
    extern crate std;

    use super::Bug;
    use core::cell::Cell;

    std::thread_local!(static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) });

    /// Plants this bug in place of the one before, for this thread; `None` for none.
    pub fn choose(bug: Option<Bug>) {
        CHOSEN.set(bug);
    }

    /// What is planted for this thread.
    pub fn chosen() -> Option<Bug> {
        CHOSEN.get()
    }

    /// Is this bug planted?
    #[inline(always)]
    pub(crate) fn is(bug: Bug) -> bool {
        CHOSEN.get() == Some(bug)
    }

    /// Is any planted?
    #[inline(always)]
    pub(crate) fn any() -> bool {
        CHOSEN.get().is_some()
    }
}
