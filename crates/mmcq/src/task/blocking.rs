//! Calls that wait on the caller's own thread: for a future, for a single request, or for a request
//! whose memory is lent for the call.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::request::At;
use super::{Idle, Lock, Platform, RequestFuture, Stack};
use crate::engine::{Claim, Completion, DmaBuf, Error, Output, Request};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

impl<B: Platform, const N: usize> Stack<B, N> {
    /// Runs a future to its end on this thread. While the future is pending, the call runs `idle`,
    /// and then drives the stack by [`turn`](Self::turn). `idle` sleeps, yields or does nothing, by
    /// the rules of [`Idle`]. For start-up code and for platforms without an executor.
    ///
    /// Under embassy, a future with a timer of embassy-time needs one of that crate's features
    /// `generic-queue-N`: without one its timers panic outside of an executor.
    pub fn block_on<F: Future>(&self, future: F, mut idle: impl FnMut(&Idle)) -> F::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Idle::waker());
        let at = Idle::new();
        loop {
            at.look();
            if let Poll::Ready(output) = polled(future.as_mut(), &mut context) {
                return output;
            }
            // `idle` runs before the turn: so the future is polled after each turn, before the next
            // sleep.
            idle(&at);
            if at.turns() {
                self.turn();
            }
        }
    }

    /// Runs one request on this thread, from submit to completion.
    pub fn blocking(&self, request: Request, idle: impl FnMut(&Idle)) -> Completion {
        self.block_on(&mut self.request(request), idle)
    }

    /// Runs one request as [`blocking`](Self::blocking) does, but with `memory`, which is only lent
    /// for the call, in place of the request's own buffer.
    ///
    /// # Safety
    /// `memory` stays valid and unused by other code until this returns or unwinds.
    pub(crate) unsafe fn lent(
        &self,
        request: Request,
        memory: core::ptr::NonNull<[u8]>,
        idle: impl FnMut(&Idle),
    ) -> Result<Output, Error> {
        let len = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        // SAFETY: the caller lends the memory until we return, and we do not return (nor unwind)
        // before the slot has given it back.
        let buf = unsafe { DmaBuf::lent(memory.cast(), len) };
        // Computed before the request is submitted: functions of the platform run inside of the
        // submission, and any may panic.
        let memory = buf.claim();
        let request = Request { buf, ..request };
        let mut quiesce = Quiesce { op: self.request(request), memory };
        let result = self.block_on(&mut quiesce.op, idle).result;
        core::mem::forget(quiesce);
        result
    }
}

/// Polls a future. This is not inlined: in a loop, the state of a large future would lie in the
/// loop's stack frame, and longer instructions would access it.
#[inline(never)]
fn polled<F: Future>(future: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
    future.poll(context)
}

/// Guard for a call with lent memory: if the call unwinds, the drop stops the controller before the
/// memory goes out of scope.
pub(super) struct Quiesce<'a, B: Platform, const N: usize> {
    pub(super) op: RequestFuture<'a, B, N>,
    /// Identifies the memory that the call has lent to the request.
    pub(super) memory: Claim,
}

impl<B: Platform, const N: usize> Drop for Quiesce<'_, B, N> {
    fn drop(&mut self) {
        if B::Lock::QUEUES && self.op.has_place() {
            self.op.leave_queue();
        }
        // The slot is not known while the request is being submitted. If exactly one request has
        // the memory at that time, it is this one.
        let known = match core::mem::replace(&mut self.op.at, At::After) {
            At::In(id) => Some(id),
            _ => None,
        };
        let (stack, memory) = (self.op.stack, self.memory);
        // A call from inside another call of this stack has passed no memory to the engine.
        if known.is_none() && stack.with(|engine| engine.is_nested()) {
            return;
        }
        // A request that waits is taken out, and every step of an abort has a deadline, so this
        // ends; returning earlier would free memory that is still being written.
        while stack.with(|engine| {
            // Where several calls write from the same memory it is not known which request is this
            // call's. Then the loop waits for all of them.
            if let Some(id) = known.or_else(|| engine.only_lent(memory)) {
                engine.forsake(id, stack.now_ns());
            }
            match known {
                Some(id) => engine.id_of(id.index()) == Some(id),
                None => engine.has_lent(memory),
            }
        }) {
            stack.turn();
        }
    }
}
