//! Calls that wait on the caller's own thread: futures run to their end, single requests, memory that is lent for the call.

use super::{Lock, Shared};
use crate::engine::{Completion, DmaBuf, Error, Kind, Output, Request, SlotId};
use crate::host::Host;
use crate::sched::Policy;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

impl<L: Lock, H: Host, const N: usize, P: Policy> Shared<L, H, N, P> {
    /// Runs a future to its end on this thread, driving the stack by [`turn`](Self::turn); `idle` is called in between (wait for an interrupt,
    /// yield, or nothing). For start-up code and for platforms without an executor.
    pub fn block_on<F: Future>(&self, future: F, mut idle: impl FnMut()) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.turn();
            idle();
        }
    }

    /// One request, from submit to completion, on this thread.
    pub fn blocking(&self, request: Request, idle: impl FnMut()) -> Completion {
        self.block_on(self.request(request), idle)
    }

    /// As [`blocking`](Self::blocking) with memory that is only lent for the call.
    ///
    /// # Safety
    /// `memory` stays valid and unused by anybody else until this returns or unwinds.
    pub(crate) unsafe fn lent(
        &self,
        kind: Kind,
        memory: core::ptr::NonNull<[u8]>,
        mut idle: impl FnMut(),
    ) -> Result<Output, Error> {
        let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller lends the memory until we return, and we do not return (nor unwind) before the slot has given it back.
        let buf = unsafe { DmaBuf::lent(memory.cast(), len) };
        let id = self.submit(Request::new(kind, buf)).map_err(|(error, _)| error)?;
        let quiesce = Quiesce { shared: self, id };
        loop {
            if let Some(completion) = self.with(|engine| engine.take(id)) {
                core::mem::forget(quiesce);
                return completion.result;
            }
            self.turn();
            idle();
        }
    }
}

/// Unwinding out of a call with lent memory: stops the controller before the memory goes.
pub(super) struct Quiesce<'a, L: Lock, H: Host, const N: usize, P: Policy> {
    pub(super) shared: &'a Shared<L, H, N, P>,
    pub(super) id: SlotId,
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Drop for Quiesce<'_, L, H, N, P> {
    fn drop(&mut self) {
        self.shared.with(|engine| {
            engine.cancel(self.id);
            engine.abort(self.shared.now_ns());
        });
        // Every step of an abort has a deadline, so this ends; returning earlier would free memory that is still being written.
        while self.shared.with(|engine| engine.id_of(self.id.index()) == Some(self.id)) {
            self.shared.turn();
        }
    }
}
