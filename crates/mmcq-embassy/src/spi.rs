//! An SD card in SPI mode on a bus of `embedded-hal-async`.
//!
//! On such a bus a transfer is a future that a task must poll. So the code has two halves: the SPI
//! driver uses [`SpiPort`], and [`SpiRunner`] is a task that carries out its exchanges. The two
//! halves communicate through an [`SpiMailbox`]. The driver has the whole protocol; an exchange is
//! some bytes or one block.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use critical_section::Mutex;
use embedded_hal::digital::OutputPin;
use embedded_hal_async::spi::SpiBus;
use mmcq::engine::BLOCK_BYTES;
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi};
use mmcq::task::{Platform, Stack};

const BYTES: usize = BLOCK_BYTES as usize;

/// Work for the runner: an exchange of bytes, and the clock and chip select to set before it.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Clock to set first, in hertz; `None` keeps the present one.
    clock_hz: Option<u32>,
    /// Level of the chip select to set after the clock and before the first byte: true selects the
    /// card.
    select: Option<bool>,
    way: Way,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Swap,
    Receive,
    Send,
    Idle,
}

struct Inner<'b> {
    job: Option<Job>,
    /// Result of the last exchange: true if it had no error; `None`: no result has come since the
    /// exchange was started.
    done: Option<bool>,
    /// The buffer; `None` while the runner has it, or while the port copies data into or out of it.
    buffer: Option<&'b mut [u8; BYTES]>,
    /// Whether the port has stopped an exchange for which the runner still has the buffer. The
    /// result of this exchange is ignored.
    stopped: bool,
    /// Waker of the runner's task. It is woken and dropped outside of the lock.
    waker: Option<Waker>,
    halves: u8,
}

/// The connection between [`SpiPort`] and [`SpiRunner`]: a static variable, or a local variable of
/// `main`.
pub struct SpiMailbox<'b> {
    inner: Mutex<RefCell<Inner<'b>>>,
}

impl core::fmt::Debug for SpiMailbox<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.with(|inner| f.debug_struct("SpiMailbox").field("job", &inner.job).finish_non_exhaustive())
    }
}

impl<'b> SpiMailbox<'b> {
    /// Makes a mailbox with memory for one block. All bytes are copied through this memory, so
    /// neither the port nor the runner ever accesses the other's memory.
    pub const fn new(buffer: &'b mut [u8; BYTES]) -> Self {
        let inner =
            Inner { job: None, done: None, buffer: Some(buffer), stopped: false, waker: None, halves: 0 };
        SpiMailbox { inner: Mutex::new(RefCell::new(inner)) }
    }

    /// Makes the two halves: a port for [`Spi::new`], and the task that carries out its exchanges.
    /// The bus has no other device, and is in SPI mode 0. `select` is the card's chip select; low
    /// selects the card. `clock` sets the bus clock in hertz, rounded down. Returns `None` until
    /// both halves of an earlier call were dropped.
    pub fn connect<'m, B, C, F>(
        &'m self,
        bus: B,
        select: C,
        clock: F,
    ) -> Option<(SpiPort<'m, 'b>, SpiRunner<'m, 'b, B, C, F>)>
    where
        B: SpiBus,
        C: OutputPin,
        F: FnMut(&mut B, u32),
    {
        let free = self.with(|inner| {
            let free = inner.halves == 0 && inner.buffer.is_some();
            if free {
                (inner.halves, inner.job, inner.done) = (2, None, None);
            }
            free
        });
        let port = || SpiPort { mailbox: self, into: None, clock_hz: None, select: None, wakes: false };
        free.then(|| (port(), SpiRunner { mailbox: self, bus, select, clock }))
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner<'b>) -> R) -> R {
        critical_section::with(|cs| f(&mut self.inner.borrow_ref_mut(cs)))
    }

    fn listen(&self, waker: &Waker) {
        if self.with(|inner| inner.waker.as_ref().is_some_and(|known| known.will_wake(waker))) {
            return;
        }
        let mine = waker.clone();
        let before = self.with(|inner| inner.waker.replace(mine));
        drop(before);
    }

    /// Records that one of the halves was dropped: the [`SpiPort`] or the [`SpiRunner`].
    fn leave(&self) {
        self.with(|inner| inner.halves = inner.halves.saturating_sub(1));
    }
}

