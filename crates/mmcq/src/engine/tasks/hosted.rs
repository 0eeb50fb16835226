//! The card's queue, driven by the controller's command queue engine (`CommandQueueHost`). In this
//! file "queue engine" always means the controller's.
//!
//! Order, batches and the rules for sending a task are those of a queue that software drives
//! ([`tasks`](super)). But a task is *rung* (its doorbell bit is written) instead of announced, and
//! the next event is its end. While the queue engine is on, it owns the lines, the interrupts and
//! the memory of the tasks that were rung. So nothing else starts before the queue is empty and the
//! queue engine is switched off, and no memory comes back before the queue engine stops using it.
//!
//! A task that ends well was executed after all tasks that had ended before it: the data lines
//! serve one task at a time, and the queue engine checks each R1. So the end of one task completes
//! the writes before it.
//!
//! If something fails, the queue engine is halted, and its registers are read once more: tasks that
//! are done count as done. The other tasks are cleared. One request is blamed and goes to the
//! recovery ladder; the others wait again. Then the card discards its tasks and its queue is
//! switched off, as after any failure of the queue.
//!
//! *Guarantees:*
//!
//! - If no task ends in the longest time of a task, the queue engine is halted.
//! - The halt may take half a second, and the clearing after it a tenth of a second. Then a reset
//!   takes the memory from the queue engine.
//! - A task that has waited for 20 ms is searched in the registers, and no task is rung that could
//!   keep it waiting.

use super::super::batch::Batch;
use super::super::blockers::TASKS;
use super::super::bus::{Bus, SLACK_NS};
use super::super::card::Card;
use super::super::lane::Lane;
use super::super::phases::Stage;
use super::super::slot::{NONE, Rules, Slots};
use super::super::timers::{Timers, later};
use super::{Chosen, Engine, FlushBy, IDLE_NS, Kind, Turn};
use crate::host::{Cause, Direction, Host, QueueError, QueueSettings, TaskFlags};
use crate::sched::tasks::{At, Why};
use crate::sched::{Demotion, Lanes, Profile};

