//! The steps by which the driver executes a command on the SPI bus, and how long it polls the card
//! in each step.

use crate::host::Stage;

/// Number of bytes that the first poll of a waiting card receives on the SPI bus; later polls
/// receive more.
pub(super) const LOOK_FIRST: u8 = 8;
/// Number of bytes that the longest poll receives.
const LOOK_LONGEST: u8 = 64;

/// The next action by which the driver executes a command on the SPI bus, or the event that it
/// waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The phase needs no exchange: the driver knows the response.
    Said,
    /// Nothing is sent: the card would not respond to this command, so the driver reports a timeout
    /// at once.
    Unheard,
    /// Before the command is sent: waits until the card's line is high. CMD0, and a command during
    /// an open read, do not wait.
    Ready,
    /// Waits for the R1 of CMD55.
    Prefix,
    /// Waits for the R1 of the command.
    Command,
    /// Waits for this number of bytes after the R1.
    Tail(u8),
    /// Waits for the R1 of CMD58 after ACMD41.
    Ocr,
    /// Waits for the R1 of CMD59, which switches CRC on and follows CMD0.
    CrcOn,
    /// Receives a register of 16 bytes, after its token.
    Register,
    /// Receives the token of a block.
    Token,
    /// Takes the bytes of the block that came with its token, and starts to receive the others.
    Block,
    /// Waits until the other bytes of the block are received.
    Rest,
    /// Receives and checks the CRC of the block.
    Check,
    /// Before a block is sent: waits until the card's line is high.
    ReadyToWrite,
    /// Waits until the token of the block is sent.
    Started,
    /// Waits until the data of the block are sent.
    Sent,
    /// Waits for the card's data response.
    Accept,
    /// Before the stop token of a write is sent: waits until the card's line is high.
    ReadyToStop,
    /// Waits until the stop token is sent.
    Stopped,
    /// Waits for the R1 of an automatic CMD12.
    StopRead,
}

impl Step {
    /// Returns whether the card may be in the middle of a block if the transfer ends at this step.
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

/// Time that is left for the card before a timeout. The driver has no other clock than the bytes on
/// the bus: each byte of a poll uses up its duration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    limit_ns: u64,
    left_ns: u64,
    look: u8,
}

impl Patience {
    pub const fn of(limit_ns: u64) -> Self {
        let left_ns = if limit_ns == 0 { 1 } else { limit_ns };
        Patience { limit_ns, left_ns, look: LOOK_FIRST }
    }

    pub fn renew(&mut self) {
        *self = Patience::of(self.limit_ns);
    }

    /// Returns the number of bytes that the next poll receives: more and more, up to a largest
    /// number. `None` if the card has used up its time. `byte_ns`: time in ns of a byte on the bus.
    pub fn look(&mut self, byte_ns: u32) -> Option<usize> {
        let bytes = self.look;
        self.look = bytes.saturating_mul(2).min(LOOK_LONGEST);
        let left_ns = core::mem::take(&mut self.left_ns);
        self.left_ns = left_ns.saturating_sub(u64::from(bytes) * u64::from(byte_ns.max(1)));
        (left_ns > 0).then_some(bytes.into())
    }
}
