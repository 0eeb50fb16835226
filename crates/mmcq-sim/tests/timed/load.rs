//! A load whose data are compared with a copy in memory.

use super::{blocks as buffer, try_drive, turn};
use mmcq::block::BlockDevice;
use mmcq::engine::{Kind, Request, SlotId};
use mmcq::task::{Platform, Stack};
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;

/// Runs random reads and writes around the middle of a card of `sectors` sectors, up to 15 at a
/// time, and then a flush.
pub fn mixed<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    model: &RefCell<impl Device>,
    time: &Time,
    sectors: u64,
    rounds: u64,
) -> Result<(), String> {
    const WINDOW: u64 = 4096;
    let base = sectors / 2;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    let device = BlockDevice::new(stack);
    let turn = || turn(stack, model, time);
    let mut copy = Vec::new();
    for at in (0..WINDOW).step_by(64) {
        let (result, buf) = try_drive(time, turn, device.read(base + at, buffer(64)))?;
        result.map_err(|error| format!("first read: {error}"))?;
        copy.extend_from_slice(&buf);
    }
    let mut pending: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
    for round in 0..rounds {
        let blocks = [1, 8, 1 + below(256), 256][below(4) as usize];
        let at = below(WINDOW - blocks + 1);
        let range = at as usize * 512..(at + blocks) as usize * 512;
        let mut buf = buffer(blocks as usize);
        let (lba, blocks) = (base + at, blocks as u32);
        let (kind, expected) = if below(2) == 0 {
            buf.fill(round as u8);
            buf[0] = !(round as u8);
            copy[range].copy_from_slice(&buf);
            (Kind::Write { lba, blocks }, None)
        } else {
            (Kind::Read { lba, blocks }, Some(copy[range].to_vec()))
        };
        let now = time.now();
        let id = stack.with(|engine| engine.submit(Request::new(kind, buf), now)).unwrap();
        pending.push((id, expected));
        while pending.len() > 15 || (round + 1 == rounds && !pending.is_empty()) {
            turn()?;
            let mut wrong = Ok(());
            pending.retain(|(id, expected)| {
                let Some(done) = stack.with(|engine| engine.take(*id)) else { return true };
                if wrong.is_err() {
                    // The first error is returned.
                } else if let Err(error) = done.result {
                    wrong = Err(format!("{kind:?} or another before it: {error}"));
                } else if expected.as_ref().is_some_and(|expected| done.buf[..] != expected[..]) {
                    wrong = Err("a read brings something else than was written".into());
                }
                false
            });
            wrong?;
        }
    }
    try_drive(time, turn, device.flush())?.map_err(|error| format!("flush: {error}"))
}
