//! The command queue engine of an SDHCI controller: CQHCI 5.10 [eMMC 5.1, B].
//!
//! The driver describes up to 32 tasks in memory and starts them by doorbells. The engine sends
//! each task to the card by CMD44 and CMD45, and asks by CMD13 which tasks are ready. It executes
//! ready tasks one after the other by CMD46 and CMD47. The engine uses the controller's lines just
//! as the driver's own commands do. So it talks to the same card model, and the same faults strike
//! it.
//!
//! Where the standard leaves something open, the model does this:
//! - Of the ready tasks, the one whose doorbell was rung first is executed first.
//! - After an error (register CQTERRI) the engine sends no further command until the driver has
//!   halted and resumed it.
//! - Without coalescing each completed task interrupts, even if the bit Int of its descriptor is
//!   clear.
//! - A task descriptor that is not valid causes an ADMA error of its task.

mod bits;
mod config;
mod engine;
mod hurt;
mod task;
#[cfg(test)]
mod tests;

pub use config::CqhciConfig;
pub(super) use engine::Engine;

use super::bits::int as host_int;
use super::command::{Expected, Issue};
use super::data::State;
use super::{NEVER, Sdhci, Timer};
use crate::card::Flow;
use crate::wire::Beat;
use bits::{cfg, ctl, int};
use engine::{Job, Step};
use task::{Link, Task, Work};

/// Size in bytes of the engine's register space.
const BYTES: u16 = 0x80;
/// Bit of CMD13's argument that requests the queue status register.
const SEND_QUEUE_STATUS: u32 = 1 << 15;
/// Largest number of actions that the command queue engine takes without an advance of time; no
/// state needs as many.
const MAX_STEPS: u32 = 128;

impl Sdhci {
    /// Converts an offset in the controller's register space to an offset in the registers of its
    /// command queue engine; `None` if no register of that engine is there.
    pub(super) fn queue_register(&self, offset: u16) -> Option<u16> {
        let base = self.cqe.as_ref()?.config().offset;
        offset.checked_sub(base).filter(|&register| register < BYTES)
    }

    pub(super) fn queue_read(&mut self, register: u16) -> u32 {
        let Some(cqe) = &self.cqe else { return 0 };
        let r = &cqe.r;
        match register & !3 {
            bits::VER => cqe.config().version.unwrap_or(bits::VERSION),
            bits::CAP => cqe.config().capabilities(),
            bits::CFG => r.cfg,
            bits::CTL => cqe.control(),
            bits::IS => r.is,
            bits::ISTE => r.iste,
            bits::ISGE => r.isge,
            bits::IC => cqe.coalescing(),
            bits::TDLBA => r.tdlba as u32,
            bits::TDLBAU => (r.tdlba >> 32) as u32,
            bits::TDBR => r.tdbr,
            bits::TCN => r.tcn,
            bits::DQS => r.dqs,
            bits::DPT => r.dpt,
            bits::SSC1 => r.ssc1,
            bits::SSC2 => r.ssc2,
            bits::CRDCT => r.crdct,
            bits::RMEM => r.rmem,
            bits::TERRI => r.terri,
            bits::CRI => r.cri,
            bits::CRA => r.cra,
            _ => 0,
        }
    }

