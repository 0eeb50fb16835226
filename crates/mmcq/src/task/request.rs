//! A request as a future.

use super::{Platform, Stack};
use crate::engine::{Completion, Error, Request, SlotId};
use crate::sched::Profile;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

pub(super) enum At {
    /// Not submitted yet.
    Before(Request),
    /// In this slot.
    In(SlotId),
    /// Its result has been handed over.
    After,
}

/// A request as a future: its result, and its buffer back.
#[must_use = "nothing happens unless it is polled"]
pub struct RequestFuture<'a, B: Platform, const N: usize> {
    pub(super) stack: &'a Stack<B, N>,
    pub(super) at: At,
}

/// What a look under the lock has found.
#[derive(Clone, Copy)]
pub(super) enum Look {
    /// It is over.
    Over,
    /// The task's waker is known.
    Waits,
    /// It is to be made known.
    Unknown,
    /// The look came from inside another call.
    Nested,
    /// It is to be submitted once more.
    Again,
}

/// What comes out of a look, or goes into it.
pub(super) struct Seen {
    pub(super) completion: Option<Completion>,
    /// The task's waker, to be made known; then the one that is not kept.
    pub(super) waker: Option<Waker>,
    /// The one that the request had.
    pub(super) own: Option<Waker>,
}

impl Seen {
    /// Not a constant: a copy of it would lie in the image.
    #[inline(always)]
    pub(super) const fn nothing() -> Seen {
        Seen { completion: None, waker: None, own: None }
    }
}

impl<B: Platform, const N: usize> RequestFuture<'_, B, N> {
    /// Hands the request over, if it has not been, or looks whether it is done. A refused one is
    /// over, with its buffer.
    ///
    /// Wakers are neither cloned nor dropped under the lock: both may run anything.
    #[inline]
    pub(super) fn look(&mut self, known: &Waker, seen: &mut Seen) -> Look {
        let RequestFuture { stack, at } = self;
        stack.enter(Look::Nested, |engine| {
            let id = match at {
                At::Before(request) => match stack.submit_to(engine, request) {
                    Ok(id) => id,
                    Err(Error::Full) if B::Profile::RECOVERS && stack.frees_slot(engine, request) => {
                        return Look::Again;
                    }
                    Err(error) => {
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

    /// A call from inside another hands over nothing: the request is over.
    #[cold]
    pub(super) fn turned_away(&mut self) -> Option<Completion> {
        let At::Before(request) = &mut self.at else { return None };
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
                // Not here and now, but soon.
                context.waker().wake_by_ref();
            }
        }
        seen.completion.map_or(Poll::Pending, Poll::Ready)
    }
}
