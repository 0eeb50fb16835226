//! The steps of a request that the extras serve: their kinds, and their places in the series.

/// The kind of the step in progress, with its place in the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// A command without busy.
    Command(Place),
    /// A command with busy.
    Order(Place),
    /// A command that writes data, after which the card's status is read.
    Data(Place),
    /// CMD13 after busy.
    Status(Place),
    /// A pause.
    Pause(Place),
}

/// Places in the series of steps of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Place {
    /// The command of a [`Kind::LongCommand`](crate::engine::Kind::LongCommand).
    Order,
    /// CMD6 with the argument of the CMD38 that follows (iNAND).
    EraseArgument,
    /// CMD22 before the first address, SDUC only.
    EraseStartUpper,
    /// CMD32 or CMD35: the first address of an erase.
    EraseStart,
    /// CMD22 before the last address.
    EraseEndUpper,
    /// CMD33 or CMD36: the last address of an erase.
    EraseEnd,
    /// CMD38, which erases.
    Erase,
    /// CMD6 that switches to another partition.
    Enter,
    /// CMD23 in the partition.
    Count,
    /// The transfer of data in the partition.
    Move,
    /// CMD6 that switches back to the user area, for no request.
    Return,
    /// CMD49 that starts a flush.
    FlushStart,
    /// CMD48 that reads whether the flush is over.
    FlushAsk,
    /// CMD13 between two pieces of a write with special rules.
    Piece,
}

impl Place {
    pub(super) const fn step(step: Step) -> Place {
        match step {
            Step::Command(place)
            | Step::Order(place)
            | Step::Data(place)
            | Step::Status(place)
            | Step::Pause(place) => place,
        }
    }
}
