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
    RecoveryEvent, Request, ServiceRequest, SlotId, Span, Stats,
};
use crate::host::{Caps, Host, Phase, Width};
use crate::sched::{ChainStats, Holds, PackStats, Profile, TaskStats};
use crate::spec::bus::Bus;
use core::task::Waker;

/// Exclusive access to the engine of a [`Stack`](super::Stack) for one closure.
///
/// Each method calls the engine's method of the same name; see there for what it does. In a call
/// from inside another call of the same stack the entry is *nested*: nothing is done then, and the
/// comment of each method says what it returns instead.
#[derive(Debug)]
pub struct Entry<'a, H: Host, const N: usize, P: Profile> {
    engine: Option<&'a mut Engine<H, N, P>>,
    /// Whether something was done that may need an earlier deadline. Known at compile time, so that
    /// taking a result does not read the alarm.
    begun: bool,
}

/// Methods that call the engine's methods of the same name, with what they return in a nested call.
/// The first word says whether the method may begin something, so that the next deadline may be
/// earlier.
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

/// As `verbs!`, for methods that only read.
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

/// Outcome of an interrupt or poll in a nested call: nothing done, and a poll is due.
const TURNED_AWAY: PollOutcome =
    PollOutcome { completed: 0, deferred: false, card_irq: false, help: false, next_deadline_ns: Some(0) };

impl<'a, H: Host, const N: usize, P: Profile> Entry<'a, H, N, P> {
    pub(super) fn new(engine: Option<&'a mut Engine<H, N, P>>) -> Self {
        Entry { engine, begun: false }
    }

    /// Returns the engine, and whether anything may have begun.
    #[inline(always)]
    pub(super) fn into_used(self) -> Option<(&'a mut Engine<H, N, P>, bool)> {
        self.engine.map(|engine| (engine, self.begun))
    }

    /// Returns whether this call comes from inside another call of the stack.
    pub fn is_nested(&self) -> bool {
        self.engine.is_none()
    }

    #[cfg(all(test, loom))]
    pub(super) fn alarm_ns(&self) -> Option<u64> {
        self.engine.as_ref().map(|engine| engine.alarm_ns())
    }

    verbs! { false:
        /// [`Engine::take`]. Nested: `None`.
        pub fn take(&mut self, id: SlotId) -> Option<Completion> = { let _ = id; None };
        /// [`Engine::set_waker`]. Nested: the waker comes back.
        #[must_use = "to be dropped outside of any lock"]
        pub fn set_waker(&mut self, id: SlotId, waker: Waker) -> Option<Waker> = { let _ = id; Some(waker) };
        /// [`Engine::take_waker`]. Nested: `None`.
        #[must_use = "to be woken or dropped outside of any lock"]
        pub fn take_waker(&mut self, index: usize) -> Option<Waker> = { let _ = index; None };
    }

