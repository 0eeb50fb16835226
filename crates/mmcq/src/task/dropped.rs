//! Futures that were dropped before their end, also by code that runs inside a call of the stack
//! (such as a waker); and which I/O functions still need an abort.

use super::request::At;
use super::{EngineOf, Lock, Platform, RequestFuture, Stack};
use crate::engine::{Request, SlotId, SlotSet};
use crate::sched::Profile;
use core::cell::Cell;

/// Requests whose future was dropped from inside another call of the stack, until the next call
/// abandons them. The remaining part of the outer call may end such a request and put another one
/// into its slot. So each entry also has the use number of its slot.
pub(super) struct Dropped<const N: usize> {
    /// The slots of the requests whose future was dropped, bit n for slot n.
    slots: Cell<SlotSet>,
    /// The low 8 bits of each slot's use number. They suffice: within one call, a slot is never
    /// used 256 more times before the first of these futures is dropped.
    uses: [Cell<u8>; N],
}

impl<const N: usize> Dropped<N> {
    pub const fn new() -> Self {
        Dropped { slots: Cell::new(0), uses: [const { Cell::new(0) }; N] }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.get() == 0
    }

    /// Notes a dropped future. If two of them had the same slot, only the later one may still be in
    /// progress.
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
        if B::Lock::QUEUES && self.has_place() {
            self.leave_queue();
        }
        if let At::In(id) = self.at {
            // The buffer waits for `reclaim`, whether the request had reached the controller or
            // not. The waker is dropped outside of the lock.
            let left = self.stack.enter(None, |engine| {
                engine.abandon(id);
                Some(engine.take_stale_waker())
            });
            self.stack.call_waiting();
            if B::Profile::RECOVERS && left.is_none() {
                // This drop is inside another call: the next call abandons the request.
                self.stack.inside(|_| self.stack.dropped.note(id));
            }
        }
    }
}

impl<B: Platform, const N: usize> RequestFuture<'_, B, N> {
    /// Takes the request out of the wait queue. If the future is dropped by code that runs inside a
    /// call of the stack (such as a waker), the next poll frees the place.
    #[cold]
    pub(super) fn leave_queue(&mut self) {
        let At::Before(request) = &self.at else { return };
        self.stack.inside(|_| self.stack.stop_waiting(request));
        self.stack.call_waiting();
    }
}

impl<B: Platform, const N: usize> Stack<B, N> {
    /// Abandons the requests whose futures were dropped from inside another call of the stack.
    /// Returns true if there was such a request.
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

    /// Frees the slots of dropped futures, for a request that has found all slots in use. Returns
    /// true if there were such slots, or if the request is one of the supervisor's, for which the
    /// engine frees a slot.
    #[cold]
    #[inline(never)]
    pub(super) fn frees_slot(&self, engine: &mut EngineOf<B, N>, request: &Request) -> bool {
        self.end_dropped(engine) || request.urgent && engine.asks_for_help()
    }

    /// Notes that the transfer of this I/O function did not end well, so that an abort must come
    /// before its next transfer. May also be called by code that runs inside a call of the stack.
    pub(crate) fn owe_abort(&self, function: u8) {
        self.inside(|_| self.engine.unfinished.set(self.engine.unfinished.get() | 1 << (function & 7)));
    }

    /// Takes the note that this I/O function needs an abort. Returns true if the caller must send
    /// it.
    pub(crate) fn take_abort(&self, function: u8) -> bool {
        self.inside(|_| {
            let (all, bit) = (self.engine.unfinished.get(), 1 << (function & 7));
            self.engine.unfinished.set(all & !bit);
            all & bit != 0
        })
    }

    /// Counts that a reset of the I/O card begins or has ended. By this count a handle finds that
    /// the settings that it has made are lost.
    pub(crate) fn note_io_reset(&self) {
        self.inside(|_| self.engine.io_resets.set(self.engine.io_resets.get().wrapping_add(1)));
    }

    /// Returns the number of resets of the I/O card so far. If a later call returns the same
    /// number, the card was not reset between the two calls.
    pub(crate) fn io_resets(&self) -> u32 {
        self.inside(|_| self.engine.io_resets.get())
    }

    /// Notes that no I/O function needs an abort any more: the card was reset, so none of its
    /// functions continues a transfer.
    pub(crate) fn owe_no_abort(&self) {
        self.inside(|_| self.engine.unfinished.set(0));
    }
}
