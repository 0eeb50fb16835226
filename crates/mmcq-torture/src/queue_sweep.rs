//! Sweeps of the faults of a card's queue. First each kind of fault strikes at each event of each
//! workload with a queue. Then the same is done in runs in which one block cannot be programmed or
//! read.

use super::case::{Case, Luck, Operation, Setup};
use super::run::{Bench, EVERY_CARD, Outcome, run};
use super::score::Score;
use super::spread::spread;
use super::sweep::{beyond_contract, excused, first, judge_whole};
use mmcq::engine::RecoveryStep;
use mmcq_sim::card::TaskOrder;
use mmcq_sim::checker::{Asked, Fault, Violation};
use mmcq_sim::faults::catalogue::{self, Injection, Means};
use mmcq_sim::faults::{Point, Shot, Strike};

/// Machines of the sweep: name of the card, whether its cache is on, which command queue engine
/// drives the queue, and the order of its tasks.
const MACHINES: [(&str, bool, u8, Option<TaskOrder>); 11] = [
    ("emmc-queue", true, 0, None),
    ("emmc-queue-one", false, 0, None),
    ("emmc-queue-slow", false, 1, Some(TaskOrder::NewestFirst)),
    ("emmc-queue", true, 2, None),
    ("emmc-queue-one", false, 2, None),
    ("emmc-queue-fast", false, 3, Some(TaskOrder::ReadsFirst)),
    ("emmc-queue-fast", false, 0, Some(TaskOrder::NewestFirst)),
    ("sdxc-64g-a2", true, 0, None),
    ("sdxc-64g-a2", false, 0, None),
    ("emmc-packed", true, 0, None),
    ("emmc-packed", false, 0, None),
];

/// Number of workloads of this sweep: the same requests on each of the machines.
pub const WORKLOADS: u64 = MACHINES.len() as u64;

const READ: Asked = Asked::Read;
const WRITE: Asked = Asked::Write { durable: false };
const DURABLE: Asked = Asked::Write { durable: true };
const FLUSH: Asked = Asked::Flush;

/// Requests of each workload. Some overlap and some do not. There are enough reads to switch a
/// command queue on, enough writes for a packed command, and between them requests that no queue
/// takes.
const WORK: [(Asked, u32, u32); 24] = [
    (WRITE, 0, 3),
    (READ, 20, 1),
    (READ, 8, 2),
    (READ, 24, 1),
    (WRITE, 2, 3),
    (READ, 0, 2),
    (WRITE, 9, 1),
    (READ, 30, 1),
    (DURABLE, 12, 1),
    (READ, 3, 3),
    (WRITE, 20, 1),
    (READ, 28, 1),
    (FLUSH, 0, 0),
    (READ, 20, 2),
    (READ, 5, 1),
    (WRITE, 20, 2),
    (READ, 21, 1),
    (WRITE, 14, 1),
    (WRITE, 17, 1),
    (WRITE, 26, 1),
    (WRITE, 17, 1),
    (READ, 14, 1),
    (FLUSH, 0, 0),
    (READ, 17, 1),
];

/// Returns workload number `index`, without faults.
#[must_use]
pub fn workload(index: usize) -> Case {
    let (name, cache, engine, tasks) = MACHINES[index % MACHINES.len()];
    let card = EVERY_CARD.iter().position(|card| *card == name).unwrap_or(0);
    let setup = Setup { card, cache, engine, tasks, queue: true, depth: 16, window: 32, ..Setup::PLAIN };
    Case {
        // The seed decides how the queue of an SD card is used.
        seed: index as u64,
        setup,
        operations: WORK.iter().map(|&(asked, at, blocks)| Operation::plain(asked, at, blocks)).collect(),
        cuts: Vec::new(),
        luck: Luck::Good,
        one_life: true,
        dry: false,
        visit: None,
        acts: Vec::new(),
    }
}

