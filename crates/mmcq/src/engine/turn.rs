//! The loop: the engine's calls that get the time, and what each of them does.
//!
//! A call reports an event to a part of the engine: an interrupt, a deadline, a request, help. The
//! part handles it. If the bus may be free afterwards, or the transfer has failed, the part notes
//! that in the [lane](super::lane::Lane) and returns. Only the loop calls recovery, and chooses the
//! next request. So neither runs while another part is working.

use super::blockers::DRIVEN;
use super::concurrent::Turn as Beside;
use super::extras::Event;
use super::fast::FastKind;
use super::gate::raw_bytes;
use super::lane::Failure;
use super::phases::Stage;
use super::slot::{NONE, Rules};
use super::tail::Tail;
use super::tasks::Turn;
use super::timers::{NEVER, later};
use super::{BLOCK_BYTES, CardNumber, CardParams, Engine, Error, Kind, Output, PollOutcome, Request, SlotId};
use crate::host::{DmaError, Host};
use crate::sched::Profile;
use crate::sched::tasks::Why;

/// Largest number of turns in one call, for each slot. A turn starts a command on the bus, takes a
/// step of recovery, or ends a request. A request with its recovery needs no more turns than this,
/// even if all of its commands fail at once.
const TURNS_MAX: usize = 32;

