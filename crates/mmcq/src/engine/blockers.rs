//! The blockers: what keeps a request from coming in, from starting, or from going the short way.
//!
//! One word, a bit a cause. Where the word is 0 an ordinary read or write goes by the
//! [fast path](super::fast), and so does nearly every request.
//!
//! - The causes of the *gate* are set and cleared by their owners, when they begin and end: the
//!   platform (suspend, halt), the recovery ladder (dead), its help, the card (a quirk).
//!   Which requests come in ([`gate`](super::gate)) and whether anything starts is read from these
//!   bits alone, so no two answers can contradict each other.
//! - All others are states of a part of the engine. [`causes`](Engine::causes) is the one place
//!   that asks the parts, and the word keeps what was found. The code that makes such a cause true
//!   calls [`close_fast`](Engine::close_fast): [`UNREAD`] is set then, until they are asked again.
//!
//! A way to the card bears some causes. Which stop it is a mask: [`SHORT`], [`TASKS`], ...

use super::{Engine, fast::FastKind};
use crate::host::Host;
use crate::sched::{Policy, Profile};

/// New requests are refused; what is queued goes on.
const SUSPENDED: u32 = 1;
/// Nothing starts; new requests are accepted.
const HALTED: u32 = 1 << 1;
/// Nothing starts but urgent requests: help is awaited, or the card's presence is in doubt.
pub(super) const HELP: u32 = 1 << 2;
/// The card is given up.
const DEAD: u32 = 1 << 3;
/// The card's last block must be read alone.
pub(super) const LAST_BLOCK: u32 = 1 << 4;

/// An incident is open: recovery is at work.
const INCIDENT: u32 = 1 << 5;
/// The fate of some writes is doubtful, or they are to be written again.
const DOUBT: u32 = 1 << 6;
/// The supervisor is called.
const CALL: u32 = 1 << 7;
/// A control request has the bus.
const CONTROL: u32 = 1 << 8;
/// A command to an I/O function waits.
const IO: u32 = 1 << 9;
/// A command goes beside data.
const CONCURRENT: u32 = 1 << 10;
/// An I/O function's memory moves, or a function asks for attention.
const FUNCTION: u32 = 1 << 11;
/// A chain of transfers to I/O functions keeps the bus.
const CHAINED: u32 = 1 << 12;
/// The card is, maybe, not in its user area.
const AREA: u32 = 1 << 13;
/// The engine looks for the card's interrupt itself.
const LOOKING: u32 = 1 << 14;
/// Writes are complete whose status is still to come.
const UNSETTLED: u32 = 1 << 15;
/// The profile, the scheduler or the host knows no fast path.
const GENERAL: u32 = 1 << 16;
/// A transfer is left open on the card.
const LEFT_OPEN: u32 = 1 << 17;
/// The card's queue is in use, or may be.
const QUEUE: u32 = 1 << 18;
/// Packed commands may be used.
const PACKS: u32 = 1 << 19;
/// Chains of transfers may be used.
const CHAINS: u32 = 1 << 20;
/// Sequential clients are watched for the tail of a batch (`tail.rs`): what is next goes the
/// general way, and what has to wait comes in as ever.
const WATCHED: u32 = 1 << 21;
/// The controller's queue engine takes whatever is ordinary (`tasks/driven.rs`).
const DRIVEN: u32 = 1 << 22;
/// Some cause may have begun since the parts were asked.
const UNREAD: u32 = 1 << 31;

/// The causes that their owners set.
const GATE: u32 = SUSPENDED | HALTED | HELP | DEAD | LAST_BLOCK;
/// The lanes beside the single one, which have rules of their own.
const LANES: u32 = QUEUE | PACKS | CHAINS;
/// Causes that the fast path knows nothing of, and leaves to the general one.
const SPECIAL: u32 =
    GATE | INCIDENT | CALL | CONTROL | IO | CONCURRENT | FUNCTION | CHAINED | AREA | LOOKING | LANES;
