//! The queue of slots: a linked list in the order of arrival, and the sets that tell which of its
//! requests are reads, writes and barriers.

use super::super::request::Kind;
use super::{NONE, Slots, Span, State, bits};
use crate::host::Direction;
use crate::sched::slot_set::SlotSet;

impl<const N: usize> Slots<N> {
    /// Adds a request to the sets of queued reads, writes or barriers. `age`: its number of
    /// arrival.
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

    /// Adds a command to an I/O function to the commands that wait outside of the queue.
    pub fn push_io(&mut self, index: u8) {
        self.next_age = self.next_age.wrapping_add(1);
        self.ios |= 1 << (index as usize % N);
        self.spans[index as usize % N].age = self.next_age;
        self.at_mut(index).state = State::Queued;
    }

    /// Returns whether a command of an I/O function (CMD52 or CMD53) waits.
    pub fn has_io(&self) -> bool {
        self.ios != 0
    }

    /// Adds the request of slot `index`, an urgent one that is a part of recovery, to the requests
    /// that wait outside of the queue.
    pub fn push_urgent(&mut self, index: u8) {
        self.push_io(index);
        self.urgents |= 1 << (index as usize % N);
    }

    /// Returns the urgent request that has waited longest.
    pub fn oldest_urgent(&self) -> Option<u8> {
        let newest = self.next_age;
        bits(self.ios & self.urgents).max_by_key(|&index| newest.wrapping_sub(self.span(index).age))
    }

    /// Returns the slot of the queued command of an I/O function (CMD52 or CMD53) that has waited
    /// longest; `None`: no such command is queued.
    pub fn oldest_io(&self) -> Option<u8> {
        let newest = self.next_age;
        bits(self.ios).max_by_key(|&index| newest.wrapping_sub(self.span(index).age))
    }

    /// Puts the request of slot `index`, which is new, at the end of the queue.
    pub fn push_back(&mut self, index: u8) {
        let age = self.push_last(index);
        self.enter(index, age);
    }

    /// Appends the request of slot `index` to the list of the queue. Returns its age: a number that
    /// increases with each new request.
    #[inline(always)]
    pub(super) fn push_last(&mut self, index: u8) -> u32 {
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

    /// Queues a read or write in the slot `index`, whose blocks are those from `start` on, before
    /// `end`. Used by the fast path (the path with few checks).
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

    /// Removes the head, a read or write, from the queue, since it is sent to the controller.
    /// `start` is its first block, `end` the block after its last one.
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
        if self.owing != 0 {
            self.cover(head);
        }
    }

    /// Puts the request of slot `index`, which was queued before, at the front of the queue. Its
    /// age still counts from its submission.
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

    /// Queues the remaining blocks of the erase in slot `index`, from block `start` up to but not
    /// including `end`. They go directly before the first waiting request that overlaps them, or
    /// that is a barrier other than an erase. If there is no such request, they go to the end of
    /// the queue.
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

    /// Queues a read or write that was queued before. Its age counts from its first submission: it
    /// goes to the front, but behind older reads and writes there.
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

    /// Puts a request that was queued before into the queue again, with its old age: directly
    /// behind the queued request in slot `last`.
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

    /// Inserts a slot into the list of the queue before the slot `next`, which is queued and not
    /// the first.
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
        if self.owing != 0 {
            self.cover(index);
        }
    }

    /// Marks a request as sent that did not wait in the queue before. Gives it an age, by which it
    /// gets its place in the queue if it must be sent again.
    #[inline(always)]
    pub fn activate_unqueued(&mut self, index: u8) {
        self.at_mut(index).state = State::Active;
        self.next_age = self.next_age.wrapping_add(1);
        self.spans[index as usize % N].age = self.next_age;
    }

    /// Marks as sent a read or write in the slot `index` that was never in the queue. Stores its
    /// blocks (from `start` on, before `end`), since other requests are compared with them until a
    /// status of the card shows its result.
    #[inline(always)]
    pub fn activate_span(&mut self, index: u8, direction: Direction, start: u64, end: u64) {
        self.activate_unqueued(index);
        let span = &mut self.spans[index as usize % N];
        (span.direction, span.start, span.end) = (direction, start, end);
        if self.owing != 0 {
            self.cover(index);
        }
    }
}