    verbs! { true:
        /// [`Engine::submit`]. Nested: [`Error::Reentered`].
        pub fn submit(&mut self, request: Request, now_ns: u64) -> Result<SlotId, (Error, Request)>
            = Err((Error::Reentered, request));
        /// [`Engine::on_irq`]. Nested: nothing has happened, and a poll is due.
        pub fn on_irq(&mut self, now_ns: u64) -> PollOutcome = { let _ = now_ns; TURNED_AWAY };
        /// [`Engine::poll`]. Nested: nothing has happened, and a poll is due.
        pub fn poll(&mut self, now_ns: u64) -> PollOutcome = { let _ = now_ns; TURNED_AWAY };
        /// [`Engine::cancel`]. Nested: `None`, and the request continues.
        pub fn cancel(&mut self, id: SlotId) -> Option<DmaBuf> = { let _ = id; None };
        /// [`Engine::take_back`]. Nested: `None`, and the request continues.
        pub fn take_back(&mut self, id: SlotId) -> Option<DmaBuf> = { let _ = id; None };
        /// [`Engine::abandon`]. Nested: the request continues.
        pub fn abandon(&mut self, id: SlotId) = { let _ = id; };
        /// [`Engine::reclaim`]. Nested: `None`.
        pub fn reclaim(&mut self, claim: Claim) -> Option<DmaBuf> = { let _ = claim; None };
        /// [`Engine::set_card_params`]. Nested: nothing is done.
        pub fn set_card_params(&mut self, target: Option<CardParams>) = { let _ = target; };
        /// [`Engine::enable_extended_ops`]. Nested: nothing is done.
        pub fn enable_extended_ops(&mut self) = {};
        /// [`Engine::set_abilities`]. Nested: nothing is done.
        pub fn set_abilities(&mut self, abilities: Abilities) = { let _ = abilities; };
        /// [`Engine::set_task_queue`]. Nested: `false`.
        pub fn set_task_queue(&mut self, depth: u8) -> bool = { let _ = depth; false };
        /// [`Engine::set_packed`]. Nested: `false`.
        pub fn set_packed(&mut self, writes: u8, reads: u8) -> bool = { let _ = (writes, reads); false };
        /// [`Engine::set_chains`]. Nested: `false`.
        pub fn set_chains(&mut self, most: u8) -> bool = { let _ = most; false };
        /// [`Engine::set_sd_task_queue`]. Nested: `false`.
        pub fn set_sd_task_queue(&mut self, queue: crate::sched::SdTaskQueue) -> bool
            = { let _ = queue; false };
        /// [`Engine::always_use_task_queue`]. Nested: nothing is done.
        pub fn always_use_task_queue(&mut self, always: bool) = { let _ = always; };
        /// [`Engine::set_page`]. Nested: the page comes back as an error.
        pub fn set_page(&mut self, page: DmaBuf) -> Result<DmaBuf, DmaBuf> = Err(page);
        /// [`Engine::set_concurrent_commands`]. Nested: nothing is done.
        pub fn set_concurrent_commands(&mut self, allowed: bool) = { let _ = allowed; };
        /// [`Engine::suspend`]. Nested: nothing is done.
        pub fn suspend(&mut self) = {};
        /// [`Engine::resume`]. Nested: nothing is done.
        pub fn resume(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// [`Engine::halt`]. Nested: nothing is done.
        pub fn halt(&mut self) = {};
        /// [`Engine::abort`]. Nested: nothing is done.
        pub fn abort(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// [`Engine::presence_changed`]. Nested: nothing is done.
        pub fn presence_changed(&mut self, now_ns: u64) = { let _ = now_ns; };
        /// [`Engine::take_card_irq`]. Nested: `false`.
        pub fn take_card_irq(&mut self) -> bool = false;
        /// [`Engine::set_card_irq_waker`]. Nested: the waker comes back.
        #[must_use = "to be dropped outside of any lock"]
        pub fn set_card_irq_waker(&mut self, waker: Option<Waker>) -> Option<Waker> = waker;
        /// [`Engine::take_card_irq_waker`]. Nested: `None`.
        #[must_use = "to be woken or dropped outside of any lock"]
        pub fn take_card_irq_waker(&mut self) -> Option<Waker> = None;
        /// [`Engine::unmask_card_irq`]. Nested: nothing is done.
        pub fn unmask_card_irq(&mut self) = {};
        /// [`Engine::mask_card_irq`]. Nested: nothing is done.
        pub fn mask_card_irq(&mut self) = {};
        /// [`Engine::take_retune`]. Nested: `false`.
        pub fn take_retune(&mut self) -> bool = false;
        /// [`Engine::take_continue_lost`]. Nested: `false`.
        pub fn take_continue_lost(&mut self) -> bool = false;
        /// [`Engine::dismiss_supervisor`]. Nested: `false`.
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
        pub(crate) fn restore_packs(&mut self, told: bool) = { let _ = told; };
        pub(crate) fn leave_flushed(&mut self) -> bool = false;
    }

    questions! {
        /// [`Engine::next_deadline_ns`]. Nested: `Some(0)`, a poll is due.
        pub fn next_deadline_ns(&self) -> Option<u64> = Some(0);
        /// [`Engine::id_of`]. Nested: `None`.
        pub fn id_of(&self, index: usize) -> Option<SlotId> = { let _ = index; None };
        /// [`Engine::will_wake`]. Nested: `false`.
        pub fn will_wake(&self, id: SlotId, waker: &Waker) -> bool = { let _ = (id, waker); false };
        /// [`Engine::card_params`]. Nested: `None`.
        pub fn card_params(&self) -> Option<&CardParams> = None;
        /// [`Engine::abilities`]. Nested: [`Abilities::NONE`].
        pub fn abilities(&self) -> &Abilities = &Abilities::NONE;
        /// [`Engine::caps`]. Nested: [`Caps::NONE`].
        pub fn caps(&self) -> &Caps = &Caps::NONE;
        /// [`Engine::stats`]. Nested: all zeros.
        pub fn stats(&self) -> &Stats = &Stats::ZERO;
        /// [`Engine::task_stats`]. Nested: `None`.
        pub fn task_stats(&self) -> Option<&TaskStats> = None;
        /// [`Engine::pack_stats`]. Nested: `None`.
        pub fn pack_stats(&self) -> Option<&PackStats> = None;
        /// [`Engine::chain_stats`]. Nested: `None`.
        pub fn chain_stats(&self) -> Option<&ChainStats> = None;
        /// [`Engine::card_number`]. Nested: [`CardNumber::ANY`].
        pub fn card_number(&self) -> CardNumber = CardNumber::ANY;
        pub(crate) fn is_meant(&self, card: CardNumber) -> bool = { let _ = card; false };
        pub(crate) fn number_of(&self, identity: u32) -> CardNumber = { let _ = identity; CardNumber::ANY };
        /// [`Engine::losses`]. Nested: 0; see [`is_nested`](Self::is_nested).
        pub fn losses(&self) -> u8 = 0;
        /// [`Engine::holds`]. Nested: all zeros.
        pub fn holds(&self) -> Holds = Holds::default();
        /// [`Engine::held_until_ns`]. Nested: `None`, as without a start that is delayed.
        pub fn held_until_ns(&self) -> Option<u64> = None;
        /// [`Engine::slots_in_use`]. Nested: `N`, all slots.
        pub fn slots_in_use(&self) -> usize = N;
        /// [`Engine::is_idle`]. Nested: `false`.
        pub fn is_idle(&self) -> bool = false;
        /// [`Engine::is_quiet`]. Nested: `false`.
        pub fn is_quiet(&self) -> bool = false;
        /// [`Engine::awaited`]. Nested: `None`.
        pub fn awaited(&self) -> Option<&Phase> = None;
        /// [`Engine::last_phase`]. Nested: `None`.
        pub fn last_phase(&self) -> Option<Span> = None;
        /// [`Engine::bus`]. Nested: one data line, clock stopped.
        pub fn bus(&self) -> Bus = Bus { clock_hz: 0, width: Width::W1, ddr: false };

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

    /// [`Engine::incidents`]. Nested: no incident.
    pub fn incidents(&self) -> impl Iterator<Item = RecoveryEvent> + '_ {
        self.engine.as_ref().into_iter().flat_map(|engine| engine.incidents())
    }

    /// [`Engine::host`]. Nested: `None`.
    pub fn host(&self) -> Option<&H> {
        self.engine.as_ref().map(|engine| engine.host())
    }

    /// [`Host::present`]. Nested: `false`.
    pub fn present(&self) -> bool {
        self.host().is_some_and(Host::present)
    }

    /// [`Host::dat0_busy`]. Nested: `false`.
    pub fn dat0_busy(&self) -> bool {
        self.host().is_some_and(Host::dat0_busy)
    }

    /// [`Host::dat_levels`]. Nested: the levels of a busy card.
    pub fn dat_levels(&self) -> u8 {
        self.host().map_or(0, Host::dat_levels)
    }

    /// [`Host::supply_ma`]. Nested: the value for "not known".
    pub fn supply_ma(&self) -> u16 {
        self.host().map_or(0, Host::supply_ma)
    }

    /// [`Host::write_protected`]. Nested: `false`.
    pub fn write_protected(&self) -> bool {
        self.host().is_some_and(Host::write_protected)
    }

    /// [`Host::retune_ns`]. Nested: 0.
    pub fn retune_ns(&self) -> u64 {
        self.host().map_or(0, Host::retune_ns)
    }

    /// [`Engine::host_mut`]. Nested: `None`.
    ///
    /// # Safety
    /// As for [`Engine::host_mut`].
    pub unsafe fn host_mut(&mut self) -> Option<&mut H> {
        self.begun = true;
        // SAFETY: the caller's promise is the one that is asked for.
        self.engine.as_mut().map(|engine| unsafe { engine.host_mut() })
    }

    /// [`Engine::policy`]. Nested: `None`.
    pub fn policy(&self) -> Option<&P::Policy> {
        self.engine.as_ref().map(|engine| engine.policy())
    }

    /// [`Engine::policy_mut`]. Nested: `None`.
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
