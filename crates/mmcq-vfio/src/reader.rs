//! The stack on a card reader, driven by one thread, which sleeps until the controller interrupts
//! or a deadline has come.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::address::Address;
use crate::device::{Device, Options};
use crate::error::Error;
use crate::interrupt::{Interrupt, Kind};
use crate::memory::{Mapped, Memory};
use crate::sysfs::Sysfs;
use crate::window::Window;
use mmcq::card::power::Off;
use mmcq::card::{self, Card, Event, Family, SCRATCH_BYTES};
use mmcq::engine::{self, Claim, DmaBuf, SlotSet};
use mmcq::host::sdhci::regs::{CAPABILITIES, CAPABILITIES_2, INT_SIGNAL, INT_STATUS, VERSION};
use mmcq::host::sdhci::{Sdhci, Streams, Table, TransferMode};
use mmcq::host::{BusOp, Regs};
use mmcq::task::{Lock, Timer};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Number of requests that the engine can hold at a time.
pub const SLOTS: usize = 64;
/// Size in bytes of a buffer that [`Reader::buffer`] returns.
pub const PIECE_BYTES: u32 = 128 << 10;
/// Number of DMA descriptors, of at most 64 KiB each: enough to merge several buffers into one
/// transfer.
const DESCRIPTORS: usize = 64;
/// Longest sleep: after this time the stack is polled although nothing is due.
const QUIET: Duration = Duration::from_secs(1);
/// Longest time that a future may go on after its card has gone.
const LEAVE: Duration = Duration::from_secs(5);
/// Largest interval between two polls of the stack while a future still runs although its card was
/// removed.
const LEAVE_LOOK: Duration = Duration::from_millis(20);
/// Largest number of events of the card that are handled in one poll.
const EVENTS_MAX: u32 = 4;
/// Largest number of times that the interrupt handler runs for one interrupt message. An event
/// between the handler's read and its acknowledge keeps the interrupt asserted and sends no new
/// message, so the handler runs again.
const TURNS_MAX: u32 = 16;

/// The stack of a reader: mmcq's engine with the SDHCI driver, for use by one thread.
pub type Stack = mmcq::task::Stack<(Alone, Streams<Window, Mapped, DESCRIPTORS>), SLOTS>;

/// A lock for a stack that only one thread can reach; it locks nothing.
#[derive(Debug)]
pub struct Alone(PhantomData<*const ()>);

// SAFETY: `Alone` is not `Sync`, so a `Stack` with it stays in one thread, and the closures that
// run under the lock do not use the stack again.
unsafe impl Lock for Alone {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// Returns the nanoseconds since the first call, by a clock that no program can set.
fn now_ns() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ns(ORIGIN.get_or_init(Instant::now).elapsed())
}

/// Returns a duration as a number of nanoseconds, or the largest `u64` if the number is larger.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The stack's clock. It needs no alarm, since the deadline is read before each sleep.
const TIMER: Timer = Timer { now_ns, set_alarm: |_| {} };

type Supervisor = Pin<Box<dyn Future<Output = (Event, DmaBuf)>>>;

/// The stack, on the heap at a fixed address. It is freed when the reader is dropped.
struct Owned(NonNull<Stack>);

impl Owned {
    fn new(stack: Stack) -> Self {
        Owned(NonNull::from(Box::leak(Box::new(stack))))
    }

