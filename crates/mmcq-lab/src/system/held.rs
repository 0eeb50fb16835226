//! Starts that the engine holds, as a trace shows them.

use mmcq::sched::Holds;

/// A start that was held for the tail of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Since when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// The tail came.
    pub came: bool,
    /// What that gained, in nanoseconds.
    pub gained_ns: u64,
}

/// Told of starts that were held, when they end.
pub type HeldLog = Box<dyn FnMut(Held)>;

/// What was counted when the engine was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldWatch {
    seen: Holds,
}

impl HeldWatch {
    /// The engine was called at this time, and counts so much since. Has a start that it held ended
    /// by that?
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
