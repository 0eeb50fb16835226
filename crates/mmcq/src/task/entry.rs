//! The type that [`Stack::with`](super::Stack::with) passes to its closure: it has the engine's
//! methods, and is not the engine.
//!
//! A stack may have memory that is lent for a blocking call. So safe code must not move the engine
//! out of its stack, and gets no `&mut Engine`. A call that comes from inside another call of the
//! stack gets no engine at all: each method of its [`Entry`] says what it returns then.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::engine::switched::SwitchedOn;
use crate::engine::{
    Abilities, CardNumber, CardParams, Claim, Completion, DmaBuf, Engine, Error, Handshake, PollOutcome,
    RecoveryEvent, Request, ServiceRequest, SlotId, SlotSet, Span, Stats, StaysOpen,
};
use crate::host::{Caps, Host, Phase, Width};
use crate::sched::{ChainStats, Holds, PackStats, Profile, TaskStats};
use crate::spec::bus::Bus;
use core::task::Waker;

/// Exclusive access to the engine of a [`Stack`](super::Stack) for one closure.
///
/// Each method calls the engine's method of the same name; see there for what it does. In a call
/// from inside another call of the same stack the entry is *nested*. Then a method does nothing,
/// and its comment says what it returns instead.
#[derive(Debug)]
pub struct Entry<'a, H: Host, const N: usize, P: Profile> {
    engine: Option<&'a mut Engine<H, N, P>>,
    /// Whether a method was called that may make the next deadline earlier. The compiler knows this
    /// value at compile time. So code that only takes a result contains no comparison with the
    /// alarm.
    begun: bool,
}

