//! How programs use the engine: a shared handle ([`Stack`]), futures that borrow a slot, a task
//! that is polled from the interrupt, blocking calls.
//!
//! A future only has the number of a slot; the slot owns the buffer. So a future may be dropped or
//! forgotten at any point. If it is dropped, its request is cancelled or ends by itself; if it is
//! forgotten, its slot stays in use. Nothing here runs a waker or a future while the lock is held.

mod blocking;
mod cell;
mod dropped;
mod entry;
mod idle;
mod irq_task;
mod platform;
mod request;
mod spin;
mod wait_queue;

pub use idle::Idle;
pub use irq_task::IrqTask;
pub use platform::{Clock, Lock, Platform, Timer};
use request::At;
pub use request::RequestFuture;
pub use spin::Spinning;
pub use wait_queue::{Places, WaitQueue};

#[cfg(all(test, loom))]
mod permuted;

use crate::engine::{Config, DmaBuf, Engine, Error, Kind, Output, PollOutcome, Request, SlotId};
use crate::host::{Auto, BusOp, Data, Host, Phase};
use crate::sched::slot_set::SlotSet;
use crate::sched::{Fifo, Profile};
use crate::spec::command::Command;
pub(crate) use cell::Locked;
use core::fmt;
use core::task::Waker;
use dropped::Dropped;
pub use entry::Entry;

/// The engine type of a platform.
type EngineOf<B, const N: usize> = Engine<<B as Platform>::Host, N, <B as Platform>::Profile>;

/// The engine behind a lock, which handles and futures borrow. A stack may be a `static`.
pub struct Stack<B: Platform, const N: usize> {
    lock: B::Lock,
    clock: B::Clock,
    engine: Locked<EngineOf<B, N>>,
    /// Requests of dropped futures. Accessed only with the lock held.
    dropped: Dropped<N>,
}

// SAFETY: the engine is only reached through `inside`: the lock keeps other contexts out, and the
// cell keeps nested calls out.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<B: Platform, const N: usize> Sync for Stack<B, N>
where
    B::Lock: Sync,
    B::Clock: Sync,
    B::Host: Send,
    B::Profile: Send,
{
}

impl<B: Platform, const N: usize> fmt::Debug for Stack<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").finish_non_exhaustive()
    }
}

impl<L: Lock, H: Host, const N: usize> Stack<(L, H), N> {
    /// Makes a stack over `host` that serves requests first in, first out.
    pub const fn new(lock: L, timer: Timer, host: H, config: Config) -> Self {
        Self::with_policy(lock, timer, host, config, Fifo)
    }
}

impl<B: Platform, const N: usize> Stack<B, N> {
    /// Makes a stack over `host` with a scheduler.
    pub const fn with_policy(
        lock: B::Lock,
        clock: B::Clock,
        host: B::Host,
        config: Config,
        policy: B::Profile,
    ) -> Self {
        Stack {
            lock,
            clock,
            engine: Locked::new(Engine::with_policy(host, config, policy)),
            dropped: Dropped::new(),
        }
    }

