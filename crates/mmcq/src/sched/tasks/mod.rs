//! State of a card's queue: which tasks are announced, which are ready, when the card is polled,
//! and whether the queue is used [eMMC 6.6.39] [SD 4.19].
//!
//! A *task* is one transfer: a request, or several that were merged. It is announced, becomes
//! ready, is executed, and ends. Nothing here sends a command; `engine/tasks/` does.

mod ages;
mod hosted;
mod lanes;
mod modes;
mod pace;
mod rung;
mod stats;
mod task;

use crate::host::Direction;
use crate::sched::failures::Failures;
use crate::sched::slot_set::{SLOTS_MAX, SlotSet};
use ages::Ages;
pub(crate) use hosted::{At, Hosted, Why};
pub use lanes::{HostQueue, Lanes, Single, SoftwareQueue};
pub(super) use lanes::{Sealed, lanes_below};
pub use modes::SdTaskQueue;
pub(crate) use modes::{After, Dialect, Mode, Step};
use pace::Pace;
pub use stats::{Demotion, TaskStats};
use task::NO_TASK;
pub(crate) use task::Task;

/// Most tasks of the queue of any card.
const DEPTH_MAX: u8 = 32;
/// Smallest queue that is used: a queue of fewer tasks costs more commands than it saves time.
const DEPTH_MIN: u8 = 2;
/// Most tasks that are announced at a time. That is enough for a card that works on four tasks at
/// the same time. The scheduler still orders the requests that wait in the engine.
const ANNOUNCED_MAX: u8 = 16;
/// Time in nanoseconds: if a task has waited on the card for this time, no further task is
/// announced before it is executed.
const AGE_NS: u64 = 20_000_000;
/// Number of writes in a row, without a read among them, after which the queue is switched off,
/// because it makes only reads faster.
const DULL_MAX: u8 = 16;
/// Count at which the queue is switched on. Each decision in which the queue would have paid adds 2
/// to the count; each other decision subtracts 1. So the queue is also switched on for a client
/// that in every other decision has only one request waiting.
const WANTED_MIN: u8 = 3;
/// Value of a task number or slot number that means "none".
const NONE: u8 = u8::MAX;
/// Most tries to switch off a queue whose state is not known.
const CLEANINGS_MAX: u8 = 3;

/// State of a card's queue: its tasks, its mode, and its counters.
#[derive(Debug)]
pub struct Tasks {
    /// Most tasks on the card; 0: the card has no queue, or none was enabled.
    depth: u8,
    dialect: Dialect,
    mode: Mode,
    step: Option<Step>,
    /// Number of the task whose CMD44 is being prepared or sent, while its CMD45 was not sent yet;
    /// [`NONE`]: there is no such task.
    described: u8,
    /// Whether CMD44 of the described task was sent.
    has_params: bool,
    /// Whether the card was already asked for its ready tasks (CMD13) during the data in progress.
    asked_beside: bool,
    /// Number of the task that is executed, or [`NONE`].
    running: u8,
    /// The tasks that the card knows, bit n for task n.
    announced: u32,
    /// The announced tasks that are ready, bit n for task n.
    ready: u32,
    /// The tasks that write, bit n for task n. The bit of a number that no task has means nothing.
    writes: u32,
    ages: Ages,
    tasks: [Task; DEPTH_MAX as usize],
    /// Links the requests of each task in their order: for the slot of a request, the slot of the
    /// next request in the same task, or [`NONE`].
    behind: [u8; SLOTS_MAX],
    /// Number of tries so far to switch off a queue whose state is not known.
    cleanings: u8,
    /// Whether the card's queue executes all requests that it can, and not only several reads.
    always: bool,
    /// Number of writes that were executed since the last executed read.
    dull: u8,
    /// How much the queue is wanted: 2 is added each time it would have paid, 1 subtracted each
    /// time it would not. At [`WANTED_MIN`] the queue is switched on.
    wanted: u8,
    failures: Failures,
    pace: Pace,
    stats: TaskStats,
}

impl Tasks {
    const NEW: Tasks = Tasks {
        depth: 0,
        dialect: Dialect::Emmc,
        mode: Mode::Off,
        step: None,
        described: NONE,
        has_params: false,
        asked_beside: false,
        running: NONE,
        announced: 0,
        ready: 0,
        writes: 0,
        ages: Ages::NEW,
        tasks: [NO_TASK; DEPTH_MAX as usize],
        behind: [NONE; SLOTS_MAX],
        cleanings: 0,
        always: false,
        dull: 0,
        wanted: 0,
        failures: Failures::NONE,
        pace: Pace::NEW,
        stats: TaskStats::ZERO,
    };

