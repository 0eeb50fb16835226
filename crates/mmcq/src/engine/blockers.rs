//! The blockers: the causes that keep a request from coming in, from starting, or from the fast
//! path.
//!
//! The blockers are one word with one bit for each cause. While the word is 0 an ordinary read or
//! write takes the [fast path](super::fast); nearly every request does.
//!
//! - The *gate* is the check that decides which requests come in ([`gate`](super::gate)), and
//!   whether any request starts. Five causes belong to it: suspended, halted, waiting for help,
//!   card given up, card with a quirk. The code that begins or ends such a cause sets or clears its
//!   bit. The gate reads only these bits, so two answers cannot contradict each other.
//! - All other causes are states of a part of the engine. Only [`causes`](Engine::causes) reads
//!   these parts; the word stores the result. Code that makes such a cause true calls
//!   [`close_fast`](Blockers::close_fast), which sets [`UNREAD`] until the parts are read again.
//!
//! Some causes stop only some ways of sending requests. The masks name the causes that stop the
//! fast path ([`SHORT`]), the card's queue ([`TASKS`]), and packs and chains ([`COLLECTIONS`]).

use super::order::Order;
use super::{Engine, fast::FastKind};
use crate::host::Host;
use crate::sched::{Policy, Profile};
use core::marker::PhantomData;

/// The platform has suspended the engine: new requests are refused; queued ones continue.
const SUSPENDED: u32 = 1;
/// The platform has halted the engine: nothing starts; new requests are accepted.
const HALTED: u32 = 1 << 1;
/// Only urgent requests start: the engine waits for help, or does not know yet whether the card is
/// present.
pub(super) const HELP: u32 = 1 << 2;
/// Recovery has given the card up.
const DEAD: u32 = 1 << 3;
/// The card has a quirk: some reads or writes must be sent alone and in pieces.
pub(super) const QUIRK: u32 = 1 << 4;

/// Recovery is running: a request has failed, and its recovery has not ended (an incident).
const INCIDENT: u32 = 1 << 5;
/// Blocker: some writes may not have reached the medium, or have to be written again.
const DOUBT: u32 = 1 << 6;
/// Blocker of the fast path: the engine has to wake the supervisor.
const CALL: u32 = 1 << 7;
/// Set while a control request (a request that is neither a read nor a write) has the bus.
const CONTROL: u32 = 1 << 8;
/// A command to an I/O function waits.
const IO: u32 = 1 << 9;
/// A command is being sent during a data transfer.
const CONCURRENT: u32 = 1 << 10;
/// An I/O function's data transfer runs, or a function requests attention.
const FUNCTION: u32 = 1 << 11;
/// The bus is reserved for the next of several commands to an I/O function that belong together.
const CHAINED: u32 = 1 << 12;
/// Another partition of an eMMC than the user area is selected, or may be selected.
const AREA: u32 = 1 << 13;
/// The engine polls the card for its interrupt, because the host does not signal it.
const LOOKING: u32 = 1 << 14;
/// The engine has completed writes before the card has sent their status.
const UNSETTLED: u32 = 1 << 15;
/// Blocker of the fast path: the profile, the scheduler or the host has none.
const GENERAL: u32 = 1 << 16;
/// A transfer is left open on the card.
pub(super) const LEFT_OPEN: u32 = 1 << 17;
/// Blocker: the card's command queue is in use, or it is not known whether it is.
const QUEUE: u32 = 1 << 18;
/// Blocker of the fast path: packed commands may be used.
const PACKS: u32 = 1 << 19;
/// Transfers may be sent to the controller in chains (several in one list).
const CHAINS: u32 = 1 << 20;
/// The engine measures when clients that read or write sequentially send their requests, to predict
/// whether more of them are about to come (`tail.rs`). The next request that starts takes the
/// general path. A request that only has to wait may still come in by the fast path.
const WATCHED: u32 = 1 << 21;
/// The controller's command queue engine takes all ordinary requests (`tasks/driven.rs`).
pub(super) const DRIVEN: u32 = 1 << 22;
/// Blocker: parts of the engine have changed since the causes were last read from them, so a cause
/// may exist whose bit is not set yet.
const UNREAD: u32 = 1 << 31;

