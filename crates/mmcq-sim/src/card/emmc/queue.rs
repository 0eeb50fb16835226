//! The command queue of a device: CMD44 to CMD48, and CMD13 for the queue's status [eMMC 6.6.39].

use super::super::queue::Task;
use super::super::status::{self, State};
use super::super::transfer::{Read, Write};
use super::super::{Flow, Reply};
use super::config::byte;
use super::{EmmcCard, Transfer};
use crate::faults::{Point, Strike};

/// Bit of CMD13's argument that requests the queue status register (QSR) instead of the device
/// status.
const SEND_QUEUE_STATUS: u32 = 1 << 15;
/// Argument of CMD48 that discards all tasks of the queue.
const DISCARD_ALL: u32 = 1;
/// Argument of CMD48 that discards one task.
const DISCARD_ONE: u32 = 2;

impl EmmcCard {
    /// Returns whether the queue is on (CMDQ_MODE_EN).
    pub(super) fn queue_is_on(&self) -> bool {
        self.ext_csd[usize::from(byte::CMDQ_MODE_EN)] & 1 == 1
    }

    /// Returns whether the host may now write CMDQ_MODE_EN: the queue is empty, and RPMB is not
    /// selected.
    pub(super) fn queue_may_change(&self) -> bool {
        self.queue_is_idle() && self.partition != super::Partition::Rpmb
    }

