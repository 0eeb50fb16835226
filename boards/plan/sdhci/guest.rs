//! The loads and the probe that this image runs for `mmcq guest --image` on the simulated
//! controller. During a load, external counters count instructions, register accesses and
//! interrupts. The probe shows what a program notices while something happens to the card. Linux
//! does the same with `tools/guest-time/load.c` and `probe.c`.

use crate::Stack;
use crate::board::{now_ns, say};
use crate::lane;
use crate::plan::firmware::wake_task;
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::{DmaBuf, Error, Kind, Request};
use mmcq::host::Regs;

/// Offset of a register that no controller has; writing to it makes a mark for external counters.
const MARK: u16 = 0xf0;
const LOAD_BEGINS: u32 = 1;
const LOAD_ENDS: u32 = 2;
const SCHEDULE_BEGINS: u32 = 3;

const BLOCKS: u32 = 8;
const BYTES: u64 = BLOCKS as u64 * 512;
/// Number of places that the probe writes, as in `probe.c`.
const PLACES: usize = 256;
const GAP_US: u64 = 1000;
const PAUSE_NS: u64 = 500_000;

fn mark(stack: &Stack, number: u32) {
    stack.with(|engine| {
        if let Some(host) = engine.host() {
            // SAFETY: no register of the controller is touched.
            unsafe { lane::controller(host).regs() }.write32(MARK, number);
        }
    });
}

/// Does what the command line says after `guest`: `load LOAD DEPTH REQUESTS` or `probe
/// MILLISECONDS`.
pub async fn run(
    stack: &Stack,
    words: &str,
    card: Card,
    scratch: DmaBuf,
    buffers: [DmaBuf; 32],
) -> Result<bool, Error> {
    let mut words = words.split_whitespace();
    let mut word = || words.next().unwrap_or("");
    let (what, first, second, third) = (word(), word(), word(), word());
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| (1..=1_000_000).contains(number));
    say(format_args!("guest: begin"));
    let well = match (what, number(first), number(second), number(third)) {
        ("load", None, Some(depth @ 1..=32), Some(requests)) => {
            load(stack, first, depth as usize, requests, card.params.sectors, buffers).await?
        }
        ("probe", Some(ms), None, None) => {
            let [buffer, ..] = buffers;
            beside(stack, card, scratch, probe(stack, ms, buffer)).await?;
            true
        }
        _ => {
            say(format_args!(
                "{what}: expected load randread|read|randwrite|write DEPTH REQUESTS or probe MS"
            ));
            false
        }
    };
    mark(stack, 0);
    say(format_args!("guest: end"));
    Ok(well)
}

/// Places of a load, in order or at random.
struct Places {
    random: Option<u64>,
    next: u64,
    count: u64,
}

impl Places {
    fn next(&mut self) -> u64 {
        let place = match &mut self.random {
            // A linear congruential generator modulo 2^64; its upper half is the number.
            Some(state) => {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 32) % self.count
            }
            None => self.next % self.count,
        };
        self.next += 1;
        place * u64::from(BLOCKS)
    }
}

/// Bit mask of the load's requests under way. If a bit is set, the load must poll the request: its
/// waker was called, or the request is not submitted yet.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// Functions of a waker whose data pointer is the number of a request. The waker sets the request's
/// bit in [`ANSWERED`], so that the load polls only this request.
const OF_REQUEST: RawWakerVTable =
    RawWakerVTable::new(|number| RawWaker::new(number, &OF_REQUEST), answered, answered, |_| {});

fn answered(number: *const ()) {
    ANSWERED.fetch_or(1 << (number.addr() % 32), Ordering::AcqRel);
    wake_task();
}

fn waker_of(number: usize) -> Waker {
    // SAFETY: the functions of the table use the pointer only as a number.
    unsafe { Waker::from_raw(RawWaker::new(core::ptr::without_provenance(number), &OF_REQUEST)) }
}

