//! The interface of controllers with a command queue engine, which executes several tasks at a
//! time.
//!
//! A *task* is a read or write of blocks that is described in memory and started by a doorbell. The
//! controller announces the task to the card, polls whether the card is ready, transfers the data,
//! and reports the end. Tasks may end in any order. Read first: [`CommandQueueHost`]. In this file
//! "the engine" is the controller's command queue engine.

use super::events::explain;
use super::{Cause, Direction, DmaError, Segment, Stage};
use crate::spec::command::Command;
use core::fmt;

/// Options of a task; combine several with [`with`](TaskFlags::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFlags(u32);

impl TaskFlags {
    /// A set without options.
    pub const NONE: TaskFlags = TaskFlags(0);
    /// Forced programming: the card writes the data to the medium, and does not only keep them in
    /// its cache.
    pub const FORCED: TaskFlags = TaskFlags(1 << 6);
    /// Data tag: the card keeps the data in its faster part.
    pub const TAGGED: TaskFlags = TaskFlags(1 << 11);
    /// Priority: the card executes the task before tasks of simple priority, if it supports that.
    pub const PRIORITY: TaskFlags = TaskFlags(1 << 13);
    /// Queue barrier: the card executes the task after all tasks started before it, and before all
    /// tasks started after it.
    pub const BARRIER: TaskFlags = TaskFlags(1 << 14);
    /// Reliable write: after a power failure each block has either its old or its new content,
    /// never a mixture.
    pub const RELIABLE: TaskFlags = TaskFlags(1 << 15);
    /// The end of the task raises an interrupt at once, even if ends are [coalesced](Coalescing).
    pub const AT_ONCE: TaskFlags = TaskFlags(1 << 2);

    /// Returns the options of both sets.
    pub const fn with(self, other: TaskFlags) -> TaskFlags {
        TaskFlags(self.0 | other.0)
    }

    /// Returns whether the set contains all options of `other`.
    pub const fn has(self, other: TaskFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the options as bits of a task descriptor [eMMC 5.1, B.4].
    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// A read or write of blocks of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Direction of the data.
    pub direction: Direction,
    /// First block, or first byte on cards that are addressed in bytes.
    pub address: u32,
    /// Number of blocks, at least 1.
    pub blocks: u16,
    /// Options of the task.
    pub flags: TaskFlags,
    /// Context ID of the card, 1 to 15; 0 for no context.
    pub context: u8,
}

/// Coalescing of task ends: several ends raise one interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Number of ended tasks that raises an interrupt, 1 to 31.
    pub tasks: u8,
    /// Longest time from the end of a task to its interrupt, in nanoseconds. The driver rounds it
    /// up to a step of the timer, and limits it to the timer's maximum (127 times 1024 clocks with
    /// CQHCI).
    pub wait_ns: u64,
}

/// Settings with which the controller's command queue engine is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The card's relative address (RCA), which the engine needs to read the status of the card's
    /// queue.
    pub rca: u16,
    /// Time between two polls of the card while no task is ready, in nanoseconds.
    pub poll_ns: u64,
    /// The engine polls the card also during data, when this many blocks of a task are left (1 to
    /// 15). With 0 it polls only while the data lines are idle, which every controller can do.
    pub poll_blocks: u8,
    /// Coalescing of task ends; `None` if each end raises an interrupt.
    pub coalescing: Option<Coalescing>,
    /// Longest time that the card may take for data and busy of a task, in nanoseconds. The driver
    /// sets the controller's timer by it; `u64::MAX` selects the timer's maximum.
    pub timeout_ns: u64,
    /// Bits of an R1 that stop the queue; [`QueueFault::response`] then has the R1.
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
    /// Makes settings for the card with address `rca`: polls each 10 us but never during data, an
    /// interrupt for each task, the longest timeout, and all error bits of an R1.
    pub const fn new(rca: u16) -> Self {
        // EXCEPTION_EVENT and CARD_IS_LOCKED are left out: they are no errors of a task.
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

/// Capabilities of a command queue engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCaps {
    /// Version of CQHCI: major number in 11:8, minor number in 7:4, suffix in 3:0.
    pub version: u16,
    /// Number of task slots, which begin with slot 0.
    pub depth: u8,
    /// The slot for direct commands ([`CommandQueueHost::prepare_command`]); `None` if there is
    /// none.
    pub direct: Option<u8>,
    /// Whether task descriptors have 128 bits and DMA addresses 64 bits.
    pub wide: bool,
    /// Largest number of memory segments in a task.
    pub max_segments: u16,
    /// Largest number of bytes in a task.
    pub max_bytes: u32,
    /// Frequency in hertz of the engine's timer, which counts [`QueueSettings::poll_ns`] and
    /// [`Coalescing::wait_ns`].
    pub timer_hz: u32,
}