/// Time, in nanoseconds, between two polls by which the queue engine asks the card for ready tasks,
/// while none is ready. A poll takes half a microsecond, and causes no interrupt.
const POLL_NS: u64 = 5_000;

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the controller's queue engine drives the card's queue.
    #[inline(always)]
    pub(in crate::engine) fn is_driven(&self) -> bool {
        self.hosted().is_some_and(|hosted| hosted.drives() || hosted.at() != At::Off)
    }

    /// Returns whether the queue engine owns the bus lines and the controller's interrupts.
    #[inline(always)]
    pub(in crate::engine) fn engine_has_lines(&self) -> bool {
        self.hosted().is_some_and(|hosted| hosted.has_lines())
    }

    /// Returns whether the queue engine has memory of requests, so that this memory must not be
    /// unmapped or returned.
    #[inline(always)]
    pub(in crate::engine) fn engine_has_memory(&self) -> bool {
        self.hosted().is_some_and(|hosted| hosted.at() != At::Off) && self.has_tasks()
    }

    #[inline]
    pub(in crate::engine) fn is_late(&self, now_ns: u64) -> bool {
        let (Some(tasks), Some(hosted)) = (self.tasks(), self.hosted()) else { return false };
        now_ns >= hosted.limit_ns() || !hosted.has_looked() && now_ns >= tasks.too_old_ns()
    }

    /// Stops using the controller's queue engine because of this error. From now on the software
    /// drives the card's queue.
    #[cold]
    pub fn refuse_engine(&mut self, why: QueueError) {
        message!(warn, "the controller's queue engine is given up: {}", why);
        self.leave_engine(Demotion::Engine(why));
    }

    /// Sets the limits of tasks that follow from the controller's queue engine. Gives up the queue
    /// engine if it is of no use. Does nothing if there is none.
    pub fn equip<H: Host>(&mut self, bus: &mut Bus<H>) {
        let (Some(hosted), Some(queue)) = (self.hosted_mut(), bus.host_mut().queue()) else {
            return;
        };
        let found = match queue.queue_caps() {
            Ok(caps) if caps.depth < 2 || caps.max_bytes < super::BLOCK_BYTES => {
                Err(QueueError::Small { slots: caps.depth, bytes: caps.max_bytes })
            }
            Ok(caps) => {
                hosted.equip(caps.max_bytes / super::BLOCK_BYTES, caps.max_segments);
                Ok(caps.depth)
            }
            Err(why) => Err(why),
        };
        match found {
            Ok(slots) => self.tasks_mut().map_or((), |tasks| tasks.limit_depth(slots)),
            Err(why) => self.refuse_engine(why),
        }
    }

    /// Sets the time by which a task of this many blocks, whose doorbell is rung now, must have
    /// ended. `first`: the queue engine has no other task.
    #[inline(always)]
    pub fn limit_rung<H>(&mut self, card: &Card, bus: &Bus<H>, first: bool, blocks: u32, now_ns: u64) {
        let (card, wire, hosted) = (card, bus.wire(), self.hosted_mut());
        // The controller's own timer, one for reads and writes, should report the task before this
        // time.
        let longest_ns = |blocks| later(card.plan().longest_times_ns(blocks, wire.data_ns(blocks)), SLACK_NS);
        if let Some(hosted) = hosted {
            hosted.note_rung(first, blocks, now_ns, longest_ns);
        }
    }

    /// Switches the queue engine on. Returns false if that fails; then software goes on driving the
    /// card's queue.
    #[inline]
    pub fn switch_engine_on<H: Host>(&mut self, card: &Card, bus: &mut Bus<H>) -> bool {
        self.hosted().is_some_and(|hosted| hosted.at() == At::On) || self.enable_engine(card, bus)
    }

    #[inline(never)]
    pub fn enable_engine<H: Host>(&mut self, card: &Card, bus: &mut Bus<H>) -> bool {
        let rca = card.target().map_or(0, |target| target.rca);
        let settings = QueueSettings {
            timeout_ns: card.plan().longest_ns(),
            poll_ns: POLL_NS,
            ..QueueSettings::new(rca)
        };
        let enabled = match bus.host_mut().queue() {
            Some(queue) => queue.enable_queue(&settings),
            None => return false,
        };
        match (enabled, self.hosted_mut()) {
            (Ok(()), Some(hosted)) => hosted.set_state(At::On),
            (Ok(()), None) => return false,
            (Err(why), _) => self.refuse_engine(why),
        }
        enabled.is_ok()
    }

    /// Switches the queue engine off if it has no task, so that the lines are free.
    #[inline(always)]
    pub fn park<H: Host>(&mut self, bus: &mut Bus<H>) {
        if self.engine_has_lines() && !self.has_tasks() {
            self.disable_engine(bus);
        }
    }

    #[inline(never)]
    pub fn disable_engine<H: Host>(&mut self, bus: &mut Bus<H>) {
        let off = bus.host_mut().queue().is_none_or(|queue| queue.disable_queue().is_ok());
        if let Some(hosted) = self.hosted_mut().filter(|_| off) {
            hosted.set_state(At::Off);
        }
    }

    /// Switches the controller's command queue engine off if it has no task. Returns true if the
    /// driver can then use the bus lines for a command of its own.
    #[inline(always)]
    pub fn free_lines<H: Host>(&mut self, bus: &mut Bus<H>) -> bool {
        self.park(bus);
        !self.engine_has_lines()
    }

    /// Sets the engine's deadline to the time by which the queue engine should have reported the
    /// end of a task.
    pub fn wake_for_tasks(&mut self, timers: &mut Timers) {
        let (Some(tasks), Some(hosted)) = (self.tasks(), self.hosted()) else { return };
        let looks_ns = if hosted.has_looked() { u64::MAX } else { tasks.too_old_ns() };
        timers.wake_by(hosted.limit_ns().min(looks_ns));
    }

    /// Handles reported ends of tasks that the command queue engine did not have: no doorbell was
    /// rung for them, or none since their last end. `stale`: bit n for task n.
    pub fn hear_stale(&mut self, stale: u32) {
        message!(warn, "the controller's queue engine: ends of tasks that it did not have, {:#010x}", stale);
        if let Some(tasks) = self.tasks_mut() {
            tasks.count_stale(stale);
        }
        if self.hosted_mut().is_some_and(|hosted| hosted.count_stale()) {
            let why = Demotion::Stale(stale);
            message!(warn, "the controller's queue engine is given up: {}", why);
            self.leave_engine(why);
        }
    }

    /// Returns whether the request of slot `index` is in a task that the queue engine has.
    #[inline(always)]
    pub fn engine_has(&self, index: u8) -> bool {
        self.engine_has_memory() && self.tasks().is_some_and(|tasks| tasks.has(index))
    }
}

