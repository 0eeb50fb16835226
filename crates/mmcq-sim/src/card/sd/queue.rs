//! The command queue of an SD card: CMD43 to CMD47, and CMD13 for the queue status [SD 4.19].
//!
//! In queue mode the card knows only CMD12, CMD13, CMD19, CMD32, CMD33, CMD38, CMD43 to CMD49,
//! CMD58 and CMD59. This comes from the state diagram of the mode in part 72 of simulationroom999's
//! series on storage. While data are transferred or the card programs, it knows CMD12, CMD13, CMD44
//! and CMD45. One rule is not printed there, but hosts rely on it: no task may wait in the queue at
//! an erase, a tuning block or an access to the extension registers.

use super::super::queue::Task;
use super::super::status::{self, State};
use super::super::transfer::{Read, Write};
use super::super::{Flow, Reply};
use super::config::Class;
use super::{SdCard, Transfer};
use crate::faults::{Point, Strike};

/// Bit of CMD13's argument that requests the queue status instead of the card status.
const SEND_TASK_STATUS: u32 = 1 << 15;
/// Argument of CMD43 that aborts all tasks.
const ABORT_ALL: u32 = 1;
/// Argument of CMD43 that aborts one task. It is allowed only if the card chooses the order of
/// tasks.
const ABORT_ONE: u32 = 2;
/// Busy time in ns of CMD43.
const ABORT_NS: u64 = 50_000;

impl SdCard {
    /// Executes the command with this index and argument while the queue is on. Returns `None` for
    /// a command that works as without the queue.
    pub(super) fn queue_command(&mut self, index: u8, arg: u32, now_ns: u64) -> Option<Reply> {
        use State::{Data, Prg, Rcv, Tran};
        let state = self.interface.state;
        let load_ns = self.load_ns();
        let queue = self.queue.as_mut().filter(|_| matches!(state, Tran | Data | Rcv | Prg))?;
        let empty = queue.is_empty();
        match (index, state) {
            (13, _) if arg & SEND_TASK_STATUS != 0 => {
                let addressed = (arg >> 16) as u16 == self.rca;
                // The card sends no status here, so no status bit is cleared.
                if !addressed {
                    return Some(Reply::SILENT);
                }
                let strike = self.flash.faults.strike(Point::Ready);
                let status = status::READY_FOR_DATA | (state as u32) << 9;
                Some(Reply::short(13, queue.says(strike, status, load_ns, now_ns)))
            }
            (44, _) => {
                // Bits 31, 28:25 and 22:21 have a meaning only in the tasks of an eMMC.
                let huge = self.config.class == Class::Sduc;
                let task = Task { reliable: false, forced: false, ..Task::described(arg) };
                let strike = self.flash.faults.strike(Point::Task);
                let Some(task) = task.struck(strike) else { return Some(Reply::SILENT) };
                self.upper = huge.then_some((arg >> 24 & 0x3f) as u8);
                let good = queue.describe(task);
                Some(if good { self.r1(44, now_ns) } else { self.illegal() })
            }
            (45, _) => Some(self.task_address(arg, now_ns)),
            (46 | 47, Tran) => Some(self.execute_task(index, arg, now_ns)),
            (43, Tran) => Some(match self.flash.faults.strike(Point::Discard) {
                Some(Strike::Fail) => self.illegal(),
                _ => self.abort_tasks(arg, now_ns),
            }),
            (12, _) => {
                if state == Data {
                    queue.finish(load_ns, now_ns);
                }
                if self.flash.faults.strike(Point::Stop) == Some(Strike::Lost) {
                    queue.clear();
                }
                (state == Tran).then(|| self.r1(12, now_ns))
            }
            (0 | 13 | 15, _) => None,
            (19 | 32 | 33 | 38 | 48 | 49, _) if empty => None,
            _ => Some(self.illegal()),
        }
    }

    /// Returns the time in ns in which a flash unit loads the first page of a task into the task's
    /// buffer.
    fn load_ns(&self) -> u64 {
        self.flash.timing().read_first_ns
    }

