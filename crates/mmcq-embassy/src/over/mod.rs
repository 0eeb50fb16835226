//! Any `sdio::MmcBus` as one of our hosts.
//!
//! An `MmcBus` hides the end of a phase in a future that a task must poll, so there are two halves:
//! [`BusHost`] is what the engine has, [`Runner`] is a task that carries out on the bus what the
//! engine starts. They talk through a [`Mailbox`]. The queue keeps its order, merging, deadlines
//! and recovery; what is lost is the overlap: between two phases there is a turn of the executor.

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

/// What the bus is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Phase(Phase),
    /// `init_idle`.
    Init,
    /// `set_bus`.
    Set(Width, u32),
}

struct Inner<'b> {
    /// Not begun yet.
    job: Option<Job>,
    /// The runner is at it, and has the buffer.
    running: bool,
    /// What it runs is to be dropped.
    abort: bool,
    result: Option<Result<Done, Fault>>,
    /// Data on their way; away while the runner has it.
    buffer: Option<&'b mut Aligned<A4, [u8]>>,
    /// Its first bytes hold data: so many.
    filled: usize,
    /// The engine listens for the card's interrupt.
    card_irq_on: bool,
    /// The interrupt has come.
    card_irq: bool,
    /// Of the runner's task. Cloned, woken and dropped outside of the lock: a waker may come back
    /// in.
    waker: Option<Waker>,
    /// How many of [`BusHost`] and [`Runner`] there are.
    halves: u8,
}

impl Inner<'_> {
    /// The engine does not wait for what is under way any more.
    fn forget(&mut self) {
        (self.job, self.result) = (None, None);
        self.abort = self.running;
        self.wipe();
    }

    /// Clears the data, which have arrived or are not wanted. While the runner has the buffer, it
    /// does so.
    fn wipe(&mut self) {
        if let Some(buffer) = &mut self.buffer {
            let filled = core::mem::take(&mut self.filled);
            buffer.get_mut(..filled).unwrap_or_default().fill(0);
        }
    }
}

/// Where [`BusHost`] and [`Runner`] meet. It may live in a static or in the frame of `main`.
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
    /// With memory for the data of one transfer; its length is the longest transfer.
    ///
    /// Data are copied through it, so that neither side ever has the other's memory. They are
    /// cleared when the transfer has ended.
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

    /// The two halves.
    ///
    /// # Errors
    /// [`MmcError::Unsupported`] for a bus in SPI mode; [`MmcError::Busy`] until both halves of an
    /// earlier call have been dropped; [`MmcError::BlockSize`] if the buffer does not hold a block
    /// of 512 bytes.
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

    /// What happens from now on wakes this task.
    fn listen(&self, waker: &Waker) {
        if self.with(|inner| inner.waker.as_ref().is_some_and(|known| known.will_wake(waker))) {
            return;
        }
        let mine = waker.clone();
        let before = self.with(|inner| inner.waker.replace(mine));
        drop(before);
    }

    /// No task listens any more.
    fn unheard(&self) {
        let before = self.with(|inner| inner.waker.take());
        drop(before);
    }

    /// The waker of the runner's task.
    fn take_waker(&self) -> Option<Waker> {
        self.with(|inner| inner.waker.take())
    }

    /// Wakes the runner.
    fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            waker.wake();
        }
    }
}