impl<const N: usize> Batch<N> {
    /// Returns whether the batch's first request is a durable write, and the card has a cache. Its
    /// task must then be a reliable write.
    pub fn is_reliable(&self, slots: &Slots<N>, card: &Card) -> bool {
        let rules = slots.at(self.first()).rules();
        let cached = card.target().is_some_and(|target| target.flush != FlushBy::Status);
        cached && rules.has(Rules::DURABLE)
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Lets the command queue engine of the controller do its next step, and returns what the
    /// engine's loop does next. Called while no command of the driver is in progress.
    #[inline(never)]
    pub(super) fn go_on_with_engine(&mut self, now_ns: u64) -> Turn {
        let at = self.lane.hosted().map_or(At::Off, |hosted| hosted.at());
        match at {
            // The software has announced these tasks, before the queue engine was set up again.
            At::Off if self.lane.has_tasks() => return self.go_on_with_tasks(now_ns),
            At::On | At::Off => {}
            At::Halting | At::Clearing => return self.await_engine(now_ns),
            At::Reset => return Turn::Wait,
        }
        if self.lane.engine_has_memory() {
            if self.card.target().is_none() {
                self.take_tasks_away(Why::Removed, now_ns);
                return Turn::Again;
            }
            if self.lane.is_late(now_ns) && self.look_for_tasks(now_ns) {
                return Turn::Again;
            }
        }
        let drives = self.lane.hosted().is_some_and(|hosted| hosted.drives());
        if !drives && !self.lane.has_tasks() {
            self.lane.park(&mut self.bus);
            return Turn::Again;
        }
        let dull = self.lane.tasks().is_some_and(|tasks| tasks.is_dull());
        let stays = !dull && self.has_only_tasks(now_ns);
        if stays && drives {
            match self.ring_all(now_ns) {
                Turn::Pass => {}
                turn => return turn,
            }
        }
        if self.lane.has_tasks() {
            self.lane.wake_for_tasks(&mut self.timers);
            return Turn::Wait;
        }
        if self.durability.owes_status(&self.slots)
            && (self.durability.asks_soon::<N, P>(&self.slots, &self.config) || !self.postpone_status(now_ns))
        {
            self.lane.park(&mut self.bus);
            self.ask_status(Stage::Status, now_ns);
            return Turn::Again;
        }
        let head = self.slots.head();
        if stays && head != NONE {
            // The policy lets the head of the queue wait.
            return if self.policy_leaves(now_ns) { self.leave_queue(now_ns) } else { Turn::Wait };
        }
        if self.is_plain_flush(head, now_ns) {
            // A flush needs an empty queue of the card and free lines, and no more.
            self.lane.park(&mut self.bus);
            return Turn::Pass;
        }
        if stays {
            let rests_ns = later(self.lane.hosted().map_or(0, |hosted| hosted.heard_ns()), IDLE_NS);
            if now_ns < rests_ns {
                self.timers.wake_by(rests_ns);
                return Turn::Wait;
            }
        }
        self.leave_queue(now_ns)
    }

    /// Returns whether the head of the queue is a flush of the card's cache, and no other work has
    /// to be done before it.
    fn is_plain_flush(&self, head: u8, now_ns: u64) -> bool {
        let by_cmd6 =
            self.card.target().is_some_and(|target| !matches!(target.flush, FlushBy::SdCache { .. }));
        let flush = head != NONE && matches!(self.slots.at(head).kind(), Kind::Flush);
        by_cmd6
            && flush
            && !self.is_lane_stopped::<TASKS>(now_ns)
            && !self.durability.owes_status(&self.slots)
    }

    /// Gives the tasks that may be sent now to the command queue engine, by one write of its
    /// doorbell register. Returns the next step of the engine's loop.
    #[inline]
    fn ring_all(&mut self, now_ns: u64) -> Turn {
        let mut rung = 0u32;
        let turn = loop {
            match self.describe_next(now_ns) {
                Ok(Some(id)) => rung |= 1 << (id & 31),
                Ok(None) => break Turn::Pass,
                Err(turn) => break turn,
            }
        };
        self.batch.forget();
        if rung != 0 {
            let taken = self.bus.host_mut().queue().map_or(0, |queue| queue.ring(rung));
            if let Some(tasks) = self.lane.tasks_mut() {
                tasks.count_rung(rung);
            }
            if taken != rung {
                self.stop_engine(Why::Silent, now_ns);
                return Turn::Again;
            }
        }
        // A request that was turned down, or has to go alone, changes what is next. A request
        // without a free mapping waits for `poll`.
        turn
    }

    /// Describes the next task to the queue engine in memory, with the requests that are merged to
    /// it. Returns the number of the task, whose doorbell must then be written; `None`: no task may
    /// be started now.
    #[inline]
    fn describe_next(&mut self, now_ns: u64) -> Result<Option<u8>, Turn> {
        let Some((blocks, segments)) = self.lane.hosted().map(|hosted| hosted.limits()) else {
            return Ok(None);
        };
        match self.choose_task(blocks, segments, now_ns) {
            Chosen::Nothing => return Ok(None),
            Chosen::Turn(turn) => return Err(turn),
            Chosen::Task => {}
        }
        if !self.lane.switch_engine_on(&self.card, &mut self.bus) {
            self.batch.forget();
            return Err(Turn::Again);
        }
        let (direction, start, end) = (self.batch.direction(), self.batch.lba(), self.batch.end());
        let blocks = self.batch.blocks();
        self.batch.gather(&self.slots);
        let reliable = self.batch.is_reliable(&self.slots, &self.card);
        let address = self.card.plan().address(start);
        let flags = if reliable { TaskFlags::RELIABLE } else { TaskFlags::NONE };
        let task = crate::host::Task { direction, address, blocks: blocks as u16, flags, context: 0 };
        let Some(tasks) = self.lane.tasks_mut() else { return Ok(None) };
        let first = tasks.is_empty();
        let id = tasks.describe(direction, start, end, self.batch.members(), now_ns);
        if reliable {
            tasks.mark_reliable(id);
        }
        let described = match self.bus.host_mut().queue() {
            Some(queue) => queue.prepare_task(id, &task, self.batch.segments(true)),
            None => return Ok(None),
        };
        if described.is_err() {
            // The queue engine cannot use this memory: the request is sent without the queue.
            tasks.forget_described();
            self.slots.at_mut(self.batch.first()).forbid_merge(true);
            return Err(Turn::Again);
        }
        self.order.send_chosen(&mut self.slots, &self.batch, &mut self.record, now_ns);
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.announced(now_ns);
        }
        self.lane.limit_rung(&self.card, &self.bus, first, blocks, now_ns);
        self.record.transfer_started();
        Ok(Some(id))
    }

