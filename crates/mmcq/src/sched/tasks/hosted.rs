//! State of the controller's command queue engine, which drives the card's queue: its mode and its
//! time limits.
//!
//! While the command queue engine is on, it owns the lines and the memory of its tasks. Nothing
//! here accesses its registers; `engine/tasks/hosted.rs` does.

use crate::host::QueueFault;

/// Shortest time limit, in ns, of a halt of the command queue engine, which waits for the end of a
/// data transfer. If a task may take longer than this, its longest time is the limit.
pub(crate) const HALT_NS: u64 = 500_000_000;
/// Time limit in ns for the command queue engine to discard its tasks; no data are transferred.
pub(crate) const CLEAR_NS: u64 = 100_000_000;
/// The driver stops using the command queue engine after this many reported ends of tasks that the
/// engine did not have.
const STALE_MAX: u8 = 4;

/// The states of the controller's command queue engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The command queue engine is off: the lines are free, and it uses no memory.
    Off,
    /// The command queue engine is on: the driver may start tasks by their doorbells.
    On,
    /// The command queue engine was requested to halt, because something failed.
    Halting,
    /// The command queue engine has halted, and is clearing its tasks.
    Clearing,
    /// The command queue engine did not halt or clear: a reset of the controller takes the memory
    /// from it.
    Reset,
}

/// Why the engine takes the tasks from the command queue engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The command queue engine reports a fault.
    Fault(QueueFault),
    /// No task has ended within the longest time that any task may take, or the engine needs the
    /// memory of the tasks back.
    Silent,
    /// The card is gone.
    Removed,
}

/// State of the controller's command queue engine, and of its use by mmcq's engine.
#[derive(Debug)]
pub struct Hosted {
    at: At,
    /// Whether the command queue engine drives the card's queue; if false, the software does.
    drives: bool,
    /// Largest number of blocks in one task.
    blocks: u32,
    /// Number of blocks of the largest task so far.
    largest: u32,
    /// Largest number of memory segments of a task.
    segments: u16,
    /// Whether the engine has already read the registers to see whether the oldest task has ended
    /// without an interrupt; false again when a task ends.
    looked: bool,
    stale: u8,
    why: Option<Why>,
    /// Time in ns at which a task last ended; before that, the time of the first write of the
    /// doorbell register, which starts a task.
    heard_ns: u64,
    /// Time limit in ns of the largest task since the command queue engine was switched on.
    longest_ns: u64,
    /// Time in ns by which the command queue engine must have halted, or cleared its tasks.
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

    /// Lets the command queue engine drive the queue from now on, with tasks of at most this many
    /// blocks and segments.
    pub(crate) fn equip(&mut self, blocks: u32, segments: u16) {
        (self.drives, self.blocks, self.segments) = (true, blocks.clamp(1, 0xffff), segments.max(1));
        self.stale = 0;
    }

    /// Lets the software drive the card's queue from now on, and no longer the controller's command
    /// queue engine.
    pub(crate) fn unequip(&mut self) {
        self.drives = false;
    }

    #[inline(always)]
    pub(crate) fn drives(&self) -> bool {
        self.drives
    }

    /// Returns whether the command queue engine drives the queue and accepts tasks.
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

    /// Sets the state of the command queue engine. The time limit of a task is computed anew from
    /// the next task on.
    #[inline(always)]
    pub(crate) fn set_state(&mut self, at: At) {
        (self.at, self.largest) = (at, 0);
    }

    /// Returns whether the command queue engine owns the lines and the interrupts, and reports the
    /// ends of tasks.
    #[inline(always)]
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self.at, At::On | At::Halting | At::Clearing)
    }

    /// Notes that a task of this many blocks is given to the command queue engine, by its doorbell.
    /// `first`: the command queue engine has no other task. `longest_ns` computes the time limit of
    /// a task, in nanoseconds, from its blocks.
    #[inline(always)]
    pub(crate) fn note_rung(
        &mut self,
        first: bool,
        blocks: u32,
        now_ns: u64,
        longest_ns: impl FnOnce(u32) -> u64,
    ) {
        if first {
            (self.heard_ns, self.looked) = (now_ns, false);
        }
        // The time limit is that of the largest task since the command queue engine was switched
        // on.
        if blocks > self.largest {
            (self.largest, self.longest_ns) = (blocks, longest_ns(blocks));
        }
    }

    /// Notes the time at which the command queue engine has reported the end of tasks. The next end
    /// is expected within a time limit from now on.
    #[inline(always)]
    pub(crate) fn note_task_end(&mut self, now_ns: u64) {
        (self.heard_ns, self.looked) = (now_ns, false);
    }

    /// Returns the time in ns at which the last task ended. If none has ended yet: the time at
    /// which the command queue engine got the first task.
    pub(crate) fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Returns the time in ns by which the command queue engine must have reported the end of a
    /// task.
    #[inline(always)]
    pub(crate) fn limit_ns(&self) -> u64 {
        self.heard_ns.saturating_add(self.longest_ns)
    }

    /// Notes that the engine has read the registers to see whether the oldest task has ended
    /// without an interrupt. The engine does not read them again for this until a task ends.
    pub(crate) fn note_look(&mut self) {
        self.looked = true;
    }

    #[inline(always)]
    pub(crate) fn has_looked(&self) -> bool {
        self.looked
    }

    /// Begins to take the tasks from the command queue engine: a halt is requested.
    pub(crate) fn begin_halt(&mut self, why: Why, now_ns: u64) {
        let halts_ns = self.longest_ns.max(HALT_NS);
        (self.at, self.why, self.until_ns) = (At::Halting, Some(why), now_ns.saturating_add(halts_ns));
    }

    /// Stores a fault that the command queue engine reports while it halts, as the reason of the
    /// halt. Does so only if the reason was [`Why::Silent`]: no task had ended in time, or the
    /// memory of the tasks was needed.
    pub(crate) fn explain(&mut self, fault: QueueFault) {
        if self.why == Some(Why::Silent) {
            self.why = Some(Why::Fault(fault));
        }
    }

    /// Begins to clear the tasks of the command queue engine, which has halted.
    pub(crate) fn begin_clear(&mut self, now_ns: u64) {
        (self.at, self.until_ns) = (At::Clearing, now_ns.saturating_add(CLEAR_NS));
    }

    /// Returns the time limit in ns of the command queue engine's halt, or of its task clear, that
    /// is under way.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Returns why the tasks were taken from the command queue engine, and clears the reason.
    pub(crate) fn take_why(&mut self) -> Why {
        self.why.take().unwrap_or(Why::Silent)
    }

    /// Counts an end that the command queue engine reported for a task whose doorbell was not rung.
    /// Returns true if there were too many such ends.
    pub(crate) fn count_stale(&mut self) -> bool {
        self.stale = self.stale.saturating_add(1);
        self.stale >= STALE_MAX
    }
}
