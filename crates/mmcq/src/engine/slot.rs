//! Slots: where a request lives from submit until its completion is taken.

mod ends;
mod flushes;
mod mapped;
mod neighbours;
mod request;
mod rules;

use super::buffer::DmaBuf;
use super::request::{Error, Kind, Output};
use crate::host::{Direction, Segment};
use crate::sched::slot_set::{SLOTS_MAX, SlotSet};
use crate::sched::{Origin, Waiting};
use core::task::Waker;
pub(super) use rules::Rules;

/// The states of a slot: `Free -> Queued -> Active -> [Settling] -> Ended -> Done -> Free`;
/// `Ended -> Lost -> Free` if no client waits any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot has no owner.
    Free,
    /// The request waits for its turn.
    Queued,
    /// The request's transfer is with the controller.
    Active,
    /// The request's transfer is with a controller that cannot be stopped, and its memory was lent.
    Kept,
    /// The data are written; the card's next status shows whether they were programmed.
    Settling,
    /// The result is known and the controller has stopped using the memory, which is still mapped.
    Ended,
    /// The completion can be taken.
    Done,
    /// No client will take the completion: the buffer waits for `reclaim`.
    Lost,
}

#[derive(Debug)]
pub(super) struct Slot {
    state: State,
    /// Whether no client waits for the result.
    orphan: bool,
    /// Whether the request is never merged again: it failed with others, and is now tried alone.
    solo: bool,
    /// Whether the request was written a second time, because the result of the first was lost.
    redone: bool,
    /// Whether the request's memory (`segment`) is mapped for the controller.
    mapped: bool,
    generation: u32,
    /// Blocks already transferred (a request larger than a transfer goes in pieces).
    moved_blocks: u32,
    origin: Origin,
    rules: Rules,
    urgent: bool,
    arrived_ns: u64,
    kind: Kind,
    segment: Segment,
    buf: DmaBuf,
    result: Result<Output, Error>,
    waker: Option<Waker>,
    previous: u8,
    next: u8,
}

pub(super) const NONE: u8 = u8::MAX;

impl Slot {
    pub const NEW: Slot = Slot {
        state: State::Free,
        orphan: false,
        solo: false,
        redone: false,
        mapped: false,
        generation: 0,
        moved_blocks: 0,
        origin: Origin::DEFAULT,
        rules: Rules::NONE,
        urgent: false,
        arrived_ns: 0,
        kind: Kind::Flush,
        segment: Segment::NONE,
        buf: DmaBuf::EMPTY,
        result: Ok(Output { bytes: 0, response: crate::spec::response::Response { words: [0; 4] } }),
        waker: None,
        previous: NONE,
        next: NONE,
    };

    /// Returns direction, first block and blocks still to transfer, of a read or write.
    pub fn span(&self) -> Option<(Direction, u64, u32)> {
        let (direction, lba, blocks) = self.kind.span()?;
        Some((
            direction,
            lba.wrapping_add(u64::from(self.moved_blocks)),
            blocks.saturating_sub(self.moved_blocks),
        ))
    }

    /// Returns the direction of the data, if there are any.
    pub fn direction(&self) -> Option<Direction> {
        match self.kind {
            Kind::Read { .. } => Some(Direction::Read),
            Kind::Write { .. } => Some(Direction::Write),
            Kind::Raw { phase, .. } | Kind::Io { phase, .. } => {
                phase.data.filter(|_| !phase.tuning).map(|d| d.direction)
            }
            _ => None,
        }
    }
}

/// The blocks of a queued read or write. Separate from the slots, so that the search for neighbours
/// touches few cache lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub direction: Direction,
    pub start: u64,
    /// The end: the number after the last block.
    pub end: u64,
    /// Number of arrival: a later request has a larger number. It wraps.
    pub age: u32,
}