/// Makes methods that take `&mut self` and call the engine's methods of the same name. In the list,
/// `=` is followed by the value that the method returns in a *nested* call, that is, in a call from
/// inside another call of the same stack. The first word says whether the method may begin
/// something, so that the next deadline may be earlier.
macro_rules! verbs {
    ($begins:literal: $($(#[$note:meta])* $vis:vis fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) $(-> $out:ty)? = $nested:expr;)*) => {
        $(
            $(#[$note])*
            #[inline]
            $vis fn $name(&mut self $(, $arg: $type)*) $(-> $out)? {
                self.begun |= $begins;
                match &mut self.engine {
                    Some(engine) => engine.$name($($arg),*),
                    None => $nested,
                }
            }
        )*
    };
}

/// Makes methods that take `&self` and call the engine's methods of the same name, which change
/// nothing. In the list, `=` is followed by the value that the method returns in a nested call
/// (from inside another call of the same stack).
macro_rules! questions {
    ($($(#[$note:meta])* $vis:vis fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty = $nested:expr;)*) => {
        $(
            $(#[$note])*
            #[inline]
            $vis fn $name(&self $(, $arg: $type)*) -> $out {
                match &self.engine {
                    Some(engine) => engine.$name($($arg),*),
                    None => $nested,
                }
            }
        )*
    };
}

/// Outcome of an interrupt or poll in a call from inside another call of the same stack: nothing
/// was done, and a poll is due.
const TURNED_AWAY: PollOutcome =
    PollOutcome { completed: 0, deferred: false, card_irq: false, help: false, next_deadline_ns: Some(0) };

impl<'a, H: Host, const N: usize, P: Profile> Entry<'a, H, N, P> {
    pub(super) fn new(engine: Option<&'a mut Engine<H, N, P>>) -> Self {
        Entry { engine, begun: false }
    }

    /// Returns the engine, and whether a call through this entry may have begun something on the
    /// controller. `None`: the call came from inside another call of the same stack.
    #[inline(always)]
    pub(super) fn into_used(self) -> Option<(&'a mut Engine<H, N, P>, bool)> {
        self.engine.map(|engine| (engine, self.begun))
    }

    /// Returns true if this call was made from inside another call of the same stack, for example
    /// from a closure of `Stack::with`. Such a nested call cannot use the engine.
    pub fn is_nested(&self) -> bool {
        self.engine.is_none()
    }

    #[cfg(all(test, loom))]
    pub(super) fn alarm_ns(&self) -> Option<u64> {
        self.engine.as_ref().map(|engine| engine.alarm_ns())
    }

    verbs! { false:
        /// Calls [`Engine::take`]. A call from inside another call of this stack returns `None`.
        pub fn take(&mut self, id: SlotId) -> Option<Completion> = { let _ = id; None };
        /// Calls [`Engine::set_waker`]. A call from inside another call of this stack returns the
        /// waker itself.
        #[must_use = "to be dropped outside of any lock"]
        pub fn set_waker(&mut self, id: SlotId, waker: Waker) -> Option<Waker> = { let _ = id; Some(waker) };
        /// Calls [`Engine::take_waker`]. A call from inside another call of this stack returns
        /// `None`.
        #[must_use = "to be woken or dropped outside of any lock"]
        pub fn take_waker(&mut self, index: usize) -> Option<Waker> = { let _ = index; None };
    }

    verbs! { true:
        /// Calls [`Engine::submit`]. A call from inside another call of this stack returns
        /// [`Error::Reentered`].
        pub fn submit(&mut self, request: Request, now_ns: u64) -> Result<SlotId, (Error, Request)>
            = Err((Error::Reentered, request));
        /// Calls [`Engine::on_irq`]. A call from inside another call of this stack does nothing,
        /// and its result says that a poll is due.
        pub fn on_irq(&mut self, now_ns: u64) -> PollOutcome = { let _ = now_ns; TURNED_AWAY };
        /// Calls [`Engine::poll`]. A call from inside another call of this stack does nothing, and
        /// its result says that a poll is due.
        pub fn poll(&mut self, now_ns: u64) -> PollOutcome = { let _ = now_ns; TURNED_AWAY };
        /// Calls [`Engine::cancel`]. A call from inside another call of this stack returns `None`,
        /// and the request continues.
        pub fn cancel(&mut self, id: SlotId) -> Option<DmaBuf> = { let _ = id; None };
        /// Calls [`Engine::take_back`]. A call from inside another call of this stack returns
        /// `None`, and the request continues.
        pub fn take_back(&mut self, id: SlotId) -> Option<DmaBuf> = { let _ = id; None };
        /// Calls [`Engine::abandon`]. A call from inside another call of this stack does nothing:
        /// the request continues.
        pub fn abandon(&mut self, id: SlotId) = { let _ = id; };
        /// Calls [`Engine::reclaim`]. A call from inside another call of this stack returns `None`.
        pub fn reclaim(&mut self, claim: Claim) -> Option<DmaBuf> = { let _ = claim; None };
        /// Sets the parameters of the card, or `None` if there is no card any more
        /// ([`Engine::set_card_params`]). Does nothing if called from inside another call of this
        /// stack.
        pub fn set_card_params(&mut self, target: Option<CardParams>) = { let _ = target; };
        /// Calls [`Engine::enable_extended_ops`]. Does nothing if it is called from inside another
        /// call of this stack, such as from a callback.
        pub fn enable_extended_ops(&mut self) = {};
        /// Calls [`Engine::set_abilities`]. A call from inside another call of this stack does
        /// nothing.
        pub fn set_abilities(&mut self, abilities: Abilities) = { let _ = abilities; };
        /// Enables the card's command queue with `depth` tasks ([`Engine::set_task_queue`]).
        /// Returns `false` if called from inside another call of this stack.
        pub fn set_task_queue(&mut self, depth: u8) -> bool = { let _ = depth; false };
        /// Enables packed commands with at most `writes` writes or `reads` reads in each
        /// ([`Engine::set_packed`]). Returns `false` if called from inside another call of this
        /// stack.
        pub fn set_packed(&mut self, writes: u8, reads: u8) -> bool = { let _ = (writes, reads); false };
        /// Calls [`Engine::set_chains`]. A reentrant call (from inside another call of this stack)
        /// returns `false`.
        pub fn set_chains(&mut self, most: u8) -> bool = { let _ = most; false };
        /// Calls [`Engine::set_sd_task_queue`]. A call from inside another call of this stack
        /// returns `false`.
        pub fn set_sd_task_queue(&mut self, queue: crate::sched::SdTaskQueue) -> bool
            = { let _ = queue; false };
        /// Calls [`Engine::always_use_task_queue`]. In a nested call (made while another call of
        /// this stack is running), does nothing.
        pub fn always_use_task_queue(&mut self, always: bool) = { let _ = always; };
        /// Calls [`Engine::set_page`]. A call from inside another call of this stack returns the
        /// page as an error.
        pub fn set_page(&mut self, page: DmaBuf) -> Result<DmaBuf, DmaBuf> = Err(page);
        /// Sets by `allowed` whether the engine may send a CMD52 during data of an I/O card
        /// ([`Engine::set_concurrent_commands`]). Does nothing if called from inside another call
        /// of this stack.
        pub fn set_concurrent_commands(&mut self, allowed: bool) = { let _ = allowed; };
        /// Calls [`Engine::suspend`]. A call from inside another call of this stack does nothing.
        pub fn suspend(&mut self) = {};
        /// Calls [`Engine::resume`]. Does nothing if it is called from inside another call of this
        /// stack, such as from a callback.
        pub fn resume(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// Calls [`Engine::halt`]. A call from inside another call of this stack does nothing.
        pub fn halt(&mut self) = {};
        /// Calls [`Engine::abort`]. In a nested call (made while another call of this stack is
        /// running), does nothing.
        pub fn abort(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// Calls [`Engine::presence_changed`]. A call from inside another call of this stack does
        /// nothing.
        pub fn presence_changed(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// Calls [`Engine::take_card_irq`]. A call from inside another call of this stack returns
        /// `false`.
        pub fn take_card_irq(&mut self) -> bool = false;
        /// Calls [`Engine::set_card_irq_waker`]. A call from inside another call of this stack
        /// returns the waker itself.
        #[must_use = "to be dropped outside of any lock"]
        pub fn set_card_irq_waker(&mut self, waker: Option<Waker>) -> Option<Waker> = waker;
        /// Calls [`Engine::take_card_irq_waker`]. A call from inside another call of this stack
        /// returns `None`.
        #[must_use = "to be woken or dropped outside of any lock"]
        pub fn take_card_irq_waker(&mut self) -> Option<Waker> = None;
        /// Calls [`Engine::unmask_card_irq`]. A call from inside another call of this stack does
        /// nothing.
        pub fn unmask_card_irq(&mut self) = {};
        /// Calls [`Engine::mask_card_irq`]. In a nested call (made while another call of this stack
        /// is running), does nothing.
        pub fn mask_card_irq(&mut self) = {};
        /// Calls [`Engine::take_retune`]. A reentrant call (from inside another call of this stack)
        /// returns `false`.
        pub fn take_retune(&mut self) -> bool = false;
        /// Returns true, only one time, if the engine has stopped leaving transfers open because of
        /// failures ([`Engine::take_continue_lost`]). Returns `false` if called from inside another
        /// call of this stack.
        pub fn take_continue_lost(&mut self) -> bool = false;
        /// Calls [`Engine::set_stays_open`]. A reentrant call (from inside another call of this
        /// stack) returns [`StaysOpen::Never`].
        pub fn set_stays_open(&mut self, stays_open: StaysOpen) -> StaysOpen = { let _ = stays_open; StaysOpen::Never };
        /// Calls [`Engine::dismiss_supervisor`]. A call from inside another call of this stack
        /// returns `false`.
        pub fn dismiss_supervisor(&mut self) -> bool = false;

        pub(crate) fn take_service_request(&mut self) -> Option<ServiceRequest> = None;
        #[must_use = "to be dropped outside of any lock"]
        pub(crate) fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker> = waker;
        #[must_use = "to be woken or dropped outside of any lock"]
        pub(crate) fn take_service_waker(&mut self) -> Option<Waker> = None;
        pub(crate) fn identify_card(&mut self, identity: u32) = { let _ = identity; };
        pub(crate) fn service_done(&mut self, result: Result<CardParams, Error>, now_ns: u64) -> bool = { let _ = (result, now_ns); false };
        pub(crate) fn look_after(&mut self, exceptions: bool, tune_every_ns: u64, rest_after_ns: u64, now_ns: u64)
            = { let _ = (exceptions, tune_every_ns, rest_after_ns, now_ns); };
        pub(crate) fn begin_rest(&mut self, now_ns: u64) = { let _ = now_ns; };
        pub(crate) fn end_rest(&mut self, now_ns: u64) = { let _ = now_ns; };
        pub(crate) fn forsake(&mut self, id: SlotId, now_ns: u64) = { let _ = (id, now_ns); };
        pub(crate) fn detach(&mut self, id: SlotId) = { let _ = id; };
        pub(crate) fn note_exceptions(&mut self, events: u16, now_ns: u64) -> bool
            = { let _ = (events, now_ns); false };
        pub(crate) fn work_waits(&mut self, by_ns: Option<u64>, now_ns: u64) = { let _ = (by_ns, now_ns); };
        pub(crate) fn extend_help(&mut self, now_ns: u64) = { let _ = now_ns; };
        pub(crate) fn claim_power_cycle(&mut self, now_ns: u64) -> bool = { let _ = now_ns; false };
        pub(crate) fn note_flushed(&mut self) -> bool = false;
        pub(crate) fn take_back_error(&mut self, error: Error) = { let _ = error; };
        pub(crate) fn restore_packs(&mut self, told: bool) = { let _ = told; };
        pub(crate) fn leave_flushed(&mut self, card: CardNumber) -> bool = { let _ = card; false };
    }

    questions! {
        /// Returns when the engine must be polled next, in ns ([`Engine::next_deadline_ns`]).
        /// Returns `Some(0)` (a poll is due) if called from inside another call of this stack.
        pub fn next_deadline_ns(&self) -> Option<u64> = Some(0);
        /// Calls [`Engine::id_of`]. A call from inside another call of this stack returns `None`.
        pub fn id_of(&self, index: usize) -> Option<SlotId> = { let _ = index; None };
        /// Calls [`Engine::finished`]. A reentrant call (from inside another call of this stack)
        /// returns no slot.
        pub fn finished(&self) -> SlotSet = 0;
        /// Calls [`Engine::will_wake`]. A call from inside another call of this stack returns
        /// `false`, as if the request had another waker.
        pub fn will_wake(&self, id: SlotId, waker: &Waker) -> bool = { let _ = (id, waker); false };
        /// Calls [`Engine::card_params`]. A call from inside another call of this stack returns
        /// `None`.
        pub fn card_params(&self) -> Option<&CardParams> = None;
        /// Calls [`Engine::abilities`]. A call from inside another call of this stack returns
        /// [`Abilities::NONE`].
        pub fn abilities(&self) -> &Abilities = &Abilities::NONE;
        /// Calls [`Engine::caps`]. A call from inside another call of this stack returns
        /// [`Caps::NONE`].
        pub fn caps(&self) -> &Caps = &Caps::NONE;
        /// Returns the counters of the engine's work ([`Engine::stats`]). Returns all zeros if
        /// called from inside another call of this stack.
        pub fn stats(&self) -> &Stats = &Stats::ZERO;
        /// Calls [`Engine::task_stats`]. A call from inside another call of this stack returns
        /// `None`.
        pub fn task_stats(&self) -> Option<&TaskStats> = None;
        /// Calls [`Engine::pack_stats`]. In a nested call (made while another call of this stack is
        /// running), returns `None`.
        pub fn pack_stats(&self) -> Option<&PackStats> = None;
        /// Calls [`Engine::chain_stats`]. In a nested call (made while another call of this stack
        /// is running), returns `None`.
        pub fn chain_stats(&self) -> Option<&ChainStats> = None;
        /// Calls [`Engine::card_number`]. A call from inside another call of this stack returns
        /// [`CardNumber::ANY`].
        pub fn card_number(&self) -> CardNumber = CardNumber::ANY;
        pub(crate) fn is_meant(&self, card: CardNumber) -> bool = { let _ = card; false };
        pub(crate) fn number_of(&self, identity: u32) -> CardNumber = { let _ = identity; CardNumber::ANY };
        /// Calls [`Engine::losses`], which counts losses of data. In a nested call (made while
        /// another call of this stack is running), returns 0.
        pub fn losses(&self) -> u8 = 0;
        /// Calls [`Engine::holds`]. A call from inside another call of this stack returns all
        /// zeros.
        pub fn holds(&self) -> Holds = Holds::default();
        /// Calls [`Engine::held_until_ns`]. A reentrant call (from inside another call of this
        /// stack) returns `None`: no start is delayed.
        pub fn held_until_ns(&self) -> Option<u64> = None;
        /// Calls [`Engine::slots_in_use`]. A reentrant call (from inside another call of this
        /// stack) returns `N`: all slots are in use.
        pub fn slots_in_use(&self) -> usize = N;
        /// Returns whether the engine has nothing to do, and the status of all writes is known
        /// ([`Engine::is_idle`]). Returns `false` if called from inside another call of this stack.
        pub fn is_idle(&self) -> bool = false;
        /// Calls [`Engine::is_quiet`]. A call from inside another call of this stack returns
        /// `false`.
        pub fn is_quiet(&self) -> bool = false;
        /// Calls [`Engine::awaited`]. A call from inside another call of this stack returns `None`.
        pub fn awaited(&self) -> Option<&Phase> = None;
        /// Returns the last phase (a command with its data and busy) that has ended, with its times
        /// ([`Engine::last_phase`]). Returns `None` if called from inside another call of this
        /// stack.
        pub fn last_phase(&self) -> Option<Span> = None;
        /// Calls [`Engine::bus`]. In a nested call (made while another call of this stack is
        /// running), returns one data line and a stopped clock.
        pub fn bus(&self) -> Bus = Bus { clock_hz: 0, width: Width::W1, ddr: false };

        pub(crate) fn asks_for_help(&self) -> bool = false;
        pub(crate) fn is_unheard(&self) -> bool = false;
        pub(crate) fn work_is_late(&self, now_ns: u64) -> bool = { let _ = now_ns; false };
        pub(crate) fn switched_on(&self) -> SwitchedOn = SwitchedOn::NOTHING;
        pub(crate) fn tells_transferred(&self) -> bool = false;
        pub(crate) fn has_waiting(&self) -> bool = true;
        pub(crate) fn has_lent(&self, memory: Claim) -> bool = { let _ = memory; true };
        pub(crate) fn only_lent(&self, memory: Claim) -> Option<SlotId> = { let _ = memory; None };
        pub(crate) fn rest_is_over(&self) -> bool = true;
        pub(crate) fn damaged_often(&self) -> bool = false;
    }

    /// Calls [`Engine::incidents`]. A call from inside another call of this stack returns no
    /// incident.
    pub fn incidents(&self) -> impl Iterator<Item = RecoveryEvent> + '_ {
        self.engine.as_ref().into_iter().flat_map(|engine| engine.incidents())
    }

    /// Calls [`Engine::host`]. A call from inside another call of this stack returns `None`.
    pub fn host(&self) -> Option<&H> {
        self.engine.as_ref().map(|engine| engine.host())
    }

    /// Calls [`Host::present`]: whether a card is in the slot. In a nested call (made while another
    /// call of this stack is running), returns `false`.
    pub fn present(&self) -> bool {
        self.host().is_some_and(Host::present)
    }

    /// Calls [`Host::dat0_busy`]. A reentrant call (from inside another call of this stack) returns
    /// `false`.
    pub fn dat0_busy(&self) -> bool {
        self.host().is_some_and(Host::dat0_busy)
    }

    /// Calls [`Host::dat_levels`]: the levels of DAT3 to DAT0. In a nested call (made while another
    /// call of this stack is running), returns 0, as for a busy card.
    pub fn dat_levels(&self) -> u8 {
        self.host().map_or(0, Host::dat_levels)
    }

    /// Calls [`Host::supply_ma`]. A call from inside another call of this stack returns 0, which
    /// stands for "not known".
    pub fn supply_ma(&self) -> u16 {
        self.host().map_or(0, Host::supply_ma)
    }

    /// Calls [`Host::write_protected`]. A call from inside another call of this stack returns
    /// `false`.
    pub fn write_protected(&self) -> bool {
        self.host().is_some_and(Host::write_protected)
    }

    /// Returns the time in ns after which the controller needs a new tuning ([`Host::retune_ns`]).
    /// Returns 0 if called from inside another call of this stack.
    pub fn retune_ns(&self) -> u64 {
        self.host().map_or(0, Host::retune_ns)
    }

    /// Calls [`Engine::host_mut`]. A call from inside another call of this stack returns `None`.
    ///
    /// # Safety
    /// As for [`Engine::host_mut`].
    pub unsafe fn host_mut(&mut self) -> Option<&mut H> {
        self.begun = true;
        // SAFETY: the caller's promise is the one that is asked for.
        self.engine.as_mut().map(|engine| unsafe { engine.host_mut() })
    }

    /// Calls [`Engine::policy`]. A call from inside another call of this stack returns `None`.
    pub fn policy(&self) -> Option<&P::Policy> {
        self.engine.as_ref().map(|engine| engine.policy())
    }

    /// Calls [`Engine::policy_mut`]. In a nested call (made while another call of this stack is
    /// running), returns `None`.
    pub fn policy_mut(&mut self) -> Option<&mut P::Policy> {
        self.begun = true;
        self.engine.as_mut().map(|engine| engine.policy_mut())
    }
}

impl<H: Host, const N: usize, P: Profile> Handshake for Entry<'_, H, N, P> {
    fn take_service_request(&mut self) -> Option<ServiceRequest> {
        Entry::take_service_request(self)
    }

    fn set_service_waker(&mut self, waker: Option<Waker>) -> Option<Waker> {
        Entry::set_service_waker(self, waker)
    }

    fn take_service_waker(&mut self) -> Option<Waker> {
        Entry::take_service_waker(self)
    }

    fn service_done(&mut self, result: Result<CardParams, Error>, now_ns: u64) {
        Entry::service_done(self, result, now_ns);
    }
}
