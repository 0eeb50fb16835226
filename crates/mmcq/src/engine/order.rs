//! Which requests make the next transfer.
//!
//! The oldest pending request is always the next. Pending requests of the same direction that continue it on either side go with it, in
//! one transfer, within the limits of host and configuration. So a request waits for at most as many transfers as there were requests before it,
//! and nothing passes a barrier, an overlapping write, or (if it is a write) an overlapping read that is older than it.

use super::slot::{NONE, Slots, State};
use crate::host::Direction;

/// The requests that go out together, in the order of their blocks.
#[derive(Debug)]
pub(super) struct Gathered<const N: usize> {
    members: [u8; N],
    count: u8,
    pub direction: Direction,
    pub lba: u64,
    pub blocks: u32,
}

/// What a transfer may be at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub blocks: u32,
    /// The same for several requests together.
    pub merged_blocks: u32,
    pub segments: u16,
}

/// Times the pending set is looked through for one transfer; one pass finds all of an ascending run.
const PASSES_MAX: u32 = 4;

impl<const N: usize> Gathered<N> {
    pub const NONE: Self =
        Gathered { members: [NONE; N], count: 0, direction: Direction::Read, lba: 0, blocks: 0 };

    pub fn members(&self) -> &[u8] {
        self.members.get(..self.count as usize).unwrap_or(&[])
    }

    fn end(&self) -> u64 {
        self.lba + u64::from(self.blocks)
    }

    fn append(&mut self, index: u8, blocks: u32) {
        if let Some(place) = self.members.get_mut(self.count as usize) {
            *place = index;
            self.count += 1;
            self.blocks += blocks;
        }
    }

    fn prepend(&mut self, index: u8, blocks: u32) {
        let count = self.count as usize;
        if count < N {
            self.members.copy_within(0..count, 1);
            self.count += 1;
            self.lba -= u64::from(blocks);
            self.blocks += blocks;
            if let Some(first) = self.members.first_mut() {
                *first = index;
            }
        }
    }

    /// Collects the next transfer around the queue's head, which is a read or write. Changes no slot.
    pub fn collect(&mut self, slots: &Slots<N>, limits: Limits) {
        let head = slots.head;
        let Some((direction, lba, blocks)) = slots.at(head).span() else {
            self.count = 0;
            return;
        };
        (self.direction, self.lba, self.blocks, self.count) = (direction, lba, 0, 0);
        self.append(head, blocks.min(limits.blocks));
        if slots.at(head).solo || blocks >= limits.merged_blocks || slots.at(head).next == NONE {
            return;
        }
        let mut taken = 1u64 << head;
        for _ in 0..PASSES_MAX {
            let before = self.count;
            for index in slots.queue().skip(1) {
                let slot = slots.at(index);
                let Some((d, lba, blocks)) = slot.span() else { break };
                if d != direction || slot.solo || taken & (1 << index) != 0 {
                    continue;
                }
                let (behind, ahead) = (lba == self.end(), lba + u64::from(blocks) == self.lba);
                if !(behind || ahead) {
                    continue;
                }
                if u32::from(limits.segments) <= u32::from(self.count)
                    || self.blocks.saturating_add(blocks) > limits.merged_blocks
                {
                    continue;
                }
                if overtakes_overlap(slots, index, taken) {
                    continue;
                }
                if behind {
                    self.append(index, blocks)
                } else {
                    self.prepend(index, blocks)
                }
                taken |= 1 << index;
            }
            if self.count == before {
                break;
            }
        }
    }
}

/// Would `index`, sent now, pass an older request on the same blocks where one of the two writes?
fn overtakes_overlap<const N: usize>(slots: &Slots<N>, index: u8, taken: u64) -> bool {
    let Some((direction, lba, blocks)) = slots.at(index).span() else { return true };
    slots.queue().take_while(|&older| older != index).filter(|&older| taken & (1 << older) == 0).any(
        |older| {
            let Some((d, l, b)) = slots.at(older).span() else { return true };
            let overlap = l < lba + u64::from(blocks) && lba < l + u64::from(b);
            overlap && (d == Direction::Write || direction == Direction::Write)
        },
    )
}

/// Any request of the queue that is still unmapped, oldest first.
pub(super) fn first_unprepared<const N: usize>(slots: &Slots<N>) -> Option<u8> {
    slots.queue().find(|&i| {
        let slot = slots.at(i);
        slot.state == State::Queued && !slot.prepared && slot.direction().is_some()
    })
}