    /// Writes `value` to a register of the command queue engine; `register`: offset in its
    /// registers. An access of another size than 4 bytes is a violation.
    pub(super) fn queue_write(&mut self, register: u16, size: u8, value: u32, now: u64) {
        if size != 4 {
            return self.violation("a register of the queue engine is not written as 32 bits");
        }
        let Some(cqe) = &mut self.cqe else { return };
        let (enabled, halted, rung) = (cqe.enabled(), cqe.halted(), cqe.r.tdbr);
        match register {
            bits::CFG => {
                let value = value & cfg::ALL & !cqe.config().no_configuration;
                return self.queue_configure(value, now);
            }
            bits::CTL => {
                if value & ctl::CLEAR_ALL != 0 {
                    if halted {
                        self.queue_clears(now);
                    } else {
                        self.violation("tasks cleared in a queue engine that is not halted");
                    }
                }
                self.queue_halts(value & ctl::HALT != 0, now);
            }
            bits::IS => cqe.r.is &= !value,
            bits::ISTE => {
                cqe.r.iste = value & int::ALL;
                cqe.r.is &= cqe.r.iste;
            }
            bits::ISGE => cqe.r.isge = value & int::ALL,
            bits::IC => cqe.set_coalescing(value),
            bits::TDLBA | bits::TDLBAU if enabled && rung != 0 => {
                self.violation("the task list moved under its tasks");
            }
            bits::TDLBA => cqe.r.tdlba = cqe.r.tdlba & !0xffff_ffff | u64::from(value & !0x3ff),
            bits::TDLBAU => cqe.r.tdlba = cqe.r.tdlba & 0xffff_ffff | u64::from(value) << 32,
            bits::TDBR if !enabled => self.violation("a doorbell of a queue engine that is off"),
            bits::TDBR if value & rung != 0 => self.violation("a doorbell of a task that is not done"),
            bits::TDBR => self.queue_rung(value, now),
            bits::TCN => cqe.r.tcn &= !value,
            bits::TCLR if halted && value.count_ones() == 1 => cqe.clear(value),
            bits::TCLR => self.violation("tasks cleared not one by one, or not in a halt"),
            bits::SSC1 => cqe.r.ssc1 = value & 0x000f_ffff,
            bits::SSC2 => cqe.r.ssc2 = value & 0xffff,
            bits::RMEM => cqe.r.rmem = value,
            // All other registers are read-only, or do not exist.
            _ => {}
        }
        self.queue_goes_on(now);
    }

    fn queue_configure(&mut self, value: u32, now: u64) {
        let idle = !self.dat.active() && !self.cmd.sending();
        let Some(cqe) = &mut self.cqe else { return };
        let was = std::mem::replace(&mut cqe.r.cfg, value);
        let moving = cqe.moving();
        if was & cfg::ENABLE != 0 && value & cfg::ENABLE == 0 {
            cqe.disable();
            if moving.is_some() {
                self.violation("the queue engine disabled with data on the lines");
                self.fail_data();
            }
        } else if was & value & cfg::ENABLE != 0 && was != value {
            cqe.r.cfg = was;
            self.violation("the queue engine configured while it is on");
        } else if value & !was & cfg::ENABLE != 0 && !idle {
            self.violation("the queue engine enabled with a command or data on the lines");
        }
        if value & !was & cfg::ENABLE != 0 {
            self.queue_is_on(now);
        }
        self.queue_goes_on(now);
    }

    /// Returns whether the command queue engine, and not the driver, uses the bus.
    pub(super) fn queue_has_bus(&self) -> bool {
        self.cqe.as_ref().is_some_and(|cqe| cqe.has_bus())
    }

    /// Returns whether the data lines carry data of a task.
    pub(super) fn queue_moves(&self) -> bool {
        self.cqe.as_ref().is_some_and(|cqe| cqe.moving().is_some())
    }

    /// Executes the steps of the command queue engine that are due, and sets its timers.
    pub(super) fn queue_goes_on(&mut self, now: u64) {
        if self.cqe.is_none() {
            return;
        }
        let mut poll_ns = NEVER;
        for _ in 0..MAX_STEPS {
            let idle = !self.dat.active() && self.slot.busy_until_ns <= now;
            let on_line = self.cmd.sending();
            let Some(cqe) = &mut self.cqe else { return };
            match cqe.next(idle, now) {
                Step::Nothing => break,
                Step::Halted => cqe.enter_halted(),
                Step::PollAt(at_ns) => {
                    poll_ns = at_ns;
                    break;
                }
                Step::Fetch(slot) => {
                    if let Err(what) = self.fetch_task(slot) {
                        self.violation(what);
                        self.task_is_none(slot, now);
                        break;
                    }
                }
                Step::Send(_) if on_line => break,
                Step::Send(job) => {
                    self.send_job(job, now);
                    break;
                }
            }
        }
        self.set_timer(Timer::QueuePoll, poll_ns);
        let counted_ns = self.cqe.as_ref().and_then(|cqe| cqe.counted_ns());
        self.set_timer(Timer::QueueCount, counted_ns.unwrap_or(NEVER));
        self.update_irq(now);
    }

