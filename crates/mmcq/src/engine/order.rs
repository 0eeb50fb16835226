//! Which requests make the next transfer.
//!
//! The policy picks a pending request ([`sched`](crate::sched); without one it is the oldest). Pending requests of the same direction that continue it on
//! either side go with it, in one transfer, within the limits of host and configuration. A request of more blocks than that goes in pieces, with
//! no request in between.
//!
//! So without a policy, and where nothing fails, a request waits for at most the pieces of the requests before it. `b` blocks go in `ceil(b / m)` pieces,
//! where `m` is the least of [`Caps::max_blocks`](crate::host::Caps::max_blocks), [`Caps::max_bytes`](crate::host::Caps::max_bytes)` / 512` and 65535; of an
//! erase it waits for one. Under any policy nothing passes a barrier, an overlapping write, or (if it is a write) an overlapping read that is older than it.
//!
//! Neighbours are found by a hash of where requests begin and end ([`Slots::near`]). All else that is asked is asked of a neighbour only, by a look through the
//! spans of the at most 64 that wait.

use super::slot::{NONE, Slots, bits};
use crate::host::Direction;
use crate::sched::slot_set::SlotSet;

/// A page of flash, 4 KiB: a transfer that begins or ends inside of one costs the card a page more.
const PAGE_BLOCKS: u32 = 8;

/// The requests that go out together, in the order of their blocks.
#[derive(Debug)]
pub(super) struct Batch<const N: usize> {
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
    /// The same if a younger one would join while an older one stays behind.
    pub fair_blocks: u32,
    pub segments: u16,
    /// Nothing is put in front of a transfer that begins here: it goes on where an open one stopped.
    pub floor: Option<u64>,
}

impl<const N: usize> Batch<N> {
    pub const NONE: Self =
        Batch { members: [NONE; N], count: 0, direction: Direction::Read, lba: 0, blocks: 0 };

    pub fn members(&self) -> &[u8] {
        self.members.get(..self.count as usize).unwrap_or(&[])
    }

    /// The first of them; there is one.
    #[inline(always)]
    pub fn first(&self) -> u8 {
        self.members.first().copied().unwrap_or(NONE)
    }

    /// No transfer is in progress: its slots may be others' by now.
    pub fn forget(&mut self) {
        self.count = 0;
    }

    pub fn end(&self) -> u64 {
        self.lba.wrapping_add(u64::from(self.blocks))
    }

    pub fn append(&mut self, index: u8, blocks: u32) {
        if let Some(place) = self.members.get_mut(self.count as usize) {
            *place = index;
            self.count += 1;
            self.blocks = self.blocks.saturating_add(blocks);
        }
    }

    fn prepend(&mut self, index: u8, blocks: u32) {
        let count = self.count as usize;
        if count < N {
            self.count += 1;
            self.lba = self.lba.saturating_sub(u64::from(blocks));
            self.blocks = self.blocks.saturating_add(blocks);
            // Each member moves one place on.
            let mut pushed = index;
            for place in self.members.iter_mut().take(count + 1) {
                core::mem::swap(place, &mut pushed);
            }
        }
    }

    /// One request, with no other beside it.
    #[inline(always)]
    pub fn one(&mut self, index: u8, direction: Direction, lba: u64, blocks: u32) {
        (self.direction, self.lba, self.blocks, self.count) = (direction, lba, blocks, 1);
        if let Some(first) = self.members.first_mut() {
            *first = index;
        }
    }

    /// Leaves requests off at its end, so that it ends where a card's page does, or at a multiple of its own length if that is less. True if it did.
    pub fn square(&mut self, slots: &Slots<N>) -> bool {
        let unit = (self.blocks & self.blocks.wrapping_neg()).clamp(1, PAGE_BLOCKS);
        let end = self.end() & !u64::from(unit - 1);
        if end == self.end() {
            return false;
        }
        let cut = self.members().iter().position(|&member| slots.span(member).start == end);
        let Some(count) = cut.filter(|&count| count > 0) else { return false };
        (self.count, self.blocks) = (count as u8, end.saturating_sub(self.lba) as u32);
        true
    }