    /// Puts a new queue mode into effect if its time has come, which empties the queue. Sets in the
    /// card status the error bits of queued writes whose busy has ended.
    pub(super) fn settle_queue(&mut self, now_ns: u64) {
        if let Some(queue) = &mut self.queue {
            self.status.raise(queue.due(now_ns));
            if self.extensions.queue_changes(now_ns) {
                queue.begin(self.extensions.queue_is_sequential());
            }
        }
    }

    /// Ends the task whose data have just ended; does nothing if the data belonged to no task.
    pub(super) fn task_ended(&mut self, now_ns: u64) {
        let load_ns = self.load_ns();
        let Some(queue) = self.queue.as_mut().filter(|queue| !queue.is_empty()) else { return };
        queue.finish(load_ns, now_ns);
        let every = self.config.quirks.queue_forgets_every;
        if every != 0 && self.executed.is_multiple_of(every) {
            queue.clear();
        }
    }

    /// Executes CMD45, whose argument is the task's block address, and queues the task that CMD44
    /// has described.
    fn task_address(&mut self, arg: u32, now_ns: u64) -> Reply {
        let (capacity, load_ns) = (self.config.capacity_bytes, self.load_ns());
        let upper = u64::from(self.upper.take().unwrap_or(0)) << 32;
        let Some((queue, task)) = self.queue.as_mut().and_then(|q| q.described().map(|task| (q, task)))
        else {
            return self.illegal();
        };
        let at = (upper | u64::from(arg)) * 512;
        if at.saturating_add(u64::from(task.blocks) * 512) > capacity {
            return self.refuse(45, status::OUT_OF_RANGE, now_ns);
        }
        let retries_ns = if task.read { self.flash.retries_ns() } else { 0 };
        queue.tell(Task { retries_ns, ..task.lies_at(at, capacity) }, load_ns, now_ns);
        self.r1(45, now_ns)
    }

    /// Executes CMD46 or CMD47 (`index`), which transfers the data of a ready task: bits 20:16 of
    /// `arg` are the task's number.
    fn execute_task(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        let (id, load_ns) = ((arg >> 16 & 0x1f) as u8, self.load_ns());
        let task = self.queue.as_mut().and_then(|queue| queue.execute(id, index == 46, load_ns, now_ns));
        let Some(task) = task else { return self.illegal() };
        let bytes = u64::from(task.blocks) * 512;
        self.executed = self.executed.wrapping_add(1);
        if index == 47 && (self.write_protected() || self.config.quirks.protects(task.at, bytes)) {
            self.task_ended(now_ns);
            return self.refuse(index, status::WP_VIOLATION, now_ns);
        }
        self.medium.begin();
        if task.read {
            let every = self.config.quirks.queue_astray_every;
            let astray = every != 0 && self.executed.is_multiple_of(every);
            let behind = task.at.saturating_add(bytes);
            let fits = behind.saturating_add(bytes) <= self.config.capacity_bytes;
            let at = if astray && fits { behind } else { task.at };
            let mut reply = self.go(46, State::Data, now_ns);
            reply.flow = Flow::Read { block_size: 512 };
            self.interface.data_end_ns = None;
            self.reads += 1;
            self.transfer = Transfer::Read(Read::loaded(at, 512, task.blocks.into(), now_ns));
            return reply;
        }
        self.well_written = 0;
        self.interface.busy_until_ns = now_ns;
        self.extra_busy_ns = 0;
        self.flash.journal.begin(now_ns);
        let write = Write::new(task.at, 512, Some(task.blocks.into()));
        self.receive(47, Transfer::Write { write, single: false }, 512, now_ns)
    }

    /// Executes CMD43: it aborts one task or all tasks.
    fn abort_tasks(&mut self, arg: u32, now_ns: u64) -> Reply {
        let load_ns = self.load_ns();
        let one = !self.extensions.queue_is_sequential();
        let Some(queue) = &mut self.queue else { return self.illegal() };
        let known = match arg & 0xf {
            ABORT_ALL => {
                queue.clear();
                true
            }
            ABORT_ONE if one => queue.discard((arg >> 16 & 0x1f) as u8, load_ns, now_ns),
            _ => false,
        };
        if !known {
            return self.illegal();
        }
        let mut reply = self.go(43, State::Prg, now_ns);
        self.interface.busy_until_ns = now_ns.saturating_add(ABORT_NS);
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        reply
    }
}
