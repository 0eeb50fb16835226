//! Upkeep of a card that has no fault. There are four chores: a new tuning before the sampling
//! point has drifted too far, a read of the events that the card's exception bit announces, time
//! for background operations, and the card's rest (its clock is stopped, or it sleeps).
//!
//! The engine only knows when a chore is due; the supervisor does the work, on a [`ServiceRequest`]
//! between two transfers. Each chore has two times. After the first time the chore is done as soon
//! as no request waits; after the second time all requests wait for the chore. So an idle card is
//! served at once, a busy one in time. A card that no request uses is left alone, because tuning an
//! unused card only burns power.

use super::bus::Bus;
use super::record::Record;
use super::slot::{NONE, bits};
use super::supervisor::Supervisor;
use super::switched::{Mode, SwitchedOn};
use super::timers::{NEVER, Timers};
use super::{Count, Engine, ServiceRequest};
use crate::host::{Host, Timing, Width};
use crate::sched::Profile;

/// Time in ns without a request after which the card counts as unused, so that background work may
/// start. It is longer than what most clients need between two requests.
const QUIET_NS: u64 = 20_000_000;
/// Shortest time in ns between two reads of the exception events. An event that lasts is in every
/// status, so it would otherwise be read again and again.
const LOOK_NS: u64 = 1_000_000_000;
/// Shortest time in ns until the next read of the exception events, if the last read found nothing
/// new.
const LOOK_AGAIN_NS: u64 = 60_000_000_000;

/// The chores for which the engine asks the supervisor, and their times: tuning, reading the
/// exception events, background operations, and putting the card to rest.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Whether the supervisor wants to know when a status has the exception bit set.
    listens: bool,
    /// Whether a status had the exception bit set, and the supervisor has not read the events yet.
    seen: bool,
    /// Earliest time at which the card's exception events may be read again.
    look_ns: u64,
    /// Bits of the exception events that the last read of the card found.
    known: u16,
    /// Latest time in ns at which the card must begin its waiting background operations.
    work_by_ns: u64,
    /// Interval of tunings in nanoseconds; 0: the card is never tuned by time.
    tune_every_ns: u64,
    /// Time in ns at which the card was last tuned.
    tuned_ns: u64,
    /// Number of transfers that the engine had counted when the card was tuned last.
    tuned_transfers: Count,
    /// Whether the controller has requested a tuning while something else was done.
    tune_soon: bool,
    /// Length in ns of the pause without requests after which the card is put to rest (its clock is
    /// stopped, or it sleeps); [`NEVER`]: it is not put to rest.
    rest_after_ns: u64,
    /// The time from which the pause without requests is counted, after which the card is put to
    /// rest.
    rest_from_ns: u64,
    /// The timing, the width and the clock in hertz after the card was initialised again. The clock
    /// is 0 if the card was not initialised again since its bring-up.
    timing: Timing,
    width: Width,
    clock_hz: u32,
}

impl Upkeep {
    /// Makes an empty state. This is a function, because a constant (nearly all zeros) would be
    /// copied into the firmware image.
    pub const fn new() -> Upkeep {
        Upkeep {
            listens: false,
            seen: false,
            look_ns: 0,
            known: 0,
            work_by_ns: NEVER,
            tune_every_ns: 0,
            tuned_ns: 0,
            tuned_transfers: 0,
            tune_soon: false,
            rest_after_ns: NEVER,
            rest_from_ns: 0,
            timing: Timing::Legacy,
            width: Width::W1,
            clock_hz: 0,
        }
    }

    /// Returns timing, width and clock of a card that was initialised again since its bring-up;
    /// `None` if the card was not.
    pub fn mode(&self) -> Option<Mode> {
        (self.clock_hz != 0).then_some((self.timing, self.width, self.clock_hz))
    }

    /// Stores the bus mode (timing, width, clock) of a card that was initialised again; the next
    /// supervisor uses it.
    pub fn set_mode(&mut self, mode: Mode) {
        (self.timing, self.width, self.clock_hz) = mode;
    }

