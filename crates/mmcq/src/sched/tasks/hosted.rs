//! State of the controller's command queue engine, which drives the card's queue: its mode and its
//! time limits. In this file "the engine" means that one.
//!
//! While the engine is on, it owns the lines and the memory of its tasks. Nothing here accesses its
//! registers; `engine/tasks/hosted.rs` does.

use crate::host::QueueFault;

/// Least time limit of a halt, which waits for the end of a data transfer; the longest time of a
/// task if that is more.
pub(crate) const HALT_NS: u64 = 500_000_000;
/// Time limit for the queue engine to discard its tasks; no data are transferred.
pub(crate) const CLEAR_NS: u64 = 100_000_000;
/// Ends of tasks that were not rung, after which the engine is given up.
const STALE_MAX: u8 = 4;

/// The states of the controller's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Off: the lines are free, and it uses no memory.
    Off,
    /// On: tasks can be rung.
    On,
    /// A halt was requested, because something failed.
    Halting,
    /// The engine has halted, and is clearing its tasks.
    Clearing,
    /// The engine did not halt or clear: a reset takes the memory from it.
    Reset,
}

/// Why the engine's tasks are taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The engine reports a fault.
    Fault(QueueFault),
    /// Nothing has ended in the longest time of any task, or the memory is needed.
    Silent,
    /// The card is gone.
    Removed,
}

/// The state of the engine.
#[derive(Debug)]
pub struct Hosted {
    at: At,
    /// Whether the engine drives the card's queue; else the software does.
    drives: bool,
    /// Limits of a task; the largest task so far.
    blocks: u32,
    largest: u32,
    segments: u16,
    /// Whether the oldest task has been searched in the registers.
    looked: bool,
    stale: u8,
    why: Option<Why>,
    /// When the first task was rung, or one ended; and how long the largest may last.
    heard_ns: u64,
    longest_ns: u64,
    /// Deadline of a halt or a clear.
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

    /// Lets the engine drive the queue from now on, with tasks of at most this many blocks and
    /// segments.
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

    /// Returns whether it drives the queue, and accepts tasks.
    #[inline(always)]
    pub(crate) fn rings_tasks(&self) -> bool {
        self.drives && self.at == At::On
    }

    /// Returns the most blocks and segments of a task.
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

    /// Returns whether the engine owns lines and interrupts, and reports the ends.
    #[inline(always)]
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self.at, At::On | At::Halting | At::Clearing)
    }

    /// Notes that a task is rung, with its blocks and its longest time; `first`: there was none.
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

    /// Returns when the first task was rung, or one ended.
    pub(crate) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Returns by when the engine must have reported an end.
    #[inline(always)]
    pub(crate) fn limit_ns(&self) -> u64 {
        self.heard_ns.saturating_add(self.longest_ns)
    }

    /// Notes that the registers were read for the end of the oldest task. That is done once.
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

    /// Notes the fault that the engine reports while it halts.
    pub(crate) fn explain(&mut self, fault: QueueFault) {
        if self.why == Some(Why::Silent) {
            self.why = Some(Why::Fault(fault));
        }
    }

    /// Begins to clear the engine's tasks: it has halted.
    pub(crate) fn begin_clear(&mut self, now_ns: u64) {
        (self.at, self.until_ns) = (At::Clearing, now_ns.saturating_add(CLEAR_NS));
    }

    /// Returns the deadline of the halt or clear that is under way.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Returns why its tasks were taken from it.
    pub(crate) fn take_why(&mut self) -> Why {
        self.why.take().unwrap_or(Why::Silent)
    }

    /// Counts a completion of a task whose doorbell was not rung. Returns true if there were too
    /// many.
    pub(crate) fn count_stale(&mut self) -> bool {
        self.stale = self.stale.saturating_add(1);
        self.stale >= STALE_MAX
    }
}