/// All slots, and the queue as a list through them.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Slots<const N: usize> {
    head: u8,
    tail: u8,
    /// How many slots are mapped.
    mapped: u8,
    /// Whether some queued request is perhaps not mapped.
    unmapped: bool,
    /// Whether the request whose turn it is has found no free mapping.
    cramped: bool,
    next_age: u32,
    /// A bit for each free slot.
    free: SlotSet,
    /// A bit for each slot in state Settling.
    settling: SlotSet,
    /// A bit for each slot in state Ended.
    ended: SlotSet,
    /// A bit for each slot in state Done that was not reported yet.
    unreported: SlotSet,
    /// A bit for each slot whose waker will not be woken, and is dropped outside of the lock.
    stale: SlotSet,
    /// A bit for each queued read.
    reads: SlotSet,
    /// A bit for each queued write.
    writes: SlotSet,
    /// A bit for each other queued request.
    barriers: SlotSet,
    /// The slots of requests that came by the fast path and have no neighbour in the queue: none of
    /// them is a special case.
    lone: SlotSet,
    /// A bit for each slot with a waiting phase of an I/O function; these slots are not in the
    /// queue's list.
    ios: SlotSet,
    /// The slots of `ios` whose requests may start while the engine is stopped.
    urgents: SlotSet,
    flushers: flushes::Flushers,
    slots: [Slot; N],
    spans: [Span; N],
    /// The queued reads and writes, by a hash of the block at which each begins.
    starts: [SlotSet; N],
    /// The queued reads and writes, by a hash of the block at which each ends.
    ends: [SlotSet; N],
}

impl<const N: usize> Slots<N> {
    /// A bit for each slot that exists; also refuses an N outside 1 to [`SLOTS_MAX`] at compile
    /// time.
    pub const ALL: SlotSet = {
        assert!(
            N >= 1 && N <= SLOTS_MAX,
            "an engine has 1 to SLOTS_MAX slots: 32 or 64 as the pointer has bits, or as the features `slots-64` and `slots-128` say"
        );
        SlotSet::MAX >> (SLOTS_MAX - N)
    };

    pub const fn new() -> Self {
        const EMPTY: Span = Span { direction: Direction::Read, start: 0, end: 0, age: 0 };
        Slots {
            slots: [const { Slot::NEW }; N],
            spans: [EMPTY; N],
            free: Self::ALL,
            settling: 0,
            ended: 0,
            unreported: 0,
            stale: 0,
            reads: 0,
            writes: 0,
            lone: 0,
            barriers: 0,
            ios: 0,
            urgents: 0,
            flushers: flushes::Flushers::NONE,
            next_age: 0,
            head: NONE,
            tail: NONE,
            mapped: 0,
            unmapped: false,
            cramped: false,
            starts: [0; N],
            ends: [0; N],
        }
    }

    /// Returns the slot with this index, which is below N.
    pub fn at(&self, index: u8) -> &Slot {
        // The remainder makes a panic impossible. Indices come from this module's own lists, and
        // are below N.
        &self.slots[index as usize % N]
    }

    pub fn at_mut(&mut self, index: u8) -> &mut Slot {
        &mut self.slots[index as usize % N]
    }

    pub fn free_count(&self) -> u32 {
        self.free.count_ones()
    }

    /// Returns the first slot of the queue, or [`NONE`].
    #[inline(always)]
    pub fn head(&self) -> u8 {
        self.head
    }

