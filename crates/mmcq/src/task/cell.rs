//! The cell that a [`Lock`](super::Lock) protects, and the loop in which a core waits for another
//! core. Tests with the tool loom check both.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

#[cfg(all(test, loom))]
extern crate std;

#[cfg(not(all(test, loom)))]
pub(super) use core::hint::spin_loop;
#[cfg(all(test, loom))]
pub(super) use loom::hint::spin_loop;

use core::cell::Cell;

/// Identifies the blocking call, of all threads, that polled its future last: the address of its
/// [`Idle`](super::Idle). 0 if a waker has been called since.
#[cfg(not(all(test, loom)))]
pub(super) static LAST: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
#[cfg(all(test, loom))]
loom::lazy_static! {
    pub(super) static ref LAST: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
}

/// The value that a lock protects. The lock admits one context at a time, and this cell one call of
/// that context.
///
/// A lock shuts other contexts out. It cannot prevent a call from inside another call of the same
/// context.
#[derive(Debug)]
pub(crate) struct Locked<T> {
    value: core::cell::UnsafeCell<T>,
    inside: Cell<Inside>,
    /// I/O functions whose last CMD53 did not end well and that were not aborted: one bit each.
    /// Also set by code that runs inside a call of the stack (such as a drop in a waker), so the
    /// field is outside of the engine. Accessed only with the lock held.
    pub unfinished: Cell<u8>,
    /// How many times a bring-up of an I/O card has begun or ended. Each of them clears the
    /// settings that were made on the card before. Accessed only with the lock held.
    pub io_resets: Cell<u32>,
    /// A cell of the test tool loom, which fails the test if two threads access the value at the
    /// same time. Made at the first access, because loom's cells cannot be made in a constant.
    #[cfg(all(test, loom))]
    watched: std::sync::OnceLock<loom::cell::UnsafeCell<()>>,
}

/// State of the cell with the engine: no call uses it; a call uses it; or a call uses it, and
/// another one came from inside that call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    Call,
    /// A call uses the value. At least one further call was made from inside that call, and was
    /// refused.
    Missed,
}

/// Guard of a call inside the cell: its drop marks the cell as left, also when the call panics.
struct Leave<'a>(&'a Cell<Inside>);

impl Drop for Leave<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.set(Inside::Nothing);
    }
}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Self {
        Locked {
            value: core::cell::UnsafeCell::new(value),
            inside: Cell::new(Inside::Nothing),
            unfinished: Cell::new(0),
            io_resets: Cell::new(0),
            #[cfg(all(test, loom))]
            watched: std::sync::OnceLock::new(),
        }
    }

    /// Makes a cell at `place`, and its value by `write`.
    ///
    /// # Safety
    /// `place` is aligned memory of a cell's size that nothing else uses now. `write` initialises
    /// the value in the memory that it is passed.
    pub unsafe fn write_to(place: *mut Self, write: impl FnOnce(*mut T)) {
        // A new field must also be written below.
        #[cfg(not(all(test, loom)))]
        let _all = |Locked { value: _, inside: _, unfinished: _, io_resets: _ }: Self| ();
        // SAFETY: the caller's promise; each field is written once, and none is read.
        unsafe {
            write((&raw mut (*place).value).cast());
            (&raw mut (*place).inside).write(Cell::new(Inside::Nothing));
            (&raw mut (*place).unfinished).write(Cell::new(0));
            (&raw mut (*place).io_resets).write(Cell::new(0));
            #[cfg(all(test, loom))]
            (&raw mut (*place).watched).write(std::sync::OnceLock::new());
        }
    }

    /// Runs `f` with the value. If this call came from inside another one, runs `f` with `None`
    /// instead; in the first such call, runs `nested` before.
    #[inline(always)]
    pub unsafe fn enter<R>(&self, f: impl FnOnce(Option<&mut T>) -> R, nested: impl FnOnce()) -> R {
        if self.inside.get() != Inside::Nothing {
            if self.inside.replace(Inside::Missed) == Inside::Call {
                nested();
            }
            return f(None);
        }
        self.inside.set(Inside::Call);
        let _leave = Leave(&self.inside);
        #[cfg(all(test, loom))]
        let _access = self.watched.get_or_init(|| loom::cell::UnsafeCell::new(())).get_mut();
        // SAFETY: other contexts are kept out by the lock, and calls of this one by `inside`, which
        // stays set until the reference is gone. So this is the only reference.
        f(Some(unsafe { &mut *self.value.get() }))
    }
}
