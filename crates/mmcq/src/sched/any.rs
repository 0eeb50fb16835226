//! One of the schedulers, chosen at run time.

use super::{Choice, Deadline, Fair, Fifo, Policy, ReadsFirst, Waiting};

/// A scheduler that is chosen at run time from four. The chosen one keeps its bound on waiting; a
/// call costs one comparison more than a direct call of that scheduler.
#[derive(Clone, Copy, Debug)]
pub enum Any<const CLIENTS: usize = 8> {
    /// First in, first out: the oldest waiting request is next.
    Fifo(Fifo),
    /// Batches of reads or of writes in address order; a request that has waited too long starts
    /// the next batch.
    Deadline(Deadline),
    /// Clients take turns, each with a budget of blocks and a weight.
    Fair(Fair<CLIENTS>),
    /// Reads go before older writes, up to a limit for each write.
    ReadsFirst(ReadsFirst),
}

impl Any {
    /// The schedulers' names, in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["fifo", "deadline", "fair", "reads-first"];
}

impl<const CLIENTS: usize> Any<CLIENTS> {
    /// Returns the name, one of [`Any::NAMES`].
    pub const fn name(&self) -> &'static str {
        let [fifo, deadline, fair, reads_first] = Any::NAMES;
        match self {
            Any::Fifo(_) => fifo,
            Any::Deadline(_) => deadline,
            Any::Fair(_) => fair,
            Any::ReadsFirst(_) => reads_first,
        }
    }
}

impl<const CLIENTS: usize> Policy for Any<CLIENTS> {
    const MAY_BE_IN_ORDER: bool = true;

    #[inline]
    fn is_in_order(&self) -> bool {
        matches!(self, Any::Fifo(_) | Any::ReadsFirst(_))
    }

    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        match self {
            Any::Fifo(policy) => policy.arrived(request, now_ns),
            Any::Deadline(policy) => policy.arrived(request, now_ns),
            Any::Fair(policy) => policy.arrived(request, now_ns),
            Any::ReadsFirst(policy) => policy.arrived(request, now_ns),
        }
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        match self {
            Any::Fifo(policy) => policy.pick(waiting, now_ns),
            Any::Deadline(policy) => policy.pick(waiting, now_ns),
            Any::Fair(policy) => policy.pick(waiting, now_ns),
            Any::ReadsFirst(policy) => policy.pick(waiting, now_ns),
        }
    }

    fn yields(&self) -> bool {
        match self {
            Any::Fifo(policy) => policy.yields(),
            Any::Deadline(policy) => policy.yields(),
            Any::Fair(policy) => policy.yields(),
            Any::ReadsFirst(policy) => policy.yields(),
        }
    }

    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        match self {
            Any::Fifo(policy) => policy.bears(picked, until_ns),
            Any::Deadline(policy) => policy.bears(picked, until_ns),
            Any::Fair(policy) => policy.bears(picked, until_ns),
            Any::ReadsFirst(policy) => policy.bears(picked, until_ns),
        }
    }

    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        match self {
            Any::Fifo(policy) => policy.sent(request, now_ns),
            Any::Deadline(policy) => policy.sent(request, now_ns),
            Any::Fair(policy) => policy.sent(request, now_ns),
            Any::ReadsFirst(policy) => policy.sent(request, now_ns),
        }
    }

    fn cancelled(&mut self, request: &Waiting) {
        match self {
            Any::Fifo(policy) => policy.cancelled(request),
            Any::Deadline(policy) => policy.cancelled(request),
            Any::Fair(policy) => policy.cancelled(request),
            Any::ReadsFirst(policy) => policy.cancelled(request),
        }
    }

    fn done(&mut self, request: &Waiting, now_ns: u64) {
        match self {
            Any::Fifo(policy) => policy.done(request, now_ns),
            Any::Deadline(policy) => policy.done(request, now_ns),
            Any::Fair(policy) => policy.done(request, now_ns),
            Any::ReadsFirst(policy) => policy.done(request, now_ns),
        }
    }
}
