//! The lock for a program that uses its stack from one context only.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::task::Lock;
use core::cell::Cell;
use core::marker::PhantomData;

/// No lock: for a stack that one context polls, such as a boot loader or a superloop without
/// interrupts.
///
/// A stack with this lock cannot be in a `static`, and an interrupt handler cannot reach it: the
/// type is not `Sync`.
///
/// ```compile_fail
/// # use mmcq::{board::NoLock, host::{regs::Mmio, sdhci::Sdhci}, task::Stack};
/// # use mmcq::board::Coherent;
/// fn shared<T: Sync>() {}
/// shared::<Stack<(NoLock, Sdhci<Mmio, Coherent, 33>), 8>>();
/// ```
#[derive(Clone, Debug, Default)]
pub struct NoLock(PhantomData<Cell<()>>);

impl NoLock {
    /// Makes the lock.
    pub const fn new() -> Self {
        NoLock(PhantomData)
    }
}

// SAFETY: the type is not `Sync`, so no two contexts have the same lock at one time.
unsafe impl Lock for NoLock {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }
}
