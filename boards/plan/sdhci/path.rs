//! Counts the instructions of a 4 KiB request, from `submit` to its completion at the caller,
//! including the interrupt's entry and its end at the interrupt controller. QEMU's SDHCI moves data
//! in no time, so only instructions take time while a request is under way.

use crate::Stack;
use crate::board::{now_ns, say};
use crate::lane;
use crate::plan::firmware::INTERRUPTS;
use core::sync::atomic::Ordering;
use mmcq::engine::{DmaBuf, Error, Kind, Request, SlotId};

const BLOCKS: u32 = 8;
const ROUNDS: u32 = 64;

/// Counters at one moment.
#[derive(Clone, Copy)]
struct Count {
    instructions: u64,
    accesses: u32,
    interrupts: u32,
    transfers: u64,
}

#[allow(clippy::useless_conversion, reason = "the stack counts in 32 bits where the core has no more")]
fn count(stack: &Stack) -> Count {
    let (accesses, transfers) =
        stack.with(|engine| (engine.host().map_or(0, lane::accesses), engine.stats().transfers.into()));
    let interrupts = INTERRUPTS[0].load(Ordering::Relaxed);
    // The time is read last, so that reading the other counters does not count.
    Count { instructions: now_ns(), accesses, interrupts, transfers }
}

/// Measures each kind of load on its own blocks, from `base` on, and prints a table.
pub async fn measure(stack: &Stack, mut buffers: [DmaBuf; 32], base: u64) -> Result<(), Error> {
    say(format_args!("path: a request of 4 KiB         instructions  registers  interrupts  transfers"));
    for (name, write) in [("read", false), ("write", true)] {
        for (order, stride) in [("random", 61), ("sequential", 1)] {
            for depth in [1, 32] {
                // The first pass warms up predictions, the second is counted.
                load(stack, &mut buffers, base, write, stride, depth)?;
                let before = count(stack);
                load(stack, &mut buffers, base, write, stride, depth)?;
                let after = count(stack);
                let requests = u64::from(ROUNDS * depth);
                let tenths = |n: u64| (10 * n / requests / 10, 10 * n / requests % 10);
                let (whole, tenth) = tenths(u64::from(after.accesses - before.accesses));
                let (irqs, irq_tenth) = tenths(u64::from(after.interrupts - before.interrupts));
                let (sent, sent_tenth) = tenths(after.transfers - before.transfers);
                say(format_args!(
                    "path: {order:10} {name:5}, depth {depth:2}  {:17}  {whole:7}.{tenth}  {irqs:8}.{irq_tenth}  {sent:7}.{sent_tenth}",
                    (after.instructions - before.instructions) / requests
                ));
            }
        }
    }
    Ok(())
}

/// Does this number of rounds of `depth` requests. Each round is submitted at once, and ends before
/// the next.
fn load(
    stack: &Stack,
    buffers: &mut [DmaBuf; 32],
    base: u64,
    write: bool,
    stride: u64,
    depth: u32,
) -> Result<(), Error> {
    let mut place = 0u64;
    let mut ids: [Option<SlotId>; 32] = [None; 32];
    let depth = depth as usize;
    let (Some(buffers), Some(ids)) = (buffers.get_mut(..depth), ids.get_mut(..depth)) else { return Ok(()) };
    let mut failure = None;
    for _ in 0..ROUNDS {
        // The requests of a round are submitted together: one by one, the controller would finish
        // each before the next comes.
        stack.with(|engine| {
            for (buffer, id) in buffers.iter_mut().zip(ids.iter_mut()) {
                // 251 is a prime: with a stride of 61 no request continues the one before.
                place += stride;
                place = if place < 251 { place } else { place - 251 };
                let (lba, blocks) = (base + place * u64::from(BLOCKS), BLOCKS);
                let kind = if write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
                let request = Request::new(kind, core::mem::replace(buffer, DmaBuf::EMPTY));
                match engine.submit(request, now_ns()) {
                    Ok(submitted) => *id = Some(submitted),
                    Err((error, request)) => {
                        *buffer = request.buf;
                        return Err(error);
                    }
                }
            }
            Ok(())
        })?;
        for (buffer, id) in buffers.iter_mut().zip(ids.iter_mut()) {
            let Some(id) = id.take() else { continue };
            // A loop and not a sleep, since waking up is not work of the stack. The loop is passed
            // once if the interrupt came at once.
            while !stack.with(|engine| {
                let Some(done) = engine.take(id) else { return false };
                *buffer = done.buf;
                if let Err(error) = done.result {
                    failure = Some(error);
                }
                true
            }) {}
        }
    }
    failure.map_or(Ok(()), Err)
}
