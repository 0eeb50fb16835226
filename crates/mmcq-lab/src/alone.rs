//! The lock of the laboratory's stacks.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::task::Lock;

/// The laboratory has one thread, and its machine takes the stack's lock in virtual time.
pub struct Alone;

// SAFETY: one thread, and nothing in the laboratory comes back to the engine from inside a closure.
unsafe impl Lock for Alone {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}
