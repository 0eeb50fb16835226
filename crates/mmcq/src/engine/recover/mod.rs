//! Failures of transfers: the steps of the recovery ladder that the engine takes without the
//! supervisor.
//!
//! An *incident* begins with a failed phase or a deadline that passed without an answer. The
//! incident ends when its transfer has gone well, or when its requests have their results. Each
//! pass of an incident (this file) first makes commands possible again. The lines are reset, CMD13
//! reads the state, CMD12 ends what is still open. If that does not help, the whole controller is
//! reset. Then `ladder.rs` chooses the next measure, each stronger than the last. Measures that
//! need several commands to the card in a row (such as a tuning) are requested from the supervisor
//! (`help.rs`). `classify.rs` distinguishes failures. `salvage.rs` keeps the results that are
//! certain, and finds which writes are sent once more. `lost.rs` ends the requests of a lost card.
//!
//! No buffer is returned before the controller has stopped using it. The number of steps is
//! bounded, and so is the time of an incident.

mod classify;
mod failed;
mod handshake;
mod help;
mod kept;
mod ladder;
mod lost;
mod questions;
mod salvage;

use super::bus::{Bus, COMMAND_TIMEOUT_NS};
use super::busy::Busy;
use super::card::Card;
use super::extras::Memory;
use super::lane::{Failure, Lane};
use super::phases::{Recovery, Stage};
use super::record::Record;
use super::slot::{NONE, Slots};
use super::supervisor::Supervisor;
use super::timers::{Timers, later};
use super::{BLOCK_BYTES, Count, Engine, Error, Kind};
use crate::host::{BusOp, Cause, Direction, Host, Step};
use crate::sched::slot_set::SlotSet;
use crate::sched::{Lanes, Profile};
use crate::spec::command;
use crate::spec::response::{R1, State as CardState};
pub(super) use classify::Trace;
use classify::{Class, by_status};
pub use classify::{RecoveryEvent, RecoveryStep};
pub(super) use failed::Failed;
pub use handshake::Handshake;
pub(super) use help::Helping;
pub use help::ServiceRequest;
use questions::state_pause_ns;

/// Longest recovery in ns from a failure (an incident), beyond the card's own times of reads and
/// writes.
const INCIDENT_NS: u64 = 12_000_000_000;
/// Time limit in ns of a CMD12 that recovery sends. A busy after the CMD12 is polled by CMD13.
const STOP_TIMEOUT_NS: u64 = 100_000_000;
/// Most commands to the card that may fail in one round of recovery: three CMD13 and a CMD12.
const FAULTS_MAX: u8 = 4;
/// How many times recovery from one failure repeats a tuning that a controller reset has lost.
const TUNINGS_LOST_MAX: u8 = 3;
/// Index of CMD25, which writes several blocks.
const WRITE_MULTIPLE_BLOCK: u8 = 25;
/// Most CMD12 that recovery sends after a failed command, before it takes a stronger measure.
const STOPS_MAX: u8 = 3;

/// The failure that recovery handles now, and the measures that recovery has taken for it.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Incident {
    failed: Failed,
    /// Whether a failure is being handled now; if false, the other fields are not valid.
    open: bool,
    /// Number of failed tries of the same transfer.
    tries: u8,
    /// Slot of the failed request, or of the first request of the failed transfer.
    owner: u8,
    /// Number of uses of the slot `owner` when that request failed. If the slot has been used again
    /// since, its request is another one.
    generation: u32,
    class: Class,
    /// Measures of recovery that were taken since the failure, bit n for [`RecoveryStep`] n.
    spent: u16,
    slowed: u8,
    /// Whether the failed command was CMD23, which tells the card the length.
    counting: bool,
    /// Whether the failed command was CMD25.
    multiple: bool,
    /// Whether the controller was reset in a mode that needs tuning, and was not tuned since.
    untuned: bool,
    /// Whether the failed transfer should have continued an open one, without a command. Its
    /// requests are then tried again with a new command, and the failure does not count as a try.
    again: bool,
    /// Whether a tuning was requested because the card did not even respond to CMD13. Then recovery
    /// cannot continue before this tuning.
    unheard: bool,
    /// Number of resets of the controller that lost a tuning, since the failure.
    tunings_lost: u8,
    /// Number of failed commands in the present round (pass) of recovery.
    faults: u8,
    /// Number of CMD12 that recovery has sent in its present attempt (pass).
    stops: u8,
    /// Whether a response is lost that may have had the status of earlier writes.
    status_lost: bool,
    /// Writes that are to be written once more, bit n for slot n.
    redo: SlotSet,
    /// Writes that were sent once more and have no result yet. Before a result is known, no command
    /// may be sent that could lose it again.
    doubted: SlotSet,
    /// For each of the last three transfers that the bus damaged (CRC errors): how many transfers
    /// the engine had counted by then, newest first.
    damages: [Count; 3],
    retuned_ns: u64,
}

