//! The lock that the whole program shares.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::task::Lock;

/// The `critical-section` of the program as the stack's lock: while the engine works, no interrupt
/// runs and, if its implementation excludes them, no other core.
#[derive(Clone, Copy, Debug, Default)]
pub struct CriticalSection;

// SAFETY: `critical_section::with` excludes every other section, on this core and others; the stack
// never nests its own.
unsafe impl Lock for CriticalSection {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        critical_section::with(|_| f())
    }
}
