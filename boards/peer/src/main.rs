//! Cost of another stack's path on the same machine: the crates `sdhci-host` and `sdmmc-protocol`
//! (rcore-os), on QEMU's `sdhci-pci` and its SD card.
//!
//! Instructions are counted as boards/pc counts them for mmcq: from a request's submission to its
//! completion at the caller, including the interrupt's entry and its end at the APIC. This image
//! does as little as possible of what those crates leave to a runtime: no queue, no task, no
//! further lock, and buffers that are made once. So the numbers are a lower bound for that stack.
//!
//! Command line: `read N` or `write N` makes N requests twice, once to warm up and once to count.
//! `tools/peer.sh` builds and starts this image. `guest load randread|read|randwrite|write 1 N` is
//! for `mmcq guest --image`.
#![no_std]
#![no_main]

extern crate alloc;

#[path = "../../pc/src/board.rs"]
#[allow(dead_code, reason = "the shell of boards/pc has more than is needed here")]
mod board;
mod guest;
mod memory;
#[path = "../../plan/sdhci/pci.rs"]
mod pci;
mod plan;
#[path = "../../pc/src/start.rs"]
mod start;

use alloc::boxed::Box;
use alloc::vec::Vec;
use board::{now_ns, say};
use core::cell::UnsafeCell;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use dma_api::{
    CpuDmaBuffer, DeviceDma, DmaCoherency, DmaConstraints, DmaDeviceInfo, DmaDirection, DmaDomainId,
};
use rdif_block::{
    BHardwareQueue, BlkError, BlockController, CompletedRequest, CompletionSink, ControllerEvent,
    HardIrqHandler, OwnedRequest, OwnedRequestBatch, RequestFlags, RequestId, RequestOp, SubmissionSink,
};
use sdhci_host::{HostTimer, Sdhci, rdif};
use sdmmc_protocol::sdio::host::SdMmcIrqHost;
use sdmmc_protocol::sdio::init::CardInitPreference;

const BLOCKS: u32 = 8;
const BYTES: usize = BLOCKS as usize * 512;
/// First block of the requests, and number of different places.
const BASE: u64 = 1000;
const PLACES: u64 = 251;

/// The part of the other stack's driver that acknowledges interrupts.
struct Handler(UnsafeCell<Option<Box<dyn HardIrqHandler>>>);

// SAFETY: set once before interrupts are on; after that only the interrupt handler uses it, on one
// core.
unsafe impl Sync for Handler {}

