//! Futures that nothing waits for any more, also those that are dropped inside another call of their stack.

use super::{At, Lock, Op, Shared};
use crate::engine::Engine;
use crate::host::Host;
use crate::sched::Policy;

impl<L: Lock, H: Host, const N: usize, P: Policy> Drop for Op<'_, L, H, N, P> {
    fn drop(&mut self) {
        if let At::In(id) = self.at {
            // The buffer of a request that had not reached the controller waits for `reclaim`, like that of one that had. Its waker is
            // dropped outside of the lock.
            let left = self.shared.enter(None, |engine| {
                engine.abandon(id);
                Some(engine.take_stale_waker())
            });
            if P::RECOVERS && left.is_none() {
                // Inside another call: the next one gives it up.
                let dropped = &self.shared.dropped;
                self.shared.inside(|_| dropped.set(dropped.get() | 1 << id.index()));
            }
        }
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Shared<L, H, N, P> {
    /// What was dropped inside another call is given up now. True: there was something.
    #[cold]
    #[inline(never)]
    pub(super) fn end_dropped(&self, engine: &mut Engine<H, N, P>) -> bool {
        let mut dropped = self.dropped.take();
        let any = dropped != 0;
        while dropped != 0 {
            if let Some(id) = engine.id_of(dropped.trailing_zeros() as usize) {
                engine.abandon(id);
            }
            dropped &= dropped - 1;
        }
        any
    }
}
