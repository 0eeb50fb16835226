//! The state of the queue engine: its registers, the tasks that were rung, and what it does next.
//! It touches neither lines nor memory; [`Sdhci`](crate::sdhci::Sdhci) does that for it.

use super::CqhciConfig;
use super::bits::{DIRECT_SLOT, RMEM_RESET, SSC1_RESET, cfg, ctl, ic, int, terri};
use super::task::{Task, Work};

/// A command of the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// CMD44.
    Announce(u8),
    /// CMD45.
    Address(u8),
    /// CMD13 with SQS.
    Status,
    /// CMD46 or CMD47.
    Execute(u8),
    /// The command of slot 31.
    Direct,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Nothing,
    /// The descriptor of this slot is wanted.
    Fetch(u8),
    Send(Job),
    /// The status of the card's queue is asked for then.
    PollAt(u64),
    Halted,
}

/// Registers that are no more than what was written or what happened.
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

/// What the engine is at.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// Slots that were rung and are not done, in that order.
    order: Vec<u8>,
    /// Their descriptors, once they were fetched.
    tasks: [Option<Task>; 32],
    /// Those of them that move data and are no barrier.
    plain: u32,
    /// Tasks that the card is ready for.
    ready: u32,
    /// CMD44 was answered; CMD45 is next.
    half: Option<u8>,
    /// The command on the line.
    sending: Option<Job>,
    /// The slot that uses the data lines.
    moving: Option<u8>,
    /// A block of the transfer at hand is the one at which the card is asked.
    poll_due: bool,
    /// Nothing was ready: the card is asked again then.
    poll_ns: u64,
    /// An error: no further command.
    stopped: bool,
    /// This slot's completion was told while its data still moved.
    early: Option<u8>,
}