    /// Reads the controller's registers for the end of a task that should have ended. Returns true
    /// if an end was found and handled, or the command queue engine is being stopped.
    #[cold]
    #[inline(never)]
    fn look_for_tasks(&mut self, now_ns: u64) -> bool {
        if self.take_events(now_ns) {
            // Perhaps the interrupt was lost; perhaps it is about to come.
            self.record.interrupt_lost();
            if let Some(tasks) = self.lane.tasks_mut() {
                tasks.count_lost();
            }
            return true;
        }
        let oldest = self.lane.tasks().and_then(|tasks| tasks.oldest());
        let Some(hosted) = self.lane.hosted_mut() else { return false };
        hosted.note_look();
        let late = now_ns >= hosted.limit_ns();
        let state = self.bus.host_mut().queue().map(|queue| queue.queue_state()).unwrap_or_default();
        let there = oldest.is_none_or(|id| (state.rung | state.done) >> (id & 31) & 1 == 1);
        if late || !there {
            message!(
                warn,
                "the controller's queue engine: no end of task {}; rung {:#010x}, known to the card {:#010x}, \
                 ready {:#010x}",
                oldest.unwrap_or(u8::MAX),
                state.rung,
                state.known,
                state.ready
            );
            self.stop_engine(Why::Silent, now_ns);
            return true;
        }
        false
    }

