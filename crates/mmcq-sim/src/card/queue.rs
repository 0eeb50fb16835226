//! The command queue of a card: the host sends tasks, the card loads them, and the host executes
//! them when they are ready [eMMC 6.6.39] [SD 4.19].
//!
//! Several flash units read in parallel; each flash page belongs to one unit. A read takes a
//! buffer, waits for its unit, and is ready when its first page is in the buffer. A write is ready
//! as soon as it has a buffer. A task occupies its buffer until it was executed. The time of the
//! queue does not advance by itself: `Tasks::reach` handles all events up to a given time.

use super::cut::mixed;
use super::flash::UNIT_BYTES;
use crate::faults::Strike;

/// Largest number of tasks that a queue of any card holds.
pub(crate) const MOST: usize = 32;

/// Order in which queued tasks become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Only the oldest task becomes ready.
    InOrder,
    /// Tasks become ready in the order in which their data are loaded.
    AsLoaded,
    /// A write gets a buffer, and so becomes ready, only while the queue holds no read.
    ReadsFirst,
    /// The first task that is sent while another is in the queue becomes ready only when it is
    /// alone.
    StarvesOne,
    /// The newest loaded task becomes ready, one task at a time.
    NewestFirst,
}

/// Parameters of a card's command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Largest number of tasks in the queue, 1 to 32.
    pub depth: u8,
    /// Number of flash units that read in parallel.
    pub units: u8,
    /// Number of buffers, which limits how many tasks can be loading, loaded, ready or under
    /// execution at a time.
    pub buffers: u8,
    /// Order in which tasks become ready.
    pub order: Order,
}

/// Stages of a task in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The task waits for a buffer, or for its turn.
    Waiting,
    /// The flash loads the task. At this time in ns the task's first page is in its buffer.
    Loading(u64),
    /// The task is loaded, and becomes ready as soon as the order allows it.
    Loaded,
    /// The task is ready: its bit in the queue status is set.
    Ready,
}

/// A task, as sent by CMD44 and CMD45.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) id: u8,
    pub(crate) read: bool,
    pub(crate) blocks: u16,
    /// Byte address of the task's first block.
    pub(crate) at: u64,
    pub(crate) reliable: bool,
    /// Forced programming: the data bypass the cache.
    pub(crate) forced: bool,
    /// Whether the task goes before tasks without priority.
    pub(crate) priority: bool,
    /// Extra time in ns for which a flash unit reads the task's first page, because the first try
    /// fails (retries).
    pub(crate) retries_ns: u64,
    /// Delay in ns until the task becomes ready; `u64::MAX`: never (a fault).
    pub(crate) late_ns: u64,
    /// Number of blocks by which the card shifts the task's address (a fault).
    pub(crate) astray: i32,
    /// Fault: whether the card shows the task as ready in its next queue status, even if the task
    /// is not ready.
    pub(crate) shown: bool,
}

impl Task {
    /// Makes a task from the argument of CMD44. The address comes later, with CMD45.
    pub(crate) fn described(arg: u32) -> Self {
        Task {
            id: (arg >> 16 & 0x1f) as u8,
            read: arg >> 30 & 1 == 1,
            blocks: arg as u16,
            at: 0,
            reliable: arg >> 31 == 1,
            forced: arg >> 24 & 1 == 1,
            priority: arg >> 23 & 1 == 1,
            retries_ns: 0,
            late_ns: 0,
            astray: 0,
            shown: false,
        }
    }

    /// Applies a fault to the task. Returns `None` if the fault makes the card miss the command.
    pub(crate) fn struck(mut self, strike: Option<Strike>) -> Option<Self> {
        match strike {
            Some(Strike::Lost) => return None,
            Some(Strike::Never) => self.late_ns = u64::MAX,
            Some(Strike::Late(ns)) => self.late_ns = ns,
            Some(Strike::Spurious(_)) => self.shown = true,
            Some(Strike::Astray(blocks)) => self.astray = blocks,
            _ => {}
        }
        Some(self)
    }

    /// Sets the byte address of the task's blocks to `at`. A fault may shift the address; a shift
    /// beyond `capacity`, the card's size in bytes, has no effect.
    pub(crate) fn lies_at(self, at: u64, capacity: u64) -> Self {
        let moved = at.saturating_add_signed(i64::from(self.astray) * 512);
        let beyond = moved.saturating_add(u64::from(self.blocks) * 512) > capacity;
        Task { at: if beyond { at } else { moved }, ..self }
    }
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    task: Task,
    /// Number of the task in the order of arrival.
    seq: u64,
    stage: Stage,
}

