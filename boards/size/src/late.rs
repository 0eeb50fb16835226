//! Statics that are filled in at run time, on cores without compare-and-swap too.

pub use crate::alone::Once;
use crate::board::interrupts_off;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A value that comes later and is shared from then on.
pub struct Late<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    there: UnsafeCell<bool>,
}

// SAFETY: written once with interrupts off on the one core, before any reference exists; shared
// afterwards.
unsafe impl<T: Sync + Send> Sync for Late<T> {}

impl<T> Late<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Late { value: UnsafeCell::new(MaybeUninit::uninit()), there: UnsafeCell::new(false) }
    }

    /// Puts the value in if there is none; then as [`get`](Self::get).
    #[inline(never)]
    pub fn set(&'static self, value: T) -> Option<&'static T> {
        interrupts_off(|| {
            if self.get().is_none() {
                // SAFETY: the flag is down, so no reference to the inside exists; interrupts are
                // off on the only core.
                unsafe {
                    (*self.value.get()).write(value);
                    *self.there.get() = true;
                }
            }
        });
        self.get()
    }

    /// The value, once it is there.
    pub fn get(&'static self) -> Option<&'static T> {
        // SAFETY: the flag goes up once, after the value was written, and neither is written again.
        unsafe { (*self.there.get()).then(|| (*self.value.get()).assume_init_ref()) }
    }
}

impl<T> Default for Late<T> {
    fn default() -> Self {
        Self::new()
    }
}
