//! Memory lent to a driver for as long as the driver exists.
//!
//! A driver takes its tables for ever, as in firmware. The laboratory makes many boards, and frees
//! the tables of a board that was dropped.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use std::any::Any;
use std::ptr::NonNull;

/// Memory that is freed when this is dropped.
#[derive(Debug, Default)]
pub struct Lent(Vec<NonNull<dyn Any>>);

impl Lent {
    /// Lends a value.
    ///
    /// # Safety
    /// Nothing uses the reference any more when this is dropped. A controller that was given the
    /// address does not use it any more then.
    pub unsafe fn lend<T: Any>(&mut self, value: T) -> &'static mut T {
        #[cfg(test)]
        crate::counted::lent(1);
        let place = NonNull::from(Box::leak(Box::new(value)));
        self.0.push(place);
        // SAFETY: the memory is there until this is dropped, and the reference is the only one.
        unsafe { &mut *place.as_ptr() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for place in self.0.drain(..) {
            #[cfg(test)]
            crate::counted::lent(-1);
            // SAFETY: `lend` leaked this box, which is freed once, and who called it vouches that
            // nothing uses it any more.
            drop(unsafe { Box::from_raw(place.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests;
