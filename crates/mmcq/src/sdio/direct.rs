//! One phase of an I/O card, its response judged.

use super::{Error, Refusal};
use crate::engine::{self, DmaBuf, Kind, Request};
use crate::host::{Auto, Host, Phase};
use crate::sched::Policy;
use crate::spec::command::{Command, sdio as cmd};
use crate::spec::response::R5;
use crate::task::{Lock, Shared};

/// CMD52; on the wire at most some hundred microseconds.
const DIRECT_NS: u64 = 20_000_000;

/// Does the next step follow at once?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Yes: the bus is kept for it for a moment ([`Config::chain_ns`](crate::engine::Config::chain_ns)).
    More,
    /// No: whoever waits may have the bus.
    Last,
}

/// The response of a CMD52 or CMD53 to this register: its data, or what it complains of. The two lowest complaints are about the command before; whoever sent
/// that has had no response, and has asked for them.
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

/// CMD52 in one of its forms to this register.
pub(super) async fn direct<L: Lock, H: Host, const N: usize, P: Policy>(
    shared: &Shared<L, H, N, P>,
    function: u8,
    addr: u32,
    command: Command,
    chain: Chain,
) -> Result<u8, Error> {
    match send(shared, command, chain).await {
        Ok(response) => judge(function, addr, response),
        Err(error) => {
            forget(shared, error).await;
            Err(error.into())
        }
    }
}

/// After a command that was lost on the wire: the card tells so in its next response, which must not hit somebody innocent.
pub(super) async fn forget<L: Lock, H: Host, const N: usize, P: Policy>(
    shared: &Shared<L, H, N, P>,
    error: engine::Error,
) {
    if matches!(error, engine::Error::Host(_)) {
        let _ = send(shared, cmd::io_read(0, 0), Chain::Last).await;
    }
}

async fn send<L: Lock, H: Host, const N: usize, P: Policy>(
    shared: &Shared<L, H, N, P>,
    command: Command,
    chain: Chain,
) -> Result<R5, engine::Error> {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    let kind = Kind::Io { phase, timeout_ns: DIRECT_NS, chain: chain == Chain::More };
    let done = shared.request(Request::new(kind, DmaBuf::EMPTY)).await;
    done.result.map(|output| output.response.r5())
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
