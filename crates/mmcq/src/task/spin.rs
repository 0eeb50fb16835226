//! Calls that send a request and wait for its end in a thread. The thread spins while a phase (a
//! command with its data) is short, and then sleeps.

use super::request::{At, Look, Seen};
use super::{Platform, RequestFuture, Stack};
use crate::advance::{Advice, Context as From, Wait, WaitStrategy};
use crate::engine::{Completion, Request, SlotId};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// Largest number of phases (commands with their data) of one request for whose ends a thread
/// spins. After them it sleeps, even if the policy advises to spin.
const PHASES_MAX: u32 = 16;

impl<B: Platform, const N: usize> Stack<B, N> {
    /// Returns a [`request`](Self::request) for a thread that spins before it sleeps. At its first
    /// poll the future submits the request, and then drives the stack by [`turn`](Self::turn),
    /// phase by phase, as long as `advance` expects spinning to be cheaper than sleeping. Then the
    /// future is pending: the interrupt wakes its waker, and the future does not spin again. It
    /// spins for at most 16 phases, and in each phase no longer than [`WaitStrategy::choose`]
    /// allows, in time and in polls.
    ///
    /// The bus settings are read from the engine, and `advance` learns from the time that the
    /// phases took.
    pub fn request_with<'a>(&'a self, advance: &'a WaitStrategy, request: Request) -> Spinning<'a, B, N> {
        Spinning { op: self.request(request), advance, since_ns: 0 }
    }

    /// Spins for a request. `None`: the request is not complete, and sleeping is cheaper now.
    fn spin_for(&self, advance: &WaitStrategy, id: SlotId) -> Option<Completion> {
        let began_ns = self.now_ns();
        let _quiet = Quiet::new(advance);
        for _ in 0..PHASES_MAX {
            let (done, wait) = self.with(|engine| {
                advance.set_bus(engine.bus());
                (engine.take(id), engine.awaited().map(Wait::of))
            });
            if done.is_some() {
                return done;
            }
            let wait = wait?;
            let spent_ns = self.now_ns().saturating_sub(began_ns);
            let Advice::Spin { at_most_ns } = advance.choose(&wait, From::Thread, spent_ns) else {
                return None;
            };
            if !self.spin_while(at_most_ns, advance, &wait) {
                return None;
            }
        }
        self.with(|engine| engine.take(id))
    }

    /// Calls `turn` until the engine's command in progress has ended (a phase: one command with its
    /// data or busy). Returns false if none has ended in `at_most_ns`.
    fn spin_while(&self, at_most_ns: u64, advance: &WaitStrategy, wait: &Wait) -> bool {
        let before = self.with(|engine| engine.last_phase());
        let (mut looks, began_ns) = (0, self.now_ns());
        let looks_max = at_most_ns / u64::from(advance.costs().look_ns.max(1));
        loop {
            self.turn();
            let last = self.with(|engine| engine.last_phase());
            if let Some(span) = last.filter(|_| last != before) {
                advance.saw(&Wait::of(&span.phase), span.ended_ns.saturating_sub(span.began_ns));
                return true;
            }
            looks += 1;
            let waited_ns = self.now_ns().saturating_sub(began_ns);
            if waited_ns >= at_most_ns || looks > looks_max {
                advance.gave_up(wait, waited_ns);
                return false;
            }
        }
    }
}

/// Guard: while it exists, no interrupt handler serves the controller's interrupt.
struct Quiet<'a>(&'a WaitStrategy);

impl<'a> Quiet<'a> {
    fn new(advance: &'a WaitStrategy) -> Self {
        advance.listen(false);
        Quiet(advance)
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        self.0.listen(true);
    }
}

/// A request as a future that spins before it sleeps.
#[must_use = "nothing happens unless it is polled"]
pub struct Spinning<'a, B: Platform, const N: usize> {
    op: RequestFuture<'a, B, N>,
    advance: &'a WaitStrategy,
    /// Time at which the future stopped spinning, in nanoseconds.
    since_ns: u64,
}

impl<B: Platform, const N: usize> Future for Spinning<'_, B, N> {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (stack, advance) = (self.op.stack, self.advance);
        if matches!(self.op.at, At::Before(_)) {
            // Submitted without a waker: a thread that spins need not be woken.
            let mut seen = Seen::nothing();
            if matches!(self.op.look(context.waker(), &mut seen), Look::Nested) {
                seen.completion = self.op.turned_away();
            }
            if let Some(refused) = seen.completion {
                return Poll::Ready(refused);
            }
            if let At::In(id) = self.op.at
                && let Some(done) = stack.spin_for(advance, id)
            {
                self.op.at = At::After;
                return Poll::Ready(done);
            }
            self.since_ns = stack.now_ns();
            return Pin::new(&mut self.op).poll(context);
        }
        let done = Pin::new(&mut self.op).poll(context);
        if done.is_ready()
            && let Some(span) = stack.with(|engine| engine.last_phase())
        {
            let away_ns = stack.now_ns().saturating_sub(self.since_ns);
            advance.slept(From::Thread, away_ns, span.ended_ns.saturating_sub(self.since_ns));
            advance.saw(&Wait::of(&span.phase), span.ended_ns.saturating_sub(span.began_ns));
        }
        done
    }
}
