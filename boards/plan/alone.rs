//! On one core, code that has switched interrupts off is not disturbed by any other code.

use crate::board::interrupts_off;
use core::cell::UnsafeCell;
use mmcq::task::Lock;

/// The engine's lock: it switches interrupts off.
#[derive(Debug)]
pub struct InterruptsOff;

// SAFETY: the machine has one core, and no interrupt comes while they are off. Nesting would be
// harmless, and the closures do not nest.
unsafe impl Lock for InterruptsOff {
    #[inline]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        interrupts_off(f)
    }
}

/// A static value that is given out once, for good.
pub struct Once<T> {
    value: UnsafeCell<T>,
    taken: UnsafeCell<bool>,
}

// SAFETY: the flag is accessed only with interrupts off on the only core, and the value only by the
// code that has set the flag.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    /// Makes a value that has not been taken yet.
    pub const fn new(value: T) -> Self {
        Once { value: UnsafeCell::new(value), taken: UnsafeCell::new(false) }
    }

    /// Returns the value at the first call; `None` at later calls.
    #[expect(clippy::mut_from_ref, reason = "the flag sees to it that there is one")]
    pub fn take(&'static self) -> Option<&'static mut T> {
        // SAFETY: interrupts are off on the only core.
        let before = interrupts_off(|| unsafe { self.taken.get().replace(true) });
        // SAFETY: the flag was not set, so this is the first and only reference.
        (!before).then(|| unsafe { &mut *self.value.get() })
    }
}
