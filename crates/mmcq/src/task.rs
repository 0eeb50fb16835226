//! The edges: a shared handle, futures that borrow a slot, a task that is polled from the interrupt, blocking calls.
//!
//! Futures only hold the number of a slot; the slot owns the buffer. So a future may be dropped or forgotten at any point: dropped, its request is
//! taken back or ends by itself; forgotten, it costs a slot. Nothing here runs a waker or a future while the lock is held.

mod blocking;
mod dropped;
mod entry;
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
use core::cell::Cell;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
pub use entry::Entry;

/// How the platform keeps other contexts, the interrupt handler above all, out of the engine for a moment: a critical section, a spin lock
/// with interrupts off, or nothing where there is only one context.
///
/// # Safety
/// While the closure runs, no other *context* (core, thread, interrupt) runs a closure of the same lock, and what one closure has
/// written the next one sees. The lock promises nothing about calls from inside the closure: the stack itself turns those away. A lock
/// that blocks must block them for ever or let them in; letting them in is the better choice.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait Lock {
    /// Runs `f` alone.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;
}

/// How the edges learn the time, and ask to be called. The engine itself is told the time.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Nanoseconds since some moment; never goes back. Called with the lock held: a moment that passed before the lock was had would make deadlines
    /// too early. A call of the stack from inside it is turned away ([`Shared::with`]).
    pub now_ns: fn() -> u64,
    /// Call [`Shared::poll`] at this time (at once if it has passed); replaces the request before. `None`: no need. Called with the lock held, so that alarms come in
    /// the order of what they are for. A call of the stack from inside it is turned away ([`Shared::with`]), a poll too: have it made later.
    ///
    /// The stack relies on an alarm until `poll` is called. It sets another only for an earlier time, and in `poll`. So an alarm may ring for nothing: that
    /// costs a poll. A platform whose timer has stopped in a sleep calls `poll` when it wakes up.
    pub set_alarm: fn(Option<u64>),
}

/// The engine behind a lock; what handles and futures borrow. It can live in a `static`.
#[derive(Debug)]
pub struct Shared<L, H: Host, const N: usize, P: Policy = Fifo> {
    lock: L,
    timer: Timer,
    engine: Locked<Engine<H, N, P>>,
    /// Slots whose future was dropped inside another call, one bit each. Touched under the lock alone.
    dropped: Cell<u64>,
}