/// The causes that the gate reads when it decides whether a request comes in. The code that begins
/// and ends such a cause sets and clears its bit.
const GATE: u32 = SUSPENDED | HALTED | HELP | DEAD | QUIRK;
/// Causes: transfers may be sent as tasks of the card's queue, as packs or as chains, and not only
/// one by one. These ways have rules of their own, so the fast path leaves the request to the
/// general path.
const LANES: u32 = QUEUE | PACKS | CHAINS;
/// Causes that keep a request from the fast path (the short code for an ordinary read or write).
/// The general path handles such a request.
const SPECIAL: u32 =
    GATE | INCIDENT | CALL | CONTROL | IO | CONCURRENT | FUNCTION | CHAINED | AREA | LOOKING | LANES;
/// Causes for which a read or write takes the general path, and not the fast path (few checks).
const SHORT: u32 = SPECIAL | UNSETTLED | GENERAL | LEFT_OPEN | WATCHED;
/// Causes that stop the card's command queue. While the queue is on, they also stop a flush of the
/// card's cache.
pub(super) const TASKS: u32 = HALTED | HELP | INCIDENT | DOUBT | AREA | IO;
/// Causes that stop packed commands and chains (lists of transfers that the controller executes).
pub(super) const COLLECTIONS: u32 = QUIRK | INCIDENT | DOUBT | AREA | LEFT_OPEN;

/// Set of the causes that now keep requests from being accepted, from starting, or from the fast
/// path: one bit for each cause.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Blockers<H, P> {
    word: u32,
    /// Most requests that may be in the engine at a time.
    queue_limit: u8,
    /// Kind of the phase that the controller has, if the fast path (the short code for ordinary
    /// reads and writes) may handle its end.
    fast_kind: FastKind,
    /// Types of host and profile; `FAST` is computed from them.
    of: PhantomData<fn() -> (H, P)>,
}

impl<H: Host, P: Profile> Blockers<H, P> {
    /// Whether an engine of this host and profile has a fast path.
    pub const FAST: bool = P::FAST && P::Policy::MAY_BE_IN_ORDER && P::RECOVERS && !H::ALWAYS_CONTINUES;

    pub const fn new(queue_limit: u8) -> Self {
        Blockers { word: UNREAD, queue_limit, fast_kind: FastKind::Nothing, of: PhantomData }
    }

    /// Sets how the fast path (few checks) may handle the end of the phase that the controller is
    /// about to get.
    #[inline(always)]
    pub fn set_fast_kind(&mut self, kind: FastKind) {
        self.fast_kind = kind;
    }

    /// Returns which kind of work the controller has, if the fast path may handle its end.
    #[inline(always)]
    pub fn fast_kind(&self) -> FastKind {
        self.fast_kind
    }

    /// Sets (`holds`) or clears the bit of one of the causes in `GATE`, for which requests are
    /// refused or wait. A cause outside of `GATE` is ignored.
    pub fn set(&mut self, cause: u32, holds: bool) {
        let cause = cause & GATE;
        self.word = if holds { self.word | cause } else { self.word & !cause };
    }

    /// Refuses new requests. The platform suspends, halts or resumes the engine; each such call
    /// replaces the one before.
    pub fn suspend(&mut self) {
        self.word = self.word & !HALTED | SUSPENDED;
    }

    /// Stops all starts; new requests are accepted.
    pub fn halt(&mut self) {
        self.word = self.word & !SUSPENDED | HALTED;
    }

    /// Ends a suspension (new requests are refused) or a halt (no request starts), so that the
    /// engine works again.
    pub fn resume(&mut self) {
        self.word &= !(SUSPENDED | HALTED);
    }

    /// Marks the card as given up by recovery. Returns false if it was marked before.
    pub fn mark_dead(&mut self) -> bool {
        let first = self.word & DEAD == 0;
        self.word |= DEAD;
        first
    }

    /// Clears the mark that recovery has given the card up: another card is in the card slot, or
    /// the card is brought up again.
    pub fn clear_card_faults(&mut self) {
        self.word &= !DEAD;
    }

    /// Sets how many requests may be in the engine at a time, to `queue_limit`. If there is a
    /// supervisor (the future that sends the commands for recovery and upkeep), one more slot is
    /// used for its requests.
    pub fn limit(&mut self, queue_limit: u8) {
        self.queue_limit = queue_limit;
    }

