//! Which queued reads and writes are neighbours, found by hashes of where each begins and ends.

use super::{NONE, Slots, Span, bits};
use crate::host::Direction;
use crate::sched::slot_set::SlotSet;

/// Returns the index of a block's entry in a hash table. The table has one entry for each slot. If
/// the queue is full, a search meets one or two requests on average that only have the same hash,
/// and are no neighbours.
#[inline(always)]
fn bucket<const N: usize>(block: u64) -> usize {
    // Fibonacci hashing: neighbours and multiples of powers of two are spread. The high bits of the
    // product choose the place.
    let product = (block as u32).wrapping_mul(0x9e37_79b9);
    match N {
        1 => 0,
        _ => (product >> (32 - N.next_power_of_two().trailing_zeros())) as usize % N,
    }
}

impl<const N: usize> Slots<N> {
    /// Returns the queued reads and writes that begin at `end`, or end at `start`.
    #[inline(always)]
    pub(super) fn neighbours(&self, start: u64, end: u64) -> SlotSet {
        let mut neighbours = 0;
        for other in bits(self.near(start, end)) {
            let span = self.span(other);
            if span.start == end || span.end == start {
                neighbours |= 1 << other;
            }
        }
        neighbours
    }

    #[inline(always)]
    pub(super) fn enter_span(&mut self, index: u8, span: Span) {
        let bit = (1 as SlotSet) << (index as usize % N);
        self.starts[bucket::<N>(span.start)] |= bit;
        self.ends[bucket::<N>(span.end)] |= bit;
        match span.direction {
            Direction::Read => self.reads |= bit,
            Direction::Write => self.writes |= bit,
        }
        self.spans[index as usize % N] = span;
    }

    /// Returns true if the last search for neighbours has examined this queued read or write, and
    /// has found that it is ordinary and has none. (A neighbour is a queued request that begins
    /// where this one ends, or ends where it begins.) Otherwise returns false.
    #[inline(always)]
    pub fn is_lone(&self, index: u8) -> bool {
        self.lone >> (index as usize % N) & 1 != 0
    }

    /// Forgets the result of the last search for waiting requests without a neighbour (a request
    /// that begins where they end, or ends where they begin).
    pub fn clear_lone(&mut self) {
        self.lone = 0;
    }

    #[inline(always)]
    pub(super) fn leave_span(&mut self, index: u8, start: u64, end: u64) {
        let others = !((1 as SlotSet) << (index as usize % N));
        self.starts[bucket::<N>(start)] &= others;
        self.ends[bucket::<N>(end)] &= others;
        self.lone &= others;
    }

    /// Puts a request for the blocks from `start` on, before `end`, at the end of the queue. The
    /// request continues a waiting one, or is continued by one. From then on no queued request is
    /// marked as having no neighbour.
    #[inline(always)]
    pub fn push_next(&mut self, index: u8, direction: Direction, start: u64, end: u64) {
        self.lone = 0;
        let age = self.push_last(index);
        self.enter_span(index, Span { direction, start, end, age });
    }

    /// Empties the queue in one step, if it holds exactly `count` reads and writes and no other
    /// request. Otherwise returns false and does nothing.
    pub fn leave_all(&mut self, count: usize) -> bool {
        let others = self.barriers | self.owing;
        if (self.reads | self.writes).count_ones() as usize != count || others != 0 {
            return false;
        }
        (self.head, self.tail) = (NONE, NONE);
        (self.reads, self.writes, self.lone) = (0, 0, 0);
        (self.starts, self.ends) = ([0; N], [0; N]);
        true
    }

    /// Returns how poorly this request fits behind the request `last`, the last one of a batch
    /// (requests that share a transfer); 0 is the best fit. The result is the sum of two penalties.
    /// 2: the two requests have different clients. 1: the request continues another waiting request
    /// of its client, which would stay in the queue.
    #[inline(never)]
    pub fn apart(&self, index: u8, last: u8, waiting: SlotSet) -> u8 {
        let client = |index: u8| self.at(index).origin().client;
        let (start, own) = (self.span(index).start, client(index));
        let before = self.ends[bucket::<N>(start)] & waiting & !(1 << index);
        let leaves = bits(before).any(|other| self.span(other).end == start && client(other) == own);
        u8::from(own != client(last)) * 2 + u8::from(leaves)
    }

    /// Returns queued reads and writes that may begin at `end`, or end at `start`. The set may have
    /// other requests too, but misses none.
    pub fn near(&self, start: u64, end: u64) -> SlotSet {
        self.starts[bucket::<N>(end)] | self.ends[bucket::<N>(start)]
    }
}
