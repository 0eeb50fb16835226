//! The recovery ladder: which measure is next, once commands to controller and card work again.
//!
//! In an incident a measure is taken when those before it are used up:
//!
//! | measure | for which failures | how often |
//! |---|---|---|
//! | the same transfer again | all but refusals | commands 5 times, data 2 times |
//! | tuning ([`ServiceRequest::Retune`]) | damage; a reset lost the tuning | once, see below |
//! | each request alone | requests that failed together | once |
//! | reset of the controller | the controller failed; a write never ends | once |
//! | half of the blocks | a request of several blocks | down to one block |
//! | slower mode ([`ServiceRequest::Slower`]) | damage | 5 times, each with new tries |
//! | the error as the result | all | |
//!
//! Damage is a wrong CRC, end bit or index. If it struck three of 64 transfers, the first measure
//! is a tuning, and the next one a slower mode. Two tunings that damage has caused are at least a
//! second apart. A reset of the controller that loses a tuning allows another one, at most three
//! times in an incident.
//!
//! A card that does not come back to `tran` gets three measures, once each: a reset of the
//! controller, an initialisation, a power cycle ([`ServiceRequest`]). Then the card is given up.

use super::super::batch::Batch;
use super::super::card::Card;
use super::super::extras::{Event, Place, Step};
use super::super::order::Order;
use super::super::phases::Recovery;
use super::super::recover::{Helping, Incident};
use super::super::slot::{NONE, Rules, Slots, State};
use super::super::timers::later;
use super::super::{BLOCK_BYTES, CardParams, Count, Engine, Error, FlushBy, Kind, Output};
use super::kept::AGAIN_NS;
use super::{Class, RecoveryStep, ServiceRequest, by_status};
use crate::host::{BusOp, Direction, Host};
use crate::sched::Profile;
use crate::spec::quirks::Quirks;
use crate::spec::response::R1;

/// The bus is too fast if this many transfers in [`DAMAGE_WINDOW`] are damaged.
const DAMAGES: usize = 3;
/// Number of transfers, counted by the engine: if [`DAMAGES`] of so many transfers were damaged on
/// the bus, the bus is too fast.
const DAMAGE_WINDOW: Count = 64;
/// Shortest time in ns between two tunings because of damaged data or responses.
const RETUNE_PAUSE_NS: u64 = 1_000_000_000;
/// Most steps to a slower mode in one recovery (from a failure until its requests have their
/// answer).
const SLOWER_MAX: u8 = 5;

impl<P: Profile> Order<P> {
    /// Puts the requests of the transfer back to the front of the queue if `back`; otherwise ends
    /// them with this error.
    #[inline(never)]
    pub fn return_members<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        batch: &Batch<N>,
        back: bool,
        error: Error,
        now_ns: u64,
    ) {
        for place in (0..batch.members().len()).rev() {
            let Some(&index) = batch.members().get(place) else { continue };
            if slots.at(index).state() != State::Active {
                continue;
            }
            self.note_done(slots, index, now_ns);
            let slot = slots.at(index);
            let known = slot.result().err();
            let forgotten = slot.orphan() && batch.direction() == Direction::Read;
            if back && known.is_none() && !forgotten {
                slots.at_mut(index).note_tried();
                self.push_front(slots, index, now_ns);
            } else {
                slots.end_with(index, Err(known.unwrap_or(error)));
            }
        }
    }
}

impl Incident {
    pub fn close<P: Profile>(&mut self, card: &mut Card) {
        self.open = false;
        self.failed.make_whole();
        if P::RECOVERS {
            card.plan_mut().double(0);
        }
    }

    /// Handles a transfer that went well while recovery from a failure (an incident) is open. The
    /// incident ends, with two exceptions. The failed request may still be queued: the transfer was
    /// another request's, or only a piece of it. Or that request may still need a flush.
    #[cold]
    pub fn went_well<const N: usize, P: Profile>(&mut self, slots: &Slots<N>, card: &mut Card) {
        let (owner, generation) = (self.owner, self.generation);
        let slot = slots.at(owner);
        let goes_on = slot.state() == State::Queued
            || slot.state() == State::Settling && slot.rules().has(Rules::FLUSH_AFTER);
        let waits = owner != NONE && slot.generation() == generation && goes_on;
        if !waits {
            self.close::<P>(card);
        }
    }

