//! Fast path for ordinary reads and writes while the controller's command queue engine is on, and
//! no error, flush or other special request is in progress. There are three shortcuts. A request
//! goes from `submit` to the doorbell without the queue. At the end of a task, its requests get
//! their results directly. Then the next requests of the queue are sent directly.
//!
//! This path is to tasks what the [fast path](super::super::fast) is to transfers. It skips the
//! checks of [`hosted`](super::hosted), and leaves the same state as the path with these checks.
//! The [`blockers`](super::super::blockers) open and close this path as they do the fast path.

use super::super::lane::Lane;
use super::super::recover::Incident;
use super::super::slot::{NONE, Slots};
use super::super::timers::{Timers, later};
use super::super::{Request, SlotId};
use super::{Engine, IDLE_NS};
use crate::host::{Direction, Host, QueueEvents, TaskFlags};
use crate::sched::tasks::Why;
use crate::sched::{Lanes, Profile};

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether tasks go to the command queue engine: it is on, and the card's queue is on.
    #[inline(always)]
    pub(in crate::engine) fn rings_tasks(&self) -> bool {
        let on = self.hosted().is_some_and(|hosted| hosted.rings_tasks());
        on && self.tasks().is_some_and(|tasks| tasks.is_queue_on())
    }

    /// Returns whether a task may be sent now by its doorbell. Conditions: the command queue engine
    /// accepts tasks, the card's queue is not about to be switched off, no write must be repeated,
    /// and no timer of the stack's engine is due.
    #[inline(always)]
    pub fn may_ring(&self, incident: &Incident, timers: &Timers, now_ns: u64) -> bool {
        let dull = self.tasks().is_some_and(|tasks| tasks.is_dull());
        let due = timers.turn_is_due(now_ns) || timers.chore_is_due(now_ns);
        self.rings_tasks() && !dull && !due && !incident.is_in_doubt()
    }

    /// Returns whether a read or write of these blocks must wait, because they overlap the blocks
    /// of a task that the command queue engine has, or of a write whose status is not known.
    #[inline(always)]
    pub fn meets_rung<const N: usize>(
        &self,
        slots: &Slots<N>,
        direction: Direction,
        start: u64,
        end: u64,
    ) -> bool {
        self.tasks().is_some_and(|tasks| tasks.meets_rung(direction, start, end))
            || slots.is_settling() && self.meets_task(slots, direction, start, end)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Accepts a request, and sends it to the command queue engine if that has space. Called while
    /// nothing prevents that. Returns the request's slot; `None`: the request was not accepted and
    /// must be submitted the general way.
    #[inline(always)]
    pub(in super::super) fn submit_driven(&mut self, request: &mut Request, now_ns: u64) -> Option<SlotId> {
        let (direction, lba, blocks) = request.kind.span()?;
        let end = lba.checked_add(u64::from(blocks))?;
        if request.durable | request.urgent
            || !self.card.is_meant(request.card)
            || !self.lane.fast_limits().fits(direction, blocks, end)
            || !self.blockers.has_room(&self.slots)
            || !self.lane.may_ring(&self.incident, &self.timers, now_ns)
        {
            return None;
        }
        let head = self.slots.head();
        let room = self.lane.tasks()?.next_rung(now_ns);
        if room.is_some() && (head != NONE || self.lane.meets_rung(&self.slots, direction, lba, end)) {
            return None;
        }
        let (id, _) = self.slots.take_in_mapped(
            self.bus.host_mut(),
            &mut self.record,
            (direction, lba, blocks),
            request,
            now_ns,
        )?;
        match room {
            None => self.slots.push_span(id.index, direction, lba, end),
            Some(task) => {
                self.slots.activate_span(id.index, direction, lba, end);
                if !self.ring_driven(task, id.index, direction, lba, blocks, now_ns) {
                    self.lane.note_free();
                }
            }
        }
        Some(id)
    }

    /// Describes task `id` of one request (that of slot `index`) and rings its doorbell; the
    /// request is not queued any more. Returns false if the command queue engine cannot use the
    /// memory, or does not react to the doorbell: then the general path continues.
    #[inline(always)]
    fn ring_driven(
        &mut self,
        id: u8,
        index: u8,
        direction: Direction,
        lba: u64,
        blocks: u32,
        now_ns: u64,
    ) -> bool {
        let address = self.card.plan().address(lba);
        let task = crate::host::Task {
            direction,
            address,
            blocks: blocks as u16,
            flags: TaskFlags::NONE,
            context: 0,
        };
        let segment = core::slice::from_ref(self.slots.at(index).segment());
        let Some(queue) = self.bus.host_mut().queue() else { return false };
        if queue.prepare_task(id, &task, segment).is_err() {
            // The command queue engine cannot use this memory: the request goes without the queue.
            self.slots.at_mut(index).forbid_merge(true);
            self.order.push_again(&mut self.slots, index, now_ns);
            return false;
        }
        let taken = queue.ring(1 << (id & 31));
        let Some(tasks) = self.lane.tasks_mut() else { return false };
        let first = tasks.on_card() == 0;
        tasks.ring_one(id, direction, (lba, lba.wrapping_add(u64::from(blocks))), index, now_ns);
        let too_old_ns = tasks.too_old_ns();
        self.lane.limit_rung(&self.card, &self.bus, first, blocks, now_ns);
        if first {
            let limit_ns = self.lane.hosted().map_or(0, |hosted| hosted.limit_ns());
            self.timers.wake_by(limit_ns.min(too_old_ns));
        }
        self.record.transfer_started();
        if taken == 0 {
            self.stop_engine(Why::Silent, now_ns);
        }
        taken != 0
    }

    /// Handles the interrupt of the command queue engine in the usual state: it is on, and is
    /// neither halting nor being stopped. Returns false if the command queue engine had no event.
    #[inline(always)]
    pub(in super::super) fn acknowledge_driven(&mut self, now_ns: u64) -> bool {
        let Some(queue) = self.bus.host_mut().queue() else { return false };
        let done = queue.ack_ends();
        if done != 0 && self.end_driven(done, now_ns) {
            return true;
        }
        self.tell_more(done, now_ns)
    }

    /// Handles events of the command queue engine that [`end_driven`](Self::end_driven) has not
    /// handled: ends of tasks, or events of another kind. `done`: the tasks that have ended, bit n
    /// for task n. Returns false if there was no event.
    #[cold]
    #[inline(never)]
    fn tell_more(&mut self, done: u32, now_ns: u64) -> bool {
        let events = match self.bus.host_mut().queue() {
            Some(queue) if done == 0 => queue.ack_queue(),
            _ => QueueEvents { done, ..QueueEvents::default() },
        };
        self.engine_tells(&events, now_ns)
    }

    /// Ends the tasks of `done` (bit n for task n) with few checks. Returns false and does nothing
    /// if the general path has to handle them: one of the tasks is not on the card, an interrupt
    /// was perhaps lost, or a write is to be written again.
    #[inline(always)]
    fn end_driven(&mut self, done: u32, now_ns: u64) -> bool {
        let known = self.lane.tasks().is_some_and(|tasks| done & !tasks.on_card() == 0);
        let looked = self.lane.hosted().is_some_and(|hosted| hosted.has_looked());
        if !known || looked || self.incident.is_in_doubt() {
            return false;
        }
        if self.slots.is_settling() {
            self.settle(0);
        }
        let mut left = done;
        while left != 0 {
            let id = left.trailing_zeros() as u8;
            left &= left - 1;
            let Some(tasks) = self.lane.tasks_mut() else { return true };
            let (direction, blocks) = (tasks.task(id).direction, tasks.task(id).blocks());
            let one = tasks.one_member(id).filter(|&index| self.slots.at(index).is_whole(blocks));
            let Some(index) = one else {
                self.end_task(id, now_ns);
                continue;
            };
            tasks.complete(id, now_ns);
            self.slots.at_mut(index).moved_all(blocks);
            if direction == Direction::Write {
                self.durability.note_change(true);
                self.slots.await_status(index);
            } else {
                self.slots.end(index);
            }
        }
        if let Some(hosted) = self.lane.hosted_mut() {
            hosted.note_task_end(now_ns);
        }
        // The next task is rung before any request is completed.
        self.go_on_driven(now_ns);
        true
    }

    /// Sends the next requests to the command queue engine, as long as there is space.
    #[inline(always)]
    fn go_on_driven(&mut self, now_ns: u64) {
        loop {
            let head = self.slots.head();
            let Some(tasks) = self.lane.tasks() else { return };
            if head == NONE {
                if tasks.on_card() != 0 {
                    return;
                }
                if self.slots.is_settling() {
                    break;
                }
                return self.timers.wake_by(later(now_ns, IDLE_NS));
            }
            let Some(id) = tasks.next_rung(now_ns) else { return };
            let slot = self.slots.at(head);
            let Some((direction, lba, blocks)) = slot.kind().span() else { break };
            let end = lba.wrapping_add(u64::from(blocks));
            if !self.slots.is_lone(head)
                || !self.lane.may_ring(&self.incident, &self.timers, now_ns)
                || self.lane.meets_rung(&self.slots, direction, lba, end)
            {
                break;
            }
            self.slots.pop(head, direction, lba, end);
            if !self.ring_driven(id, head, direction, lba, blocks, now_ns) {
                break;
            }
        }
        self.lane.note_free();
    }
}