    /// Handles the coalescing timeout: the completed tasks that wait for an interrupt are reported.
    pub(super) fn queue_counted(&mut self, now: u64) {
        if let Some(cqe) = &mut self.cqe {
            cqe.counted_out();
        }
        self.queue_goes_on(now);
    }

    /// Returns the addresses of a slot's task descriptor and of the descriptor after it.
    fn task_address(&self, slot: u8) -> (u64, u64) {
        let Some(cqe) = &self.cqe else { return (0, 0) };
        let half = if cqe.wide() { 16 } else { 8 };
        let task = cqe.r.tdlba.wrapping_add(2 * half * u64::from(slot));
        (task, task.wrapping_add(half))
    }

    fn fetch_task(&mut self, slot: u8) -> Result<(), &'static str> {
        let (at, _) = self.task_address(slot);
        let mut raw = [0; 8];
        self.slot.stats.descriptors += 1;
        let read = self.memory.device_read(at, &mut raw);
        let Some(cqe) = &mut self.cqe else { return Ok(()) };
        read.map_err(|_| "a task descriptor where no memory is")?;
        let task = Task::parse(slot, cqe.direct(), u64::from_le_bytes(raw))?;
        cqe.fetched(slot, task);
        Ok(())
    }

    /// Reports the error of a slot whose task descriptor is not valid, after its doorbell.
    fn task_is_none(&mut self, slot: u8, now: u64) {
        self.queue_blames(None, Some((0, slot)), now);
        self.raise(host_int::ADMA, now);
    }

    /// Sends a command of the command queue engine to the card.
    fn send_job(&mut self, job: Job, now: u64) {
        let Some(cqe) = &mut self.cqe else { return };
        let rca = cqe.r.ssc2;
        let task = |slot: u8| cqe.task(slot).map(|task| task.work);
        let issue = match job {
            Job::Status => Issue::own(13, rca << 16 | SEND_QUEUE_STATUS, Expected::Short, false),
            Job::Announce(slot) | Job::Address(slot) | Job::Execute(slot) => {
                let Some(Work::Data { read, how, address, .. }) = task(slot) else { return };
                let execute = if read { 46 } else { 47 };
                match job {
                    Job::Announce(_) => Issue::own(44, how, Expected::Short, false),
                    Job::Address(_) => Issue::own(45, address, Expected::Short, false),
                    _ => Issue::own(execute, u32::from(slot) << 16, Expected::Short, true),
                }
            }
            Job::Direct => {
                let Some(Work::Direct { index, arg, answered, busy, .. }) = task(bits::DIRECT_SLOT) else {
                    return;
                };
                let expected = match (answered, busy) {
                    (_, true) => Expected::ShortBusy,
                    (true, false) => Expected::Short,
                    (false, false) => Expected::None,
                };
                Issue::own(index, arg, expected, false)
            }
        };
        cqe.sent(job);
        match (job, cqe.moving().and_then(|slot| cqe.task(slot)).map(|task| task.work)) {
            (Job::Execute(_), Some(Work::Data { read, blocks, .. })) => {
                self.dat.reserve_task(read, blocks.into());
            }
            (Job::Direct, Some(Work::Direct { busy: true, .. })) => self.dat.reserve_task(true, 0),
            _ => {}
        }
        self.send_own(issue, now);
    }

    /// Handles the end of a command that the command queue engine has sent.
    pub(super) fn queue_answered(
        &mut self,
        issue: &Issue,
        beat: Beat,
        flow: Flow,
        (errors, content): (u32, u32),
        now: u64,
    ) {
        let Some(cqe) = &mut self.cqe else { return };
        let Some(job) = cqe.line_is_free() else { return };
        let slot = match job {
            Job::Announce(slot) | Job::Address(slot) | Job::Execute(slot) => slot,
            Job::Direct => bits::DIRECT_SLOT,
            Job::Status => 0,
        };
        let uses_lines = issue.data || issue.expected == Expected::ShortBusy;
        let data = cqe.moving().filter(|_| !uses_lines).and_then(|slot| cqe.data_of(slot));
        cqe.r.cri = issue.index.into();
        cqe.r.cra = content;
        if errors != 0 {
            if uses_lines {
                cqe.data_were_cut();
                self.fail_data();
            }
            self.queue_blames(Some((issue.index, slot)), data, now);
            self.raise(errors, now);
            return self.queue_goes_on(now);
        }
        let checked = job != Job::Status && issue.expected != Expected::None;
        let refused = checked && content & cqe.r.rmem != 0;
        if refused {
            self.queue_blames(Some((issue.index, slot)), data, now);
        }
        let Some(cqe) = &mut self.cqe else { return };
        if refused {
            cqe.raise(int::RED);
        }
        cqe.answered(job, content, now);
        match job {
            Job::Execute(slot) => self.start_task(slot, flow, beat, now),
            Job::Direct if uses_lines => self.start_busy(now),
            Job::Direct => cqe.done(slot, now),
            _ => {}
        }
        self.queue_goes_on(now);
    }

    /// Starts the data of the task in slot `slot` after the response to CMD46 or CMD47.
    fn start_task(&mut self, slot: u8, flow: Flow, beat: Beat, now: u64) {
        let (_, at) = self.task_address(slot);
        let Some(cqe) = &self.cqe else { return };
        let (wide, short) = (cqe.wide(), cqe.config().short_descriptors);
        let mut raw = [0; 16];
        let read = self.memory.device_read(at, &mut raw[..if wide { 16 } else { 8 }]);
        self.slot.stats.descriptors += 1;
        let link = Link::parse(&raw, wide).filter(|_| read.is_ok());
        let bytes = match (wide, short) {
            (false, _) => 8,
            (true, true) => 12,
            (true, false) => 16,
        };
        let table = match link {
            Some(Link::List(list)) => list,
            Some(Link::Here) => at,
            None => return self.data_error(host_int::ADMA, now),
        };
        self.dma_is_at(table, bytes);
        self.start_data(flow, beat, now);
    }

    /// Handles the end of a task's data, or of the busy of a direct command.
    pub(super) fn queue_data_ended(&mut self, now: u64) {
        self.dat.state = State::Idle;
        if let Some(cqe) = &mut self.cqe
            && let Some(slot) = cqe.moving()
        {
            let data = cqe.data_of(slot);
            cqe.done(slot, now);
            self.queue_task_is_done(data, now);
        }
        self.queue_goes_on(now);
    }

    /// Stops the engine because of an error in the data of a task, and sets CQTERRI.
    pub(super) fn queue_data_failed(&mut self, now: u64) {
        let on_line = self.cmd.sending();
        if let Some(cqe) = &mut self.cqe
            && let Some(slot) = cqe.moving()
        {
            let data = cqe.data_of(slot);
            let command = on_line.then_some((cqe.r.cri as u8, slot));
            cqe.data_were_cut();
            self.queue_blames(command.filter(|_| data.is_none()), data, now);
        }
    }

    /// Lets faults strike at the begin of a block of a task, and polls the queue status if a poll
    /// is due at this block.
    pub(super) fn queue_block_begins(&mut self, now: u64) {
        let (left, first) = (self.dat.left.unwrap_or(0), self.dat.is_first());
        if left == 1 {
            self.queue_task_ends(now);
        }
        if let Some(cqe) = &mut self.cqe
            && cqe.moving().is_some()
            && cqe.block_begins(left, first)
        {
            self.queue_goes_on(now);
        }
    }
}