/// Returns whether no stack can notice this fault: wrong data without an error, or a completion
/// before the data.
fn beyond(point: Point, strike: Strike) -> bool {
    beyond_contract(strike, point) && point != Point::Pack || strike == Strike::Early
}

/// Returns whether this fault may make the stack stop using the card's command queue, but must not
/// fail a request. `point`: the kind of event that the fault strikes; `strike`: what goes wrong.
fn passes(point: Point, strike: Strike) -> bool {
    point.is_of_queue() && (point, strike) != (Point::Halt, Strike::Never)
}

/// Returns the faults that consist of one failure at one event, with their names in the catalogue.
/// Faults of an SPI bus, and faults that no stack can notice, are left out.
#[must_use]
pub fn kinds() -> Vec<(&'static str, Point, Strike)> {
    let one = |injection: &'static Injection| match injection.means {
        Means::Once(point, strike) if !point.is_of_spi() && !beyond(point, strike) => {
            Some((injection.name, point, strike))
        }
        _ => None,
    };
    catalogue::entries().flat_map(|entry| entry.injections).filter_map(one).collect()
}

/// Executes a case again and again, each time with one fault in addition to those in `before`. From
/// run to run, this fault strikes the next event of its [`Point`] (kind of event). Ends when a run
/// has no such event any more, or when the stack has broken a promise (a guarantee about data).
fn each(
    whole: &Case,
    before: &[Shot],
    (name, point, strike): (&'static str, Point, Strike),
    clean: &Outcome,
    (bench, score): (&mut Bench, &mut Score),
) {
    for nth in first(clean, whole, point).. {
        let mut shots = before.to_vec();
        shots.push(Shot { point, nth, strike });
        let case = Case { luck: Luck::Shots(shots), ..whole.clone() };
        let mut outcome = excused(&case, run(&case, bench, None));
        let alone = before.is_empty() && outcome.violation.is_none() && passes(point, strike);
        if alone && (outcome.errors > 0 || outcome.steps.0[RecoveryStep::Reinit as usize] > 0) {
            let text = "a request failed, or the card began anew, by what the queue is left for";
            outcome.violation = Some(Violation::new(Fault::Untrue, text));
        }
        if outcome.struck.len() <= before.len() {
            return;
        }
        score.add(&case, &outcome);
        judge_whole(&case, name, &outcome, score);
        if outcome.violation.is_some() {
            return;
        }
    }
}

/// Runs each workload again and again with one fault in each run: each fault of [`kinds`] whose
/// [`Point`] (kind of event that it strikes) `wanted` accepts, at each event of that kind.
pub fn singles(
    wanted: &(dyn Fn(Point) -> bool + Sync),
    jobs: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Score {
    let kinds: Vec<_> = kinds().into_iter().filter(|&(_, point, _)| wanted(point)).collect();
    spread(jobs, &|index, bench, score| {
        let Some(&kind) = kinds.get((index / WORKLOADS) as usize) else { return false };
        let whole = workload((index % WORKLOADS) as usize);
        let clean = run(&whole, bench, None);
        each(&whole, &[], kind, &clean, (bench, score));
        progress(1);
        true
    })
}

/// Sweeps pairs of faults. The first fault: one block cannot be programmed or read. The second
/// fault strikes at each later event in turn, one run for each event.
pub fn doubles(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds = kinds();
    spread(jobs, &|index, bench, score| {
        let Some(&kind) = kinds.get((index / WORKLOADS) as usize) else { return false };
        let whole = workload((index % WORKLOADS) as usize);
        let clean = run(&whole, bench, None);
        let point = Point::Medium;
        for nth in first(&clean, &whole, point).. {
            let bad = [Shot { point, nth, strike: Strike::Fail }];
            let failing = Case { luck: Luck::Shots(bad.to_vec()), ..whole.clone() };
            if run(&failing, bench, None).struck.is_empty() {
                break;
            }
            each(&whole, &bad, kind, &clean, (bench, score));
        }
        progress(1);
        true
    })
}