    fn get(&self) -> &Stack {
        // SAFETY: the box lives until `drop`, and only shared references to it exist.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box. `Reader` has dropped the supervisor, which is the
        // only future that keeps a longer reference; all other users borrow the reader.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A card reader, and its card after the card has been brought up.
pub struct Reader {
    // The fields are dropped in this order: the supervisor, which borrows the stack; the device,
    // which then reaches no memory any more; the stack.
    supervisor: RefCell<Option<Supervisor>>,
    device: Device,
    interrupt: Interrupt,
    stack: Owned,
    memory: Memory,
    /// Claims on all buffers taken from `memory`. By a claim the reader gets back the buffer of an
    /// abandoned request.
    claims: RefCell<Vec<Claim>>,
    options: Cell<card::Options>,
    card: Cell<Option<Card>>,
    ext_csd: Cell<Option<[u8; 512]>>,
    interrupts: Cell<u64>,
    /// Time at which the present [`pause`](Self::pause) ends; `None`: there is no pause.
    pause_ends: Cell<Option<Instant>>,
}

impl Reader {
    /// Takes over the controller at `address`, and resets it before it can reach any memory.
    pub fn open(address: Address, options: Options) -> Result<Self, Error> {
        let device = Device::open(&Sysfs::default(), address, options.noiommu)?;
        let window = device.registers(options.slot, options.by_calls)?;
        let memory = device.memory()?;
        let refused = |error| Error::Controller { address, error };
        let table = memory
            .place(Table::new())
            .ok_or_else(|| Error::Registers { address, what: "no memory for its descriptors".to_owned() })?;
        // The driver checks first whether the device is an SDHCI controller.
        let host = Sdhci::new(window, memory.mapped(), table, options.config).map_err(refused)?;
        let host = Streams::new(host, options.streams);
        let interrupt = device.interrupt()?;
        device.connect()?;
        let stack = Stack::new(Alone(PhantomData), TIMER, host, engine::Config::DEFAULT);
        Ok(Reader {
            supervisor: RefCell::new(None),
            device,
            interrupt,
            stack: Owned::new(stack),
            memory,
            claims: RefCell::default(),
            options: Cell::new(card::Options::DEFAULT),
            card: Cell::new(None),
            ext_csd: Cell::new(None),
            interrupts: Cell::new(0),
            pause_ends: Cell::new(None),
        })
    }

    /// Returns the stack, whose futures [`run`](Self::run) runs.
    pub fn stack(&self) -> &Stack {
        self.stack.get()
    }

    /// Returns the PCI device of the reader.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the transfer mode (PIO or kind of DMA), and true if registers are mapped, false if
    /// each access is a system call.
    pub fn way(&self) -> (TransferMode, bool) {
        self.stack().with(|engine| {
            let Some(host) = engine.host() else { return (TransferMode::Pio, false) };
            let host = host.controller();
            // SAFETY: no register is accessed.
            (host.transfer_mode(), unsafe { host.regs() }.is_mapped())
        })
    }

    /// Returns the registers Capabilities (64 bits) and Host Controller Version.
    pub fn capabilities(&self) -> (u64, u16) {
        self.stack().with(|engine| {
            let Some(host) = engine.host() else { return (0, 0) };
            // SAFETY: registers without side effects are read.
            let regs = unsafe { host.controller().regs() };
            let words = [CAPABILITIES_2, CAPABILITIES].map(|at| u64::from(regs.read32(at)));
            (words[0] << 32 | words[1], regs.read16(VERSION))
        })
    }

    /// Returns the kind of interrupt (pin or message), and the number of interrupts that have come
    /// so far.
    pub fn interrupts(&self) -> (Kind, u64) {
        (self.interrupt.kind(), self.interrupts.get())
    }

    /// Returns the card that was brought up, or `None`.
    pub fn card(&self) -> Option<Card> {
        self.card.get()
    }

    /// Returns EXT_CSD of an eMMC as the stack last read it from the card; `None` for an SD card or
    /// without a card.
    pub fn ext_csd(&self) -> Option<[u8; 512]> {
        self.ext_csd.get()
    }

    /// Returns a buffer of [`PIECE_BYTES`] that the controller reaches; `None` while all of them
    /// (about fifteen) are in use.
    pub fn buffer(&self) -> Option<DmaBuf> {
        self.carve(PIECE_BYTES, 1)
    }

    /// Returns a buffer of `bytes` whose bus address is a multiple of `bytes`, a power of two up to
    /// 512 KiB; `None` if no such memory is free.
    pub fn aligned_buffer(&self, bytes: u32) -> Option<DmaBuf> {
        self.carve(bytes, bytes)
    }

    /// Gives out a part of the memory: `bytes` bytes at a multiple of `align`. If no part is free,
    /// first takes back the buffers of abandoned requests. `None`: there is still none.
    fn carve(&self, bytes: u32, align: u32) -> Option<DmaBuf> {
        let carved = self.memory.carve_aligned(bytes, align).or_else(|| {
            for &claim in &*self.claims.borrow() {
                if let Some(left) = self.stack().with(|engine| engine.reclaim(claim)) {
                    self.memory.give_back(left);
                }
            }
            self.memory.carve_aligned(bytes, align)
        })?;
        let (claim, mut claims) = (carved.claim(), self.claims.borrow_mut());
        if !claims.contains(&claim) {
            claims.push(claim);
        }
        Some(carved)
    }

    /// Takes back a buffer from [`buffer`](Self::buffer).
    pub fn give_back(&self, buffer: DmaBuf) {
        self.memory.give_back(buffer);
    }

    fn scratch(&self) -> DmaBuf {
        // The call that gets an empty buffer refuses it, with an error that says why.
        self.carve(SCRATCH_BYTES, 1).unwrap_or(DmaBuf::EMPTY)
    }

    /// Brings the card up and returns it. Supervises it from then on: the supervisor tunes it
    /// again, switches to slower modes, or initialises it again, while [`run`](Self::run) runs a
    /// future.
    pub fn bring_up(&mut self, options: card::Options) -> Result<Card, Error> {
        let address = self.device.address();
        self.dismiss()?;
        let (result, scratch) = self.run(card::bring_up(self.stack(), self.scratch(), options))?;
        let card = match result {
            Ok(card) => card,
            Err(error) => {
                self.give_back(scratch);
                let gone = matches!(error, engine::Error::NoCard | engine::Error::Removed)
                    || !self.stack().with(|engine| engine.present());
                return Err(if gone { Error::NoCard { address } } else { Error::BringUp { address, error } });
            }
        };
        let ext_csd = scratch.first_chunk().copied();
        self.ext_csd.set(ext_csd.filter(|_| matches!(card.family, Family::Emmc(_))));
        self.options.set(options);
        *self.supervisor.get_mut() = Some(self.supervisor(card, scratch));
        Ok(card)
    }

    /// Makes the supervisor of this card, which from now on is the reader's card. `scratch`: buffer
    /// that the supervisor uses.
    fn supervisor(&self, card: Card, scratch: DmaBuf) -> Supervisor {
        self.card.set(Some(card));
        // SAFETY: the supervisor's future is dropped before the stack: in `dismiss`, or in `drop`
        // before all else.
        let stack: &'static Stack = unsafe { self.stack.0.as_ref() };
        Box::pin(card::supervise(stack, scratch, self.options.get(), card))
    }

    /// Ends the supervisor of the previous card, and takes its memory back.
    fn dismiss(&mut self) -> Result<(), Error> {
        self.card.set(None);
        let Some(mut supervisor) = self.supervisor.get_mut().take() else { return Ok(()) };
        // A supervisor that is recovering the card cannot be dismissed; its recovery ends in
        // bounded time.
        let (_, scratch) = self.run(poll_fn(|context| {
            self.stack().with(|engine| engine.dismiss_supervisor());
            supervisor.as_mut().poll(context)
        }))?;
        self.give_back(scratch);
        Ok(())
    }

    /// Enables erase, write-zeroes and durable writes in the engine, as far as this card supports
    /// them.
    pub fn enable_extended_ops(&self) -> Result<(), Error> {
        let address = self.device.address();
        let Some(card) = self.card.get() else { return Err(Error::NoCard { address }) };
        let (result, scratch) = self.run(card::enable_extended_ops(self.stack(), &card, self.scratch()))?;
        self.give_back(scratch);
        result.map_err(|error| Error::Card { address, error })
    }

    /// Runs a future of the stack to its end. After the card was removed or exchanged, every
    /// request fails until the next [`bring_up`](Self::bring_up), so no request for one card
    /// reaches another. A future that ends because its requests failed returns its output, with the
    /// buffers in it.
    ///
    /// # Errors
    /// [`Error::Left`]: the card is gone, and the future did not end within 5 s. The future is
    /// dropped; a buffer that it held outside of a request is lost.
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let leaving = Cell::new(false);
        let mut left: Option<(Error, Instant)> = None;
        let keep = |context: &mut Context<'_>| match left.take() {
            Some((error, since)) if since.elapsed() > LEAVE => Err(error),
            before => {
                left = before.or_else(|| self.keep(context).err().map(|error| (error, Instant::now())));
                leaving.set(left.is_some());
                Ok(())
            }
        };
        awake(future, keep, || self.sleep(if leaving.get() { LEAVE_LOOK } else { QUIET }))
    }

