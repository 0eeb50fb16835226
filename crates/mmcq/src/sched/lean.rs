//! The least.

use super::{Choice, Fifo, Policy, Waiting};

/// As [`Fifo`], for firmware that must be small: failed transfers are not tried again ([`Policy::RECOVERS`]), which is for its user to do, and no program can
/// [keep](crate::card::supervise) the card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lean;

impl Policy for Lean {
    const IN_ORDER: bool = true;
    const RECOVERS: bool = false;
    type Tails = super::AtOnce;

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        Fifo.pick(waiting, now_ns)
    }
}
