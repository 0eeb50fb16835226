//! Controllers with a command queue engine, which works on more than one phase at a time.
//!
//! A *task* is a read or write of blocks that is described in memory and started by a doorbell. The
//! controller announces it to the card, polls whether the card is ready, transfers the data, and
//! reports the end: in any order. Read first: [`CommandQueueHost`]. In this file "the engine" is
//! the controller's command queue engine.

use super::events::explain;
use super::{Cause, Direction, DmaError, Segment, Stage};
use crate::spec::command::Command;
use core::fmt;

/// Options of a task; combine several with [`with`](TaskFlags::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFlags(u32);

impl TaskFlags {
    /// No option.
    pub const NONE: TaskFlags = TaskFlags(0);
    /// The card programs it, and does not keep it in its cache: forced programming.
    pub const FORCED: TaskFlags = TaskFlags(1 << 6);
    /// The card keeps the data in its faster part: data tag.
    pub const TAGGED: TaskFlags = TaskFlags(1 << 11);
    /// The task goes before tasks of simple priority, if the card supports it.
    pub const PRIORITY: TaskFlags = TaskFlags(1 << 13);
    /// The task is executed after all that were rung before it, and before all that are rung after
    /// it.
    pub const BARRIER: TaskFlags = TaskFlags(1 << 14);
    /// After a power failure each block is old or new, and none is a mixture: reliable write.
    pub const RELIABLE: TaskFlags = TaskFlags(1 << 15);
    /// The task's end interrupts at once where ends are [coalesced](Coalescing).
    pub const AT_ONCE: TaskFlags = TaskFlags(1 << 2);

    /// Returns both sets together.
    pub const fn with(self, other: TaskFlags) -> TaskFlags {
        TaskFlags(self.0 | other.0)
    }

    /// Returns whether all of `other` are set.
    pub const fn has(self, other: TaskFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bits of a task descriptor [eMMC 5.1, B.4].
    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// A read or write of blocks of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The direction.
    pub direction: Direction,
    /// First block, or first byte on cards that count bytes.
    pub address: u32,
    /// Blocks, at least 1.
    pub blocks: u16,
    /// The options.
    pub flags: TaskFlags,
    /// Context of the card, 0 to 15; 0: none.
    pub context: u8,
}

/// Coalescing of ends: several ends raise one interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Number of ended tasks that raises an interrupt, 1 to 31.
    pub tasks: u8,
    /// Longest wait of an end for its interrupt, in nanoseconds. It is rounded up to the timer's
    /// step, and is at most what the timer can count (127 times 1024 clocks with CQHCI).
    pub wait_ns: u64,
}

/// Settings of the engine when it is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The card's address, to read the status of its queue.
    pub rca: u16,
    /// Time between polls of the card while nothing is ready, in nanoseconds.
    pub poll_ns: u64,
    /// Number of blocks of a task that are left when the card is also polled during data, 1 to 15;
    /// 0: it is polled only while the data lines are idle, which every controller can do.
    pub poll_blocks: u8,
    /// Coalescing of ends; `None`: each end raises an interrupt.
    pub coalescing: Option<Coalescing>,
    /// Longest time that the card may take for data and busy of a task, in nanoseconds, for the
    /// controller's own timer; `u64::MAX`: the timer's maximum.
    pub timeout_ns: u64,
    /// Bits of an R1 that stop the queue ([`QueueFault::response`] has it then).
    pub r1_errors: u32,
}

setters!(QueueSettings {
    rca: u16,
    poll_ns: u64,
    poll_blocks: u8,
    coalescing: Option<Coalescing>,
    timeout_ns: u64,
    r1_errors: u32,
});

impl QueueSettings {
    /// Makes settings for the card with this address: polls each 10 us, never during data, an
    /// interrupt for each task, the longest timeout, and all error bits of an R1.
    pub const fn new(rca: u16) -> Self {
        // Neither EXCEPTION_EVENT nor CARD_IS_LOCKED: they are no errors of a task.
        const ERRORS: u32 = 0xfdf9_a080;
        QueueSettings {
            rca,
            poll_ns: 10_000,
            poll_blocks: 0,
            coalescing: None,
            timeout_ns: u64::MAX,
            r1_errors: ERRORS,
        }
    }
}

/// Capabilities of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCaps {
    /// Version: major number in 11:8, minor number in 7:4, suffix in 3:0.
    pub version: u16,
    /// Number of slots for tasks, from slot 0 on.
    pub depth: u8,
    /// The slot for single commands ([`CommandQueueHost::prepare_command`]).
    pub direct: Option<u8>,
    /// Whether task descriptors have 128 bits, and addresses 64.
    pub wide: bool,
    /// Most segments of memory in a task.
    pub max_segments: u16,
    /// Most bytes in a task.
    pub max_bytes: u32,
    /// Frequency of the clock that [`QueueSettings::poll_ns`] is counted in, in hertz.
    pub timer_hz: u32,
}