/// The SPI driver's half of an [`SpiMailbox`]: a [`Port`].
#[derive(Debug)]
pub struct SpiPort<'m, 'b> {
    mailbox: &'m SpiMailbox<'b>,
    /// Memory for the received bytes of the exchange in progress.
    into: Option<Segment>,
    clock_hz: Option<u32>,
    select: Option<bool>,
    /// Whether the runner has work, and was not woken for it yet.
    wakes: bool,
}

// SAFETY: the port reads a segment's memory in `exchange`, and writes it in the `done` that reports
// the end, no further than the segment and the mailbox's own buffer reach. For `Send` no memory is
// stored, so none is written. `stop` forgets the memory; the runner never knows it.
unsafe impl Port for SpiPort<'_, '_> {
    const WAKES: bool = true;

    fn exchange(&mut self, exchange: Exchange) {
        let (way, segment) = match exchange {
            Exchange::Swap(segment) => (Way::Swap, Some(segment)),
            Exchange::Receive(segment) => (Way::Receive, Some(segment)),
            Exchange::Send(segment) => (Way::Send, Some(segment)),
            Exchange::Idle(count) => {
                return self.post(Way::Idle, count as usize, None);
            }
        };
        let bytes = segment.as_ref().map_or(0, |segment| segment.len_bytes() as usize);
        self.post(way, bytes, segment);
    }

    fn done(&mut self) -> Progress {
        let Some(well) = self.mailbox.with(|inner| inner.done.take()) else { return Progress::Going };
        if let Some(segment) = self.into.take()
            && well
        {
            let buffer = self.mailbox.with(|inner| inner.buffer.take());
            if let Some(buffer) = buffer {
                let bytes = (segment.len_bytes() as usize).min(BYTES);
                // SAFETY: the driver leaves the segment's memory to the port until this call has
                // reported the end.
                unsafe { segment.ptr().as_ptr().copy_from_nonoverlapping(buffer.as_ptr(), bytes) };
                self.mailbox.with(|inner| inner.buffer = Some(buffer));
            }
        }
        if well { Progress::Done } else { Progress::Failed }
    }

    fn stop(&mut self) -> bool {
        self.into = None;
        let unbegun = self.mailbox.with(|inner| {
            inner.done = None;
            // If the runner is carrying out the exchange, it has the mailbox's own buffer.
            inner.stopped = inner.buffer.is_none();
            inner.job.take()
        });
        // The next exchange sets what this one would have set.
        if let Some(job) = unbegun {
            self.clock_hz = self.clock_hz.or(job.clock_hz);
            self.select = self.select.or(job.select);
        }
        true
    }

    fn select(&mut self, on: bool) {
        self.select = Some(on);
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            self.clock_hz = Some(hz);
        }
    }

    fn take_waker(&mut self) -> Option<Waker> {
        if core::mem::take(&mut self.wakes) { self.mailbox.with(|inner| inner.waker.take()) } else { None }
    }
}

impl SpiPort<'_, '_> {
    fn post(&mut self, way: Way, bytes: usize, segment: Option<Segment>) {
        // An exchange of more than `BYTES` bytes fails, and leaves the buffer to the next exchange.
        let fits = bytes <= BYTES || way == Way::Idle;
        let buffer = self.mailbox.with(|inner| if fits { inner.buffer.take() } else { None });
        let posted = buffer.is_some();
        if let Some(buffer) = buffer {
            if let Some(segment) = &segment
                && way != Way::Receive
            {
                // SAFETY: the driver leaves the segment's memory to the port from this call on; it
                // has `bytes` bytes.
                unsafe { buffer.as_mut_ptr().copy_from_nonoverlapping(segment.ptr().as_ptr(), bytes) };
            } else {
                buffer.fill(0xff);
            }
            let job = Job {
                clock_hz: self.clock_hz.take(),
                select: self.select.take(),
                way,
                bytes: bytes.min(BYTES),
            };
            self.mailbox
                .with(|inner| (inner.buffer, inner.job, inner.done) = (Some(buffer), Some(job), None));
        } else {
            self.mailbox.with(|inner| inner.done = Some(false));
        }
        self.into = segment.filter(|_| posted && way != Way::Send);
        self.wakes = true;
    }
}

