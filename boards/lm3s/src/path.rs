//! How many instructions a request takes over SPI, from `submit` to its completion in the caller's
//! hands, interrupts included. QEMU's port moves bytes in no time, so nothing but instructions passes.

use crate::Stack;
use crate::board::{interrupts_off, now_ns, say};
use crate::judge::DEPTH;
use crate::pl022::{BYTES, Pl022};
use crate::plan::firmware::INTERRUPTS;
use core::sync::atomic::Ordering::Relaxed;
use mmcq::engine::{DmaBuf, Error, Kind, Request, SlotId};
use mmcq::host::spi::{Exchange, Port, Progress};

const ROUNDS: u32 = 64;
/// Places of requests, of eight blocks each; a prime, and with a stride of 61 no request continues
/// the one before.
const PLACES: u64 = 251;

#[derive(Clone, Copy)]
struct Load {
    write: bool,
    stride: u64,
    blocks: u32,
    depth: usize,
}

/// Instructions (a nanosecond each), bytes on the bus, interrupts.
fn count() -> [u64; 3] {
    let interrupts = INTERRUPTS.iter().map(|counter| u64::from(counter.load(Relaxed))).sum();
    let bytes = BYTES.load(Relaxed).into();
    // Last, so that the rest is not counted.
    [now_ns(), bytes, interrupts]
}

/// What the port alone takes for so many bytes, while the card is not selected and the stack idles.
fn port_alone(bytes: u32) -> u64 {
    interrupts_off(|| {
        let mut port = Pl022::new();
        let before = now_ns();
        port.exchange(Exchange::Idle(bytes));
        while !matches!(port.done(), Progress::Done) {}
        now_ns() - before
    })
}

/// Measures each kind of load, and prints a table.
pub fn measure(stack: &Stack, buffers: &mut [DmaBuf; DEPTH]) -> Result<(), Error> {
    say(format_args!("path: the port alone, 512 bytes: {} instructions", port_alone(512)));
    say(format_args!(
        "path: a request over SPI                   instructions  bytes on the bus  interrupts"
    ));
    for (name, write) in [("read", false), ("write", true)] {
        for (order, stride) in [("random", 61), ("sequential", 1)] {
            for blocks in [1, 8] {
                for depth in [1, DEPTH] {
                    let load = Load { write, stride, blocks, depth };
                    // Once to learn what is learned, once to count.
                    run(stack, buffers, load)?;
                    let before = count();
                    run(stack, buffers, load)?;
                    let after = count();
                    let requests = u64::from(ROUNDS) * depth as u64;
                    let [instructions, bytes, interrupts] = core::array::from_fn(|n| {
                        let counted =
                            after.get(n).copied().unwrap_or(0) - before.get(n).copied().unwrap_or(0);
                        counted / requests
                    });
                    say(format_args!(
                        "path: {order:10} {name:5}, {blocks} blocks, depth {depth}  {instructions:17}  {bytes:16}  {interrupts:10}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// So many rounds of `depth` requests, each round submitted as a whole and waited for.
fn run(stack: &Stack, buffers: &mut [DmaBuf; DEPTH], load: Load) -> Result<(), Error> {
    let Load { write, stride, blocks, depth } = load;
    let mut place = 0;
    let mut ids: [Option<SlotId>; DEPTH] = [None; DEPTH];
    let mut failure = None;
    for _ in 0..ROUNDS {
        // Together: by ones, the card would have finished each before the next is there.
        stack.with(|engine| {
            for (buffer, id) in buffers.iter_mut().zip(&mut ids).take(depth) {
                place = (place + stride) % PLACES;
                let lba = place * u64::from(blocks);
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
        for (buffer, id) in buffers.iter_mut().zip(&mut ids) {
            let Some(id) = id.take() else { continue };
            // A loop, not a sleep: it runs once where all interrupts came at once.
            while !stack.with(|engine| {
                let Some(done) = engine.take(id) else { return false };
                *buffer = done.buf;
                failure = failure.or(done.result.err());
                true
            }) {}
        }
    }
    failure.map_or(Ok(()), Err)
}
