//! State of the command queue engine: its registers, the tasks that the driver has started by
//! doorbell, and its next step. The engine does not access the lines or the memory;
//! [`Sdhci`](crate::sdhci::Sdhci) does this.

use super::CqhciConfig;
use super::bits::{DIRECT_SLOT, RMEM_RESET, SSC1_RESET, cfg, ctl, ic, int, terri};
use super::task::{Task, Work};

/// A command that the command queue engine sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// CMD44, which announces the task of this slot to the card.
    Announce(u8),
    /// CMD45, which gives the card the address of the task of this slot.
    Address(u8),
    /// CMD13 with the bit SQS: reads the queue status.
    Status,
    /// CMD46 or CMD47, which transfers the data of the task of this slot.
    Execute(u8),
    /// The direct command of slot 31.
    Direct,
}

/// The next thing that the command queue engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// The engine fetches the task descriptor of this slot.
    Fetch(u8),
    Send(Job),
    /// The engine polls the card's queue status at this time in ns.
    PollAt(u64),
    Halted,
}

/// Values of the registers that the engine stores. CQCTL and CQIC are computed when the driver
/// reads them.
#[derive(Clone, Debug)]
pub struct Registers {
    pub cfg: u32,
    pub is: u32,
    pub iste: u32,
    pub isge: u32,
    pub ic: u32,
    pub tdlba: u64,
    pub tdbr: u32,
    pub tcn: u32,
    pub dqs: u32,
    pub dpt: u32,
    pub ssc1: u32,
    pub ssc2: u32,
    pub crdct: u32,
    pub rmem: u32,
    pub terri: u32,
    pub cri: u32,
    pub cra: u32,
}

impl Default for Registers {
    fn default() -> Self {
        Registers {
            cfg: 0,
            is: 0,
            iste: 0,
            isge: 0,
            ic: 0,
            tdlba: 0,
            tdbr: 0,
            tcn: 0,
            dqs: 0,
            dpt: 0,
            ssc1: SSC1_RESET,
            ssc2: 0,
            crdct: 0,
            rmem: RMEM_RESET,
            terri: 0,
            cri: 0,
            cra: 0,
        }
    }
}

/// State of the tasks that the command queue engine executes.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Slots whose doorbell was rung and whose task is not complete, in the order of their
    /// doorbells.
    order: Vec<u8>,
    /// Task descriptors that are already fetched, by slot.
    tasks: [Option<Task>; 32],
    /// Slots whose fetched task transfers data and is not a barrier, one bit each.
    plain: u32,
    /// Slots whose task the card has reported as ready, one bit each.
    ready: u32,
    /// Slot whose CMD44 got its response, and whose CMD45 comes next; `None`: there is no such
    /// slot.
    half: Option<u8>,
    /// The command that is on the CMD line.
    sending: Option<Job>,
    /// Slot whose task uses the data lines.
    moving: Option<u8>,
    /// Whether the present block is the one at which the engine polls the card's queue status. The
    /// field CBC of the send status configuration register (SSC1) selects this block.
    poll_due: bool,
    /// Time in ns of the next poll of the card's queue status, after a poll that found no ready
    /// task.
    poll_ns: u64,
    /// Whether the engine sends no further command because of an error, until the driver has halted
    /// and resumed it.
    stopped: bool,
    /// Fault: slot whose task the engine has reported complete while the task's data were still
    /// being transferred.
    early: Option<u8>,
}

/// State of a command queue engine.
#[derive(Clone, Debug)]
pub struct Engine {
    config: CqhciConfig,
    pub r: Registers,
    work: Progress,
    halting: bool,
    halted: bool,
    /// Earliest time in ns at which a requested halt completes.
    halts_ns: u64,
    /// Number of completed tasks that wait for an interrupt (coalescing).
    counted: u32,
    /// Latest time in ns at which the completed tasks that wait must be reported by an interrupt;
    /// `None`: no task waits.
    counted_ns: Option<u64>,
    /// Whether the engine has raised an interrupt that is not in the controller's interrupt status
    /// yet.
    fresh: bool,
}

