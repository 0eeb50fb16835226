//! Faults where they hurt: each kind at each event of each workload, a second one at each event of the recovery that the first began, and faults
//! that stay.

use super::case::{Case, Luck};
use super::run::{Bench, Outcome, POINTS, run};
use super::score::Score;
use super::spread::spread;
use super::workloads::{NAMES, workload};
use mmcq_sim::checker::{Fault, Violation};
use mmcq_sim::faults::catalogue::{self, Injection, Means};
use mmcq_sim::faults::{Point, Shot, Strike};

/// Longest time from the fault to the last answer that a stack may take, whatever stays broken: the budget of all rungs, and the card's own times.
const LIVE_NS: u64 = 200_000_000_000;
/// Events that are struck in one workload by one kind at most.
const ORDINALS_MAX: u64 = 2_000;

/// The kinds that a single strike brings about, with their names in the catalogue.
pub fn kinds() -> Vec<(&'static str, Point, Strike)> {
    let one = |injection: &'static Injection| match injection.means {
        Means::Once(point, strike) => Some((injection.name, point, strike)),
        _ => None,
    };
    catalogue::entries().flat_map(|entry| entry.injections).filter_map(one).collect()
}

/// Faults that the contract does not cover: the medium lies, and no stack can know. Nothing may hang or panic; the data are the medium's affair.
pub fn beyond_contract(strike: Strike, point: Point) -> bool {
    matches!(strike, Strike::Flip(_) | Strike::Astray(_)) || (point, strike) == (Point::Medium, Strike::Lost)
}

/// What a beyond-contract fault may break is not the stack's fault.
fn excused(case: &Case, mut outcome: Outcome) -> Outcome {
    let beyond = match &case.luck {
        Luck::Shots(shots) => shots.iter().any(|shot| beyond_contract(shot.strike, shot.point)),
        Luck::Always(shot) => beyond_contract(shot.strike, shot.point),
        Luck::Good | Luck::Chances(..) => false,
    };
    let hang = outcome.violation.as_ref().is_some_and(|violation| violation.fault == Fault::Hang);
    if beyond && !hang {
        outcome.violation = None;
    }
    outcome
}

fn index_of(point: Point) -> usize {
    POINTS.iter().position(|known| *known == point).unwrap_or(0)
}

/// First event of the point that counts in this workload: those of a bring-up are struck in the first workload only.
fn first(clean: &Outcome, case: &Case, point: Point) -> u64 {
    if case.setup.armed_early { 1 } else { clean.before.1[index_of(point)] + 1 }
}

/// Strikes once, and adds what came of it. `None`: there is no such event any more.
fn strike(case: &Case, clean: &Outcome, name: &str, bench: &mut Bench, score: &mut Score) -> Option<Outcome> {
    let outcome = excused(case, run(case, bench, None));
    if outcome.struck.is_empty() {
        return None;
    }
    score.add(case, &outcome);
    score.recovered(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
    Some(outcome)
}

/// Single faults: each kind, at the first event, the second and so on, until a run comes to its end without it.
pub fn sweep(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds = kinds();
    spread(jobs, &|index, bench, score| {
        let Some(&(name, point, kind)) = kinds.get(index as usize / NAMES.len()) else { return false };
        let whole = workload(index as usize % NAMES.len());
        let clean = run(&whole, bench, None);
        let from = first(&clean, &whole, point);
        for nth in from..from + ORDINALS_MAX {
            let luck = Luck::Shots(vec![Shot { point, nth, strike: kind }]);
            let case = Case { luck, ..whole.clone() };
            match strike(&case, &clean, name, bench, score) {
                Some(outcome) if outcome.violation.is_none() => {}
                _ => break,
            }
        }
        progress(1);
        true
    })
}

/// Second faults that are tried in the middle of recovery.
const SECONDS: [(Point, Strike); 12] = [
    (Point::Command, Strike::Lost),
    (Point::Response, Strike::Crc),
    (Point::Response, Strike::Lost),
    (Point::Response, Strike::Status(1 << 19)),
    (Point::ReadBlock, Strike::Crc),
    (Point::WriteBlock, Strike::Crc),
    (Point::Interrupt, Strike::Lost),
    (Point::Interrupt, Strike::Spurious(1)),
    (Point::Dma, Strike::Fail),
    (Point::Reset, Strike::Late(1_000_000)),
    (Point::Reset, Strike::Never),
    (Point::Busy, Strike::Late(50_000_000)),
];

/// First faults in the middle of each workload, and second ones at every event after it.
pub fn double(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds = kinds();
    spread(jobs, &|index, bench, score| {
        let Some(&(name, point, kind)) = kinds.get(index as usize / NAMES.len()) else { return false };
        let whole = workload(index as usize % NAMES.len());
        let clean = run(&whole, bench, None);
        let from = first(&clean, &whole, point);
        let events = clean.points[index_of(point)].saturating_sub(from) + 1;
        let shot = Shot { point, nth: from + events / 2, strike: kind };
        let once = run(&Case { luck: Luck::Shots(vec![shot]), ..whole.clone() }, bench, None);
        if once.struck.is_empty() || whole.setup.armed_early {
            progress(1);
            return true;
        }
        for (point, second) in SECONDS {
            // Before the first fault nothing is new; events are counted from there as far as they can be.
            let from = match point == shot.point {
                true => shot.nth + 1,
                false => clean.before.1[index_of(point)] + 1,
            };
            for nth in from..from + ORDINALS_MAX {
                let shots = vec![shot, Shot { point, nth, strike: second }];
                let case = Case { luck: Luck::Shots(shots), ..whole.clone() };
                let outcome = excused(&case, run(&case, bench, None));
                if outcome.struck.len() < 2 {
                    break;
                }
                let violated = outcome.violation.is_some();
                score.add(&case, &outcome);
                score.recovered(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
                if violated {
                    break;
                }
            }
        }
        progress(1);
        true
    })
}

/// Places in a workload from which a fault stays.
const STAYS_FROM: [u64; 4] = [0, 1, 3, 9];

/// Faults that stay: every request has its answer in bounded time.
pub fn permanent(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds: Vec<_> = catalogue::entries()
        .flat_map(|entry| entry.injections)
        .filter_map(|injection| injection.aim().map(|(point, strike)| (injection.name, point, strike)))
        .collect();
    spread(jobs, &|index, bench, score| {
        let Some(&(name, point, kind)) = kinds.get(index as usize / NAMES.len()) else { return false };
        let mut whole = workload(index as usize % NAMES.len());
        whole.setup.armed_early = false;
        let clean = run(&whole, bench, None);
        let from = first(&clean, &whole, point);
        for offset in STAYS_FROM {
            let shot = Shot { point, nth: from + offset, strike: kind };
            let case = Case { luck: Luck::Always(shot), ..whole.clone() };
            let mut outcome = excused(&case, run(&case, bench, None));
            if outcome.struck.is_empty() {
                break;
            }
            if outcome.violation.is_none() && outcome.work_ns > LIVE_NS {
                let text =
                    format!("{name} from event {}: {} ns until all were answered", shot.nth, outcome.work_ns);
                outcome.violation = Some(Violation::new(Fault::Hang, text));
            }
            score.add(&case, &outcome);
            score.recovered(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
        }
        progress(1);
        true
    })
}
