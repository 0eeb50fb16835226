//! Every deadline of the engine, in one table: what is to come, and until when it is waited for.
//!
//! The rest of the engine says what begins, and asks whether its time has come; [`Timers::next_ns`]
//! is the one answer to when the engine wants to be called. A deadline that only holds while the
//! engine is idle (a hold, a chain, memory that is kept) counts for that answer once the stage
//! wakes by it.

use super::bus::{COMMAND_TIMEOUT_NS, SLACK_NS};

/// Never.
pub(super) const NEVER: u64 = u64::MAX;
/// The controller is kept idle for a policy no longer than this.
const IDLE_NS_MAX: u64 = 20_000_000;

/// A moment so much later, or the last one. On cores of 32 bits one copy: each would be twenty
/// bytes.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn later(at_ns: u64, ns: u64) -> u64 {
    at_ns.saturating_add(ns)
}

/// The table. [`NEVER`] where nothing is to come.
#[derive(Debug)]
pub(super) struct Timers {
    /// The stage in progress wants a turn.
    wake_ns: u64,
    /// When the phase is given up.
    limit_ns: u64,
    /// The command beside data is given up; while there is none, the next is tried again.
    concurrent_ns: u64,
    /// The card is to be asked whether a function wants attention.
    look_ns: u64,
    /// The next try to stop a controller that keeps memory.
    kept_ns: u64,
    /// The edges' alarm rings by then; never later than the next deadline once a call of theirs is
    /// over.
    alarm_ns: u64,
    /// An open transfer is held for a request until then.
    hold_ns: u64,
    /// The bus is kept for the next phase of an I/O function's chain; 0: it is not.
    chain_ns: u64,
    /// The policy may keep the controller idle until then; 0: it does not.
    idle_ns: u64,
    /// From now on all requests wait for a chore of the card.
    chore_ns: u64,
    /// The incident under way has its budget until then.
    incident_ns: u64,
    /// Help that was asked for is given up.
    help_ns: u64,
    /// The card's presence will have been stable.
    presence_ns: u64,
    /// The card's supply may be switched off and on again.
    cycle_ns: u64,
}

/// The stage in progress.
impl Timers {
    /// Not a constant: a copy of it would lie in the image.
    pub const fn new() -> Timers {
        Timers {
            wake_ns: NEVER,
            limit_ns: NEVER,
            concurrent_ns: NEVER,
            look_ns: NEVER,
            kept_ns: NEVER,
            alarm_ns: NEVER,
            hold_ns: 0,
            chain_ns: 0,
            idle_ns: 0,
            chore_ns: NEVER,
            incident_ns: 0,
            help_ns: NEVER,
            presence_ns: NEVER,
            cycle_ns: 0,
        }
    }

