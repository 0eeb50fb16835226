//! One phase of an I/O card, its response judged.

use super::Error;
use crate::card::io::error::judge;
use crate::engine::{self, DmaBuf, Kind, Request};
use crate::host::{Auto, Phase};
use crate::spec::command::{Command, sdio as cmd};
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
                // The card tells in its next response that a command was lost: a combo card's memory must not hear it.
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