/// The command queue of a card with its tasks.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    config: QueueConfig,
    /// Whether the host has selected execution in the order of arrival.
    in_order: bool,
    /// Tasks in the queue, in the order of arrival.
    queued: Vec<Queued>,
    /// Task that the last CMD44 has described; the CMD45 with its address has not come yet. `None`:
    /// there is no such task.
    described: Option<Task>,
    running: Option<Task>,
    /// Time in ns until which each flash unit reads.
    units_ns: Vec<u64>,
    /// Time in ns up to which all events of the queue are handled.
    now_ns: u64,
    /// Earliest time in ns of the next event in the queue; 0: not known.
    next_ns: u64,
    seq: u64,
    /// Number (in the order of arrival) of the task that the order [`Order::StarvesOne`] holds
    /// back.
    victim: Option<u64>,
    /// Error bits of a queued write that the card has not reported yet, and the time in ns at which
    /// it reports them; `None`: there are none.
    late: Option<(u64, u32)>,
    /// Total time in ns in which the queue held tasks and the host could execute none.
    fetching_ns: u64,
}

impl Tasks {
    pub(crate) fn new(config: QueueConfig) -> Self {
        Tasks {
            config,
            in_order: false,
            queued: Vec::with_capacity(MOST),
            described: None,
            running: None,
            units_ns: vec![0; config.units.into()],
            now_ns: 0,
            next_ns: 0,
            seq: 0,
            victim: None,
            late: None,
            fetching_ns: 0,
        }
    }

    /// Removes all tasks from the queue.
    pub(crate) fn clear(&mut self) {
        let &mut Tasks { now_ns, seq, in_order, fetching_ns, .. } = self;
        *self = Tasks { now_ns, seq, in_order, fetching_ns, ..Tasks::new(self.config) };
    }

    /// Switches the queue on. With `in_order` the card executes tasks in the order of their
    /// arrival.
    pub(crate) fn begin(&mut self, in_order: bool) {
        self.in_order = in_order;
        self.clear();
    }

    fn order(&self) -> Order {
        if self.in_order { Order::InOrder } else { self.config.order }
    }