impl Engine {
    pub fn new(config: CqhciConfig) -> Self {
        Engine {
            config,
            r: Registers::default(),
            work: Progress::default(),
            halting: false,
            halted: false,
            halts_ns: 0,
            counted: 0,
            counted_ns: None,
            fresh: false,
        }
    }

    pub fn config(&self) -> &CqhciConfig {
        &self.config
    }

    pub fn enabled(&self) -> bool {
        self.r.cfg & cfg::ENABLE != 0
    }

    /// Returns whether the command queue engine, and not the driver, uses the bus.
    pub fn has_bus(&self) -> bool {
        self.enabled() && !self.halted
    }

    pub fn halted(&self) -> bool {
        self.halted
    }

    pub fn wide(&self) -> bool {
        self.r.cfg & cfg::WIDE != 0
    }

    pub fn direct(&self) -> bool {
        self.r.cfg & cfg::DIRECT != 0
    }

    /// Returns the value that the register CQCTL reads as.
    pub fn control(&self) -> u32 {
        if self.halted { ctl::HALT } else { 0 }
    }

    /// Returns the value that the register CQIC reads as.
    pub fn coalescing(&self) -> u32 {
        self.r.ic | if self.counted > 0 { ic::COUNTED } else { 0 }
    }

    /// Returns the slot whose task uses the data lines.
    pub fn moving(&self) -> Option<u8> {
        self.work.moving
    }

    pub fn task(&self, slot: u8) -> Option<Task> {
        self.work.tasks[usize::from(slot & 31)]
    }

    /// Stores the task descriptor that the engine has fetched from memory for this slot.
    pub fn fetched(&mut self, slot: u8, task: Task) {
        self.work.tasks[usize::from(slot & 31)] = Some(task);
        let (bit, data) = (1 << (slot & 31), matches!(task.work, Work::Data { .. }));
        self.work.plain = self.work.plain & !bit | if data && !task.barrier { bit } else { 0 };
    }

    /// Returns whether the command queue engine requests an interrupt.
    pub fn irq(&self) -> bool {
        self.r.is & self.r.isge != 0
    }

    /// Sets bits of the interrupt status CQIS, if they are enabled.
    pub fn raise(&mut self, bits: u32) {
        self.r.is |= bits & self.r.iste;
        self.fresh |= bits & self.r.iste & self.r.isge != 0;
    }

    /// Returns the new value of the engine's bit in the controller's interrupt status; `old` is its
    /// present value.
    pub fn status_bit(&mut self, old: bool) -> bool {
        let latched = std::mem::take(&mut self.fresh) || old;
        if self.config.latched_status { latched } else { self.irq() }
    }

    /// Rings these doorbells (register CQTDBR): a slot whose bit was clear goes to the end of
    /// `order`.
    pub fn ring(&mut self, bits: u32) {
        let new = bits & !self.r.tdbr;
        self.r.tdbr |= new;
        self.work.order.extend((0..32).filter(|slot| new >> slot & 1 == 1));
    }

    /// Requests a halt, or ends one if not `wanted` (bit HALT of CQCTL).
    pub fn halt(&mut self, wanted: bool) {
        if !self.enabled() {
            return;
        }
        if wanted {
            self.halting = !self.halted;
        } else {
            if self.halted {
                // A driver that resumes has handled the error.
                self.work.stopped = false;
                self.work.poll_ns = 0;
            }
            (self.halting, self.halted) = (false, false);
        }
    }

    /// Returns whether the driver has requested a halt that is not complete.
    pub fn halts(&self) -> bool {
        self.halting
    }

    /// Delays a requested halt to the time `until_ns` (a fault). If the driver disables the engine,
    /// the delay ends.
    pub fn hold_halt(&mut self, until_ns: u64) {
        self.halts_ns = until_ns;
    }

