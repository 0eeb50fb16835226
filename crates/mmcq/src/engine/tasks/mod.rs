//! A card's command queue, driven by software on any host [eMMC 6.6.39] [SD 4.19].
//!
//! A transfer that would otherwise be started at once is *announced* to the card (CMD44, CMD45).
//! The transfer, which is now a task with a number on the card, *becomes ready* while others
//! transfer data (CMD13 with bit 15 reads which tasks are ready). The task is *executed* (CMD46,
//! CMD47: a phase with data like any other), and *ends*. Slots, order, batches, the policy, and the
//! handling of status and failures are those of transfers without the queue.
//!
//! The card promises no order. So the rules of order are applied before a task is announced. A
//! transfer is not announced while it overlaps a task on the card, or a write whose status is not
//! known, where one of the two writes. Any request but an ordinary read or write starts when the
//! queue is empty and off.
//!
//! This file decides what is sent to the card's queue next. The other files: `steps.rs` has the
//! commands, `beside.rs` the commands during data, `dialect.rs` the queue of an SD card,
//! `failed.rs` failures. `hosted.rs` is for a controller whose command queue engine announces,
//! polls and executes.

mod beside;
mod dialect;
mod driven;
mod failed;
mod halted;
mod hosted;
mod steps;
use super::batch::{Batch, Limits};
use super::blockers::TASKS;
use super::bus::{NO_PHASE, SLACK_NS};
use super::card::Card;
use super::deadline::first_look_ns;
use super::durability::Durability;
use super::fast::FastKind;
use super::lane::Lane;
use super::order::Order;
use super::phases::Stage;
use super::record::Record;
use super::runs::End;
use super::slot::{NONE, Rules, Slots, bits};
use super::timers::later;
use super::{BLOCK_BYTES, Count, Engine, Error, FlushBy, Kind};
use crate::host::{Data, Direction, DmaError, Host, Phase};
use crate::sched::tasks::{Mode, Step, Task, Tasks};
use crate::sched::{Lanes, Profile, SdTaskQueue, TaskStats};
use crate::spec::command::emmc;

/// Time in ns after which an empty queue of the card is switched off, so that the card can be put
/// to sleep.
const IDLE_NS: u64 = 10_000_000;

/// The next step of the engine's loop, after it has called the code for the card's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The queue is off: transfers are sent one at a time, without the queue.
    Pass,
    /// The code for the queue has done something, so the engine's loop must choose its next action
    /// again.
    Again,
    /// The engine starts nothing on the bus now: it waits for the card, a timer or a request.
    Wait,
}

/// The result of choosing the next task of the card's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    /// No waiting request can be sent as a task now.
    Nothing,
    /// No task is chosen. The engine's loop must do this action first, and may then choose again.
    Turn(Turn),
    /// A task for the card's command queue was chosen: its requests are in the engine's batch, and
    /// their memory is mapped for DMA.
    Task,
}

impl<E, T: Lanes> Lane<E, T> {
    /// Returns whether the card's queue is on, as far as is known.
    #[inline(always)]
    pub(in crate::engine) fn is_queued(&self) -> bool {
        self.tasks().is_some_and(|tasks| tasks.mode() != Mode::Off)
    }

    /// Returns whether the command in progress is one of the card's queue: it announces a task,
    /// polls the queue, or transfers the data of a task.
    #[inline(always)]
    pub(in crate::engine) fn has_fast_task(&self) -> bool {
        let stage = matches!(self.stage(), Stage::Extra | Stage::Main);
        self.is_queued() && stage && !self.has_control()
    }

    /// Returns whether a task is on the card: announced, being announced, or executed.
    #[inline(always)]
    pub(in crate::engine) fn has_tasks(&self) -> bool {
        self.tasks().is_some_and(|tasks| !tasks.is_empty())
    }

    /// Returns the most blocks of a task: `most`, the limit of the bus, or fewer if the
    /// controller's command queue engine accepts fewer.
    fn task_blocks(&self, most: u32) -> u32 {
        let driver = self.hosted().filter(|hosted| hosted.drives());
        driver.map_or(most, |hosted| most.min(hosted.limits().0))
    }