impl QueueCaps {
    /// Values from which a driver starts: it sets its own capabilities, and keeps the other fields.
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

/// State of the tasks in the registers of the command queue engine. In each field, a bit stands for
/// a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Slots whose doorbell was written, and whose task is not done; one bit for each slot.
    pub rung: u32,
    /// Slots whose task is done, but was not acknowledged by the driver; one bit for each slot.
    pub done: u32,
    /// Slots whose task was sent to the card and is not done yet; one bit for each slot.
    pub known: u32,
    /// Slots whose task was ready in the last report of the card; one bit for each slot.
    pub ready: u32,
}

/// A fault of the command queue engine, which sends no further command until it has been halted.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFault {
    /// Cause of the fault.
    pub cause: Cause,
    /// The part of the task in which the fault happened: its command, its data, or its busy.
    pub stage: Stage,
    /// Index of the command that failed; `None` if not known.
    pub index: Option<u8>,
    /// Slot of the task that failed; `None` if not known, or if the doorbell of that slot was not
    /// written.
    pub slot: Option<u8>,
    /// The R1 that had an error bit, if there was one; another fault may have happened too.
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
    /// Slots whose task has ended without a fault, one bit for each slot.
    pub done: u32,
    /// Slots that the engine wrongly reported as done: the task was not started, is being cleared,
    /// or its doorbell is still set. The tasks do not count as done. One bit for each slot.
    pub stale: u32,
    /// Slots that were cleared, one bit for each: their tasks are dropped, and the command queue
    /// engine does not access their memory any more.
    pub cleared: u32,
    /// The R1 of the command in slot [`QueueCaps::direct`], if the command is done.
    pub response: Option<u32>,
    /// Whether the engine has halted, so that the driver can start commands outside of the queue.
    pub halted: bool,
    /// Whether all tasks were cleared, and the command queue engine is off.
    pub emptied: bool,
    /// The fault that stopped the controller's command queue engine; `None`: it works.
    pub fault: Option<QueueFault>,
    /// Whether a function requests attention: see [`Events::card_irq`](super::Events::card_irq).
    pub card_irq: bool,
    /// Whether the state of the card slot has changed: see
    /// [`Events::presence`](super::Events::presence).
    pub presence: bool,
    /// Whether the controller requests a new tuning: see [`Events::retune`](super::Events::retune).
    pub retune: bool,
}

/// Why the engine refused or failed to do what was requested.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueError {
    /// The version register has this value, which the driver does not know.
    Version(u32),
    /// Neither the capabilities nor the board give the frequency of the timer; the value is the
    /// capability register.
    Timer(u32),
    /// The controller transfers data by the CPU or by SDMA, but tasks need descriptors.
    Transfer,
    /// The memory of the task list cannot be used for DMA.
    List(DmaError),
    /// A phase is in progress, or the bus lines are in use.
    Busy,
    /// The controller's data buffer still has data of a tuning, which the driver cannot read out.
    Buffer,
    /// The engine did not switch on; the value is its configuration register.
    StaysOff(u32),
    /// The engine is halted although it was just switched on or resumed. Some engines need a second
    /// call of the same method after 50 us.
    StaysHalted,
    /// The call needs another state of the engine: on, halted or off.
    State,
    /// Tasks are in progress (one bit for each slot): wait for their end or clear them first.
    Occupied(u32),
    /// The slot does not exist, or is not for this kind of task.
    Slot(u8),
    /// The command queue engine has too few slots for several tasks at a time, or its tasks hold
    /// less than one block.
    Small {
        /// Number of task slots.
        slots: u8,
        /// Largest number of bytes in a task.
        bytes: u32,
    },
    /// The memory is shorter than the task's data, in too many segments, or must be transferred by
    /// the CPU.
    Memory,
    /// The task has no blocks, or its context or command does not exist.
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

