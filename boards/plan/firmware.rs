//! The parts of firmware around the stack: a static place for it, interrupts that drive it, a task
//! that sleeps until it is woken, memory, and a report at the end.

use super::alone::Once;
use super::judge::{BUFFER_BYTES, DEPTH, Writers};
use crate::Stack;
use crate::board::{self, say};
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use mmcq::card;
use mmcq::engine::{Error, Stats};
use mmcq::task::Timer;

/// Clock and alarm of the board, for the stack.
pub const TIMER: Timer = Timer { now_ns: board::now_ns, set_alarm: board::set_alarm };

/// Memory that the plan uses. It is aligned as controllers need it, and each part that a controller
/// accesses begins at a whole word.
#[repr(C, align(4096))]
pub struct Memory {
    /// Buffers for the steps that are under way at the same time.
    pub buffers: [[u8; BUFFER_BYTES]; DEPTH],
    /// Buffer that a caller lends to the block device.
    pub borrowed: [u8; BUFFER_BYTES],
    /// For each block, the step that wrote it last.
    pub writers: Writers,
    /// Memory for bring-up.
    pub scratch: [u8; card::SCRATCH_BYTES as usize],
    /// Memory for copies: one byte more than needed, so that tests can use an odd address.
    pub bounce: [u8; BUFFER_BYTES + 1],
}

/// The memory of the plan, which can be taken once.
pub static MEMORY: Once<Memory> = Once::new(Memory {
    buffers: [[0; _]; _],
    borrowed: [0; _],
    writers: [[0; _]; _],
    scratch: [0; _],
    bounce: [0; _],
});

static PLACE: Once<Option<Stack>> = Once::new(None);
/// Address of the stack; null until interrupt handlers may use it.
static STACK: AtomicPtr<Stack> = AtomicPtr::new(core::ptr::null_mut());
/// Number of interrupts: of the controller, and of the alarm.
pub static INTERRUPTS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
/// Whether the task has been woken.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// Source of an interrupt.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The SD controller.
    Card,
    /// The alarm of the stack.
    Alarm,
}

/// Puts the stack into its static place, where interrupt handlers find it.
pub fn place(stack: Stack) -> Result<&'static Stack, &'static str> {
    let place = PLACE.take().ok_or("taken")?;
    let stack: &'static Stack = place.insert(stack);
    STACK.store(core::ptr::from_ref(stack).cast_mut(), Ordering::Release);
    Ok(stack)
}

/// Serves an interrupt of this source.
#[inline(always)]
pub fn serve(source: Source) {
    // SAFETY: the pointer is null, or points to the stack in `PLACE`, which lives for ever and is
    // only shared from then on.
    let Some(stack) = (unsafe { STACK.load(Ordering::Acquire).as_ref() }) else { return };
    let [card, alarm] = &INTERRUPTS;
    let counter = match source {
        Source::Card => card,
        Source::Alarm => alarm,
    };
    // No other context changes the counter.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    match source {
        Source::Card => stack.on_irq(),
        Source::Alarm => stack.poll(),
    }
}

const WAKER: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(core::ptr::null(), &WAKER), wake, wake, |_| {});

fn wake(_: *const ()) {
    wake_task();
}

/// Wakes the task.
pub fn wake_task() {
    WOKEN.store(true, Ordering::Release);
}

/// Polls a future until it is ready, and sleeps while no waker is called. This function does not
/// call the stack: interrupts drive it.
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

/// Prints a description of the card.
pub fn introduce(card: &card::Card) {
    let unit = if card.params.block_addressed { "blocks" } else { "bytes" };
    say(format_args!(
        "card: {} blocks, addressed in {unit}, {:?}, {:?}, {} Hz",
        card.params.sectors, card.timing, card.width, card.clock_hz
    ));
}

/// Prints counters and times of the test.
pub fn report(stack: &Stack) {
    let Stats { requests, transfers, merged, faults, lost_interrupts, start_retries, .. } =
        stack.with(|engine| *engine.stats());
    let [card, alarm] = INTERRUPTS.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    say(format_args!("queue: {requests} requests, {transfers} transfers, {merged} merged"));
    say(format_args!("interrupts: {card} of the controller, {alarm} of the alarm, {lost_interrupts} lost"));
    say(format_args!("trouble: {faults} faults, {start_retries} starts again"));
}

/// Main part of an image: what it tests, what it prints, and the status with which it ends.
pub fn main<F: Future<Output = Result<bool, Error>>>(
    stack: Result<&'static Stack, &'static str>,
    judge: impl FnOnce(&'static Stack) -> F,
) -> ! {
    match stack.map(|stack| run(judge(stack))) {
        Ok(Ok(true)) => {
            say(format_args!("result: all is well"));
            board::exit(0)
        }
        Ok(Ok(false)) => say(format_args!("result: the card holds something else")),
        Ok(Err(error)) => say(format_args!("result: {error}")),
        Err(why) => say(format_args!("no stack: {why}")),
    }
    board::exit(1)
}
