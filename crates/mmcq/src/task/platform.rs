//! What a stack needs from its board: the lock, the clock, and a type that names all parts.

use super::Places;
use crate::host::Host;
use crate::sched::{Fifo, Profile};

/// Keeps other contexts, above all the interrupt handler, out of the engine for a short time. A
/// platform implements it as a critical section, as a spin lock with interrupts off, or as nothing
/// where there is only one context.
///
/// # Safety
/// While the closure runs, no other *context* (core, thread, interrupt) runs a closure of the same
/// lock. What one closure has written is visible to the next one. The lock need not handle calls
/// from inside the closure: the stack refuses them. A lock that can block must handle such a call
/// in one of two ways: block it for ever, or run its closure. The second is better.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait Lock {
    /// Whether requests wait for a free slot. Only true for a [`WaitQueue`](super::WaitQueue), and
    /// for a lock that contains one.
    const QUEUES: bool = false;

    /// Runs `f` while no other context is inside the lock.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R;

    /// Returns the places of the lock's [`WaitQueue`](super::WaitQueue), in which requests wait
    /// until a slot is free. A lock without such a queue returns an empty list.
    fn places(&self) -> Places<'_> {
        Places::NONE
    }
}

/// The time, and an alarm. Futures and calls use them; the engine itself is passed the time.
///
/// A call of the stack from inside these functions is refused
/// ([`Stack::with`](super::Stack::with)).
pub trait Clock {
    /// Returns the nanoseconds since some fixed moment. The value never goes back, also between
    /// contexts.
    ///
    /// This function may be called at any time from any context, with the lock held and without it
    /// ([`Stack::now_ns`](super::Stack::now_ns)). An interrupt may call it while the interrupted
    /// code is inside of it. A clock that extends a counter in software must therefore protect that
    /// counter. The time that is passed to the engine is read with the lock held.
    fn now_ns(&self) -> u64;

    /// Sets the alarm: the platform calls [`Stack::poll`](super::Stack::poll) at this time (at once
    /// if it has passed). Replaces the alarm set before; `None` removes it. This function is called
    /// with the lock held, so that alarms are set in the right order. This function must not call
    /// `poll` itself: that call would be refused.
    ///
    /// The stack relies on an alarm until `poll` is called. It sets another one only for an earlier
    /// time, and in `poll`. So an alarm may ring when nothing is due: that costs one poll. A
    /// platform whose timer stops in a sleep state calls `poll` when it wakes up.
    fn set_alarm(&self, at_ns: Option<u64>);
}

/// A [`Clock`] that consists of two functions.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// The function for [`Clock::now_ns`].
    pub now_ns: fn() -> u64,
    /// The function for [`Clock::set_alarm`].
    pub set_alarm: fn(Option<u64>),
}

impl Timer {
    /// Makes a clock without an alarm, for a stack that is driven only by blocking calls and
    /// [`turn`](super::Stack::turn).
    /// Those calls check the deadlines. Between them nothing is done for the card.
    pub const fn polled(now_ns: fn() -> u64) -> Self {
        Timer { now_ns, set_alarm: |_| {} }
    }
}

impl Clock for Timer {
    #[inline(always)]
    fn now_ns(&self) -> u64 {
        (self.now_ns)()
    }

    #[inline(always)]
    fn set_alarm(&self, at_ns: Option<u64>) {
        (self.set_alarm)(at_ns);
    }
}

/// The parts of a stack. A board names the four parts in one place, by a type of its own or by a
/// tuple: `(L, H)` is a lock and a host with [`Timer`] and [`Fifo`]; `(L, H, P)` has another
/// scheduler or profile.
pub trait Platform {
    /// The lock, which keeps other contexts out of the engine.
    type Lock: Lock;
    /// The clock, which reads the time and sets the alarm.
    type Clock: Clock;
    /// The controller's driver.
    type Host: Host;
    /// The profile: the scheduler, and which parts of the stack the firmware contains.
    type Profile: Profile;
}

impl<L: Lock, H: Host> Platform for (L, H) {
    type Lock = L;
    type Clock = Timer;
    type Host = H;
    type Profile = Fifo;
}

impl<L: Lock, H: Host, P: Profile> Platform for (L, H, P) {
    type Lock = L;
    type Clock = Timer;
    type Host = H;
    type Profile = P;
}