    /// Handles the interrupt of the controller's command queue engine (CQE), while the CQE controls
    /// CMD and DAT. Returns false if there was no event.
    #[inline(never)]
    pub(in super::super) fn engine_interrupts(&mut self, now_ns: u64) -> bool {
        let Some(queue) = self.bus.host_mut().queue() else { return false };
        let events = match queue.ack_ends() {
            0 => queue.ack_queue(),
            done => crate::host::QueueEvents { done, ..Default::default() },
        };
        self.engine_tells(&events, now_ns)
    }

    /// Gives the events of the command queue engine to the engine, which then decides the queue's
    /// next step. Returns false if there was no event.
    #[inline(never)]
    pub(super) fn engine_tells(&mut self, events: &crate::host::QueueEvents, now_ns: u64) -> bool {
        let moved = self.hear(events, now_ns);
        if self.lane.is_idle() {
            self.lane.note_free();
        }
        moved
    }

    /// Handles all events of the queue engine. Returns false if there was no event.
    pub(super) fn take_events(&mut self, now_ns: u64) -> bool {
        let Some(queue) = self.bus.host_mut().queue() else { return false };
        let events = queue.ack_queue();
        self.hear(&events, now_ns)
    }

    /// Handles these events of the queue engine. Returns false if there was no event among them.
    fn hear(&mut self, events: &crate::host::QueueEvents, now_ns: u64) -> bool {
        let clean = events.fault.is_none() && self.lane.hosted().is_some_and(|hosted| hosted.at() == At::On);
        if events.done != 0 {
            self.complete_tasks(events.done, clean, now_ns);
        }
        let rare = events.stale | events.cleared != 0 || events.halted || events.emptied;
        let other = events.card_irq || events.presence || events.retune;
        if rare || other || events.fault.is_some() {
            return self.take_rare(events, now_ns);
        }
        events.done != 0
    }

    #[cold]
    #[inline(never)]
    fn take_rare(&mut self, events: &crate::host::QueueEvents, now_ns: u64) -> bool {
        if events.stale != 0 {
            self.lane.hear_stale(events.stale);
        }
        if events.card_irq {
            self.card.functions_mut().ask();
            self.blockers.close_fast();
        }
        if events.retune {
            self.retune_wanted(now_ns);
        }
        if events.presence {
            self.note_presence(now_ns);
        }
        let Some(hosted) = self.lane.hosted_mut() else { return true };
        match (events.fault, hosted.at()) {
            (Some(fault), At::On | At::Halting | At::Clearing) if fault.cause == Cause::Gone => {
                // A controller that is gone reaches no memory.
                hosted.begin_halt(Why::Fault(fault), now_ns);
                hosted.set_state(At::Off);
                self.blame(now_ns);
                return true;
            }
            (Some(fault), At::On) => self.stop_engine(Why::Fault(fault), now_ns),
            (Some(fault), At::Halting) => hosted.explain(fault),
            _ => {}
        }
        let at = self.lane.hosted().map_or(At::Off, |hosted| hosted.at());
        if events.halted && at == At::Halting {
            self.clear_engine(now_ns);
        }
        if events.emptied && at == At::Clearing {
            if let Some(hosted) = self.lane.hosted_mut() {
                hosted.set_state(At::Off);
            }
            self.blame(now_ns);
        }
        true
    }

    /// Completes the tasks of the mask `done`, which have ended well. `clean`: no fault came with
    /// these ends, so earlier writes whose status was open are good too.
    #[inline]
    fn complete_tasks(&mut self, done: u32, clean: bool, now_ns: u64) {
        let known = self.lane.tasks().map_or(0, |tasks| done & tasks.on_card());
        if clean && known != 0 && self.durability.owes_status(&self.slots) {
            self.settle(0);
        }
        let mut left = known;
        while left != 0 {
            let id = left.trailing_zeros() as u8;
            left &= left - 1;
            self.end_task(id, now_ns);
        }
        self.batch.forget();
        if let Some(hosted) = self.lane.hosted_mut() {
            hosted.note_task_end(now_ns);
        }
    }

    /// Completes one task that has ended well.
    #[inline(never)]
    pub(super) fn end_task(&mut self, id: u8, now_ns: u64) {
        self.batch.gather_task(&self.slots, self.lane.tasks(), id);
        let Some(tasks) = self.lane.tasks_mut() else { return };
        let writes = tasks.task(id).direction == Direction::Write && !tasks.task(id).reliable;
        tasks.complete(id, now_ns);
        self.durability.note_change(writes);
        self.release_members(true, now_ns);
    }
}
