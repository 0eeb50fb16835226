//! Executes every program (short sequence of requests), cuts the power at every event, and tries
//! every result that the cut can have.

use super::case::{BusyBy, Case, Cut, Luck, Operation, Setup};
use super::machine::Keeps;
use super::run::{CARDS, run};
use super::score::Score;
use super::spread::spread;
use mmcq_sim::checker::Asked;

/// Requests of which programs consist: write of sector 0, of sector 1, of both, durable write of
/// sector 0, flush, read of sector 0.
const ALPHABET: [(Asked, u32, u32); 6] = [
    (Asked::Write { durable: false }, 0, 1),
    (Asked::Write { durable: false }, 1, 1),
    (Asked::Write { durable: false }, 0, 2),
    (Asked::Write { durable: true }, 0, 1),
    (Asked::Flush, 0, 0),
    (Asked::Read, 0, 1),
];

/// Returns the machines that execute the sequences of operations. All have an eMMC with its cache
/// on: one takes one request at a time, one takes four, and one polls the card's status for the end
/// of busy.
fn setups() -> [Setup; 3] {
    let card = CARDS.iter().position(|card| *card == "emmc-hs200").unwrap_or(0);
    let plain = Setup { card, window: 2, ..Setup::PLAIN };
    [
        Setup { depth: 1, ..plain },
        Setup { depth: 4, ..plain },
        Setup { depth: 2, busy: BusyBy::Status, ..plain },
    ]
}

/// Returns the number of different sequences of 1 to `length` operations that the campaign
/// executes.
#[must_use]
pub fn programs(length: u32) -> u64 {
    (1..=length).map(|n| (ALPHABET.len() as u64).pow(n)).sum()
}

/// Returns the sequence of operations with this index. All sequences of one operation come first,
/// then those of two, and so on.
#[must_use]
pub fn program(mut index: u64) -> Vec<Operation> {
    let letters = ALPHABET.len() as u64;
    let mut length = 1;
    while index >= letters.pow(length) {
        index -= letters.pow(length);
        length += 1;
    }
    let mut operations = Vec::new();
    for _ in 0..length {
        let (asked, at, blocks) = ALPHABET[(index % letters) as usize];
        operations.push(Operation::plain(asked, at, blocks));
        index /= letters;
    }
    operations
}

/// Tries all programs of up to `length` operations, each with a power cut at each event of its run.
/// Calls `progress` after each program.
///
/// Two kinds of power cuts are left out, since they can show nothing new:
///
/// - A cut at an event, if the event before it has the same answers and requests, and the same
///   sectors could be lost.
/// - A cut before the last request is submitted, since the machine has then executed only a shorter
///   program.
pub fn exhaustive(length: u32, jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let (setups, count) = (setups(), programs(length));
    spread(jobs, &|index, bench, score| {
        let machines = setups.len() as u64;
        if index >= count * machines {
            return false;
        }
        let whole = Case {
            seed: 1,
            setup: setups[(index % machines) as usize],
            operations: program(index / machines),
            cuts: Vec::new(),
            luck: Luck::Good,
            one_life: true,
            dry: true,
            visit: None,
            acts: Vec::new(),
        };
        let outcome = run(&whole, bench, None);
        score.add(&whole, &outcome);
        if outcome.violation.is_some() {
            return true;
        }
        let began = outcome.before.0.max(outcome.all_asked);
        score.left_out("cuts that would find what the one before found", outcome.same_stakes);
        let early = outcome.stakes.iter().filter(|(event, _)| (outcome.before.0 + 1..=began).contains(event));
        score.left_out("cuts before the last request: those of the shorter program", early.count() as u64);
        for &(event, choices) in outcome.stakes.iter().filter(|(event, _)| *event > began) {
            for choice in 0..choices {
                let cuts = vec![Cut { at: event, keeps: Keeps::Choice(choice) }];
                let case = Case { cuts, dry: false, ..whole.clone() };
                let outcome = run(&case, bench, None);
                score.add(&case, &outcome);
                if outcome.violation.is_some() {
                    return true;
                }
            }
        }
        progress(1);
        true
    })
}