    /// Returns whether the blocks from `start` up to `end` overlap those of a task, unless both
    /// only read. Also true if they overlap a write whose status is not known. All blocks of such a
    /// write count, since it may have to be sent once more as a whole.
    pub fn meets_task<const N: usize>(
        &self,
        slots: &Slots<N>,
        direction: Direction,
        start: u64,
        end: u64,
    ) -> bool {
        let meets = |at: u8| {
            let whole = slots.at(at).kind().span();
            whole.is_some_and(|(_, lba, blocks)| lba < end && start < lba.saturating_add(blocks.into()))
        };
        bits(slots.settling()).any(meets)
            || self.tasks().is_some_and(|tasks| tasks.meets(direction, start, end))
    }
}

impl<const N: usize> Batch<N> {
    /// Makes the list of the memory segments of the chosen requests, in the order of the transfer.
    pub fn gather(&mut self, slots: &Slots<N>) {
        let mut left = self.blocks().saturating_mul(BLOCK_BYTES);
        self.no_segments();
        for place in 0..self.members().len() {
            let Some(&index) = self.members().get(place) else { break };
            let slot = slots.at(index);
            let segment = slot.segment().part(slot.moved_blocks().saturating_mul(BLOCK_BYTES), left);
            left -= segment.len;
            self.fill(place, segment);
        }
    }

    /// Makes the requests of task `id` and their memory the transfer in progress, and returns its
    /// phase: what the controller must execute.
    pub fn gather_task(&mut self, slots: &Slots<N>, tasks: Option<&Tasks>, id: u8) -> Phase {
        let Some(tasks) = tasks else { return NO_PHASE };
        let task = *tasks.task(id);
        let blocks = task.end.saturating_sub(task.start) as u32;
        let mut left = blocks;
        self.begin(task.direction, task.start);
        for index in tasks.members(id) {
            let slot = slots.at(index);
            let own = slot.span().map_or(0, |(_, _, blocks)| blocks).min(left);
            left -= own;
            let segment = slot
                .segment()
                .part(slot.moved_blocks().saturating_mul(BLOCK_BYTES), own.saturating_mul(BLOCK_BYTES));
            self.add(index, own, segment);
        }
        let write = task.direction == Direction::Write;
        let command = if write { emmc::execute_write_task(id) } else { emmc::execute_read_task(id) };
        let data = Data { direction: task.direction, block_size: BLOCK_BYTES as u16, blocks };
        Phase { data: Some(data), ..Phase::of(command) }
    }
}

impl<P: Profile> Order<P> {
    /// Takes the requests that are sent to the controller out of the queue, and reports each to the
    /// scheduling policy.
    pub fn send_chosen<const N: usize>(
        &mut self,
        slots: &mut Slots<N>,
        batch: &Batch<N>,
        record: &mut Record,
        now_ns: u64,
    ) {
        for &index in batch.members() {
            self.note_sent(slots, index, now_ns);
        }
        for place in 0..batch.members().len() {
            let Some(&index) = batch.members().get(place) else { break };
            slots.unlink(index);
            slots.at_mut(index).set_active();
        }
        record.merged(batch.members().len().saturating_sub(1) as Count);
    }
}

