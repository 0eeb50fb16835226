//! A controller's engine that drives the card's queue: what it is at, and how long it may be
//! silent.
//!
//! While it is on, the lines are its own, and the memory of what was rung is too. Nothing here
//! talks to it; `engine/tasks/hosted.rs` does.

use crate::host::QueueFault;

/// A halt waits for the end of the data that move: at least so long, or as long as a task may last.
pub(crate) const HALT_NS: u64 = 500_000_000;
/// A clear moves nothing.
pub(crate) const CLEAR_NS: u64 = 100_000_000;
/// Ends of tasks that were not rung, before the engine is not believed any more.
const STALE_MAX: u8 = 4;

/// The states of the controller's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Off: the lines are free, and no memory is its own.
    Off,
    /// On: tasks can be rung.
    On,
    /// The engine was asked to halt, because something went wrong.
    Halting,
    /// The engine has halted, and forgets its tasks.
    Clearing,
    /// The engine did not do as it was told: a reset takes the memory from it.
    Reset,
}

/// Why its tasks are taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The engine names a fault.
    Fault(QueueFault),
    /// Nothing has ended in the longest time that any task may last, or the memory is needed.
    Silent,
    /// No card is there any more.
    Removed,
}

/// The engine, as far as it is known.
#[derive(Debug)]
pub struct Hosted {
    at: At,
    /// Whether the engine drives the card's queue; else the software does.
    drives: bool,
    /// The limits of a task; the largest so far.
    blocks: u32,
    largest: u32,
    segments: u16,
    /// The oldest task has been looked for in its registers.
    looked: bool,
    stale: u8,
    why: Option<Why>,
    /// When the first task was rung, or one ended; so long the largest may last.
    heard_ns: u64,
    longest_ns: u64,
    /// A halt or a clear has until then.
    until_ns: u64,
}

impl Hosted {
    pub(super) const NEW: Hosted = Hosted {
        at: At::Off,
        drives: false,
        blocks: 0,
        largest: 0,
        segments: 0,
        looked: false,
        stale: 0,
        why: None,
        heard_ns: 0,
        longest_ns: 0,
        until_ns: 0,
    };

    /// Lets the engine drive the queue from now on: it is good for tasks of so many blocks, in so
    /// many pieces of memory.
    pub(crate) fn equip(&mut self, blocks: u32, segments: u16) {
        (self.drives, self.blocks, self.segments) = (true, blocks.clamp(1, 0xffff), segments.max(1));
        self.stale = 0;
    }

    /// Lets the software drive the queue from now on.
    pub(crate) fn unequip(&mut self) {
        self.drives = false;
    }

    #[inline(always)]
    pub(crate) fn drives(&self) -> bool {
        self.drives
    }

    /// Does it drive the queue, and take tasks?
    #[inline(always)]
    pub(crate) fn rings_tasks(&self) -> bool {
        self.drives && self.at == At::On
    }

    /// Blocks and pieces of memory of a task.
    #[inline(always)]
    pub(crate) fn limits(&self) -> (u32, u16) {
        (self.blocks, self.segments)
    }

    #[inline(always)]
    pub(crate) fn at(&self) -> At {
        self.at
    }

    /// Sets the engine's state where it has no tasks: on and empty, or off.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, at: At) {
        (self.at, self.largest) = (at, 0);
    }

    /// Are lines, interrupts and ends its own?
    #[inline(always)]
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self.at, At::On | At::Halting | At::Clearing)
    }

    /// Notes that a task is rung, of so many blocks, which may last so long; `first`: none was.
    #[inline(always)]
    pub(crate) fn note_rung(
        &mut self,
        first: bool,
        blocks: u32,
        now_ns: u64,
        longest_ns: impl FnOnce(u32) -> u64,
    ) {
        if first {
            self.heard_ns = now_ns;
        }
        // The limit is that of the largest task since the engine was switched on.
        if blocks > self.largest {
            (self.largest, self.longest_ns) = (blocks, longest_ns(blocks));
        }
    }

    /// Notes that tasks have ended.
    #[inline(always)]
    pub(crate) fn note_task_end(&mut self, now_ns: u64) {
        (self.heard_ns, self.looked) = (now_ns, false);
    }

    /// When the first task was rung, or one ended.
    pub(crate) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Returns by when the engine must have said something.
    #[inline(always)]
    pub(crate) fn limit_ns(&self) -> u64 {
        self.heard_ns.saturating_add(self.longest_ns)
    }

    /// Notes that the oldest task is looked for in the registers, which is done once.
    pub(crate) fn note_look(&mut self) {
        self.looked = true;
    }

    #[inline(always)]
    pub(crate) fn has_looked(&self) -> bool {
        self.looked
    }

    /// Begins to take its tasks from the engine.
    pub(crate) fn begin_halt(&mut self, why: Why, now_ns: u64) {
        let halts_ns = self.longest_ns.max(HALT_NS);
        (self.at, self.why, self.until_ns) = (At::Halting, Some(why), now_ns.saturating_add(halts_ns));
    }

    /// Notes what has gone wrong, which the engine says while it halts.
    pub(crate) fn explain(&mut self, fault: QueueFault) {
        if self.why == Some(Why::Silent) {
            self.why = Some(Why::Fault(fault));
        }
    }

    /// Begins to let the engine forget its tasks: it has halted.
    pub(crate) fn begin_clear(&mut self, now_ns: u64) {
        (self.at, self.until_ns) = (At::Clearing, now_ns.saturating_add(CLEAR_NS));
    }

    /// Returns the deadline of the halt or clear that is under way.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Why its tasks were taken from it.
    pub(crate) fn take_why(&mut self) -> Why {
        self.why.take().unwrap_or(Why::Silent)
    }

    /// Counts ends of tasks that were not rung. True: too many.
    pub(crate) fn count_stale(&mut self) -> bool {
        self.stale = self.stale.saturating_add(1);
        self.stale >= STALE_MAX
    }
}
