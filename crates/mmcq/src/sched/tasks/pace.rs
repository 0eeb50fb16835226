//! When a card is polled for ready tasks.
//!
//! A poll costs a command and an interrupt. A ready task that waits for the poll costs time only
//! where few others keep the card busy. So the card is polled after the time in which a task
//! usually becomes ready, and sooner where few are announced. *Guarantee: the time between two
//! polls is at least [`LEAST_NS`] and at most [`MOST_NS`].*

/// Shortest time between polls: about as long as a poll with its interrupt takes.
const LEAST_NS: u64 = 5_000;
/// Longest time in ns between two polls for ready tasks of the card's queue.
const MOST_NS: u64 = 200_000;
/// Number of tasks in the card's queue that keep the card busy while a ready task waits for its
/// execution.
const ENOUGH: u64 = 8;

/// How fast a card makes tasks ready, as measured, and when it is polled next.
#[derive(Debug)]
pub(super) struct Pace {
    /// Mean time, in ns, from the moment at which one task becomes ready to the moment at which the
    /// next one does.
    gap_ns: u32,
    /// Time in ns of the next poll of the card for tasks that are ready.
    ask_ns: u64,
    /// Time in ns of the last progress: a task became ready or was executed, or the first task was
    /// sent to the card (CMD44, CMD45).
    heard_ns: u64,
}

impl Pace {
    pub const NEW: Pace = Pace { gap_ns: 50_000, ask_ns: 0, heard_ns: 0 };

    /// Notes that a task is announced while no other one is: the time until a task becomes ready
    /// counts from now. The next poll is due after the pause for one announced task.
    pub fn begin(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
        self.ask_ns = now_ns.saturating_add(self.pause_ns(1));
    }

    /// Notes the result of a poll: of `announced` tasks, `new` ones have become ready since the
    /// last poll. Updates the usual time until a task becomes ready, and the time of the next poll.
    pub fn asked(&mut self, new: u32, announced: u32, now_ns: u64) {
        if new > 0 {
            let took_ns = now_ns.saturating_sub(self.heard_ns).min(MOST_NS) / u64::from(new);
            self.gap_ns = ((u64::from(self.gap_ns) * 7 + took_ns) / 8) as u32;
            self.heard_ns = now_ns;
        }
        self.ask_ns = now_ns.saturating_add(self.pause_ns(announced));
    }

    /// Notes that a task was executed. Its data transfer may have kept the card from working on the
    /// other tasks.
    pub fn note_executed(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    fn pause_ns(&self, announced: u32) -> u64 {
        let share = u64::from(announced).clamp(1, ENOUGH);
        (u64::from(self.gap_ns) * share / ENOUGH).clamp(LEAST_NS, MOST_NS)
    }

    pub fn ask_ns(&self) -> u64 {
        self.ask_ns
    }

    /// Returns the time in ns since the last event of the card's queue: a task became ready, or was
    /// executed.
    pub fn quiet_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.heard_ns)
    }
}
