//! Statics that are filled in at run time, on cores without compare-and-swap too.

use crate::board::interrupts_off;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// A value that is handed out once, for good.
pub struct Once<T> {
    value: UnsafeCell<T>,
    taken: UnsafeCell<bool>,
}

// SAFETY: the flag is only touched with interrupts off on the one core, the value only by who has raised
// the flag.
unsafe impl<T: Send> Sync for Once<T> {}

impl<T> Once<T> {
    /// Not taken yet.
    pub const fn new(value: T) -> Self {
        Once { value: UnsafeCell::new(value), taken: UnsafeCell::new(false) }
    }

    /// The value, the first time.
    #[expect(clippy::mut_from_ref, reason = "the flag sees to it that there is one")]
    pub fn take(&'static self) -> Option<&'static mut T> {
        // SAFETY: interrupts are off on the only core, so nobody else is at the flag.
        let before = interrupts_off(|| unsafe { core::mem::replace(&mut *self.taken.get(), true) });
        // SAFETY: the flag was down, so this is the first and only reference.
        (!before).then(|| unsafe { &mut *self.value.get() })
    }
}

/// A value that comes later and is shared from then on.
pub struct Late<T> {
    value: UnsafeCell<MaybeUninit<T>>,
    there: UnsafeCell<bool>,
}

// SAFETY: written once with interrupts off on the one core, before any reference exists; shared afterwards.
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
                // SAFETY: the flag is down, so no reference to the inside exists; interrupts are off on the
                // only core.
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
