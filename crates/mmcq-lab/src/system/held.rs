//! Detects held starts, to show them in traces. mmcq's engine may hold back the start of a transfer
//! for a bounded time, so that the rest of the batch (its tail) can join.

use mmcq::sched::Holds;

/// A start of a transfer that the engine held back for the rest of a batch (its tail).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Time in ns at which the engine began to hold the start back.
    pub from_ns: u64,
    /// Time in ns at which the engine stopped delaying the start of the transfer.
    pub to_ns: u64,
    /// Whether the missing requests of the batch came while the start was delayed.
    pub came: bool,
    /// Time in ns that the run has gained by this delay, as the engine estimates it: the fixed time
    /// of a transfer minus the delay.
    pub gained_ns: u64,
}

/// A function that is called for each start of a transfer that the engine held back, at the end of
/// the hold.
pub type HeldLog = Box<dyn FnMut(Held)>;

/// Stores the engine's counters of delayed starts after each call of the engine. The difference
/// after the next call shows whether a delay has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldWatch {
    seen: Holds,
}

impl HeldWatch {
    /// Compares the counters `now` of delayed starts, read after a call of the engine at `now_ns`,
    /// with those after the call before. If a delay ended in this call, returns its start, its end
    /// and its gain.
    pub(crate) fn look(&mut self, now: Holds, now_ns: u64) -> Option<Held> {
        let before = std::mem::replace(&mut self.seen, now);
        (now.count > before.count).then(|| Held {
            from_ns: now_ns.saturating_sub(now.waited_ns - before.waited_ns),
            to_ns: now_ns,
            came: now.came > before.came,
            gained_ns: now.gained_ns - before.gained_ns,
        })
    }
}
