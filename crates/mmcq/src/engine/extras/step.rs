//! The steps of a request that is executed in several steps ([`extras`](super)): their kinds, and
//! their places in the series.

/// The kind of the command or pause in progress, with its place in the request's series of
/// commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// A command after which the card is not busy.
    Command(Place),
    /// A command after which the card is busy.
    Order(Place),
    /// A command that writes data, after which the card's status is read.
    Data(Place),
    /// CMD13, which polls for the end of busy after the command that `Place` names.
    Status(Place),
    /// A pause, in which nothing is sent.
    Pause(Place),
}

/// Which command or pause of a request's series of commands is in progress.
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
    /// CMD22 with the upper bits of the last address of an erase; CMD33 sends the lower bits.
    EraseEndUpper,
    /// CMD33 or CMD36: the last address of an erase.
    EraseEnd,
    /// CMD38, which erases.
    Erase,
    /// CMD6 that switches to another partition.
    Enter,
    /// CMD23 before a transfer of data in the partition.
    Count,
    /// The command that transfers the data of a partition access.
    Move,
    /// CMD6 that switches back to the user area. The engine sends it by itself: no request asks for
    /// it.
    Return,
    /// CMD49 that starts a flush.
    FlushStart,
    /// CMD48 that reads whether the flush is over.
    FlushAsk,
    /// CMD13 between two pieces of a long write that follows special rules, such as a durable one.
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