    /// Waits this long, in a future that [`run`](Self::run) runs. Only one pause can be under way.
    pub async fn pause(&self, time: Duration) {
        let ends = Instant::now() + time;
        poll_fn(|_| {
            let over = Instant::now() >= ends;
            self.pause_ends.set((!over).then_some(ends));
            if over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sleeps until the controller interrupts, a deadline has come, or `at_most` has passed; then
    /// handles the interrupt.
    fn sleep(&self, at_most: Duration) -> Result<(), Error> {
        // Taken: a pause that still lasts sets it again when it is polled, which follows each sleep.
        let pause =
            self.pause_ends.take().map_or(QUIET, |ends| ends.saturating_duration_since(Instant::now()));
        let due = self.due().min(at_most).min(pause);
        if self.interrupt.wait(Some(due)).map_err(|error| Error::system("interrupt", error))? {
            self.served(|| self.stack().on_irq())
        } else {
            self.stack().poll();
            Ok(())
        }
    }

    /// Returns how long the caller may wait for an interrupt before it must call
    /// [`poll`](Self::poll).
    pub fn due(&self) -> Duration {
        let deadline = self.stack().with(|engine| engine.next_deadline_ns());
        let ns = deadline.map(|at_ns| Duration::from_nanos(at_ns.saturating_sub(now_ns())));
        ns.unwrap_or(QUIET).min(QUIET)
    }

    /// Handles a deadline of the engine, for a program that drives the engine itself. Returns the
    /// slots whose requests are done, one bit each.
    pub fn poll(&self) -> Result<SlotSet, Error> {
        let work = self.stack().with(|engine| engine.poll(now_ns()));
        self.keep(&mut Context::from_waker(Waker::noop()))?;
        Ok(work.completed)
    }

    /// Handles an interrupt of the controller, for a program that drives the engine itself. Returns
    /// the slots whose requests are done, one bit each.
    pub fn interrupted(&self) -> Result<SlotSet, Error> {
        let mut completed = 0;
        self.served(|| completed |= self.stack().with(|engine| engine.on_irq(now_ns())).completed)?;
        self.keep(&mut Context::from_waker(Waker::noop()))?;
        Ok(completed)
    }

    /// Returns the present time of the stack's clock, for requests that are submitted without a
    /// future.
    pub fn now_ns(&self) -> u64 {
        now_ns()
    }

    /// Returns the controller's interrupt, so that another thread can wait for it.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Calls `on_irq` for an interrupt, and then unmasks the interrupt. If it is not a pin
    /// interrupt, calls `on_irq` again as long as the controller has a further cause, at most
    /// `TURNS_MAX` times in all.
    fn served(&self, mut on_irq: impl FnMut()) -> Result<(), Error> {
        self.interrupts.set(self.interrupts.get() + 1);
        for _ in 0..TURNS_MAX {
            on_irq();
            if self.interrupt.kind() == Kind::Pin || !self.asserted() {
                break;
            }
        }
        self.interrupt.unmask().map_err(|error| Error::system("interrupt", error))
    }

    fn asserted(&self) -> bool {
        self.stack().with(|engine| {
            let Some(host) = engine.host() else { return false };
            // SAFETY: two status registers are read, and reading changes neither.
            let regs = unsafe { host.controller().regs() };
            let status = regs.read32(INT_STATUS);
            status != u32::MAX && status & regs.read32(INT_SIGNAL) != 0
        })
    }

    /// Polls the supervisor. If it reports an exception event of the card, begins another
    /// supervisor of this card. After any other event the card is not used any more, and
    /// [`Error::Left`] is returned.
    fn keep(&self, context: &mut Context<'_>) -> Result<(), Error> {
        let mut supervisor = self.supervisor.borrow_mut();
        let Some(future) = supervisor.as_mut() else { return Ok(()) };
        // A further event may be ready at once.
        for _ in 0..EVENTS_MAX {
            let Poll::Ready((event, scratch)) = future.as_mut().poll(context) else { return Ok(()) };
            match event {
                Event::Exception { card, .. } => *future = self.supervisor(card, scratch),
                _ => {
                    *supervisor = None;
                    self.give_back(scratch);
                    self.card.set(None);
                    self.stack().with(|engine| engine.set_card_params(None));
                    return Err(Error::Left { address: self.device.address() });
                }
            }
        }
        Ok(())
    }

    /// Flushes the card's cache, switches the card off, and releases the controller. An error of
    /// the card means that the flush may have failed, so written data may be lost.
    pub fn close(mut self) -> Result<(), Error> {
        let (address, card) = (self.device.address(), self.card.get());
        self.dismiss()?;
        let off = match card {
            Some(card) => {
                let off = card::power::power_off(self.stack(), &card, self.scratch(), Off::Short);
                let (result, scratch) = self.run(off)?;
                self.give_back(scratch);
                result
            }
            None => self.run(self.stack().bus(BusOp::PowerOff))?,
        };
        off.map_err(|error| Error::Card { address, error })
    }
}

/// Records whether the waker, which future and supervisor share, was called since the last
/// clearing.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls a future until it is ready, and returns its output. After each poll calls `keep`, which
/// polls the supervisor, and then `sleep`, which waits for an interrupt. `sleep` is left out if the
/// future or the supervisor was woken since the poll.
fn awake<F: Future, E>(
    future: F,
    mut keep: impl FnMut(&mut Context<'_>) -> Result<(), E>,
    mut sleep: impl FnMut() -> Result<(), E>,
) -> Result<F::Output, E> {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        woken.0.store(false, Ordering::Release);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        keep(&mut context)?;
        // The supervisor may have completed what the future waits for; then no interrupt will wake
        // the future.
        if !woken.0.load(Ordering::Acquire) {
            sleep()?;
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("device", &self.device).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmcq::host::sdhci::{SdhciConfig, SdhciInitError};

    #[test]
    fn a_controller_that_reads_all_ones_is_one_line() {
        let memory = Memory::new(false).unwrap();
        let nothing = Window::file(Arc::new(std::fs::File::open("/dev/null").unwrap()), 0);
        let table = memory.place(Table::<DESCRIPTORS>::new()).unwrap();
        let error = Sdhci::new(nothing, memory.mapped(), table, SdhciConfig::new()).err().unwrap();
        assert_eq!(error, SdhciInitError::Gone);
        let error = Error::Controller { address: "00:04.0".parse().unwrap(), error }.to_string();
        assert!(error.starts_with("0000:00:04.0: ") && error.contains("all ones"), "{error}");
        assert!(!error.contains('\n'));
    }

    /// Checks that the future is polled before the next sleep after the supervisor has ended its
    /// request: no interrupt comes for that request.
    #[test]
    fn what_the_supervisor_has_ended_is_seen_before_the_next_sleep() {
        let (ended, waiting) = (Cell::new(false), RefCell::new(None));
        let future = std::future::poll_fn(|context| {
            *waiting.borrow_mut() = Some(context.waker().clone());
            if ended.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        let sleeps = Cell::new(0);
        let keep = |_: &mut Context<'_>| {
            // The supervisor answers after the first sleep.
            if sleeps.get() == 1 {
                ended.set(true);
                let waiting: Option<Waker> = waiting.take();
                waiting.into_iter().for_each(Waker::wake);
            }
            Ok(())
        };
        let sleep = || {
            sleeps.set(sleeps.get() + 1);
            if sleeps.get() > 1 { Err("asleep on a result that is there") } else { Ok(()) }
        };
        assert_eq!(awake(future, keep, sleep), Ok(()));
    }

    #[test]
    fn memory_is_enough_for_a_deep_queue() {
        let memory = Memory::new(false).unwrap();
        memory.place(Table::<DESCRIPTORS>::new()).unwrap();
        for _ in 0..2 {
            memory.carve(SCRATCH_BYTES).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| memory.carve(PIECE_BYTES)).count(), 15);
    }

    #[test]
    fn the_clock_goes_forward_in_nanoseconds() {
        let before = now_ns();
        while now_ns() <= before {}
        assert_eq!(ns(Duration::from_millis(2)), 2_000_000);
        assert_eq!(ns(Duration::MAX), u64::MAX);
    }
}
