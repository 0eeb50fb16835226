//! A request as a future.

use super::{Lock, Platform, Stack};
use crate::engine::{Completion, Error, Request, SlotId};
use crate::sched::Profile;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

pub(super) enum At {
    /// The request is not submitted yet.
    Before(Request),
    /// The request is in this slot.
    In(SlotId),
    /// The request has ended, and the future has returned its result.
    After,
}

/// A request as a future, which returns its result and its buffer.
#[must_use = "nothing happens unless it is polled"]
pub struct RequestFuture<'a, B: Platform, const N: usize> {
    pub(super) stack: &'a Stack<B, N>,
    pub(super) at: At,
}

/// What a poll of a request's future has found out about the request, while the stack's lock was
/// held.
#[derive(Clone, Copy)]
pub(super) enum Look {
    /// The request is over.
    Over,
    /// The request waits, and its slot has the task's waker.
    Waits,
    /// The request waits, but its slot does not have this task's waker yet; the caller must set it.
    Unknown,
    /// The call came from inside another call of the same stack, and nothing was done.
    Nested,
    /// The request was not accepted yet, and has to be submitted once more.
    Again,
}

/// Values that a poll of a request passes to, and gets from, a check that runs while the stack's
/// lock is held. Wakers are dropped and woken only after that.
pub(super) struct Seen {
    pub(super) completion: Option<Completion>,
    /// A waker that goes into the check under the lock, or comes out of it. In: the task's waker,
    /// which the slot is to store. Out: the waker that the slot does not need, to be dropped after
    /// the lock.
    pub(super) waker: Option<Waker>,
    /// After the check of a completed request: the waker that its slot had stored. It is no longer
    /// used.
    pub(super) own: Option<Waker>,
}

impl Seen {
    /// Makes a value without completion and wakers. This is a function, because a constant (nearly
    /// all zeros) would be copied into the firmware image.
    #[inline(always)]
    pub(super) const fn nothing() -> Seen {
        Seen { completion: None, waker: None, own: None }
    }
}

impl<B: Platform, const N: usize> RequestFuture<'_, B, N> {
    /// Submits the request if that has not been done; otherwise checks whether it is complete. A
    /// refused request is over, and its buffer comes back in `seen`.
    ///
    /// Wakers are neither cloned nor dropped under the lock: both may run any code.
    #[inline]
    pub(super) fn look(&mut self, known: &Waker, seen: &mut Seen) -> Look {
        let RequestFuture { stack, at } = self;
        stack.enter(Look::Nested, |engine| {
            let id = match at {
                At::Before(request) => match stack.submit_in_turn(engine, request) {
                    Ok(id) => {
                        stack.stop_waiting(request);
                        id
                    }
                    Err(Error::Full) if B::Profile::RECOVERS && stack.frees_slot(engine, request) => {
                        return Look::Again;
                    }
                    Err(Error::Full) if stack.lets_wait(engine, request, &mut seen.waker) => {
                        return Look::Waits;
                    }
                    Err(error) => {
                        stack.stop_waiting(request);
                        seen.completion = Some(Completion::refused(error, request));
                        *at = At::After;
                        return Look::Over;
                    }
                },
                At::In(id) => {
                    let id = *id;
                    seen.completion = engine.take(id);
                    if seen.completion.is_some() {
                        *at = At::After;
                        seen.own = engine.take_waker(id.index());
                        return Look::Over;
                    }
                    id
                }
                At::After => return Look::Waits,
            };
            *at = At::In(id);
            match seen.waker.take() {
                Some(waker) => seen.waker = engine.set_waker(id, waker),
                None if engine.will_wake(id, known) => {}
                None => return Look::Unknown,
            }
            Look::Waits
        })
    }

    /// Returns whether the request waits for a slot.
    #[inline(always)]
    pub(super) fn has_place(&self) -> bool {
        matches!(&self.at, At::Before(request) if request.place != 0)
    }

    /// Ends a request that was made from inside another call of the stack, with
    /// [`Error::Reentered`]: nothing was submitted. `None`: the request is submitted, complete, or
    /// waits for a slot.
    #[cold]
    pub(super) fn turned_away(&mut self) -> Option<Completion> {
        let At::Before(request) = &mut self.at else { return None };
        if B::Lock::QUEUES && request.place != 0 {
            return None;
        }
        let refused = Completion::refused(Error::Reentered, request);
        self.at = At::After;
        Some(refused)
    }
}

impl<B: Platform, const N: usize> Future for RequestFuture<'_, B, N> {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut seen = Seen::nothing();
        let mut look = Look::Unknown;
        let waited = B::Lock::QUEUES && self.has_place();
        if !matches!(self.at, At::Before(_)) {
            look = self.look(context.waker(), &mut seen);
        }
        if matches!(look, Look::Unknown) {
            seen.waker = Some(context.waker().clone());
            look = self.look(context.waker(), &mut seen);
        }
        if matches!(look, Look::Nested | Look::Again) {
            if matches!(look, Look::Nested) {
                seen.completion = self.turned_away();
            }
            if seen.completion.is_none() {
                // The request cannot be submitted in this call, but soon: the task is woken to try
                // again.
                context.waker().wake_by_ref();
            }
        }
        if B::Lock::QUEUES && (seen.completion.is_some() || waited && !self.has_place()) {
            self.stack.call_waiting();
        }
        seen.completion.map_or(Poll::Pending, Poll::Ready)
    }
}
