//! Uses any `sdio::MmcBus` as a host of mmcq.
//!
//! On an `MmcBus` a phase is a future that a task must poll. So the code has two halves: the engine
//! uses [`BusHost`], and [`Runner`] is a task that carries out on the bus what the engine starts.
//! The two halves communicate through a [`Mailbox`]. The queue keeps its order, merging, deadlines
//! and recovery. But phases do not follow each other directly: between two phases the executor has
//! a turn.

mod command;
mod host;
mod runner;

pub use host::BusHost;
pub use runner::Runner;

use aligned::{A4, Aligned};
use core::cell::RefCell;
use core::task::Waker;
use critical_section::Mutex;
use mmcq::host::{Done, Fault, Phase, Width};
use sdio::{MmcBus, MmcError};

/// Work that the engine gives to the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Phase(Phase),
    /// Calls `init_idle` of the bus.
    Init,
    /// Calls `set_bus` of the bus, with this width and this clock in hertz.
    Set(Width, u32),
}

struct Inner<'b> {
    /// Work that the runner has not begun yet; `None`: there is none.
    job: Option<Job>,
    /// Whether the runner carries out work, and uses the buffer.
    running: bool,
    /// Whether the runner must drop the work in progress.
    abort: bool,
    result: Option<Result<Done, Fault>>,
    /// Buffer for data in transfer; empty while the runner uses it.
    buffer: Option<&'b mut Aligned<A4, [u8]>>,
    /// Number of bytes at the start of the buffer that contain data.
    filled: usize,
    /// Whether the engine has enabled the card interrupt.
    card_irq_on: bool,
    /// Whether the card interrupt has come, and the engine has not taken it yet.
    card_irq: bool,
    /// Waker of the runner's task. It is cloned, woken and dropped outside of the lock, since a
    /// waker may call the stack.
    waker: Option<Waker>,
    /// Number of existing halves, [`BusHost`] and [`Runner`].
    halves: u8,
}

impl Inner<'_> {
    /// Discards the runner's work and result, because the engine no longer waits for them. Work
    /// that has begun is aborted.
    fn forget(&mut self) {
        (self.job, self.result) = (None, None);
        self.abort = self.running;
        self.wipe();
    }

    /// Clears the data, which were delivered or are not needed. While the runner uses the buffer,
    /// the runner clears them.
    fn wipe(&mut self) {
        if let Some(buffer) = &mut self.buffer {
            let filled = core::mem::take(&mut self.filled);
            buffer.get_mut(..filled).unwrap_or_default().fill(0);
        }
    }
}

/// The connection between [`BusHost`] and [`Runner`]: a static variable, or a local variable of
/// `main`.
pub struct Mailbox<'b> {
    inner: Mutex<RefCell<Inner<'b>>>,
}

impl core::fmt::Debug for Mailbox<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.with(|inner| {
            f.debug_struct("Mailbox")
                .field("job", &inner.job)
                .field("running", &inner.running)
                .finish_non_exhaustive()
        })
    }
}

impl<'b> Mailbox<'b> {
    /// Makes a mailbox between [`BusHost`] and [`Runner`], with memory for the data of one
    /// transfer. The length of the memory limits the length of a transfer.
    ///
    /// Data are copied through this memory, so that neither of the two accesses memory of the
    /// other. The copy is cleared when the transfer has ended.
    pub const fn new(buffer: &'b mut Aligned<A4, [u8]>) -> Self {
        let inner = Inner {
            job: None,
            running: false,
            abort: false,
            result: None,
            buffer: Some(buffer),
            filled: 0,
            card_irq_on: false,
            card_irq: false,
            waker: None,
            halves: 0,
        };
        Mailbox { inner: Mutex::new(RefCell::new(inner)) }
    }

    /// Connects mmcq to `bus`. Returns the two halves of the connection: the host for mmcq's
    /// engine, and the task that carries out on the bus what the engine starts.
    ///
    /// # Errors
    /// [`MmcError::Unsupported`] for a bus in SPI mode; [`MmcError::Busy`] until both halves of an
    /// earlier call were dropped; [`MmcError::BlockSize`] if the buffer is shorter than a block of
    /// 512 bytes.
    pub fn connect<'m, B: MmcBus>(
        &'m self,
        bus: B,
    ) -> Result<(BusHost<'m, 'b>, Runner<'m, 'b, B>), MmcError> {
        if !bus.supports_mmc() {
            return Err(MmcError::Unsupported);
        }
        let free = |inner: &mut Inner<'b>| {
            let bytes = inner.buffer.as_ref().filter(|_| inner.halves == 0)?.len();
            inner.halves = 2;
            Some(bytes)
        };
        let bytes = self.with(free).ok_or(MmcError::Busy)?;
        let host = BusHost::new(self, &bus, bytes).inspect_err(|_| self.with(|inner| inner.halves = 0))?;
        Ok((host, Runner::new(self, bus)))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner<'b>) -> R) -> R {
        critical_section::with(|cs| f(&mut self.inner.borrow_ref_mut(cs)))
    }

    /// Stores the waker of the runner's task, which is woken for events from now on.
    fn listen(&self, waker: &Waker) {
        if self.with(|inner| inner.waker.as_ref().is_some_and(|known| known.will_wake(waker))) {
            return;
        }
        let mine = waker.clone();
        let before = self.with(|inner| inner.waker.replace(mine));
        drop(before);
    }

    /// Removes the waker of the runner's task from the mailbox, and drops it.
    fn unheard(&self) {
        let before = self.with(|inner| inner.waker.take());
        drop(before);
    }

    /// Takes the waker of the runner's task (the task that polls the bus futures) out of the
    /// mailbox; `None` if the mailbox has none.
    fn take_waker(&self) -> Option<Waker> {
        self.with(|inner| inner.waker.take())
    }

    /// Wakes the runner's task, if the mailbox has its waker.
    fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            waker.wake();
        }
    }
}