impl Incident {
    /// Makes an empty state. This is a function, because a constant (nearly all zeros) would be
    /// copied into the firmware image.
    pub const fn new() -> Incident {
        Incident {
            failed: Failed::new(),
            open: false,
            tries: 0,
            owner: NONE,
            generation: 0,
            class: Class::Hopeless,
            spent: 0,
            slowed: 0,
            counting: false,
            multiple: false,
            untuned: false,
            again: false,
            unheard: false,
            tunings_lost: 0,
            faults: 0,
            stops: 0,
            status_lost: false,
            redo: 0,
            doubted: 0,
            damages: [0; 3],
            retuned_ns: 0,
        }
    }

    /// Returns the failure: its error, the card's status, and the limit on blocks in new tries.
    #[inline(always)]
    pub fn failed(&self) -> &Failed {
        &self.failed
    }

    #[inline(always)]
    pub fn failed_mut(&mut self) -> &mut Failed {
        &mut self.failed
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Returns whether one of these writes was written once more, and its result is not known yet.
    /// That result must be known before other writes are sent.
    #[inline(always)]
    pub fn doubts(&self, writes: SlotSet) -> bool {
        self.doubted & writes != 0
    }

    /// Returns whether some write must be written once more, or was written once more and its
    /// result is not known yet.
    pub fn is_in_doubt(&self) -> bool {
        self.redo | self.doubted != 0
    }

    /// Notes that the card's status has shown the result of these writes.
    #[inline(always)]
    pub fn believe(&mut self, writes: SlotSet) {
        self.doubted &= !writes;
    }

    /// Notes that a response is lost that may have had the status of earlier writes.
    #[cold]
    pub fn lose_status(&mut self) {
        self.status_lost = true;
    }

    /// Returns whether such a response is lost, and forgets it.
    pub fn take_status_lost(&mut self) -> bool {
        core::mem::take(&mut self.status_lost)
    }

    /// Forgets which measures of recovery were taken, since another failure begins.
    fn renew(&mut self) {
        (self.tries, self.spent, self.slowed, self.unheard, self.tunings_lost) = (0, 0, 0, false, 0);
    }

    /// Allows another tuning, since a reset of the controller has lost the result of the last one.
    fn renew_tuning(&mut self) {
        if self.tunings_lost < TUNINGS_LOST_MAX {
            self.tunings_lost += 1;
            self.spent &= !(1 << RecoveryStep::Retune as u16);
        }
    }

    /// Returns whether recovery has already taken this step for the present failure.
    fn is_spent(&self, step: RecoveryStep) -> bool {
        self.spent & 1 << step as u16 != 0
    }

    /// Records that recovery takes this step, which it may take once for each failure. Returns
    /// false if it was taken before.
    fn spend(&mut self, step: RecoveryStep) -> bool {
        let bit = 1 << step as u16;
        let fresh = self.spent & bit == 0;
        self.spent |= bit;
        fresh
    }

    /// Counts a step of recovery, and adds it to the list of the last steps in `record`.
    pub fn climb<P: Profile>(&mut self, record: &mut Record, step: RecoveryStep, now_ns: u64) {
        if !P::RECOVERS {
            return;
        }
        message!(warn, "recovery: {:?}, status {:#010x}", step, self.failed.status());
        record.climbed(RecoveryEvent { at_ns: now_ns, status: self.failed.status(), step });
    }

    /// Begins a new incident: each measure of recovery may be taken again, and the time limit
    /// restarts. `card_ns`: time in ns that the card itself may need, which is added to the limit.
    pub fn renew_until(&mut self, timers: &mut Timers, now_ns: u64, card_ns: u64) {
        self.renew();
        timers.incident_until(now_ns.saturating_add(INCIDENT_NS).saturating_add(card_ns));
    }

    /// Begins to handle a failure (a pass): sets the counts of faults and of CMD12s to 0.
    pub fn begin_pass(&mut self, busy: &mut Busy) {
        (self.faults, self.stops) = (0, 0);
        busy.not_asked();
    }

    /// Marks the sampling point as lost, after a reset of the controller in a mode that needs
    /// tuning. No data are transferred before a tuning has found a sampling point.
    pub fn doubt_tuning<H>(&mut self, bus: &mut Bus<H>, supervisor: &mut Supervisor, timers: &mut Timers) {
        if bus.wire().is_tuned() {
            bus.wire_mut().doubt();
            self.untuned = true;
            self.renew_tuning();
            supervisor.tune_soon(timers);
        }
    }
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the request's client handles the failure, and not the engine's recovery.
    /// This holds for single commands that are sent as given (raw), commands to I/O functions,
    /// changes of the bus and pauses, and for all requests while no card is known.
    pub fn owner_recovers<const N: usize>(&self, slots: &Slots<N>, card: &Card) -> bool {
        let kind = slots.at(self.control()).kind();
        let direct = matches!(kind, Kind::Raw { .. } | Kind::Io { .. } | Kind::Bus(_) | Kind::Pause { .. });
        card.target().is_none() || self.has_control() && direct
    }

    /// Returns whether the card may take the next command as an application command [SD 4.3.9.1].
    ///
    /// The card may expect an application command if CMD55, or the command after it, had no
    /// response. Recovery then sends CMD16. There is no ACMD16, so the card executes CMD16, stops
    /// waiting, and nothing else changes.
    pub fn may_expect_app_command<const N: usize, P: Profile>(
        &self,
        incident: &Incident,
        slots: &Slots<N>,
        card: &Card,
    ) -> bool {
        let prefixed = self.has_control()
            && matches!(slots.at(self.control()).kind(), Kind::Raw { prefix: Some(_), .. });
        let unanswered = match incident.failed.error() {
            Some(Error::Host(fault)) => fault.stage == crate::host::Stage::Command,
            Some(Error::Silent) => true,
            _ => false,
        };
        P::RECOVERS && prefixed && unanswered && card.target().is_some() && self.busy().questions() == 0
    }

    /// Records that the command in progress, or the wait for its end, has failed with this error.
    #[cold]
    #[inline(never)]
    pub fn fail(&mut self, incident: &mut Incident, error: Error) {
        if self.note_failure(Failure::Error) {
            incident.failed.with(error);
        }
    }

    /// Returns for how long in ns the card may still be busy after a request has missed its
    /// deadline. For an erase in progress this is the longest time of the erase, for another
    /// control request the longest time of a flush.
    pub fn order_ns<const N: usize, P: Profile>(
        &self,
        incident: &Incident,
        slots: &Slots<N>,
        memory: &Memory,
        card: &Card,
    ) -> u64 {
        match slots.at(self.control()).kind() {
            Kind::Erase { how, .. } if self.awaits_end_of_erase::<N, P>(incident, slots, memory, false) => {
                how.longest_ns()
            }
            _ => card.flush_ns(self.has_control()),
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Returns the last steps of recovery (16 at most), oldest first.
    pub fn incidents(&self) -> impl Iterator<Item = RecoveryEvent> + '_ {
        self.record.steps()
    }

    /// Begins recovery after `failure`, or handles the failure of one of recovery's own steps.
    #[cold]
    pub(super) fn recover(&mut self, failure: Failure, now_ns: u64) {
        match (failure, self.lane.stage()) {
            (Failure::Silence, Stage::Recover(step)) => self.recover_failed(step, false, now_ns),
            (Failure::Silence, _) => {
                let writes = self.bus.phase().data.is_some_and(|data| data.direction == Direction::Write);
                // The card's R1 shows that it takes no data, and the controller waits for the end
                // of the data.
                let refused = Self::EARLY
                    && writes
                    && self.bus.host_mut().early_r1().is_some_and(|r1| r1 & R1::WP_VIOLATION != 0);
                self.begin_recovery(if refused { Error::Protected } else { Error::Silent }, now_ns)
            }
            (Failure::Error | Failure::Nothing, _) => {
                let error = self.incident.failed.take_error().unwrap_or(Error::Silent);
                self.begin_recovery(error, now_ns);
            }
        }
    }

    /// Begins recovery from the failure of the transfer, request or task in progress.
    fn begin_recovery(&mut self, error: Error, now_ns: u64) {
        message!(debug, "CMD{}: {}", self.bus.phase().command.index, error);
        self.fail_concurrent(error);
        self.fail_tasks(now_ns);
        let (packed, unsettled) = self.lane.pack_failed(now_ns);
        if packed {
            self.batch.send_singly(&mut self.slots);
        }
        if unsettled {
            self.lane.doubt_settling::<N, P>(
                &mut self.durability,
                &mut self.incident,
                &mut self.slots,
                &self.card,
            );
        }
        if self.lane.has_chain() {
            self.break_chain(now_ns);
        }
        self.incident.again = self.lane.continue_failed(&self.bus, &mut self.record, error);
        self.incident.failed.with(error);
        self.bus.unblock();
        self.blockers.forget_fast();
        if H::CONTINUES || P::RECOVERS {
            self.lane.streams_mut().take_busy_of_the_end();
            self.lane.streams_mut().forget_times();
        }
        if P::RECOVERS {
            let is_busy = matches!(self.lane.stage(), Stage::BusyPause | Stage::BusyStatus);
            let of_order = self.services.memory_mut().take_told();
            self.incident.failed.forget_judged(is_busy, of_order);
        } else {
            self.incident.failed.forget_status();
        }
        if matches!(error, Error::Host(fault) if fault.cause == Cause::Gone) {
            // A controller that is not there any more transfers no data.
            return self.give_card_up(now_ns);
        }
        if !self.lane.owner_recovers(&self.slots, &self.card) {
            let answered = match error {
                Error::Host(fault) => fault.response.is_some(),
                Error::Card(_) | Error::Program(_) => true,
                // The host has not sent the command.
                Error::Unsupported => true,
                // The status may have had errors of earlier writes too, which wait for a status.
                Error::Protected => !self.slots.is_settling() && !self.durability.is_unsettled(),
                _ => false,
            };
            if !answered {
                self.incident.note_lost_status::<H, P>(&self.bus);
            }
            self.begin_pass(error, now_ns);
        }
        self.lane.busy_mut().not_asked();
        self.reset(Recovery::Lines, now_ns);
    }

    /// Gives the card up. With a profile without recovery, only ends the request with the error.
    fn give_card_up(&mut self, now_ns: u64) {
        if P::RECOVERS { self.dead(now_ns) } else { self.answer(now_ns) }
    }

    /// Begins to handle a failure, or its next try if it is being handled already.
    fn begin_pass(&mut self, error: Error, now_ns: u64) {
        if !P::RECOVERS {
            return self.incident.begin_pass(self.lane.busy_mut());
        }
        let first = self.batch.members().first().copied().unwrap_or(NONE);
        let owner = if self.lane.has_control() { self.lane.control() } else { first };
        let generation = if owner == NONE { 0 } else { self.slots.at(owner).generation() };
        let card_ns = self.card.target().map_or(0, |t| t.read_timeout_ns.saturating_add(t.write_timeout_ns));
        let card_ns = card_ns.saturating_add(self.lane.order_ns::<N, P>(
            &self.incident,
            &self.slots,
            self.services.memory(),
            &self.card,
        ));
        self.blockers.close_fast();
        let incident = &mut self.incident;
        if !incident.open || (incident.owner, incident.generation) != (owner, generation) {
            (incident.open, incident.owner, incident.generation) = (true, owner, generation);
            self.incident.renew_until(&mut self.timers, now_ns, card_ns);
        }
        let incident = &mut self.incident;
        incident.tries = incident.tries.saturating_add(u8::from(!incident.again));
        incident.class = Class::of(error);
        incident.counting = matches!(self.lane.stage(), Stage::Count)
            || matches!(error, Error::Host(fault) if fault.stage == crate::host::Stage::Count);
        incident.multiple = self.bus.phase().command.index == WRITE_MULTIPLE_BLOCK
            && incident.class == Class::Command { damaged: false };
        if incident.class.damaged() && incident.tries == 1 {
            let [newest, second, _] = incident.damages;
            incident.damages = [self.record.transfers(), newest, second];
        }
        if matches!(incident.class, Class::Data { damaged: false } | Class::Controller) {
            self.card.plan_mut().double(incident.tries);
        }
        self.incident.climb::<P>(&mut self.record, RecoveryStep::Classify, now_ns);
        self.incident.begin_pass(self.lane.busy_mut());
    }

    fn reset(&mut self, step: Recovery, now_ns: u64) {
        self.lane.enter(Stage::Recover(step));
        self.timers.clear();
        self.step_reset(step, true, now_ns);
    }

    fn step_reset(&mut self, step: Recovery, first: bool, now_ns: u64) {
        let op = if step == Recovery::All { BusOp::ResetAll } else { BusOp::ResetLines };
        match self.bus.host_mut().set_bus(op, first, now_ns) {
            Step::Wait(until_ns) => self.timers.wake_at(until_ns.max(now_ns)),
            Step::Done => {
                self.slots.let_go_of_kept(&mut self.timers);
                self.release_reset_engine(now_ns);
                self.release_reset_chain(now_ns);
                if P::RECOVERS && step == Recovery::All {
                    self.bus.wire_mut().done(BusOp::ResetAll);
                    self.incident.doubt_tuning(&mut self.bus, &mut self.supervisor, &mut self.timers);
                }
                self.resume_with_lines(now_ns);
            }
            Step::Failed if step == Recovery::Lines => self.reset_all(now_ns),
            Step::Failed => self.wedged(now_ns),
        }
    }

    /// Resets the whole controller.
    fn reset_all(&mut self, now_ns: u64) {
        self.incident.spend(RecoveryStep::Reset);
        self.incident.climb::<P>(&mut self.record, RecoveryStep::Reset, now_ns);
        self.reset(Recovery::All, now_ns);
    }

    /// Continues recovery after the lines were freed: asks for the card's status, or ends recovery.
    fn resume_with_lines(&mut self, now_ns: u64) {
        self.lane.unmap_switch(self.services.memory_mut(), self.bus.host_mut());
        if self.lane.owner_recovers(&self.slots, &self.card)
            || matches!(self.incident.failed.error(), Some(Error::Removed))
        {
            if self.lane.may_expect_app_command::<N, P>(&self.incident, &self.slots, &self.card) {
                self.lane.busy_mut().asked();
                let nothing = command::set_blocklen(BLOCK_BYTES);
                let stage = Stage::Recover(Recovery::Status);
                return self.start_command(stage, nothing, COMMAND_TIMEOUT_NS, now_ns);
            }
            return self.answer(now_ns);
        }
        match self.incident.faults {
            // A card that does not even answer CMD13 may still be sending data.
            2 => self.send_stop(now_ns),
            FAULTS_MAX.. => self.escalate(now_ns),
            _ => self.ask_state(now_ns),
        }
    }

    fn send_stop(&mut self, now_ns: u64) {
        self.incident.stops += 1;
        self.incident.climb::<P>(&mut self.record, RecoveryStep::Stop, now_ns);
        let stop = command::stop_transmission();
        self.start_command(Stage::Recover(Recovery::Stop), stop, STOP_TIMEOUT_NS, now_ns);
    }

    fn ask_state(&mut self, now_ns: u64) {
        if self.lane.busy().questions() == 0 {
            self.incident.climb::<P>(&mut self.record, RecoveryStep::Status, now_ns);
        }
        self.lane.busy_mut().asked();
        self.ask_status(Stage::Recover(Recovery::Status), now_ns);
    }

    pub(super) fn recover_done(&mut self, step: Recovery, status: R1, now_ns: u64) {
        if self.lane.owner_recovers(&self.slots, &self.card) {
            if P::RECOVERS {
                self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status.0);
            }
            return self.answer(now_ns);
        }
        self.incident.failed.hear(status.0);
        if step != Recovery::Status {
            return self.ask_state(now_ns);
        }
        if status.0 & R1::CARD_IS_LOCKED != 0 && P::RECOVERS {
            // A locked card did not accept the command, and would not accept it the next time.
            self.incident.failed.with(Error::Locked);
        }
        match status.current_state() {
            CardState::Tran if status.ready_for_data() => self.resume_with_card(now_ns),
            // CMD12 in `tran` gets no answer, so it is sent only where something is open.
            CardState::Data | CardState::Rcv if self.incident.stops < STOPS_MAX => self.send_stop(now_ns),
            CardState::Tran | CardState::Prg | CardState::Data | CardState::Rcv => {
                let late = P::RECOVERS && self.timers.incident_is_over(now_ns);
                if late
                    || self.lane.busy().questions()
                        >= self.incident.questions_max::<P>(self.lane.order_ns::<N, P>(
                            &self.incident,
                            &self.slots,
                            self.services.memory(),
                            &self.card,
                        ))
                {
                    return self.escalate(now_ns);
                }
                self.lane.enter(Stage::Recover(Recovery::Wait));
                self.timers.wake_at(later(now_ns, state_pause_ns(self.lane.busy().questions())));
                if P::RECOVERS {
                    // The last poll comes when the incident's time is up.
                    self.timers.wake_by_incident();
                }
            }
            // The card was reset, or has lost its supply for a moment.
            _ => self.recover_lost_card(now_ns),
        }
    }

    /// Handles a step of the recovery that has itself failed; `gone`: the controller is not there.
    pub(super) fn recover_failed(&mut self, step: Recovery, gone: bool, now_ns: u64) {
        let unsent = P::RECOVERS && self.bus.is_blocked();
        self.bus.unblock();
        if gone {
            return self.give_card_up(now_ns);
        }
        match step {
            // The lines were reset, and the CMD line is still in use: CMD13 was not even sent.
            Recovery::Status if unsent => self.escalate(now_ns),
            Recovery::Stop | Recovery::Status | Recovery::Wait => {
                if !P::RECOVERS || !self.lane.owner_recovers(&self.slots, &self.card) {
                    self.incident.note_lost_status::<H, P>(&self.bus);
                }
                self.incident.faults = self.incident.faults.saturating_add(1);
                self.reset(Recovery::Lines, now_ns);
            }
            Recovery::Lines => self.reset_all(now_ns),
            Recovery::All => self.wedged(now_ns),
        }
    }

    pub(super) fn recover_wake(&mut self, step: Recovery, now_ns: u64) {
        match step {
            Recovery::Lines | Recovery::All => self.step_reset(step, false, now_ns),
            Recovery::Wait => self.ask_state(now_ns),
            Recovery::Stop | Recovery::Status => {}
        }
    }
}