/// A [`Host`](super::Host) with a command queue engine. No method blocks.
///
/// The engine is off, on, or halted. While it is off or halted, phases can be started. While it is
/// on, phases are refused, and tasks can be started by their doorbells. Methods that need time only
/// make a request; [`ack_queue`](Self::ack_queue) reports their end.
/// [`BusOp::ResetLines`](super::BusOp::ResetLines), [`BusOp::ResetAll`](super::BusOp::ResetAll) and
/// a change of the supply switch the engine off and drop its tasks.
///
/// # Safety
/// A driver promises for a task's memory what [`Host`](super::Host) promises for a phase's. The
/// driver *has* the memory from the [`prepare_task`](Self::prepare_task) that returned `Ok` with
/// it. The driver has released the memory when
/// - [`ack_queue`](Self::ack_queue) reports the slot in [`QueueEvents::done`] or
///   [`QueueEvents::cleared`], or
/// - the slot was never started, and is [withdrawn](Self::withdraw) or prepared again, or
/// - one of the conditions is met that [`Host`](super::Host) lists beside the end of a phase: a
///   reset, a controller that is [gone](Cause::Gone), or isolation.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait CommandQueueHost {
    /// Returns the engine's capabilities, or the reason why the engine can never be used.
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError>;

    /// Switches the command queue engine on. Before the call, the caller has enabled the card's own
    /// queue, and the controller executes nothing.
    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError>;

    /// Switches the command queue engine off. Before the call, all tasks have ended.
    fn disable_queue(&mut self) -> Result<(), QueueError>;

    /// Describes a task in a free slot. `segments` are mapped, in order, and hold the blocks. A
    /// task that was prepared in the slot before is dropped, even if the new one is refused.
    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError>;

    /// Describes a command without data in slot [`QueueCaps::direct`]. With `barrier` the command
    /// is a barrier, like [`TaskFlags::BARRIER`]. A command that was prepared before is dropped,
    /// even if the new one is refused.
    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError>;

    /// Drops the prepared tasks of these slots (one bit for each slot) before they are started, and
    /// so releases their memory.
    fn withdraw(&mut self, slots: u32);

    /// Starts the prepared tasks of these slots (one bit for each slot) by their doorbells. The
    /// engine begins with the lowest slot. Returns the slots whose doorbell was written.
    fn ring(&mut self, slots: u32) -> u32;

    /// Acknowledges all events of the command queue engine, and returns them. Called from the
    /// interrupt, and before a deadline counts as missed. Events that the method has not read keep
    /// the interrupt line asserted.
    fn ack_queue(&mut self) -> QueueEvents;

    /// Acknowledges task ends like [`ack_queue`](Self::ack_queue), in short form. Returns the slots
    /// whose task has ended without a fault, if no other event occurred. 0 means that the caller
    /// must call [`ack_queue`](Self::ack_queue).
    fn ack_ends(&mut self) -> u32 {
        0
    }

    /// Requests the command queue engine to halt when the task in progress has ended;
    /// [`QueueEvents::halted`] reports the halt.
    fn halt_queue(&mut self) -> Result<(), QueueError>;

    /// Resumes the command queue engine after a halt.
    fn resume_queue(&mut self) -> Result<(), QueueError>;

    /// Requests the command queue engine, which has halted, to clear the task of slot `slot`;
    /// [`QueueEvents::cleared`] reports it. The card is not notified.
    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError>;

    /// Requests the command queue engine to clear all tasks; [`QueueEvents::emptied`] reports it.
    /// The command queue engine is off afterwards, so that it cannot report any of the tasks later.
    fn clear_tasks(&mut self) -> Result<(), QueueError>;

    /// Returns the state of the tasks in the registers, to find the cause when a deadline has
    /// passed.
    fn queue_state(&self) -> QueueState;
}