/// Causes that stop the fast path.
const SHORT: u32 = SPECIAL | UNSETTLED | GENERAL | WATCHED;
/// Causes that stop the card's queue, and a flush of the card's cache while its queue is on.
pub(super) const TASKS: u32 = HALTED | HELP | INCIDENT | DOUBT | AREA | IO;
/// Causes that stop packs and chains.
pub(super) const COLLECTIONS: u32 = INCIDENT | DOUBT | AREA | LEFT_OPEN;

/// The causes at work.
#[derive(Debug)]
pub(super) struct Blockers {
    word: u32,
    /// Requests that may be in the engine at a time.
    queue_limit: u8,
}

impl Blockers {
    pub const fn new(queue_limit: u8) -> Blockers {
        Blockers { word: UNREAD, queue_limit }
    }

    /// Sets or clears a cause of the gate.
    pub fn set(&mut self, cause: u32, holds: bool) {
        let cause = cause & GATE;
        self.word = if holds { self.word | cause } else { self.word & !cause };
    }

    /// Lets no new request in. The platform suspends, halts or resumes; each ends the one before.
    pub fn suspend(&mut self) {
        self.word = self.word & !HALTED | SUSPENDED;
    }

    /// Lets nothing start.
    pub fn halt(&mut self) {
        self.word = self.word & !SUSPENDED | HALTED;
    }

    /// Ends a suspension or a halt.
    pub fn resume(&mut self) {
        self.word &= !(SUSPENDED | HALTED);
    }

    /// Marks the card as given up by the ladder. False: it was before.
    pub fn mark_dead(&mut self) -> bool {
        let first = self.word & DEAD == 0;
        self.word |= DEAD;
        first
    }

    /// Forgets what was wrong with the card: it is another, or begins anew.
    pub fn clear_card_faults(&mut self) {
        self.word &= !DEAD;
    }

    /// Limits the requests that may come in: a supervisor, if there is one, needs a slot of its own.
    pub fn limit(&mut self, queue_limit: u8) {
        self.queue_limit = queue_limit;
    }

    #[inline(always)]
    pub fn queue_limit(&self) -> usize {
        self.queue_limit.into()
    }

    /// Does nothing start but urgent requests?
    pub fn is_stopped(&self) -> bool {
        self.word & (HALTED | HELP) != 0
    }

    /// Are some requests refused, or must go alone?
    pub fn is_barred(&self) -> bool {
        self.word & (SUSPENDED | DEAD | LAST_BLOCK) != 0
    }

    pub fn is_halted(&self) -> bool {
        self.word & HALTED != 0
    }

    pub fn is_suspended(&self) -> bool {
        self.word & SUSPENDED != 0
    }

    /// Has the platform neither suspended nor halted the engine?
    pub fn is_running(&self) -> bool {
        self.word & (SUSPENDED | HALTED) == 0
    }

    pub fn is_dead(&self) -> bool {
        self.word & DEAD != 0
    }

    /// Is nothing in the way of an ordinary read or write?
    #[inline(always)]
    pub fn are_none(&self) -> bool {
        self.word == 0
    }

    /// Keeps what the parts were found at.
    #[inline(always)]
    fn keep(&mut self, found: u32) {
        self.word = self.word & GATE | found & !GATE;
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Whether there is a fast path.
    pub(crate) const FAST: bool =
        P::FAST && P::Policy::MAY_BE_IN_ORDER && P::RECOVERS && !H::ALWAYS_CONTINUES;

    /// Returns those of the `ASKED` causes that hold now, by the parts themselves.
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
        note(CONCURRENT, asks(CONCURRENT) && self.is_concurrent());
        let functions = self.card.functions();
        note(FUNCTION, asks(FUNCTION) && (functions.is_running() || functions.is_asking()));
        note(CHAINED, asks(CHAINED) && self.timers.is_chained());
        note(AREA, asks(AREA) && !self.services.memory().area().is_user());
        note(LOOKING, asks(LOOKING) && !H::CARD_IRQ && self.timers.is_looking());
        note(UNSETTLED, asks(UNSETTLED) && self.durability.is_unsettled());
        note(GENERAL, asks(GENERAL) && !self.may_go_fast());
        note(LEFT_OPEN, asks(LEFT_OPEN) && self.is_left_open());
        let tasks = || self.lane.tasks().is_some_and(|tasks| tasks.is_armed()) || self.is_queued();
        note(QUEUE, asks(QUEUE) && tasks());
        note(PACKS, asks(PACKS) && self.lane.packs().is_some_and(|packs| packs.is_armed()));
        note(CHAINS, asks(CHAINS) && self.lane.chains().is_some_and(|chains| chains.is_armed()));
        note(WATCHED, asks(WATCHED) && self.watches());
        found
    }