    /// Clears all tasks during a halt (bit CLEAR_ALL of CQCTL). With `stale` (a fault) the register
    /// CQTCN shows the cleared tasks as complete.
    pub fn clear_all(&mut self, stale: bool) {
        let cleared = std::mem::take(&mut self.r.tdbr);
        self.forget();
        if stale || self.config.stale_completions {
            self.r.tcn |= cleared;
        }
        self.raise(int::TCL);
    }

    /// Clears the tasks of these slots (bit n for slot n) while the command queue engine is halted:
    /// the effect of a write to register CQTCLR.
    pub fn clear(&mut self, bits: u32) {
        self.r.tdbr &= !bits;
        self.r.dpt &= !bits;
        self.work.ready &= !bits;
        self.work.plain &= !bits;
        self.work.order.retain(|slot| bits >> slot & 1 == 0);
        for (slot, task) in self.work.tasks.iter_mut().enumerate() {
            if bits >> slot & 1 == 1 {
                *task = None;
            }
        }
        self.work.half = self.work.half.filter(|slot| bits >> slot & 1 == 0);
        self.raise(int::TCL);
    }

    /// Drops the tasks of all slots.
    fn forget(&mut self) {
        self.r.dpt = 0;
        self.work = Progress::default();
        (self.counted, self.counted_ns) = (0, None);
    }

    /// Disables the engine, after a write that clears the bit ENABLE of CQCFG: its tasks are
    /// dropped, and a halt ends.
    pub fn disable(&mut self) {
        self.r.tdbr = 0;
        self.r.tcn = 0;
        self.forget();
        (self.halting, self.halted, self.halts_ns) = (false, false, 0);
    }

    /// Handles a reset of the CMD circuit. If a command of the engine was on the line, the engine
    /// sends no further command until the driver has halted and resumed the engine.
    pub fn line_was_reset(&mut self) {
        self.work.stopped |= self.work.sending.take().is_some();
    }

    /// Handles a reset or an error of the DAT circuit. If data of a task were on the lines, the
    /// engine sends no further command until the driver has halted and resumed the engine.
    pub fn data_were_cut(&mut self) {
        self.work.stopped |= self.work.moving.take().is_some();
    }

    /// Returns what the command queue engine does next, such as sending a command or waiting until
    /// a time. `idle`: the data lines are free.
    pub fn next(&mut self, idle: bool, now_ns: u64) -> Step {
        if !self.has_bus() || self.work.sending.is_some() {
            return Step::Nothing;
        }
        if self.halting {
            return match self.halts_ns {
                _ if self.work.moving.is_some() => Step::Nothing,
                at_ns if at_ns > now_ns => Step::PollAt(at_ns),
                _ => Step::Halted,
            };
        }
        if self.work.stopped {
            return Step::Nothing;
        }
        if let Some(slot) = self.work.half {
            return Step::Send(Job::Address(slot));
        }
        let free = idle && self.work.moving.is_none();
        let ready = self.work.ready & self.r.dpt;
        if free
            && ready != 0
            && let Some(&slot) = self.work.order.iter().find(|&&slot| ready >> slot & 1 == 1)
        {
            return Step::Send(Job::Execute(slot));
        }
        if let Some(step) = self.next_told(free) {
            return step;
        }
        self.next_poll(now_ns)
    }

