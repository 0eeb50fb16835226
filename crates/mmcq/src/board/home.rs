//! A place for a stack in a `static`; the program puts the stack there at run time.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::once::First;
use crate::task::{Platform, Stack};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

/// A `static` place for a stack that is made at run time. It has the calls for interrupt handlers
/// ([`on_irq`](Self::on_irq), [`poll`](Self::poll)). Before [`put`](Self::put) these calls do
/// nothing.
///
/// # Examples
/// ```
/// use mmcq::board::Home;
/// use mmcq::task::Platform;
/// /// The interrupt handler in a board's vector table.
/// fn interrupt<B: Platform>(card: &'static Home<B, 8>) {
///     card.on_irq();
/// }
/// ```
pub struct Home<B: Platform, const N: usize> {
    first: First,
    ready: AtomicBool,
    stack: UnsafeCell<MaybeUninit<Stack<B, N>>>,
}

// SAFETY: `put` writes the stack once, before `ready` says that it is there; from then on it is
// only shared.
unsafe impl<B: Platform, const N: usize> Sync for Home<B, N> where Stack<B, N>: Send + Sync {}

impl<B: Platform, const N: usize> Home<B, N> {
    /// Makes a place that holds no stack yet.
    pub const fn new() -> Self {
        Home {
            first: First::new(),
            ready: AtomicBool::new(false),
            stack: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Puts the stack into this place, for ever. If the place already has a stack, drops the new
    /// one and returns `None`.
    pub fn put(&'static self, stack: Stack<B, N>) -> Option<&'static Stack<B, N>> {
        if !self.first.take() {
            return None;
        }
        // SAFETY: `first.take` returns true one time, and `ready` is still false: no reference
        // exists.
        let stack = unsafe { (*self.stack.get()).write(stack) };
        self.ready.store(true, Ordering::Release);
        Some(stack)
    }

    /// Returns the stack; `None` before [`put`](Self::put).
    #[inline]
    pub fn get(&'static self) -> Option<&'static Stack<B, N>> {
        // SAFETY: `ready` is true after the stack was written, and it is never written again.
        self.ready.load(Ordering::Acquire).then(|| unsafe { (*self.stack.get()).assume_init_ref() })
    }

    /// Handles an interrupt; the controller's interrupt handler calls this.
    #[inline]
    pub fn on_irq(&'static self) {
        if let Some(stack) = self.get() {
            stack.on_irq();
        }
    }

    /// Does all work of the stack that is due; the alarm calls this.
    #[inline]
    pub fn poll(&'static self) {
        if let Some(stack) = self.get() {
            stack.poll();
        }
    }
}

impl<B: Platform, const N: usize> Default for Home<B, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Platform, const N: usize> fmt::Debug for Home<B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("ready", &self.ready).finish_non_exhaustive()
    }
}
