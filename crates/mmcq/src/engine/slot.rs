//! Slots: where a request lives from submit until its completion is taken.

mod ends;
mod flushes;
mod mapped;
mod neighbours;
mod queue;
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
    /// The slot holds no request.
    Free,
    /// The request waits for its turn.
    Queued,
    /// The request's transfer is with the controller.
    Active,
    /// The request's transfer is with a controller that cannot be stopped. The request's memory
    /// belongs to a blocking caller, which must not return, so the request stays in the slot.
    Kept,
    /// The data are written; the card's next status shows whether they were programmed.
    Settling,
    /// The result is known, and the controller does not use the memory any more. The memory is
    /// still mapped.
    Ended,
    /// The completion can be taken.
    Done,
    /// No client will take the completion: the buffer waits for `reclaim`.
    Lost,
}

#[derive(Debug)]
pub(super) struct Slot {
    state: State,
    /// Whether no client waits for the result any more, such as after its future was dropped.
    orphan: bool,
    /// Whether the request is never merged again: it failed with others, and is now tried alone.
    solo: bool,
    /// Whether the request is marked to be written a second time, or was; for example because the
    /// result of the first write was lost.
    redone: bool,
    /// Whether the request's memory (`segment`) is mapped for the controller.
    mapped: bool,
    /// Whether the request was with the controller, which perhaps has changed some of its blocks.
    tried: bool,
    generation: u32,
    /// Number of blocks of the request that are already transferred. (A request that is larger than
    /// a transfer goes in pieces.)
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
        tried: false,
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

    /// Returns the part of a read or write that is not transferred yet: direction, first block and
    /// number of blocks. `None` for a request without a range of blocks.
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
    /// End of the request's range: the block number after its last block.
    pub end: u64,
    /// Number of the request in the order of arrival: a later request has a larger number. The
    /// number wraps.
    pub age: u32,
}

/// All slots, and the queue as a list through them.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(super) struct Slots<const N: usize> {
    head: u8,
    tail: u8,
    /// Number of slots whose memory is mapped for the controller.
    mapped: u8,
    /// Whether the memory of some queued request is perhaps not mapped for DMA.
    unmapped: bool,
    /// Whether the memory of the request that is next could not be mapped, since the host had no
    /// free mapping.
    cramped: bool,
    next_age: u32,
    /// Slots that hold no request, one bit each.
    free: SlotSet,
    /// A bit for each slot in state Settling: a write whose data are transferred waits for the
    /// card's status.
    settling: SlotSet,
    /// A bit for each slot in state Ended.
    ended: SlotSet,
    /// A bit for each slot in state Done that the engine has not reported to its caller yet; the
    /// caller wakes the client then.
    unreported: SlotSet,
    /// A bit for each slot with a waker that the engine will not report any more, because its
    /// request was cancelled, or its completion was taken first. The caller drops such wakers
    /// outside of the lock.
    stale: SlotSet,
    /// A bit for each queued read.
    reads: SlotSet,
    /// Slots whose request is a queued write, one bit each.
    writes: SlotSet,
    /// Slots whose request is queued and is neither a read nor a write, one bit each.
    barriers: SlotSet,
    /// A bit for each slot whose request came by the fast path (few checks) and has no neighbour in
    /// the queue. Such a request needs no special treatment when its turn comes.
    lone: SlotSet,
    /// A bit for each slot whose request is a command to an I/O function and waits for its start.
    /// These slots are not in the queue's list.
    ios: SlotSet,
    /// Set of slots: a bit for each slot with a waiting command to an I/O function that may start even while
    /// the engine is stopped.
    urgents: SlotSet,
    /// A bit for each slot whose write is durable by a flush that has not ended yet.
    owing: SlotSet,
    /// The slots of `owing` whose blocks were partly changed by a later request. The write of
    /// such a slot must not be sent again.
    covered: SlotSet,
    flushers: flushes::Flushers,
    slots: [Slot; N],
    spans: [Span; N],
    /// Hash table of the queued reads and writes by their first block: each entry has a bit for
    /// each request with that hash.
    starts: [SlotSet; N],
    /// Hash table of the queued reads and writes by the block after their last one: each entry has
    /// a bit for each request with that hash.
    ends: [SlotSet; N],
}

impl<const N: usize> Slots<N> {
    /// A set with a bit for each slot that exists. Its evaluation also refuses, at compile time, an
    /// N outside 1 to [`SLOTS_MAX`].
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
            owing: 0,
            covered: 0,
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

    /// Returns the number of slots that are not free.
    pub fn used(&self) -> usize {
        N - self.free_count() as usize
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

    /// Returns the last request of the queue of which nothing was done; `None`: there is none.
    pub fn youngest_untouched(&self) -> Option<u8> {
        self.queue().filter(|&index| self.is_untouched(index)).last()
    }

    /// Returns the slot of the last request of the queue; `None`: the queue is empty.
    pub fn youngest(&self) -> Option<u8> {
        Some(self.tail).filter(|&index| index != NONE)
    }

    /// Returns whether at least two slots are free.
    #[inline(always)]
    pub fn are_two_free(&self) -> bool {
        self.free & self.free.wrapping_sub(1) != 0
    }

    /// Takes a free slot and returns its number; `None`: no slot is free.
    pub fn allocate(&mut self) -> Option<u8> {
        let index = self.next_free()?;
        self.take_free();
        Some(index)
    }

    /// Returns the free slot that [`take_free`](Self::take_free) will take next; `None`: no slot is
    /// free.
    #[inline(always)]
    pub fn next_free(&self) -> Option<u8> {
        if self.free == 0 { None } else { Some(self.free.trailing_zeros() as u8) }
    }

    /// Takes the slot that [`next_free`](Self::next_free) returns.
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

    /// Marks this slot's waker as one that is dropped without a call, outside of the lock, because
    /// nothing waits for the end of its request any more.
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

    /// Returns a slot with a waker that has to be dropped outside of the lock; `None`: there is
    /// none.
    #[inline(always)]
    pub fn stale(&self) -> Option<u8> {
        if self.stale == 0 { None } else { Some(self.stale.trailing_zeros() as u8) }
    }

    /// Returns direction and block range of the queued read or write in this slot.
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

    /// Returns the queued requests of this direction that may join the transfer of the oldest
    /// request. Requests behind a barrier may not join.
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

    /// Returns whether the request in slot `index` is a read or write that the policy may pick:
    /// queued, and before the first barrier.
    pub fn is_offered(&self, index: u8) -> bool {
        if usize::from(index) >= N {
            return false;
        }
        let bit = (1 as SlotSet) << index;
        (self.mergeable(Direction::Read) | self.mergeable(Direction::Write)) & bit != 0
    }

    /// Returns what a policy may pick from: queued reads and writes before the first barrier,
    /// oldest first.
    pub fn offered(&self) -> impl Iterator<Item = Waiting> + Clone + '_ {
        self.queue().map_while(|index| self.waiting(index))
    }

    /// Returns the read or write of slot `index` in the form that a scheduling policy gets
    /// ([`Waiting`]); `None`: the request is neither.
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

/// Returns the numbers of the bits that are set in a mask, lowest first.
pub(super) fn bits(mut mask: SlotSet) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || lowest(&mut mask))
}

/// Clears the lowest set bit of a mask, and returns its number. Cores of 32 bits need a dozen
/// instructions for that, so there is one copy.
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