    /// Does any of these causes stop a lane now, or a chore that is due?
    #[inline(always)]
    pub(super) fn is_lane_stopped<const CAUSES: u32>(&self, now_ns: u64) -> bool {
        self.causes::<CAUSES>() != 0 || self.timers.chore_is_due(now_ns)
    }

    /// Is anything going on that the fast path knows nothing of?
    pub(super) fn is_special(&self) -> bool {
        self.causes::<SPECIAL>() != 0
    }

    /// Does the scheduler want to know nothing on the fast path, and continues nothing an open
    /// transfer?
    pub(super) fn may_go_fast(&self) -> bool {
        let continues = H::CONTINUES && self.bus.host().caps().continue_data;
        Self::FAST && self.order.policy().is_in_order() && !continues
    }

    /// Sets [`UNREAD`]: there may be something special from now on.
    #[inline(always)]
    pub(super) fn close_fast(&mut self) {
        if Self::FAST {
            self.blockers.word |= UNREAD;
            self.forget_fast();
        }
    }

    /// Lets what is under way end by the general path.
    #[inline(always)]
    pub(super) fn forget_fast(&mut self) {
        if Self::FAST {
            self.lane.set_fast_kind(FastKind::Nothing);
        }
    }

    /// Does surely neither card nor recovery ask for attention?
    #[inline(always)]
    pub(crate) fn is_fast(&self) -> bool {
        Self::FAST && self.blockers.word & !(WATCHED | DRIVEN) == 0
    }

    /// Asks the parts again where some cause was found, or may have begun. True: nothing is in the
    /// way of what is next.
    #[inline(always)]
    pub(super) fn try_open(&mut self) -> bool {
        if !self.blockers.are_none() {
            return self.reopen();
        }
        debug_assert!(self.causes::<SHORT>() == 0, "a cause has begun, and its owner has not set its bit");
        true
    }

    /// Decides whether a request comes in by the fast path, to start at once, or (`queues`) to wait.
    #[inline(always)]
    pub(super) fn admit_fast(&mut self, queues: bool) -> bool {
        match self.blockers.word {
            0 => self.try_open(),
            WATCHED if queues => true,
            WATCHED if self.is_held() => false,
            _ => self.reopen(),
        }
    }

    /// Asks the parts for all causes. True: there is none.
    #[inline(never)]
    fn reopen(&mut self) -> bool {
        // A lane beside the single one is there for long: then nothing else is asked.
        let lanes = self.causes::<LANES>();
        if lanes != 0 && !self.rings_tasks() {
            self.blockers.keep(lanes | UNREAD);
            return false;
        }
        let found = self.causes::<SHORT>();
        let ordinary = found & !(LANES | WATCHED) == 0;
        let driven = ordinary && self.rings_tasks() && self.lane.is_idle() && !self.tells_transferred();
        self.blockers.keep(if driven { DRIVEN } else { found });
        self.blockers.are_none()
    }

    /// Does whatever is ordinary go to the controller's queue engine?
    #[inline(always)]
    pub(super) fn is_driven_open(&self) -> bool {
        let open = self.lane.hosted().is_some() && self.blockers.word == DRIVEN;
        debug_assert!(
            !open || self.causes::<{ SPECIAL & !LANES }>() == 0,
            "a cause whose owner has not set its bit"
        );
        open
    }
}
