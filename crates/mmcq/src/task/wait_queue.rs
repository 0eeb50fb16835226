//! Requests that find no free slot, and wait for one for a limited time.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::platform::{Clock, Lock};
use super::{EngineOf, Platform, Stack};
use crate::engine::Request;
use core::cell::Cell;
use core::task::Waker;

/// A lock with a wait queue: requests of its stack that find all slots in use wait for a free one.
/// Without a wait queue, such requests end with [`Error::Full`](crate::engine::Error::Full) at
/// once.
///
/// The queue serves each request of the stack that is a future or a blocking call: the requests of
/// [`BlockDevice`](crate::block::BlockDevice), of bring-up, of I/O functions, and of
/// [`Stack::request`]. Requests get slots in the order in which they came, and a request that comes
/// later does not pass one that waits. A request that is submitted in [`Stack::with`] never waits.
/// An [urgent](crate::engine::Request::urgent) request, which is for recovery, never waits either.
///
/// `W` is the number of requests that may wait at a time, at most 255. A request ends with `Full`
/// if `W` other requests wait, or if the request has waited until its limit. Then the request was
/// not begun, and its buffer comes back. A dropped future leaves the queue. A forgotten future
/// (`core::mem::forget`) keeps its place, and delays the other requests until its limit.
///
/// The stack's alarm ends the wait at its limit. Without an alarm ([`Timer::polled`]) the next
/// [`poll`](Stack::poll) or [`turn`](Stack::turn) after the limit ends the wait.
///
/// [`Timer::polled`]: super::Timer::polled
///
/// # Examples
/// ```
/// # fn now_ns() -> u64 { 0 }
/// # fn stack<H: mmcq::host::Host>(host: H) {
/// use mmcq::board::NoLock;
/// use mmcq::engine::Config;
/// use mmcq::task::{Stack, Timer, WaitQueue};
///
/// /// Up to 24 requests wait, each for a second at most.
/// type Lock = WaitQueue<NoLock, 24>;
/// let lock = Lock::new(NoLock::new(), 1_000_000_000);
/// let stack: Stack<(Lock, H), 8> = Stack::new(lock, Timer::polled(now_ns), host, Config::DEFAULT);
/// # }
/// ```
pub struct WaitQueue<L, const W: usize> {
    lock: L,
    limit_ns: u64,
    /// Number of requests that have entered this queue since the start, because no slot was free;
    /// the number wraps.
    arrivals: Cell<u32>,
    places: [Place; W],
}

// SAFETY: the places are only reached through `Lock::places`, by a stack that holds the lock.
unsafe impl<L: Sync, const W: usize> Sync for WaitQueue<L, W> {}

impl<L, const W: usize> WaitQueue<L, W> {
    /// Adds a wait queue to a lock. `limit_ns` is the longest time that a request waits for a slot;
    /// with 0 no request waits.
    pub const fn new(lock: L, limit_ns: u64) -> Self {
        const { assert!(W <= u8::MAX as usize, "a wait queue has 255 places at most") };
        WaitQueue { lock, limit_ns, arrivals: Cell::new(0), places: [const { Place::free() }; W] }
    }
}

impl<L, const W: usize> core::fmt::Debug for WaitQueue<L, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WaitQueue").field("limit_ns", &self.limit_ns).finish_non_exhaustive()
    }
}

// SAFETY: the lock inside keeps the contract, and nothing else is run.
unsafe impl<L: Lock, const W: usize> Lock for WaitQueue<L, W> {
    const QUEUES: bool = true;

    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        self.lock.with(f)
    }

    fn places(&self) -> Places<'_> {
        Places { places: &self.places, arrivals: Some(&self.arrivals), limit_ns: self.limit_ns }
    }
}

