//! Judges the stack with a controller and a card that others wrote: QEMU's PL181 and its SD card, on the
//! machine vexpress-a9.
//!
//! The card is brought up, written and read by mmcq as any firmware would, driven by nothing but
//! interrupts: those of the PL181, and the alarm that the engine asks for. `tools/boards.sh` builds and
//! runs this, and looks at the card's image afterwards.
#![no_std]
#![no_main]

mod board;
#[path = "../../plan/judge.rs"]
mod judge;
#[path = "../../plan/pattern.rs"]
mod pattern;
mod provoke;
mod start;

use board::{Once, say};
use core::future::Future;
use core::pin::pin;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use judge::{BUFFER_BYTES, DEPTH, Judge, Writers};
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error, Stats};
use mmcq::host::Width;
use mmcq::host::pl181::{self, Pl181};
use mmcq::host::regs::Mmio;
use mmcq::task::{Shared, Timer};

/// The stack of this image.
pub type Stack = Shared<board::InterruptsOff, Pl181<Mmio>, 8>;

/// Lies where words lie.
#[repr(C, align(4))]
struct Words<T>(T);

static SCRATCH: Once<[u8; card::SCRATCH_BYTES as usize]> = Once::new([0; _]);
static BUFFERS: Once<Words<[[u8; BUFFER_BYTES]; DEPTH]>> = Once::new(Words([[0; _]; _]));
/// Used from its second byte on: words at odd addresses must do too.
static BOUNCE: Once<Words<[u8; BUFFER_BYTES + 1]>> = Once::new(Words([0; _]));
static BORROWED: Once<[u8; BUFFER_BYTES]> = Once::new([0; _]);
static WRITERS: Once<Writers> = Once::new([[0; _]; _]);
static PLACE: Once<Option<Stack>> = Once::new(None);

/// The stack, once the interrupt handler may use it.
static STACK: AtomicPtr<Stack> = AtomicPtr::new(core::ptr::null_mut());
/// Interrupts of the controller, and of the alarm.
static INTERRUPTS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
/// The task has been woken.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// The interrupt handler.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    board::dispatch(|id| {
        // SAFETY: either null or the stack in `PLACE`, which lives for ever and is only shared from then on.
        let Some(stack) = (unsafe { STACK.load(Ordering::Acquire).as_ref() }) else { return };
        let (counter, run): (_, fn(&Stack)) = match id {
            board::MCI_IRQ => (&INTERRUPTS[0], Stack::on_irq),
            board::TIMER_IRQ => (&INTERRUPTS[1], Stack::poll),
            _ => return,
        };
        // Nobody else adds.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        run(stack);
    });
}

const WAKER: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(core::ptr::null(), &WAKER), wake, wake, |_| {});

fn wake(_: *const ()) {
    WOKEN.store(true, Ordering::Release);
}

/// Runs a future to its end; sleeps while nobody wakes it. The stack is not touched from here: interrupts
/// drive it.
fn run<F: Future>(future: F) -> F::Output {
    // SAFETY: the functions of the table ignore their pointer.
    let waker = unsafe { Waker::from_raw(RawWaker::new(core::ptr::null(), &WAKER)) };
    let mut future = pin!(future);
    let mut context = Context::from_waker(&waker);
    loop {
        WOKEN.store(false, Ordering::Release);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        board::sleep_until(|| WOKEN.load(Ordering::Acquire));
    }
}

fn stack() -> Result<&'static Stack, &'static str> {
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(board::MCI)).ok_or("no address")?;
    // SAFETY: the controller's page, which nobody else uses: `PLACE` is taken once.
    let regs = unsafe { Mmio::new(base) };
    let config = pl181::Config { width: Width::W4, ..pl181::Config::new(board::MCI_HZ, board::MCI_HZ) };
    let host = Pl181::new(regs, config).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    let timer = Timer { now_ns: board::now_ns, set_alarm: board::set_alarm };
    let place = PLACE.take().ok_or("taken")?;
    let stack: &'static Stack = place.insert(Shared::new(board::InterruptsOff, timer, host, Config::DEFAULT));
    STACK.store(core::ptr::from_ref(stack).cast_mut(), Ordering::Release);
    Ok(stack)
}

async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let (Some(scratch), Some(Words(bounce)), Some(borrowed)) =
        (SCRATCH.take(), BOUNCE.take(), BORROWED.take())
    else {
        return Ok(false);
    };
    let (Some(Words(buffers)), Some(writers)) = (BUFFERS.take(), WRITERS.take()) else { return Ok(false) };
    let mut buffers = buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));

    let card = card::bring_up_sd(stack, DmaBuf::from_static(scratch), Options::DEFAULT).await.0?;
    let unit = if card.target.block_addressed { "blocks" } else { "bytes" };
    say(format_args!(
        "card: {} blocks, addressed in {unit}, {:?}, {:?}, {} Hz",
        card.target.sectors, card.timing, card.width, card.clock_hz
    ));

    let mut judge = Judge { card_blocks: card.target.sectors, writers, done: [0; 4], wrong: 0 };
    judge.one_by_one(stack, &mut bounce[1..], borrowed).await?;
    judge.together(stack, &mut buffers).await?;
    let [writes, written, reads, read] = judge.done;
    say(format_args!("steps: {writes} writes of {written} blocks, {reads} reads of {read} blocks"));
    let [buf, ..] = buffers;
    let (verified, buf) = judge.read_back(stack, buf).await?;
    say(format_args!("read back: {verified} blocks, {} wrong", judge.wrong));
    let (ns, buf) = provoke::path_ns(stack, buf).await?;
    say(format_args!("read of 4 KiB, alone: {ns} ns of the machine's time"));
    report(stack);
    let bad = provoke::provoke(stack, &mut judge, buf).await;
    say(format_args!("provoked: {bad} wrong ends, {} wrong blocks", judge.wrong));
    Ok(judge.wrong == 0 && bad == 0)
}

/// What it took.
fn report(stack: &Stack) {
    let Stats { requests, transfers, merged, faults, lost_interrupts, start_retries, .. } =
        stack.with(|engine| *engine.stats());
    let [mci, alarm] = INTERRUPTS.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    say(format_args!("queue: {requests} requests, {transfers} transfers, {merged} merged"));
    say(format_args!("interrupts: {mci} of the controller, {alarm} of the alarm, {lost_interrupts} lost"));
    say(format_args!("trouble: {faults} faults, {start_retries} starts again"));
}

/// The program.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    let stack = match stack() {
        Ok(stack) => stack,
        Err(why) => {
            say(format_args!("no stack: {why}"));
            board::exit(1)
        }
    };
    let result = run(judge(stack));
    match result {
        Ok(true) => {
            say(format_args!("result: all is well"));
            board::exit(0)
        }
        Ok(false) => say(format_args!("result: the card holds something else")),
        Err(error) => say(format_args!("result: {error}")),
    }
    board::exit(1)
}
