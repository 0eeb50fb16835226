//! Decides which requests may start before the oldest one. They continue an open transfer (one
//! whose blocks are over, but whose command was not ended), or they belong to a run of contiguous
//! requests that is longer than the run of the oldest one.
//!
//! Several clients that access a card sequentially have a run each in the queue. If runs are picked
//! by age, short runs stay short. A run is sent when its oldest request becomes the oldest of all,
//! with the length that it has then. Its client then submits one new request for each that was
//! completed, so its next run is as short. If runs are picked by length, the runs that wait
//! meanwhile grow until they have all requests of their clients. A run needs free slots to grow;
//! where few slots are free, age decides.
//!
//! *Guarantee: a request is overtaken in this way by at most [`PASSES`] younger ones, all of its
//! own direction. After it became the oldest, they transfer fewer blocks together than
//! [`Config::fair_blocks`](super::Config::fair_blocks), or than [`ON`] times as many if one of them
//! continues an open transfer. No request overtakes in this way while requests of the other
//! direction or a barrier wait. A run does not overtake because of its length while fewer than a
//! quarter of the slots are free.*
//!
//! The engine lets requests overtake in this way only with a policy that [yields](Policy::yields),
//! and only on a host that can continue a transfer. On other hosts, as many loads in the laboratory
//! become slower by overtaking as become faster.

use super::batch::{Batch, Limits};
use super::order::{Order, may_lead};
use super::slot::{NONE, Rules, Slots, bits};
use crate::sched::slot_set::SlotSet;
use crate::sched::{Policy, Profile};

/// A younger request may go before the oldest waiting one only if it arrived at most this many
/// requests later.
const PASSES: u32 = 64;
/// Factor on [`Config::fair_blocks`](super::Config::fair_blocks) for younger requests that continue
/// an open transfer. They may overtake with more blocks, since they save the end of one transfer
/// and the start of another.
const ON: u32 = 4;

impl<const N: usize> Slots<N> {
    /// Returns whether the request `index` may start before the older request `picked`. It may if
    /// it came shortly after it, may be merged with others, and may be the first of a transfer.
    fn passes(&self, index: u8, picked: u8) -> bool {
        let (oldest, age) = (self.span(picked).age, self.span(index).age);
        age.wrapping_sub(oldest) <= PASSES && !self.at(index).solo() && may_lead(self, index)
    }
}

impl<P: Profile> Order<P> {
    /// Returns the request that starts next: `picked`, or the first of a longer run of contiguous
    /// requests that may go before it. `batch`: place for the runs that are compared. `limits`:
    /// those of the next transfer.
    #[inline(never)]
    pub fn pick_longer_run<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        batch: &mut Batch<N>,
        limits: Limits,
        picked: u8,
    ) -> u8 {
        let slot = slots.at(picked);
        let (reads, writes) = (slots.queued_reads(), slots.queued_writes());
        let waits = reads | writes;
        let ordinary = slot.rules() == Rules::NONE && !slot.solo() && slot.moved_blocks() == 0;
        let one_way = (reads == 0 || writes == 0) && !slots.has_barrier();
        let others = waits & waits.wrapping_sub(1) != 0;
        let waiting = ordinary && one_way && others;
        if !waiting || !self.policy().yields() || self.tails().is_none() {
            return picked;
        }
        if let Some(next) = limits.floor {
            let goes_on = |&index: &u8| slots.span(index).start == next && slots.passes(index, picked);
            let Some(index) = bits(waits).find(goes_on).filter(|&index| index != picked) else {
                return picked;
            };
            batch.collect(slots, index, limits);
            let (oldest, most) = (slots.span(picked).age, limits.fair_blocks.saturating_mul(ON));
            let passes = self.tails_mut().is_some_and(|hold| hold.try_pass(oldest, batch.blocks(), most));
            return if passes { index } else { picked };
        }
        let room = slots.free_count() as usize >= N / 4;
        if room { self.longest(slots, batch, limits, picked, waits) } else { picked }
    }

    /// Returns the first request of the longest run (contiguous requests of one direction) that
    /// waits, if that run may go before `picked`. Otherwise returns `picked`.
    fn longest<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        batch: &mut Batch<N>,
        limits: Limits,
        picked: u8,
        waits: SlotSet,
    ) -> u8 {
        let oldest = slots.span(picked).age;
        let (mut left, mut longest, mut blocks) = (waits, NONE, 0);
        let mut first = picked;
        // Each turn of the loop removes one run; the first is the run of the picked request.
        loop {
            batch.collect(slots, first, limits);
            let mut away = 0;
            for &index in batch.members() {
                left &= !(1 << index);
                away = away.max(slots.span(index).age.wrapping_sub(oldest));
            }
            if batch.blocks() > blocks && (longest == NONE || away <= PASSES) {
                (longest, blocks) = (first, batch.blocks());
            }
            if left & left.wrapping_sub(1) == 0 {
                break;
            }
            first = left.trailing_zeros() as u8;
        }
        let passes = longest != picked && longest != NONE && slots.passes(longest, picked);
        let Some(hold) = self.tails_mut().filter(|_| passes) else { return picked };
        if hold.try_pass(oldest, blocks, limits.fair_blocks) { longest } else { picked }
    }
}