/// A queue engine.
#[derive(Clone, Debug)]
pub struct Engine {
    config: CqhciConfig,
    pub r: Registers,
    work: Progress,
    halting: bool,
    halted: bool,
    /// A halt does not come before this.
    halts_ns: u64,
    /// Completions that wait for an interrupt.
    counted: u32,
    /// They wait no longer than this.
    counted_ns: Option<u64>,
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
        }
    }

    pub fn config(&self) -> &CqhciConfig {
        &self.config
    }

    pub fn enabled(&self) -> bool {
        self.r.cfg & cfg::ENABLE != 0
    }

    /// The bus is the engine's, and not the driver's.
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

    /// CTL as it reads.
    pub fn control(&self) -> u32 {
        if self.halted { ctl::HALT } else { 0 }
    }

    /// IC as it reads.
    pub fn coalescing(&self) -> u32 {
        self.r.ic | if self.counted > 0 { ic::COUNTED } else { 0 }
    }

    /// The slot that uses the data lines.
    pub fn moving(&self) -> Option<u8> {
        self.work.moving
    }

    pub fn task(&self, slot: u8) -> Option<Task> {
        self.work.tasks[usize::from(slot & 31)]
    }

    /// The descriptor of a slot has come.
    pub fn fetched(&mut self, slot: u8, task: Task) {
        self.work.tasks[usize::from(slot & 31)] = Some(task);
        let (bit, data) = (1 << (slot & 31), matches!(task.work, Work::Data { .. }));
        self.work.plain = self.work.plain & !bit | if data && !task.barrier { bit } else { 0 };
    }

    /// The interrupt of the engine.
    pub fn irq(&self) -> bool {
        self.r.is & self.r.isge != 0
    }

    /// A bit of IS, if it is enabled.
    pub fn raise(&mut self, bits: u32) {
        self.r.is |= bits & self.r.iste;
    }

    /// TDBR was written.
    pub fn ring(&mut self, bits: u32) {
        let new = bits & !self.r.tdbr;
        self.r.tdbr |= new;
        self.work.order.extend((0..32).filter(|slot| new >> slot & 1 == 1));
    }

    /// CTL.HALT was written.
    pub fn halt(&mut self, wanted: bool) {
        if !self.enabled() {
            return;
        }
        if wanted {
            self.halting = !self.halted;
        } else {
            if self.halted {
                // What went wrong has been dealt with.
                self.work.stopped = false;
                self.work.poll_ns = 0;
            }
            (self.halting, self.halted) = (false, false);
        }
    }

    /// Is a halt asked for that has not come?
    pub fn halts(&self) -> bool {
        self.halting
    }

    /// The halt that was asked for does not come before this, unless the engine is switched off.
    pub fn hold_halt(&mut self, until_ns: u64) {
        self.halts_ns = until_ns;
    }

    /// CTL.CLEAR_ALL was written, while halted. `stale`: TCN has the bits of these tasks.
    pub fn clear_all(&mut self, stale: bool) {
        let cleared = std::mem::take(&mut self.r.tdbr);
        self.forget();
        if stale || self.config.stale_completions {
            self.r.tcn |= cleared;
        }
        self.raise(int::TCL);
    }

    /// TCLR was written, while halted.
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

    /// Nothing is known of any task.
    fn forget(&mut self) {
        self.r.dpt = 0;
        self.work = Progress::default();
        (self.counted, self.counted_ns) = (0, None);
    }

    /// CFG.ENABLE falls.
    pub fn disable(&mut self) {
        self.r.tdbr = 0;
        self.r.tcn = 0;
        self.forget();
        (self.halting, self.halted, self.halts_ns) = (false, false, 0);
    }

    /// The CMD circuit was reset: a command that was cut off is not sent again before a halt.
    pub fn line_was_reset(&mut self) {
        self.work.stopped |= self.work.sending.take().is_some();
    }

    /// The DAT circuit was reset, or gave up: no further command before a halt.
    pub fn data_were_cut(&mut self) {
        self.work.stopped |= self.work.moving.take().is_some();
    }

    /// What is next. `idle`: the data lines are free.
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

    /// The first task that the card does not know yet.
    fn next_told(&self, free: bool) -> Option<Step> {
        // Those that are told, and hold nothing up.
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

    /// Is the card to be asked what is ready?
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

    /// A block of the task at hand begins, with so many left, itself counted. True: the card is to
    /// be asked at this one.
    pub fn block_begins(&mut self, left: u32, first: bool) -> bool {
        let before = self.r.ssc1 >> 16 & 0xf;
        let due = before != 0 && (left == before || first && left < before);
        self.work.poll_due |= due;
        due
    }

    /// A command is on the line.
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

    /// The command on the line is over.
    pub fn line_is_free(&mut self) -> Option<Job> {
        self.work.sending.take()
    }

    /// TERRI: what was on the lines when something went wrong.
    pub fn blame(&mut self, command: Option<(u8, u8)>, data: Option<(u8, u8)>) {
        let half = |(index, slot): (u8, u8)| u32::from(slot & 31) << 8 | u32::from(index & 63);
        self.r.terri = command.map_or(0, |it| terri::RESPONSE_VALID | half(it))
            | data.map_or(0, |it| terri::DATA_VALID | half(it) << 16);
        self.work.stopped = true;
    }

    /// The index of the data command of a slot, and the slot.
    pub fn data_of(&self, slot: u8) -> Option<(u8, u8)> {
        match self.task(slot)?.work {
            Work::Data { read, .. } => Some((if read { 46 } else { 47 }, slot)),
            Work::Direct { .. } => None,
        }
    }

    /// A good answer has come; what of it changes the state of tasks.
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

    /// The task of this slot is told as done, though its data still move.
    pub fn done_early(&mut self, slot: u8) {
        self.work.early = Some(slot);
        self.work.order.retain(|&other| other != slot);
        self.r.tdbr &= !(1 << slot);
        self.r.dpt &= !(1 << slot);
        self.r.tcn |= 1 << slot;
        self.raise(int::TCC);
    }

    /// The task of this slot is done.
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

    /// When the completions that wait are told of at the latest.
    pub fn counted_ns(&self) -> Option<u64> {
        self.counted_ns
    }

    /// Enough completions, or enough time.
    pub fn counted_out(&mut self) {
        (self.counted, self.counted_ns) = (0, None);
        self.raise(int::TCC);
    }

    /// IC was written.
    pub fn set_coalescing(&mut self, value: u32) {
        let mut kept = self.r.ic;
        // Threshold and timeout change in an empty queue only.
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

    /// Enters the halt that was asked for.
    pub fn enter_halted(&mut self) {
        (self.halting, self.halted) = (false, true);
        self.raise(int::HAC);
    }
}

/// A direct command with busy.
fn is_busy(task: &Task) -> bool {
    matches!(task.work, Work::Direct { busy: true, .. })
}
