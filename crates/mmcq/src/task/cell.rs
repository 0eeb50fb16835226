//! The cell behind a [`Lock`](super::Lock), and the wait of who spins for another core. Under loom both are loom's to watch.

#[cfg(all(test, loom))]
extern crate std;

#[cfg(not(all(test, loom)))]
pub(super) use core::hint::spin_loop;
#[cfg(all(test, loom))]
pub(super) use loom::hint::spin_loop;

/// Of all threads in a blocking call: the one that looked last, by its [mark](super::Idle), or 0 once a waker has been called since.
#[cfg(not(all(test, loom)))]
pub(super) static LAST: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
#[cfg(all(test, loom))]
loom::lazy_static! {
    pub(super) static ref LAST: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
}

/// What a lock keeps to one context at a time.
#[derive(Debug)]
pub(super) struct Locked<T> {
    value: core::cell::UnsafeCell<T>,
    /// Made at the first access, because loom's cells cannot be made in a constant.
    #[cfg(all(test, loom))]
    watched: std::sync::OnceLock<loom::cell::UnsafeCell<()>>,
}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Self {
        Locked {
            value: core::cell::UnsafeCell::new(value),
            #[cfg(all(test, loom))]
            watched: std::sync::OnceLock::new(),
        }
    }

    /// # Safety
    /// The lock is held until this returns, and `f` does not come back here.
    pub unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(all(test, loom))]
        let _access = self.watched.get_or_init(|| loom::cell::UnsafeCell::new(())).get_mut();
        // SAFETY: the caller holds the lock, so this is the only reference.
        f(unsafe { &mut *self.value.get() })
    }
}
