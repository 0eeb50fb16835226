//! Every deadline of the engine, in one table: what will happen, and until when the engine waits.
//!
//! The rest of the engine sets deadlines, and checks whether their time has come. Only
//! [`Timers::next_ns`] decides when the engine must be called. Some deadlines matter only while the
//! engine is idle (an open or delayed transfer, a chain, memory that a controller still uses). Such
//! a deadline has no effect until a call makes it the wake-up time of the stage. The *stage* is
//! what the engine waits for: a command with its data, the end of busy, or a pause.

use super::bus::{COMMAND_TIMEOUT_NS, SLACK_NS};

/// A deadline that is not set.
pub(super) const NEVER: u64 = u64::MAX;
/// Longest time in ns for which a policy may keep the controller idle in a row.
const IDLE_NS_MAX: u64 = 20_000_000;

/// Returns the moment `ns` after `at_ns`, at most the largest `u64`. Cores of 32 bits have one copy
/// of this function, since each copy would be twenty bytes.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn later(at_ns: u64, ns: u64) -> u64 {
    at_ns.saturating_add(ns)
}

/// All deadlines of the engine, in nanoseconds; [`NEVER`]: a deadline that is not set.
#[derive(Debug)]
pub(super) struct Timers {
    /// Time in ns at which the engine must be called to continue its present work, for example to
    /// poll a busy card.
    wake_ns: u64,
    /// Time in ns at which the engine gives up waiting for the command or pause in progress.
    limit_ns: u64,
    /// Time in ns at which the engine gives up the command during data that is on the CMD line.
    /// While there is no such command: time at which the engine tries again to send one that was
    /// refused.
    concurrent_ns: u64,
    /// Time in ns at which the card is polled next for a function that requests attention, on a
    /// host without a card interrupt.
    look_ns: u64,
    /// Time in ns at which the engine tries again to stop a controller that still uses memory.
    kept_ns: u64,
    /// When the stack's alarm rings. At the end of each call of the engine it is not later than the
    /// next deadline.
    alarm_ns: u64,
    /// Time in ns until which a transfer stays open without a request that continues it.
    hold_ns: u64,
    /// Time in ns until which the bus is reserved for the next command of an I/O function whose
    /// client announced one; 0: the bus is not reserved.
    chain_ns: u64,
    /// Latest time in ns until which the scheduler may keep the controller idle although requests
    /// wait;
    /// 0: the scheduler does not do so now.
    idle_ns: u64,
    /// Time in ns from which on all requests wait until the supervisor has done what the card
    /// needs, such as a tuning.
    chore_ns: u64,
    /// Time in ns at which the recovery that is running (the incident) has reached its time limit.
    incident_ns: u64,
    /// When the engine stops waiting for the supervisor, which it has asked for help with a
    /// failure.
    help_ns: u64,
    /// Time in ns from which the card's presence (inserted, or removed) counts as stable.
    presence_ns: u64,
    /// Earliest time in ns at which recovery may switch the card's power off and on again.
    cycle_ns: u64,
}

/// Deadlines of the stage in progress: the command with its data, the busy or the pause for which
/// the engine waits.
impl Timers {
    /// Makes the timers without any deadline. This is a function, because a constant would be
    /// copied into the firmware image.
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

