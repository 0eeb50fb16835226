//! A batch: the requests of one transfer in the order of their blocks, and the memory segments of a
//! phase.
//!
//! [`order`](super::order) decides which requests may go together.

use super::order::{overtakes, overtakes_overlap};
use super::slot::{NONE, Slots, bits};
use crate::host::{Direction, Segment};
use crate::sched::slot_set::SlotSet;

/// A page of flash, 4 KiB, in blocks. If a transfer begins or ends inside of a page, the card reads
/// or programs one page more.
const PAGE_BLOCKS: u32 = 8;

/// The requests of one transfer, in the order of their blocks.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Batch<const N: usize> {
    direction: Direction,
    count: u8,
    /// Number of entries of `segments` that are set: the memory of the transfer.
    filled: u8,
    blocks: u32,
    lba: u64,
    members: [u8; N],
    segments: [Segment; N],
}

/// The limits of one transfer: how many blocks and memory segments it may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub blocks: u32,
    /// Most blocks of a transfer of several requests.
    pub merged_blocks: u32,
    /// Most blocks of a transfer while an older request waits that is not in the transfer. A
    /// request joins only if the transfer then has no more blocks than this.
    pub fair_blocks: u32,
    pub segments: u16,
    /// The block before which no request may be added, because the transfer continues a CMD18 or
    /// CMD25 that is open; `None`: there is no such block.
    pub floor: Option<u64>,
}

impl<const N: usize> Batch<N> {
    pub const fn new() -> Self {
        Batch {
            direction: Direction::Read,
            count: 0,
            filled: 0,
            members: [NONE; N],
            blocks: 0,
            lba: 0,
            segments: [const { Segment::NONE }; N],
        }
    }

    #[inline(always)]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Returns the first block of the transfer.
    #[inline(always)]
    pub fn lba(&self) -> u64 {
        self.lba
    }

    #[inline(always)]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the memory segments of a phase. `moves`: the phase has data; if false, there are
    /// none.
    #[inline(always)]
    pub fn segments(&self, moves: bool) -> &[Segment] {
        let count = if moves { self.filled as usize } else { 0 };
        self.segments.get(..count).unwrap_or(&[])
    }

    /// Returns the first memory segment of the batch, for a phase that uses exactly one; empty if
    /// the batch has none.
    #[inline(always)]
    pub fn segment(&self) -> &[Segment] {
        self.segments.get(..1).unwrap_or(&[])
    }

    /// Forgets the memory segments of the batch; their number is 0 afterwards.
    #[inline(always)]
    pub fn no_segments(&mut self) {
        self.filled = 0;
    }

    /// Replaces all segments (pieces of memory) of the batch by this one.
    #[inline(always)]
    pub fn one_segment(&mut self, segment: Segment) {
        self.filled = 1;
        if let Some(first) = self.segments.first_mut() {
            *first = segment;
        }
    }

    /// Sets the segment at index `place`: the memory of the request with this index in the batch.
    /// The caller fills the indices in ascending order.
    #[inline(always)]
    pub fn fill(&mut self, place: usize, segment: Segment) {
        if let Some(free) = self.segments.get_mut(place) {
            *free = segment;
            self.filled += 1;
        }
    }

    /// Returns the number of members, that is, requests in the batch.
    #[inline(always)]
    pub fn count(&self) -> u8 {
        self.count
    }

    pub fn members(&self) -> &[u8] {
        self.members.get(..self.count as usize).unwrap_or(&[])
    }

    /// Returns the slot of the batch's first request. The caller knows that the batch has one.
    #[inline(always)]
    pub fn first(&self) -> u8 {
        self.members.first().copied().unwrap_or(NONE)
    }

    /// Removes all requests from the batch. The caller does this when no transfer is in progress;
    /// afterwards other requests may use the slots.
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

    /// Makes a batch of one request only: that of slot `index`, with `blocks` blocks from `lba` on.
    #[inline(always)]
    pub fn one(&mut self, index: u8, direction: Direction, lba: u64, blocks: u32) {
        (self.direction, self.lba, self.blocks, self.count) = (direction, lba, blocks, 1);
        if let Some(first) = self.members.first_mut() {
            *first = index;
        }
    }

    /// Removes requests from the end of the batch, so that the transfer ends at a multiple of a
    /// unit. The unit is the largest power of two that divides the batch's present number of
    /// blocks, but at most a page of flash ([`PAGE_BLOCKS`]). Returns false, and removes nothing,
    /// if the batch ends at such a multiple already, or if no request after the first begins at the
    /// last such multiple.
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

    /// Makes a batch of one piece of a long request, `blocks` blocks from `lba` on, without any
    /// other request. `index`: slot of the request.
    pub fn alone(&mut self, direction: Direction, index: u8, lba: u64, blocks: u32) {
        self.one(index, direction, lba, blocks);
    }