    /// Nothing is in progress any more.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.wake_ns, self.limit_ns) = (NEVER, NEVER);
    }

    /// The stage is given up then.
    #[inline(always)]
    pub fn give_up_at(&mut self, at_ns: u64) {
        self.limit_ns = at_ns;
    }

    /// Clears the deadline of what is in progress: it has ended, or is never given up.
    #[inline(always)]
    pub fn give_up_never(&mut self) {
        self.limit_ns = NEVER;
    }

    #[inline(always)]
    pub fn wake_at(&mut self, at_ns: u64) {
        self.wake_ns = at_ns;
    }

    /// Then at the latest.
    #[inline(always)]
    pub fn wake_by(&mut self, at_ns: u64) {
        self.wake_ns = self.wake_ns.min(at_ns);
    }

    #[inline(always)]
    pub fn wake_now(&mut self) {
        self.wake_ns = 0;
    }

    #[inline(always)]
    pub fn wake_never(&mut self) {
        self.wake_ns = NEVER;
    }

    /// Nothing is to be started: the idle engine wakes for memory that is kept, and for nothing
    /// else.
    #[inline(always)]
    pub fn wake_for_kept(&mut self) {
        self.wake_ns = self.kept_ns;
    }

    /// Does the stage want a turn?
    #[inline(always)]
    pub fn turn_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.wake_ns
    }

    /// Does the stage want a turn? It is given one.
    #[inline]
    pub fn take_turn(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.wake_ns;
        if due {
            self.wake_ns = NEVER;
        }
        due
    }

    /// Has the stage had its time?
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.limit_ns
    }

    /// The controller's timer for a start that was held up: what is left.
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.limit_ns.saturating_sub(now_ns).saturating_sub(SLACK_NS).max(COMMAND_TIMEOUT_NS)
    }

    /// The next of the stage in progress.
    #[inline(always)]
    pub fn next_of_stage_ns(&self) -> Option<u64> {
        Some(self.wake_ns.min(self.limit_ns)).filter(|&at| at != NEVER)
    }

    /// The next of all. A host without commands beside data, or with a card interrupt, has none of
    /// these.
    #[inline(always)]
    pub fn next_ns(&self, beside: bool, looks: bool) -> Option<u64> {
        let concurrent_ns = if beside { self.concurrent_ns } else { NEVER };
        let look_ns = if looks { self.look_ns } else { NEVER };
        let next_ns = self.wake_ns.min(self.limit_ns).min(concurrent_ns).min(look_ns);
        Some(next_ns).filter(|&at| at != NEVER)
    }
}

/// The times of what goes on beside the phase, or lasts longer.
impl Timers {
    pub fn concurrent_at(&mut self, at_ns: u64) {
        self.concurrent_ns = at_ns;
    }

    #[inline]
    pub fn concurrent_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.concurrent_ns
    }

    pub fn look_at(&mut self, at_ns: u64) {
        self.look_ns = at_ns;
    }

    #[inline]
    pub fn is_looking(&self) -> bool {
        self.look_ns != NEVER
    }

    /// Is a look due? There is no next one until it has been made.
    #[inline]
    pub fn take_look(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.look_ns;
        if due {
            self.look_ns = NEVER;
        }
        due
    }

    /// An open transfer is held until then.
    pub fn hold_until(&mut self, at_ns: u64) {
        self.hold_ns = at_ns;
    }

    pub fn hold_is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.hold_ns
    }

    /// Nothing else is to come: the stage wakes when the hold is over.
    pub fn wake_after_hold(&mut self) {
        self.wake_ns = self.hold_ns;
    }

    /// ... or then, at the latest.
    pub fn wake_by_hold(&mut self) {
        self.wake_ns = self.wake_ns.min(self.hold_ns);
    }

    /// A chain of an I/O function keeps the bus until then.
    pub fn chain_until(&mut self, at_ns: u64) {
        self.chain_ns = at_ns;
    }

    /// Clears the end of a chain that has gone on, or is given up.
    pub fn clear_chain(&mut self) {
        self.chain_ns = 0;
    }

    pub fn is_chained(&self) -> bool {
        self.chain_ns != 0
    }

    /// Wakes at the end of a chain that keeps the bus. True: there is one.
    pub fn wake_at_chain_end(&mut self, now_ns: u64) -> bool {
        let waits = now_ns < self.chain_ns;
        if waits {
            self.wake_ns = self.chain_ns;
        }
        waits
    }

    /// The policy keeps the controller idle until then. False: it has done so for too long.
    pub fn keep_idle(&mut self, at_ns: u64, now_ns: u64) -> bool {
        if self.idle_ns == 0 {
            self.idle_ns = later(now_ns, IDLE_NS_MAX);
        }
        let may = now_ns < self.idle_ns;
        if may {
            self.wake_ns = at_ns.min(self.idle_ns);
        }
        may
    }

    /// Gives the policy its whole time again, as a transfer begins.
    #[inline(always)]
    pub fn clear_idle(&mut self) {
        self.idle_ns = 0;
    }

    /// Memory is kept; then the controller is stopped again.
    pub fn keep_until(&mut self, at_ns: u64) {
        self.kept_ns = at_ns;
    }

    #[inline]
    pub fn is_kept(&self) -> bool {
        self.kept_ns != NEVER
    }

    /// The controller has been stopped. True: memory was kept.
    pub fn take_kept(&mut self) -> bool {
        core::mem::replace(&mut self.kept_ns, NEVER) != NEVER
    }

    /// Wakes the idle engine for the next try. True: it is due now.
    pub fn wake_for_retry(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.kept_ns;
        if !due {
            self.wake_by(self.kept_ns);
        }
        due
    }

    #[inline(always)]
    pub fn alarm_ns(&self) -> u64 {
        self.alarm_ns
    }

    #[inline(always)]
    pub fn note_alarm(&mut self, at_ns: u64) {
        self.alarm_ns = at_ns;
    }
}