    /// Sets how many tasks the card's queue has, and allows its use again. Returns false (the queue
    /// is not used) if it has fewer than [`DEPTH_MIN`].
    pub(crate) fn configure(&mut self, depth: u8) -> bool {
        self.depth = if depth >= DEPTH_MIN { depth.min(DEPTH_MAX) } else { 0 };
        self.dialect = Dialect::Emmc;
        (self.stats.demoted, self.stats.engine) = (None, None);
        self.failures = Failures::NONE;
        self.depth != 0
    }

    /// Limits the number of tasks to the slots of the controller's command queue engine.
    pub(crate) fn limit_depth(&mut self, slots: u8) {
        self.depth = self.depth.min(slots);
    }

    /// Prevents that further tasks are sent to a card that was removed.
    pub(crate) fn remove_queue(&mut self) {
        self.depth = 0;
    }

    /// Sets how many tasks the queue of an SD card has, and by which commands the card is asked to
    /// execute them. Allows the use of the queue again. Returns false if it has too few tasks.
    pub(crate) fn configure_sd(&mut self, queue: SdTaskQueue) -> bool {
        let has = self.configure(queue.depth);
        self.dialect = Dialect::Sd(queue);
        has
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Forgets the queue and its tasks: there is no card any more, or it will be brought up again,
    /// or recovery has given it up.
    pub(crate) fn forget(&mut self) {
        self.reset();
        self.depth = 0;
    }

    /// Returns whether the card's command queue may be used.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        self.depth != 0 && self.stats.demoted.is_none()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Forgets all tasks, and notes that the queue is off.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        (self.mode, self.described, self.running) = (Mode::Off, NONE, NONE);
        (self.announced, self.ready, self.cleanings) = (0, 0, 0);
        self.ages.forget();
        (self.dull, self.wanted) = (0, 0);
    }

    /// Notes that the queue is on, and empty.
    pub(crate) fn enter_on(&mut self) {
        self.reset();
        self.mode = Mode::On;
        self.stats.entered = self.stats.entered.wrapping_add(1);
    }

    /// Marks the queue's state as unknown, until the card has reported that it is off.
    pub(crate) fn mark_lost(&mut self) {
        self.mode = Mode::Lost;
    }

    /// Returns whether the queue, which is off, should be switched on while this many reads and
    /// writes wait. It should if it would pay now, and would have paid often enough before.
    ///
    /// The queue pays for several reads at a time: the card loads one while it sends another.
    /// Writes gain nothing by the queue.
    pub(crate) fn would_pay(&mut self, reads: u32, writes: u32) -> bool {
        if self.always {
            return reads + writes > 0;
        }
        let pays = reads >= 2 && reads >= writes;
        self.wanted = if pays { self.wanted.saturating_add(2) } else { self.wanted.saturating_sub(1) };
        self.wanted >= WANTED_MIN
    }

    #[inline(always)]
    pub(crate) fn is_queue_on(&self) -> bool {
        self.mode == Mode::On
    }

    /// Returns whether only writes were executed for a while. The queue makes only reads faster, so
    /// it should then be switched off.
    #[inline(always)]
    pub(crate) fn is_dull(&self) -> bool {
        self.dull >= DULL_MAX && !self.always
    }

    /// Sets whether the card's queue executes all requests that it can, and not only several reads.
    pub(crate) fn set_always(&mut self, always: bool) {
        self.always = always;
    }

    pub(crate) fn stats(&self) -> &TaskStats {
        &self.stats
    }

    /// Notes which command for the card's queue (such as CMD44 or CMD13) is sent now.
    pub(crate) fn set_step(&mut self, step: Step) {
        self.step = Some(step);
    }

    #[inline(always)]
    pub(crate) fn step(&self) -> Option<Step> {
        self.step
    }

    /// Returns and clears the command for the card's queue that has just ended. The flag is true if
    /// the engine took all tasks back while the command ran: then its result must be ignored.
    pub(crate) fn take_step(&mut self) -> Option<(Step, bool)> {
        let step = self.step.take()?;
        let needed =
            if matches!(step, Step::Params | Step::Address | Step::Ask) { Mode::On } else { Mode::Lost };
        Some((step, self.mode != needed))
    }

    /// Returns the number of tasks on the card, including the one that is being announced.
    pub(crate) fn count(&self) -> u32 {
        self.announced.count_ones() + u32::from(self.described != NONE)
    }

