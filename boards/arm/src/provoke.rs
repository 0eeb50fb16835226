//! Time of a single read, and tests that only the image for the PL181 needs.

use crate::board::say;
use crate::plan::judge::Judge;
use crate::plan::pattern::Step;
use crate::{Stack, board};
use mmcq::engine::{DmaBuf, Error, Kind, Request};
use mmcq::host::{Auto, Data, Direction, Phase};
use mmcq::spec::command::{Command, Resp};

/// Measures the time from submission to completion of a single read of eight blocks.
/// `tools/boards.sh` starts QEMU so that every instruction takes a nanosecond.
pub async fn path_ns(stack: &Stack, mut buf: DmaBuf) -> Result<(u64, DmaBuf), Error> {
    const ROUNDS: u64 = 16;
    let start = board::now_ns();
    for _ in 0..ROUNDS {
        let done = stack.request(Request::new(Kind::Read { lba: 0, blocks: 8 }, buf)).await;
        done.result?;
        buf = done.buf;
    }
    Ok(((board::now_ns() - start) / ROUNDS, buf))
}

/// Provokes errors that QEMU's PL181 never reports by itself: the controller waits for data, and
/// the card sends none, or one block of two. The engine must notice this at its deadline, stop the
/// command path and the data path of the controller, and continue normally: block 0 must have the
/// right content afterwards. Returns the number of wrong results.
pub async fn provoke(stack: &Stack, judge: &mut Judge, mut buf: DmaBuf) -> u32 {
    const TIMEOUT_NS: u64 = 20_000_000;
    // A command that brings no data, and a command that brings one block where two are expected.
    let rca = stack.with(|engine| engine.card_params().map_or(0, |target| target.rca));
    let commands = [Command::new(13, u32::from(rca) << 16, Resp::R1), Command::new(17, 0, Resp::R1)];
    let mut bad = 0;
    for (number, command) in (0..).zip(commands) {
        let data = Some(Data { direction: Direction::Read, block_size: 512, blocks: 2 });
        let phase = Phase { command, data, auto: Auto::None, tuning: false };
        let kind = Kind::Raw { prefix: None, phase, timeout_ns: TIMEOUT_NS };
        let done = stack.request(Request::new(kind, buf)).await;
        buf = done.buf;
        match done.result {
            Ok(_) => {
                say(format_args!("provoked {number}: all is well, expected an error"));
                bad += 1;
            }
            Err(error) => say(format_args!("provoked {number}: {error}")),
        }
        let step = Step { number: 0, read: true, window: 0, at: 0, blocks: 2 };
        judge.prepare(&step, &mut buf);
        let done = stack.request(Request::new(Kind::Read { lba: 0, blocks: 2 }, buf)).await;
        buf = done.buf;
        match done.result {
            Ok(_) => judge.book(&step, &buf),
            Err(error) => {
                say(format_args!("provoked {number}: then {error}, expected a read that goes well"));
                bad += 1;
            }
        }
    }
    bad
}
