//! What a controller with a command queueing engine can do beyond one phase at a time.
//!
//! A *task* is a read or write of blocks that is described in memory and announced by a doorbell.
//! The controller tells the card of it, asks when the card is ready, moves the data, and reports
//! the end: in any order. Read first: [`CommandQueueHost`].

use super::events::explain;
use super::{Cause, Direction, DmaError, Segment, Stage};
use crate::spec::command::Command;
use core::fmt;

/// What a task asks for beside its blocks; join several with [`with`](TaskFlags::with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFlags(u32);

impl TaskFlags {
    /// Nothing more.
    pub const NONE: TaskFlags = TaskFlags(0);
    /// The card programs it, and does not keep it in its cache: forced programming.
    pub const FORCED: TaskFlags = TaskFlags(1 << 6);
    /// The data are of the kind that the card keeps where it is fast: data tag.
    pub const TAGGED: TaskFlags = TaskFlags(1 << 11);
    /// Before tasks of simple priority, where the card looks at that.
    pub const PRIORITY: TaskFlags = TaskFlags(1 << 13);
    /// Executed after all that were rung before it, and before all that are rung after it.
    pub const BARRIER: TaskFlags = TaskFlags(1 << 14);
    /// A power failure leaves old or new blocks, and no mixture: reliable write.
    pub const RELIABLE: TaskFlags = TaskFlags(1 << 15);
    /// Its end interrupts at once where ends are [coalesced](Coalescing).
    pub const AT_ONCE: TaskFlags = TaskFlags(1 << 2);

    /// These and those.
    pub const fn with(self, other: TaskFlags) -> TaskFlags {
        TaskFlags(self.0 | other.0)
    }

    /// Are all of `other` set?
    pub const fn has(self, other: TaskFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// As a task descriptor has them [eMMC 5.1, B.4].
    pub(super) const fn bits(self) -> u32 {
        self.0
    }
}

/// A read or write of blocks of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Which way.
    pub direction: Direction,
    /// First block, or first byte on cards that count bytes.
    pub address: u32,
    /// Blocks, at least 1.
    pub blocks: u16,
    /// What else.
    pub flags: TaskFlags,
    /// Context of the card, 0 to 15; 0: none.
    pub context: u8,
}

/// How many ends are told by one interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// That of so many tasks, 1 to 31.
    pub tasks: u8,
    /// No end waits longer than this, in nanoseconds. It is rounded up to the timer's step, and is
    /// at most what the timer can count (127 times 1024 clocks with CQHCI).
    pub wait_ns: u64,
}

/// What the engine of a card's queue is told when it is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// The card's address, for the status of its queue.
    pub rca: u16,
    /// While nothing is ready the card is asked again after this time, in nanoseconds.
    pub poll_ns: u64,
    /// The card is also asked beside data, when so many blocks of a task are left, 1 to 15; 0: only
    /// while the data lines are idle, which every controller can do.
    pub poll_blocks: u8,
    /// How many ends are told by one interrupt; `None`: one.
    pub coalescing: Option<Coalescing>,
    /// The longest time that the card may take for data and busy of a task, in nanoseconds, for the
    /// controller's own timer; `u64::MAX`: as long as that can wait.
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
    /// For the card with this address: asked each 10 us, never beside data, an interrupt for each
    /// task, the longest timeout, and all error bits of an R1.
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

/// What a queue engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCaps {
    /// Version: major number in 11:8, minor number in 7:4, suffix in 3:0.
    pub version: u16,
    /// Slots for tasks, from slot 0 on.
    pub depth: u8,
    /// The slot of commands ([`CommandQueueHost::prepare_command`]).
    pub direct: Option<u8>,
    /// Task descriptors have 128 bits, and addresses 64.
    pub wide: bool,
    /// Pieces of memory in a task.
    pub max_segments: u16,
    /// Bytes in a task.
    pub max_bytes: u32,
    /// The clock that [`QueueSettings::poll_ns`] is counted in, in hertz.
    pub timer_hz: u32,
}

impl QueueCaps {
    /// Those of no engine; a driver names what it has and takes the rest from here.
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

/// What the engine's registers say of its tasks: one bit for each slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Rung, and not done.
    pub rung: u32,
    /// Done, and not acknowledged.
    pub done: u32,
    /// The card knows them.
    pub known: u32,
    /// The card's last answer to what is ready.
    pub ready: u32,
}

/// What went wrong. The engine sends no further command until it was halted.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFault {
    /// What.
    pub cause: Cause,
    /// Where.
    pub stage: Stage,
    /// The command at which it happened, if the engine knows.
    pub index: Option<u8>,
    /// Its slot, if the engine knows; one that was rung.
    pub slot: Option<u8>,
    /// The R1 that had an error bit, if one had: it may be beside another fault.
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