    /// Clears the planned chores: another card may be in the slot, with other tunings and
    /// exceptions.
    pub fn forget(&mut self) {
        self.clock_hz = 0;
        (self.seen, self.known, self.look_ns, self.work_by_ns) = (false, 0, 0, NEVER);
    }

    /// Returns the time in ns at which the next tuning is due; the supervisor may tune earlier, at
    /// a moment without requests. 0: a tuning is needed now.
    fn tune_ns(&self) -> u64 {
        match self.tune_every_ns {
            _ if self.tune_soon => 0,
            0 => NEVER,
            every_ns => self.tuned_ns.saturating_add(every_ns),
        }
    }

    /// Returns the time from which on all requests wait until the supervisor has done what the card
    /// needs (such as a tuning).
    fn next_ns(&self) -> u64 {
        let look_ns = if self.seen { self.look_ns } else { NEVER };
        // Requests never wait for a rest, but an engine without requests must find when a rest
        // begins.
        let rest_ns = if self.rest_after_ns == NEVER { NEVER } else { NEVER - 1 };
        look_ns.min(self.work_by_ns).min(self.tune_ns()).min(rest_ns)
    }
}

impl Supervisor {
    /// Sets the supervisor's chores from now on: a read of exception events (if `exceptions`), a
    /// tuning every `tune_every_ns` (0: none), and a change to a low-power state when no request
    /// has come for `rest_after_ns` ([`u64::MAX`]: never).
    pub fn set_upkeep(
        &mut self,
        timers: &mut Timers,
        exceptions: bool,
        tune_every_ns: u64,
        rest_after_ns: u64,
        now_ns: u64,
    ) {
        let upkeep = self.upkeep_mut();
        if upkeep.tune_every_ns == 0 {
            upkeep.tuned_ns = now_ns;
        }
        (upkeep.listens, upkeep.tune_every_ns) = (exceptions, tune_every_ns);
        (upkeep.rest_after_ns, upkeep.rest_from_ns) = (rest_after_ns, now_ns);
        self.plan_chores(timers);
    }

    /// Notes that the card rests (saves power) from now on, if the engine had asked the supervisor
    /// to bring the card to rest.
    pub fn note_rest(&mut self, timers: &mut Timers) {
        if self.helping_mut().begin_rest() {
            // A rest has no time limit.
            timers.help_until(NEVER);
        }
    }

    /// Sets the time from which all requests wait until the supervisor has done periodic work for
    /// the card (a read of exception events, a tuning, saving power): the time at which the first
    /// of these is due.
    pub fn plan_chores(&mut self, timers: &mut Timers) {
        timers.chore_at(self.upkeep().next_ns());
    }

    /// Notes that a status of the card has the exception bit set; ignored if the supervisor does
    /// not want to know of exceptions.
    #[inline(always)]
    pub fn exception_seen(&mut self, timers: &mut Timers) {
        let upkeep = self.upkeep_mut();
        if upkeep.listens {
            upkeep.seen = true;
            self.plan_chores(timers);
        }
    }

    /// Notes that a tuning has ended, successful or not: the interval to the next tuning begins.
    pub fn tuned(&mut self, timers: &mut Timers, record: &Record, now_ns: u64) {
        (self.upkeep_mut().tuned_ns, self.upkeep_mut().tuned_transfers) = (now_ns, record.transfers());
        self.upkeep_mut().tune_soon = false;
        self.plan_chores(timers);
    }

    /// Plans a tuning that is made as soon as the present work has ended.
    pub fn tune_soon(&mut self, timers: &mut Timers) {
        self.upkeep_mut().tune_soon = true;
        self.plan_chores(timers);
    }

