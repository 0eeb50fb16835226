//! A lock at whose every acquisition and release the interrupt may come.

use mmcq::task::Lock;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What an interrupt does.
pub trait Handler {
    fn interrupt(&self, what: What);
}

/// Which interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The controller's, at the moment at which its phase ends, and the alarm's directly after it.
    Turn,
    /// The alarm's, so late that every deadline has passed.
    Late,
}

/// When interrupts come: at the nth access, and at the mth access of the handler that runs then.
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
    /// Accesses seen: outside handlers, and inside the one that was planned.
    static SEEN: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Interrupts by this plan from now on.
pub fn arm(handler: Rc<dyn Handler>, plan: Plan) {
    HANDLER.set(Some(handler));
    PLAN.set(Some(plan));
    SEEN.set([0; 2]);
}

/// No more interrupts. Accesses that there were: in all, and in the handler.
pub fn disarm() -> [u32; 2] {
    HANDLER.set(None);
    PLAN.set(None);
    DEPTH.set(0);
    SEEN.replace([0; 2])
}

/// Is the lock held (interrupts are off)?
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

/// A look at the hardware, which is no access of the stack's: nothing comes in between.
pub fn unseen<R>(f: impl FnOnce() -> R) -> R {
    let plan = PLAN.take();
    let result = f();
    PLAN.set(plan);
    result
}

/// Each owner of one has its own, as [`mmcq::task::Stack`] and [`mmcq::task::IrqTask`] do.
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
