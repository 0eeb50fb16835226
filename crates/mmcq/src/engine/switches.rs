//! What the platform switches on and off, and asks: suspend and halt, is anything under way, the
//! interrupt of an I/O card.

use super::Engine;
use super::FlushBy;
use super::slot::NONE;
use super::timers::NEVER;
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Refuses new requests; what is queued goes on. The card is quiet when
    /// [`is_idle`](Self::is_idle).
    pub fn suspend(&mut self) {
        self.blockers.suspend();
        self.refresh_quirks();
        self.refresh_help();
        self.let_go();
    }

    /// Lets requests in and start again.
    pub(super) fn let_in(&mut self) {
        self.blockers.resume();
        self.refresh_quirks();
        self.refresh_help();
        self.lane.note_free();
    }

    /// Starts nothing more after the transfer in progress; requests are still accepted and keep
    /// their order.
    pub fn halt(&mut self) {
        self.blockers.halt();
        self.refresh_quirks();
        self.refresh_help();
        self.let_go();
    }

    /// An open transfer that is being held is closed by the next `poll`, and writes that are
    /// complete get their status. It wants to be called at once.
    fn let_go(&mut self) {
        if self.lane.is_idle() && (self.lane.streams().is_open() || self.durability.is_unsettled()) {
            self.timers.wake_now();
        }
    }

    /// Nothing queued, nothing with the controller, no write whose status is unknown.
    pub fn is_idle(&self) -> bool {
        self.is_quiet()
            && self.slots.head() == NONE
            && self.slots.oldest_io().is_none()
            && !self.owes_status()
    }

    /// Could the card lose writes that are complete if its supply went now?
    pub(crate) fn may_lose(&self) -> bool {
        self.durability.is_dirty() && self.card.target().is_some_and(|target| target.flush != FlushBy::Status)
    }

    /// Where nothing is left to be done or lost there is no card any more. False: there is
    /// something, and the card stays.
    pub(crate) fn leave_flushed(&mut self) -> bool {
        let may = self.is_idle() && !self.may_lose();
        if may {
            self.set_card_params(None);
        }
        may
    }

    /// Nothing is with the controller (requests may be queued behind [`halt`](Self::halt)).
    pub fn is_quiet(&self) -> bool {
        self.lane.is_idle()
            && !self.slots.have_ended()
            && !self.lane.streams().is_open()
            && !self.is_concurrent()
            && !self.has_tasks()
    }

    /// A function on the card asked for attention since this was last called. The interrupt stays
    /// masked until [`unmask_card_irq`](Self::unmask_card_irq): it is a level, so nothing is lost
    /// meanwhile.
    pub fn take_card_irq(&mut self) -> bool {
        self.card.functions_mut().take_note()
    }

    /// Sets what to wake when a function asks for attention; the engine itself wakes nothing. The
    /// waker before comes back, to be dropped outside of any lock.
    #[must_use = "to be dropped outside of any lock"]
    pub fn set_card_irq_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.card.functions_mut().set_waker(waker)
    }

    /// The waker of a card interrupt that was reported.
    pub fn take_card_irq_waker(&mut self) -> Option<Waker> {
        self.card.functions_mut().take_waker()
    }

    /// The functions' causes have been cleared: listens to the card interrupt again, or for the
    /// first time.
    pub fn unmask_card_irq(&mut self) {
        self.bus.host_mut().card_irq(true);
    }

    /// For a host [without a card interrupt](Host::CARD_IRQ): what may have been there has been
    /// looked at, and the next look is due then. As an interrupt would, it calls the
    /// [waker](Self::set_card_irq_waker).
    pub(crate) fn look_for_card_irq(&mut self, at_ns: u64) {
        self.card.functions_mut().take_note();
        self.timers.look_at(at_ns);
        self.close_fast();
    }

    /// The shortest and the longest time between two looks, in nanoseconds.
    pub(crate) fn card_irq_looks_ns(&self) -> (u64, u64) {
        let (shortest, longest) = self.config.card_irq_looks_ns;
        (shortest.max(1), longest.max(shortest).max(1))
    }

    /// No task waits for card interrupts any more.
    pub fn mask_card_irq(&mut self) {
        self.bus.host_mut().card_irq(false);
        self.card.functions_mut().take_note();
        self.timers.look_at(NEVER);
    }

    /// The controller asked for a new tuning since this was last called [SDHC 2.2.18].
    pub fn take_retune(&mut self) -> bool {
        self.bus.wire_mut().trust()
    }
}
