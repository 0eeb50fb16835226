//! A CMD52 to an I/O card, with a check of its response.

use super::IoError;
use crate::card::io::error::judge;
use crate::engine::{self, CardNumber, DmaBuf, Kind, Request};
use crate::host::Phase;
use crate::spec::command::{Command, sdio as cmd};
use crate::task::{Platform, RequestFuture, Stack};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};

/// Longest time of CMD52 in nanoseconds; on the bus it takes at most some hundred microseconds.
const DIRECT_NS: u64 = 20_000_000;

/// Whether the bus is reserved for the driver's next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Another command follows: the bus is reserved for it for a short time
    /// ([`Config::chain_ns`](crate::engine::Config::chain_ns)).
    More,
    /// No command follows: a waiting request may use the bus.
    Last,
}

/// A CMD52, from its submission to its checked response; see
/// [`Function::read_u8`](super::Function::read_u8).
///
/// The type is a single future instead of several nested ones, since most of a driver's polls go
/// through it.
#[must_use = "nothing happens unless it is awaited"]
pub struct Direct<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    op: RequestFuture<'a, B, N>,
    card: CardNumber,
    function: u8,
    addr: u32,
    /// Error of the command on the bus, while the card's own error flags are being read.
    failed: Option<engine::Error>,
}

impl<B: Platform, const N: usize> Direct<'_, B, N> {
    /// Polls for the byte in the card's response. Also returns the buffer that the command's slot
    /// has owned meanwhile ([`carried`]).
    fn poll_carried(&mut self, context: &mut Context<'_>) -> Poll<(Result<u8, IoError>, DmaBuf)> {
        loop {
            let done = ready!(Pin::new(&mut self.op).poll(context));
            let result = match (self.failed.take(), done.result) {
                (None, Ok(output)) => judge(self.function, self.addr, output.response.r5()),
                // The card reports a lost command in its next response. Read that response here,
                // since a combo card's memory must not receive it.
                (None, Err(error @ engine::Error::Host(_))) => {
                    self.failed = Some(error);
                    let command = cmd::io_read(0, 0);
                    self.op = submitted(self.stack, self.card, command, Chain::Last, done.buf);
                    continue;
                }
                (Some(error), _) | (None, Err(error)) => Err(error.into()),
            };
            return Poll::Ready((result, done.buf));
        }
    }
}

impl<B: Platform, const N: usize> Future for Direct<'_, B, N> {
    /// The byte in the card's response, or the error.
    type Output = Result<u8, IoError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_carried(context).map(|(result, _)| result)
    }
}

/// Returns the future that sends `command`, a CMD52 to register `addr` of the function `function`
/// of the card with the number `card`. `chain`: whether another command follows.
pub(super) fn direct<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: CardNumber,
    function: u8,
    addr: u32,
    command: Command,
    chain: Chain,
) -> Direct<'_, B, N> {
    let op = submitted(stack, card, command, chain, DmaBuf::EMPTY);
    Direct { stack, op, card, function, addr, failed: None }
}

/// Sends a CMD52 to the register `addr` of function 0, with a buffer that belongs to the transfer
/// before or after it. The command's slot owns the buffer during that time, so no buffer is lost if
/// the future is dropped.
pub(super) async fn carried<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: CardNumber,
    addr: u32,
    command: Command,
    buf: DmaBuf,
) -> (Result<u8, IoError>, DmaBuf) {
    let op = submitted(stack, card, command, Chain::Last, buf);
    let mut direct = Direct { stack, op, card, function: 0, addr, failed: None };
    poll_fn(|context| direct.poll_carried(context)).await
}

fn submitted<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: CardNumber,
    command: Command,
    chain: Chain,
    buf: DmaBuf,
) -> RequestFuture<'_, B, N> {
    let phase = Phase::of(command);
    let kind = Kind::Io { phase, timeout_ns: DIRECT_NS, chain: chain == Chain::More };
    stack.request(Request::new(kind, buf).for_card(card))
}