    /// Returns whether the device holds no task: it has no queue, or its queue is empty.
    pub(super) fn queue_is_idle(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.is_empty())
    }

    /// Executes a command while the queue is on. Returns `None` for a command that works as without
    /// the queue.
    pub(super) fn queue_command(&mut self, index: u8, arg: u32, now_ns: u64) -> Option<Reply> {
        use State::{Data, Prg, Rcv, Stby, Tran};
        let state = self.interface.state;
        let load_ns = self.load_ns();
        let empty = self.queue_is_idle();
        let selected = matches!(state, Tran | Data | Rcv | Prg);
        let queue = self.queue.as_mut().filter(|_| selected || matches!(state, Stby))?;
        match (index, state) {
            (13, Tran | Data | Rcv | Prg) if arg & SEND_QUEUE_STATUS != 0 => {
                let addressed = (arg >> 16) as u16 == self.rca;
                // The card sends no status here, so no status bit is cleared.
                if !addressed {
                    return Some(Reply::SILENT);
                }
                let strike = self.flash.faults.strike(Point::Ready);
                let status = status::READY_FOR_DATA | (state as u32) << 9;
                Some(Reply::short(13, queue.says(strike, status, load_ns, now_ns)))
            }
            (44, Tran | Data | Rcv | Prg) => {
                let strike = self.flash.faults.strike(Point::Task);
                let Some(task) = Task::described(arg).struck(strike) else { return Some(Reply::SILENT) };
                let good = queue.describe(task);
                Some(if good { self.r1(44) } else { self.illegal() })
            }
            (45, Tran | Data | Rcv | Prg) => Some(self.task_address(arg, now_ns)),
            (46 | 47, Tran) => Some(self.execute_task(index, arg, now_ns)),
            (48, Tran) => Some(match self.flash.faults.strike(Point::Discard) {
                Some(Strike::Fail) => self.illegal(),
                _ => self.discard_tasks(arg, now_ns),
            }),
            (44..=48, _) => Some(self.illegal()),
            // Commands with data that belong to no task are illegal while the queue is on.
            (16..=18 | 23..=25, _) => Some(self.illegal()),
            // Commands that are legal only with an empty queue.
            (5 | 8 | 14 | 19 | 21 | 26..=31 | 35 | 36 | 38 | 42, _) if !empty => Some(self.illegal()),
            (12, _) => {
                if state == Data {
                    queue.finish(load_ns, now_ns);
                }
                if self.flash.faults.strike(Point::Stop) == Some(Strike::Lost) {
                    queue.clear();
                }
                None
            }
            _ => None,
        }
    }

    /// Returns the time in ns in which a flash unit loads the first page of a task into the task's
    /// buffer.
    fn load_ns(&self) -> u64 {
        self.flash.timing().read_first_ns
    }

    /// Ends the task whose data have just ended; does nothing if the data belonged to no task.
    pub(super) fn task_ended(&mut self, now_ns: u64) {
        let load_ns = self.load_ns();
        if let Some(queue) = &mut self.queue {
            queue.finish(load_ns, now_ns);
        }
    }

    /// Executes CMD45: it carries the address of a task and queues the task.
    fn task_address(&mut self, arg: u32, now_ns: u64) -> Reply {
        let at = self.byte_address(arg);
        let (capacity, load_ns) = (self.capacity(), self.load_ns());
        let Some((queue, task)) = self.queue.as_mut().and_then(|q| q.described().map(|task| (q, task)))
        else {
            return self.illegal();
        };
        if at.saturating_add(u64::from(task.blocks) * 512) > capacity {
            return self.refuse(45, status::OUT_OF_RANGE);
        }
        if !at.is_multiple_of(512) {
            return self.refuse(45, status::ADDRESS_ERROR);
        }
        let retries_ns = if task.read { self.flash.retries_ns() } else { 0 };
        queue.tell(Task { retries_ns, ..task.lies_at(at, capacity) }, load_ns, now_ns);
        self.r1(45)
    }

    /// Executes CMD46 and CMD47: they transfer the data of a ready task.
    fn execute_task(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        let (id, load_ns) = ((arg >> 16 & 0x1f) as u8, self.load_ns());
        let task = self.queue.as_mut().and_then(|queue| queue.execute(id, index == 46, load_ns, now_ns));
        let Some(task) = task else { return self.illegal() };
        let bytes = u64::from(task.blocks) * 512;
        let odd = task.reliable && !self.config.takes_reliable(task.at, task.blocks.into());
        let refused = if self.transfer_len() != 512 || odd {
            status::BLOCK_LEN_ERROR
        } else if index == 47 && self.write_protected(task.at, bytes) {
            status::WP_VIOLATION
        } else {
            0
        };
        if refused != 0 {
            self.task_ended(now_ns);
            return self.refuse(index, refused);
        }
        if let Some(medium) = self.store_mut(self.partition) {
            medium.begin();
        }
        if task.read {
            let mut reply = self.go(46, State::Data);
            reply.flow = Flow::Read { block_size: 512 };
            self.interface.data_end_ns = None;
            self.reads += 1;
            self.transfer = Transfer::Read(Read::loaded(task.at, 512, task.blocks.into(), now_ns));
            return reply;
        }
        self.interface.busy_until_ns = now_ns;
        self.extra_busy_ns = self.neglected_ns();
        self.flash.partition = self.partition.number();
        self.flash.journal.begin(now_ns);
        let mut write = Write::new(task.at, 512, Some(task.blocks.into()));
        write.reliable = task.reliable;
        write.past_cache = task.reliable || task.forced;
        self.receive(47, Transfer::Write { write, single: false }, 512)
    }

    /// Executes CMD48, which discards one task or all tasks, as `arg` says.
    fn discard_tasks(&mut self, arg: u32, now_ns: u64) -> Reply {
        let load_ns = self.load_ns();
        let Some(queue) = &mut self.queue else { return self.illegal() };
        let known = match arg & 0xf {
            DISCARD_ALL => {
                queue.clear();
                true
            }
            DISCARD_ONE => queue.discard((arg >> 16 & 0x1f) as u8, load_ns, now_ns),
            _ => false,
        };
        if !known {
            return self.illegal();
        }
        let mut reply = self.go(48, State::Prg);
        self.interface.busy_until_ns = now_ns.saturating_add(self.config.switch_ns);
        reply.busy_until_ns = Some(self.interface.busy_until_ns);
        reply
    }
}