/// Time in ns without a command to the card. After this time the engine reads the card's status, to
/// learn whether writes that were reported complete have succeeded.
const ASK_AFTER_NS: u64 = 1_000_000;

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Accepts a request, and starts it if the controller is idle. Maps its memory for DMA at once,
    /// unless [`Config::prepared`](super::Config::prepared) requests are mapped already. A refused
    /// request comes back unchanged.
    pub fn submit(&mut self, mut request: Request, now_ns: u64) -> Result<SlotId, (Error, Request)> {
        self.accept(&mut request, now_ns).map_err(|error| (error, request))
    }

    /// Accepts a request as [`submit`](Self::submit) does. The memory is taken out of an accepted
    /// request; a refused one is unchanged.
    #[inline(always)]
    pub(crate) fn accept(&mut self, request: &mut Request, now_ns: u64) -> Result<SlotId, Error> {
        if P::RECOVERS && request.card == CardNumber::ANY && request.kind.changes_blocks() {
            self.durability.note_unbound();
        }
        if Self::FAST
            && let Some(id) = self.submit_fast(request, now_ns)
        {
            self.go_on(now_ns);
            return Ok(id);
        }
        if Self::FAST
            && self.order.is_held()
            && let Some(id) = self.submit_to_held(request, now_ns)
        {
            self.go_on(now_ns);
            return Ok(id);
        }
        self.submit_any(request, now_ns)
    }

    #[inline(never)]
    fn submit_any(&mut self, request: &mut Request, now_ns: u64) -> Result<SlotId, Error> {
        self.blockers.admit(&self.card, &self.services, self.supervisor.helping(), request)?;
        let index =
            self.blockers.allocate(&mut self.slots, &mut self.record, request.urgent).ok_or(Error::Full)?;
        let mut segment = request.buf.segment(u32::MAX);
        let mut plans = false;
        match request.kind {
            Kind::Read { blocks, .. } | Kind::Write { blocks, .. } => {
                segment.len = blocks.saturating_mul(BLOCK_BYTES);
            }
            Kind::Raw { phase, .. } | Kind::Io { phase, .. } => segment.len = raw_bytes(&phase),
            _ => plans = P::RECOVERS,
        }
        let slot = self.slots.at_mut(index);
        let rules = (Rules::of(request.durable), request.urgent);
        slot.take_in(request.kind, segment, rules, request, now_ns);
        if plans {
            self.services.plan(slot, self.card.abilities());
        }
        let generation = slot.generation();
        if P::RECOVERS && slot.urgent() {
            self.blockers.close_fast();
            self.slots.push_urgent(index);
        } else if matches!(slot.kind(), Kind::Io { .. }) {
            self.blockers.close_fast();
            self.slots.push_io(index);
        } else {
            self.slots.push_back(index);
        }
        if let Err(error) = self.slots.prepare(self.bus.host_mut(), self.config.prepared, index)
            && !matches!(error, Error::Dma(DmaError::Exhausted))
        {
            self.slots.unlink(index);
            request.buf = self.slots.at_mut(index).give_back();
            self.slots.release(index);
            return Err(error);
        }
        self.record.request_accepted();
        self.order.note_arrived(&self.slots, index, now_ns);
        if !(self.order.is_held() && self.join_held(index, now_ns)) {
            self.lane.note_free();
        }
        self.go_on(now_ns);
        Ok(SlotId { index, generation })
    }

    /// Handles an interrupt. Called from the interrupt handler (or from a loop that polls the
    /// controller). Returns which requests are complete, and what the caller must do next.
    pub fn on_irq(&mut self, now_ns: u64) -> PollOutcome {
        let fast = Self::FAST && self.blockers.fast_kind() != FastKind::Nothing;
        let moved = if fast {
            self.acknowledge_fast(now_ns)
        } else if Self::FAST && self.lane.rings_tasks() && self.is_stopped_by::<DRIVEN>() {
            self.acknowledge_driven(now_ns)
        } else {
            self.acknowledge(now_ns)
        };
        // The next request is started before any request is completed.
        self.go_on(now_ns);
        if moved {
            self.record.interrupt_served();
        } else {
            self.record.interrupt_was_spurious();
        }
        let mut deferred = self.slots.have_ended();
        if deferred && !self.bus.host().caps().defer_completion {
            if Self::FAST {
                self.slots.complete_ended::<H, P>(
                    self.bus.host_mut(),
                    &mut self.durability,
                    self.config.prepared,
                );
            } else {
                self.slots.finish::<H, P>(self.bus.host_mut(), &mut self.durability, self.config.prepared);
            }
            deferred = false;
        } else if H::DEFERS_BY_REQUEST && deferred {
            deferred = self.slots.complete_prompt::<H, P>(self.bus.host_mut(), &mut self.durability);
        }
        self.work(deferred)
    }

    /// Carries out all work whose time has come. The platform calls this when a deadline has come
    /// and when completions were deferred. The platform may also call it at any other time.
    pub fn poll(&mut self, now_ns: u64) -> PollOutcome {
        self.slots.finish::<H, P>(self.bus.host_mut(), &mut self.durability, self.config.prepared);
        if P::RECOVERS && self.slots.are_cramped() {
            self.slots.give_back_ahead(self.bus.host_mut());
        }
        self.advance(now_ns);
        if self.timers.is_kept() {
            self.stop_again(now_ns);
            self.go_on(now_ns);
        }
        self.slots.finish::<H, P>(self.bus.host_mut(), &mut self.durability, self.config.prepared);
        if !H::CARD_IRQ && self.timers.take_look(now_ns) {
            // Whether a function requests attention, the task that is woken must find out.
            self.card.functions_mut().ask();
        }
        self.work(false)
    }

    /// Accepts requests again, after [`suspend`](Self::suspend) or [`halt`](Self::halt).
    pub fn resume(&mut self, now_ns: u64) {
        self.blockers.resume();
        self.blockers.refresh_quirks(&self.card);
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        self.lane.note_free();
        self.go_on(now_ns);
    }

    /// Notes that the host reports a card as inserted or removed. Requests for the previous card
    /// end at once. When the card slot has been stable for 50 ms, the engine reports to the
    /// supervisor what is in it.
    #[cold]
    pub fn presence_changed(&mut self, now_ns: u64) {
        self.note_presence(now_ns);
        self.go_on(now_ns);
    }

    /// Notes that a card has come or gone, as the host reports.
    #[cold]
    pub(super) fn note_presence(&mut self, now_ns: u64) {
        if !P::RECOVERS {
            if !self.bus.host().present() {
                self.card.leave();
                self.removed(now_ns);
            }
            return;
        }
        self.supervisor.note_presence(&mut self.timers, &mut self.blockers, now_ns);
        if self.card.target().is_some() || !self.bus.host().present() {
            self.removed(now_ns);
        }
        if self.lane.is_idle() {
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        }
    }

    /// Handles a card that is gone: every request that needs it fails now. A request that the
    /// controller has fails when the controller has stopped.
    fn removed(&mut self, now_ns: u64) {
        self.set_card_params(None);
        // A host without a card interrupt wakes the task by its polls.
        if P::RECOVERS || H::CARD_IRQ {
            self.card.functions_mut().note_card_gone();
        }
        self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Removed);
        self.incident.end_settling(&mut self.slots, Error::Removed);
        match self.lane.stage() {
            Stage::Idle if self.lane.engine_has_memory() => self.take_tasks_away(Why::Removed, now_ns),
            Stage::Idle | Stage::Bus | Stage::Pause => {}
            Stage::Recover(_) => self.incident.failed_mut().with(Error::Removed),
            _ => self.lane.fail(&mut self.incident, Error::Removed),
        }
    }

    /// Stops the controller's DMA. For a caller that must have the buffers of its own transfer back
    /// before it returns. The transfers of other requests are tried again.
    pub fn abort(&mut self, now_ns: u64) {
        self.stop_transfer(now_ns);
        self.go_on(now_ns);
    }

    /// Ends a request whose lent memory goes out of scope. The request ends as soon as the
    /// controller does not use the memory any more, and is never sent again.
    pub(crate) fn forsake(&mut self, id: SlotId, now_ns: u64) {
        self.give_up_request(id, now_ns);
        self.go_on(now_ns);
    }

    /// Reports the result of the work that the engine has requested from the supervisor (help, such
    /// as a new initialisation of the card). `Ok`: the card is in `tran`, and these are its
    /// parameters; queued requests continue. An error leads to the next step of the recovery
    /// ladder, and at last to [`Error::Dead`]; [`Error::Changed`] ends all requests for the
    /// previous card. Returns false and does nothing if help was not requested, or if the engine
    /// has since requested other help.
    pub(crate) fn service_done(&mut self, result: Result<CardParams, Error>, now_ns: u64) -> bool {
        let heard = self.hear_help(result, now_ns);
        self.go_on(now_ns);
        heard
    }

    /// Sets what the supervisor does for a card without a fault. It reads exception events (if
    /// `exceptions`) and tunes at the interval `tune_every_ns` (0: never). After `rest_after_ns`
    /// without requests ([`u64::MAX`]: never) it lets the card rest, which stops the card's clock
    /// or puts the card to sleep.
    pub(crate) fn look_after(
        &mut self,
        exceptions: bool,
        tune_every_ns: u64,
        rest_after_ns: u64,
        now_ns: u64,
    ) {
        let timers = &mut self.timers;
        self.supervisor.set_upkeep(timers, exceptions, tune_every_ns, rest_after_ns, now_ns);
        self.supervisor.helping_mut().set_supervisor(P::RECOVERS);
        if P::RECOVERS && rest_after_ns != NEVER && self.lane.is_idle() {
            // Perhaps no request ever comes, so the engine itself has to find when the rest begins.
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        }
        self.go_on(now_ns);
    }

    /// Begins a rest of the card: its clock stops, or the card sleeps. From now on requests wait
    /// until the supervisor has woken the card.
    pub(crate) fn begin_rest(&mut self, now_ns: u64) {
        self.record.rest_begun();
        self.supervisor.note_rest(&mut self.timers);
        if self.lane.is_idle() {
            self.lane.go_idle::<H>(&mut self.timers, now_ns);
        }
        self.go_on(now_ns);
    }

    /// Carries out the steps, polls and retries whose time has come, and handles deadlines that
    /// have passed: at most one of each in a call.
    fn advance(&mut self, now_ns: u64) {
        if H::CONCURRENT && self.timers.concurrent_is_due(now_ns) {
            self.concurrent_turn(Beside::Due, now_ns);
            self.go_on(now_ns);
        }
        if self.lane.is_idle() {
            self.lane.note_free();
            return self.go_on(now_ns);
        }
        if self.timers.take_turn(now_ns) {
            match self.lane.stage() {
                Stage::Bus => {
                    let begun = self.lane.take_bus();
                    self.step_bus(!begun, now_ns);
                }
                Stage::Pause => self.end_control(Ok(Output::default())),
                Stage::BusyPause => self.ask_busy(now_ns),
                Stage::Status if !self.bus.is_blocked() => self.ask_status(Stage::Status, now_ns),
                Stage::Extra if P::RECOVERS && !self.bus.is_blocked() => self.extra(Event::Woke, now_ns),
                Stage::Recover(step) if !self.bus.is_blocked() => self.recover_wake(step, now_ns),
                _ if self.bus.is_blocked() => self.try_start(self.timers.left_ns(now_ns), now_ns),
                _ => {}
            }
            self.go_on(now_ns);
        }
        if self.timers.is_over(now_ns) {
            self.overdue(now_ns);
        }
    }

    /// Handles a deadline that has passed: perhaps only the interrupt was lost.
    fn overdue(&mut self, now_ns: u64) {
        let waiting = !self.bus.is_blocked() && !matches!(self.lane.stage(), Stage::BusyPause);
        let moved = waiting && self.acknowledge(now_ns);
        self.go_on(now_ns);
        if moved && !self.timers.is_over(now_ns) {
            self.record.interrupt_lost();
            if Self::FAST {
                self.bus.host_mut().interrupt_lost();
            }
            return;
        }
        if !self.timers.is_over(now_ns)
            || self.lane.is_idle()
            || self.lane.postpone_deadline::<H, N, P>(
                &self.bus,
                &self.card,
                &self.batch,
                &mut self.timers,
                now_ns,
            )
        {
            return;
        }
        self.lane.note_failure(Failure::Silence);
        self.go_on(now_ns);
    }

    /// Starts the next phase or a step of recovery, if something has happened that needs it: the
    /// bus may be free, or the transfer has failed. Otherwise does nothing.
    #[inline(always)]
    fn go_on(&mut self, now_ns: u64) {
        // An engine without a fast path checks for news in one place.
        if !Self::FAST || self.lane.has_news() {
            rarely();
            self.take_turns(now_ns);
        }
    }

    /// Starts the next command on the bus, or carries out a step of recovery, and repeats this as
    /// long as something has ended on the bus. A call repeats at most [`TURNS_MAX`] times the
    /// number of slots; the next `poll` does the rest.
    #[inline(never)]
    fn take_turns(&mut self, now_ns: u64) {
        for _ in 0..TURNS_MAX * N {
            if !self.lane.take_news() {
                return;
            }
            match self.lane.take_failure() {
                Failure::Nothing => {
                    if self.dispatch(now_ns) {
                        self.lane.note_free();
                    }
                }
                failure => self.recover(failure, now_ns),
            }
        }
        self.timers.wake_now();
    }

    /// Starts the next request if nothing is in progress. Returns true if a phase was started or a
    /// request ended, and there may be more to do. On small cores this is not inlined into the
    /// loop, where it would be larger.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    fn dispatch(&mut self, now_ns: u64) -> bool {
        self.order.note_results(&self.slots, now_ns);
        if P::RECOVERS && self.incident.is_in_doubt() {
            self.incident.forget_ended(&self.slots);
        }
        if !self.lane.is_idle() {
            self.try_early(now_ns);
            self.try_concurrent(now_ns);
            return false;
        }
        if self.lane.is_concurrent::<H, P>() {
            return false;
        }
        if self.durability.owes_status(&self.slots) && self.card.target().is_none() {
            // The card was taken from the engine while these writes were on the bus: no card can
            // send their status.
            self.incident.end_settling(&mut self.slots, Error::NoCard);
            self.durability.lose_status();
        }
        self.timers.wake_for_kept();
        if P::RECOVERS && self.slots.are_cramped() {
            self.timers.wake_now();
            return false;
        }
        if self.lane.streams().is_left_open::<H>()
            && let Some(reason) = self.must_close(now_ns)
        {
            self.close(reason, now_ns);
            return false;
        }
        match self.step_tasks(now_ns) {
            Turn::Pass => {}
            Turn::Again => return true,
            Turn::Wait => return false,
        }
        if self.finish_pack(now_ns) {
            return true;
        }
        if P::RECOVERS && !self.services.memory().area().is_user() && self.plan_return() {
            self.extra(Event::Return, now_ns);
            return false;
        }
        if self.blockers.is_stopped() {
            if self.stopped_turn(now_ns) {
                return false;
            }
            return true;
        }
        let head = self.slots.head();
        let memory_waits = head != NONE || self.durability.asks_soon::<N, P>(&self.slots, &self.config);
        let turn = !memory_waits || self.card.functions().have_turn(self.config.io_burst);
        if let Some(io) = self.slots.oldest_io().filter(|_| turn) {
            if P::RECOVERS && self.durability.owes_status(&self.slots) && self.slots.at(io).urgent() {
                // The urgent command would read, and clear, errors that belong to these writes.
                self.ask_status(Stage::Status, now_ns);
                return true;
            }
            self.card.functions_mut().go(memory_waits);
            self.begin_control(io, now_ns);
            return true;
        }
        if memory_waits && turn && self.timers.wake_at_chain_end(now_ns) {
            return false;
        }
        if memory_waits {
            self.card.functions_mut().reset_run();
            self.timers.clear_chain();
        }
        if head == NONE {
            self.order.hold_broken(now_ns);
            if self.lane.streams().is_left_open::<H>() {
                self.timers.wake_after_hold();
            } else if self.durability.owes_status(&self.slots) {
                if !P::RECOVERS || !self.postpone_status(now_ns) {
                    self.ask_status(Stage::Status, now_ns);
                }
            } else if P::RECOVERS && self.timers.chore_is_planned() && self.upkeep(true, now_ns) {
                return true;
            }
            return false;
        }
        if self.slots.at(head).span().is_some() {
            match self.order.pick(&self.slots, &mut self.timers, self.incident.is_open(), head, now_ns) {
                Some(first) if self.start_pack_with(first, now_ns) => return true,
                Some(first) if self.start_chain_with(first, now_ns) => return true,
                Some(first) => match self.tail_of(first, now_ns) {
                    // The tail will continue the transfer that is left open.
                    Tail::Awaited if self.lane.streams().is_left_open::<H>() => return false,
                    Tail::Awaited => {
                        self.settle_while_idle(now_ns);
                        return false;
                    }
                    Tail::Batch => self.begin_transfer(first, true, now_ns),
                    Tail::Unknown => {
                        let mut first = first;
                        if self.bus.may_continue() && !self.incident.is_open() {
                            let streams = self.lane.streams();
                            let limits = self.bus.limits(&self.config, &self.incident, streams);
                            first = self.order.pick_longer_run(&self.slots, &mut self.batch, limits, first);
                        }
                        self.begin_transfer(first, false, now_ns);
                        self.claim_fast_end();
                    }
                },
                None => {
                    self.settle_while_idle(now_ns);
                    return false;
                }
            }
        } else if P::RECOVERS && self.slots.give_way(head) {
            // The writes of other clients are at the head of the queue now.
        } else if self.durability.owes_status(&self.slots) {
            self.ask_status(Stage::Status, now_ns);
        } else {
            self.begin_control(head, now_ns);
        }
        true
    }

    /// Called while the scheduling policy keeps the controller idle, or while the start of a
    /// transfer is delayed. Reads the status of earlier writes (CMD13), because the policy may wait
    /// for the client of these writes, which waits for their results. If a transfer is open on the
    /// card, closes it when its time is over.
    fn settle_while_idle(&mut self, now_ns: u64) {
        if !self.lane.streams().is_left_open::<H>() {
            if self.durability.asks_soon::<N, P>(&self.slots, &self.config) {
                self.order.note_question(now_ns);
                self.ask_status(Stage::Status, now_ns);
            }
        } else if self.timers.hold_is_over(now_ns) {
            self.close(self.lane.streams().held_out(&self.config, now_ns), now_ns);
        } else {
            self.timers.wake_by_hold();
        }
    }

    /// Postpones the read of a status while the queue is empty, and sets the engine's deadline for
    /// it. Returns false if it has to be read now.
    pub(super) fn postpone_status(&mut self, now_ns: u64) -> bool {
        if self.durability.asks_soon::<N, P>(&self.slots, &self.config) || !self.blockers.is_running() {
            return false;
        }
        let at_ns = later(self.bus.last().map_or(0, |last| last.ended_ns), ASK_AFTER_NS);
        if now_ns < at_ns {
            self.timers.wake_by(at_ns);
        }
        now_ns < at_ns
    }
}

/// Marks its caller as the rarer path, for the compiler.
#[cold]
#[inline]
fn rarely() {}