    /// Returns the step for the first task that the card does not have yet: fetch its descriptor,
    /// or send its command. `None` if the card has all tasks, or if a barrier must wait. `free`:
    /// the data lines are free.
    fn next_told(&self, free: bool) -> Option<Step> {
        // Tasks that the card has and that delay no other task.
        let past = self.work.plain & self.r.dpt;
        debug_assert_eq!(self.work.order.iter().fold(0, |all, slot| all | 1 << slot), self.r.tdbr);
        if self.r.tdbr & !past == 0 {
            return None;
        }
        for (place, &slot) in self.work.order.iter().enumerate() {
            if past >> slot & 1 == 1 {
                continue;
            }
            let Some(task) = &self.work.tasks[usize::from(slot & 31)] else { return Some(Step::Fetch(slot)) };
            if task.barrier && place > 0 {
                return None;
            }
            match task.work {
                Work::Direct { waits, busy, .. } => {
                    let under_way = self.work.moving == Some(DIRECT_SLOT);
                    if !under_way && (free || !(waits || busy)) {
                        return Some(Step::Send(Job::Direct));
                    }
                }
                Work::Data { .. } if self.r.dpt >> slot & 1 == 0 => {
                    return Some(Step::Send(Job::Announce(slot)));
                }
                Work::Data { .. } => {}
            }
            if task.barrier {
                return None;
            }
        }
        None
    }

    /// Returns the step that polls the card's queue status, or no step if no poll is due.
    fn next_poll(&mut self, now_ns: u64) -> Step {
        let moving = self.work.moving.map_or(0, |slot| 1 << slot);
        if self.r.dpt & !self.work.ready & !moving == 0 {
            return Step::Nothing;
        }
        if self.work.moving.is_some() {
            return if self.work.poll_due { Step::Send(Job::Status) } else { Step::Nothing };
        }
        if self.r.dpt & self.work.ready != 0 {
            return Step::Nothing;
        }
        if now_ns >= self.work.poll_ns { Step::Send(Job::Status) } else { Step::PollAt(self.work.poll_ns) }
    }

    /// Handles the begin of a block of the present task, the first one if `first`; `left` is the
    /// number of blocks left, this one included. Returns true if the engine must poll the card's
    /// queue status at this block.
    pub fn block_begins(&mut self, left: u32, first: bool) -> bool {
        let before = self.r.ssc1 >> 16 & 0xf;
        let due = before != 0 && (left == before || first && left < before);
        self.work.poll_due |= due;
        due
    }

    /// Records that a command is now on the CMD line.
    pub fn sent(&mut self, job: Job) {
        self.work.sending = Some(job);
        match job {
            Job::Status => self.work.poll_due = false,
            Job::Execute(slot) => {
                self.work.moving = Some(slot);
                self.work.poll_due = false;
            }
            Job::Direct if self.task(DIRECT_SLOT).is_some_and(|task| is_busy(&task)) => {
                self.work.moving = Some(DIRECT_SLOT);
            }
            _ => {}
        }
    }

    /// Removes and returns the command on the CMD line, which has ended.
    pub fn line_is_free(&mut self) -> Option<Job> {
        self.work.sending.take()
    }

    /// Sets the task error register CQTERRI: the command and the data that were on the lines at the
    /// error, each as index and slot.
    pub fn blame(&mut self, command: Option<(u8, u8)>, data: Option<(u8, u8)>) {
        let half = |(index, slot): (u8, u8)| u32::from(slot & 31) << 8 | u32::from(index & 63);
        self.r.terri = command.map_or(0, |it| terri::RESPONSE_VALID | half(it))
            | data.map_or(0, |it| terri::DATA_VALID | half(it) << 16);
        self.work.stopped = true;
    }

    /// Returns the index of the data command (CMD46 or CMD47) of a slot, and the slot; `None` if
    /// its task has no data.
    pub fn data_of(&self, slot: u8) -> Option<(u8, u8)> {
        match self.task(slot)?.work {
            Work::Data { read, .. } => Some((if read { 46 } else { 47 }, slot)),
            Work::Direct { .. } => None,
        }
    }

