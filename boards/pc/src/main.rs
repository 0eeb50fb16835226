//! Judges the stack with a controller and a card that others wrote: QEMU's `sdhci-pci` and its SD card, on the machine q35.
//!
//! The card is brought up, written and read by mmcq as any firmware would, by DMA, driven by nothing but interrupts: the controller's, and
//! the alarm that the engine asks for. Then it is counted how many instructions a request takes. `tools/boards.sh` builds and runs this, and looks
//! at the card's image afterwards.
//!
//! With a command line it does what that says instead (`whole.rs`), for the exchange with Linux (`tools/linux.sh`).
#![no_std]
#![no_main]

mod board;
mod counted;
#[path = "../../plan/judge.rs"]
mod judge;
mod path;
#[path = "../../plan/pattern.rs"]
mod pattern;
mod start;
mod whole;

use board::{Device, Identity, Once, say};
use core::future::Future;
use core::pin::pin;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use counted::Counted;
use judge::{BUFFER_BYTES, DEPTH, Judge, Writers};
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf, Error, Stats};
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{self, Sdhci, Table};
use mmcq::task::{Shared, Timer};

/// The stack of this image.
pub type Stack = Shared<board::InterruptsOff, Sdhci<Counted<Mmio>, Identity, 64>, 32>;

/// Lies where controllers like it.
#[repr(C, align(4096))]
struct Pages<T>(T);

static SCRATCH: Once<Pages<[u8; card::SCRATCH_BYTES as usize]>> = Once::new(Pages([0; _]));
static BUFFERS: Once<Pages<[[u8; BUFFER_BYTES]; DEPTH]>> = Once::new(Pages([[0; _]; _]));
static BOUNCE: Once<Pages<[u8; BUFFER_BYTES]>> = Once::new(Pages([0; _]));
static BORROWED: Once<[u8; BUFFER_BYTES]> = Once::new([0; _]);
static WRITERS: Once<Writers> = Once::new([[0; _]; _]);
static MEASURED: Once<Pages<[[u8; 4096]; 32]>> = Once::new(Pages([[0; _]; _]));
static TABLE: Once<Table<64>> = Once::new(Table::new());
static PLACE: Once<Option<Stack>> = Once::new(None);

/// The stack, once the interrupt handler may use it.
static STACK: AtomicPtr<Stack> = AtomicPtr::new(core::ptr::null_mut());
/// Interrupts of the controller, and of the alarm.
pub static INTERRUPTS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
/// The task has been woken.
static WOKEN: AtomicBool = AtomicBool::new(false);

/// The interrupt of the controller.
#[unsafe(no_mangle)]
extern "C" fn card_interrupt() {
    interrupt(&INTERRUPTS[0], Stack::on_irq);
}

/// The interrupt of the alarm.
#[unsafe(no_mangle)]
extern "C" fn alarm_interrupt() {
    interrupt(&INTERRUPTS[1], Stack::poll);
}

/// Nothing that we have asked for.
#[unsafe(no_mangle)]
extern "C" fn other_interrupt() {}

#[inline(always)]
fn interrupt(counter: &AtomicU32, run: impl Fn(&Stack)) {
    // SAFETY: either null or the stack in `PLACE`, which lives for ever and is only shared from then on.
    if let Some(stack) = unsafe { STACK.load(Ordering::Acquire).as_ref() } {
        // Nobody else adds.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        run(stack);
    }
    board::served();
}

const WAKER: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(core::ptr::null(), &WAKER), wake, wake, |_| {});

fn wake(_: *const ()) {
    WOKEN.store(true, Ordering::Release);
}

/// Runs a future to its end; sleeps while nobody wakes it. The stack is not touched from here: interrupts drive it.
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

/// SD host controller, by PCI's classes.
const SD_HOST: u32 = 0x08_05;