impl QueueCaps {
    /// The capabilities of no engine: a driver sets its own ones, and takes the rest from here.
    pub const NONE: QueueCaps = QueueCaps {
        version: 0,
        depth: 0,
        direct: None,
        wide: false,
        max_segments: 0,
        max_bytes: 0,
        timer_hz: 0,
    };
}

setters!(QueueCaps {
    version: u16,
    depth: u8,
    direct: Option<u8>,
    wide: bool,
    max_segments: u16,
    max_bytes: u32,
    timer_hz: u32,
});

/// State of the tasks in the engine's registers: one bit for each slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Tasks that were rung, and are not done.
    pub rung: u32,
    /// Tasks that are done, and not acknowledged.
    pub done: u32,
    /// Tasks that the card knows.
    pub known: u32,
    /// The card's last report of ready tasks.
    pub ready: u32,
}

/// A fault of the engine. It sends no further command until it was halted.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFault {
    /// The fault.
    pub cause: Cause,
    /// The part of the task.
    pub stage: Stage,
    /// The command at which it happened; `None`: not known.
    pub index: Option<u8>,
    /// Slot of its task, which was rung; `None`: not known.
    pub slot: Option<u8>,
    /// The R1 with an error bit, if there was one; there may be another fault besides.
    pub response: Option<u32>,
}

impl fmt::Display for QueueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (party, what) = explain(self.cause, self.stage);
        write!(f, "{party} {what}")?;
        match (self.index, self.slot) {
            (Some(index), Some(slot)) => write!(f, ": CMD{index} of task {slot}"),
            (Some(index), None) => write!(f, ": CMD{index}"),
            (None, Some(slot)) => write!(f, ": task {slot}"),
            (None, None) => f.write_str(", at a task that the queue engine does not name"),
        }
    }
}

impl core::error::Error for QueueFault {}

/// Events that [`CommandQueueHost::ack_queue`] returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueEvents {
    /// Slots whose task has ended well.
    pub done: u32,
    /// Slots that were reported as done and are not: not rung, or still waiting.
    pub stale: u32,
    /// Slots that were cleared: their tasks are dropped, and their memory is released.
    pub cleared: u32,
    /// The response of the command in [`QueueCaps::direct`], if that is done.
    pub response: Option<u32>,
    /// The engine has halted: phases can be started.
    pub halted: bool,
    /// All tasks were cleared, and the engine is off.
    pub emptied: bool,
    /// A fault.
    pub fault: Option<QueueFault>,
    /// As [`Events::card_irq`](super::Events::card_irq).
    pub card_irq: bool,
    /// As [`Events::presence`](super::Events::presence).
    pub presence: bool,
    /// As [`Events::retune`](super::Events::retune).
    pub retune: bool,
}

/// Why the engine did not do what was requested.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueError {
    /// The version register has an unknown value.
    Version(u32),
    /// Neither the capabilities nor the board give a clock: the value of the register.
    Timer(u32),
    /// The controller transfers data by its CPU or by SDMA, and tasks need descriptors.
    Transfer,
    /// The list of tasks cannot be used for DMA.
    List(DmaError),
    /// A phase is in progress, or the lines are in use.
    Busy,
    /// The buffer still has data of a tuning that cannot be read out.
    Buffer,
    /// The engine is not on after it was switched on: the value of its configuration.
    StaysOff(u32),
    /// The engine halts by itself, or does not resume. Some need a second call after 50 us.
    StaysHalted,
    /// The call needs another state: on, halted or off.
    State,
    /// Tasks are under way: wait for their end or clear them first.
    Occupied(u32),
    /// There is no such slot, or it is not for this kind.
    Slot(u8),
    /// The engine has so few slots, or tasks of so few bytes, that it is of no use.
    Small {
        /// Number of slots for tasks.
        slots: u8,
        /// Most bytes in a task.
        bytes: u32,
    },
    /// The memory is too short, in too many segments, or for transfers by the CPU.
    Memory,
    /// The task has no blocks, or a context or command that does not exist.
    Unsupported,
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueError::Version(seen) => {
                write!(f, "command queue: version register is {seen:#010x}, expected 5.x (0x00000510)")
            }
            QueueError::Timer(seen) => write!(
                f,
                "command queue: capabilities are {seen:#010x}, expected a timer clock in 15:12 (0 to 4) and \
                 9:0 (not 0), or that of the board"
            ),
            QueueError::Transfer => {
                f.write_str("command queue: needs ADMA2, and the driver uses another mode")
            }
            QueueError::List(why) => write!(f, "command queue: task list cannot be used for DMA: {why}"),
            QueueError::Busy => f.write_str("command queue: a phase is in progress, or the lines are in use"),
            QueueError::Buffer => f.write_str("command queue: the controller's buffer does not become empty"),
            QueueError::StaysOff(seen) => {
                write!(f, "command queue: switched on, its configuration reads {seen:#010x}")
            }
            QueueError::StaysHalted => f.write_str("command queue: it does not leave its halt"),
            QueueError::State => f.write_str("command queue: on, halted or off, where this needs another"),
            QueueError::Occupied(slots) => {
                write!(f, "command queue: tasks {slots:#010x} are neither done nor cleared")
            }
            QueueError::Slot(slot) => write!(f, "command queue: slot {slot} is none for this"),
            QueueError::Small { slots, bytes } => {
                write!(
                    f,
                    "command queue: {slots} slots for tasks of {bytes} bytes, expected 2 of 512 or more"
                )
            }
            QueueError::Memory => {
                f.write_str("command queue: memory too short, in too many pieces, or moved by the CPU")
            }
            QueueError::Unsupported => f.write_str("command queue: no such task"),
        }
    }
}

