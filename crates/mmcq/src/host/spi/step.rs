//! The steps of a phase's program, and the longest wait in them.

use crate::host::Stage;

/// Bytes that the first poll receives; the next constant is for the longest poll.
pub(super) const LOOK_FIRST: u8 = 8;
const LOOK_LONGEST: u8 = 64;

/// The event that a phase's program waits for, or its next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The phase needs no exchange: the driver knows the response, or the card would not respond.
    Said,
    Unheard,
    /// The card's line must become high before a command.
    Ready,
    /// Waits for the R1 of CMD55.
    Prefix,
    /// Waits for the R1 of the command.
    Command,
    /// Waits for this number of bytes after the R1.
    Tail(u8),
    /// Waits for the R1 of CMD58 after ACMD41.
    Ocr,
    /// Waits for the R1 of CMD59 after CMD0.
    CrcOn,
    /// Receives a register of 16 bytes, after its token.
    Register,
    /// Receives a block in four steps: its token, the block, the part of it that did not come with
    /// the token, its CRC.
    Token,
    Block,
    Rest,
    Check,
    /// Sends a block: the line must become high; then token, data, and the card's data response.
    ReadyToWrite,
    Started,
    Sent,
    Accept,
    /// Ends a write: the line must become high; then the stop token.
    ReadyToStop,
    Stopped,
    /// Waits for the R1 of an automatic CMD12.
    StopRead,
}

impl Step {
    /// Returns whether the card is in the middle of a block if the program ends at this step.
    pub fn tears(self) -> bool {
        use Step::{Block, Check, Register, Rest, Sent, Started, Token};
        matches!(self, Register | Token | Block | Rest | Check | Started | Sent)
    }

    pub fn stage(self) -> Stage {
        match self {
            Step::StopRead | Step::Stopped => Stage::Stop,
            Step::Ready | Step::ReadyToStop => Stage::Busy,
            Step::ReadyToWrite | Step::Accept => Stage::Data,
            step if step.tears() => Stage::Data,
            _ => Stage::Command,
        }
    }
}

/// How long the card may delay the driver. Time is counted in bytes on the bus, the driver's only
/// clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    limit_ns: u64,
    left_ns: u64,
    look: u8,
}

impl Patience {
    pub fn of(limit_ns: u64) -> Self {
        Patience { limit_ns, left_ns: limit_ns.max(1), look: LOOK_FIRST }
    }

    pub fn renew(&mut self) {
        *self = Patience::of(self.limit_ns);
    }

    /// Returns the number of bytes in the next poll; `None` if the card has used up its time.
    pub fn look(&mut self, byte_ns: u32) -> Option<usize> {
        let bytes = self.look;
        self.look = bytes.saturating_mul(2).min(LOOK_LONGEST);
        let left_ns = core::mem::take(&mut self.left_ns);
        self.left_ns = left_ns.saturating_sub(u64::from(bytes) * u64::from(byte_ns.max(1)));
        (left_ns > 0).then_some(bytes.into())
    }
}