    #[inline(always)]
    pub fn queue_limit(&self) -> usize {
        self.queue_limit.into()
    }

    /// Returns whether only urgent requests start: the engine is halted, waits for the supervisor
    /// (for example to bring the card up again), or does not know yet whether the card is present.
    pub fn is_stopped(&self) -> bool {
        self.word & (HALTED | HELP) != 0
    }

    /// Returns whether some requests are not accepted or must be sent alone: the card is suspended,
    /// was given up, or has a quirk.
    pub fn is_barred(&self) -> bool {
        self.word & (SUSPENDED | DEAD | QUIRK) != 0
    }

    pub fn is_halted(&self) -> bool {
        self.word & HALTED != 0
    }

    pub fn is_suspended(&self) -> bool {
        self.word & SUSPENDED != 0
    }

    /// Returns whether the platform has neither suspended nor halted the engine.
    pub fn is_running(&self) -> bool {
        self.word & (SUSPENDED | HALTED) == 0
    }

    pub fn is_dead(&self) -> bool {
        self.word & DEAD != 0
    }

    /// Returns whether nothing stops an ordinary read or write (see the module for what may).
    #[inline(always)]
    pub fn are_none(&self) -> bool {
        self.word == 0
    }

    /// Notes that a transfer is left open on the card. The bit stays set after the transfer was
    /// closed, until all causes are read again.
    #[inline(always)]
    pub fn note_left_open(&mut self) {
        self.word |= LEFT_OPEN;
        self.forget_fast();
    }

    /// Sets the causes that were found in the parts of the engine: `found` replaces all bits except
    /// those of [`GATE`].
    #[inline(always)]
    fn keep(&mut self, found: u32) {
        self.word = self.word & GATE | found & !GATE;
    }

    /// Makes the next request take the general path, because something that forbids the fast path
    /// (the path with few checks) may have begun. Sets [`UNREAD`]: the general path checks again
    /// what still holds.
    #[inline(always)]
    pub fn close_fast(&mut self) {
        if Self::FAST {
            self.word |= UNREAD;
            self.forget_fast();
        }
    }

    /// Makes the engine handle the end of the transfer in progress with all checks (general path),
    /// and not by the fast path.
    #[inline(always)]
    pub fn forget_fast(&mut self) {
        if Self::FAST {
            self.set_fast_kind(FastKind::Nothing);
        }
    }

    /// Returns whether a request may take the fast path (the path with few checks): the engine has
    /// one, and nothing forbids it. The bits [`WATCHED`], [`DRIVEN`] and [`LEFT_OPEN`] are ignored,
    /// since they do not concern recovery or the card's functions.
    #[inline(always)]
    pub fn is_fast(&self) -> bool {
        Self::FAST && self.word & !(WATCHED | DRIVEN | LEFT_OPEN) == 0
    }
}

