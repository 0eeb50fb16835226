//! One task of a card's queue.

use super::NONE;
use crate::host::Direction;

/// A task of the card's command queue, as the engine has described it to the card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub direction: Direction,
    pub start: u64,
    /// The block after the last block of the task.
    pub end: u64,
    /// The slot of the task's first request.
    pub first: u8,
    /// Whether the task is a reliable write.
    pub reliable: bool,
    /// When the task was announced, in ns.
    pub(super) announced_ns: u64,
}

/// Value of a place that holds no task: it has no blocks.
pub(super) const NO_TASK: Task =
    Task { direction: Direction::Read, start: 0, end: 0, first: NONE, reliable: false, announced_ns: 0 };

impl Task {
    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        self.end.saturating_sub(self.start) as u32
    }
}
