//! The scheduler that a board's file names, as a scheduler ([`Policy`]) of mmcq's engine.

use mmcq::sched::{Any, Choice, Policy, Waiting};

/// Scheduler of mmcq's engine that the board's file has chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    any: Any,
    /// Whether the engine must inform the scheduler of each request that arrives, even if the
    /// scheduler serves requests in the order of their arrival.
    told: bool,
}

impl Scheduler {
    /// Makes the engine's scheduler from the one that the board's file names. `told`: the engine
    /// reports every request to the scheduler, so all requests take the general path and none the
    /// fast path.
    pub fn new(any: Any, told: bool) -> Self {
        Scheduler { any, told }
    }
}

impl From<Any> for Scheduler {
    fn from(any: Any) -> Self {
        Scheduler::new(any, false)
    }
}

impl Policy for Scheduler {
    const MAY_BE_IN_ORDER: bool = true;

    fn is_in_order(&self) -> bool {
        !self.told && self.any.is_in_order()
    }

    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        self.any.arrived(request, now_ns);
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        self.any.pick(waiting, now_ns)
    }

    fn yields(&self) -> bool {
        self.any.yields()
    }

    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        self.any.bears(picked, until_ns)
    }

    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        self.any.sent(request, now_ns);
    }

    fn cancelled(&mut self, request: &Waiting) {
        self.any.cancelled(request);
    }

    fn done(&mut self, request: &Waiting, now_ns: u64) {
        self.any.done(request, now_ns);
    }
}
