//! The lock that the whole program shares.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::task::Lock;

/// The program's `critical-section` as the stack's lock. While the engine works, no interrupt runs.
/// If the implementation of `critical-section` excludes other cores, no other core is in a critical
/// section either.
#[derive(Clone, Copy, Debug, Default)]
pub struct CriticalSection;

// SAFETY: `critical_section::with` excludes every other section, on this core and others; the stack
// never nests its own.
unsafe impl Lock for CriticalSection {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        critical_section::with(|_| f())
    }
}