    /// Clears the deadlines of the engine's stage (the step of a request in progress), because
    /// nothing is in progress any more.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.wake_ns, self.limit_ns) = (NEVER, NEVER);
    }

    /// Sets the time in ns at which the engine gives up the command (with its data and busy) in
    /// progress.
    #[inline(always)]
    pub fn give_up_at(&mut self, at_ns: u64) {
        self.limit_ns = at_ns;
    }

    /// Removes the time limit for the wait of the engine on the bus. Called when the wait is over,
    /// and when the wait may take any time.
    #[inline(always)]
    pub fn give_up_never(&mut self) {
        self.limit_ns = NEVER;
    }

    #[inline(always)]
    pub fn wake_at(&mut self, at_ns: u64) {
        self.wake_ns = at_ns;
    }

    /// Makes the next call of the engine come at the time `at_ns` at the latest. An earlier time
    /// that is already set stays.
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

    /// Sets when an idle engine that has nothing to start is called next. If a controller still
    /// uses memory because no reset has stopped it, that is the time of the next try to stop it;
    /// otherwise it is [`NEVER`].
    #[inline(always)]
    pub fn wake_for_kept(&mut self) {
        self.wake_ns = self.kept_ns;
    }

    /// Returns whether it is time for the engine's next action in what is in progress on the bus,
    /// such as a poll of the controller.
    #[inline(always)]
    pub fn turn_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.wake_ns
    }

    /// Returns whether the time `wake_ns` of the engine's next action (such as a poll of the
    /// controller) has come, and clears it if so.
    #[inline]
    pub fn take_turn(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.wake_ns;
        if due {
            self.wake_ns = NEVER;
        }
        due
    }

    /// Returns whether the time limit of the command, data transfer or bus operation in progress
    /// has passed.
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.limit_ns
    }

    /// Returns how much time in ns is left until the time limit of the command to start. The
    /// controller's timer gets this time when the controller has refused the start and it is tried
    /// again.
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.limit_ns.saturating_sub(now_ns).saturating_sub(SLACK_NS).max(COMMAND_TIMEOUT_NS)
    }

    /// Returns when the engine must be called for its present stage (such as a command, data, or
    /// the wait for a status): for its next action or because of its time limit, in ns; `None`: at
    /// no time.
    #[inline(always)]
    pub fn next_of_stage_ns(&self) -> Option<u64> {
        Some(self.wake_ns.min(self.limit_ns)).filter(|&at| at != NEVER)
    }

    /// Returns the earliest of the engine's deadlines, in ns. `beside`: the host can send commands
    /// during data, so their deadline counts. `looks`: the card is polled for its interrupt, so the
    /// next poll counts.
    #[inline(always)]
    pub fn next_ns(&self, beside: bool, looks: bool) -> Option<u64> {
        let concurrent_ns = if beside { self.concurrent_ns } else { NEVER };
        let look_ns = if looks { self.look_ns } else { NEVER };
        let next_ns = self.wake_ns.min(self.limit_ns).min(concurrent_ns).min(look_ns);
        Some(next_ns).filter(|&at| at != NEVER)
    }
}

/// Deadlines that are independent of the command in progress and its data: of a command during
/// data, of a poll for an I/O function, and others.
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

    /// Returns whether a poll for the card interrupt is due. If so, no further poll is planned: the
    /// caller has to set the time of the next one.
    #[inline]
    pub fn take_look(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.look_ns;
        if due {
            self.look_ns = NEVER;
        }
        due
    }

    /// Sets the time in ns until which the engine waits for a request that continues the open
    /// transfer.
    pub fn hold_until(&mut self, at_ns: u64) {
        self.hold_ns = at_ns;
    }

    pub fn hold_is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.hold_ns
    }

    /// Sets the engine's next wake-up to the time at which it stops waiting for a request that
    /// continues the open transfer, and ends that transfer. Replaces the earlier wake-up time.
    pub fn wake_after_hold(&mut self) {
        self.wake_ns = self.hold_ns;
    }

    /// Makes sure that the engine wakes, at the latest, at the time at which it stops waiting for a
    /// request that continues the open transfer.
    pub fn wake_by_hold(&mut self) {
        self.wake_ns = self.wake_ns.min(self.hold_ns);
    }

    /// Reserves the bus for an I/O function until this time in ns, so that the next command of its
    /// chain (commands without another request between them) can follow.
    pub fn chain_until(&mut self, at_ns: u64) {
        self.chain_ns = at_ns;
    }

    /// Ends the reservation of the bus for an I/O function, whose chain of commands has continued
    /// or is given up.
    pub fn clear_chain(&mut self) {
        self.chain_ns = 0;
    }

    pub fn is_chained(&self) -> bool {
        self.chain_ns != 0
    }

    /// Sets the engine's next wake-up to the end of the time for which the bus is reserved for the
    /// next command of an I/O function. Returns false if the bus is not reserved.
    pub fn wake_at_chain_end(&mut self, now_ns: u64) -> bool {
        let waits = now_ns < self.chain_ns;
        if waits {
            self.wake_ns = self.chain_ns;
        }
        waits
    }

    /// Lets the policy keep the controller idle until the time `at_ns`, or until its allowance is
    /// used up if that comes earlier. Returns false if the allowance is used up already.
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

    /// Resets the time for which the policy may keep the controller idle while requests wait, since
    /// a transfer begins. The next idle time may be as long as allowed again.
    #[inline(always)]
    pub fn clear_idle(&mut self) {
        self.idle_ns = 0;
    }

    /// Records that a controller still uses memory of requests, and that the engine tries again at
    /// `at_ns` to stop it.
    pub fn keep_until(&mut self, at_ns: u64) {
        self.kept_ns = at_ns;
    }

    #[inline]
    pub fn is_kept(&self) -> bool {
        self.kept_ns != NEVER
    }

    /// Returns whether the controller may still access the memory of its last transfer, because no
    /// reset has stopped it. Clears this mark.
    pub fn take_kept(&mut self) -> bool {
        core::mem::replace(&mut self.kept_ns, NEVER) != NEVER
    }

    /// Makes the wake-up time of the idle engine no later than the next try to stop the controller.
    /// Returns true if that try is due now.
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