    /// A piece of one request, with no other beside it.
    pub fn alone(&mut self, direction: Direction, index: u8, lba: u64, blocks: u32) {
        self.one(index, direction, lba, blocks);
    }

    /// Collects the next transfer around a queued read or write. Changes no slot.
    pub fn collect(&mut self, slots: &Slots<N>, head: u8, limits: Limits) {
        let Some((direction, lba, blocks)) = slots.at(head).span() else {
            self.count = 0;
            return;
        };
        (self.direction, self.lba, self.blocks, self.count) = (direction, lba, 0, 0);
        self.append(head, blocks.min(limits.blocks));
        if slots.at(head).solo || blocks >= limits.merged_blocks {
            return;
        }
        let mut left = slots.mergeable(direction) & !(1 << head);
        let mut taken = (1 as SlotSet) << head;
        // Every turn takes one request in, or is the last.
        while left != 0 && u16::from(self.count) < limits.segments {
            let Some(index) = self.neighbour(slots, left, taken, limits) else { break };
            let span = slots.span(index);
            // The limit above keeps it far below 2^32.
            let blocks = span.end.saturating_sub(span.start) as u32;
            if span.start >= self.end() {
                self.append(index, blocks)
            } else {
                self.prepend(index, blocks)
            }
            left &= !(1 << index);
            taken |= 1 << index;
        }
    }
}

impl<const N: usize> Batch<N> {
    /// One of `left` that continues the transfer on either side and may join it.
    fn neighbour(&self, slots: &Slots<N>, left: SlotSet, taken: SlotSet, limits: Limits) -> Option<u8> {
        let (start, end) = (self.lba, self.end());
        let near = left & slots.near(start, end);
        bits(near).find(|&index| {
            let span = slots.span(index);
            if span.start != end && (span.end != start || limits.floor == Some(start)) {
                return false;
            }
            let blocks = span.end.saturating_sub(span.start) + u64::from(self.blocks);
            blocks <= u64::from(limits.merged_blocks)
                && !slots.at(index).solo
                && (blocks <= u64::from(limits.fair_blocks) || !overtakes(slots, index, taken))
                && !overtakes_overlap(slots, index, left)
        })
    }
}

/// The request that goes if this one is picked: the oldest of those on the same blocks that it must not pass, or itself.
pub(super) fn not_before<const N: usize>(slots: &Slots<N>, picked: u8) -> u8 {
    let mut index = picked;
    // Each turn finds an older one, or is the last.
    for _ in 0..N {
        let span = slots.span(index);
        let rivals = match span.direction {
            Direction::Read => slots.queued_writes(),
            Direction::Write => slots.queued_writes() | slots.queued_reads(),
        };
        let older = bits(rivals & !(1 << index)).find(|&other| {
            let rival = slots.span(other);
            rival.start < span.end && span.start < rival.end && (rival.age.wrapping_sub(span.age) as i32) < 0
        });
        match older {
            Some(other) => index = other,
            None => return index,
        }
    }
    index
}

/// May this queued read or write go before all others, by the blocks that it and older ones are on?
pub(super) fn may_lead<const N: usize>(slots: &Slots<N>, index: u8) -> bool {
    not_before(slots, index) == index
}

/// Would `index`, sent now, pass any older request that stays behind?
fn overtakes<const N: usize>(slots: &Slots<N>, index: u8, taken: SlotSet) -> bool {
    let age = slots.span(index).age;
    let others = (slots.queued_reads() | slots.queued_writes()) & !taken & !(1 << index);
    bits(others).any(|other| (slots.span(other).age.wrapping_sub(age) as i32) < 0)
}

/// Would `index`, sent now, pass an older request on the same blocks where one of the two writes? `left`: those of its direction that stay behind.
fn overtakes_overlap<const N: usize>(slots: &Slots<N>, index: u8, left: SlotSet) -> bool {
    let span = slots.span(index);
    let rivals = match span.direction {
        Direction::Read => slots.queued_writes(),
        Direction::Write => slots.queued_reads() | left,
    };
    bits(rivals & !(1 << index)).any(|other| {
        let rival = slots.span(other);
        rival.start < span.end && span.start < rival.end && rival.age.wrapping_sub(span.age) as i32 <= 0
    })
}
