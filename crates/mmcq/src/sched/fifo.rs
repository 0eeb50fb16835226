//! First in, first out.

use super::{Choice, Policy, Waiting};

/// No scheduler: the oldest request is next. Bound: a request waits for at most as many transfers as there were requests before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    const IN_ORDER: bool = true;

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        waiting.next().map_or(Choice::IdleUntil(now_ns), |oldest| Choice::Go(oldest.index))
    }
}
