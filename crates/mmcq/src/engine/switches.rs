//! Methods of the engine for the program and its platform:
//!
//! - suspend and halt the card;
//! - find out whether a request or command is in progress;
//! - handle the interrupt of an I/O card;
//! - find out for which phase a waiting caller waits;
//! - store the wakers of requests and of the supervisor;
//! - end the supervisor.
//!
//! The engine only stores wakers. It does not wake, clone or drop one, since each of these may run
//! any code.

use super::FlushBy;
use super::bus::Span;
use super::card::Card;
use super::durability::Durability;
use super::lane::Lane;
use super::phases::Stage;
use super::slot::NONE;
use super::timers::{NEVER, Timers};
use super::{CardNumber, Engine, SlotId};
use crate::host::{Host, Phase};
use crate::sched::{Lanes, Profile};
use core::task::Waker;

impl Durability {
    /// Returns whether a loss of power now could lose writes that are complete.
    pub fn may_lose(&self, card: &Card) -> bool {
        self.is_dirty() && card.target().is_some_and(|target| target.flush != FlushBy::Status)
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Sets the engine's deadline to now, so that the next `poll` closes an open transfer (one that
    /// waits for requests that continue it) and reads the card's status. Does so only if the engine
    /// is idle, and a transfer is open or the status of writes that were reported complete is
    /// missing.
    pub fn let_go(&mut self, ledger: &Durability, timers: &mut Timers) {
        if self.is_idle() && (self.streams().is_open() || ledger.owes_without_slot()) {
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

    /// Removes the card with the number `card` from the engine, if no work is left, no data could
    /// be lost, the card's queue is off, and no supervisor is asked to work on the card. Otherwise,
    /// or if another card is in the slot, returns false, and the engine keeps its card.
    pub(crate) fn leave_flushed(&mut self, card: CardNumber) -> bool {
        let may = self.is_meant(card)
            && self.is_idle()
            && !self.durability.may_lose(&self.card)
            && !self.lane.is_queued()
            && !self.supervisor.helping().asks();
        if may {
            self.set_card_params(None);
        }
        may
    }

    /// Returns whether controller and card have no work: no command in progress, no transfer that
    /// is open on the card, no task in the card's queue. Also no request has ended whose end is not
    /// handled yet. Requests may still be queued, after [`halt`](Self::halt).
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

    /// Sets the waker that is to be called when a function on the I/O card requests attention. The
    /// engine itself calls no waker: the stack does. Returns the waker that was set before; drop it
    /// outside of any lock.
    #[must_use = "to be dropped outside of any lock"]
    pub fn set_card_irq_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        self.card.functions_mut().set_waker(waker)
    }

    /// Removes and returns the waker of [`set_card_irq_waker`](Self::set_card_irq_waker), if a
    /// function on the card has requested attention; otherwise returns `None`.
    pub fn take_card_irq_waker(&mut self) -> Option<Waker> {
        self.card.functions_mut().take_waker()
    }

    /// Enables the card interrupt, for the first time or again. Before, the caller must have
    /// cleared the causes of the interrupt in the card's functions; otherwise the interrupt comes
    /// again at once.
    pub fn unmask_card_irq(&mut self) {
        self.card.functions_mut().hear(true);
        self.bus.host_mut().card_irq(true);
    }

    /// On a host [without a card interrupt](Host::CARD_IRQ): sets the time `at_ns` at which the
    /// card's pending interrupts are polled next. The [waker](Self::set_card_irq_waker) is called
    /// at that time, as if an interrupt had come. Called when the last poll has been handled.
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
        self.card.functions_mut().hear(false);
        self.card.functions_mut().take_note();
        self.timers.look_at(NEVER);
    }

    /// Returns whether the controller has requested a new tuning since the last call [SDHC 2.2.18].
    pub fn take_retune(&mut self) -> bool {
        self.bus.wire_mut().trust()
    }

    /// Returns the command (with its data) that the controller is working on. `None`: it has none,
    /// or it reports no event at the end of its work.
    pub fn awaited(&self) -> Option<&Phase> {
        let has = match self.lane.stage() {
            Stage::Prefix | Stage::Address | Stage::Count | Stage::Main | Stage::Stop | Stage::Close => true,
            Stage::BusyStatus | Stage::Status | Stage::Flush | Stage::FlushStatus | Stage::Extra => true,
            Stage::Idle | Stage::BusyPause | Stage::Bus | Stage::Pause | Stage::Recover(_) => false,
        };
        (has && !self.bus.is_blocked()).then_some(self.bus.phase())
    }

    /// Returns the command (with its data or busy) that ended last, and its times; `None` if none
    /// has ended.
    pub fn last_phase(&self) -> Option<Span> {
        self.bus.last()
    }

    /// Returns the bus as it was set last. The clock is the requested one; the driver may have
    /// rounded it down.
    pub fn bus(&self) -> crate::spec::bus::Bus {
        self.bus.wire().as_set()
    }

    /// Sets the waker to call when this request is done. The engine itself wakes nothing, and
    /// neither clones nor drops a waker. Returns the waker that is not stored: the one before, or
    /// this one if the request is over. A waker's drop may run any code, so drop it outside of any
    /// lock.
    #[must_use = "to be dropped outside of any lock"]
    pub fn set_waker(&mut self, id: SlotId, waker: Waker) -> Option<Waker> {
        if self.slots.at(id.index).generation() != id.generation {
            return Some(waker);
        }
        self.slots.swap_waker(id.index, Some(waker))
    }

    /// Returns whether this request's waker wakes the same task as `waker` does.
    pub fn will_wake(&self, id: SlotId, waker: &Waker) -> bool {
        let slot = self.slots.at(id.index);
        slot.generation() == id.generation
            && slot.waker().as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Takes the waker out of slot `index`, which was reported as completed; `None`: the slot has
    /// none.
    #[must_use = "to be woken or dropped outside of any lock"]
    pub fn take_waker(&mut self, index: usize) -> Option<Waker> {
        let index = u8::try_from(index).ok().filter(|&i| usize::from(i) < N)?;
        self.slots.swap_waker(index, None)
    }

    /// Takes the waker of the request in slot `index`, which has ended, in few instructions;
    /// `None`: it has none.
    #[inline(always)]
    pub(crate) fn take_waker_of_ended(&mut self, index: u8) -> Option<Waker> {
        self.slots.at_mut(index).take_waker()
    }

    /// Takes the driver's waker ([`Host::take_waker`]): the waker of the task that carries out work
    /// of the driver itself. For code that drives an engine without a stack.
    #[must_use = "to be woken outside of any lock"]
    pub fn take_host_waker(&mut self) -> Option<Waker> {
        if H::WAKES { self.bus.host_mut().take_waker() } else { None }
    }

    /// Takes the waker of a request that was cancelled, or whose completion was taken before its
    /// slot was reported. There may be more such wakers: call again until `None`.
    #[must_use = "to be dropped outside of any lock"]
    pub fn take_stale_waker(&mut self) -> Option<Waker> {
        let index = self.slots.stale()?;
        self.slots.swap_waker(index, None)
    }

    /// Returns whether the wakers of ended requests are still stored. They must be dropped outside
    /// of any lock.
    #[inline(always)]
    pub(crate) fn has_stale_waker(&self) -> bool {
        self.slots.stale().is_some()
    }

    /// Ends the supervisor, which then returns [`Event::Dismissed`](crate::card::Event::Dismissed)
    /// and its scratch memory. Returns false if the supervisor is working, or there is none; try
    /// again later. The supervisor ends when it is polled next, so wake it.
    pub fn dismiss_supervisor(&mut self) -> bool {
        self.supervisor.dismiss(&mut self.timers, &mut self.blockers, &mut self.card)
    }

    /// Sets the waker to call when help is needed; the engine itself wakes nothing. While a waker
    /// is set (and after [`take_service_request`](Self::take_service_request)) the engine waits for
    /// help, and keeps one slot free for urgent requests. `None`: there is no supervisor any more.
    /// Returns the waker that is not used any more, to be dropped outside of any lock.
    #[must_use = "to be dropped outside of any lock"]
    pub(crate) fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        if !P::RECOVERS {
            return waker;
        }
        // Without a supervisor no slot is reserved.
        let kept = u8::from(waker.is_some());
        self.blockers.limit(self.config.admitted.min((N as u8).saturating_sub(kept).max(1)));
        self.supervisor.set_waker(&mut self.timers, &mut self.blockers, waker, self.lane.is_idle())
    }

    /// Takes the supervisor's waker if the supervisor has to be woken: the engine needs its help,
    /// or the card's rest (sleep or stopped clock) is over. Otherwise returns `None`.
    pub(crate) fn take_service_waker(&mut self) -> Option<Waker> {
        self.supervisor.take_waker()
    }
}
