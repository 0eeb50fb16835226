//! Futures that nothing waits for any more, also those that are dropped inside another call of their stack.

use super::request::At;
use super::{Platform, RequestFuture, Stack};
use crate::engine::Engine;
use crate::sched::Policy;

impl<B: Platform, const N: usize> Drop for RequestFuture<'_, B, N> {
    fn drop(&mut self) {
        if let At::In(id) = self.at {
            // The buffer of a request that had not reached the controller waits for `reclaim`, like that of one that had. Its waker is
            // dropped outside of the lock.
            let left = self.stack.enter(None, |engine| {
                engine.abandon(id);
                Some(engine.take_stale_waker())
            });
            if B::Policy::RECOVERS && left.is_none() {
                // Inside another call: the next one gives it up.
                let dropped = &self.stack.dropped;
                self.stack.inside(|_| dropped.set(dropped.get() | 1 << id.index()));
            }
        }
    }
}

impl<B: Platform, const N: usize> Stack<B, N> {
    /// What was dropped inside another call is given up now. True: there was something.
    #[cold]
    #[inline(never)]
    pub(super) fn end_dropped(&self, engine: &mut Engine<B::Host, N, B::Policy>) -> bool {
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

    /// The function's transfer has no good end: an abort comes before its next one. Also from inside another call.
    pub(crate) fn owe_abort(&self, function: u8) {
        self.inside(|_| self.unfinished.set(self.unfinished.get() | 1 << (function & 7)));
    }

    /// Does the function owe an abort? Then it is the caller's to send.
    pub(crate) fn take_abort(&self, function: u8) -> bool {
        self.inside(|_| {
            let (all, bit) = (self.unfinished.get(), 1 << (function & 7));
            self.unfinished.set(all & !bit);
            all & bit != 0
        })
    }

    /// The card was reset: none of its functions goes on with anything.
    pub(crate) fn owe_no_abort(&self) {
        self.inside(|_| self.unfinished.set(0));
    }
}
