//! How a program uses its stack in a random case, beside its requests: several clients with numbers,
//! schedulers that pick any request, limits and times of the engine, requests that are taken back,
//! pauses of the whole stack, and a clock that jumps.
//!
//! All of this comes from a random stream of its own: the rest of a case does not depend on it.

use super::case::{Case, Host, Luck, Visit};
use super::machine::Keeps;
use mmcq::engine::{Config, StaysOpen};
use mmcq::sched::Origin;
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::Strike;
use mmcq_sim::world::Stream;

/// Share of the cases with each of: several clients; a scheduler that picks any request; another
/// configuration of the engine; requests that are taken back or cancelled; pauses of the stack.
const SHARES: [f64; 5] = [0.5, 0.3, 0.4, 0.3, 0.3];
/// Share of the cases in which the program uses none of the features of this module ([`SHARES`]
/// lists them).
const PLAIN: f64 = 0.4;
/// Probability that a case on an SDHCI uses the small stack, which is built without recovery, cache
/// and durable writes.
const LEAN: f64 = 0.15;
/// Identifiers of clients. A case with several clients draws how many of the first ones in this
/// list it has.
const CLIENTS: [u8; 6] = [1, 0, 2, 7, 200, 255];
/// Choices for the longest time, in nanoseconds, for which the program suspends or halts the stack;
/// each case draws one.
const PAUSE_NS: [u64; 3] = [50_000, 5_000_000, 400_000_000];
const JUMP_NS: [u64; 4] = [1_000_000, 300_000_000, 5_000_000_000, 100_000_000_000];

/// How a client gives up a request before its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GivesUp {
    /// The client drops the future, or abandons the slot.
    #[default]
    Drops,
    /// The client takes the request back. If it has begun, the client waits for its answer.
    TakesBack,
    /// The client cancels the request, and gets its memory back at once unless the
    /// controller uses it.
    Cancels,
}

/// Limits and times that the program sets in the engine's configuration ([`Config`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Value of [`Config::admitted`].
    pub admitted: u8,
    /// Value of [`Config::prepared`].
    pub prepared: u8,
    /// Value of [`Config::fair_blocks`].
    pub fair_blocks: u32,
    /// Value of [`Config::settle_blocks`].
    pub settle_blocks: u32,
    /// Value of [`Config::stays_open`].
    pub stays_open: StaysOpen,
    /// Value of [`Config::hold_ns`].
    pub hold_ns: u64,
    /// Value of [`Config::owed_ns`].
    pub owed_ns: u64,
    /// Value of [`Config::tail_ns`].
    pub tail_ns: u32,
    /// Value of [`Config::erase_budget_ns`].
    pub erase_budget_ns: u64,
}

impl Tuned {
    fn draw(random: &mut Stream) -> Tuned {
        let mut of = |values: [u64; 4]| values[random.below(4) as usize];
        let stays = of([0, 0, 1, 2]) as usize;
        Tuned {
            admitted: of([255, 1, 2, 9]) as u8,
            prepared: of([255, 0, 1, 4]) as u8,
            fair_blocks: of([1024, 0, 8, 64]) as u32,
            settle_blocks: of([128, 0, 1, 8]) as u32,
            stays_open: [StaysOpen::WherePays, StaysOpen::Always, StaysOpen::Never][stays],
            hold_ns: of([150_000_000, 0, 20_000, 3_000_000_000]),
            owed_ns: of([1_000_000_000, 0, 100_000, 20_000_000]),
            tail_ns: of([2_000_000, 0, 50_000, 1_000_000_000]) as u32,
            erase_budget_ns: of([250_000_000, 1, 1_000_000, 60_000_000_000]),
        }
    }

    /// Applies these values to the engine's configuration.
    #[must_use]
    pub fn applied(&self, config: Config) -> Config {
        config
            .admitted(self.admitted)
            .prepared(self.prepared)
            .fair_blocks(self.fair_blocks)
            .settle_blocks(self.settle_blocks)
            .stays_open(self.stays_open)
            .hold_ns(self.hold_ns)
            .owed_ns(self.owed_ns)
            .tail_ns(self.tail_ns)
            .erase_budget_ns(self.erase_budget_ns)
    }
}

/// What a program does with its stack at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Suspends the stack, and resumes it after this time in ns: requests are refused meanwhile.
    Suspend(u64),
    /// Halts the stack, and resumes it after this time in ns: requests wait meanwhile.
    Halt(u64),
    /// Makes the engine stop the transfer in progress and begin it again.
    Abort,
    /// Makes the stack's clock jump forward by this time in ns.
    Jump(u64),
}

impl Act {
    /// Returns whether the engine may mistake this act of the program for a fault.
    #[must_use]
    pub fn disturbs(self) -> bool {
        matches!(self, Act::Abort | Act::Jump(_))
    }
}