    /// Returns whether the card's queue is empty: no task is being announced, waits or is executed.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.announced == 0 && self.described == NONE && self.running == NONE
    }

    /// Returns whether the card may get one more task now (CMD44 and CMD45).
    #[inline]
    pub(crate) fn has_room(&self, now_ns: u64) -> bool {
        let most = self.depth.min(ANNOUNCED_MAX);
        let full = match self.dialect {
            // If the lowest free number is `most` or above, `most` tasks are in use.
            Dialect::Emmc => self.next_id() >= most,
            Dialect::Sd(_) => self.used().count_ones() >= u32::from(most) || self.next_id() >= self.depth,
        };
        !full && self.described == NONE && now_ns < self.too_old_ns()
    }

    /// Returns all task numbers in use, bit n for task n: the tasks that the card knows, the one
    /// that is just being sent to it (CMD44 and CMD45), and the one that is being executed.
    #[inline(always)]
    fn used(&self) -> u32 {
        let one = |id: u8| if id == NONE { 0 } else { 1 << id };
        self.announced | one(self.described) | one(self.running)
    }

    /// Returns the number of the next task: the lowest that is free. In sequential mode the number
    /// is above all others, since a card may execute tasks in the order of their numbers.
    #[inline(always)]
    fn next_id(&self) -> u8 {
        let id = match self.dialect {
            Dialect::Sd(SdTaskQueue { sequential: true, .. }) => 32 - self.used().leading_zeros(),
            _ => (!self.used()).trailing_zeros(),
        };
        id as u8
    }

    /// Returns whether the card's queue takes one more task of this direction (SD limits writes).
    pub(crate) fn takes(&self, direction: Direction) -> bool {
        match (self.dialect, direction) {
            (Dialect::Sd(queue), Direction::Write) => {
                (self.used() & self.writes).count_ones() < u32::from(queue.writes.max(1))
            }
            _ => true,
        }
    }

    /// Returns whether the card's queue has so few tasks that parts of the card may be idle: fewer
    /// than a quarter of the largest number.
    pub(crate) fn are_few(&self) -> bool {
        self.count() < u32::from(self.depth.min(ANNOUNCED_MAX) / 4)
    }

    #[inline(always)]
    pub(crate) fn task(&self, id: u8) -> &Task {
        &self.tasks[usize::from(id % DEPTH_MAX)]
    }

    /// Returns whether the blocks from `start` up to `end` overlap those of a task on the card,
    /// unless both only read.
    pub(crate) fn meets(&self, direction: Direction, start: u64, end: u64) -> bool {
        // A read does not conflict with another read.
        let rivals = if direction == Direction::Write { u32::MAX } else { self.writes };
        ids(self.used() & rivals).any(|id| {
            let task = self.task(id);
            task.start < end && start < task.end
        })
    }

    /// Makes a task of these requests, in the order of their blocks, and returns its number. The
    /// task's CMD44 and CMD45 are sent next.
    #[inline(always)]
    pub(crate) fn describe(
        &mut self,
        direction: Direction,
        start: u64,
        end: u64,
        members: &[u8],
        now_ns: u64,
    ) -> u8 {
        // The caller has checked that a number is free.
        let id = self.next_id() % DEPTH_MAX;
        let first = members.first().copied().unwrap_or(NONE);
        self.tasks[usize::from(id)] =
            Task { direction, start, end, first, reliable: false, announced_ns: now_ns };
        let bit = 1 << id;
        self.writes = if direction == Direction::Write { self.writes | bit } else { self.writes & !bit };
        let next = members.iter().skip(1).copied().chain(core::iter::once(NONE));
        for (&index, behind) in members.iter().zip(next) {
            self.behind[usize::from(index) % SLOTS_MAX] = behind;
        }
        (self.described, self.has_params) = (id, false);
        id
    }

    /// Marks this task as a reliable write.
    pub(crate) fn mark_reliable(&mut self, id: u8) {
        self.tasks[usize::from(id % DEPTH_MAX)].reliable = true;
    }

    /// Notes that CMD44 of the described task is sent.
    pub(crate) fn note_params_sent(&mut self) {
        self.has_params = true;
    }

    /// Returns whether CMD44 of the task that is to be added to the card's queue next was sent; its
    /// CMD45 was not sent yet.
    pub(crate) fn has_params(&self) -> bool {
        self.has_params
    }

    /// Returns the task that is described, but not announced to the card (CMD44, CMD45) yet.
    pub(crate) fn described(&self) -> Option<u8> {
        Some(self.described).filter(|&id| id != NONE)
    }

    /// Notes that the card has accepted CMD45. So the task is now in the card's queue.
    pub(crate) fn announced(&mut self, now_ns: u64) {
        if self.announced == 0 {
            self.pace.begin(now_ns);
        }
        if let Some(id) = self.described() {
            self.announced |= 1 << id;
            self.ages.push(id);
        }
        self.described = NONE;
        self.stats.announced = self.stats.announced.wrapping_add(1);
    }

    /// Returns the requests of a task, in the order of their blocks.
    pub(crate) fn members(&self, id: u8) -> impl Iterator<Item = u8> + '_ {
        let mut at = self.task(id).first;
        (0..SLOTS_MAX).map_while(move |_| {
            let here = at;
            at = if here == NONE { NONE } else { self.behind[usize::from(here) % SLOTS_MAX] };
            Some(here).filter(|&here| here != NONE)
        })
    }

    /// Stores the ready tasks in `status`, one bit each; an error if it contradicts earlier ones.
    pub(crate) fn apply_ready_bits(&mut self, status: u32, now_ns: u64) -> Result<(), Demotion> {
        self.stats.asked = self.stats.asked.wrapping_add(1);
        // A card that is polled during a task's data may still report that task as ready.
        let status = status & !self.executed().map_or(0, |id| 1 << (id % DEPTH_MAX));
        if status & !self.announced != 0 {
            return Err(Demotion::Unknown(status & !self.announced));
        }
        let fell = self.ready & !status;
        if fell != 0 {
            return Err(Demotion::Fell(fell));
        }
        let new = (status & !self.ready).count_ones();
        self.ready = status;
        if new == 0 {
            self.stats.asked_in_vain = self.stats.asked_in_vain.wrapping_add(1);
        }
        self.pace.asked(new, self.announced.count_ones(), now_ns);
        Ok(())
    }

    /// Returns the task whose data are being transferred.
    #[inline(always)]
    pub(crate) fn executed(&self) -> Option<u8> {
        Some(self.running).filter(|&id| id != NONE)
    }

    /// Returns whether CMD13 should ask during data which tasks are ready: no waiting task is known
    /// to be ready, and CMD13 was not sent since the data began.
    pub(crate) fn wants_question(&self, now_ns: u64) -> bool {
        self.announced != 0 && self.ready == 0 && !self.asked_beside && now_ns >= self.ask_ns()
    }

    /// Records that CMD13 has asked for ready tasks during the present data; it is sent once only.
    pub(crate) fn note_asked_beside(&mut self) {
        self.asked_beside = true;
    }

    /// Returns the time in ns of the next poll of the card for ready tasks.
    pub(crate) fn ask_ns(&self) -> u64 {
        self.pace.ask_ns()
    }

    /// Returns the time in ns since the last event of the card's queue: a task became ready, or was
    /// executed.
    pub(crate) fn quiet_ns(&self, now_ns: u64) -> u64 {
        self.pace.quiet_ns(now_ns)
    }

    /// Starts the ready task that the card has known for the longest time (counted from its CMD45),
    /// and returns its number; `None`: no task is ready.
    pub(crate) fn execute(&mut self) -> Option<u8> {
        if self.ready == 0 {
            return None;
        }
        let mut id = self.ages.oldest();
        // One of the announced tasks is ready, so one round through the list finds it.
        for _ in 0..DEPTH_MAX {
            if self.ready >> (id & 31) & 1 == 1 {
                break;
            }
            id = self.ages.after(id);
        }
        self.take_executed(id);
        (self.running, self.asked_beside) = (id, false);
        Some(id)
    }

    /// Removes a task that the card has executed from the waiting tasks, and counts it.
    #[inline(always)]
    fn take_executed(&mut self, id: u8) {
        self.take_off(id);
        self.dull = match self.task(id).direction {
            Direction::Read => 0,
            Direction::Write => self.dull.saturating_add(1),
        };
        self.stats.executed = self.stats.executed.wrapping_add(1);
    }

    /// Removes a task from the set of the tasks that the card has, and from the set of ready tasks.
    #[inline(always)]
    fn take_off(&mut self, id: u8) {
        let bit = 1 << (id % DEPTH_MAX);
        if self.announced & bit != 0 {
            self.ages.remove(id);
        }
        (self.announced, self.ready) = (self.announced & !bit, self.ready & !bit);
    }

    /// Notes that the executed task has ended.
    #[inline(always)]
    pub(crate) fn clear_running(&mut self, now_ns: u64) {
        if self.running != NONE {
            self.running = NONE;
            self.pace.note_executed(now_ns);
        }
    }

    /// Counts an error of an earlier write that may belong to any of several writes, since the card
    /// does not say to which.
    pub(crate) fn count_suspects(&mut self) {
        self.stats.suspected = self.stats.suspected.wrapping_add(1);
    }

    /// Returns all tasks that wait on the card, bit n for task n.
    #[inline(always)]
    pub(crate) fn on_card(&self) -> u32 {
        self.announced
    }

    /// Returns whether one of the tasks on the card is a read.
    pub(crate) fn read(&self) -> bool {
        self.announced & !self.writes != 0
    }

    /// Returns the task that was announced first, of those that the card has.
    pub(crate) fn oldest(&self) -> Option<u8> {
        Some(self.ages.oldest()).filter(|&id| id != NONE)
    }

    /// Returns the time in ns from which on no further task is sent to the card's queue, because
    /// the oldest one has waited for [`AGE_NS`].
    #[inline(always)]
    pub(crate) fn too_old_ns(&self) -> u64 {
        self.oldest().map_or(u64::MAX, |id| self.task(id).announced_ns.saturating_add(AGE_NS))
    }

    /// Removes task `id`, which has failed; no task's data are being transferred any more.
    pub(crate) fn take_out(&mut self, id: u8) {
        self.take_off(id);
        self.running = NONE;
    }

    /// Forgets the task that was being prepared, because the command queue engine cannot use its
    /// memory.
    pub(crate) fn forget_described(&mut self) {
        self.described = NONE;
    }

    /// Counts ends that the command queue engine reported for tasks whose doorbell was not rung.
    pub(crate) fn count_stale(&mut self, tasks: u32) {
        self.stats.stale = self.stats.stale.wrapping_add(tasks.count_ones());
    }

    /// Counts a lost interrupt of the command queue engine, or a lost doorbell.
    pub(crate) fn count_lost(&mut self) {
        self.stats.lost = self.stats.lost.wrapping_add(1);
    }

    /// Gives up the controller's command queue engine: from now on software drives the card's
    /// queue. Failures with the engine do not count against the software.
    pub(crate) fn leave_engine(&mut self, why: Demotion) {
        self.stats.engine.get_or_insert(why);
        self.failures = Failures::NONE;
    }

    /// Returns whether this request is in a task that waits on the card.
    pub(crate) fn has(&self, index: u8) -> bool {
        let waiting = self.announced | if self.described == NONE { 0 } else { 1 << self.described };
        ids(waiting).any(|id| self.members(id).any(|at| at == index))
    }

    /// Takes back all tasks that were not executed. Returns their requests, one bit for each slot.
    pub(crate) fn fall_back(&mut self) -> SlotSet {
        let waiting = self.announced | if self.described == NONE { 0 } else { 1 << self.described };
        let mut back = 0;
        for id in ids(waiting) {
            for index in self.members(id) {
                back |= (1 as SlotSet) << index;
            }
        }
        let cleanings = self.cleanings;
        self.reset();
        (self.mode, self.cleanings) = (Mode::Lost, cleanings);
        back
    }

    /// Counts a failure of the queue. Returns true if its use must end: too many in a short time.
    pub(crate) fn note_failure(&mut self, now_ns: u64) -> bool {
        self.stats.failures = self.stats.failures.wrapping_add(1);
        self.failures.again(now_ns)
    }

    /// Stops the use of the queue, and stores the reason `why`. Returns false if already stopped.
    pub(crate) fn demote(&mut self, why: Demotion) -> bool {
        let used = self.stats.demoted.is_none();
        self.stats.demoted.get_or_insert(why);
        used
    }

    /// Counts another try to switch the queue off. `None`: there were [`CLEANINGS_MAX`] tries.
    /// `Some(true)`: all tasks are discarded first. `Some(false)`, for the second try: no task is
    /// discarded, since the queue may be off already.
    pub(crate) fn count_cleaning(&mut self) -> Option<bool> {
        let tries = self.cleanings;
        self.cleanings += u8::from(tries < CLEANINGS_MAX);
        (tries < CLEANINGS_MAX).then_some(tries != 1)
    }
}

/// Returns the task numbers in a mask, lowest first.
fn ids(mut mask: u32) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || {
        let id = mask.trailing_zeros() as u8;
        (mask != 0).then(|| {
            mask &= mask - 1;
            id
        })
    })
}

#[cfg(test)]
mod tests;
