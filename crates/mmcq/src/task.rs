//! The edges: a shared handle, futures that borrow a slot, a task that is polled from the interrupt, blocking calls.
//!
//! Futures only hold the number of a slot; the slot owns the buffer. So a future may be dropped or forgotten at any point: dropped, its request is
//! taken back or ends by itself; forgotten, it costs a slot. Nothing here runs a waker or a future while the lock is held.

mod blocking;
mod idle;
mod spin;

pub use idle::Idle;
pub use spin::Spinning;
mod cell;
#[cfg(all(test, loom))]
mod permuted;

use crate::engine::{Completion, Config, DmaBuf, Engine, Error, Kind, Output, Request, SlotId, Work};
use crate::host::{Auto, BusOp, Data, Host, Phase};
use crate::plant::{self, Bug};
use crate::sched::{Fifo, Policy};
use crate::spec::command::Command;
use cell::{Locked, spin_loop};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

/// How the platform keeps everybody else, the interrupt handler above all, out of the engine for a moment: a critical section, a spin lock
/// with interrupts off, or nothing where there is only one context.
///
/// # Safety
/// While the closure runs, no other closure of the same lock runs, on this core or another. `with` is not called from inside its own closure.
pub unsafe trait Lock {
    /// Runs `f` alone.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}

/// How the edges learn the time, and ask to be called. The engine itself is told the time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Nanoseconds since some moment; never goes back. Called with the lock held: a moment that passed before the lock was had would make deadlines
    /// too early. It must not come back here.
    pub now_ns: fn() -> u64,
    /// Call [`Shared::poll`] at this time (at once if it has passed); replaces the request before. `None`: no need. Called with the lock held, so that alarms come in
    /// the order of what they are for: it must not come back here.
    pub set_alarm: fn(Option<u64>),
}

/// The engine behind a lock; what handles and futures borrow. It can live in a `static`.
#[derive(Debug)]
pub struct Shared<L, H: Host, const N: usize, P: Policy = Fifo> {
    lock: L,
    timer: Timer,
    engine: Locked<Engine<H, N, P>>,
}

// SAFETY: the engine is only reached through `with`, which the lock makes exclusive.
unsafe impl<L: Lock + Sync, H: Host + Send, const N: usize, P: Policy + Send> Sync for Shared<L, H, N, P> {}

impl<L: Lock, H: Host, const N: usize> Shared<L, H, N> {
    /// An engine over `host`, first in first out.
    pub const fn new(lock: L, timer: Timer, host: H, config: Config) -> Self {
        Self::with_policy(lock, timer, host, config, Fifo)
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Shared<L, H, N, P> {
    /// An engine over `host`, with a scheduler.
    pub const fn with_policy(lock: L, timer: Timer, host: H, config: Config, policy: P) -> Self {
        Shared { lock, timer, engine: Locked::new(Engine::with_policy(host, config, policy)) }
    }

    /// A moment alone with the engine. `f` must be short, and must not come back here.
    pub fn with<R>(&self, f: impl FnOnce(&mut Engine<H, N, P>) -> R) -> R {
        // SAFETY: `Lock::with` guarantees that no other closure runs.
        self.lock.with(|| unsafe { self.engine.with(f) })
    }

    /// Now, by the platform's clock.
    pub fn now_ns(&self) -> u64 {
        (self.timer.now_ns)()
    }

    /// The interrupt handler calls this. Wakers run after the lock is released: a task woken and polled here may submit at once.
    pub fn on_irq(&self) {
        let left = self.with(|engine| {
            let work = engine.on_irq(self.now_ns());
            self.leave(engine, work)
        });
        if let Some((work, first)) = left {
            self.wake(work, first);
        }
    }

    /// The alarm calls this, and the thread that completes for hosts that must not do so in the interrupt.
    pub fn poll(&self) {
        let left = self.with(|engine| {
            let work = engine.poll(self.now_ns());
            self.leave(engine, work)
        });
        if let Some((work, first)) = left {
            self.wake(work, first);
        }
    }

    /// One turn of a loop that drives the stack without interrupts.
    pub fn turn(&self) {
        self.on_irq();
        self.poll();
    }

    /// The last under the lock: the alarm is set, and the waker of the first request that is complete comes along. `None`: nobody is to be woken.
    #[inline]
    fn leave(&self, engine: &mut Engine<H, N, P>, mut work: Work) -> Option<(Work, Option<Waker>)> {
        if !Engine::<H, N, P>::STRAIGHT {
            // Less code: everything is done afterwards.
            return Some((work, None));
        }
        (self.timer.set_alarm)(work.next_deadline_ns);
        let mut first = None;
        if work.completed != 0 {
            first = engine.take_waker(work.completed.trailing_zeros() as usize);
            work.completed &= work.completed - 1;
        }
        let more =
            work.completed != 0 || !engine.is_straight() && (work.card_irq || P::RECOVERS && work.help);
        (more || first.is_some()).then_some((work, first))
    }

    #[inline(never)]
    fn wake(&self, work: Work, first: Option<Waker>) {
        if let Some(waker) = first {
            waker.wake();
        }
        let mut left = if plant::is(Bug::WakesOne) { 0 } else { work.completed };
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            if let Some(waker) = self.with(|engine| engine.take_waker(index)) {
                waker.wake();
            }
        }
        if work.card_irq
            && let Some(waker) = self.with(|engine| engine.take_card_irq_waker())
        {
            waker.wake();
        }
        if P::RECOVERS
            && work.help
            && let Some(waker) = self.with(|engine| engine.take_help_waker())
        {
            waker.wake();
        }
        // What the wakers did may have moved the deadline.
        self.with(|engine| (self.timer.set_alarm)(engine.next_deadline_ns()));
    }

    fn submit(&self, request: Request) -> Result<SlotId, (Error, Request)> {
        // Under the lock: an alarm set after it could overwrite that of an interrupt in between, and a silent controller would never be found out.
        self.with(|engine| {
            let result = engine.submit(request, self.now_ns());
            (self.timer.set_alarm)(engine.next_deadline_ns());
            result
        })
    }

    /// A request without memory whose result nothing waits for. Where no slot is free it is not sent.
    pub(crate) fn send(&self, request: Request) {
        if let Ok(id) = self.submit(request) {
            self.with(|engine| engine.detach(id));
        }
    }

    /// A request as a future. Nothing reaches the controller before it is first polled.
    pub fn request(&self, request: Request) -> Op<'_, L, H, N, P> {
        Op { shared: self, at: At::Before(request) }
    }