/// A place in the queue, for one request that waits. Accessed only with the lock held.
struct Place {
    /// Time in ns at which the request stops waiting; 0: no request uses this place.
    until_ns: Cell<u64>,
    /// Number of requests that got a place in the wait queue before this request.
    number: Cell<u32>,
    waker: Cell<Option<Waker>>,
    /// Whether the task was woken, and has not polled its request since.
    called: Cell<bool>,
    /// Whether the request has left the queue: the waker in this place is to be dropped outside of
    /// the lock.
    left: Cell<bool>,
}

impl Place {
    const fn free() -> Self {
        Place {
            until_ns: Cell::new(0),
            number: Cell::new(0),
            waker: Cell::new(None),
            called: Cell::new(false),
            left: Cell::new(false),
        }
    }
}

/// What the stack does with a waker of the queue outside of the lock.
enum Call {
    Wake(Waker),
    Drop(Waker),
}

/// The places of a [`WaitQueue`]: each holds one request that waits for a free slot. Only the stack
/// uses them.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "other contexts use them; only the lock's holder may look")]
pub struct Places<'a> {
    places: &'a [Place],
    arrivals: Option<&'a Cell<u32>>,
    limit_ns: u64,
}

impl<'a> Places<'a> {
    /// The wait queue of a lock that has none: no request can wait for a slot.
    pub(super) const NONE: Places<'static> = Places { places: &[], arrivals: None, limit_ns: 0 };

    /// Returns the places that hold a waiting request.
    fn waiting(self) -> impl Iterator<Item = &'a Place> {
        self.places.iter().filter(|place| place.until_ns.get() != 0 && !place.left.get())
    }

    /// Returns the request that has waited longest, among the requests before their limit. A
    /// request after its limit does not count, since its task may never poll again. `None`: no
    /// request waits.
    fn first(self, now_ns: u64) -> Option<&'a Place> {
        let next = self.arrivals?.get();
        let waits = self.waiting().filter(|place| now_ns < place.until_ns.get());
        waits.max_by_key(|place| next.wrapping_sub(place.number.get()))
    }

    fn at(self, place: u16) -> Option<&'a Place> {
        self.places.get(usize::from(place).checked_sub(1)?)
    }

    /// Returns whether the request in `place` may be submitted now: no other request has waited
    /// longer.
    fn is_turn(self, place: u16, now_ns: impl FnOnce() -> u64) -> bool {
        if self.waiting().next().is_none() {
            return true;
        }
        let own = self.at(place);
        self.first(now_ns()).is_none_or(|first| own.is_some_and(|own| core::ptr::eq(own, first)))
    }

    /// Gives the request a place in the wait queue, if it has none. Returns false if the request
    /// must not wait (any longer): it has waited for `limit_ns`, or `limit_ns` is 0, or all places
    /// are in use.
    fn enter(self, place: &mut u16, now_ns: u64) -> bool {
        if *place != 0 {
            return self.at(*place).is_some_and(|place| now_ns < place.until_ns.get());
        }
        let free = self.places.iter().position(|place| place.until_ns.get() == 0);
        let Some(number) = free.and_then(|free| u16::try_from(free + 1).ok()) else { return false };
        let (Some(new), Some(arrivals)) = (self.at(number), self.arrivals) else { return false };
        if self.limit_ns == 0 {
            return false;
        }
        new.until_ns.set(now_ns.saturating_add(self.limit_ns));
        new.number.set(arrivals.get());
        arrivals.set(arrivals.get().wrapping_add(1));
        *place = number;
        true
    }

    /// Stores the waker of a request that waits, and returns the earlier waker, which the caller
    /// drops outside of the lock.
    fn set_waker(self, place: u16, waker: Option<Waker>) -> Option<Waker> {
        let Some(place) = self.at(place) else { return waker };
        place.called.set(false);
        place.waker.replace(waker)
    }

    /// Marks the place of a request as left, because the request does not wait any more.
    /// [`next_call`](Self::next_call) frees the place later.
    fn leave(self, place: u16) {
        if let Some(place) = self.at(place) {
            place.left.set(true);
        }
    }

    /// Returns the earliest time limit in ns of the waiting requests, without the requests whose
    /// task has already been woken. `None`: there are no others.
    fn next_ns(self) -> Option<u64> {
        self.waiting().filter(|place| !place.called.get()).map(|place| place.until_ns.get()).min()
    }

    /// Frees the places of the requests that have left the queue. Returns the next action, the
    /// first of these that applies:
    ///
    /// - drop the waker of such a request;
    /// - wake the task of a request whose time limit is over;
    /// - wake the task of the request that has waited longest.
    fn next_call(self, now_ns: impl FnOnce() -> u64) -> Option<Call> {
        for place in self.places.iter().filter(|place| place.left.get()) {
            place.left.set(false);
            place.called.set(false);
            place.until_ns.set(0);
            if let Some(waker) = place.waker.take() {
                return Some(Call::Drop(waker));
            }
        }
        self.waiting().next()?;
        let now_ns = now_ns();
        let over = self.waiting().find(|place| place.until_ns.get() <= now_ns && !place.called.get());
        let place = over.or_else(|| self.first(now_ns).filter(|first| !first.called.get()))?;
        place.called.set(true);
        place.waker.take().map(Call::Wake)
    }
}

