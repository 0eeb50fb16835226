//! Futures that nothing waits for any more, also those that are dropped inside another call of
//! their stack.

use super::request::At;
use super::{EngineOf, Platform, RequestFuture, Stack};
use crate::engine::{Request, SlotId, SlotSet};
use crate::sched::Profile;
use core::cell::Cell;

/// Requests whose future was dropped inside another call, until the next call gives them up. The
/// rest of that other call may end such a request, and put another one into its slot: so each has
/// the number of its use of the slot.
pub(super) struct Dropped<const N: usize> {
    /// One bit a slot.
    slots: Cell<SlotSet>,
    /// The low bits of the use: no call fills one slot 256 times and drops the first future last.
    uses: [Cell<u8>; N],
}

impl<const N: usize> Dropped<N> {
    pub const fn new() -> Self {
        Dropped { slots: Cell::new(0), uses: [const { Cell::new(0) }; N] }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.get() == 0
    }

    /// Of two that were in one slot, the later one may still be in progress.
    fn note(&self, id: SlotId) {
        let Some(known) = self.uses.get(id.index()) else { return };
        let (bit, number) = (1 << id.index(), id.use_number());
        let is_older = number.wrapping_sub(known.get()) > u8::MAX / 2;
        if self.slots.get() & bit == 0 || !is_older {
            known.set(number);
        }
        self.slots.set(self.slots.get() | bit);
    }

    fn was(&self, id: SlotId) -> bool {
        self.uses.get(id.index()).is_some_and(|number| number.get() == id.use_number())
    }
}

impl<B: Platform, const N: usize> Drop for RequestFuture<'_, B, N> {
    fn drop(&mut self) {
        if let At::In(id) = self.at {
            // The buffer of a request that had not reached the controller waits for `reclaim`, like
            // that of one that had. Its waker is dropped outside of the lock.
            let left = self.stack.enter(None, |engine| {
                engine.abandon(id);
                Some(engine.take_stale_waker())
            });
            if B::Profile::RECOVERS && left.is_none() {
                // Inside another call: the next one gives it up.
                self.stack.inside(|_| self.stack.dropped.note(id));
            }
        }
    }
}

impl<B: Platform, const N: usize> Stack<B, N> {
    /// What was dropped inside another call is given up now. True: there was something.
    #[cold]
    #[inline(never)]
    pub(super) fn end_dropped(&self, engine: &mut EngineOf<B, N>) -> bool {
        let mut slots = self.dropped.slots.take();
        let any = slots != 0;
        while slots != 0 {
            if let Some(id) = engine.id_of(slots.trailing_zeros() as usize)
                && self.dropped.was(id)
            {
                engine.abandon(id);
            }
            slots &= slots - 1;
        }
        any
    }

    /// Is a slot free now, or about to be for the help that all wait for?
    #[cold]
    #[inline(never)]
    pub(super) fn frees_slot(&self, engine: &mut EngineOf<B, N>, request: &Request) -> bool {
        self.end_dropped(engine) || request.urgent && engine.asks_for_help()
    }

    /// The function's transfer has no good end: an abort comes before its next one. Also from
    /// inside another call.
    pub(crate) fn owe_abort(&self, function: u8) {
        self.inside(|_| self.engine.unfinished.set(self.engine.unfinished.get() | 1 << (function & 7)));
    }

    /// Does the function owe an abort? Then it is the caller's to send.
    pub(crate) fn take_abort(&self, function: u8) -> bool {
        self.inside(|_| {
            let (all, bit) = (self.engine.unfinished.get(), 1 << (function & 7));
            self.engine.unfinished.set(all & !bit);
            all & bit != 0
        })
    }

    /// The I/O card is being reset, or has been: what a handle has told the one before is
    /// forgotten.
    pub(crate) fn note_io_reset(&self) {
        self.inside(|_| self.engine.io_resets.set(self.engine.io_resets.get().wrapping_add(1)));
    }

    /// To be compared with a later answer: the same means that the card has forgotten nothing.
    pub(crate) fn io_resets(&self) -> u32 {
        self.inside(|_| self.engine.io_resets.get())
    }

    /// The card was reset: none of its functions goes on with anything.
    pub(crate) fn owe_no_abort(&self) {
        self.inside(|_| self.engine.unfinished.set(0));
    }
}
