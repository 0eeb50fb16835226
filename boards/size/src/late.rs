//! Static variables that get their value at run time, even on cores without compare-and-swap.

pub use crate::alone::Once;
use crate::board::interrupts_off;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A static value that is set once and shared from then on.
pub struct Late<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    there: UnsafeCell<bool>,
}

// SAFETY: written once with interrupts off on the only core, before any reference exists; only
// shared afterwards.
unsafe impl<T: Sync + Send> Sync for Late<T> {}

impl<T> Late<T> {
    /// Makes a variable without a value.
    pub const fn new() -> Self {
        Late { value: UnsafeCell::new(MaybeUninit::uninit()), there: UnsafeCell::new(false) }
    }

    /// Sets the value if there is none yet. Returns the value, as [`get`](Self::get) does.
    #[inline(never)]
    pub fn set(&'static self, value: T) -> Option<&'static T> {
        interrupts_off(|| {
            if self.get().is_none() {
                // SAFETY: the flag is not set, so no reference to the value exists; interrupts are
                // off on the only core.
                unsafe {
                    (*self.value.get()).write(value);
                    *self.there.get() = true;
                }
            }
        });
        self.get()
    }

    /// Returns the value; `None` before it is set.
    pub fn get(&'static self) -> Option<&'static T> {
        // SAFETY: the flag is set once, after the value was written; neither is written again.
        unsafe { (*self.there.get()).then(|| (*self.value.get()).assume_init_ref()) }
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self::new()
    }
}