    /// Returns whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.free == 0
    }

    /// Returns the last slot of the queue, if nothing of its request has been sent.
    pub fn youngest(&self) -> Option<u8> {
        let begun = |&index: &u8| self.at(index).moved_blocks != 0 || self.at(index).redone;
        Some(self.tail).filter(|&index| index != NONE).filter(|index| !begun(index))
    }

    /// Returns whether at least two slots are free.
    #[inline(always)]
    pub fn are_two_free(&self) -> bool {
        self.free & self.free.wrapping_sub(1) != 0
    }

    /// Takes a free slot.
    pub fn allocate(&mut self) -> Option<u8> {
        let index = self.next_free()?;
        self.take_free();
        Some(index)
    }

    /// Returns the free slot that `take_free` would take.
    #[inline(always)]
    pub fn next_free(&self) -> Option<u8> {
        if self.free == 0 { None } else { Some(self.free.trailing_zeros() as u8) }
    }

    /// Takes the slot that `next_free` returns.
    #[inline(always)]
    pub fn take_free(&mut self) {
        self.free &= self.free.wrapping_sub(1);
    }

    /// Frees a slot; ids that still name its last request become invalid.
    pub fn release(&mut self, index: u8) {
        let slot = self.at_mut(index);
        slot.state = State::Free;
        slot.orphan = false;
        if slot.waker.is_some() {
            self.leave_waker(index);
        }
        let slot = self.at_mut(index);
        slot.generation = slot.generation.wrapping_add(1);
        self.free |= 1 << (index as usize % N);
    }

    /// Notes that this slot's waker will not be woken any more.
    #[cold]
    pub fn leave_waker(&mut self, index: u8) {
        self.stale |= 1 << (index as usize % N);
    }

    /// Exchanges a slot's waker. Returns the old one, which the caller drops outside of any lock.
    #[inline]
    pub fn swap_waker(&mut self, index: u8, waker: Option<Waker>) -> Option<Waker> {
        if self.stale != 0 {
            self.stale &= !(1 << (index as usize % N));
        }
        core::mem::replace(&mut self.at_mut(index).waker, waker)
    }

    /// Returns a slot whose waker will not be woken any more.
    #[inline(always)]
    pub fn stale(&self) -> Option<u8> {
        if self.stale == 0 { None } else { Some(self.stale.trailing_zeros() as u8) }
    }

    /// Returns the span of a queued read or write.
    pub fn span(&self, index: u8) -> &Span {
        &self.spans[index as usize % N]
    }

    pub fn queued_reads(&self) -> SlotSet {
        self.reads
    }

    /// Returns whether a request other than reads and writes is queued.
    pub fn has_barrier(&self) -> bool {
        self.barriers != 0
    }

    pub fn queued_writes(&self) -> SlotSet {
        self.writes
    }

    /// Returns the queued reads or writes that may join the head's transfer: none from behind a
    /// barrier.
    pub fn mergeable(&self, direction: Direction) -> SlotSet {
        let all = match direction {
            Direction::Read => self.reads,
            Direction::Write => self.writes,
        };
        if self.barriers == 0 {
            return all;
        }
        let before =
            self.queue().take_while(|&i| self.barriers & (1 << i) == 0).fold(0, |set, i| set | 1 << i);
        all & before
    }

    /// Returns whether this is a queued read or write before the first barrier.
    pub fn is_offered(&self, index: u8) -> bool {
        if usize::from(index) >= N {
            return false;
        }
        let bit = (1 as SlotSet) << index;
        (self.mergeable(Direction::Read) | self.mergeable(Direction::Write)) & bit != 0
    }

    /// Adds a request to the sets of queued requests.
    fn enter(&mut self, index: u8, age: u32) {
        match self.at(index).span() {
            Some((direction, start, blocks)) => {
                let end = start.saturating_add(u64::from(blocks));
                // A request with a span is rare here; its neighbours are not searched, so no slot
                // counts as without neighbours any more.
                self.lone = 0;
                self.enter_span(index, Span { direction, start, end, age });
            }
            None => self.barriers |= 1 << (index as usize % N),
        }
    }

    /// Adds a phase of an I/O function to those that wait outside of the queue.
    pub fn push_io(&mut self, index: u8) {
        self.next_age = self.next_age.wrapping_add(1);
        self.ios |= 1 << (index as usize % N);
        self.spans[index as usize % N].age = self.next_age;
        self.at_mut(index).state = State::Queued;
    }

    /// Returns whether a phase of an I/O function waits.
    pub fn has_io(&self) -> bool {
        self.ios != 0
    }

    /// Adds an urgent request, a part of the recovery, to those that wait outside of the queue.
    pub fn push_urgent(&mut self, index: u8) {
        self.push_io(index);
        self.urgents |= 1 << (index as usize % N);
    }

    /// Returns the urgent request that has waited longest.
    pub fn oldest_urgent(&self) -> Option<u8> {
        let newest = self.next_age;
        bits(self.ios & self.urgents).max_by_key(|&index| newest.wrapping_sub(self.span(index).age))
    }

    /// Returns the phase of an I/O function that has waited longest.
    pub fn oldest_io(&self) -> Option<u8> {
        let newest = self.next_age;
        bits(self.ios).max_by_key(|&index| newest.wrapping_sub(self.span(index).age))
    }

    /// Puts a new request at the end of the queue.
    pub fn push_back(&mut self, index: u8) {
        let age = self.push_last(index);
        self.enter(index, age);
    }

    /// Links a request in as the last, and returns its age.
    #[inline(always)]
    fn push_last(&mut self, index: u8) -> u32 {
        let tail = core::mem::replace(&mut self.tail, index);
        let slot = self.at_mut(index);
        slot.state = State::Queued;
        (slot.previous, slot.next) = (tail, NONE);
        if tail == NONE {
            self.head = index
        } else {
            self.at_mut(tail).next = index
        }
        self.next_age = self.next_age.wrapping_add(1);
        self.next_age
    }

    /// Queues a read or write of these blocks that came by the fast path.
    #[inline(always)]
    pub fn push_span(&mut self, index: u8, direction: Direction, start: u64, end: u64) {
        let age = self.push_last(index);
        let neighbours = self.neighbours(start, end);
        self.lone &= !neighbours;
        if neighbours == 0 {
            self.lone |= 1 << (index as usize % N);
        }
        self.enter_span(index, Span { direction, start, end, age });
    }

    /// Takes the head, a read or write of these blocks, from the queue: it is sent to the
    /// controller.
    #[inline(always)]
    pub fn pop(&mut self, head: u8, direction: Direction, start: u64, end: u64) {
        let slot = self.at_mut(head);
        slot.state = State::Active;
        let next = slot.next;
        self.head = next;
        if next == NONE {
            self.tail = NONE
        }
        let others = !((1 as SlotSet) << (head as usize % N));
        match direction {
            Direction::Read => self.reads &= others,
            Direction::Write => self.writes &= others,
        }
        self.leave_span(head, start, end);
    }

    /// Puts a request that was queued before at the front, with its old age.
    pub fn push_front(&mut self, index: u8) {
        let head = self.head;
        let slot = self.at_mut(index);
        slot.state = State::Queued;
        (slot.previous, slot.next) = (NONE, head);
        if head == NONE {
            self.tail = index
        } else {
            self.at_mut(head).previous = index
        }
        self.head = index;
        let age = self.span(index).age;
        self.enter(index, age);
    }

    /// Queues the remaining blocks of an erase, which are these: behind the waiting requests that
    /// do not overlap it, but before those that do, and before the first barrier other than an
    /// erase.
    pub fn push_rest(&mut self, index: u8, start: u64, end: u64) {
        let stop = self.queue().find(|&i| {
            let slot = self.at(i);
            let (at, blocks) = match (slot.span(), slot.kind) {
                (Some((_, at, blocks)), _) => (at, blocks),
                (None, Kind::Erase { lba, blocks, .. }) => (lba, blocks),
                (None, _) => return true,
            };
            at < end && start < at.saturating_add(u64::from(blocks))
        });
        let Some(next) = stop else { return self.push_back(index) };
        if next == self.head {
            return self.push_front(index);
        }
        self.insert(index, next);
        self.barriers |= 1 << (index as usize % N);
    }

    /// Queues a read or write that was queued before, with its old age: at the front, but behind
    /// older reads and writes there.
    pub fn push_by_age(&mut self, index: u8) {
        let age = self.span(index).age;
        let younger = self
            .queue()
            .find(|&i| self.at(i).span().is_none() || (self.span(i).age.wrapping_sub(age) as i32) > 0);
        match younger {
            Some(next) if next != self.head => {
                self.insert(index, next);
                self.enter(index, age);
            }
            None if self.head != NONE => self.push_behind(index, self.tail),
            _ => self.push_front(index),
        }
    }

    /// Queues a request that was queued before, with its old age, behind one that is queued.
    pub fn push_behind(&mut self, index: u8, last: u8) {
        let (age, next) = (self.span(index).age, self.at(last).next);
        let slot = self.at_mut(index);
        slot.state = State::Queued;
        (slot.previous, slot.next) = (last, next);
        self.at_mut(last).next = index;
        if next == NONE {
            self.tail = index
        } else {
            self.at_mut(next).previous = index
        }
        self.enter(index, age);
    }

    /// Links a slot in before one that is queued and not the head.
    fn insert(&mut self, index: u8, next: u8) {
        let previous = self.at(next).previous;
        let slot = self.at_mut(index);
        slot.state = State::Queued;
        (slot.previous, slot.next) = (previous, next);
        self.at_mut(previous).next = index;
        self.at_mut(next).previous = index;
    }

    pub fn unlink(&mut self, index: u8) {
        let bit = (1 as SlotSet) << (index as usize % N);
        if self.ios & bit != 0 {
            self.ios &= !bit;
            self.urgents &= !bit;
            return;
        }
        let next = self.at(index).next;
        // The head's own link to a slot before it is not kept up to date.
        let previous = if index == self.head { NONE } else { self.at(index).previous };
        if previous == NONE {
            self.head = next
        } else {
            self.at_mut(previous).next = next
        }
        if next == NONE {
            self.tail = previous
        } else {
            self.at_mut(next).previous = previous
        }
        if self.barriers & bit == 0 {
            let Span { start, end, .. } = *self.span(index);
            self.leave_span(index, start, end);
            self.reads &= !bit;
            self.writes &= !bit;
        }
        self.barriers &= !bit;
    }

    /// Activates a request that never waits. It gets an age, in case it must be tried again.
    #[inline(always)]
    pub fn activate_unqueued(&mut self, index: u8) {
        self.at_mut(index).state = State::Active;
        self.next_age = self.next_age.wrapping_add(1);
        self.spans[index as usize % N].age = self.next_age;
    }

    /// Activates a read or write that never waits. Its blocks are stored, because other requests
    /// are compared with them while it waits for its status.
    #[inline(always)]
    pub fn activate_span(&mut self, index: u8, direction: Direction, start: u64, end: u64) {
        self.activate_unqueued(index);
        let span = &mut self.spans[index as usize % N];
        (span.direction, span.start, span.end) = (direction, start, end);
    }

    /// Returns what a policy may pick from: queued reads and writes before the first barrier,
    /// oldest first.
    pub fn offered(&self) -> impl Iterator<Item = Waiting> + Clone + '_ {
        self.queue().map_while(|index| self.waiting(index))
    }

    /// Returns a queued read or write as a policy sees it.
    pub fn waiting(&self, index: u8) -> Option<Waiting> {
        let slot = self.at(index);
        let (direction, lba, blocks) = slot.span()?;
        Some(Waiting { index, direction, lba, blocks, origin: slot.origin, arrived_ns: slot.arrived_ns })
    }

    /// Returns the queue in order, at most N slots.
    pub fn queue(&self) -> impl Iterator<Item = u8> + Clone + '_ {
        let mut at = self.head;
        (0..N).map_while(move |_| {
            let here = at;
            if here == NONE {
                return None;
            }
            at = self.at(here).next;
            Some(here)
        })
    }

    pub fn with_state(&self, wanted: State) -> impl Iterator<Item = u8> + '_ {
        (0..N as u8).filter(move |&i| self.at(i).state == wanted)
    }
}

/// Returns the set bits of a mask, lowest first.
pub(super) fn bits(mut mask: SlotSet) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || lowest(&mut mask))
}

/// Takes the lowest bit. Cores of 32 bits need a dozen instructions for that, so there is one copy.
#[cfg_attr(target_pointer_width = "32", inline(never))]
#[cfg_attr(not(target_pointer_width = "32"), inline(always))]
fn lowest(mask: &mut SlotSet) -> Option<u8> {
    if *mask == 0 {
        return None;
    }
    let index = mask.trailing_zeros() as u8;
    *mask &= *mask - 1;
    Some(index)
}
