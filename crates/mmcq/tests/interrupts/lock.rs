//! A lock that lets an interrupt come at each point where a use of the lock begins or ends. These
//! points are the accesses that the tests count.

use mmcq::task::Lock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The code that handles an interrupt.
pub trait Handler {
    fn interrupt(&self, what: What);
}

/// The kind of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The controller's interrupt at the end of its phase, and the alarm's interrupt directly after
    /// it.
    Turn,
    /// The alarm's interrupt, so late that every deadline has passed.
    Late,
}

/// The accesses (beginnings and ends of uses of a lock) at which interrupts come. The first
/// interrupt comes at access number `first` of code outside of handlers, counted from 0. A second
/// one comes at access number `second` of the handler of the first interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub what: What,
    pub first: u32,
    pub second: Option<u32>,
}

thread_local! {
    static HANDLER: RefCell<Option<Rc<dyn Handler>>> = const { RefCell::new(None) };
    static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Number of accesses to locks so far: by code outside of handlers, and by the handler of the
    /// first interrupt.
    static SEEN: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Makes interrupts by this plan from now on.
pub fn arm(handler: Rc<dyn Handler>, plan: Plan) {
    HANDLER.set(Some(handler));
    PLAN.set(Some(plan));
    SEEN.set([0; 2]);
}

/// Makes no more interrupts. Returns the number of accesses to locks since [`arm`]: by code outside
/// of handlers, and by the handler of the first interrupt.
pub fn disarm() -> [u32; 2] {
    HANDLER.set(None);
    PLAN.set(None);
    DEPTH.set(0);
    SEEN.replace([0; 2])
}

/// Returns whether any lock is held, so that interrupts are off.
pub fn held() -> bool {
    HELD.get() > 0
}

fn point() {
    let (Some(plan), depth) = (PLAN.get(), DEPTH.get()) else { return };
    let mut seen = SEEN.get();
    let Some(count) = seen.get_mut(depth) else { return };
    let now = *count;
    *count += 1;
    SEEN.set(seen);
    let wanted = if depth == 0 { Some(plan.first) } else { plan.second };
    if wanted == Some(now)
        && let Some(handler) = HANDLER.with_borrow(|handler| handler.clone())
    {
        DEPTH.set(depth + 1);
        handler.interrupt(plan.what);
        DEPTH.set(depth);
    }
}

/// Runs `f` without interrupts, and without counting its accesses to locks. This is for the test's
/// own view of the hardware.
pub fn unseen<R>(f: impl FnOnce() -> R) -> R {
    let plan = PLAN.take();
    let result = f();
    PLAN.set(plan);
    result
}

/// A lock where an interrupt may come when a use of it begins and when the use ends. Each
/// [`mmcq::task::Stack`] and each [`mmcq::task::IrqTask`] has a lock of its own.
#[derive(Default)]
pub struct Interrupted(Cell<bool>);

// SAFETY: the tests have one thread each; nested use of the same lock panics.
unsafe impl Lock for Interrupted {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        point();
        assert!(!self.0.replace(true), "the lock is taken twice");
        HELD.set(HELD.get() + 1);
        let result = f();
        HELD.set(HELD.get() - 1);
        self.0.set(false);
        point();
        result
    }
}
