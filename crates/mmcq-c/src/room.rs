//! Static memory for a future whose type has no name.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use core::cell::UnsafeCell;
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::task::{Context, Poll};

/// An `async fn` with one argument. Each such function has a future type of its own.
pub(crate) type Begin<A, F> = fn(A) -> F;

/// Alignment of [`Room`] in bytes. The number is repeated here because the layout of `Room` is
/// unknown while it is being defined.
const ALIGN: usize = 16;

/// Returns the size of the function's future, in bytes.
pub(crate) const fn bytes_of<A, F>(_: &Begin<A, F>) -> usize {
    assert!(align_of::<F>() <= ALIGN, "the future wants more alignment than its room has");
    size_of::<F>()
}

/// Returns the larger of two sizes.
pub(crate) const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Memory for one future. The owner of this memory decides which code may access it.
#[repr(C, align(16))]
pub(crate) struct Room<const BYTES: usize>(UnsafeCell<MaybeUninit<[u8; BYTES]>>);

impl<const BYTES: usize> Room<BYTES> {
    pub const fn new() -> Self {
        Room(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Places the future of `begin(with)` in the room. This function is inlined, so the few parts
    /// of the future are written one by one; otherwise the whole future would be made on the stack.
    ///
    /// # Safety
    /// The room is empty, and nothing else accesses it during the call.
    #[inline(always)]
    pub unsafe fn begin<A, F>(&self, begin: Begin<A, F>, with: A) {
        const { assert!(size_of::<F>() <= BYTES && align_of::<F>() <= ALIGN) };
        // SAFETY: the room is large enough and aligned; the caller promises the rest.
        unsafe { self.0.get().cast::<F>().write(begin(with)) }
    }

    /// Polls the future in the room. When the future has ended, the room is empty.
    ///
    /// # Safety
    /// The future in the room was placed by `begin` with the same function. Nothing else accesses
    /// the room during the call, and the room is not moved until the future has ended.
    pub unsafe fn poll<A, F: Future + Send>(
        &self,
        _: Begin<A, F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let future = self.0.get().cast::<F>();
        // SAFETY: the caller promises it.
        let polled = unsafe { Pin::new_unchecked(&mut *future) }.poll(context);
        if polled.is_ready() {
            // SAFETY: the future has ended, and no call polls it again.
            unsafe { future.drop_in_place() }
        }
        polled
    }
}
