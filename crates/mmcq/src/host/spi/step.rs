//! The steps of a program, and the longest wait in them.

use crate::host::Stage;

/// Bytes of the first poll, and of the longest.
pub(super) const LOOK_FIRST: u8 = 8;
const LOOK_LONGEST: u8 = 64;

/// What the program waits for, or does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: the response is known, or there is none.
    Said,
    Unheard,
    /// The card's line must become high before a command.
    Ready,
    /// R1 of CMD55.
    Prefix,
    /// R1.
    Command,
    /// This many bytes after R1.
    Tail(u8),
    /// R1 of CMD58 after ACMD41.
    Ocr,
    /// R1 of CMD59 after CMD0.
    CrcOn,
    /// A register of 16 bytes, after its token.
    Register,
    /// The token of a block; then the block; the part of it that did not come with the token; its
    /// CRC.
    Token,
    Block,
    Rest,
    Check,
    /// The line must become high before a block; then its token, its data, the card's answer.
    ReadyToWrite,
    Started,
    Sent,
    Accept,
    /// The line must become high before the stop token; then the token.
    ReadyToStop,
    Stopped,
    /// R1 of an automatic CMD12.
    StopRead,
}

impl Step {
    /// Returns whether leaving this step leaves a block in its middle.
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

/// How long the card may keep the driver waiting. The driver's only clock is that of the bus.
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

    /// Returns the bytes of the next poll; `None`: the wait is too long.
    pub fn look(&mut self, byte_ns: u32) -> Option<usize> {
        let bytes = self.look;
        self.look = bytes.saturating_mul(2).min(LOOK_LONGEST);
        let left_ns = core::mem::take(&mut self.left_ns);
        self.left_ns = left_ns.saturating_sub(u64::from(bytes) * u64::from(byte_ns.max(1)));
        (left_ns > 0).then_some(bytes.into())
    }
}
