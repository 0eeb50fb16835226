//! How a thread sleeps during a blocking call: what `idle` may assume, when it must return, and how
//! it finds out that it must not sleep.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::cell::LAST;
use core::cell::Cell;
use core::ptr::null;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{RawWaker, RawWakerVTable, Waker};

/// The argument of `idle` in a [blocking call](super::Stack::block_on). It answers whether this
/// thread may sleep.
///
/// A blocking call polls its future, calls `idle`, calls [`turn`](super::Stack::turn), and begins
/// again. So it never sleeps on a result that is there already.
///
/// # What `idle` may assume
/// The lock of the stack is free. What the future wanted is submitted, and the alarm is set.
/// Interrupts are as the caller of the blocking call has left them.
///
/// # When `idle` must return
/// - When an interrupt of the controller is pending or comes, masked or not.
/// - When the time of the last `set_alarm` of the [`Timer`](super::Timer) has come. Without an
///   alarm: after the time by which a deadline may be late, such as a tick of a millisecond.
/// - When [`may_sleep`](Self::may_sleep) has become false: another context, such as the interrupt
///   handler, has advanced the stack.
///
/// `idle` may return at any time; an early return costs one turn. `idle` must not wait for
/// something that only this thread can do.
///
/// # How
/// | the platform | `idle` |
/// |---|---|
/// | spins | does nothing |
/// | keeps interrupts masked during the whole call | `wfi`: an interrupt that is pending ends it |
/// | serves interrupts in a handler | masks them, sleeps by `wfi` if `may_sleep`, unmasks them |
/// | has threads | holds the mutex of a condition variable and waits for the variable while `may_sleep`; the handler calls `on_irq`, then notifies all with the mutex held |
/// | has semaphores | takes the semaphore of this thread; the handler calls `on_irq`, then gives the semaphore of each thread that waits |
///
/// Between `may_sleep` and `wfi` no handler may run. Otherwise the handler completes the request in
/// between, and no further interrupt comes to end `wfi`. A semaphore remembers that it was given,
/// so the thread need not call `may_sleep`.
///
/// If several threads wait, one thread's turn may complete the request of another, and clear the
/// interrupt that should have woken the other. There are two remedies. Either no sleep is longer
/// than a tick. Or handler and alarm drive the stack, and each `idle` calls
/// [`skip_turn`](Self::skip_turn), as its example shows.
///
/// ```
/// use mmcq::{block::BlockDevice, engine::Error, task::{Idle, Platform, Stack}};
/// # fn interrupts_off<R>(f: impl FnOnce() -> R) -> R { f() }
/// # fn wait_for_interrupt() {}
/// fn idle(idle: &Idle) {
///     interrupts_off(|| {
///         if idle.may_sleep() {
///             wait_for_interrupt();
///         }
///     });
/// }
///
/// fn first<B: Platform>(stack: &Stack<B, 8>, block: &mut [u8; 512]) -> Result<u32, Error> {
///     BlockDevice::new(stack).read_blocking(0, block, idle)
/// }
/// ```
#[derive(Debug)]
pub struct Idle {
    /// Whether the blocking call does not poll the stack ([`turn`](super::Stack::turn)) after its
    /// next sleep. The address of this field identifies the call: no two calls under way have the
    /// same address.
    skips: Cell<bool>,
}

impl Idle {
    pub(crate) const fn new() -> Self {
        Idle { skips: Cell::new(false) }
    }

    /// Marks this call as the one that waits. Called before each poll of the future: from then on
    /// [`may_sleep`](Self::may_sleep) returns false as soon as something has woken the future.
    pub(crate) fn look(&self) {
        LAST.store(self.mark(), Relaxed);
    }

    /// Returns whether the thread may sleep. True: nothing has woken this call since its future was
    /// polled. False: something has woken it, or another blocking call has polled its own future
    /// since. In the second case the thread may poll its future once although nothing has woken it.
    /// Takes no lock, and may be called with interrupts masked.
    pub fn may_sleep(&self) -> bool {
        // A waker stores 0, another blocking call stores its own mark; only `look` stores this
        // call's mark again. So no wake-up is missed. The order of these accesses comes from the
        // lock of the stack that was polled, and from how the platform ends a sleep.
        LAST.load(Relaxed) == self.mark()
    }

    /// Leaves out this thread's next turn. For platforms where an interrupt handler and an alarm
    /// drive the stack, and wake this thread after each call of [`on_irq`](super::Stack::on_irq) or
    /// [`poll`](super::Stack::poll).
    ///
    /// ```
    /// # use std::sync::{Condvar, Mutex};
    /// use mmcq::task::{Idle, Platform, Stack};
    /// static MOVED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    ///
    /// /// Runs in each thread that waits.
    /// fn idle(idle: &Idle) {
    ///     let guard = MOVED.0.lock().unwrap();
    ///     drop(MOVED.1.wait_while(guard, |()| idle.may_sleep()).unwrap());
    ///     idle.skip_turn();
    /// }
    ///
    /// /// The thread that serves the controller's interrupt; the alarm's does the same with `poll`.
    /// fn serve<B: Platform>(stack: &Stack<B, 8>) {
    ///     stack.on_irq();
    ///     let _guard = MOVED.0.lock().unwrap();
    ///     MOVED.1.notify_all();
    /// }
    /// ```
    pub fn skip_turn(&self) {
        self.skips.set(true);
    }

    /// Returns whether the waiting thread should poll the stack after this sleep. After a call of
    /// [`skip_turn`](Self::skip_turn) the result is false one time.
    pub(super) fn turns(&self) -> bool {
        !self.skips.take()
    }

    /// Returns a waker that ends the sleep of every blocking call under way: `may_sleep` is false
    /// from then on. For futures that `idle` polls itself, and for handlers that change what a
    /// waiting thread checks.
    pub fn waker() -> &'static Waker {
        static WAKER: Waker = {
            // SAFETY: the functions below keep to the contract of a waker: they use no data, so
            // there is nothing to count or free.
            unsafe { Waker::from_raw(RawWaker::new(null(), &TABLE)) }
        };
        &WAKER
    }

    fn mark(&self) -> usize {
        core::ptr::from_ref(&self.skips).addr()
    }
}

const TABLE: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(null(), &TABLE), |_| wake(), |_| wake(), |_| {});

fn wake() {
    // The mark 0 belongs to no blocking call: no object lies at address 0.
    LAST.store(0, Relaxed);
}