fn stack() -> Result<&'static Stack, &'static str> {
    let mut seen = 0;
    let found = Device::all().find(|device| {
        seen += 1;
        device.class() >> 8 == SD_HOST
    });
    let Some(device) = found else {
        say(format_args!("{seen} PCI devices, none of class 08.05 (SD host controller)"));
        return Err("no controller");
    };
    let (base, pin) = device.enable();
    let (vendor, id) = device.id();
    say(format_args!("controller: PCI {vendor:04x}:{id:04x}, registers at {base:#x}, interrupt {pin}"));
    let base = NonNull::new(core::ptr::without_provenance_mut::<u8>(base)).ok_or("no address")?;
    // SAFETY: the controller's page, which nobody else uses: `PLACE` is taken once.
    let regs = Counted::new(unsafe { Mmio::new(base) });
    let table = TABLE.take().ok_or("taken")?;
    let host = Sdhci::new(regs, Identity, table, sdhci::Config::new()).map_err(|error| {
        say(format_args!("{error}"));
        "no controller"
    })?;
    let timer = Timer { now_ns: board::now_ns, set_alarm: board::set_alarm };
    let place = PLACE.take().ok_or("taken")?;
    let stack: &'static Stack = place.insert(Shared::new(board::InterruptsOff, timer, host, Config::DEFAULT));
    STACK.store(core::ptr::from_ref(stack).cast_mut(), Ordering::Release);
    board::listen(pin);
    Ok(stack)
}

async fn judge(stack: &'static Stack) -> Result<bool, Error> {
    let (Some(Pages(scratch)), Some(Pages(bounce)), Some(borrowed)) =
        (SCRATCH.take(), BOUNCE.take(), BORROWED.take())
    else {
        return Ok(false);
    };
    let (Some(Pages(buffers)), Some(writers), Some(Pages(measured))) =
        (BUFFERS.take(), WRITERS.take(), MEASURED.take())
    else {
        return Ok(false);
    };
    let mut buffers = buffers.each_mut().map(|buffer| DmaBuf::from_static(buffer));

    let card = card::bring_up(stack, DmaBuf::from_static(scratch), Options::DEFAULT).await.0?;
    let unit = if card.target.block_addressed { "blocks" } else { "bytes" };
    say(format_args!(
        "card: {} blocks, addressed in {unit}, {:?}, {:?}, {} Hz",
        card.target.sectors, card.timing, card.width, card.clock_hz
    ));

    match board::command_line().trim() {
        "" => {}
        "sum" => return whole::sum(stack, buffers, card.target.sectors).await,
        "copy" => return whole::copy(stack, buffers, card.target.sectors).await,
        "path" => {
            let buffers = measured.each_mut().map(|buffer| DmaBuf::from_static(buffer));
            path::measure(stack, buffers, 0).await?;
            return Ok(true);
        }
        other => {
            say(format_args!("command line: {other:?}, expected nothing, sum, copy or path"));
            return Ok(false);
        }
    }
    let mut judge = Judge { card_blocks: card.target.sectors, writers, done: [0; 4], wrong: 0 };
    judge.one_by_one(stack, bounce, borrowed).await?;
    judge.together(stack, &mut buffers).await?;
    let [writes, written, reads, read] = judge.done;
    say(format_args!("steps: {writes} writes of {written} blocks, {reads} reads of {read} blocks"));
    let [buf, ..] = buffers;
    let (verified, _) = judge.read_back(stack, buf).await?;
    say(format_args!("read back: {verified} blocks, {} wrong", judge.wrong));
    report(stack);
    let buffers = measured.each_mut().map(|buffer| DmaBuf::from_static(buffer));
    // Between the windows, where the card holds zeros and goes on to.
    let base = pattern::window_start(pattern::WINDOWS - 1, card.target.sectors);
    path::measure(stack, buffers, base - u64::from(pattern::WINDOW_BLOCKS)).await?;
    Ok(judge.wrong == 0)
}

/// What it took.
fn report(stack: &Stack) {
    let Stats { requests, transfers, merged, faults, lost_interrupts, start_retries, .. } =
        stack.with(|engine| *engine.stats());
    let [card, alarm] = INTERRUPTS.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    say(format_args!("queue: {requests} requests, {transfers} transfers, {merged} merged"));
    say(format_args!("interrupts: {card} of the controller, {alarm} of the alarm, {lost_interrupts} lost"));
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
    match run(judge(stack)) {
        Ok(true) => {
            say(format_args!("result: all is well"));
            board::exit(0)
        }
        Ok(false) => say(format_args!("result: the card holds something else")),
        Err(error) => say(format_args!("result: {error}")),
    }
    board::exit(1)
}
