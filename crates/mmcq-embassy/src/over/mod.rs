//! Any `sdio::MmcBus` as one of our hosts.
//!
//! An `MmcBus` hides the end of a phase in a future that somebody must poll, so there are two halves: [`BusHost`] is what the engine has, [`Runner`] is a
//! task that carries out on the bus what the engine starts. They talk through a [`Mailbox`]. The queue keeps its order, merging, deadlines and recovery;
//! what is lost is the overlap: between two phases there is a turn of the executor.

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
    /// Somebody listens for the card's interrupt, and it has come.
    card_irq_on: bool,
    card_irq: bool,
    waker: Option<Waker>,
}

impl Inner<'_> {
    /// Nobody waits for what is under way any more.
    fn forget(&mut self) {
        (self.job, self.result) = (None, None);
        self.abort = self.running;
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
    /// With memory for the data of one transfer; its length is the longest transfer. Data are copied through it, so that neither side ever has the other's
    /// memory.
    pub const fn new(buffer: &'b mut Aligned<A4, [u8]>) -> Self {
        let inner = Inner {
            job: None,
            running: false,
            abort: false,
            result: None,
            buffer: Some(buffer),
            card_irq_on: false,
            card_irq: false,
            waker: None,
        };
        Mailbox { inner: Mutex::new(RefCell::new(inner)) }
    }

    /// The two halves. [`MmcError::Unsupported`] for a bus in SPI mode, [`MmcError::Busy`] if the mailbox is in use, [`MmcError::BlockSize`] if its
    /// buffer does not hold a block of 512 bytes.
    pub fn connect<'m, B: MmcBus>(
        &'m self,
        bus: B,
    ) -> Result<(BusHost<'m, 'b>, Runner<'m, 'b, B>), MmcError> {
        if !bus.supports_mmc() {
            return Err(MmcError::Unsupported);
        }
        let bytes =
            self.with(|inner| inner.buffer.as_ref().map(|buffer| buffer.len())).ok_or(MmcError::Busy)?;
        let host = BusHost::new(self, &bus, bytes)?;
        Ok((host, Runner::new(self, bus)))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner<'b>) -> R) -> R {
        critical_section::with(|cs| f(&mut self.inner.borrow_ref_mut(cs)))
    }

    /// Wakes the runner.
    fn wake(&self) {
        if let Some(waker) = self.with(|inner| inner.waker.take()) {
            waker.wake();
        }
    }
}
