//! Schedulers of the random cases on an SDHCI: those of the stack, and two that may pick anything.

use mmcq::sched::{Any, Choice, Deadline, Fair, Fifo, Policy, ReadsFirst, Waiting, deadline, fair};

/// The scheduler of a case.
#[expect(clippy::large_enum_variant, reason = "a machine has one")]
#[derive(Clone, Copy, Debug)]
pub enum Chosen {
    /// One of the schedulers that the stack offers, such as `Fifo`.
    Any(Any),
    /// A scheduler that picks a waiting request at random. The field is the state of the random
    /// generator.
    Chance(u64),
    /// A scheduler that picks the request that came last.
    Newest,
}

impl Chosen {
    /// First in, first out.
    pub const FIFO: Chosen = Chosen::Any(Any::Fifo(Fifo));

    /// Returns the scheduler of this number in [`Setup::scheduler`](super::case::Setup::scheduler);
    /// `None`: first in, first out.
    #[must_use]
    pub fn of(number: u8, seed: u64) -> Option<Chosen> {
        match number {
            1 => Some(Chosen::Any(Any::Deadline(Deadline::new(deadline::DeadlineConfig::DEFAULT)))),
            2 => Some(Chosen::Any(Any::Fair(Fair::new(fair::FairConfig::DEFAULT)))),
            3 => Some(Chosen::Chance(seed)),
            4 => Some(Chosen::Newest),
            5 => Some(Chosen::Any(Any::ReadsFirst(ReadsFirst::new()))),
            _ => None,
        }
    }
}

impl Policy for Chosen {
    const MAY_BE_IN_ORDER: bool = true;

    fn is_in_order(&self) -> bool {
        matches!(self, Chosen::Any(policy) if policy.is_in_order())
    }

    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        match self {
            Chosen::Any(policy) => policy.bears(picked, until_ns),
            Chosen::Chance(_) | Chosen::Newest => true,
        }
    }

    fn yields(&self) -> bool {
        match self {
            Chosen::Any(policy) => policy.yields(),
            Chosen::Chance(_) | Chosen::Newest => true,
        }
    }

    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        if let Chosen::Any(policy) = self {
            policy.arrived(request, now_ns);
        }
    }

    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, mut waiting: I, now_ns: u64) -> Choice {
        let picked = match self {
            Chosen::Any(policy) => return policy.pick(waiting, now_ns),
            Chosen::Chance(state) => {
                *state =
                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let count = waiting.clone().count().max(1);
                waiting.nth((*state >> 33) as usize % count)
            }
            Chosen::Newest => waiting.last(),
        };
        picked.map_or(Choice::IdleUntil(now_ns), |request| Choice::Go(request.index))
    }

    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        if let Chosen::Any(policy) = self {
            policy.sent(request, now_ns);
        }
    }

    fn cancelled(&mut self, request: &Waiting) {
        if let Chosen::Any(policy) = self {
            policy.cancelled(request);
        }
    }

    fn done(&mut self, request: &Waiting, now_ns: u64) {
        if let Chosen::Any(policy) = self {
            policy.done(request, now_ns);
        }
    }
}