    /// Postpones periodic work for the card (`help`, such as a new tuning) that the supervisor
    /// could not do.
    pub fn put_off(&mut self, timers: &mut Timers, record: &Record, help: ServiceRequest, now_ns: u64) {
        match help {
            ServiceRequest::Exception | ServiceRequest::Background => {
                (self.upkeep_mut().seen, self.upkeep_mut().work_by_ns) = (false, NEVER);
                self.upkeep_mut().look_ns = now_ns.saturating_add(LOOK_AGAIN_NS);
                self.plan_chores(timers);
            }
            ServiceRequest::Rest => self.upkeep_mut().rest_from_ns = now_ns.saturating_add(LOOK_AGAIN_NS),
            _ => self.tuned(timers, record, now_ns),
        }
    }

    /// Returns each kind of the supervisor's periodic work, with the time in ns at which it is due;
    /// [`NEVER`]: it is not due. `quiet`: no request waits now. Then most work is due earlier,
    /// since it delays no request.
    pub fn chores<H>(&self, bus: &Bus<H>, record: &Record, quiet: bool) -> [(u64, ServiceRequest); 4] {
        let upkeep = &self.upkeep();
        let quiet_ns = bus.began_ns().saturating_add(QUIET_NS);
        let tune_ns = match upkeep.tune_ns() {
            NEVER => NEVER,
            // A card that was not used since its last tuning needs no other.
            _ if quiet && !upkeep.tune_soon && upkeep.tuned_transfers == record.transfers() => NEVER,
            at_ns if quiet => at_ns.saturating_sub(upkeep.tune_every_ns / 8),
            at_ns => at_ns,
        };
        let work_ns = match upkeep.work_by_ns {
            by_ns if quiet && by_ns != NEVER => by_ns.min(quiet_ns),
            by_ns => by_ns,
        };
        let look_ns = if upkeep.seen { upkeep.look_ns } else { NEVER };
        let rest_ns = match upkeep.rest_after_ns {
            after_ns if quiet && after_ns != NEVER => {
                let ended_ns = bus.last().map_or(0, |last| last.ended_ns);
                upkeep.rest_from_ns.max(bus.began_ns()).max(ended_ns).saturating_add(after_ns)
            }
            _ => NEVER,
        };
        [
            (tune_ns, ServiceRequest::Retune),
            (look_ns, ServiceRequest::Exception),
            (work_ns, ServiceRequest::Background),
            (rest_ns, ServiceRequest::Rest),
        ]
    }

    /// Returns the time in ns of the supervisor's next chore (a tuning, a check of exceptions,
    /// background work, or putting the card to rest), if no request comes before. [`NEVER`]: no
    /// chore is planned.
    #[inline(always)]
    pub fn quiet_chore_ns<H, P: Profile>(&self, bus: &Bus<H>, timers: &Timers, record: &Record) -> u64 {
        if !P::RECOVERS || !timers.chore_is_planned() || !self.helping().has_supervisor() {
            return NEVER;
        }
        self.first_quiet_chore_ns(bus, record)
    }