    /// One command without data.
    pub async fn command(&self, command: Command, timeout_ns: u64) -> Result<Output, Error> {
        self.raw(None, command, None, DmaBuf::EMPTY, timeout_ns).await.0
    }

    /// One phase, after an optional prefix such as CMD55; the buffer comes back with the result.
    pub async fn raw(
        &self,
        prefix: Option<Command>,
        command: Command,
        data: Option<Data>,
        buf: DmaBuf,
        timeout_ns: u64,
    ) -> (Result<Output, Error>, DmaBuf) {
        let phase = Phase { command, data, auto: Auto::None, tuning: false };
        let done = self.request(Request::new(Kind::Raw { prefix, phase, timeout_ns }, buf)).await;
        (done.result, done.buf)
    }

    /// One change of the bus.
    pub async fn bus(&self, op: BusOp) -> Result<(), Error> {
        self.request(Request::new(Kind::Bus(op), DmaBuf::EMPTY)).await.result.map(|_| ())
    }

    /// A pause in the queue.
    pub async fn pause(&self, ns: u64) -> Result<(), Error> {
        self.request(Request::new(Kind::Pause { ns }, DmaBuf::EMPTY)).await.result.map(|_| ())
    }
}

enum At {
    /// Not submitted yet.
    Before(Request),
    /// In this slot.
    In(SlotId),
    /// Its result has been handed over.
    After,
}

/// A request as a future: its result, and its buffer back.
#[must_use = "nothing happens unless it is polled"]
pub struct Op<'a, L: Lock, H: Host, const N: usize, P: Policy = Fifo> {
    shared: &'a Shared<L, H, N, P>,
    at: At,
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Op<'_, L, H, N, P> {
    /// Hands the request over, if it has not been. A refused one is over, with its buffer.
    fn submit(&mut self) -> Result<(), Completion> {
        match core::mem::replace(&mut self.at, At::After) {
            At::Before(request) => match self.shared.submit(request) {
                Ok(id) => self.at = At::In(id),
                Err((error, request)) => {
                    return Err(Completion { result: Err(error), done_bytes: 0, buf: request.buf });
                }
            },
            at => self.at = at,
        }
        Ok(())
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Future for Op<'_, L, H, N, P> {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared;
        let again = matches!(self.at, At::In(_));
        if matches!(self.at, At::Before(_))
            && let Err(refused) = self.submit()
        {
            return Poll::Ready(refused);
        }
        // A future that is polled again after its end has nothing more to say.
        let At::In(id) = self.at else { return Poll::Pending };
        let done = shared.with(|engine| {
            let done = engine.take(id);
            if done.is_none() {
                engine.set_waker(id, context.waker());
                if plant::is(Bug::ForgetsWaker) && again {
                    engine.take_waker(id.index());
                }
            }
            done
        });
        match done {
            Some(completion) => {
                self.at = At::After;
                Poll::Ready(completion)
            }
            None => Poll::Pending,
        }
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Drop for Op<'_, L, H, N, P> {
    fn drop(&mut self) {
        if let At::In(id) = self.at {
            // The buffer of a request that had not reached the controller has no owner any more; like one that had, it waits for `reclaim`.
            self.shared.with(|engine| engine.abandon(id));
        }
    }
}