    /// Allows one new tuning while the present failure (incident) is handled, and records that it
    /// was used. Returns false if one was used already, if the last tuning was not long ago, or if
    /// there is no supervisor.
    pub fn spend_retune(&mut self, helping: &Helping, now_ns: u64) -> bool {
        let rested =
            self.retuned_ns == 0 || self.untuned || now_ns.saturating_sub(self.retuned_ns) >= RETUNE_PAUSE_NS;
        helping.has_supervisor() && rested && self.spend(RecoveryStep::Retune) && {
            self.retuned_ns = now_ns;
            true
        }
    }

    /// Returns whether recovery may ask the supervisor for a slower bus mode, and counts this as
    /// done. The limit for one failure is `SLOWER_MAX` times.
    pub fn spend_slowdown(&mut self, helping: &Helping) -> bool {
        helping.has_supervisor() && self.slowed < SLOWER_MAX && self.spend(RecoveryStep::Slower) && {
            self.slowed += 1;
            true
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Takes the next step of recovery with a card that CMD13 has found in `tran`.
    pub(super) fn resume_with_card(&mut self, now_ns: u64) {
        if matches!(self.incident.failed.error(), Some(Error::Removed | Error::Locked)) {
            return self.answer(now_ns);
        }
        self.settle_pass();
        if !P::RECOVERS {
            return if self.batch.members().len() > 1 || self.incident.again {
                self.each_alone(now_ns)
            } else {
                self.answer(now_ns)
            };
        }
        if self.services.memory().area().is_returning() {
            return if self.services.memory_mut().return_failed() {
                self.initialise_again(now_ns)
            } else {
                self.answer(now_ns)
            };
        }
        if self.incident.counting && self.incident.tries >= 2 {
            // CMD23 failed twice, although the card or the controller declares it: it is not used
            // any more.
            let uncounted = self.card.target().map(|target| CardParams { count: false, ..target });
            self.set_card(uncounted);
        }
        if self.incident.multiple
            && self.incident.tries >= 2
            && self.incident.failed.status() & R1::ILLEGAL_COMMAND != 0
        {
            // The card does not know CMD25, but CMD24: every card that can be written knows that.
            let singly = self
                .card
                .target()
                .map(|target| CardParams { quirks: target.quirks.and(Quirks::NO_MULTIPLE_WRITE), ..target });
            self.set_card(singly);
            self.blockers.refresh_quirks(&self.card);
        }
        if matches!(self.incident.class, Class::Data { .. } | Class::Controller)
            && !self.lane.has_control()
            && let Some(error) = by_status(self.incident.failed.status(), self.batch.direction())
        {
            self.incident.class = Class::of(error);
            self.incident.failed.with(error);
        }
        self.lane.salvage::<N, P>(&self.batch, &self.slots, &mut self.incident, &mut self.record, now_ns);
        if self.lane.has_control() {
            return self.resume_control(now_ns);
        }
        if !self.batch.members().iter().any(|&index| self.slots.at(index).state() == State::Active) {
            // No member is active: only a status was read, for requests that are done already.
            return self.answer(now_ns);
        }
        if self.incident.again {
            return self.try_again(now_ns);
        }
        let together = self.batch.members().len() > 1;
        let (class, tries) = (self.incident.class, self.incident.tries);
        if self.incident.untuned && self.incident.spend_retune(self.supervisor.helping(), now_ns) {
            return self.ask_help(ServiceRequest::Retune, now_ns);
        }
        if !self.card.has_time(&self.timers, now_ns) || class == Class::Hopeless {
            return self.answer(now_ns);
        }
        let spent = tries > class.retries();
        let often = class.damaged() && self.damaged_often();
        if class.damaged()
            && (spent || often)
            && self.incident.spend_retune(self.supervisor.helping(), now_ns)
        {
            return self.ask_help(ServiceRequest::Retune, now_ns);
        }
        if often && self.incident.spend_slowdown(self.supervisor.helping()) {
            return self.ask_help(ServiceRequest::Slower, now_ns);
        }
        if together && (spent || tries >= 2 && !matches!(class, Class::Command { .. })) {
            return self.each_alone(now_ns);
        }
        if !spent {
            return self.try_again(now_ns);
        }
        // A write that does not end may be a busy that the host does not see. A read that brings
        // nothing is most likely a bad block.
        let silent_write =
            class == Class::Data { damaged: false } && self.batch.direction() == Direction::Write;
        if (class == Class::Controller || silent_write) && self.incident.spend(RecoveryStep::Reset) {
            self.incident.tries = class.retries();
            self.incident.begin_pass(self.lane.busy_mut());
            return self.reset_all(now_ns);
        }
        if self.batch.blocks() > 1 && class != Class::Refused {
            return self.halve(now_ns);
        }
        if class.damaged() && self.incident.spend_slowdown(self.supervisor.helping()) {
            return self.ask_help(ServiceRequest::Slower, now_ns);
        }
        self.answer(now_ns);
    }

    /// Continues with a control request (one that is neither a read nor a write) that failed. A
    /// flush (also that of a durable write or erase) is tried again if the card did not understand
    /// it, or took longer than the controller could wait. The errors of the second flush are then
    /// the result. An erase is sent in parts: if a part only took longer than its deadline, the
    /// next one follows. Other control requests get their error: it is unknown how far they got.
    fn resume_control(&mut self, now_ns: u64) {
        if self.lane.awaits_end_of_erase::<N, P>(&self.incident, &self.slots, self.services.memory(), true)
            && self.incident.failed.status() & R1::ERRORS == 0
        {
            self.end_incident(now_ns);
            // The piece took longer than its deadline: the card, polled later, is ready.
            self.services.memory_mut().set_step(Step::Status(Place::Erase));
            return self.extra(Event::Done(0), now_ns);
        }
        let refused = self.incident.failed.status() & (R1::DEFERRED | R1::SWITCH_ERROR) != 0;
        let slot = self.slots.at(self.lane.control());
        let flushes = match slot.kind() {
            Kind::Flush | Kind::Write { .. } => true,
            // All pieces are erased: the flush that makes them durable has failed.
            Kind::Erase { blocks, .. } => slot.moved_blocks() >= blocks,
            _ => false,
        };
        let retried = flushes
            && matches!(
                self.incident.class,
                Class::Command { .. } | Class::Data { damaged: false } | Class::Controller
            )
            && self.incident.tries <= self.incident.class.retries()
            && !self
                .timers
                .incident_is_over(now_ns.saturating_add(self.card.flush_ns(self.lane.has_control())))
            && !self.services.memory().is_mapped()
            && !refused;
        if !retried {
            return self.answer(now_ns);
        }
        self.try_again(now_ns);
    }

    /// Returns whether several transfers were damaged lately: then the bus is the reason, and not
    /// one bad block.
    pub(crate) fn damaged_often(&self) -> bool {
        let [_, _, oldest] = self.incident.damages;
        const { assert!(DAMAGES == 3) };
        oldest != 0 && self.record.transfers().wrapping_sub(oldest) < DAMAGE_WINDOW
    }

    /// Tries the same transfer again.
    fn try_again(&mut self, now_ns: u64) {
        self.incident.climb::<P>(&mut self.record, RecoveryStep::Retry, now_ns);
        self.put_back(now_ns);
        self.lane.go_idle::<H>(&mut self.timers, now_ns);
    }

    /// Tries requests that failed together one by one, in their order and before all others.
    fn each_alone(&mut self, now_ns: u64) {
        self.incident.tries = 0;
        for place in 0..self.batch.members().len() {
            let Some(&index) = self.batch.members().get(place) else { break };
            self.slots.at_mut(index).forbid_merge(!self.incident.again);
        }
        self.try_again(now_ns);
    }

    /// Tries the first request of the failed transfer again, alone and with half as many blocks in
    /// a transfer. Repeated, this leaves the bad block in a transfer of its own.
    fn halve(&mut self, now_ns: u64) {
        self.incident.failed.cut_to((self.batch.blocks() / 2).max(1));
        if let Some(&index) = self.batch.members().first() {
            self.slots.at_mut(index).forbid_merge(true);
        }
        self.try_again(now_ns);
    }

    /// Puts the requests of the failed transfer back to the front of the queue. Requests that must
    /// not be repeated end with the error.
    pub(in super::super) fn put_back(&mut self, now_ns: u64) {
        let error = self.incident.failed.take_error().unwrap_or(Error::Silent);
        self.incident.again = false;
        self.order.return_members(&mut self.slots, &self.batch, true, error, now_ns);
        if P::RECOVERS {
            if self.lane.has_control() {
                self.break_off(now_ns);
                let index = self.lane.take_control();
                let slot = self.slots.at_mut(index);
                let endless =
                    matches!(slot.kind(), Kind::Erase { .. }) && self.incident.is_spent(RecoveryStep::Reset);
                if endless || slot.kind().is_once() && !self.services.memory().is_on_its_way(&slot.kind()) {
                    // It may have been executed, and must not be repeated.
                    self.slots.end_with(index, Err(error));
                    return self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
                }
                // The card has the data of a durable write, so only its flush is tried again. To
                // send the data again would overwrite a later write that is complete.
                if let Kind::Write { blocks, .. } = slot.kind()
                    && slot.rules().has(Rules::FLUSH_AFTER)
                {
                    let bytes = blocks.saturating_mul(BLOCK_BYTES);
                    slot.set_moved(blocks);
                    // An error that a response to the flush has shown stays.
                    slot.answer_well(Output { bytes, ..Output::default() });
                }
                self.order.push_again(&mut self.slots, index, now_ns);
            }
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        }
    }

    /// Ends recovery without success: the requests of the failed transfer get the error.
    pub(super) fn answer(&mut self, now_ns: u64) {
        let error = self.incident.failed.take_error().unwrap_or(Error::Silent);
        self.end_incident(now_ns);
        if self.lane.has_control() {
            let flushes = matches!(self.slots.at(self.lane.control()).kind(), Kind::Flush);
            // A failed flush reports the error or the loss of earlier writes.
            let told = if P::RECOVERS && flushes { self.durability.flushed::<P>().err() } else { None };
            let error = told.unwrap_or(error);
            return match self.slots.at(self.lane.control()).kind() {
                // The memory of a partition access, or of a flush by register, must be unmapped first.
                Kind::PartitionAccess(_) => self.extra(Event::Failed(error), now_ns),
                _ if self.services.memory().is_mapped() => self.extra(Event::Failed(error), now_ns),
                _ => self.end_control(Err(error)),
            };
        }
        self.order.return_members(&mut self.slots, &self.batch, false, error, now_ns);
        self.lane.go_idle::<H>(&mut self.timers, now_ns);
    }

    fn end_incident(&mut self, now_ns: u64) {
        if P::RECOVERS && !self.lane.owner_recovers(&self.slots, &self.card) {
            self.incident.close::<P>(&mut self.card);
        }
        self.incident.again = false;
        if P::RECOVERS {
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        }
    }

    /// Gives the card up: every request is answered with an error, now and from now on.
    pub(super) fn dead(&mut self, now_ns: u64) {
        if self.blockers.mark_dead() {
            self.incident.climb::<P>(&mut self.record, RecoveryStep::Dead, now_ns);
        }
        self.note_supply_loss();
        self.lane.recovered_run::<H>(&mut self.durability);
        self.blockers.refresh_quirks(&self.card);
        self.supervisor.helping_mut().forget();
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        let error = self.incident.failed.take_error().unwrap_or(Error::Dead);
        // The client of a raw phase gets the error of that phase.
        let error = if self.lane.has_control() && self.lane.owner_recovers(&self.slots, &self.card) {
            error
        } else {
            Error::Dead
        };
        self.incident.close::<P>(&mut self.card);
        self.incident.again = false;
        self.incident.end_settling(&mut self.slots, Error::Dead);
        self.release_reset_engine(now_ns);
        self.release_reset_chain(now_ns);
        self.order.return_members(&mut self.slots, &self.batch, false, Error::Dead, now_ns);
        // Memory that a controller which cannot be stopped still uses is no longer mapped here
        // (`kept.rs`).
        self.services.memory_mut().unmap_data(self.bus.host_mut());
        if self.lane.has_control() {
            self.break_off(now_ns);
            self.end_control(Err(error));
        }
        for index in 0..N as u8 {
            if self.slots.at(index).state() == State::Queued {
                self.order.turn_down(&mut self.slots, index, Error::Dead);
            }
        }
        self.lane.set_idle();
        // The card's queue is not left by commands: no command is sent any more.
        self.forget_tasks();
        self.timers.clear();
    }

    /// Initialises the card again; data that were not yet on its medium are lost.
    pub(in super::super) fn recover_lost_card(&mut self, now_ns: u64) {
        if !P::RECOVERS {
            self.settle_pass();
            return self.answer(now_ns);
        }
        self.note_supply_loss();
        self.initialise_again(now_ns);
    }

    /// Requests that the supervisor initialises the card again or power-cycles it, although the
    /// card has not lost its state. Data in the card's cache get lost only by that initialisation,
    /// so they do not count as lost yet; [`recover_lost_card`](Self::recover_lost_card) counts
    /// them.
    pub(super) fn initialise_again(&mut self, now_ns: u64) {
        self.call_back(now_ns);
        if let Some(tasks) = self.lane.tasks_mut() {
            // The initialisation leaves the card's queue empty and off.
            tasks.reset();
        }
        self.incident.lose_status();
        self.settle_pass();
        if self.incident.spend(RecoveryStep::Reinit) {
            self.ask_help(ServiceRequest::Reinit, now_ns);
        } else if self.incident.spend(RecoveryStep::PowerCycle) {
            self.ask_help(ServiceRequest::PowerCycle, now_ns);
        } else {
            self.dead(now_ns);
        }
    }

    /// Notes that the card's power was switched off, or that the card was reset: a volatile cache
    /// has lost the data that were not flushed.
    pub(in super::super) fn note_supply_loss(&mut self) {
        if !P::RECOVERS {
            self.lane.streams_mut().leave_open(None);
            self.durability.forget();
            return;
        }
        let cached = self.card.target().is_some_and(|target| !matches!(target.flush, FlushBy::Status));
        if self.durability.take_piece() {
            self.incident.restart_waiting_pieces(&mut self.slots, &mut self.order);
        }
        self.lane.begin_again(&mut self.incident, &mut self.slots, &mut self.order, &self.card);
        let streamed = self.lane.streams_mut().take_open().is_some_and(|open| open.owes());
        if self.durability.note_supply_loss(cached, streamed) {
            self.record.cache_lost();
        }
    }

    /// Handles a controller that neither kind of reset has stopped. Clock and power are switched
    /// off, so that nothing comes from the card any more; then the platform isolates the
    /// controller, if it can.
    pub(super) fn wedged(&mut self, now_ns: u64) {
        let _ = self.bus.host_mut().set_bus(BusOp::PowerOff, true, now_ns);
        if self.bus.host_mut().isolate() {
            self.slots.let_go_of_kept(&mut self.timers);
        } else {
            self.slots.keep_memory(&mut self.timers, &mut self.record, now_ns);
            // Lean firmware maps nothing else.
            if P::RECOVERS {
                // The memory of a partition access belongs to its slot; a flush by register uses the
                // engine's page.
                let visit = self.lane.has_control()
                    && matches!(self.slots.at(self.lane.control()).kind(), Kind::PartitionAccess(_));
                self.services.memory_mut().keep_mapped(&mut self.record, visit);
            }
        }
        self.incident.failed.with(Error::Dead);
        self.give_card_up(now_ns);
    }

    /// Tries once more to stop a controller that no reset has stopped, if it is time for that.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn stop_again(&mut self, now_ns: u64) {
        if !self.lane.is_idle() {
            return;
        }
        if !self.timers.wake_for_retry(now_ns) {
            return;
        }
        self.timers.keep_until(later(now_ns, AGAIN_NS));
        // With this error recovery sends nothing to the card.
        self.incident.failed.with(Error::Removed);
        self.batch.forget();
        self.reset(Recovery::All, now_ns);
    }

    /// Resets the controller after the supervisor has stopped in the middle of a tuning. Until a
    /// reset, the controller accepts only tuning blocks.
    pub(super) fn tuning_was_left(&mut self, now_ns: u64) {
        self.batch.forget();
        self.incident.failed.with(Error::Silent);
        self.incident.failed.forget_status();
        self.begin_pass(Error::Silent, now_ns);
        self.reset_all(now_ns);
    }

    /// Takes the next measure for a card that does not come back to `tran`.
    pub(super) fn escalate(&mut self, now_ns: u64) {
        if P::RECOVERS && self.timers.incident_is_over(now_ns) {
            return self.dead(now_ns);
        }
        // Outside of the user area there may be no tuning [eMMC 6.6.22.4], and a card that does not
        // return its status does not return to the user area either. But a tuning is better than to
        // give the card up.
        let last = self.incident.is_spent(RecoveryStep::Reset)
            && self.incident.is_spent(RecoveryStep::Reinit)
            && self.incident.is_spent(RecoveryStep::PowerCycle);
        let better = (last || self.services.memory().area().is_user())
            && (self.incident.untuned || self.incident.class.damaged() && self.bus.wire().is_tuned());
        if P::RECOVERS && better && self.incident.spend_retune(self.supervisor.helping(), now_ns) {
            self.incident.unheard = true;
            self.incident.lose_status();
            self.settle_pass();
            return self.ask_help(ServiceRequest::Retune, now_ns);
        }
        if self.incident.spend(RecoveryStep::Reset) {
            self.incident.begin_pass(self.lane.busy_mut());
            self.incident.climb::<P>(&mut self.record, RecoveryStep::Reset, now_ns);
            return self.reset(Recovery::All, now_ns);
        }
        self.recover_lost_card(now_ns);
    }
}