impl<B: Platform, const N: usize> Stack<B, N> {
    /// Returns whether a request may be submitted now: no other request has waited longer.
    #[inline(always)]
    pub(super) fn is_turn(&self, request: &Request) -> bool {
        !B::Lock::QUEUES
            || request.urgent
            || self.lock.places().is_turn(request.place, || self.clock.now_ns())
    }

    /// Puts a request that finds no free slot into the queue, with the task's waker. Returns false
    /// if the request does not wait. Called with the lock held.
    #[inline(always)]
    pub(super) fn lets_wait(
        &self,
        engine: &mut EngineOf<B, N>,
        request: &mut Request,
        waker: &mut Option<Waker>,
    ) -> bool {
        if !B::Lock::QUEUES || request.urgent {
            return false;
        }
        let places = self.lock.places();
        if !places.enter(&mut request.place, self.clock.now_ns()) {
            return false;
        }
        *waker = places.set_waker(request.place, waker.take());
        self.keep_next(engine);
        true
    }

    /// Notes that a request waits no longer. Called with the lock held; then the caller calls
    /// `call_waiting` outside of the lock.
    #[inline(always)]
    pub(super) fn stop_waiting(&self, request: &Request) {
        if B::Lock::QUEUES {
            self.lock.places().leave(request.place);
        }
    }

    /// Returns the earlier of two times in ns: `next_ns`, and the time at which the next waiting
    /// request gives up.
    #[inline(always)]
    pub(super) fn with_waits(&self, next_ns: Option<u64>) -> Option<u64> {
        match B::Lock::QUEUES {
            true => next_ns.into_iter().chain(self.lock.places().next_ns()).min(),
            false => next_ns,
        }
    }

    /// Wakes the task that has waited longest for a slot, and the tasks that have waited as long as
    /// their limit allows. Called outside of the lock, after each step that may free a slot.
    #[inline(always)]
    pub(super) fn call_waiting(&self) {
        if B::Lock::QUEUES {
            self.call_each_waiting();
        }
    }

    #[cold]
    #[inline(never)]
    fn call_each_waiting(&self) {
        // Inside another call no waker is called: the next poll calls the wakers.
        if !self.inside(|engine| engine.is_some()) {
            return;
        }
        // At most two steps for each place: one frees the place, one wakes its task.
        for _ in 0..2 * usize::from(u8::MAX) {
            match self.lock.with(|| self.lock.places().next_call(|| self.clock.now_ns())) {
                Some(Call::Wake(waker)) => waker.wake(),
                Some(Call::Drop(waker)) => drop(waker),
                None => return,
            }
        }
    }
}
