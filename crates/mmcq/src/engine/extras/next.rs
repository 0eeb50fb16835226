//! What a request of several steps does next, as a value.

use super::super::{Error, Output};
use super::Place;
use crate::host::{Data, Segment};
use crate::spec::command::Command;

/// The next step of a request of several steps. The part that serves the request decides it; the
/// engine carries it out, and returns the card's status to the same part.
#[derive(Debug)]
pub(in super::super) enum Next {
    /// Sends a command without busy. The place says which step of the request the command is.
    Command(Place, Command),
    /// Sends a command with busy; the number is the longest time of the busy in ns.
    Order(Place, Command, u64),
    /// Transfers whole blocks between the card and this memory. `changes`: they change blocks in
    /// the card's cache.
    Data { place: Place, command: Command, data: Data, segment: Segment, changes: bool },
    /// Waits for this time in ns. [`Place`] names the part that serves the request.
    Pause(Place, u64),
    /// Ends the present piece of the erase; the piece was erased.
    Erased,
    /// The flush by register is over. The value is 0, or a status that shows its error.
    Flushed(u32),
    /// The request ends with this result.
    End(Result<Output, Error>),
}

impl Next {
    /// Returns the action by which a request that needs several commands ends with this error.
    pub const fn fail(error: Error) -> Next {
        Next::End(Err(error))
    }
}