impl core::error::Error for QueueError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            QueueError::List(why) => Some(why),
            _ => None,
        }
    }
}

/// A [`Host`](super::Host) with an engine for the card's queue. No method blocks.
///
/// The engine is off, on, or halted. While it is off or halted, phases can be started; while it is
/// on, they are refused and tasks can be rung. Calls that take a while are requests;
/// [`ack_queue`](Self::ack_queue) reports their end.
/// [`BusOp::ResetLines`](super::BusOp::ResetLines), [`BusOp::ResetAll`](super::BusOp::ResetAll) and
/// a change of the supply switch the engine off and drop its tasks.
///
/// # Safety
/// A driver promises for a task's memory what [`Host`](super::Host) promises for a phase's. It
/// *has* the memory from the [`prepare_task`](Self::prepare_task) that returned `Ok` with it. It
/// has released it when
/// - [`ack_queue`](Self::ack_queue) reports the slot in [`QueueEvents::done`] or
///   [`QueueEvents::cleared`], or
/// - the slot was never rung, and is [withdrawn](Self::withdraw) or prepared anew, or
/// - one of the ends of [`Host`](super::Host) that need no `Ok` of a phase: a reset, a controller
///   that is [gone](Cause::Gone), or isolation.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait CommandQueueHost {
    /// Returns the engine's capabilities, or the reason why it can never be used.
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError>;

    /// Switches the engine on. The card's own queue is already on. No phase is in progress.
    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError>;

    /// Switches the engine off; no task is rung any more.
    fn disable_queue(&mut self) -> Result<(), QueueError>;

    /// Describes a task in a free slot. `segments` are mapped, in order, and have the blocks. A
    /// task that was prepared in the slot before is dropped, even if this one is refused.
    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError>;

    /// Describes a command without data in [`QueueCaps::direct`]. `barrier`: as
    /// [`TaskFlags::BARRIER`].
    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError>;

    /// Drops tasks that are prepared and were not rung: their memory is released.
    fn withdraw(&mut self, slots: u32);

    /// Rings the doorbells of slots that are prepared, the lowest first. Returns those that were
    /// rung.
    fn ring(&mut self, slots: u32) -> u32;

    /// Acknowledges all events of the engine, and returns them. Called from the interrupt, and
    /// before a deadline counts as missed. Events that it has not read keep the interrupt line
    /// asserted.
    fn ack_queue(&mut self) -> QueueEvents;

    /// Acknowledges ends as [`ack_queue`](Self::ack_queue) does, in short form: returns the slots
    /// whose task has ended well, if there is no other event. 0: call the long form.
    fn ack_ends(&mut self) -> u32 {
        0
    }

    /// Requests the engine to end what it executes, and to halt; [`QueueEvents::halted`] reports
    /// it.
    fn halt_queue(&mut self) -> Result<(), QueueError>;

    /// Resumes after a halt.
    fn resume_queue(&mut self) -> Result<(), QueueError>;

    /// Requests to take the task of this slot out of the halted engine; [`QueueEvents::cleared`]
    /// reports it. The card is not notified.
    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError>;

    /// Requests to take out all tasks; [`QueueEvents::emptied`] reports it. The engine is off
    /// afterwards, so that it cannot report any of them later.
    fn clear_tasks(&mut self) -> Result<(), QueueError>;

    /// Returns the state in the registers, for a deadline that has passed.
    fn queue_state(&self) -> QueueState;
}
