//! The card interrupt: a level that the engine keeps [SDIO 8].
//!
//! While a function asks for attention the line is low; the controller reports that once and is
//! masked until [`CardInterrupt::ack`]. What has been reported stays in the engine until then. So a
//! waiter may be dropped at any point, even after it was woken: the next one finds it still there.
//!
//! Many controllers do not report it ([`Host::CARD_IRQ`]). There the card is asked, by CCCR INTx,
//! at times that follow what it had to say
//! ([`Config::card_irq_looks_ns`](crate::engine::Config::card_irq_looks_ns)).

use super::cccr::reg;
use super::direct::{Chain, direct};
use super::{FUNCTIONS_MAX, IoError};
use crate::card::IoCard;
use crate::card::quirk::Quirks;
use crate::engine::CARD_IRQ_STEP_NS;
use crate::host::Host;
use crate::spec::command::sdio as cmd;
use crate::task::{Platform, Stack};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// The master switch in IENx.
const MASTER: u8 = 1;

/// The card's interrupt line; make one of it for a card. Its owner waits, serves the functions that
/// ask, and acknowledges:
///
/// ```
/// # use mmcq::{sdio::{CardInterrupt, IoError, Function}, task::Platform};
/// # type Served = Result<(), IoError>;
/// # async fn serve<B: Platform, const N: usize>(f: &Function<'_, B, N>) -> Served { Ok(()) }
/// async fn driver<B: Platform, const N: usize>(
///     irq: &mut CardInterrupt<'_, B, N>,
///     function: &Function<'_, B, N>,
/// ) -> Result<(), IoError> {
///     loop {
///         irq.wait().await?;
///         if irq.pending().await? & 1 << function.number() != 0 {
///             serve(function).await?;
///         }
///         irq.ack();
///     }
/// }
/// ```
#[derive(Debug)]
pub struct CardInterrupt<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    /// IENx without the master switch: functions that may interrupt.
    enabled: u8,
    /// A look at INTx must be [followed](Quirks::IO_NO_POLLING) by one at nothing.
    looks_away: bool,
    /// Until the next look, where the host has no card interrupt; 0: there has been none.
    period_ns: u64,
}

impl<'a, B: Platform, const N: usize> CardInterrupt<'a, B, N> {
    /// The interrupt of a card that has been brought up; no function may use it yet. Nothing is
    /// sent.
    pub fn new(stack: &'a Stack<B, N>, card: &IoCard) -> Self {
        Self::with_quirks(stack, card.quirks)
    }

    pub(crate) fn with_quirks(stack: &'a Stack<B, N>, quirks: Quirks) -> Self {
        CardInterrupt { stack, enabled: 0, looks_away: quirks.has(Quirks::IO_NO_POLLING), period_ns: 0 }
    }

    /// Functions that may interrupt, one bit each.
    pub fn enabled(&self) -> u8 {
        self.enabled
    }

    /// Lets a function (1 to 7) interrupt.
    pub async fn enable(&mut self, function: u8) -> Result<(), IoError> {
        self.switch(self.enabled | bit(function)?).await
    }

    /// Keeps it from interrupting; with the last one the controller stops listening.
    pub async fn disable(&mut self, function: u8) -> Result<(), IoError> {
        self.switch(self.enabled & !bit(function)?).await
    }

    async fn switch(&mut self, enabled: u8) -> Result<(), IoError> {
        let wrote = if enabled == 0 { 0 } else { enabled | MASTER };
        let command = cmd::io_write_read(0, reg::INT_ENABLE, wrote);
        let read = direct(self.stack, 0, reg::INT_ENABLE, command, Chain::Last).await?;
        if read != wrote {
            return Err(IoError::NotTaken { addr: reg::INT_ENABLE, wrote, read });
        }
        let before = core::mem::replace(&mut self.enabled, enabled);
        match (before, enabled) {
            (_, 0) => self.stack.with(|engine| engine.mask_card_irq()),
            (0, _) => self.listen(),
            // It is listened to already, or masked because something waits to be acknowledged.
            _ => {}
        }
        Ok(())
    }

    /// Waits until the card asks for attention. At once if it has, and nothing has acknowledged it.
    /// It also ends when the host sees the card go: then the next command to a function fails.
    ///
    /// # Errors
    /// Only where the host has no card interrupt: the card could not be asked.
    pub async fn wait(&mut self) -> Result<(), IoError> {
        loop {
            Reported { stack: self.stack }.await;
            if B::Host::CARD_IRQ {
                return Ok(());
            }
            // Dropped in here, the report is still there: the next one looks at once.
            let asks = self.look().await? & self.enabled != 0;
            let (shortest_ns, longest_ns) = self.stack.card_irq_looks_ns();
            if asks {
                self.period_ns = (self.period_ns / 2).max(shortest_ns);
                return Ok(());
            }
            self.period_ns = self.period_ns.saturating_add(CARD_IRQ_STEP_NS).min(longest_ns);
            self.stack.look_for_card_irq(self.period_ns);
        }
    }

    /// Listens for the first time, or again.
    fn listen(&mut self) {
        if B::Host::CARD_IRQ {
            self.stack.with(|engine| engine.unmask_card_irq());
            return;
        }
        if self.period_ns == 0 {
            (_, self.period_ns) = self.stack.card_irq_looks_ns();
        }
        self.stack.look_for_card_irq(self.period_ns);
    }

    /// CCCR INTx.
    async fn look(&self) -> Result<u8, IoError> {
        let command = cmd::io_read(0, reg::INT_PENDING);
        let pending = direct(self.stack, 0, reg::INT_PENDING, command, Chain::More).await?;
        if self.looks_away {
            direct(self.stack, 0, reg::NOTHING, cmd::io_read(0, reg::NOTHING), Chain::More).await?;
        }
        Ok(pending)
    }

    /// Which functions ask, one bit each: CCCR INTx, without those that may not. Where only one
    /// may, it is that one, and nothing is sent.
    pub async fn pending(&mut self) -> Result<u8, IoError> {
        if self.enabled.is_power_of_two() {
            return Ok(self.enabled);
        }
        Ok(self.look().await? & self.enabled)
    }

    /// The causes have been cleared in the functions: listens again. A cause that came meanwhile,
    /// or is still there, is reported anew.
    pub fn ack(&mut self) {
        if self.stack.with(|engine| engine.take_card_irq()) && self.enabled != 0 {
            self.listen();
        }
    }
}

fn bit(function: u8) -> Result<u8, IoError> {
    match function {
        1..=FUNCTIONS_MAX => Ok(1 << function),
        _ => Err(IoError::NoFunction { function, functions: FUNCTIONS_MAX }),
    }
}

/// Resolves when a card interrupt was reported, or a look is due.
struct Reported<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
}

impl<B: Platform, const N: usize> Future for Reported<'_, B, N> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Registered, then looked: the engine hands a waker back if it has something to report.
        // That it has, stays.
        let waker = Some(context.waker().clone());
        let (reported, _before) = self.stack.with(|engine| {
            let before = engine.set_card_irq_waker(waker);
            (engine.take_card_irq_waker(), before)
        });
        if reported.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<B: Platform, const N: usize> Drop for Reported<'_, B, N> {
    fn drop(&mut self) {
        // Dropped outside of the lock.
        let _waker = self.stack.with(|engine| engine.set_card_irq_waker(None));
    }
}