    /// Makes a stack as [`with_policy`](Self::with_policy) does, directly in the memory where it
    /// will stay. This is for threads with a small call stack: a `Stack` of 33 slots has 9 KiB, and
    /// none of it is on the caller's call stack.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub fn write_to(
        place: &mut core::mem::MaybeUninit<Self>,
        lock: B::Lock,
        clock: B::Clock,
        host: B::Host,
        config: Config,
        policy: B::Profile,
    ) -> &mut Self {
        // A new field must also be written below.
        let _all = |Stack { lock: _, clock: _, engine: _, dropped: _ }: Self| ();
        let stack = place.as_mut_ptr();
        // SAFETY: the reference is to aligned memory of the right size, which is ours. All four
        // fields are written before the memory is used as a `Stack`.
        unsafe {
            (&raw mut (*stack).lock).write(lock);
            (&raw mut (*stack).clock).write(clock);
            (&raw mut (*stack).dropped).write(const { Dropped::new() });
            Locked::write_to(&raw mut (*stack).engine, |engine| {
                Engine::write_to(engine, host, config, policy);
            });
            place.assume_init_mut()
        }
    }

    /// Runs `f` with exclusive access to the engine's methods. `f` must be short. If a method that
    /// `f` calls may make the next deadline earlier, the alarm is set for that deadline before this
    /// call returns.
    ///
    /// `f` always runs. A call may come from inside another call of this stack: from such an `f`,
    /// or from code that the stack calls (the clock, the lock, the scheduler, the driver's access
    /// to memory and registers). In that case `f` gets an [`Entry`] that does nothing, as
    /// [`is_nested`](Entry::is_nested) reports. The alarm is set to ring at once, so that a poll
    /// follows. The outer call may set the alarm anew.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut Entry<'_, B::Host, N, B::Profile>) -> R) -> R {
        let (result, stale) = self.inside(|engine| {
            let mut engine = engine;
            if B::Profile::RECOVERS
                && !self.dropped.is_empty()
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
        self.call_waiting();
        result
    }

    /// Sets the alarm after a program's own use of the engine. `begun`: that use may have started a
    /// transfer or set a deadline. Returns whether a waker has to be dropped outside of the lock.
    #[inline(always)]
    fn used(&self, engine: &mut EngineOf<B, N>, begun: bool) -> bool {
        if begun {
            self.keep_next(engine);
        }
        engine.has_stale_waker()
    }

    /// Makes sure that the alarm rings no later than the engine's next deadline. Each call that may
    /// start a transfer or set a deadline does this as its last step under the lock. Nearly always
    /// the alarm that is already set is early enough.
    #[inline(always)]
    fn keep_next(&self, engine: &mut EngineOf<B, N>) {
        if Engine::<B::Host, N, B::Profile>::FAST {
            self.keep_alarm(engine, engine.next_deadline_ns());
        } else {
            self.tell_alarm(engine, false);
        }
    }

    #[inline(always)]
    fn keep_alarm(&self, engine: &mut EngineOf<B, N>, next_ns: Option<u64>) {
        let next_ns = self.with_waits(next_ns);
        if next_ns.is_some_and(|next_ns| next_ns < engine.alarm_ns()) {
            self.set_alarm(engine, next_ns);
        }
    }

    /// Sets the platform's alarm (its timer) to the engine's next deadline, if the alarm is now set
    /// to a later time. `alarm`: the alarm has expired, so it is set in any case. This version is
    /// for engines without a fast path: it needs less code, and reads the deadline itself.
    #[inline(never)]
    fn tell_alarm(&self, engine: &mut EngineOf<B, N>, alarm: bool) {
        let next_ns = self.with_waits(engine.next_ns());
        if alarm || next_ns.is_some_and(|next_ns| next_ns < engine.alarm_ns()) {
            self.set_alarm(engine, next_ns);
        }
    }

    /// Sets the alarm, under the lock. Without the lock, an interrupt could set the alarm in
    /// between, and this call would overwrite that alarm; a silent controller would then never be
    /// noticed.
    #[inline]
    fn set_alarm(&self, engine: &mut EngineOf<B, N>, next_ns: Option<u64>) {
        self.clock.set_alarm(next_ns);
        engine.note_alarm(next_ns);
    }

    /// Runs `f` with exclusive access to the engine. A call from inside another call of the stack
    /// does nothing, and returns `nested`. If `f` ends a request without waking its task, `f` also
    /// takes the request's waker out of the engine.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, nested: R, mut f: impl FnMut(&mut EngineOf<B, N>) -> R) -> R {
        let mut result = nested;
        // The value `nested` owns nothing, so it is forgotten instead of dropped: no drop runs
        // here.
        let mut alone =
            |engine: &mut EngineOf<B, N>| core::mem::forget(core::mem::replace(&mut result, f(engine)));
        if Engine::<B::Host, N, B::Profile>::FAST {
            self.inside(|engine| engine.map_or((), alone));
        } else {
            // Without a fast path there is one copy of the code that keeps other calls out.
            self.inside_once(&mut alone);
        }
        result
    }

    #[inline(never)]
    fn inside_once(&self, f: &mut dyn FnMut(&mut EngineOf<B, N>)) {
        self.inside(|engine| engine.map_or((), f));
    }

    /// Runs `f` with the engine, the only access to it; in a call from inside another one `f` gets
    /// `None`. Afterwards wakes the task that the host wants to wake, if there is one.
    #[inline(always)]
    fn inside<R>(&self, f: impl FnOnce(Option<&mut EngineOf<B, N>>) -> R) -> R {
        if !B::Host::WAKES {
            return self.locked(f);
        }
        let mut waker = None;
        let result = self.locked(|engine| match engine {
            Some(engine) => {
                let result = f(Some(&mut *engine));
                waker = engine.take_host_waker();
                result
            }
            None => f(None),
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    fn locked<R>(&self, f: impl FnOnce(Option<&mut EngineOf<B, N>>) -> R) -> R {
        self.lock.with(|| {
            // SAFETY: the lock is held, so calls of different contexts do not overlap.
            unsafe { self.engine.enter(f, || self.turned_away()) }
        })
    }

    /// Sets the alarm to ring at once, because a call came from inside another one and was refused.
    /// Called only for the first such call; the outer call may set the alarm anew afterwards.
    #[cold]
    fn turned_away(&self) {
        self.clock.set_alarm(Some(0));
    }

    /// Drops the wakers of requests that have ended, and does not call these wakers. A drop may run
    /// any code, so this is done outside of the lock.
    #[cold]
    #[inline(never)]
    fn drop_stale(&self) {
        for _ in 0..N {
            if self.enter(None, |engine| engine.take_stale_waker()).is_none() {
                return;
            }
        }
    }

    /// Returns the time now, by the platform's clock.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Handles an interrupt of the controller; the interrupt handler calls this. Wakers run after
    /// the lock is released: a task that is woken and polled here may submit at once.
    pub fn on_irq(&self) {
        if Engine::<B::Host, N, B::Profile>::FAST {
            self.move_on(|engine| {
                let work = engine.on_irq(self.now_ns());
                self.keep_alarm(engine, work.next_deadline_ns);
                work
            });
        } else {
            self.move_once(false);
        }
    }

    /// Handles an interrupt as [`on_irq`](Self::on_irq) does, on an interrupt line that other
    /// devices share. Returns whether this controller had an event. A call from inside another one
    /// returns true.
    pub fn on_shared_irq(&self) -> bool {
        let found = core::cell::Cell::new(true);
        self.move_on(|engine| {
            let spurious = engine.stats().spurious;
            let work = engine.on_irq(self.now_ns());
            self.keep_alarm(engine, work.next_deadline_ns);
            found.set(engine.stats().spurious == spurious);
            work
        });
        found.get()
    }

    /// Carries out the work whose time has come. The alarm calls this. For hosts that must not
    /// complete requests in the interrupt, a thread calls it too.
    pub fn poll(&self) {
        if Engine::<B::Host, N, B::Profile>::FAST {
            self.move_on(|engine| {
                let work = engine.poll(self.now_ns());
                self.set_alarm(engine, self.with_waits(work.next_deadline_ns));
                work
            });
        } else {
            self.move_once(true);
        }
    }

    #[inline(always)]
    fn move_on(&self, how: impl Fn(&mut EngineOf<B, N>) -> PollOutcome) {
        let left = self.enter(None, |engine| {
            let work = how(engine);
            self.leave(engine, work)
        });
        if let Some((work, first)) = left {
            self.wake(work.completed, work.card_irq, work.help, first);
        }
        self.call_waiting();
    }

    /// Calls the engine's `poll` (if `alarm`) or its `on_irq`, and then wakes the tasks whose
    /// requests have ended. For an engine without the fast path (the short code for ordinary
    /// requests). One function for both calls needs less code.
    #[inline(never)]
    fn move_once(&self, alarm: bool) {
        let (completed, card_irq, help) = self.enter((0, false, false), |engine| {
            let now_ns = self.now_ns();
            let work = if alarm { engine.poll(now_ns) } else { engine.on_irq(now_ns) };
            self.tell_alarm(engine, alarm);
            (work.completed, work.card_irq, work.help)
        });
        self.wake(completed, card_irq, help, None);
        self.call_waiting();
    }

    /// Does one turn of a loop that drives the stack without interrupts: calls
    /// [`on_irq`](Self::on_irq), then [`poll`](Self::poll).
    pub fn turn(&self) {
        self.on_irq();
        self.poll();
    }

    /// Takes the waker of the completed request with the lowest slot number. Returns it with all
    /// else that must be woken after the lock is released. `None`: there is nothing to wake.
    #[inline]
    fn leave(
        &self,
        engine: &mut EngineOf<B, N>,
        mut work: PollOutcome,
    ) -> Option<(PollOutcome, Option<Waker>)> {
        let mut first = None;
        if work.completed != 0 {
            first = engine.take_waker_of_ended(work.completed.trailing_zeros() as u8);
            work.completed &= work.completed - 1;
        }
        let more =
            work.completed != 0 || !engine.is_fast() && (work.card_irq || B::Profile::RECOVERS && work.help);
        (more || first.is_some()).then_some((work, first))
    }

    #[inline(never)]
    fn wake(&self, completed: SlotSet, mut card_irq: bool, mut help: bool, first: Option<Waker>) {
        help &= B::Profile::RECOVERS;
        if let Some(waker) = first {
            waker.wake();
            if completed == 0 && !card_irq && !help {
                return;
            }
        }
        let mut left = completed;
        // The loop has one turn for each bit at most, and two more.
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
            if B::Profile::RECOVERS
                && core::mem::take(&mut help)
                && let Some(waker) = engine.take_service_waker()
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

    /// Submits a request to `engine`, whose lock the caller holds. Returns the request's slot.
    #[inline(always)]
    fn submit_to(&self, engine: &mut EngineOf<B, N>, request: &mut Request) -> Result<SlotId, Error> {
        let result = engine.accept(request, self.now_ns());
        self.keep_next(engine);
        result
    }

    /// Submits a request like [`submit_to`](Self::submit_to). If another request has waited longer
    /// for a slot, the result is [`Error::Full`].
    #[inline(always)]
    fn submit_in_turn(&self, engine: &mut EngineOf<B, N>, request: &mut Request) -> Result<SlotId, Error> {
        if self.is_turn(request) { self.submit_to(engine, request) } else { Err(Error::Full) }
    }

    /// Submits a request without memory whose result is not needed. Returns false if the request
    /// was refused, for example because no slot is free.
    pub(crate) fn send(&self, request: Request) -> bool {
        let sent = self.submit(request);
        if let Ok(id) = sent {
            self.with(|engine| engine.detach(id));
        }
        sent.is_ok()
    }

    /// Schedules the next poll of the card's interrupt after this time, for a host without a card
    /// interrupt.
    pub(crate) fn look_for_card_irq(&self, after_ns: u64) {
        self.enter((), |engine| {
            engine.look_for_card_irq(self.now_ns().saturating_add(after_ns));
            self.keep_next(engine);
        });
    }

    /// Returns the shortest and the longest time between two polls of the card's interrupt, in
    /// nanoseconds.
    pub(crate) fn card_irq_looks_ns(&self) -> (u64, u64) {
        self.enter(Config::DEFAULT.card_irq_looks_ns, |engine| engine.card_irq_looks_ns())
    }

    /// Returns a request as a future. Nothing reaches the controller before the future is first
    /// polled.
    pub fn request(&self, request: Request) -> RequestFuture<'_, B, N> {
        RequestFuture { stack: self, at: At::Before(request) }
    }

    /// Sends one command without data, and returns the card's response without a check of its error
    /// bits. `timeout_ns`: longest time for the command with its busy, in nanoseconds.
    pub async fn command(&self, command: Command, timeout_ns: u64) -> Result<Output, Error> {
        self.raw(None, command, None, DmaBuf::EMPTY, timeout_ns).await.0
    }

    /// Executes one command with its data and busy, exactly as given, after an optional prefix such
    /// as CMD55. The card may take `timeout_ns` nanoseconds for data and busy. The buffer comes
    /// back with the result.
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

    /// Makes one change of the bus, such as its clock or its width.
    pub async fn bus(&self, op: BusOp) -> Result<(), Error> {
        self.request(Request::new(Kind::Bus(op), DmaBuf::EMPTY)).await.result.map(|_| ())
    }

    /// Pauses the queue for `ns` nanoseconds: no request starts in this time.
    pub async fn pause(&self, ns: u64) -> Result<(), Error> {
        self.request(Request::new(Kind::Pause { ns }, DmaBuf::EMPTY)).await.result.map(|_| ())
    }
}
