//! The executor's half of the connection to an `sdio::MmcBus`: a task that sends the engine's
//! commands and transfers their data on the bus.

use super::command::perform;
use super::{BusHost, Job, Mailbox};
use aligned::{A4, Aligned};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll};
use embassy_time::{Duration, Instant, Timer};
use mmcq::host::{Cause, Direction, Done, Fault, Stage, Width};
use mmcq::task::{Platform, Stack};
use sdio::{BusWidth, MmcBus, MmcError};

const IDENTIFY_HZ: u32 = 400_000;
/// Interval at which a card is polled if its bus has no card interrupt.
const LOOK: Duration = Duration::from_millis(10);

/// Sends on a bus the commands that a [`BusHost`] gets from the engine, and transfers their data.
#[derive(Debug)]
pub struct Runner<'m, 'b, B> {
    mailbox: &'m Mailbox<'b>,
    bus: B,
    /// When the card is polled next, if its bus has no card interrupt.
    look_at: Option<Instant>,
}

impl<'m, 'b, B: MmcBus> Runner<'m, 'b, B> {
    pub(super) fn new(mailbox: &'m Mailbox<'b>, bus: B) -> Self {
        Runner { mailbox, bus, look_at: None }
    }

    /// Carries out phases (commands with their data) and bus operations, in a task of its own, as
    /// long as the stack is used. `stack` must be the stack whose engine has the [`BusHost`] of the
    /// same mailbox.
    ///
    /// If `wait_for_event` of the bus fails, the bus has no card interrupt. While the engine has
    /// the interrupt enabled, this call then reports it every 10 ms, so that the code that waits
    /// for it polls the card. The trait's own `wait_for_event` is ready at once, so a bus that
    /// keeps it is polled without a pause. A bus should replace it by one that waits for the
    /// interrupt, or fails.
    ///
    /// If this future is dropped, the work in progress is dropped too, and the stack's requests
    /// fail by their deadlines. `run` may be called again afterwards.
    pub async fn run<P: Platform<Host = BusHost<'m, 'b>>, const N: usize>(
        &mut self,
        stack: &Stack<P, N>,
    ) -> ! {
        let _listening = Listening(self.mailbox);
        loop {
            if let Some((job, mut loan)) = self.next().await {
                let done = {
                    let mut work = pin!(carry_out(&mut self.bus, job, loan.buffer.as_deref_mut()));
                    poll_fn(|context| match self.mailbox.aborted(context) {
                        true => Poll::Ready(None),
                        false => work.as_mut().poll(context).map(Some),
                    })
                    .await
                };
                loan.result = done;
            }
            // For the engine, the end of a phase is an interrupt.
            stack.on_irq();
        }
    }

    /// Waits for work. Returns the next work and the buffer; `None` if the card requests attention
    /// instead.
    async fn next(&mut self) -> Option<(Job, Loan<'m, 'b>)> {
        let (mailbox, bus, look_at) = (self.mailbox, &mut self.bus, &mut self.look_at);
        let mut event = pin!(async {
            if bus.wait_for_event().await.is_err() {
                // The bus cannot wait for the card interrupt. Poll the card at intervals, not as
                // fast as the bus can. Work in between does not put off the poll.
                Timer::at(*look_at.get_or_insert_with(|| Instant::now() + LOOK)).await;
            }
            *look_at = None;
        });
        // Call `wait_for_event` only when the engine has enabled the card interrupt: some buses
        // enable it by this call. The card's request for attention goes before the next work,
        // because work may come without a pause. Until the engine has enabled the interrupt again,
        // only work is done.
        poll_fn(|context| {
            mailbox.listen(context.waker());
            if mailbox.with(|inner| inner.card_irq_on) && event.as_mut().poll(context).is_ready() {
                mailbox.with(|inner| (inner.card_irq_on, inner.card_irq) = (false, true));
                return Poll::Ready(None);
            }
            mailbox.take(context).map_or(Poll::Pending, |job| Poll::Ready(Some(job)))
        })
        .await
    }
}

impl<B> Drop for Runner<'_, '_, B> {
    fn drop(&mut self) {
        self.mailbox.with(|inner| inner.halves = inner.halves.saturating_sub(1));
    }
}

/// Guard: while it exists, the mailbox has the waker of the task.
struct Listening<'m, 'b>(&'m Mailbox<'b>);

impl Drop for Listening<'_, '_> {
    fn drop(&mut self) {
        self.0.unheard();
    }
}

impl<'b> Mailbox<'b> {
    fn take<'m>(&'m self, context: &mut Context<'_>) -> Option<(Job, Loan<'m, 'b>)> {
        self.listen(context.waker());
        self.with(|inner| {
            let job = inner.job.take()?;
            (inner.running, inner.abort) = (true, false);
            let reads = matches!(job, Job::Phase(phase)
                if phase.data.is_some_and(|data| data.direction == Direction::Read));
            Some((job, Loan { mailbox: self, buffer: inner.buffer.take(), result: None, reads }))
        })
    }

    fn aborted(&self, context: &mut Context<'_>) -> bool {
        self.listen(context.waker());
        self.with(|inner| inner.abort)
    }
}

/// The buffer while the runner uses it. On drop, `Loan` gives the buffer and the result back to the
/// mailbox.
struct Loan<'m, 'b> {
    mailbox: &'m Mailbox<'b>,
    buffer: Option<&'b mut Aligned<A4, [u8]>>,
    /// The result; `None` if the work was given up.
    result: Option<Result<Done, Fault>>,
    /// Whether the engine will read data from the buffer when it sees the result.
    reads: bool,
}

impl Drop for Loan<'_, '_> {
    fn drop(&mut self) {
        self.mailbox.with(|inner| {
            inner.buffer = self.buffer.take();
            inner.result = if inner.abort { None } else { self.result.take() };
            (inner.running, inner.abort) = (false, false);
            if !self.reads || !matches!(inner.result, Some(Ok(_))) {
                inner.wipe();
            }
        });
    }
}

async fn carry_out<B: MmcBus>(
    bus: &mut B,
    job: Job,
    buffer: Option<&mut Aligned<A4, [u8]>>,
) -> Result<Done, Fault> {
    let result = match job {
        Job::Init => bus.init_idle(IDENTIFY_HZ).await.map(|()| Done::default()),
        Job::Set(width, hz) => {
            let width = match width {
                Width::W1 => BusWidth::W1,
                Width::W4 => BusWidth::W4,
                Width::W8 => BusWidth::W8,
            };
            bus.set_bus(width, hz).map(|()| Done::default())
        }
        Job::Phase(phase) => {
            perform(bus, &phase, buffer).await.map(|response| Done { response, ..Done::default() })
        }
    };
    let data = matches!(job, Job::Phase(phase) if phase.data.is_some());
    result.map_err(|error| {
        let cause = match error {
            MmcError::Timeout => Cause::Timeout,
            MmcError::Crc => Cause::Crc,
            _ => Cause::Other,
        };
        Fault { cause, stage: if data { Stage::Data } else { Stage::Command }, response: None }
    })
}
