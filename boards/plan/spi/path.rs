//! Counts the instructions of a request over SPI, from `submit` to its completion at the caller,
//! including interrupts. QEMU's port moves bytes in no time, so only instructions take time.

use crate::board::{interrupts_off, now_ns, say};
use crate::plan::firmware::INTERRUPTS;
use crate::{BoardPort, Stack};
use core::hint::black_box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use mmcq::engine::{DmaBuf, Error, Kind, Request, SlotId};
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress};

/// Number of requests in the engine at the same time.
const DEPTH: usize = 4;
const ROUNDS: u32 = 64;
/// Number of places, of eight blocks each. It is a prime, so that with a stride of 61 no request
/// continues the one before.
const PLACES: u64 = 251;

/// Number of bytes in all exchanges so far.
static BYTES: AtomicU32 = AtomicU32::new(0);

/// Records that the port begins an exchange of this number of bytes.
pub fn exchanges(bytes: u32) {
    BYTES.store(BYTES.load(Relaxed).wrapping_add(bytes), Relaxed);
}

#[derive(Clone, Copy)]
struct Load {
    write: bool,
    stride: u64,
    blocks: u32,
    depth: usize,
}

/// Returns the counters: instructions (a nanosecond each), bytes on the bus, interrupts.
fn count() -> [u64; 3] {
    let interrupts = INTERRUPTS.iter().map(|counter| u64::from(counter.load(Relaxed))).sum();
    let bytes = BYTES.load(Relaxed).into();
    // The time is read last, so that reading the other counters does not count.
    [now_ns(), bytes, interrupts]
}

/// Measures the instructions that the port alone takes to receive a block, while the card is not
/// selected and the stack is idle. As in the stack's exchanges, the compiler does not know the
/// length in advance.
fn port_alone() -> u64 {
    let mut block = [0u8; 512];
    let exchange: fn(&mut BoardPort, Exchange) = black_box(BoardPort::exchange);
    let done: fn(&mut BoardPort) -> Progress = black_box(BoardPort::done);
    interrupts_off(|| {
        let mut port = BoardPort::new();
        let before = now_ns();
        for _ in 0..ROUNDS {
            // SAFETY: the block lives until the exchange has ended, and no other code uses it.
            let segment = unsafe { Segment::new(NonNull::from(&mut block).cast(), 512, 0) };
            exchange(&mut port, Exchange::Receive(segment));
            while !matches!(done(&mut port), Progress::Done) {}
        }
        (now_ns() - before) / u64::from(ROUNDS)
    })
}

/// Measures each kind of load, and prints a table.
pub fn measure(stack: &Stack, buffers: &mut [DmaBuf; DEPTH]) -> Result<(), Error> {
    say(format_args!("path: the port alone, 512 bytes in: {} instructions", port_alone()));
    say(format_args!(
        "path: a request over SPI                   instructions  bytes on the bus  interrupts"
    ));
    for (name, write) in [("read", false), ("write", true)] {
        for (order, stride) in [("random", 61), ("sequential", 1)] {
            for blocks in [1, 8] {
                for depth in [1, DEPTH] {
                    let load = Load { write, stride, blocks, depth };
                    // The first pass warms up predictions, the second is counted.
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

/// Does this number of rounds of `depth` requests. Each round is submitted at once, and ends before
/// the next.
fn run(stack: &Stack, buffers: &mut [DmaBuf; DEPTH], load: Load) -> Result<(), Error> {
    let Load { write, stride, blocks, depth } = load;
    let mut place = 0;
    let mut ids: [Option<SlotId>; DEPTH] = [None; DEPTH];
    let mut failure = None;
    for _ in 0..ROUNDS {
        // The requests of a round are submitted together: one by one, the card would finish each
        // before the next comes.
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
            // A loop and not a sleep; it is passed once if all interrupts came at once.
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
