//! One core: code that has turned interrupts off is alone.

use crate::board::interrupts_off;
use core::cell::UnsafeCell;
use mmcq::task::Lock;

/// The lock of the engine.
#[derive(Debug)]
pub struct InterruptsOff;

// SAFETY: one core, and no interrupt comes in between. Nesting would be harmless; the closures do
// not nest anyway.
unsafe impl Lock for InterruptsOff {
    #[inline]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        interrupts_off(f)
    }
}

/// A value that is handed out once, for good.
pub struct Once<T> {
    value: UnsafeCell<T>,
    taken: UnsafeCell<bool>,
}

// SAFETY: the flag is only touched with interrupts off on the one core, and the value by the code
// that has raised it.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    /// Not taken yet.
    pub const fn new(value: T) -> Self {
        Once { value: UnsafeCell::new(value), taken: UnsafeCell::new(false) }
    }

    /// The value, the first time.
    #[expect(clippy::mut_from_ref, reason = "the flag sees to it that there is one")]
    pub fn take(&'static self) -> Option<&'static mut T> {
        // SAFETY: interrupts are off on the one core.
        let before = interrupts_off(|| unsafe { self.taken.get().replace(true) });
        // SAFETY: the flag was down, so this is the first and only reference.
        (!before).then(|| unsafe { &mut *self.value.get() })
    }
}
