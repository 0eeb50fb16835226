//! Failures of a card's queue.
//!
//! Any failure switches the card's queue off. Tasks that wait on the card come back to the engine's
//! own queue, with their age. The task that was executed is tried again without the queue, by the
//! recovery ladder. The card discards its tasks, and its queue is switched off, before anything
//! else is sent. After two failures in ten seconds, five in ten minutes, or one contradictory
//! report of the card, the queue is not used again.
//!
//! A late error in a queue names no write. So all writes whose status is not known are suspects.
//! They are written again, in order and one at a time, and each gets its own result.

use super::super::lane::Lane;
use super::super::slot::{State, bits};
use super::{Engine, Turn};
use crate::host::Host;
use crate::sched::tasks::At;
use crate::sched::{Demotion, Lanes, Profile};

impl<E, T: Lanes> Lane<E, T> {
    /// Stops the use of the card's command queue: it is not used again after the failure `why`.
    #[cold]
    pub(in crate::engine) fn leave_for_good(&mut self, why: Demotion) {
        if self.tasks_mut().is_some_and(|tasks| tasks.demote(why)) {
            message!(warn, "the card's command queue is given up: {}", why);
        }
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Takes the tasks that wait on the card back into the engine's queue.
    pub(in super::super) fn call_back(&mut self, now_ns: u64) {
        if !self.lane.is_queued() {
            return;
        }
        self.lane.park(&mut self.bus);
        let held = self.lane.engine_has_memory();
        let is_gone = self.card.target().is_none();
        let gone = is_gone.then(|| self.incident.failed().error().unwrap_or(super::Error::NoCard));
        let Some(tasks) = self.lane.tasks_mut() else { return };
        if held {
            // The controller still uses the tasks' memory: the tasks go back to the queue when it
            // has stopped.
            return tasks.mark_lost();
        }
        for index in bits(tasks.fall_back()) {
            if self.slots.at(index).state() != State::Active {
                continue;
            }
            self.order.take_back(&mut self.slots, index, gone, now_ns);
        }
    }

    /// Handles a failed command or data transfer, if the card's queue is on: the failure ends the
    /// use of the queue.
    #[inline(always)]
    pub(in super::super) fn fail_tasks(&mut self, now_ns: u64) {
        if self.lane.is_queued() {
            self.queue_failed(now_ns);
        } else if let Some(tasks) = self.lane.tasks_mut() {
            // The queue was given up before its command has failed: no response to it comes.
            tasks.take_step();
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn queue_failed(&mut self, now_ns: u64) {
        self.call_back(now_ns);
        let driven = self.lane.hosted().is_some_and(|hosted| hosted.drives());
        let (why, index) = (Demotion::Failures, self.bus.phase().command.index);
        let Some(tasks) = self.lane.tasks_mut() else { return };
        tasks.take_step();
        if self.lane.hosted().is_some_and(|hosted| hosted.at() == At::Reset) {
            // The failure is the command queue engine's, and does not count against the software.
            return;
        }
        let Some(tasks) = self.lane.tasks_mut() else { return };
        if !tasks.note_failure(now_ns) {
            return;
        }
        if driven {
            message!(warn, "the controller's queue engine is given up: {}, CMD{} the last", why, index);
            self.lane.leave_engine(why);
        } else if tasks.demote(why) {
            message!(warn, "the card's command queue is given up: {}, CMD{} the last", why, index);
        }
    }

    /// Handles an impossible report of the card about its queue: the engine stops using the card's
    /// queue, for the reason `why`.
    #[cold]
    pub(super) fn disbelieve(&mut self, why: Demotion, now_ns: u64) -> Turn {
        self.lane.leave_for_good(why);
        self.queue_failed(now_ns);
        Turn::Again
    }

    /// Forgets all tasks: the card is gone, has been replaced, or will be brought up again.
    pub(in super::super) fn forget_tasks(&mut self) {
        if let Some(hosted) = self.lane.hosted_mut() {
            // The kind of the next card decides whether the command queue engine drives its queue.
            hosted.unequip();
        }
        if self.lane.engine_has_memory() {
            // First a reset has to take the tasks' memory from the command queue engine.
            self.timers.wake_now();
            return self.lane.tasks_mut().map_or((), |tasks| tasks.remove_queue());
        }
        self.call_back(self.bus.began_ns());
        if self.lane.is_idle() {
            self.lane.unmap_switch(self.services.memory_mut(), self.bus.host_mut());
        }
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.forget();
        }
    }

    /// Makes the card discard tasks that the engine has forgotten, and switches its queue off.
    /// *Bound: three tries; then the card is initialised again.*
    #[cold]
    pub(super) fn clean_queue(&mut self, now_ns: u64) -> Turn {
        let gone = self.blockers.is_dead() || self.card.target().is_none();
        self.lane.unmap_switch(self.services.memory_mut(), self.bus.host_mut());
        let Some(tasks) = self.lane.tasks_mut() else { return Turn::Pass };
        if gone {
            tasks.reset();
            return Turn::Pass;
        }
        match tasks.count_cleaning() {
            Some(true) => self.discard_tasks(now_ns),
            Some(false) => return self.switch_queue(false, now_ns),
            None => {
                tasks.reset();
                self.lane.leave_for_good(Demotion::Failures);
                self.recover_lost_card(now_ns);
            }
        }
        Turn::Again
    }

    /// Checks a status of the card for an error of an earlier write, while the card's queue is on.
    /// Returns true if the error may belong to several writes; they are then written again.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn suspect_several(&mut self, status: u32) -> bool {
        let settling = self.slots.settling();
        // With the command queue engine, the write that was executed last may still be a task.
        let several = self.lane.is_driven() || settling & settling.wrapping_sub(1) != 0;
        if settling == 0 || !several {
            return false;
        }
        if self.durability.take_unsettled() {
            self.durability.owe_late::<N, P>(&mut self.slots, &mut self.record, &self.card, status);
        } else {
            self.durability.owe_late_status::<N, P>(&mut self.slots, &self.card, status);
        }
        for index in bits(self.slots.settling()) {
            self.slots.at_mut(index).forbid_merge(true);
        }
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.count_suspects();
        }
        self.incident.doubt(&mut self.slots);
        // Queued at once: the next lane may be another, and younger requests wait for these writes.
        self.incident.write_again(&mut self.slots, &mut self.order, self.bus.began_ns());
        true
    }
}
