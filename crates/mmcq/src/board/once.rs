//! Values in statics, each of which only the first call of `take` gets.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use core::cell::UnsafeCell;
use core::fmt;

/// A flag that one call sets, and that is never cleared. On cores without compare-and-swap
/// (Cortex-M0, MSP430) a critical section protects it.
#[derive(Debug)]
pub(super) struct First {
    #[cfg(target_has_atomic = "8")]
    taken: core::sync::atomic::AtomicBool,
    #[cfg(not(target_has_atomic = "8"))]
    taken: critical_section::Mutex<core::cell::Cell<bool>>,
}

impl First {
    #[cfg(target_has_atomic = "8")]
    pub const fn new() -> Self {
        First { taken: core::sync::atomic::AtomicBool::new(false) }
    }

    #[cfg(not(target_has_atomic = "8"))]
    pub const fn new() -> Self {
        First { taken: critical_section::Mutex::new(core::cell::Cell::new(false)) }
    }

    /// Sets the flag. Returns true for one caller only.
    pub fn take(&self) -> bool {
        #[cfg(target_has_atomic = "8")]
        let before = self.taken.swap(true, core::sync::atomic::Ordering::AcqRel);
        #[cfg(not(target_has_atomic = "8"))]
        let before = critical_section::with(|cs| self.taken.borrow(cs).replace(true));
        !before
    }
}

/// A value in a `static`, such as a driver's descriptor table. The first call of
/// [`take`](Self::take) gets a reference to it for ever, and no later call gets one.
///
/// # Examples
/// ```
/// use mmcq::board::Once;
/// use mmcq::host::sdhci::Table;
/// static TABLE: Once<Table<33>> = Once::new(Table::new());
/// assert!(TABLE.take().is_some());
/// assert!(TABLE.take().is_none());
/// ```
pub struct Once<T> {
    first: First,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached by the one caller that `take` gives it to.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    /// Makes a value that is not taken yet.
    pub const fn new(value: T) -> Self {
        Once { first: First::new(), value: UnsafeCell::new(value) }
    }

    /// Returns the value at the first call, and `None` at every later one.
    #[expect(clippy::mut_from_ref, reason = "`first` sees to it that there is one")]
    pub fn take(&'static self) -> Option<&'static mut T> {
        // SAFETY: `first.take` returns true one time, so this is the first and only reference.
        self.first.take().then(|| unsafe { &mut *self.value.get() })
    }
}

impl<T> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