/// Adds how the program uses the stack to a drawn case.
#[must_use]
pub fn with(mut case: Case) -> Case {
    let random = &mut Stream::new(case.seed, "usage");
    if random.chance(PLAIN) {
        return case;
    }
    let [clients, picks, tuned, back, acts] = SHARES.map(|share| random.chance(share));
    if clients {
        number(&mut case, random);
    }
    if picks && case.setup.host == Host::Sdhci && !case.setup.bounce {
        case.setup.scheduler = 3 + random.below(3) as u8;
    }
    if tuned {
        case.setup.tuned = Some(Tuned::draw(random));
    }
    if back {
        take_back(&mut case, random);
    }
    if acts {
        act(&mut case, random);
    }
    if random.chance(LEAN) {
        shrink(&mut case);
    }
    let other = &mut Stream::new(case.seed, "swaps");
    swap(&mut case, other);
    case
}

/// If the case replaces the card, draws details: whether the first card comes back later, and
/// whether the other card has another size.
fn swap(case: &mut Case, random: &mut Stream) {
    let back = if random.chance(0.6) { 1 + random.below(400) as u16 } else { 0 };
    // A card of another size may lack the partitions that requests use.
    let other = random.chance(0.5) && case.areas().is_empty();
    if let Some((_, visit @ Visit::Swap)) = &mut case.visit {
        *visit = Visit::Swaps { back, other };
    }
}

/// Gives the case the small stack, which does not recover: no cache, no durable writes, no supervisor,
/// and no fault that needs one.
fn shrink(case: &mut Case) {
    let setup = &mut case.setup;
    if setup.host != Host::Sdhci || setup.queue || setup.chains || setup.bounce || setup.singly {
        return;
    }
    (setup.lean, setup.cache, setup.supervisor, setup.early, case.visit) = (true, false, false, false, None);
    for operation in &mut case.operations {
        if matches!(operation.asked, Asked::Write { .. }) {
            operation.asked = Asked::Write { durable: false };
        }
    }
    if let Luck::Chances(_, chances) = &mut case.luck {
        chances.retain(|(_, strike, _)| *strike != Strike::BrownOut);
    }
    // A read of an unreadable sector has no answer, and with it the report about the write before it is
    // missing.
    for cut in &mut case.cuts {
        if let Keeps::Luck(luck) = cut.keeps {
            cut.keeps = if luck & 1 == 0 { Keeps::Nothing } else { Keeps::Everything };
        }
    }
}

/// Gives the requests client numbers. Most requests are of a client that has asked before.
fn number(case: &mut Case, random: &mut Stream) {
    let count = 2 + random.below(CLIENTS.len() as u64 - 1);
    let stays = [0.0, 0.5, 0.9][random.below(3) as usize];
    let mut client = 0;
    for operation in &mut case.operations {
        if !random.chance(stays) {
            client = CLIENTS[random.below(count) as usize];
        }
        operation.origin = Origin { client, sync: random.chance(0.3) };
    }
}

/// Makes clients give up some of their requests.
fn take_back(case: &mut Case, random: &mut Stream) {
    let share = [0.02, 0.1, 0.4][random.below(3) as usize];
    for operation in &mut case.operations {
        if random.chance(share) {
            operation.by_slot = true;
            operation.dropped_after = 1 + random.below(30) as u16;
            operation.gives_up =
                [GivesUp::TakesBack, GivesUp::TakesBack, GivesUp::Cancels][random.below(3) as usize];
        }
    }
}

/// Makes the program suspend, halt or disturb the whole stack at some events of the case.
fn act(case: &mut Case, random: &mut Stream) {
    let events = 9 * case.operations.len() as u64;
    let pause_ns = PAUSE_NS[random.below(3) as usize];
    let jump_ns = JUMP_NS[random.below(4) as usize];
    let jumps = random.chance(0.3);
    for _ in 0..1 + random.below(12) {
        let ns = 1 + random.below(pause_ns);
        let act = match random.below(5) {
            0 | 1 => Act::Suspend(ns),
            2 => Act::Abort,
            3 if jumps => Act::Jump(1 + random.below(jump_ns)),
            _ => Act::Halt(ns),
        };
        case.acts.push((1 + random.below(events.max(1)), act));
    }
    case.acts.sort_by_key(|(event, _)| *event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Wishes;

    #[test]
    fn every_use_of_the_stack_is_drawn() {
        let wishes = Wishes { faults: 0.002, cuts: 1.0, operations: 60, cards: 5, card: None };
        let cases: Vec<Case> = (0..1_000).map(|seed| with(Case::draw(seed, &wishes))).collect();
        let count = |of: &dyn Fn(&Case) -> bool| cases.iter().filter(|case| of(case)).count();
        assert!(count(&|case| case.operations.iter().any(|o| o.origin.client > 0)) > 200);
        assert!(count(&|case| case.setup.scheduler > 2) > 100);
        assert!(count(&|case| case.setup.tuned.is_some()) > 150);
        assert!(count(&|case| case.operations.iter().any(|o| o.gives_up == GivesUp::TakesBack)) > 100);
        assert!(count(&|case| case.acts.iter().any(|(_, act)| matches!(act, Act::Jump(_)))) > 30);
        assert!(count(&|case| case.setup.lean) > 50);
        assert!(count(&|case| matches!(case.visit, Some((_, Visit::Swaps { .. })))) > 15);
        // The rest of a case does not depend on it.
        assert!(count(&|case| *case == Case::draw(case.seed, &wishes)) > 300);
    }
}
