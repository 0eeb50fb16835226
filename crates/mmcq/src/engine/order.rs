//! Which requests make the next transfer.
//!
//! The policy picks a pending request ([`sched`](crate::sched); without a policy it is the oldest).
//! Pending requests of the same direction that continue it on either side join it in one transfer,
//! within the limits of host and configuration. A short read at the end of the transfer is left out
//! if it continues another waiting read of its client: those two go together later. A request of
//! more blocks than the limits allow goes in pieces, with no request in between.
//!
//! Without a policy, and while nothing fails, a request therefore waits for at most the pieces of
//! the requests before it. `b` blocks go in `ceil(b / m)` pieces, where `m` is the least of
//! [`Caps::max_blocks`](crate::host::Caps::max_blocks),
//! [`Caps::max_bytes`](crate::host::Caps::max_bytes)` / 512` and 65535. A request behind an erase
//! waits for one piece of the erase. Under any policy nothing passes a barrier, an overlapping
//! write, or (if it is a write) an overlapping read that is older than it.
//!
//! Neighbours are found by a hash of where requests begin and end ([`Slots::near`]). All other
//! conditions are checked for a neighbour only, against the spans of the at most 64 waiting
//! requests.

use super::slot::{Slots, bits};
use super::timers::Timers;
use crate::host::Direction;
use crate::sched::slot_set::SlotSet;
use crate::sched::{Choice, Hold, Policy, Profile, Tails};

/// The order of requests: the scheduler, and the part that decides whether the next start is
/// delayed ([`Hold`]).
#[derive(Debug)]
pub(super) struct Order<P: Profile> {
    profile: P,
    tails: P::Tails,
}

impl<P: Profile> Order<P> {
    pub const fn by(profile: P) -> Self {
        Order { profile, tails: P::Tails::NEW }
    }

    #[inline(always)]
    pub fn policy(&self) -> &P::Policy {
        self.profile.policy()
    }

    #[inline(always)]
    pub fn policy_mut(&mut self) -> &mut P::Policy {
        self.profile.policy_mut()
    }

    /// Tells the policy that a request has come into the queue.
    pub fn note_arrived<const N: usize>(&mut self, slots: &Slots<N>, index: u8, now_ns: u64) {
        if let Some(waiting) = self.view(slots, index) {
            self.policy_mut().arrived(&waiting, now_ns);
        }
    }

    /// Calls the policy for the request in slot `index`, which is sent now, so that the policy can
    /// update its state. Called before any state of the engine is changed: a policy may panic.
    pub fn note_sent<const N: usize>(&mut self, slots: &Slots<N>, index: u8, now_ns: u64) {
        if let Some(waiting) = self.view(slots, index) {
            self.policy_mut().sent(&waiting, now_ns);
        }
    }

    /// Calls the policy for the request in slot `index`, which is not with the controller any more,
    /// so that the policy can update its state.
    pub fn note_done<const N: usize>(&mut self, slots: &Slots<N>, index: u8, now_ns: u64) {
        if let Some(sent) = self.view(slots, index) {
            self.policy_mut().done(&sent, now_ns);
        }
    }

    #[inline(always)]
    pub fn tails(&self) -> Option<&Hold> {
        self.tails.get()
    }

    #[inline(always)]
    pub fn tails_mut(&mut self) -> Option<&mut Hold> {
        self.tails.get_mut()
    }

    /// Returns which read or write is next; `None`: the policy wants to wait, and the engine sets a
    /// deadline for it. `recovers`: a recovery is in progress, and the oldest request (`head`) is
    /// next.
    pub fn pick<const N: usize>(
        &mut self,
        slots: &Slots<N>,
        timers: &mut Timers,
        recovers: bool,
        head: u8,
        now_ns: u64,
    ) -> Option<u8> {
        let oldest = slots.at(head);
        // A request that has begun goes on first. Requests that failed together are then tried one
        // by one, before anything new. In front of a barrier there is nothing to pick from.
        let barrier = oldest.span().is_none();
        if P::Policy::IN_ORDER || barrier || oldest.solo() || oldest.moved_blocks() > 0 || recovers {
            return Some(head);
        }
        match self.policy_mut().pick(slots.offered(), now_ns) {
            Choice::IdleUntil(at_ns) if at_ns > now_ns => {
                if timers.keep_idle(at_ns, now_ns) {
                    None
                } else {
                    Some(head)
                }
            }
            Choice::Go(index) if index != head && slots.is_offered(index) => Some(not_before(slots, index)),
            _ => Some(head),
        }
    }
}

/// Returns the request that starts if `picked` is picked: the oldest request on the same blocks
/// that `picked` must not overtake, or `picked` itself.
pub(super) fn not_before<const N: usize>(slots: &Slots<N>, picked: u8) -> u8 {
    let mut index = picked;
    // Each turn of the loop finds an older request, or is the last.
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

/// Returns whether this queued read or write may start before all others: no older request on the
/// same blocks must go first.
pub(super) fn may_lead<const N: usize>(slots: &Slots<N>, index: u8) -> bool {
    not_before(slots, index) == index
}

/// Returns whether the request `index`, sent now in one transfer with the requests `taken`, would
/// overtake an older request that stays in the queue.
pub(super) fn overtakes<const N: usize>(slots: &Slots<N>, index: u8, taken: SlotSet) -> bool {
    let age = slots.span(index).age;
    let others = (slots.queued_reads() | slots.queued_writes()) & !taken & !(1 << index);
    bits(others).any(|other| (slots.span(other).age.wrapping_sub(age) as i32) < 0)
}

/// Returns whether the request `index`, sent now, would overtake an older request on the same
/// blocks, and one of the two writes. `left`: the requests of its direction that stay in the queue.
pub(super) fn overtakes_overlap<const N: usize>(slots: &Slots<N>, index: u8, left: SlotSet) -> bool {
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