    #[inline(never)]
    fn first_quiet_chore_ns<H>(&self, bus: &Bus<H>, record: &Record) -> u64 {
        self.chores(bus, record, true).into_iter().map(|(at_ns, _)| at_ns).min().unwrap_or(NEVER)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Notes which exception events (EXCEPTION_EVENTS_STATUS of an eMMC) the supervisor has seen.
    /// Returns true if some are new.
    pub(crate) fn note_exceptions(&mut self, events: u16, now_ns: u64) -> bool {
        let new = events & !self.supervisor.upkeep().known != 0;
        self.supervisor.upkeep_mut().known = events;
        self.supervisor.upkeep_mut().seen = false;
        self.supervisor.upkeep_mut().look_ns =
            now_ns.saturating_add(if new { LOOK_NS } else { LOOK_AGAIN_NS });
        self.supervisor.plan_chores(&mut self.timers);
        new
    }

    /// Plans background operations for a moment in which no request waits, and at the time `by_ns`
    /// at the latest; `None`: no background operations are planned.
    pub(crate) fn work_waits(&mut self, by_ns: Option<u64>, now_ns: u64) {
        self.supervisor.upkeep_mut().work_by_ns = by_ns.unwrap_or(NEVER);
        if by_ns.is_none() {
            self.record.background_work_done();
            // Any exception from now on counts as new.
            (self.supervisor.upkeep_mut().known, self.supervisor.upkeep_mut().look_ns) =
                (0, now_ns.saturating_add(LOOK_NS));
        }
        self.supervisor.plan_chores(&mut self.timers);
    }

    /// Returns whether background operations have waited so long that they begin although requests
    /// wait.
    pub(crate) fn work_is_late(&self, now_ns: u64) -> bool {
        now_ns >= self.supervisor.upkeep().work_by_ns
    }

    /// Returns whether any request waits: in the queue, or as a command of an I/O function.
    pub(crate) fn has_waiting(&self) -> bool {
        self.slots.head() != NONE || self.slots.has_io()
    }

    /// Returns whether there is a reason to wake the card from its rest (low power): a request
    /// waits, or the supervisor does not keep the card at rest any more.
    pub(crate) fn rest_is_over(&self) -> bool {
        self.has_waiting() || !self.supervisor.helping().rests()
    }

    /// Ends the card's rest: the low-power state in which it was because no request came. The next
    /// rest begins, at the earliest, when no request has come for a whole pause again.
    pub(crate) fn end_rest(&mut self, now_ns: u64) {
        self.supervisor.helping_mut().end_rest();
        self.supervisor.upkeep_mut().rest_from_ns = now_ns;
    }

    /// Asks the supervisor for a chore that is due, such as a tuning or background operations.
    /// `quiet`: no request waits, so an early tuning or a rest of the card may begin, too. Returns
    /// true if a chore was requested: requests wait until it is done.
    #[cold]
    #[inline(never)]
    pub(super) fn upkeep(&mut self, quiet: bool, now_ns: u64) -> bool {
        if !P::RECOVERS || !self.supervisor.helping().has_supervisor() {
            // A later supervisor plans its chores anew.
            self.timers.chore_at(NEVER);
            return false;
        }
        if self.card.target().is_none()
            || self.blockers.is_dead()
            || self.incident.is_open()
            || self.supervisor.helping().asks()
        {
            return false;
        }
        let Some((at_ns, help)) = self
            .supervisor
            .chores(&self.bus, &self.record, quiet)
            .into_iter()
            .min_by_key(|&(at_ns, _)| at_ns)
        else {
            return false;
        };
        if now_ns < at_ns {
            if quiet {
                self.timers.wake_at(at_ns);
            }
            return false;
        }
        if self.slots.is_full() {
            // The supervisor's requests would find no free slot.
            return false;
        }
        if self.lane.streams().is_open() {
            // The open transfer is closed first, and not continued.
            self.bus.wire_mut().doubt();
            return false;
        }
        if help == ServiceRequest::Retune {
            self.record.tuning_asked();
        }
        self.ask_for(help, now_ns);
        true
    }

    /// Returns which features of the card have to be restored after an initialisation.
    pub(crate) fn switched_on(&self) -> SwitchedOn {
        SwitchedOn::of(&self.card, &self.lane, &self.supervisor)
    }

    /// Allows packed commands again after an initialisation of the card, if the card was set
    /// (`told`) to report packed commands that fail.
    pub(crate) fn restore_packs(&mut self, told: bool) {
        if let Some(packs) = self.lane.packs_mut() {
            packs.restore(told);
        }
    }

    /// Notes that the supervisor has flushed the cache. Returns false if the engine did not wait
    /// for that flush, so that something may have been written since.
    pub(crate) fn note_flushed(&mut self) -> bool {
        let stopped = self.supervisor.helping().is_at_it();
        if stopped {
            self.durability.clear_dirty();
            // This flush served the durable writes that waited for one.
            for index in bits(self.slots.take_written()) {
                let result = self.slots.at(index).result();
                self.slots.end_with(index, result);
            }
        }
        stopped
    }
}
