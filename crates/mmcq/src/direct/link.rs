//! The back ends of bring-up's session: exchanges go to the [machine](super::machine) at once. One
//! back end returns a future, the other one waits on the caller's thread.

use super::call::Access;
use super::{Blocking, DirectCard, DirectState};
use crate::card::found::Brief;
use crate::card::identify::Families;
use crate::card::link::{Answer, Link};
use crate::card::session::Failed;
use crate::engine::{Completion, Request};
use crate::spec::response::Response;
use crate::task::{Idle, Platform};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

impl<B: Platform, F> DirectCard<B, F> {
    /// Begins an exchange with the card.
    #[inline(never)]
    fn begin_now(&self, request: Request) {
        let now_ns = self.now_ns();
        let mut request = request;
        self.enter((), |state| state.machine.begin(&mut request, now_ns));
    }
}

impl<'a, B: Platform, F> Link for &'a DirectCard<B, F> {
    type Host = B::Host;
    type Exchange = DirectExchange<'a, B, F>;
    const RECOVERS: bool = false;
    const TUNES: bool = false;
    const STRICT: bool = true;
    type Registers = ();
    type Answer = ();
    type Stage<T: Future> = T;

    #[inline(always)]
    fn stage<T: Future>(make: impl FnOnce() -> T) -> T {
        make()
    }

    const KEEPS: bool = false;

    #[inline(always)]
    fn begin(self, request: Request) -> DirectExchange<'a, B, F> {
        self.begin_now(request);
        DirectExchange(self)
    }

    fn ask_host<R>(self, nested: R, question: impl Fn(&B::Host) -> R) -> R {
        self.enter(nested, |state| question(state.machine.host()))
    }

    fn now_ns(self) -> u64 {
        DirectCard::now_ns(self)
    }
}

impl<B: Platform, F: Families<Found = Brief>> Access for &DirectCard<B, F> {
    type Cards = F;

    fn enter<R>(self, nested: R, f: impl FnMut(&mut DirectState<B::Host>) -> R) -> R {
        DirectCard::enter(self, nested, f)
    }
}

impl<B: Platform, F, W: Fn(&Idle)> Link for &Blocking<'_, B, F, W> {
    type Host = B::Host;
    type Exchange = Ended<Completion>;
    const RECOVERS: bool = false;
    const TUNES: bool = false;
    const STRICT: bool = true;
    type Registers = ();
    type Answer = Answered;
    type Stage<T: Future> = Ended<T::Output>;

    #[inline(never)]
    fn stage<T: Future>(make: impl FnOnce() -> T) -> Ended<T::Output> {
        Ended(Some(at_once(make())))
    }

    const KEEPS: bool = false;
    const BLOCKS: bool = true;

    #[inline(always)]
    fn begin(self, request: Request) -> Ended<Completion> {
        self.direct.begin_now(request);
        Ended(Some(self.finish()))
    }

    fn ask_host<R>(self, nested: R, question: impl Fn(&B::Host) -> R) -> R {
        self.direct.ask_host(nested, question)
    }

    fn now_ns(self) -> u64 {
        self.direct.now_ns()
    }
}

impl<B: Platform, F: Families<Found = Brief>, W: Fn(&Idle)> Access for &Blocking<'_, B, F, W> {
    type Cards = F;

    fn enter<R>(self, nested: R, f: impl FnMut(&mut DirectState<B::Host>) -> R) -> R {
        self.direct.enter(nested, f)
    }
}

/// A future that has ended. (The one of `core` can panic.)
#[derive(Debug)]
pub struct Ended<T>(Option<T>);

// The value is never pinned.
impl<T> Unpin for Ended<T> {}

impl<T> Future for Ended<T> {
    type Output = T;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        self.0.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// Runs a future whose exchanges end where they begin, so that its first poll ends it.
#[inline(always)]
pub(super) fn at_once<T: Future>(future: T) -> T::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// The judged result of an exchange that has ended where it began.
#[derive(Debug, Default)]
pub struct Answered {
    response: Response,
    is_good: bool,
}

impl Answer for Answered {
    #[inline(always)]
    fn set(&mut self, result: Result<Response, Failed>) {
        self.is_good = result.is_ok();
        if let Ok(response) = result {
            self.response = response;
        }
    }

    #[inline(always)]
    fn get(&self) -> Result<Response, Failed> {
        if !self.is_good {
            return Err(Failed);
        }
        // Word by word: of a copy in one piece the compiler would make a call of `memmove`.
        let [a, b, c, d] = self.response.words;
        Ok(Response { words: [a, b, c, d] })
    }
}

/// An exchange with the card in progress.
#[derive(Debug)]
pub struct DirectExchange<'a, B: Platform, F>(&'a DirectCard<B, F>);

impl<B: Platform, F> Future for DirectExchange<'_, B, F> {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        let direct = self.0;
        let mut done = None;
        direct.advance(Some(&mut done));
        if let Some(done) = done {
            return Poll::Ready(done);
        }
        // Wakers are neither cloned nor dropped under the lock: both may run any code.
        let mut waker = Some(context.waker().clone());
        let done = direct.enter(None, |state| {
            core::mem::swap(&mut waker, &mut state.machine.waker);
            state.machine.take()
        });
        done.map_or(Poll::Pending, Poll::Ready)
    }
}
