//! Memory that is lent to a driver for as long as the driver exists.
//!
//! A driver borrows its tables for the whole program (`'static`), as in firmware. The laboratory
//! makes many boards, and frees the tables of each board that is dropped.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use std::any::Any;
use std::ptr::NonNull;

/// Lent values, which are freed when this structure is dropped.
#[derive(Debug, Default)]
pub struct Lent(Vec<NonNull<dyn Any>>);

impl Lent {
    /// Moves a value to memory that exists as long as this structure, and returns a reference that
    /// the borrow checker allows for the whole program.
    ///
    /// # Safety
    /// When this structure is dropped, the returned reference must not be used any more. A
    /// controller that was given the value's address must not use it any more either.
    pub unsafe fn lend<T: Any>(&mut self, value: T) -> &'static mut T {
        #[cfg(test)]
        crate::counted::lent(1);
        let place = NonNull::from(Box::leak(Box::new(value)));
        self.0.push(place);
        // SAFETY: the memory exists until this structure is dropped, and the reference is the only
        // one.
        unsafe { &mut *place.as_ptr() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for place in self.0.drain(..) {
            #[cfg(test)]
            crate::counted::lent(-1);
            // SAFETY: `lend` leaked this box, which is freed only once, and its caller guarantees
            // that the reference is not used any more.
            drop(unsafe { Box::from_raw(place.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests;