/// The times of recovery and of the supervisor.
impl Timers {
    /// Sets the time from which on all requests wait for a chore of the card.
    #[inline(always)]
    pub fn chore_at(&mut self, at_ns: u64) {
        self.chore_ns = at_ns;
    }

    /// Do all requests wait for it?
    #[inline(always)]
    pub fn chore_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.chore_ns
    }

    /// Is there one to come?
    #[inline(always)]
    pub fn chore_is_planned(&self) -> bool {
        self.chore_ns != NEVER
    }

    /// The incident has time until then.
    #[inline(always)]
    pub fn incident_until(&mut self, at_ns: u64) {
        self.incident_ns = at_ns;
    }

    /// Has it had its time at this moment?
    #[inline(always)]
    pub fn incident_is_over(&self, at_ns: u64) -> bool {
        at_ns >= self.incident_ns
    }

    /// The stage in progress wakes by then.
    #[inline(always)]
    pub fn wake_by_incident(&mut self) {
        self.wake_by(self.incident_ns);
    }

    /// Help is waited for until then.
    #[inline(always)]
    pub fn help_until(&mut self, at_ns: u64) {
        self.help_ns = at_ns;
    }

    /// Help has as long as the incident.
    #[inline(always)]
    pub fn help_until_incident(&mut self) {
        self.help_ns = self.incident_ns;
    }

    /// Lets help last as long as the incident.
    #[inline(always)]
    pub fn help_may_last(&mut self) {
        self.help_ns = self.help_ns.max(self.incident_ns);
    }

    /// No longer than that.
    #[inline(always)]
    pub fn help_by(&mut self, at_ns: u64) {
        self.help_ns = self.help_ns.min(at_ns);
    }

    #[inline(always)]
    pub fn help_is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.help_ns
    }

    /// The stopped engine wakes when help is given up, if it is awaited, and when the card's
    /// presence is known.
    #[inline(always)]
    pub fn wake_for_help(&mut self, awaited: bool) {
        let help_ns = if awaited { self.help_ns } else { NEVER };
        self.wake_ns = help_ns.min(self.presence_ns);
    }

    /// A card comes or goes: whether one is there is known then.
    #[inline(always)]
    pub fn presence_at(&mut self, at_ns: u64) {
        self.presence_ns = at_ns;
    }

    /// Ends the wait for a stable presence.
    #[inline(always)]
    pub fn clear_presence(&mut self) {
        self.presence_ns = NEVER;
    }

    #[inline(always)]
    pub fn presence_is_open(&self) -> bool {
        self.presence_ns != NEVER
    }

    #[inline(always)]
    pub fn presence_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.presence_ns
    }

    /// May the supply be switched off and on? If so, not again before that pause is over.
    #[inline(always)]
    pub fn take_cycle(&mut self, now_ns: u64, pause_ns: u64) -> bool {
        let may = now_ns >= self.cycle_ns;
        if may {
            self.cycle_ns = now_ns.saturating_add(pause_ns);
        }
        may
    }

    /// The card is new: its supply may be switched at once.
    #[inline(always)]
    pub fn cycle_at_once(&mut self) {
        self.cycle_ns = 0;
    }
}