/// What [`CommandQueueHost::ack_queue`] found.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueEvents {
    /// Slots whose task is done, well.
    pub done: u32,
    /// Slots that were called done and are not: not rung, or still waiting.
    pub stale: u32,
    /// Slots that were cleared: their tasks are forgotten, and their memory is let go.
    pub cleared: u32,
    /// The response of the command in [`QueueCaps::direct`], if that is done.
    pub response: Option<u32>,
    /// The engine has halted: phases can be started.
    pub halted: bool,
    /// All tasks were cleared; the engine is off.
    pub emptied: bool,
    /// Something went wrong.
    pub fault: Option<QueueFault>,
    /// As [`Events::card_irq`](super::Events::card_irq).
    pub card_irq: bool,
    /// As [`Events::presence`](super::Events::presence).
    pub presence: bool,
    /// As [`Events::retune`](super::Events::retune).
    pub retune: bool,
}

/// Why the engine did not do what it was asked for.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueError {
    /// There is no such version: what the register says.
    Version(u32),
    /// The capabilities name no clock, and the board neither: what the register says.
    Timer(u32),
    /// The controller moves data by its CPU or by SDMA, and tasks need descriptors.
    Transfer,
    /// The list of tasks cannot be used for DMA.
    List(DmaError),
    /// A phase is in progress, or the lines are in use.
    Busy,
    /// The buffer still has data of a tuning that cannot be read out.
    Buffer,
    /// The engine is not on after it was switched on: what its configuration reads.
    StaysOff(u32),
    /// The engine halts by itself, or does not go on. Some need a second call after 50 us.
    StaysHalted,
    /// Not in the state that this needs: on, halted or off.
    State,
    /// Tasks are under way: they are to be done or cleared first.
    Occupied(u32),
    /// There is no such slot, or not for this.
    Slot(u8),
    /// So few slots, or tasks of so few bytes, are of no use.
    Small {
        /// Slots for tasks.
        slots: u8,
        /// Bytes in a task.
        bytes: u32,
    },
    /// The memory is too short, in too many pieces, or moved by the CPU.
    Memory,
    /// No blocks, or a context or command that does not exist.
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
/// The engine is off, on, or halted. Off or halted, phases can be started; on, they are refused and
/// tasks can be rung. What takes a while is a request; [`ack_queue`](Self::ack_queue) tells its
/// end. [`BusOp::ResetLines`](super::BusOp::ResetLines), [`BusOp::ResetAll`](super::BusOp::ResetAll)
/// and a change of the supply switch it off and forget its tasks.
///
/// # Safety
/// A driver promises of a task's memory what [`Host`](super::Host) promises of a phase's. It *has*
/// the memory from the [`prepare_task`](Self::prepare_task) that returned `Ok` with it. It has let
/// go when
/// - [`ack_queue`](Self::ack_queue) reports the slot in [`QueueEvents::done`] or
///   [`QueueEvents::cleared`], or
/// - the slot was never rung, and is [withdrawn](Self::withdraw) or prepared anew, or
/// - one of the ends of [`Host`](super::Host) that need no `Ok` of a phase: a reset, a controller
///   that is [gone](Cause::Gone), or isolation.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait CommandQueueHost {
    /// What the engine can do; or why it is of no use, for good.
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError>;

    /// Switches the engine on. The card's own queue is on before. No phase is in progress.
    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError>;

    /// Switches it off; nothing is rung any more.
    fn disable_queue(&mut self) -> Result<(), QueueError>;

    /// Describes a task in a free slot. `segments` are mapped, in order, and hold the blocks. What
    /// was prepared there is forgotten, also where this is refused.
    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError>;

    /// Describes a command without data in [`QueueCaps::direct`]. `barrier`: as
    /// [`TaskFlags::BARRIER`].
    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError>;

    /// Forgets slots that are prepared and were not rung: their memory is let go.
    fn withdraw(&mut self, slots: u32);

    /// Rings the doorbells of slots that are prepared, the lowest first; those that were rung.
    fn ring(&mut self, slots: u32) -> u32;

    /// Acknowledges whatever the engine has to say, and reports. Called from the interrupt, and
    /// before a deadline is believed. What it has not looked at keeps the interrupt line asserted.
    fn ack_queue(&mut self) -> QueueEvents;

    /// The short form of [`ack_queue`](Self::ack_queue): the slots whose task is done, well, if that
    /// is all there is to say, and they are acknowledged. 0: the long form is to be called.
    fn ack_ends(&mut self) -> u32 {
        0
    }

    /// Asks the engine to end what it executes, and to halt: [`QueueEvents::halted`] tells.
    fn halt_queue(&mut self) -> Result<(), QueueError>;

    /// Goes on after a halt.
    fn resume_queue(&mut self) -> Result<(), QueueError>;

    /// Takes the task of this slot out of the halted engine: [`QueueEvents::cleared`] tells. The
    /// card is not told of it.
    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError>;

    /// The same for all tasks: [`QueueEvents::emptied`] tells. The engine is off after it, so that
    /// nothing of them can be told later.
    fn clear_tasks(&mut self) -> Result<(), QueueError>;

    /// What the registers say, for a deadline that has passed.
    fn queue_state(&self) -> QueueState;
}
