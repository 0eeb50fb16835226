//! One phase of an I/O card, its response judged.

use super::{Error, Refusal};
use crate::engine::{self, DmaBuf, Kind, Request};
use crate::host::{Auto, Phase};
use crate::spec::command::{Command, sdio as cmd};
use crate::spec::response::R5;
use crate::task::{Platform, RequestFuture, Stack};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

/// CMD52; on the wire at most some hundred microseconds.
const DIRECT_NS: u64 = 20_000_000;

/// Does the next step follow at once?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Yes: the bus is kept for it for a moment ([`Config::chain_ns`](crate::engine::Config::chain_ns)).
    More,
    /// No: a request that waits may have the bus.
    Last,
}

/// The response of a CMD52 or CMD53 to this register: its data, or what it complains of. The two lowest
/// complaints are about the command before: its sender has had no response, and has asked for them.
pub(crate) fn judge(function: u8, addr: u32, response: R5) -> Result<u8, Error> {
    let why = if response.errors() == 0 {
        return Ok(response.data());
    } else if response.out_of_range() {
        Refusal::OutOfRange
    } else if response.function_number() {
        Refusal::FunctionNumber
    } else if response.error() {
        Refusal::General
    } else if response.illegal_command() {
        Refusal::IllegalCommand
    } else {
        Refusal::Crc
    };
    Err(Error::Refused { function, addr, why })
}

/// One CMD52, from its submission to its judged response; see
/// [`Function::read_u8`](super::Function::read_u8).
///
/// One future and not several around each other: this is what most of a driver's polls go through.
#[must_use = "nothing happens unless it is awaited"]
pub struct Direct<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    op: RequestFuture<'a, B, N>,
    function: u8,
    addr: u32,
    /// How it failed on the wire, while the card is asked what it has to say of that.
    failed: Option<engine::Error>,
}

impl<B: Platform, const N: usize> Future for Direct<'_, B, N> {
    /// The byte that the card sent back.
    type Output = Result<u8, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let done = ready!(Pin::new(&mut self.op).poll(context));
            match (self.failed.take(), done.result) {
                (None, Ok(output)) => {
                    return Poll::Ready(judge(self.function, self.addr, output.response.r5()));
                }
                // The card tells in its next response that a command was lost; that must not hit
                // another request.
                (None, Err(error @ engine::Error::Host(_))) => {
                    self.failed = Some(error);
                    self.op = submitted(self.stack, cmd::io_read(0, 0), Chain::Last);
                }
                (Some(error), _) | (None, Err(error)) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

/// CMD52 in one of its forms to this register.
pub(super) fn direct<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    function: u8,
    addr: u32,
    command: Command,
    chain: Chain,
) -> Direct<'_, B, N> {
    Direct { stack, op: submitted(stack, command, chain), function, addr, failed: None }
}

fn submitted<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    command: Command,
    chain: Chain,
) -> RequestFuture<'_, B, N> {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    let kind = Kind::Io { phase, timeout_ns: DIRECT_NS, chain: chain == Chain::More };
    stack.request(Request::new(kind, DmaBuf::EMPTY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_judged() {
        assert_eq!(judge(1, 2, R5(0x1000 | 0x5a)), Ok(0x5a));
        for (flag, why) in [
            (0x0100, Refusal::OutOfRange),
            (0x0200, Refusal::FunctionNumber),
            (0x0800, Refusal::General),
            (0x4000, Refusal::IllegalCommand),
            (0x8000, Refusal::Crc),
        ] {
            assert_eq!(judge(1, 2, R5(0x1000 | flag)), Err(Error::Refused { function: 1, addr: 2, why }));
        }
    }
}