static HANDLER: Handler = Handler(UnsafeCell::new(None));
static ACKNOWLEDGED: AtomicBool = AtomicBool::new(false);
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Interrupt handler of the controller.
#[unsafe(no_mangle)]
extern "C" fn card_interrupt() {
    // No other context changes the counter.
    INTERRUPTS.store(INTERRUPTS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    // SAFETY: interrupts do not nest here.
    let handler = unsafe { (*HANDLER.0.get()).as_mut() };
    if handler.is_some_and(|handler| !handler.ack().is_spurious()) {
        ACKNOWLEDGED.store(true, Ordering::Release);
    }
    board::served();
}

/// Interrupt handler of the alarm, which this image does not set.
#[unsafe(no_mangle)]
extern "C" fn alarm_interrupt() {
    board::served();
}

/// Interrupt handler for interrupts that the image did not enable.
#[unsafe(no_mangle)]
extern "C" fn other_interrupt() {}

struct Clock;

impl HostTimer for Clock {
    fn now_ms(&self) -> u64 {
        now_ns() / 1_000_000
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

/// Receives accepted and completed requests of the other stack's queue.
#[derive(Default)]
struct Sink {
    done: Option<CompletedRequest>,
}

impl CompletionSink for Sink {
    fn complete(&mut self, request: CompletedRequest) {
        self.done = Some(request);
    }
}

impl SubmissionSink for Sink {
    fn accepted(&mut self, _: RequestId) {}
}

/// Waits until the queue has work to do, and lets it do the work. Returns `false` if nothing
/// happened for a second.
fn advance(queue: &mut BHardwareQueue, sink: &mut Sink) -> Result<bool, BlkError> {
    let began_ns = now_ns();
    let retry_ns = queue.register_retry_after().map(|after| began_ns + after.as_nanos() as u64);
    loop {
        if ACKNOWLEDGED.swap(false, Ordering::Acquire) {
            queue.drain_completions(sink)?;
            return Ok(true);
        }
        if retry_ns.is_some_and(|at_ns| now_ns() >= at_ns) {
            queue.advance_register_retry(sink)?;
            return Ok(true);
        }
        if now_ns() > began_ns + 1_000_000_000 {
            return Ok(false);
        }
    }
}

fn request(
    queue: &mut BHardwareQueue,
    batch: &mut OwnedRequestBatch,
    what: OwnedRequest,
) -> Option<CpuDmaBuffer> {
    let mut sink = Sink::default();
    batch.push_back(what);
    let submitted = queue.submit_batch_owned(batch, &mut sink);
    if submitted.accepted() != 1 || queue.commit_submissions().is_err() {
        say(format_args!("not accepted: {:?}", submitted.disposition()));
        return None;
    }
    loop {
        // As in boards/pc: a loop, not a sleep.
        if ACKNOWLEDGED.swap(false, Ordering::Acquire)
            && let Err(error) = queue.drain_completions(&mut sink)
        {
            say(format_args!("{error}"));
            return None;
        }
        if queue.register_retry_after().is_some() {
            // A failure shows in the count by the time that passes.
            if !matches!(advance(queue, &mut sink), Ok(true)) {
                return None;
            }
        }
        if let Some(done) = sink.done {
            if let Err(error) = done.result {
                say(format_args!("{error}"));
                return None;
            }
            return Some(done.data?.into_cpu_buffer());
        }
    }
}

/// Returns the byte that the card holds at offset `at` of this block.
fn pattern(lba: u64, at: usize) -> u8 {
    (lba as u8).wrapping_mul(31).wrapping_add((at / 512 * 17 + at) as u8)
}

/// The job that the command line requests.
enum Job {
    Count { write: bool, count: u64 },
    Guest(guest::Load),
}

fn job(line: &'static str) -> Option<Job> {
    let mut words = line.split_whitespace();
    let what = words.next()?;
    if what == "guest" {
        return guest::Load::parse(words).map(Job::Guest);
    }
    let count = words.next()?.parse().ok().filter(|count| (1..=100_000).contains(count))?;
    match what {
        "read" => Some(Job::Count { write: false, count }),
        "write" => Some(Job::Count { write: true, count }),
        _ => None,
    }
}

fn measure() -> Option<()> {
    let line = board::command_line();
    let Some(job) = job(line) else {
        say(format_args!("command line: {line:?}, expected 'read N', 'write N' or 'guest load LOAD 1 N'"));
        return None;
    };
    let write = match &job {
        Job::Count { write, .. } => *write,
        Job::Guest(load) => load.write,
    };
    let device = pci::sd_host().ok()?;
    let (base, pin) = pci::enable(device).ok()?;
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(base))?;
    // SAFETY: the address is the controller's register page, which no other code uses.
    let mut host = unsafe { Sdhci::new(base) };
    static CLOCK: Clock = Clock;
    host.set_timer(&CLOCK);
    static IDENTITY: memory::Identity = memory::Identity;
    let limits = DmaConstraints::new(u32::MAX.into());
    let dma =
        DeviceDma::new(DmaDeviceInfo::new(DmaDomainId::Direct, DmaCoherency::Coherent, limits), &IDENTITY);
    let config = rdif::dma_config("sdhci-pci", 0, &dma);
    host.configure_dma(dma.clone()).ok()?;
    let mut controller = rdif::initializing_device(host.into_parts(), config, CardInitPreference::SdFirst);
    let mut update = controller.advance(ControllerEvent::Start { target_queues: 1 }).ok()?;
    let mut queue = update.take_queues().pop()?;
    let handler = update.take_irq_endpoints().pop()?.into_handler();
    // SAFETY: interrupts are off.
    unsafe { *HANDLER.0.get() = Some(handler) };
    board::listen(pin);

    // Bring-up may take at most 10 s.
    let began_ns = now_ns();
    while queue.info().device.num_blocks == 0 {
        let mut sink = Sink::default();
        match advance(&mut queue, &mut sink) {
            Ok(_) if now_ns() - began_ns < 10_000_000_000 => {}
            Ok(_) => {
                say(format_args!("bring-up: no end after 10 s"));
                return None;
            }
            Err(error) => {
                say(format_args!("bring-up: {error}"));
                return None;
            }
        }
    }
    say(format_args!("card: {} blocks", queue.info().device.num_blocks));

    let mut batch = OwnedRequestBatch::with_capacity(1);
    let direction = if write { DmaDirection::ToDevice } else { DmaDirection::FromDevice };
    let new = |direction| CpuDmaBuffer::new_zero(&dma, NonZeroUsize::new(BYTES)?, 4096, direction).ok();
    let make = |op, lba, buffer: CpuDmaBuffer| OwnedRequest {
        op,
        lba,
        block_count: BLOCKS,
        data: Some(buffer.prepare_for_device()),
        flags: RequestFlags::NONE,
    };
    let op = if write { RequestOp::Write } else { RequestOp::Read };
    let count = match job {
        Job::Count { count, .. } => count,
        Job::Guest(load) => {
            let mut kept = new(direction);
            return load.run(base, queue.info().device.num_blocks, |lba| {
                kept = Some(request(&mut queue, &mut batch, make(op, lba, kept.take()?))?);
                Some(())
            });
        }
    };
    // The blocks get their content first, written by this stack.
    let mut buffer = new(DmaDirection::ToDevice)?;
    for place in 0..PLACES {
        let lba = BASE + place * u64::from(BLOCKS);
        let bytes: Vec<u8> = (0..BYTES).map(|at| pattern(lba, at)).collect();
        buffer.copy_from_slice_cpu(&bytes);
        buffer = request(&mut queue, &mut batch, make(RequestOp::Write, lba, buffer))?;
    }
    let mut buffer = new(direction)?;
    let (mut place, mut counted) = (0, (0, 0));
    for _ in 0..2 {
        let before = (INTERRUPTS.load(Ordering::Relaxed), now_ns());
        for _ in 0..count {
            place = (place + 61) % PLACES;
            let lba = BASE + place * u64::from(BLOCKS);
            buffer = request(&mut queue, &mut batch, make(op, lba, buffer))?;
        }
        counted = (now_ns() - before.1, INTERRUPTS.load(Ordering::Relaxed) - before.0);
    }
    if !write {
        let lba = BASE + place * u64::from(BLOCKS);
        let wrong =
            buffer.as_slice_cpu().iter().enumerate().filter(|&(at, &byte)| byte != pattern(lba, at)).count();
        if wrong > 0 {
            say(format_args!("the last read: {wrong} bytes are wrong"));
            return None;
        }
    }
    let (instructions, interrupts) = counted;
    say(format_args!(
        "peer: {} {} instructions, interrupts {}.{}",
        if write { "write" } else { "read" },
        instructions / count,
        u64::from(interrupts) / count,
        10 * u64::from(interrupts) / count % 10
    ));
    Some(())
}

/// Main function of the image.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    memory::start();
    board::start();
    board::exit(if measure().is_some() { 0 } else { 1 })
}
