//! First in, first out, and at once.

use super::{AtOnce, Choice, Fifo, Policy, Waiting};

/// As [`Fifo`], for firmware whose requests are not many at a time: no start is held for the tail of its batch, and what that takes is not linked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompt;

impl Policy for Prompt {
    type Tails = AtOnce;
    const IN_ORDER: bool = true;

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        Fifo.pick(waiting, now_ns)
    }
}