impl Drop for SpiPort<'_, '_> {
    fn drop(&mut self) {
        self.mailbox.with(|inner| inner.job = None);
        self.mailbox.leave();
    }
}

/// The executor's half of an [`SpiMailbox`]: a task that carries out exchanges.
#[derive(Debug)]
pub struct SpiRunner<'m, 'b, B, C, F> {
    mailbox: &'m SpiMailbox<'b>,
    bus: B,
    select: C,
    clock: F,
}

impl<'m, 'b, B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)> SpiRunner<'m, 'b, B, C, F> {
    /// Carries out the exchanges, in a task of its own, as long as the stack is used. `stack` is
    /// the stack whose driver has the other half.
    ///
    /// If this future is dropped, the exchange in progress is dropped too, and fails. `run` may be
    /// called again afterwards.
    pub async fn run<P: Platform<Host = Spi<SpiPort<'m, 'b>>>, const N: usize>(
        &mut self,
        stack: &Stack<P, N>,
    ) -> ! {
        loop {
            let (job, mut loan) = poll_fn(|context| self.mailbox.take(context)).await;
            loan.well = match loan.buffer.as_deref_mut() {
                Some(buffer) => {
                    carry_out(&mut self.bus, &mut self.select, &mut self.clock, job, buffer).await
                }
                None => false,
            };
            drop(loan);
            // For the engine, the end of an exchange is an interrupt.
            stack.on_irq();
        }
    }
}

impl<B, C, F> Drop for SpiRunner<'_, '_, B, C, F> {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}

impl<'b> SpiMailbox<'b> {
    fn take<'m>(&'m self, context: &mut Context<'_>) -> Poll<(Job, Loan<'m, 'b>)> {
        self.listen(context.waker());
        self.with(|inner| match inner.job.take() {
            Some(job) => Poll::Ready((job, Loan { mailbox: self, buffer: inner.buffer.take(), well: false })),
            None => Poll::Pending,
        })
    }
}

/// The buffer while the runner uses it. On drop, `Loan` gives the buffer and the result back to the
/// mailbox.
struct Loan<'m, 'b> {
    mailbox: &'m SpiMailbox<'b>,
    buffer: Option<&'b mut [u8; BYTES]>,
    well: bool,
}

impl Drop for Loan<'_, '_> {
    fn drop(&mut self) {
        self.mailbox.with(|inner| {
            inner.buffer = self.buffer.take();
            if !core::mem::take(&mut inner.stopped) {
                inner.done = Some(self.well);
            }
        });
    }
}

/// Carries out an exchange of bytes on the SPI bus. Returns true if it had no error.
async fn carry_out<B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)>(
    bus: &mut B,
    select: &mut C,
    clock: &mut F,
    job: Job,
    buffer: &mut [u8; BYTES],
) -> bool {
    if let Some(hz) = job.clock_hz {
        clock(bus, hz);
    }
    let selected = match job.select {
        Some(true) => select.set_low().is_ok(),
        Some(false) => select.set_high().is_ok(),
        None => true,
    };
    let Some(bytes) = buffer.get_mut(..job.bytes).filter(|_| selected) else { return false };
    let moved = match job.way {
        Way::Swap | Way::Receive => bus.transfer_in_place(bytes).await,
        Way::Send | Way::Idle => bus.write(bytes).await,
    };
    moved.is_ok() && bus.flush().await.is_ok()
}