// SAFETY: the engine is only reached through `inside`: the lock keeps other contexts out, and the cell nested calls.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
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
        Shared {
            lock,
            timer,
            engine: Locked::new(Engine::with_policy(host, config, policy)),
            dropped: Cell::new(0),
        }
    }

    /// A moment alone with the engine's verbs. `f` must be short. What it begins has its alarm when this returns.
    ///
    /// `f` always runs. Called from inside another call of this stack (from `f` itself, the timer's functions, the lock, memory, registers,
    /// the policy) it gets an [`Entry`] that does nothing and says so, and the alarm is set for a poll at once; the outer call may set it anew.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Entry<'_, H, N, P>) -> R) -> R {
        let (result, stale) = self.inside(|engine| {
            let mut engine = engine;
            if P::RECOVERS
                && self.dropped.get() != 0
                && let Some(engine) = engine.as_mut()
            {
                self.end_dropped(engine);
            }
            let mut entry = Entry::new(engine);
            let result = f(&mut entry);
            (result, entry.into_used().is_some_and(|(engine, begun)| self.used(engine, begun)))
        });
        if stale {
            self.drop_stale();
        }
        result
    }

    /// After a program's own use of the engine: what it may have begun has its alarm. Is there a waker to be dropped outside of the lock?
    #[inline(always)]
    fn used(&self, engine: &mut Engine<H, N, P>, begun: bool) -> bool {
        if begun {
            self.keep_alarm(engine, engine.next_deadline_ns());
        }
        engine.has_stale_waker()
    }

    /// The last under the lock of each call that may begin something: the alarm rings no later than the engine's next deadline. Nearly
    /// always one that was set before does.
    #[inline(always)]
    fn keep_alarm(&self, engine: &mut Engine<H, N, P>, next_ns: Option<u64>) {
        if !Engine::<H, N, P>::STRAIGHT {
            return self.tell_alarm(engine, false);
        }
        if next_ns.is_some_and(|next_ns| next_ns < engine.alarm_ns()) {
            self.set_alarm(engine, next_ns);
        }
    }

    /// Less code: one copy, which asks for the deadline itself. After the alarm has `rung` it is always set.
    #[inline(never)]
    fn tell_alarm(&self, engine: &mut Engine<H, N, P>, rung: bool) {
        let next_ns = engine.next_ns();
        if rung || next_ns.is_some_and(|next_ns| next_ns < engine.alarm_ns()) {
            self.set_alarm(engine, next_ns);
        }
    }

    /// An alarm set outside of the lock could overwrite that of an interrupt in between, and a silent controller would never be found out.
    #[inline]
    fn set_alarm(&self, engine: &mut Engine<H, N, P>, next_ns: Option<u64>) {
        (self.timer.set_alarm)(next_ns);
        engine.note_alarm(next_ns);
    }

    /// `f` alone with the engine; `nested`, and nothing done, for a call from inside another. `f` leaves no waker behind that nothing
    /// is to be told to, or takes it out.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, nested: R, mut f: impl FnMut(&mut Engine<H, N, P>) -> R) -> R {
        let mut result = nested;
        // What answers a nested call owns nothing, so nothing is dropped.
        let mut alone =
            |engine: &mut Engine<H, N, P>| core::mem::forget(core::mem::replace(&mut result, f(engine)));
        if Engine::<H, N, P>::STRAIGHT {
            self.inside(|engine| engine.map_or((), alone));
        } else {
            // Less code: one copy of what keeps the others out.
            self.inside_once(&mut alone);
        }
        result
    }

    #[inline(never)]
    fn inside_once(&self, f: &mut dyn FnMut(&mut Engine<H, N, P>)) {
        self.inside(|engine| engine.map_or((), f));
    }

    /// The only way to the engine; `None` for a call from inside another.
    #[inline(always)]
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    fn inside<R>(&self, f: impl FnOnce(Option<&mut Engine<H, N, P>>) -> R) -> R {
        self.lock.with(|| {
            // SAFETY: the lock is held, so calls of different contexts do not overlap.
            unsafe { self.engine.enter(f, || self.turned_away()) }
        })
    }

    /// The first call from inside another is turned away: a poll makes up for it, unless the other sets the alarm anew, for what the engine needs then.
    #[cold]
    fn turned_away(&self) {
        (self.timer.set_alarm)(Some(0));
    }

    /// Wakers whose requests are over without a word to them are dropped: a drop may run anything, so not under the lock.
    #[cold]
    #[inline(never)]
    fn drop_stale(&self) {
        for _ in 0..N {
            if self.enter(None, |engine| engine.take_stale_waker()).is_none() {
                return;
            }
        }
    }

    /// Now, by the platform's clock.
    pub fn now_ns(&self) -> u64 {
        (self.timer.now_ns)()
    }

    /// The interrupt handler calls this. Wakers run after the lock is released: a task woken and polled here may submit at once.
    pub fn on_irq(&self) {
        if Engine::<H, N, P>::STRAIGHT {
            self.move_on(|engine| {
                let work = engine.on_irq(self.now_ns());
                self.keep_alarm(engine, work.next_deadline_ns);
                work
            });
        } else {
            self.move_once(false);
        }
    }

    /// The alarm calls this, and the thread that completes for hosts that must not do so in the interrupt.
    pub fn poll(&self) {
        if Engine::<H, N, P>::STRAIGHT {
            self.move_on(|engine| {
                let work = engine.poll(self.now_ns());
                self.set_alarm(engine, work.next_deadline_ns);
                work
            });
        } else {
            self.move_once(true);
        }
    }

    #[inline(always)]
    fn move_on(&self, how: impl Fn(&mut Engine<H, N, P>) -> Work) {
        let left = self.enter(None, |engine| {
            let work = how(engine);
            self.leave(engine, work)
        });
        if let Some((work, first)) = left {
            self.wake(work.completed, work.card_irq, work.help, first);
        }
    }

    /// Less code: both by one, and everything is done afterwards.
    #[inline(never)]
    fn move_once(&self, rung: bool) {
        let (completed, card_irq, help) = self.enter((0, false, false), |engine| {
            let now_ns = self.now_ns();
            let work = if rung { engine.poll(now_ns) } else { engine.on_irq(now_ns) };
            self.tell_alarm(engine, rung);
            (work.completed, work.card_irq, work.help)
        });
        self.wake(completed, card_irq, help, None);
    }

    /// One turn of a loop that drives the stack without interrupts.
    pub fn turn(&self) {
        self.on_irq();
        self.poll();
    }

    /// The waker of the first request that is complete comes along. `None`: there is nothing to wake.
    #[inline]
    fn leave(&self, engine: &mut Engine<H, N, P>, mut work: Work) -> Option<(Work, Option<Waker>)> {
        let mut first = None;
        if work.completed != 0 {
            first = engine.take_waker_of_ended(work.completed.trailing_zeros() as u8);
            work.completed &= work.completed - 1;
        }
        let more =
            work.completed != 0 || !engine.is_straight() && (work.card_irq || P::RECOVERS && work.help);
        (more || first.is_some()).then_some((work, first))
    }

    #[inline(never)]
    fn wake(&self, completed: u64, mut card_irq: bool, mut help: bool, first: Option<Waker>) {
        help &= P::RECOVERS;
        if let Some(waker) = first {
            waker.wake();
            if completed == 0 && !card_irq && !help {
                return;
            }
        }
        let mut left = if plant::is(Bug::WakesOne) { 0 } else { completed };
        // As often as there are bits, and twice more.
        while let Some(waker) = self.enter(None, |engine| {
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                if let Some(waker) = engine.take_waker(index) {
                    return Some(waker);
                }
            }
            if core::mem::take(&mut card_irq)
                && let Some(waker) = engine.take_card_irq_waker()
            {
                return Some(waker);
            }
            if P::RECOVERS
                && core::mem::take(&mut help)
                && let Some(waker) = engine.take_help_waker()
            {
                return Some(waker);
            }
            None
        }) {
            waker.wake();
        }
    }

    #[allow(clippy::result_large_err, reason = "what went in comes back")]
    fn submit(&self, request: Request) -> Result<SlotId, (Error, Request)> {
        let mut request = request;
        self.enter(Err(Error::Reentered), |engine| self.submit_to(engine, &mut request))
            .map_err(|error| (error, request))
    }

    /// Submits under the lock.
    #[inline(always)]
    fn submit_to(&self, engine: &mut Engine<H, N, P>, request: &mut Request) -> Result<SlotId, Error> {
        let result = engine.accept(request, self.now_ns());
        self.keep_alarm(engine, engine.next_deadline_ns());
        result
    }

    /// A request without memory whose result nothing waits for. Where no slot is free it is not sent.
    pub(crate) fn send(&self, request: Request) {
        if let Ok(id) = self.submit(request) {
            self.with(|engine| engine.detach(id));
        }
    }

    /// For a host without a card interrupt: the card is asked again after so long.
    pub(crate) fn look_for_card_irq(&self, after_ns: u64) {
        self.enter((), |engine| {
            engine.look_for_card_irq(self.now_ns().saturating_add(after_ns));
            self.keep_alarm(engine, engine.next_deadline_ns());
        });
    }

    /// The shortest and the longest time between two such looks, in nanoseconds.
    pub(crate) fn card_irq_looks_ns(&self) -> (u64, u64) {
        self.enter(Config::DEFAULT.card_irq_looks_ns, |engine| engine.card_irq_looks_ns())
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

/// What a look under the lock has found.
#[derive(Clone, Copy)]
enum Look {
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
struct Seen {
    completion: Option<Completion>,
    /// The task's waker, to be made known; then the one that is not kept.
    waker: Option<Waker>,
    /// The one that the request had.
    own: Option<Waker>,
}

impl Seen {
    const NOTHING: Seen = Seen { completion: None, waker: None, own: None };
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Op<'_, L, H, N, P> {
    /// Hands the request over, if it has not been, or looks whether it is done. A refused one is over, with its buffer.
    ///
    /// Wakers are neither cloned nor dropped under the lock: both may run anything.
    #[inline]
    fn look(&mut self, known: &Waker, seen: &mut Seen) -> Look {
        let Op { shared, at } = self;
        shared.enter(Look::Nested, |engine| {
            let id = match at {
                At::Before(request) => match shared.submit_to(engine, request) {
                    Ok(id) => id,
                    // One is free now.
                    Err(Error::Full) if P::RECOVERS && shared.end_dropped(engine) => return Look::Again,
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
    fn turned_away(&mut self) -> Option<Completion> {
        let At::Before(request) = &mut self.at else { return None };
        let refused = Completion::refused(Error::Reentered, request);
        self.at = At::After;
        Some(refused)
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Future for Op<'_, L, H, N, P> {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut seen = Seen::NOTHING;
        let mut look = Look::Unknown;
        if !matches!(self.at, At::Before(_)) {
            look = self.look(context.waker(), &mut seen);
        }
        if matches!(look, Look::Unknown) {
            if plant::is(Bug::ForgetsWaker)
                && let At::In(id) = self.at
            {
                drop(self.shared.enter(None, |engine| engine.take_waker(id.index())));
                return Poll::Pending;
            }
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
    /// A scope has it.
    taken: bool,
    /// Some context is inside `poll`.
    polling: bool,
    /// Somebody asked for a poll meanwhile.
    again: bool,
}

// SAFETY: the state is only reached under the lock; the future is `Send`, and `polling` lets one context at a time poll it.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<L: Lock + Sync> Sync for IrqTask<L> {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<L: Lock + Send> Send for IrqTask<L> {}

impl<L: Lock> IrqTask<L> {
    /// Polls in one call of [`poll`](Self::poll) at most; then the rest waits for the next.
    pub const POLLS_MAX: u32 = 8;

    /// No future yet.
    pub const fn new(lock: L) -> Self {
        IrqTask {
            lock,
            state: Locked::new(TaskState { future: None, taken: false, polling: false, again: false }),
        }
    }

    /// Nothing that is not of this file runs in `f`, so that no call comes from inside it.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    fn with<R>(&self, f: impl FnOnce(&mut TaskState) -> R) -> Option<R> {
        // SAFETY: the lock is held, so calls of different contexts do not overlap.
        self.lock.with(|| unsafe { self.state.enter(|state| state.map(f), || ()) })
    }

    /// Polls the future now. A call from inside the poll (a waker) only asks for another turn. True if turns are left over.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
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
            let Some(Some(future)) = future else { return false };
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
            if again != Some(true) {
                return false;
            }
        }
        true
    }

    /// Has the future ended (or is there none)?
    pub fn is_finished(&self) -> bool {
        self.with(|state| state.future.is_none()) == Some(true)
    }

    /// Runs `main` while the future lives in this frame and is polled by whatever calls [`poll`](Self::poll); takes it out before it returns.
    /// `None`, and nothing is run: another scope of this task has not returned (this call may come from its future).
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub fn scope<R>(
        &self,
        future: impl Future<Output = ()> + Send,
        waker: &Waker,
        main: impl FnOnce() -> R,
    ) -> Option<R> {
        struct Unregister<'a, L: Lock>(&'a IrqTask<L>);
        impl<L: Lock> Drop for Unregister<'_, L> {
            fn drop(&mut self) {
                // A poll on another core ends soon: tasks do not block. In this context none can be under way: the future cannot have
                // called `scope`, which was not `taken` yet.
                while self.0.with(|state| {
                    state.future = None;
                    state.taken = state.polling;
                    state.polling
                }) == Some(true)
                {
                    spin_loop();
                }
            }
        }
        if self.with(|state| core::mem::replace(&mut state.taken, true)) != Some(false) {
            return None;
        }
        let future = pin!(future);
        // Made after the future, so that it is dropped before it, also when unwinding.
        let unregister = Unregister(self);
        // SAFETY: the reference is only turned into a pointer; the future is not moved.
        let pointer: *mut (dyn Future<Output = ()> + Send + '_) = unsafe { future.get_unchecked_mut() };
        // SAFETY: only the lifetime changes; `Unregister` takes the pointer out before the future is dropped, also when unwinding.
        let pointer: *mut (dyn Future<Output = ()> + Send + 'static) =
            unsafe { core::mem::transmute(pointer) };
        self.with(|state| state.future = Some(pointer));
        self.poll(waker);
        let result = main();
        drop(unregister);
        Some(result)
    }
}

/// Ends the turn of a future that panics: it is never polled again, and `scope` does not wait for ever.
struct Turn<'a, L: Lock>(&'a IrqTask<L>);

impl<L: Lock> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        self.0.with(|state| (state.future, state.polling) = (None, false));
    }
}