/// Deadlines of recovery and of the supervisor.
impl Timers {
    /// Sets the time from which on all requests wait until the supervisor has done what the card
    /// needs, such as a new tuning.
    #[inline(always)]
    pub fn chore_at(&mut self, at_ns: u64) {
        self.chore_ns = at_ns;
    }

    /// Returns whether all requests wait until the supervisor has done what the card needs, such as
    /// a new tuning.
    #[inline(always)]
    pub fn chore_is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.chore_ns
    }

    /// Returns whether a time is set from which all requests wait for the supervisor's next chore,
    /// such as a new tuning.
    #[inline(always)]
    pub fn chore_is_planned(&self) -> bool {
        self.chore_ns != NEVER
    }

    /// Sets the time limit of the recovery that is running (the incident).
    #[inline(always)]
    pub fn incident_until(&mut self, at_ns: u64) {
        self.incident_ns = at_ns;
    }

    /// Returns whether the time limit for the present recovery (from the failure to its end) has
    /// passed at the time `at_ns`.
    #[inline(always)]
    pub fn incident_is_over(&self, at_ns: u64) -> bool {
        at_ns >= self.incident_ns
    }

    /// Limits the wait of the step in progress: the engine wakes at the latest when the time limit
    /// of the whole recovery (the incident) is over.
    #[inline(always)]
    pub fn wake_by_incident(&mut self) {
        self.wake_by(self.incident_ns);
    }

    /// Sets the time `at_ns` at which the engine gives up waiting for work that it has requested
    /// from the supervisor (help), such as a new initialisation of the card.
    #[inline(always)]
    pub fn help_until(&mut self, at_ns: u64) {
        self.help_ns = at_ns;
    }

    /// Sets the end of the wait for the supervisor's help to the time limit of the whole recovery.
    #[inline(always)]
    pub fn help_until_incident(&mut self) {
        self.help_ns = self.incident_ns;
    }

    /// Moves the time at which the engine stops waiting for the supervisor's help to the time limit
    /// of the present recovery, unless it is later already.
    #[inline(always)]
    pub fn help_may_last(&mut self) {
        self.help_ns = self.help_ns.max(self.incident_ns);
    }

    /// Sets the end of the wait for the supervisor's help to the time `at_ns`, if the wait would
    /// last longer.
    #[inline(always)]
    pub fn help_by(&mut self, at_ns: u64) {
        self.help_ns = self.help_ns.min(at_ns);
    }

    #[inline(always)]
    pub fn help_is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.help_ns
    }

    /// Sets the time at which the stopped engine wakes up, whichever is first: when the
    /// supervisor's answer to a request for help is overdue (if `awaited`), or when the card's
    /// presence is stable.
    #[inline(always)]
    pub fn wake_for_help(&mut self, awaited: bool) {
        let help_ns = if awaited { self.help_ns } else { NEVER };
        self.wake_ns = help_ns.min(self.presence_ns);
    }

    /// Sets the time in ns (`at_ns`) from which the card's presence counts as stable, after a card
    /// came or went.
    #[inline(always)]
    pub fn presence_at(&mut self, at_ns: u64) {
        self.presence_ns = at_ns;
    }

    /// Clears the time at which the card's presence would count as stable.
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

    /// Returns whether a power cycle of the card is allowed now. If it is, the caller does it, and
    /// the next one is allowed after `pause_ns`.
    #[inline(always)]
    pub fn take_cycle(&mut self, now_ns: u64, pause_ns: u64) -> bool {
        let may = now_ns >= self.cycle_ns;
        if may {
            self.cycle_ns = now_ns.saturating_add(pause_ns);
        }
        may
    }

    /// Allows the next power cycle without a pause before it, because a new card is in the slot.
    #[inline(always)]
    pub fn cycle_at_once(&mut self) {
        self.cycle_ns = 0;
    }
}