impl<const N: usize> Slots<N> {
    /// Returns whether this request, which goes as one task, is a durable write that needs no flush
    /// after it. Without a cache any task is enough; with a cache the task must be a reliable write.
    #[cold]
    fn is_reliable_task(&self, card: &Card, ledger: &Durability, index: u8) -> bool {
        let slot = self.at(index);
        let Kind::Write { lba, blocks } = slot.kind() else { return false };
        let Some(target) = card.target() else { return false };
        let cached = target.flush != FlushBy::Status;
        slot.rules() == Rules::DURABLE
            && !self.owe_flush()
            && !ledger.owes_loss()
            && (!cached || card.abilities().reliable(lba, blocks))
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Enables the card's command queue of this many tasks: ordinary reads and writes may use it. A
    /// queue that was given up is tried again. Must be called again after
    /// [`set_card_params`](Self::set_card_params) with `None`. The queue of an SD card is enabled
    /// by [`set_sd_task_queue`](Self::set_sd_task_queue).
    ///
    /// Returns false if the profile uses no card's queue ([`Queued`](crate::sched::Queued),
    /// [`HostQueued`](crate::sched::HostQueued)), the card is not an eMMC, or the queue is too
    /// small to be of use.
    pub fn set_task_queue(&mut self, depth: u8) -> bool {
        let emmc = self.card.target().is_some_and(|target| target.emmc && !target.extended_address);
        self.blockers.close_fast();
        let has = emmc && self.lane.tasks_mut().is_some_and(|tasks| tasks.configure(depth));
        if has {
            self.lane.equip(&mut self.bus);
        }
        has
    }

    /// Enables the queue as [`set_task_queue`](Self::set_task_queue) does, for an SD card. Two
    /// things are needed. The card's cache must be on ([`FlushBy::SdCache`]): the queue's register
    /// is found beside the register of the cache. And the engine must have memory of its own for
    /// registers ([`set_page`](Self::set_page)). Returns false if one of these is missing, the card
    /// has addresses of 38 bits, or the queue is too small to be of use.
    ///
    /// The queue of some cards damages data without an error.
    /// [`card::enable_sd_task_queue`](crate::card::enable_sd_task_queue) checks the card's identity
    /// for that.
    pub fn set_sd_task_queue(&mut self, queue: SdTaskQueue) -> bool {
        self.blockers.close_fast();
        let known = self.card.queue_register(self.services.memory().page()).is_some();
        self.lane.tasks_mut().is_some_and(|tasks| known && tasks.configure_sd(queue))
    }

    /// Sets whether the card's queue is used for all ordinary reads and writes, and not only while
    /// it makes them faster (while several reads wait). For measurements, or for a load that is
    /// known.
    pub fn always_use_task_queue(&mut self, always: bool) {
        if let Some(tasks) = self.lane.tasks_mut() {
            tasks.set_always(always);
        }
    }

    /// Returns the counters of the card's queue; `None`: the engine's profile (the parts that the
    /// firmware contains) has no code for a card's queue.
    pub fn task_stats(&self) -> Option<&TaskStats> {
        self.lane.tasks().map(|tasks| tasks.stats())
    }

    /// Decides what the card's queue does next, while nothing is in progress on the bus.
    #[inline(always)]
    pub(super) fn step_tasks(&mut self, now_ns: u64) -> Turn {
        let Some(tasks) = self.lane.tasks_mut() else { return Turn::Pass };
        tasks.clear_running(now_ns);
        match tasks.mode() {
            Mode::Off if !tasks.is_armed() => Turn::Pass,
            Mode::Off => self.try_enter_queue(now_ns),
            Mode::On if self.lane.is_driven() => self.go_on_with_engine(now_ns),
            Mode::On => self.go_on_with_tasks(now_ns),
            Mode::Lost => self.clean_queue(now_ns),
        }
    }

    /// Returns whether this request may use the card's queue. A request that goes in pieces may
    /// not: nothing may be sent between its pieces.
    fn is_ordinary_task(&self, index: u8) -> bool {
        let slot = self.slots.at(index);
        let most = self.bus.limits(&self.config, &self.incident, self.lane.streams()).blocks;
        let most = self.lane.task_blocks(most);
        let whole = slot.span().is_some_and(|(_, _, blocks)| blocks <= most) && slot.moved_blocks() == 0;
        match slot.rules() {
            Rules::NONE => whole && !slot.solo(),
            _ => whole && self.slots.is_reliable_task(&self.card, &self.durability, index),
        }
    }

    /// Returns whether the engine may use the card's queue now: no cause stops the queue, and the
    /// first waiting request, if there is one, is an ordinary read or write.
    fn has_only_tasks(&self, now_ns: u64) -> bool {
        let head = self.slots.head();
        !self.is_lane_stopped::<TASKS>(now_ns) && (head == NONE || self.is_ordinary_task(head))
    }

    /// Switches the card's queue on if it would make the waiting requests faster, and would have
    /// done so often enough before.
    #[inline(never)]
    fn try_enter_queue(&mut self, now_ns: u64) -> Turn {
        let (reads, writes) =
            (self.slots.queued_reads().count_ones(), self.slots.queued_writes().count_ones());
        let pays = self.lane.tasks_mut().is_some_and(|tasks| tasks.would_pay(reads, writes));
        if !pays
            || self.lane.streams().is_left_open::<H>()
            || !self.has_only_tasks(now_ns)
            || !self.lane.knows_switch(&self.card, self.services.memory().page())
        {
            return Turn::Pass;
        }
        // The request that the policy picks may not be one for the queue, although the oldest
        // request is.
        match self.order.pick(
            &self.slots,
            &mut self.timers,
            self.incident.is_open(),
            self.slots.head(),
            now_ns,
        ) {
            Some(first) if self.is_ordinary_task(first) => {}
            _ => return Turn::Pass,
        }
        self.order.hold_broken(now_ns);
        self.switch_queue(true, now_ns)
    }

    /// Does the next step with the card's queue while software drives it: announces a task,
    /// executes one, or asks which tasks are ready. If the controller's queue engine drives the
    /// queue from now on, software only ends the tasks that it has announced. Returns what the
    /// engine's loop does next.
    #[inline(never)]
    fn go_on_with_tasks(&mut self, now_ns: u64) -> Turn {
        if self.send_described(now_ns) {
            return Turn::Again;
        }
        let dull = self.lane.is_driven() || self.lane.tasks().is_some_and(|tasks| tasks.is_dull());
        let stays = !dull && self.has_only_tasks(now_ns);
        let few = self.lane.tasks().is_some_and(|tasks| tasks.are_few());
        if stays && few {
            match self.announce_next(now_ns) {
                Turn::Pass => {}
                turn => return turn,
            }
        }
        if let Some(id) = self.lane.tasks_mut().and_then(|tasks| tasks.execute()) {
            self.execute_task(id, now_ns);
            return Turn::Again;
        }
        if stays && !few {
            match self.announce_next(now_ns) {
                Turn::Pass => {}
                turn => return turn,
            }
        }
        if self.lane.has_tasks() {
            return self.ask_for_ready(now_ns);
        }
        if self.durability.owes_status(&self.slots)
            && (self.durability.asks_soon::<N, P>(&self.slots, &self.config) || !self.postpone_status(now_ns))
        {
            self.ask_status(Stage::Status, now_ns);
            return Turn::Again;
        }
        if stays && self.slots.head() != NONE {
            // The policy lets the head of the queue wait.
            return if self.policy_leaves(now_ns) { self.leave_queue(now_ns) } else { Turn::Wait };
        }
        if stays {
            let rests_ns = later(self.bus.last().map_or(0, |last| last.ended_ns), IDLE_NS);
            if now_ns < rests_ns {
                self.timers.wake_by(rests_ns);
                return Turn::Wait;
            }
        }
        self.leave_queue(now_ns)
    }

    /// Returns true if the policy picks a request now, so that the queue must be switched off for
    /// it. Called when the card has no task and none can be added to its queue. The picked request
    /// may be one that cannot use the queue, or one that could: a policy may pick another request
    /// each time.
    fn policy_leaves(&mut self, now_ns: u64) -> bool {
        let head = self.slots.head();
        self.order.pick(&self.slots, &mut self.timers, self.incident.is_open(), head, now_ns).is_some()
    }

    fn leave_queue(&mut self, now_ns: u64) -> Turn {
        self.lane.park(&mut self.bus);
        self.switch_queue(false, now_ns)
    }

    /// Sends CMD44, the first of the two commands that announce the next task to the card. The task
    /// has the requests that are merged to it. [`Turn::Pass`]: no task may be announced now.
    fn announce_next(&mut self, now_ns: u64) -> Turn {
        let head = self.slots.head();
        if head == NONE || !self.lane.tasks().is_some_and(|tasks| tasks.has_room(now_ns)) {
            return Turn::Pass;
        }
        let Limits { blocks, segments, .. } =
            self.bus.limits(&self.config, &self.incident, self.lane.streams());
        match self.choose_task(blocks, segments, now_ns) {
            Chosen::Nothing => return Turn::Pass,
            Chosen::Turn(turn) => return turn,
            Chosen::Task => {}
        }
        self.order.send_chosen(&mut self.slots, &self.batch, &mut self.record, now_ns);
        self.lane.describe_task(&self.batch, &self.slots, &self.card, now_ns);
        self.send_described(now_ns);
        Turn::Again
    }

    /// Chooses the requests of the next task, of at most `blocks` blocks and `segments` segments of
    /// memory together. Puts them in the engine's batch and maps their memory for DMA, but does not
    /// remove them from the queue yet. Returns whether a task was chosen, or what the engine's loop
    /// must do first.
    fn choose_task(&mut self, blocks: u32, segments: u16, now_ns: u64) -> Chosen {
        let head = self.slots.head();
        if head == NONE || !self.lane.tasks().is_some_and(|tasks| tasks.has_room(now_ns)) {
            return Chosen::Nothing;
        }
        let Some(first) =
            self.order.pick(&self.slots, &mut self.timers, self.incident.is_open(), head, now_ns)
        else {
            return Chosen::Nothing;
        };
        if !self.is_ordinary_task(first) {
            return Chosen::Nothing;
        }
        let limits = self.bus.limits(&self.config, &self.incident, self.lane.streams());
        let blocks = limits.blocks.min(blocks);
        let merged_blocks = limits.merged_blocks.min(blocks);
        let segments = limits.segments.min(segments);
        self.batch.collect(&self.slots, first, Limits { blocks, merged_blocks, segments, ..limits });
        let taken = self.lane.tasks().is_some_and(|tasks| tasks.takes(self.batch.direction()));
        if !taken
            || self.lane.meets_task(&self.slots, self.batch.direction(), self.batch.lba(), self.batch.end())
        {
            self.batch.forget();
            return Chosen::Nothing;
        }
        for place in 0..self.batch.members().len() {
            let Some(&index) = self.batch.members().get(place) else { break };
            let mapped = if place == 0 {
                self.map_in_turn(index, now_ns)
            } else {
                self.slots.map(self.bus.host_mut(), index).map(|()| true)
            };
            match mapped {
                Ok(true) => {}
                Ok(false) => return Chosen::Turn(Turn::Wait),
                // The mappings of tasks on the card become free when these end.
                Err(Error::Dma(DmaError::Exhausted)) if place == 0 && self.lane.has_tasks() => {
                    self.batch.forget();
                    return Chosen::Nothing;
                }
                Err(error) if place == 0 => {
                    self.order.turn_down(&mut self.slots, index, error);
                    return Chosen::Turn(Turn::Again);
                }
                Err(_) => {
                    self.slots.at_mut(index).forbid_merge(true);
                    return Chosen::Turn(Turn::Again);
                }
            }
        }
        Chosen::Task
    }

    /// Starts the data of the task with the number `id`, which is ready.
    fn execute_task(&mut self, id: u8, now_ns: u64) {
        let phase = self.batch.gather_task(&self.slots, self.lane.tasks(), id);
        let Some(tasks) = self.lane.tasks() else { return };
        let Task { direction, reliable, .. } = *tasks.task(id);
        self.lane.note_transfer_start(&mut self.record, &mut self.incident, End::Here);
        self.durability.note_change(direction == Direction::Write && !reliable);
        let wire_ns = self.bus.wire().data_ns(self.batch.blocks());
        let (timeout_ns, patience_ns) = self.card.plan().times_ns(direction, self.batch.blocks(), wire_ns);
        self.bus.prepare(phase);
        let look_ns = first_look_ns::<P>(wire_ns, patience_ns);
        self.start_fast_phase(FastKind::Nothing, Stage::Main, (timeout_ns, look_ns), now_ns);
    }

    /// Sends CMD13 to read which tasks are ready, or waits until it is time for that.
    fn ask_for_ready(&mut self, now_ns: u64) -> Turn {
        let Some(tasks) = self.lane.tasks() else { return Turn::Pass };
        let longest_ns = self.card.target().map_or(0, |t| t.read_timeout_ns.max(t.write_timeout_ns));
        let quiet_ns = tasks.quiet_ns(now_ns);
        if quiet_ns > later(longest_ns, SLACK_NS) {
            let quiet_ms = u32::try_from(quiet_ns / 1_000_000).unwrap_or(u32::MAX);
            return self.disbelieve(crate::sched::Demotion::NeverReady(quiet_ms), now_ns);
        }
        let ask_ns = tasks.ask_ns();
        if now_ns < ask_ns {
            self.timers.wake_by(ask_ns);
            return Turn::Wait;
        }
        let rca = self.card.target().map_or(0, |target| target.rca);
        self.task_step(Step::Ask, crate::spec::command::send_queue_status(rca), now_ns);
        Turn::Again
    }
}