    /// Handles a response without an error to the command `job`: updates the state of the tasks
    /// that the command is about. `content`: the 32 bits of the response.
    pub fn answered(&mut self, job: Job, content: u32, now_ns: u64) {
        match job {
            Job::Announce(slot) => self.work.half = Some(slot),
            Job::Address(slot) => {
                if self.r.dpt == 0 {
                    self.work.poll_ns = 0;
                }
                self.work.half = None;
                self.r.dpt |= 1 << slot;
            }
            Job::Status => {
                self.r.dqs = content;
                self.work.ready = content;
                if content & self.r.dpt == 0 {
                    let clocks = (self.r.ssc1 & 0xffff).max(1);
                    self.work.poll_ns = now_ns.saturating_add(self.config.clocks_ns(clocks));
                }
            }
            Job::Execute(slot) => self.work.ready &= !(1 << slot),
            Job::Direct => self.r.crdct = content,
        }
    }

    /// Fault: reports the task of this slot as complete although its data are still being
    /// transferred.
    pub fn done_early(&mut self, slot: u8) {
        self.work.early = Some(slot);
        self.work.order.retain(|&other| other != slot);
        self.r.tdbr &= !(1 << slot);
        self.r.dpt &= !(1 << slot);
        self.r.tcn |= 1 << slot;
        self.raise(int::TCC);
    }

    /// Ends the task of this slot: it is complete.
    pub fn done(&mut self, slot: u8, now_ns: u64) {
        let bit = 1 << slot;
        if self.work.early.take_if(|early| *early == slot).is_some() {
            self.work.moving = None;
            self.work.poll_ns = 0;
            return;
        }
        let task = self.work.tasks[usize::from(slot & 31)].take();
        self.work.plain &= !bit;
        self.work.order.retain(|&other| other != slot);
        self.work.moving = self.work.moving.filter(|&moving| moving != slot);
        self.work.poll_ns = 0;
        self.r.tdbr &= !bit;
        self.r.dpt &= !bit;
        self.r.tcn |= bit;
        let threshold = (self.r.ic & ic::THRESHOLD) >> 8;
        let coalesces = self.r.ic & ic::ENABLE != 0 && task.is_some_and(|task| !task.interrupts);
        if !coalesces {
            return self.raise(int::TCC);
        }
        self.counted += 1;
        if threshold != 0 && self.counted >= threshold {
            return self.counted_out();
        }
        let clocks = (self.r.ic & ic::TIMEOUT) * 1024;
        if self.counted_ns.is_none() && clocks != 0 {
            self.counted_ns = Some(now_ns.saturating_add(self.config.clocks_ns(clocks)));
        }
    }

    /// Returns the time in ns at which the interrupt for completed tasks comes at the latest. Until
    /// then the interrupt is delayed, so that one interrupt reports several tasks (coalescing).
    /// `None`: no completed task waits for its interrupt.
    pub fn counted_ns(&self) -> Option<u64> {
        self.counted_ns
    }

    /// Raises the interrupt for the completed tasks that wait for it, because their number or their
    /// time has reached its limit.
    pub fn counted_out(&mut self) {
        (self.counted, self.counted_ns) = (0, None);
        self.raise(int::TCC);
    }

    /// Writes `value` to the interrupt coalescing register CQIC.
    pub fn set_coalescing(&mut self, value: u32) {
        let mut kept = self.r.ic;
        // The driver can change threshold and timeout only while no task is in the queue.
        if self.r.tdbr == 0 {
            if value & ic::THRESHOLD_WRITE != 0 {
                kept = kept & !ic::THRESHOLD | value & ic::THRESHOLD;
            }
            if value & ic::TIMEOUT_WRITE != 0 {
                kept = kept & !ic::TIMEOUT | value & ic::TIMEOUT;
            }
        }
        self.r.ic = kept & !ic::ENABLE | value & ic::ENABLE;
        if value & ic::RESET != 0 {
            (self.counted, self.counted_ns) = (0, None);
        }
    }

    /// Completes the halt that the driver requested.
    pub fn enter_halted(&mut self) {
        (self.halting, self.halted) = (false, true);
        self.raise(int::HAC);
    }
}

/// Returns whether the task is a direct command with a busy response (R1b).
fn is_busy(task: &Task) -> bool {
    matches!(task.work, Work::Direct { busy: true, .. })
}
