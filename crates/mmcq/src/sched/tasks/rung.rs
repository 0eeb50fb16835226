//! Tasks of the controller's command queue engine. The driver describes such a task in memory and
//! starts it by its doorbell bit (it is *rung*); the controller itself announces it to the card.

use super::{ANNOUNCED_MAX, DEPTH_MAX, Dialect, NONE, SLOTS_MAX, Task, Tasks};
use crate::host::Direction;

impl Tasks {
    /// Returns the number of the next task for the command queue engine. `None`: the queue is full,
    /// or its oldest task has waited so long that no other may be sent
    /// ([`too_old_ns`](Self::too_old_ns)).
    #[inline(always)]
    pub(crate) fn next_rung(&self, now_ns: u64) -> Option<u8> {
        debug_assert!(self.described == NONE && self.running == NONE && self.dialect == Dialect::Emmc);
        let id = (!self.announced).trailing_zeros() as u8;
        (id < self.depth.min(ANNOUNCED_MAX) && now_ns < self.too_old_ns()).then_some(id)
    }

    /// Returns whether a task overlaps the blocks from `start` up to `end`, and that task or
    /// `direction` writes. Does the same as [`meets`](Self::meets) in fewer steps. The caller uses
    /// this while the command queue engine has all tasks.
    #[inline(always)]
    pub(crate) fn meets_rung(&self, direction: Direction, start: u64, end: u64) -> bool {
        let rivals = self.announced & if direction == Direction::Write { u32::MAX } else { self.writes };
        rivals != 0 && self.meets(direction, start, end)
    }

    /// Records a task of one request. `id`: number of the task; `start` and `end`: its first block,
    /// and the block behind its last; `first`: slot of the request. The driver describes the task
    /// to the command queue engine in memory and starts it by its doorbell bit, with no separate
    /// commands to announce it to the card.
    #[inline(always)]
    pub(crate) fn ring_one(
        &mut self,
        id: u8,
        direction: Direction,
        (start, end): (u64, u64),
        first: u8,
        now_ns: u64,
    ) {
        let bit = 1 << (id % DEPTH_MAX);
        self.tasks[usize::from(id % DEPTH_MAX)] =
            Task { direction, start, end, first, reliable: false, announced_ns: now_ns };
        self.behind[usize::from(first) % SLOTS_MAX] = NONE;
        match direction {
            Direction::Read => self.writes &= !bit,
            Direction::Write => self.writes |= bit,
        }
        self.announced |= bit;
        self.ages.push(id);
        self.stats.announced = self.stats.announced.wrapping_add(1);
        self.count_rung(bit);
    }

    /// Returns the slot of the request that task `id` has; `None` if it has several.
    #[inline(always)]
    pub(crate) fn one_member(&self, id: u8) -> Option<u8> {
        let first = self.task(id).first;
        (self.behind[usize::from(first) % SLOTS_MAX] == NONE).then_some(first)
    }

    /// Counts the tasks (one bit for each) that one write of the doorbell register has started.
    #[inline(always)]
    pub(crate) fn count_rung(&mut self, tasks: u32) {
        self.stats.rung = self.stats.rung.wrapping_add(tasks.count_ones());
        self.stats.rings = self.stats.rings.wrapping_add(1);
    }

    /// Removes the task with the number `id`, which the command queue engine reports as done. Its
    /// requests count as executed.
    #[inline(always)]
    pub(crate) fn complete(&mut self, id: u8, now_ns: u64) {
        self.take_executed(id);
        self.pace.note_executed(now_ns);
    }
}