    /// Returns whether no task is in the queue and none is being executed.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.running.is_none()
    }

    /// Returns whether the queue has a task with this number.
    pub(crate) fn has(&self, id: u8) -> bool {
        self.queued.iter().any(|queued| queued.task.id == id)
            || self.running.is_some_and(|task| task.id == id)
    }

    /// Handles CMD44: stores the task until its CMD45 comes. Returns false for an error: the task
    /// number is too large or in use, or the number of blocks is 0.
    pub(crate) fn describe(&mut self, task: Task) -> bool {
        let good = task.id < self.config.depth && task.blocks > 0 && !self.has(task.id);
        self.described = good.then_some(task);
        good
    }

    /// Removes and returns the task of the last CMD44, for CMD45.
    pub(crate) fn described(&mut self) -> Option<Task> {
        self.described.take()
    }

    /// Adds a task with its address to the queue. `load_ns` is the time in ns in which the flash
    /// loads a page.
    pub(crate) fn tell(&mut self, task: Task, load_ns: u64, now_ns: u64) {
        self.reach(load_ns, now_ns);
        self.seq += 1;
        if self.order() == Order::StarvesOne && self.victim.is_none() && !self.is_empty() {
            self.victim = Some(self.seq);
        }
        self.queued.push(Queued { task, seq: self.seq, stage: Stage::Waiting });
        self.next_ns = 0;
        self.reach(load_ns, now_ns);
    }

    /// Returns the queue status: one bit for each ready task. `load_ns`: time in ns that the card
    /// needs to load the first data of a read task before the task is ready.
    pub(crate) fn ready(&mut self, load_ns: u64, now_ns: u64) -> u32 {
        self.reach(load_ns, now_ns);
        let mut bits = 0;
        for queued in &mut self.queued {
            let shown = std::mem::take(&mut queued.task.shown);
            if shown || queued.stage == Stage::Ready {
                bits |= 1 << queued.task.id;
            }
        }
        bits
    }

    /// Returns the card's answer to a poll of the queue status. `strike`: fault that strikes the
    /// poll, if any. `status`: the ordinary card status, with which the card answers if the fault
    /// is [`Strike::Fail`]. `load_ns`: time in ns in which the flash reads a page.
    pub(crate) fn says(&mut self, strike: Option<Strike>, status: u32, load_ns: u64, now_ns: u64) -> u32 {
        if strike == Some(Strike::Lost) {
            self.clear();
        }
        let ready = self.ready(load_ns, now_ns);
        match strike {
            Some(Strike::Fail) => status,
            Some(Strike::Status(bits)) => ready | bits,
            _ => ready,
        }
    }

    /// Handles CMD46 (`read`) and CMD47 for the task `id`: removes the task from the queue and
    /// returns it. Returns `None` if the task is not ready, or has the other direction. `load_ns`:
    /// time in ns that the card needs to load the first data of a read task.
    pub(crate) fn execute(&mut self, id: u8, read: bool, load_ns: u64, now_ns: u64) -> Option<Task> {
        self.reach(load_ns, now_ns);
        let place = self.queued.iter().position(|queued| {
            queued.task.id == id && queued.task.read == read && queued.stage == Stage::Ready
        })?;
        let queued = self.queued.remove(place);
        self.next_ns = 0;
        self.running = Some(queued.task);
        if self.victim == Some(queued.seq) {
            self.victim = None;
        }
        self.running
    }

    /// Ends the data of the task that is being executed, complete or not, and frees its buffer.
    /// `load_ns`: time in ns in which the flash loads a page.
    pub(crate) fn finish(&mut self, load_ns: u64, now_ns: u64) {
        if self.running.is_some() {
            self.reach(load_ns, now_ns);
            self.running = None;
            self.next_ns = 0;
            self.reach(load_ns, now_ns);
        }
    }

    /// Removes task `id`. Returns false if the queue has no task with this number. `load_ns`: time
    /// in ns in which the flash loads a page.
    pub(crate) fn discard(&mut self, id: u8, load_ns: u64, now_ns: u64) -> bool {
        self.reach(load_ns, now_ns);
        let before = self.queued.len();
        self.queued.retain(|queued| queued.task.id != id);
        self.next_ns = 0;
        if self.queued.iter().all(|queued| Some(queued.seq) != self.victim) {
            self.victim = None;
        }
        self.queued.len() < before
    }

    /// Stores error bits of a queued write. The card reports them when its busy ends, at
    /// `until_ns`.
    pub(crate) fn owes(&mut self, until_ns: u64, errors: u32) {
        if errors != 0 {
            let earlier = self.late.map_or(0, |(_, errors)| errors);
            self.late = Some((until_ns, errors | earlier));
        }
    }

    /// Returns the error bits that the card has to report at this time.
    pub(crate) fn due(&mut self, now_ns: u64) -> u32 {
        self.late.take_if(|late| late.0 <= now_ns).map_or(0, |late| late.1)
    }

    /// Returns the total time in ns in which the queue held tasks and the host could execute none,
    /// up to the last access to the queue.
    pub(crate) fn fetching_ns(&self) -> u64 {
        self.fetching_ns
    }

    /// Returns whether the queue holds tasks, none is ready, and none is being executed.
    fn only_fetches(&self) -> bool {
        let may_be_ready = |(place, queued): (usize, &Queued)| match queued.stage {
            Stage::Ready => true,
            Stage::Loaded => place == 0 || self.order() != Order::InOrder,
            Stage::Waiting | Stage::Loading(_) => false,
        };
        self.running.is_none() && !self.queued.is_empty() && !self.queued.iter().enumerate().any(may_be_ready)
    }

    /// Advances the time of the queue to `to_ns`. The queue must have no event before this time.
    fn pass(&mut self, to_ns: u64) {
        if self.only_fetches() {
            self.fetching_ns += to_ns.saturating_sub(self.now_ns);
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Handles all events of the queue up to `now_ns`. `load_ns`: time in ns in which the flash
    /// loads a page.
    fn reach(&mut self, load_ns: u64, now_ns: u64) {
        if now_ns < self.next_ns {
            self.pass(now_ns);
            return;
        }
        loop {
            self.give_buffers(load_ns);
            self.next_ns = self.first_loaded_ns();
            let at_ns = self.next_ns;
            if at_ns > now_ns || at_ns == u64::MAX {
                break;
            }
            self.pass(at_ns);
            for queued in &mut self.queued {
                if queued.stage == Stage::Loading(at_ns) {
                    queued.stage = Stage::Loaded;
                }
            }
        }
        self.pass(now_ns);
        // A free buffer or a turn comes only with calls that change the queue.
        self.raise();
    }

    /// Returns the time in ns at which the next task is loaded; `u64::MAX` if no task is loading.
    fn first_loaded_ns(&self) -> u64 {
        let loading = |queued: &Queued| match queued.stage {
            Stage::Loading(at_ns) => at_ns,
            _ => u64::MAX,
        };
        self.queued.iter().map(loading).min().unwrap_or(u64::MAX)
    }

    fn give_buffers(&mut self, load_ns: u64) {
        let waiting = self.queued.iter().filter(|queued| matches!(queued.stage, Stage::Waiting)).count();
        if waiting == 0 {
            return;
        }
        let in_use = self.queued.len() - waiting;
        let mut free =
            usize::from(self.config.buffers).saturating_sub(in_use + usize::from(self.running.is_some()));
        while free > 0 {
            let Some(place) = self.next_waiting() else { return };
            let Task { at, read, late_ns, retries_ns, .. } = self.queued[place].task;
            self.queued[place].stage = if read {
                let unit = (mixed(at / UNIT_BYTES) % self.units_ns.len().max(1) as u64) as usize;
                let begin_ns = self.units_ns[unit].max(self.now_ns);
                let loaded_ns = begin_ns.saturating_add(load_ns).saturating_add(retries_ns);
                self.units_ns[unit] = loaded_ns;
                Stage::Loading(loaded_ns.saturating_add(late_ns))
            } else if late_ns > 0 {
                Stage::Loading(self.now_ns.saturating_add(late_ns))
            } else {
                Stage::Loaded
            };
            free -= 1;
        }
    }

    /// Returns the index of the task that gets the next free buffer; `None` if no waiting task may
    /// have it.
    fn next_waiting(&self) -> Option<usize> {
        let alone = self.queued.len() == 1 && self.running.is_none();
        let reads = self.queued.iter().any(|queued| queued.task.read);
        let may = |queued: &Queued| {
            queued.stage == Stage::Waiting
                && match self.order() {
                    Order::InOrder | Order::AsLoaded | Order::NewestFirst => true,
                    Order::ReadsFirst => queued.task.read || !reads,
                    Order::StarvesOne => alone || Some(queued.seq) != self.victim,
                }
        };
        let urgent = |queued: &Queued| queued.task.priority && self.order() != Order::InOrder;
        let first = |wanted: bool| self.queued.iter().position(|q| may(q) && urgent(q) == wanted);
        first(true).or_else(|| first(false))
    }

    /// Sets the ready bits of tasks that may be ready. A bit stays set until the task is removed.
    fn raise(&mut self) {
        let order = self.order();
        let Some(newest) = self.queued.iter().rposition(|queued| matches!(queued.stage, Stage::Loaded))
        else {
            return;
        };
        let none = self.queued.iter().all(|queued| !matches!(queued.stage, Stage::Ready));
        for (place, queued) in self.queued.iter_mut().enumerate() {
            let may = match order {
                Order::InOrder => place == 0,
                Order::NewestFirst => none && place == newest,
                _ => true,
            };
            if queued.stage == Stage::Loaded && may {
                queued.stage = Stage::Ready;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD_NS: u64 = 100_000;

    fn tasks(units: u8, buffers: u8, order: Order) -> Tasks {
        Tasks::new(QueueConfig { depth: 32, units, buffers, order })
    }

    fn task(id: u8, read: bool, page: u64) -> Task {
        let at = page * UNIT_BYTES;
        Task { at, blocks: 8, ..Task::described(u32::from(id) << 16 | u32::from(read) << 30) }
    }

    /// Executes `count` random reads through a queue of this depth as fast as the card allows.
    /// Returns the mean time of one read in ns.
    fn pace(tasks: &mut Tasks, depth: u8, count: u64) -> u64 {
        let (mut told, mut done, mut now_ns) = (0, 0, 0);
        while done < count {
            while let Some(id) = (0..depth).find(|&id| !tasks.has(id)).filter(|_| told < count) {
                told += 1;
                tasks.tell(task(id, true, mixed(told) % 1_000_000), LOAD_NS, now_ns);
            }
            let ready = tasks.ready(LOAD_NS, now_ns);
            if ready == 0 {
                now_ns += 1_000;
                continue;
            }
            let id = ready.trailing_zeros() as u8;
            assert!(tasks.execute(id, true, LOAD_NS, now_ns).is_some());
            tasks.finish(LOAD_NS, now_ns);
            done += 1;
        }
        now_ns / count
    }

    #[test]
    fn units_work_side_by_side_as_chance_lets_them() {
        // With three flash units, on average 1, 1.67 and 2.41 of them are busy at depth 1, 2 and 4.
        let at = |depth| pace(&mut tasks(3, 32, Order::AsLoaded), depth, 3_000);
        let paces = [1, 2, 4, 32].map(at);
        for (pace, (low, high)) in
            paces.iter().zip([(99_000, 101_000), (57_000, 68_000), (39_000, 48_000), (33_000, 36_000)])
        {
            assert!((low..=high).contains(pace), "{paces:?}");
        }
        // With one buffer the card works on one task at a time, whatever the depth.
        assert!(pace(&mut tasks(3, 1, Order::AsLoaded), 32, 500) >= 100_000);
    }

    #[test]
    fn in_order_only_the_oldest_is_ready() {
        let mut tasks = tasks(4, 8, Order::InOrder);
        tasks.tell(task(3, true, 1), LOAD_NS, 0);
        tasks.tell(task(1, false, 2), LOAD_NS, 0);
        assert_eq!(tasks.ready(LOAD_NS, 99_999), 0);
        assert_eq!(tasks.ready(LOAD_NS, 100_000), 1 << 3);
        assert!(tasks.execute(1, false, LOAD_NS, 100_000).is_none());
        assert!(tasks.execute(3, true, LOAD_NS, 100_000).is_some());
        assert_eq!(tasks.ready(LOAD_NS, 100_000), 1 << 1);
    }

    #[test]
    fn the_newest_goes_first() {
        let mut tasks = tasks(2, 8, Order::NewestFirst);
        tasks.tell(task(0, true, 1), LOAD_NS, 0);
        tasks.tell(task(1, false, 2), LOAD_NS, 0);
        tasks.tell(task(2, false, 2), LOAD_NS, 0);
        // The first write became ready before the second came, and its bit stays set.
        for (ready, id, read) in [(0b010, 1, false), (0b100, 2, false), (0b001, 0, true)] {
            assert_eq!(tasks.ready(LOAD_NS, 250_000), ready);
            assert!(tasks.execute(id, read, LOAD_NS, 250_000).is_some());
            tasks.finish(LOAD_NS, 260_000);
        }
    }

    #[test]
    fn reads_go_before_writes() {
        let mut tasks = tasks(1, 8, Order::ReadsFirst);
        tasks.tell(task(0, true, 1), LOAD_NS, 0);
        tasks.tell(task(1, false, 2), LOAD_NS, 0);
        tasks.tell(task(2, true, 3), LOAD_NS, 0);
        assert_eq!(tasks.ready(LOAD_NS, 250_000), 0b101);
        for id in [2, 0] {
            assert!(tasks.execute(id, true, LOAD_NS, 250_000).is_some());
            tasks.finish(LOAD_NS, 260_000);
        }
        assert_eq!(tasks.ready(LOAD_NS, 260_000), 0b010);
    }

    #[test]
    fn one_starves_until_it_is_alone() {
        let mut tasks = tasks(1, 8, Order::StarvesOne);
        tasks.tell(task(0, false, 1), LOAD_NS, 0);
        tasks.tell(task(1, false, 2), LOAD_NS, 0);
        for round in 0..100 {
            tasks.tell(task(2 + round % 2, false, 3), LOAD_NS, 0);
            let others = tasks.ready(LOAD_NS, 0);
            assert!(others & 2 == 0 && others != 0, "{others:b}");
            tasks.execute(others.trailing_zeros() as u8, false, LOAD_NS, 0).unwrap();
            tasks.finish(LOAD_NS, 0);
        }
        let last = tasks.ready(LOAD_NS, 0);
        tasks.execute(last.trailing_zeros() as u8, false, LOAD_NS, 0).unwrap();
        tasks.finish(LOAD_NS, 0);
        assert_eq!(tasks.ready(LOAD_NS, 0), 2);
    }

    #[test]
    fn what_is_urgent_has_its_buffer_first() {
        let mut tasks = tasks(1, 1, Order::AsLoaded);
        tasks.tell(task(0, true, 1), LOAD_NS, 0);
        tasks.tell(task(1, true, 1), LOAD_NS, 0);
        tasks.tell(Task { priority: true, ..task(2, true, 1) }, LOAD_NS, 0);
        assert_eq!(tasks.ready(LOAD_NS, 100_000), 1);
        tasks.execute(0, true, LOAD_NS, 100_000).unwrap();
        tasks.finish(LOAD_NS, 110_000);
        assert_eq!(tasks.ready(LOAD_NS, 210_000), 1 << 2);
    }
}