/// A future that is polled from the interrupt: straight-line code at interrupt latency.
///
/// Scoped like `std::thread::scope`: the future may borrow, and lives in the stack frame of [`scope`](Self::scope). It must not block; it runs in
/// whatever context calls [`poll`](Self::poll), at most [`POLLS_MAX`](Self::POLLS_MAX) times a call.
pub struct IrqTask<L: Lock> {
    lock: L,
    state: Locked<TaskState>,
}

struct TaskState {
    future: Option<*mut (dyn Future<Output = ()> + Send)>,
    /// Some context is inside `poll`.
    polling: bool,
    /// Somebody asked for a poll meanwhile.
    again: bool,
}

// SAFETY: the state is only reached under the lock; the future is `Send`, and `polling` lets one context at a time poll it.
unsafe impl<L: Lock + Sync> Sync for IrqTask<L> {}
// SAFETY: as above.
unsafe impl<L: Lock + Send> Send for IrqTask<L> {}

impl<L: Lock> IrqTask<L> {
    /// Polls in one call of [`poll`](Self::poll) at most; then the rest waits for the next.
    pub const POLLS_MAX: u32 = 8;

    /// No future yet.
    pub const fn new(lock: L) -> Self {
        IrqTask { lock, state: Locked::new(TaskState { future: None, polling: false, again: false }) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut TaskState) -> R) -> R {
        // SAFETY: `Lock::with` guarantees that no other closure runs.
        self.lock.with(|| unsafe { self.state.with(f) })
    }

    /// Polls the future now. A call from inside the poll (a waker) only asks for another turn. True if turns are left over.
    pub fn poll(&self, waker: &Waker) -> bool {
        for _ in 0..Self::POLLS_MAX {
            let future = self.with(|state| {
                if state.polling {
                    state.again = true;
                    return None;
                }
                let future = state.future?;
                (state.polling, state.again) = (true, false);
                Some(future)
            });
            let Some(future) = future else { return false };
            let turn = Turn(self);
            // SAFETY: `scope` keeps the future pinned in its frame and waits for `polling` to fall before it lets go; `polling` is ours.
            let ready =
                unsafe { Pin::new_unchecked(&mut *future) }.poll(&mut Context::from_waker(waker)).is_ready();
            let again = self.with(|state| {
                if ready {
                    state.future = None;
                }
                // At once with the look at `again`: who asks from now on has the next turn himself.
                state.polling = false;
                state.again && !ready
            });
            core::mem::forget(turn);
            if !again {
                return false;
            }
        }
        true
    }

    /// Has the future ended (or is there none)?
    pub fn is_finished(&self) -> bool {
        self.with(|state| state.future.is_none())
    }

    /// Runs `main` while the future lives in this frame and is polled by whoever calls [`poll`](Self::poll); takes it out before it returns.
    pub fn scope<R>(
        &self,
        future: impl Future<Output = ()> + Send,
        waker: &Waker,
        main: impl FnOnce() -> R,
    ) -> R {
        struct Unregister<'a, L: Lock>(&'a IrqTask<L>);
        impl<L: Lock> Drop for Unregister<'_, L> {
            fn drop(&mut self) {
                // A poll on another core ends soon: tasks do not block. On this core none can be under way: `main` has returned.
                while self.0.with(|state| {
                    state.future = None;
                    state.polling
                }) {
                    spin_loop();
                }
            }
        }
        let future = pin!(future);
        // SAFETY: the reference is only turned into a pointer; the future is not moved.
        let pointer: *mut (dyn Future<Output = ()> + Send + '_) = unsafe { future.get_unchecked_mut() };
        // SAFETY: only the lifetime changes; `Unregister` takes the pointer out before the future is dropped, also when unwinding.
        let pointer: *mut (dyn Future<Output = ()> + Send + 'static) =
            unsafe { core::mem::transmute(pointer) };
        self.with(|state| state.future = Some(pointer));
        let unregister = Unregister(self);
        self.poll(waker);
        let result = main();
        drop(unregister);
        result
    }
}

/// Ends the turn of a future that panics: it is never polled again, and `scope` does not wait for ever.
struct Turn<'a, L: Lock>(&'a IrqTask<L>);

impl<L: Lock> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        self.0.with(|state| (state.future, state.polling) = (None, false));
    }
}
