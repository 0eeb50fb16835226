//! Calls of the platform: suspend and halt, whether anything is under way, the interrupt of an I/O
//! card.

use super::Engine;
use super::FlushBy;
use super::card::Card;
use super::durability::Durability;
use super::lane::Lane;
use super::slot::NONE;
use super::timers::{NEVER, Timers};
use crate::host::Host;
use crate::sched::{Lanes, Profile};
use core::task::Waker;

impl Durability {
    /// Returns whether a loss of power now could lose writes that are complete.
    pub fn may_lose(&self, card: &Card) -> bool {
        self.is_dirty() && card.target().is_some_and(|target| target.flush != FlushBy::Status)
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Lets the next `poll` close an open transfer that waits, and read the status of complete
    /// writes. The engine's deadline is set to now.
    pub fn let_go(&mut self, ledger: &Durability, timers: &mut Timers) {
        if self.is_idle() && (self.streams().is_open() || ledger.is_unsettled()) {
            timers.wake_now();
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Refuses new requests; queued ones continue. The card is not used any more when
    /// [`is_idle`](Self::is_idle) returns true.
    pub fn suspend(&mut self) {
        self.blockers.suspend();
        self.blockers.refresh_quirks(&self.card);
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        self.lane.let_go(&self.durability, &mut self.timers);
    }

    /// Starts nothing more after the transfer in progress; requests are still accepted and keep
    /// their order.
    pub fn halt(&mut self) {
        self.blockers.halt();
        self.blockers.refresh_quirks(&self.card);
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        self.lane.let_go(&self.durability, &mut self.timers);
    }

    /// Returns whether nothing is queued, nothing is with the controller, and the status of all
    /// writes is known.
    pub fn is_idle(&self) -> bool {
        self.is_quiet()
            && self.slots.head() == NONE
            && self.slots.oldest_io().is_none()
            && !self.durability.owes_status(&self.slots)
    }

    /// Takes the card away from the engine, if nothing is left to be done or could be lost, and the
    /// card's queue is off. Otherwise returns false, and the card stays.
    pub(crate) fn leave_flushed(&mut self) -> bool {
        let may = self.is_idle() && !self.durability.may_lose(&self.card) && !self.lane.is_queued();
        if may {
            self.set_card_params(None);
        }
        may
    }

    /// Returns whether nothing is with the controller (requests may be queued behind
    /// [`halt`](Self::halt)).
    pub fn is_quiet(&self) -> bool {
        self.lane.is_idle()
            && !self.slots.have_ended()
            && !self.lane.streams().is_open()
            && !self.lane.is_concurrent::<H, P>()
            && !self.lane.has_tasks()
    }

    /// Returns whether a function on the card has requested attention since the last call. The
    /// interrupt stays masked until [`unmask_card_irq`](Self::unmask_card_irq): it is a level, so
    /// nothing is lost meanwhile.
    pub fn take_card_irq(&mut self) -> bool {
        self.card.functions_mut().take_note()
    }

    /// Sets the waker to call when a function requests attention; the engine itself wakes nothing.
    /// Returns the waker before, to be dropped outside of any lock.
    #[must_use = "to be dropped outside of any lock"]
    pub fn set_card_irq_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.card.functions_mut().set_waker(waker)
    }

    /// Takes the waker, if a function has requested attention.
    pub fn take_card_irq_waker(&mut self) -> Option<Waker> {
        self.card.functions_mut().take_waker()
    }

    /// Enables the card interrupt again, or for the first time. The caller has cleared its causes
    /// in the functions before.
    pub fn unmask_card_irq(&mut self) {
        self.bus.host_mut().card_irq(true);
    }

    /// Sets when the next poll for the card interrupt is due, on a host [without a card
    /// interrupt](Host::CARD_IRQ); the last poll has been handled. When it is due the engine
    /// reports the [waker](Self::set_card_irq_waker), as for an interrupt.
    pub(crate) fn look_for_card_irq(&mut self, at_ns: u64) {
        self.card.functions_mut().take_note();
        self.timers.look_at(at_ns);
        self.blockers.close_fast();
    }

    /// Returns the shortest and the longest time between two polls for the card interrupt, in
    /// nanoseconds.
    pub(crate) fn card_irq_looks_ns(&self) -> (u64, u64) {
        let (shortest, longest) = self.config.card_irq_looks_ns;
        (shortest.max(1), longest.max(shortest).max(1))
    }

    /// Disables the card interrupt: no task waits for it any more.
    pub fn mask_card_irq(&mut self) {
        self.bus.host_mut().card_irq(false);
        self.card.functions_mut().take_note();
        self.timers.look_at(NEVER);
    }

    /// Returns whether the controller has requested a new tuning since the last call [SDHC 2.2.18].
    pub fn take_retune(&mut self) -> bool {
        self.bus.wire_mut().trust()
    }
}