impl<P: Profile> Order<P> {
    /// Returns whether profile, host and scheduler allow the fast path at all: the scheduler works
    /// in the order of arrival.
    pub fn may_go_fast<H: Host>(&self) -> bool {
        Blockers::<H, P>::FAST && self.policy().is_in_order()
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Whether this engine has the fast path: fewer checks for an ordinary read or write that comes
    /// while the engine is idle.
    pub(crate) const FAST: bool = Blockers::<H, P>::FAST;

    /// Returns which of the causes `ASKED`, one bit each, now keep requests from being accepted,
    /// from starting, or from the fast path. Reads them from the parts of the engine.
    #[inline(always)]
    fn causes<const ASKED: u32>(&self) -> u32 {
        let mut found = self.blockers.word & ASKED & GATE;
        let mut note = |cause: u32, holds: bool| found |= if holds { cause & ASKED } else { 0 };
        let asks = |cause: u32| ASKED & cause != 0;
        note(INCIDENT, asks(INCIDENT) && self.incident.is_open());
        note(DOUBT, asks(DOUBT) && self.incident.is_in_doubt());
        note(CALL, asks(CALL) && self.supervisor.helping().calls());
        note(CONTROL, asks(CONTROL) && self.lane.has_control());
        note(IO, asks(IO) && self.slots.has_io());
        note(CONCURRENT, asks(CONCURRENT) && self.lane.is_concurrent::<H, P>());
        let functions = self.card.functions();
        note(FUNCTION, asks(FUNCTION) && (functions.is_running() || functions.is_asking()));
        note(CHAINED, asks(CHAINED) && self.timers.is_chained());
        note(AREA, asks(AREA) && !self.services.memory().area().is_user());
        note(LOOKING, asks(LOOKING) && !H::CARD_IRQ && self.timers.is_looking());
        note(UNSETTLED, asks(UNSETTLED) && self.durability.is_unsettled());
        note(GENERAL, asks(GENERAL) && !self.order.may_go_fast::<H>());
        note(LEFT_OPEN, asks(LEFT_OPEN) && self.lane.streams().is_left_open::<H>());
        let tasks = || self.lane.tasks().is_some_and(|tasks| tasks.is_armed()) || self.lane.is_queued();
        note(QUEUE, asks(QUEUE) && tasks());
        note(PACKS, asks(PACKS) && self.lane.packs().is_some_and(|packs| packs.is_armed()));
        note(CHAINS, asks(CHAINS) && self.lane.chains().is_some_and(|chains| chains.is_armed()));
        note(WATCHED, asks(WATCHED) && self.order.watches(self.lane.is_queued()));
        found
    }

    /// Returns whether the command queue, packed commands or chains may not be used now. One of the
    /// `CAUSES` is present, or the card needs something first, such as a new tuning.
    #[inline(always)]
    pub(super) fn is_lane_stopped<const CAUSES: u32>(&self, now_ns: u64) -> bool {
        self.causes::<CAUSES>() != 0 || self.timers.chore_is_due(now_ns)
    }

    /// Returns whether a cause is present that keeps all requests from the fast path (the path with
    /// few checks).
    pub(super) fn is_special(&self) -> bool {
        self.causes::<SPECIAL>() != 0
    }

    /// Returns whether the engine has a fast path (few checks for ordinary requests) and no cause
    /// in this set closes it. [`WATCHED`], [`DRIVEN`] and [`LEFT_OPEN`] do not count, because they
    /// do not concern recovery or the card's functions.
    #[inline(always)]
    pub(crate) fn is_fast(&self) -> bool {
        self.blockers.is_fast()
    }

    /// If something may stop requests (such as a failure that is handled), checks whether it still
    /// does. Returns true if nothing stops the next request.
    #[inline(always)]
    pub(super) fn try_open(&mut self) -> bool {
        if !self.blockers.are_none() {
            return self.reopen();
        }
        debug_assert!(self.causes::<SHORT>() == 0, "a cause has begun, and its owner has not set its bit");
        true
    }

    /// Returns whether a new request may take the fast path (without the checks for special cases).
    /// `queues`: the request only waits in the queue; otherwise it starts at once.
    #[inline(always)]
    pub(super) fn admit_fast(&mut self, queues: bool) -> bool {
        match self.blockers.word {
            0 => self.try_open(),
            WATCHED if queues => true,
            WATCHED if self.order.is_held() => false,
            _ => self.reopen(),
        }
    }

    /// Reads anew, from the parts of the engine, the causes that block the fast path. Returns true
    /// if there is none.
    #[inline(never)]
    fn reopen(&mut self) -> bool {
        // If another lane than the single one is in use, it stays in use for long: no other cause
        // is read.
        let lanes = self.causes::<LANES>();
        if lanes != 0 && !self.lane.rings_tasks() {
            self.blockers.keep(lanes | UNREAD);
            return false;
        }
        let found = self.causes::<SHORT>();
        let ordinary = found & !(LANES | WATCHED) == 0;
        let driven = ordinary && self.lane.rings_tasks() && self.lane.is_idle() && !self.tells_transferred();
        self.blockers.keep(if driven { DRIVEN } else { found });
        self.blockers.are_none()
    }

    /// Returns whether `CAUSE` alone stops the fast path. [`DRIVEN`]: all ordinary reads and writes
    /// go to the controller's command queue engine. [`LEFT_OPEN`]: a request may continue the open
    /// transfer.
    #[inline(always)]
    pub(super) fn is_stopped_by<const CAUSE: u32>(&self) -> bool {
        let alone = self.blockers.word == CAUSE;
        debug_assert!(
            !alone || self.causes::<{ SPECIAL & !LANES }>() == 0,
            "a cause whose owner has not set its bit"
        );
        alone
    }
}
