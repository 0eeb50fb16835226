//! Stopping the controller's command queue engine: it halts, drops its tasks, and stops using
//! memory. Then one request counts as failed and goes to recovery, and the others wait again.
//!
//! `hosted.rs` has the order of these steps, and how long each may take.

use super::super::batch::Batch;
use super::super::bus::Bus;
use super::super::lane::Lane;
use super::super::phases::Stage;
use super::super::slot::Slots;
use super::super::timers::Timers;
use super::{Engine, Error, Turn};
use crate::host::{Fault, Host, QueueFault, Stage as Where};
use crate::sched::tasks::{At, Why};
use crate::sched::{Demotion, Lanes, Profile};
use crate::spec::response::{R1, Response};

impl<E, T: Lanes> Lane<E, T> {
    /// Stops the use of the controller's command queue engine for the reason `why`: from now on the
    /// software drives the card's queue.
    #[cold]
    pub(in crate::engine) fn leave_engine(&mut self, why: Demotion) {
        if let Some(tasks) = self.tasks_mut() {
            tasks.leave_engine(why);
        }
        if let Some(hosted) = self.hosted_mut() {
            hosted.unequip();
        }
    }

    /// Selects the task that has failed: the task `named` by the controller, or the oldest one if
    /// the controller names none. Returns false if there is no task.
    #[cold]
    pub fn choose_suspect<H, const N: usize>(
        &mut self,
        batch: &mut Batch<N>,
        slots: &Slots<N>,
        bus: &mut Bus<H>,
        timers: &mut Timers,
        named: Option<u8>,
    ) -> bool {
        let Some(tasks) = self.tasks() else { return false };
        let named = named.filter(|&id| tasks.on_card() >> (id & 31) & 1 == 1);
        let Some(id) = named.or(tasks.oldest()) else { return false };
        let phase = batch.gather_task(slots, self.tasks(), id);
        bus.prepare(phase);
        if let Some(tasks) = self.tasks_mut() {
            tasks.take_out(id);
        }
        self.enter(Stage::Main);
        timers.clear();
        self.early_mut().begin();
        true
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Begins to take the tasks back from the command queue engine, whose halt is requested as the
    /// first step. `why`: the reason.
    #[cold]
    pub(super) fn stop_engine(&mut self, why: Why, now_ns: u64) {
        if let Why::Fault(fault) = why {
            message!(warn, "the controller's queue engine: {}", fault);
        }
        let Some(hosted) = self.lane.hosted_mut() else { return };
        hosted.begin_halt(why, now_ns);
        if self.bus.host_mut().queue().is_none_or(|queue| queue.halt_queue().is_err()) {
            self.give_up_engine(Demotion::Halt, now_ns);
        }
    }

    /// Clears a command queue engine that has halted: the tasks that have ended are known by now,
    /// and the others are dropped.
    #[cold]
    pub(super) fn clear_engine(&mut self, now_ns: u64) {
        let left = self.lane.has_tasks();
        let Some(hosted) = self.lane.hosted_mut() else { return };
        hosted.begin_clear(now_ns);
        let Some(queue) = self.bus.host_mut().queue() else { return };
        if left {
            if queue.clear_tasks().is_err() {
                self.give_up_engine(Demotion::Clear, now_ns);
            }
        } else if queue.disable_queue().is_err() {
            self.give_up_engine(Demotion::Halt, now_ns);
        } else {
            hosted.set_state(At::Off);
            self.blame(now_ns);
        }
    }

    /// Waits until the command queue engine has halted, or has cleared its tasks, as the stack has
    /// requested. If this takes too long, gives the command queue engine up.
    #[cold]
    pub(super) fn await_engine(&mut self, now_ns: u64) -> Turn {
        let Some(hosted) = self.lane.hosted() else { return Turn::Pass };
        let (at, until_ns) = (hosted.at(), hosted.until_ns());
        if now_ns < until_ns {
            self.timers.wake_by(until_ns);
            return Turn::Wait;
        }
        self.take_events(now_ns);
        if self.lane.hosted().is_some_and(|hosted| hosted.at() == at && hosted.until_ns() == until_ns) {
            let why = if at == At::Halting { Demotion::Halt } else { Demotion::Clear };
            self.give_up_engine(why, now_ns);
        }
        Turn::Again
    }

    /// Gives up the controller's command queue engine, because it does not do what it should. The
    /// lines are reset, and the command queue engine with them; it is not used again.
    #[cold]
    fn give_up_engine(&mut self, why: Demotion, now_ns: u64) {
        if let Some(hosted) = self.lane.hosted_mut() {
            hosted.set_state(At::Reset);
        }
        message!(warn, "the controller's queue engine is given up: {}", why);
        self.blame(now_ns);
        self.lane.leave_engine(why);
    }

    /// Takes the tasks from the command queue engine, because no request needs them any more, or
    /// their memory is needed. If the command queue engine is being stopped already, this changes
    /// nothing.
    #[cold]
    pub(in super::super) fn take_tasks_away(&mut self, why: Why, now_ns: u64) {
        if self.lane.hosted().is_some_and(|hosted| hosted.at() == At::On) {
            self.stop_engine(why, now_ns);
        }
    }

    /// Takes back all tasks after a reset: the command queue engine is off, and uses no memory any
    /// more.
    #[inline(always)]
    pub(in super::super) fn release_reset_engine(&mut self, now_ns: u64) {
        if let Some(hosted) = self.lane.hosted_mut().filter(|hosted| hosted.at() != At::Off) {
            hosted.set_state(At::Off);
            self.call_back(now_ns);
        }
    }

    /// Fails the task that caused the halt of the command queue engine, as far as that is known.
    /// The other tasks, which are taken from the command queue engine, wait again.
    #[cold]
    pub(super) fn blame(&mut self, now_ns: u64) {
        let Some(hosted) = self.lane.hosted_mut() else { return };
        match hosted.take_why() {
            Why::Silent => self.fail_task(Error::Silent, now_ns),
            Why::Removed => self.fail_task(Error::Removed, now_ns),
            Why::Fault(fault) => self.engine_failed(fault, now_ns),
        }
    }

    #[cold]
    fn engine_failed(&mut self, fault: QueueFault, now_ns: u64) {
        // If the data of a known task failed, the response before them was good: the command queue
        // engine checks it, and reports a bad one. Any other response with an error shows errors of
        // tasks that ended before. The task whose data moved meanwhile may have ended since: so
        // only bits of late errors count, and all tasks that have ended are suspects.
        let named = fault
            .slot
            .is_some_and(|id| self.lane.tasks().is_some_and(|tasks| tasks.on_card() >> (id & 31) & 1 == 1));
        let told = fault.response.is_some_and(|status| status & R1::DEFERRED != 0);
        let status = match fault.stage {
            Where::Data if !told => named.then_some(0),
            // A block that cannot be read concerns only its own read, which ends without data; no
            // response names that read.
            _ if self.lane.tasks().is_some_and(|tasks| tasks.read()) => {
                fault.response.map(|status| status & !R1::CARD_ECC_FAILED)
            }
            _ => fault.response,
        };
        let status =
            status.filter(|&status| fault.stage == Where::Data && !told || status & R1::DEFERRED != 0);
        let response = status.map(|status| Response { words: [status, 0, 0, 0] });
        let seen = Fault { cause: fault.cause, stage: fault.stage, response };
        if self.lane.choose_suspect(&mut self.batch, &self.slots, &mut self.bus, &mut self.timers, fault.slot)
        {
            return self.phase_failed(seen, now_ns);
        }
        // All tasks that were rung are done: only the status is left to handle.
        if let Some(status) = status {
            self.settle(status);
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        }
        self.queue_failed(now_ns);
    }

    /// Fails the oldest task with this error. If the card's queue has no task, the engine gives up
    /// the whole queue.
    #[cold]
    fn fail_task(&mut self, error: Error, now_ns: u64) {
        if self.lane.choose_suspect(&mut self.batch, &self.slots, &mut self.bus, &mut self.timers, None) {
            self.lane.fail(&mut self.incident, error)
        } else {
            self.queue_failed(now_ns)
        }
    }
}