    /// Begins the batch of a task of the card's queue. The batch is empty: [`add`](Self::add) adds
    /// each request that the task transfers.
    pub fn begin(&mut self, direction: Direction, lba: u64) {
        (self.direction, self.lba, self.blocks, self.count, self.filled) = (direction, lba, 0, 0, 0);
    }

    /// Adds the request in slot `index`, with `blocks` blocks and its memory, to the batch of a
    /// task, behind the requests before it.
    pub fn add(&mut self, index: u8, blocks: u32, segment: Segment) {
        self.fill(self.members().len(), segment);
        self.append(index, blocks);
    }

    /// Begins the batch of a packed command, without requests. `header`: the header is sent with
    /// the data, as their first block.
    pub fn begin_pack(&mut self, direction: Direction, lba: u64, header: bool) {
        self.begin(direction, lba);
        if header {
            self.blocks = 1;
            self.one_segment(Segment::NONE);
        }
    }

    /// Adds one more write or read (slot `index`, `blocks` blocks) to a packed command, with the
    /// request's memory as its last segment.
    pub fn add_behind(&mut self, index: u8, blocks: u32, segment: Segment) {
        self.fill(usize::from(self.filled), segment);
        self.append(index, blocks);
    }

    /// Sets the memory of the block that describes the transfers of a packed command (its header).
    pub fn set_header(&mut self, segment: Segment) {
        if let Some(first) = self.segments.first_mut() {
            *first = segment;
        }
    }

    /// Removes the header of a packed command: its memory from the segments, and its block from the
    /// number of blocks.
    pub fn drop_header(&mut self) {
        self.segments.rotate_left(1.min(N));
        self.filled = self.filled.saturating_sub(1);
        self.blocks = self.blocks.saturating_sub(1);
    }

    /// Collects the next transfer: a queued read or write, and the requests that continue it on
    /// either side. Changes no slot.
    pub fn collect(&mut self, slots: &Slots<N>, head: u8, limits: Limits) {
        let Some((direction, lba, blocks)) = slots.at(head).span() else {
            self.count = 0;
            return;
        };
        (self.direction, self.lba, self.blocks, self.count) = (direction, lba, 0, 0);
        self.append(head, blocks.min(limits.blocks));
        if slots.at(head).solo() || blocks >= limits.merged_blocks {
            return;
        }
        let mut left = slots.mergeable(direction) & !(1 << head);
        let mut taken = (1 as SlotSet) << head;
        // Each turn of the loop adds one request, or is the last.
        while left != 0 && u16::from(self.count) < limits.segments {
            let Some(index) = self.neighbour(slots, head, left, taken, limits) else { break };
            let span = slots.span(index);
            // The limits above keep this number far below 2^32.
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
    /// Finds a request of the set `left` that begins where the transfer ends, or ends where the
    /// transfer begins, and that may join the transfer. If there are several, returns the one for
    /// which [`Slots::apart`] returns the least: it prefers requests of the client that sent the
    /// transfer's last request. `None`: there is no such request. `head`: the oldest request of the
    /// transfer; `taken`: all requests of the transfer.
    fn neighbour(
        &self,
        slots: &Slots<N>,
        head: u8,
        left: SlotSet,
        taken: SlotSet,
        limits: Limits,
    ) -> Option<u8> {
        let (start, end) = (self.lba, self.end());
        let near = left & slots.near(start, end);
        let last = self.members().last().copied().unwrap_or(NONE);
        let (mut nearest, mut least) = (None, u8::MAX);
        for index in bits(near) {
            let span = slots.span(index);
            if span.start != end && (span.end != start || limits.floor == Some(start)) {
                continue;
            }
            let blocks = span.end.saturating_sub(span.start) + u64::from(self.blocks);
            // A write of which a piece is sent may have to be sent again as a whole. So nothing
            // joins that covers blocks of that piece.
            let behind = if span.start == end { index } else { head };
            let joins = blocks <= u64::from(limits.merged_blocks)
                && !slots.at(index).solo()
                && (self.direction == Direction::Read || slots.at(behind).moved_blocks() == 0)
                && (blocks <= u64::from(limits.fair_blocks) || !overtakes(slots, index, taken))
                && !overtakes_overlap(slots, index, left);
            let apart = if joins { slots.apart(index, last, left) } else { u8::MAX };
            // The last of a client's short reads does not join another client's: the card would
            // read the page on which these reads lie twice.
            let short =
                self.direction == Direction::Read && span.end.saturating_sub(span.start) < PAGE_BLOCKS.into();
            let tears = short && apart & 1 != 0 && span.start == end;
            let apart = if tears { u8::MAX } else { apart };
            if apart < least {
                (nearest, least) = (Some(index), apart);
            }
        }
        nearest
    }
}
