//! A task that is polled from the interrupt.

use super::Lock;
use super::cell::{Locked, spin_loop};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Waker};

/// A future that is polled from the interrupt: sequential code at interrupt latency.
///
/// Scoped like `std::thread::scope`: the future may borrow, and lives in the stack frame of
/// [`scope`](Self::scope). The future must not block. It runs in the context that calls
/// [`poll`](Self::poll), and is polled at most [`POLLS_MAX`](Self::POLLS_MAX) times in one call.
pub struct IrqTask<L: Lock> {
    lock: L,
    state: Locked<TaskState>,
}

struct TaskState {
    future: Option<*mut (dyn Future<Output = ()> + Send)>,
    /// Whether a call of `scope` uses the task, so that no other call may.
    taken: bool,
    /// Whether some context is inside `poll`.
    polling: bool,
    /// Whether a second context (thread or interrupt) has called `poll` while the first was inside
    /// it: then the first polls once more.
    again: bool,
}

// SAFETY: the state is only reached under the lock; the future is `Send`, and `polling` lets one
// context at a time poll it.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<L: Lock + Sync> Sync for IrqTask<L> {}
// SAFETY: as for `Sync` above.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<L: Lock + Send> Send for IrqTask<L> {}

impl<L: Lock> IrqTask<L> {
    /// Most polls of the task's future in one call of [`poll`](Self::poll). If the future is then
    /// woken once more, it is polled in the next call.
    pub const POLLS_MAX: u32 = 8;

    /// Makes a task without a future.
    pub const fn new(lock: L) -> Self {
        IrqTask {
            lock,
            state: Locked::new(TaskState { future: None, taken: false, polling: false, again: false }),
        }
    }

    /// Runs `f` under the lock. `f` runs only code of this file, so no call comes from inside it.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    fn with<R>(&self, f: impl FnOnce(&mut TaskState) -> R) -> Option<R> {
        // SAFETY: the lock is held, so calls of different contexts do not overlap.
        self.lock.with(|| unsafe { self.state.enter(|state| state.map(f), || ()) })
    }

    /// Polls the future now. A call from inside the poll (by a waker) only requests another poll.
    /// Returns true if another poll was requested but not done, because the limit of polls in one
    /// call was reached; the caller must then call again.
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
            // SAFETY: `scope` keeps the future pinned in its frame, and waits until `polling` is
            // false before it lets go; this call has set `polling`.
            let ready =
                unsafe { Pin::new_unchecked(&mut *future) }.poll(&mut Context::from_waker(waker)).is_ready();
            let again = self.with(|state| {
                if ready {
                    state.future = None;
                }
                // Cleared under the same lock in which `again` is read: a call that comes from now
                // on takes the next turn itself.
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

    /// Returns whether no future is left to poll: it has ended, or there was none.
    pub fn is_finished(&self) -> bool {
        self.with(|state| state.future.is_none()) == Some(true)
    }

    /// Runs `main`. Meanwhile the future lives in this frame, and each call of [`poll`](Self::poll)
    /// polls it. Takes the future out before it returns. Returns `None` and runs nothing if another
    /// scope of this task has not returned, for example because the future of that scope has made
    /// this call.
    ///
    /// Before `scope` returns, it waits for a poll that is under way. So on a pre-emptive system
    /// the thread that polls must not have a lower priority than this caller on the same core:
    /// otherwise that poll never ends.
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
                // A poll on another core ends soon: tasks do not block. In this context no poll can
                // be under way: a `scope` that the future itself calls finds `taken` set, and
                // returns `None`.
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
        // SAFETY: only the lifetime changes; `Unregister` takes the pointer out before the future
        // is dropped, also when unwinding.
        let pointer: *mut (dyn Future<Output = ()> + Send + 'static) =
            unsafe { core::mem::transmute(pointer) };
        self.with(|state| state.future = Some(pointer));
        self.poll(waker);
        let result = main();
        drop(unregister);
        Some(result)
    }
}

/// Guard of a poll of the future. If the future panics, the drop of the guard removes the future,
/// so that it is never polled again and `scope` does not wait for ever.
struct Turn<'a, L: Lock>(&'a IrqTask<L>);

impl<L: Lock> Drop for Turn<'_, L> {
    fn drop(&mut self) {
        self.0.with(|state| (state.future, state.polling) = (None, false));
    }
}