/// Does this number of requests of 4 KiB, with `depth` of them under way; the CPU sleeps between.
async fn load(
    stack: &Stack,
    name: &str,
    depth: usize,
    requests: u64,
    sectors: u64,
    mut buffers: [DmaBuf; 32],
) -> Result<bool, Error> {
    let (random, write) = match name {
        "randread" => (Some(1), false),
        "randwrite" => (Some(1), true),
        "read" => (None, false),
        "write" => (None, true),
        _ => return Ok(false),
    };
    let mut places = Places { random, next: 0, count: sectors / u64::from(BLOCKS) };
    let mut ops = [const { None }; 32];
    let (mut begun, mut over, mut latency_ns) = (0, 0, 0);
    let before = stack.with(|engine| engine.stats().transfers);
    mark(stack, LOAD_BEGINS);
    let begin_ns = now_ns();
    ANSWERED.store(u32::MAX >> (32 - depth), Ordering::Release);
    let wakers: [Waker; 32] = core::array::from_fn(waker_of);
    let failed = poll_fn(|_| {
        let mut left = ANSWERED.swap(0, Ordering::AcqRel);
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            let (buffer, op) = (&mut buffers[number], &mut ops[number]);
            let context = &mut Context::from_waker(&wakers[number]);
            loop {
                if op.is_none() && begun < requests {
                    let (lba, blocks) = (places.next(), BLOCKS);
                    let kind = if write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
                    let request = Request::new(kind, core::mem::replace(buffer, DmaBuf::EMPTY));
                    *op = Some((stack.request(request), now_ns()));
                    begun += 1;
                }
                let Some((running, since_ns)) = op else { break };
                let Poll::Ready(done) = Pin::new(running).poll(context) else { break };
                latency_ns += now_ns() - *since_ns;
                *op = None;
                *buffer = done.buf;
                over += 1;
                if let Err(error) = done.result {
                    return Poll::Ready(Some(error));
                }
            }
        }
        if over == requests { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    let elapsed_ns = now_ns() - begin_ns;
    mark(stack, LOAD_ENDS);
    if let Some(error) = failed {
        return Err(error);
    }
    let sent = stack.with(|engine| engine.stats().transfers) - before;
    // Values in thousandths and hundredths, since this image has no floating point.
    let kib_per_s = requests * BYTES * 1_000_000_000 / elapsed_ns * 1000 / (1 << 20);
    let latency = latency_ns / requests / 10;
    let merged = requests * 1000 / sent.max(1);
    let elapsed = elapsed_ns / 100;
    say(format_args!(
        "{{\"load\": \"{name}\", \"bytes\": {BYTES}, \"depth\": {depth}, \"jobs\": 1, \"requests\": {requests}, \"reaps\": \"one\", \
         \"mib_per_s\": {}.{:03}, \"latency_us\": {}.{:02}, \"merged\": {}.{:03}, \"elapsed_us\": {}.{}, \"switches\": 0, \
         \"percentiles_us\": {{}}}}",
        kib_per_s / 1000,
        kib_per_s % 1000,
        latency / 100,
        latency % 100,
        merged / 1000,
        merged % 1000,
        elapsed / 10,
        elapsed % 10,
    ));
    Ok(true)
}

/// Polls `work` until it is ready. Meanwhile a supervisor brings up the card in the slot again,
/// even if it is another card than before.
async fn beside(
    stack: &Stack,
    card: Card,
    scratch: DmaBuf,
    work: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut work = pin!(work);
    let now = Cell::new(card);
    let help = async {
        let mut scratch = scratch;
        loop {
            let (event, back) = card::supervise(stack, scratch, Options::DEFAULT, now.get()).await;
            scratch = back;
            match event {
                Event::Inserted(Ok(card)) | Event::Changed(card) | Event::Exception { card, .. } => {
                    now.set(card)
                }
                Event::Inserted(Err(error)) => say(format_args!("supervisor: {error}")),
                _ => {}
            }
        }
    };
    let mut help = pin!(help);
    poll_fn(|context| {
        if work.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let _: Poll<()> = help.as_mut().poll(context);
        Poll::Pending
    })
    .await;
    Ok(())
}

/// Does the probe of `probe.c`, and prints the same lines.
async fn probe(stack: &Stack, ms: u64, mut buffer: DmaBuf) {
    // Number of the last acknowledged write of each place.
    let mut good = [0u32; PLACES];
    let (mut requests, mut errors, mut lost, mut wrong) = (0u32, 0u32, 0u32, 0u32);
    for place in 0..PLACES {
        buffer.fill(0);
        let kind = Kind::Write { lba: place as u64 * u64::from(BLOCKS), blocks: BLOCKS };
        let done = stack.request(Request::new(kind, buffer)).await;
        buffer = done.buf;
        errors += u32::from(done.result.is_err());
    }
    mark(stack, SCHEDULE_BEGINS);
    let begin_ns = now_ns();
    let us = |at_ns: u64| at_ns.saturating_sub(begin_ns) / 1000;
    let mut since_ns = None;
    let mut number = 0u32;
    while us(now_ns()) < ms * 1000 {
        let writes = number % 2 == 0;
        let place = (number as usize / 2 + if writes { 0 } else { 128 }) * 61 % PLACES;
        let lba = place as u64 * u64::from(BLOCKS);
        let asked_ns = *since_ns.get_or_insert(now_ns());
        let stamp = number + 1;
        if writes {
            buffer[..4].copy_from_slice(&stamp.to_le_bytes());
            buffer[BYTES as usize - 4..].copy_from_slice(&stamp.to_le_bytes());
        }
        let blocks = BLOCKS;
        let kind = if writes { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
        let done = stack.request(Request::new(kind, buffer)).await;
        buffer = done.buf;
        let now = now_ns();
        match done.result {
            Ok(_) => {
                if (now - asked_ns) / 1000 > GAP_US {
                    say(format_args!("probe: gap {} {}", us(asked_ns), us(now)));
                }
                since_ns = None;
                requests += 1;
                let word = |at: usize| {
                    u32::from_le_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]])
                };
                let stamps = [word(0), word(BYTES as usize - 4)];
                if writes {
                    good[place] = stamp;
                } else if stamps.iter().any(|&stamp| stamp != 0 && stamp as usize / 2 * 61 % PLACES != place)
                {
                    wrong += 1;
                } else {
                    lost += u32::from(stamps.iter().any(|&stamp| stamp < good[place]));
                }
            }
            Err(error) => {
                say(format_args!("probe: error {} {error:?}", us(now)));
                errors += 1;
            }
        }
        number += 1;
        // Without a card the pause fails, and the next request comes sooner.
        let _ = stack.request(Request::new(Kind::Pause { ns: PAUSE_NS }, DmaBuf::EMPTY)).await;
    }
    say(format_args!("probe: {requests} requests, {errors} errors, {lost} lost, {wrong} wrong"));
}
