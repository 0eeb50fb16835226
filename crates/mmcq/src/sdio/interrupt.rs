//! The card interrupt, whose state the engine stores [SDIO 8].
//!
//! While a function requests attention, the card holds DAT1 low. The controller reports that once,
//! and then masks the interrupt until [`CardInterrupt::ack`]. The engine stores the report until
//! then. So a waiting future may be dropped at any point, even after it was woken: the next future
//! finds the report.
//!
//! Many controllers do not report the card interrupt ([`Host::CARD_IRQ`]). In that case the stack
//! polls the card by reading CCCR INTx. The intervals depend on the results
//! ([`Config::card_irq_looks_ns`](crate::engine::Config::card_irq_looks_ns)).

use super::cccr::reg;
use super::direct::{Chain, direct};
use super::{FUNCTIONS_MAX, IoError};
use crate::card::IoCard;
use crate::card::quirk::Quirks;
use crate::engine::{CARD_IRQ_STEP_NS, CardNumber, Error};
use crate::host::Host;
use crate::sched::Profile;
use crate::spec::command::sdio as cmd;
use crate::task::{Platform, Stack};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Bit of IENx that enables the interrupts of all functions.
const MASTER: u8 = 1;

/// The interrupt line of a card; make one for each card. It is bound to its card as a
/// [`Function`](super::Function) is. One task waits for the interrupt, serves the functions that
/// request attention, and acknowledges:
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
    card: CardNumber,
    /// Functions that may interrupt: IENx without the bit that enables all.
    enabled: u8,
    /// Number of card resets that the stack had counted when `enabled` was set. After a further
    /// reset no function may interrupt.
    told_at: u32,
    /// Whether a read of INTx must be [followed](Quirks::IO_NO_POLLING) by a read of an unused
    /// register.
    looks_away: bool,
    /// Time to the next poll in nanoseconds, if the host has no card interrupt; 0 before the first
    /// poll.
    period_ns: u64,
}

impl<'a, B: Platform, const N: usize> CardInterrupt<'a, B, N> {
    /// Makes the interrupt line of a card after its bring-up; no function may interrupt yet. Sends
    /// no command.
    pub fn new(stack: &'a Stack<B, N>, card: &IoCard) -> Self {
        let number = stack.enter(CardNumber::ANY, |engine| engine.number_of(card.identity()));
        Self::of(stack, number, card.quirks)
    }

    pub(crate) fn of(stack: &'a Stack<B, N>, card: CardNumber, quirks: Quirks) -> Self {
        CardInterrupt {
            stack,
            card,
            enabled: 0,
            told_at: stack.io_resets(),
            looks_away: quirks.has(Quirks::IO_NO_POLLING),
            period_ns: 0,
        }
    }

    /// Returns whether the card of the handle is still in the card slot.
    fn is_there(&self) -> bool {
        !B::Profile::RECOVERS || self.stack.with(|engine| engine.is_meant(self.card))
    }

    /// Returns the functions that may interrupt, bit n for function n. 0 if a card was brought up
    /// since they were enabled.
    pub fn enabled(&self) -> u8 {
        if self.stack.io_resets() == self.told_at { self.enabled } else { 0 }
    }

    /// Allows function `function` (1 to 7) to interrupt.
    pub async fn enable(&mut self, function: u8) -> Result<(), IoError> {
        self.switch(self.enabled() | bit(function)?).await
    }

    /// Disables the interrupt of a function. Without any function the controller's card interrupt
    /// stays masked.
    pub async fn disable(&mut self, function: u8) -> Result<(), IoError> {
        self.switch(self.enabled() & !bit(function)?).await
    }

    async fn switch(&mut self, enabled: u8) -> Result<(), IoError> {
        let (before, told_at) = (self.enabled(), self.stack.io_resets());
        let wrote = if enabled == 0 { 0 } else { enabled | MASTER };
        let command = cmd::io_write_read(0, reg::INT_ENABLE, wrote);
        let read = direct(self.stack, self.card, 0, reg::INT_ENABLE, command, Chain::Last).await?;
        if read != wrote {
            return Err(IoError::NotTaken { addr: reg::INT_ENABLE, wrote, read });
        }
        (self.enabled, self.told_at) = (enabled, told_at);
        match (before, enabled) {
            (_, 0) => self.stack.with(|engine| engine.mask_card_irq()),
            (0, _) => self.listen(),
            // The interrupt is enabled already, or masked because a report waits to be
            // acknowledged.
            _ => {}
        }
        Ok(())
    }

    /// Waits until the card requests attention. Returns at once if a request was not acknowledged
    /// yet. The call also returns when the host sees that the card was removed; then the next
    /// command to a function fails.
    ///
    /// # Errors
    /// [`Error::Changed`]: another card has taken the place of this one, or this one was brought up
    /// again, so that no function may interrupt until [`enable`](Self::enable). If the host has no
    /// card interrupt, also: polling the card failed.
    pub async fn wait(&mut self) -> Result<(), IoError> {
        loop {
            if !self.is_there() || self.stack.io_resets() != self.told_at {
                return Err(Error::Changed.into());
            }
            Reported { stack: self.stack }.await;
            if B::Host::CARD_IRQ {
                return Ok(());
            }
            // If the future is dropped here, the card's request remains: the next future polls at
            // once.
            let asks = self.look().await? & self.enabled() != 0;
            let (shortest_ns, longest_ns) = self.stack.card_irq_looks_ns();
            if asks {
                self.period_ns = (self.period_ns / 2).max(shortest_ns);
                return Ok(());
            }
            self.period_ns = self.period_ns.saturating_add(CARD_IRQ_STEP_NS).min(longest_ns);
            self.stack.look_for_card_irq(self.period_ns);
        }
    }

    /// Enables the card interrupt in the engine, for the first time or again.
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

    /// Returns the pending interrupts, read from CCCR INTx.
    async fn look(&self) -> Result<u8, IoError> {
        let command = cmd::io_read(0, reg::INT_PENDING);
        let pending = direct(self.stack, self.card, 0, reg::INT_PENDING, command, Chain::More).await?;
        if self.looks_away {
            direct(self.stack, self.card, 0, reg::NOTHING, cmd::io_read(0, reg::NOTHING), Chain::More)
                .await?;
        }
        Ok(pending)
    }

    /// Returns the functions that request attention, bit n for function n: CCCR INTx, without
    /// functions whose interrupt is disabled. If the interrupt of only one function is enabled,
    /// returns that function and sends no command.
    pub async fn pending(&mut self) -> Result<u8, IoError> {
        let enabled = self.enabled();
        if enabled.is_power_of_two() {
            return Ok(enabled);
        }
        Ok(self.look().await? & enabled)
    }

    /// Enables the interrupt again, after the driver has cleared the causes in the functions. A new
    /// or remaining cause is reported again.
    pub fn ack(&mut self) {
        // A report of the next card is for that card's handle.
        if self.is_there() && self.stack.with(|engine| engine.take_card_irq()) && self.enabled() != 0 {
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

/// A future that ends when a card interrupt was reported, or when a poll is due.
struct Reported<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
}

impl<B: Platform, const N: usize> Future for Reported<'_, B, N> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Register the waker first, then check. If the engine already has a report, it returns the
        // waker, and keeps the report.
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
        // Drop the waker outside of the lock, because it may run any code.
        let _waker = self.stack.with(|engine| engine.set_card_irq_waker(None));
    }
}
