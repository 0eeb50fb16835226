//! Sweeps of faults. First each kind of fault strikes at each event of each workload. Then a second
//! fault strikes at each event of the recovery from the first. Then lasting faults strike, each at
//! every event from a given one on.

use super::case::{Case, Luck};
use super::run::{Bench, Outcome, POINTS, run};
use super::score::Score;
use super::spread::spread;
use super::stopwatch::Class;
use super::workloads::{NAMES, workload};
use mmcq_sim::checker::{Fault, Violation};
use mmcq_sim::faults::catalogue::{self, Injection, Means};
use mmcq_sim::faults::{Point, Shot, Strike};

/// Longest time in ns from the first request to the last answer of a run with a lasting fault. A
/// run that takes longer counts as a hang. The limit allows for the budgets of all recovery steps,
/// and for the longest times that the card declares.
const LIVE_NS: u64 = 200_000_000_000;
/// Largest number of events at which one kind of fault strikes in one workload.
const ORDINALS_MAX: u64 = 2_000;

/// Returns the kinds of fault that strike once, with their names in the catalogue. Kinds of a
/// command queue or an SPI bus are left out, since no workload uses these.
pub fn kinds() -> Vec<(&'static str, Point, Strike)> {
    let one = |injection: &'static Injection| match injection.means {
        Means::Once(point, strike) if !point.is_of_queue() && !point.is_of_spi() => {
            Some((injection.name, point, strike))
        }
        _ => None,
    };
    catalogue::entries().flat_map(|entry| entry.injections).filter_map(one).collect()
}

/// Returns whether no stack can notice the fault: the medium returns or stores wrong data without
/// an error. After such a fault nothing may hang or panic, but wrong data are not a failure of the
/// stack.
pub fn beyond_contract(strike: Strike, point: Point) -> bool {
    matches!(strike, Strike::Flip(_) | Strike::Astray(_)) || (point, strike) == (Point::Medium, Strike::Lost)
}

/// Removes the report of a broken promise from an outcome, if the case plans a fault that no stack
/// can notice ([`beyond_contract`]). The report of a hang stays.
pub(super) fn excused(case: &Case, mut outcome: Outcome) -> Outcome {
    let beyond = match &case.luck {
        Luck::Shots(shots) => shots.iter().any(|shot| beyond_contract(shot.strike, shot.point)),
        Luck::Always(shot) | Luck::Brought(_, shot) => beyond_contract(shot.strike, shot.point),
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

/// Returns the number of the first event of this kind ([`Point`]) at which the sweep makes a fault
/// strike in the workload of `case`. This is the first event after the bring-up, unless the case
/// has its faults on during bring-up. `clean`: the outcome of the workload without faults.
pub fn first(clean: &Outcome, case: &Case, point: Point) -> u64 {
    if case.setup.armed_early { 1 } else { clean.before.1[index_of(point)] + 1 }
}

/// Executes `case`, which has one fault named `name`, and adds its outcome to the score; `clean` is
/// the outcome without the fault. Returns `None` if the workload has ended before the event at
/// which the fault was to strike.
fn strike(case: &Case, clean: &Outcome, name: &str, bench: &mut Bench, score: &mut Score) -> Option<Outcome> {
    let outcome = excused(case, run(case, bench, None));
    if outcome.struck.is_empty() {
        return None;
    }
    score.add(case, &outcome);
    score.recovered(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
    Some(outcome)
}

/// Compares the recovery times of a run with the single fault `name` with their budgets; `clean` is
/// the same run without the fault. Adds the result to `score`.
///
/// After three kinds of fault, only two times have a budget: the whole time of recovery
/// ([`Class::Whole`]), and the answers after the card was given up ([`Class::Dead`]). These faults
/// are:
///
/// - a busy that lasts;
/// - a medium that does not answer;
/// - a circuit of the controller that stays in use, which the driver notices only by a deadline.
fn judge_times(case: &Case, name: &str, outcome: &Outcome, clean: &Outcome, score: &mut Score) {
    let own = match &case.luck {
        Luck::Shots(shots) => shots
            .iter()
            .any(|shot| matches!(shot.point, Point::Busy | Point::Medium) || shot.strike == Strike::Stuck),
        _ => false,
    };
    for &(class, ns) in &outcome.times {
        let judged = !own || matches!(class, Class::Whole | Class::Dead);
        let budget_ns = class.budget_ns().saturating_add(outcome.allowance(class, clean.longest_ns));
        score.timed(case, class, name, ns, judged.then_some(budget_ns));
    }
}

/// Compares recovery times with their budgets in a case with several faults or a lasting fault.
///
/// - The time from a failure to the next answer must be within its budget.
/// - After the stack has given up the card, each request must be answered at once.
pub fn judge_whole(case: &Case, name: &str, outcome: &Outcome, score: &mut Score) {
    // A lost interrupt is noticed at the deadline of its phase; for a flush this adds the card's
    // own time once more.
    let lost = match &case.luck {
        Luck::Shots(shots) => {
            shots.iter().filter(|s| (s.point, s.strike) == (Point::Interrupt, Strike::Lost)).count()
        }
        _ => 0,
    } as u64;
    for &(class, ns) in outcome.times.iter().filter(|(class, _)| matches!(class, Class::Whole | Class::Dead))
    {
        let budget_ns = class.budget_ns().saturating_add(outcome.allowance(class, 0));
        let budget_ns =
            budget_ns.saturating_add(lost * if class == Class::Whole { outcome.card_ns } else { 0 });
        score.timed(case, class, name, ns, Some(budget_ns));
    }
}

/// Sweeps single faults: each kind of fault strikes at the first event of its [`Point`] (the kind
/// of event that it can strike), then in another run at the second, and so on. The sweep of a kind
/// ends when a run has no such event any more, when the stack has broken a promise (a guarantee
/// about data), or after `ORDINALS_MAX` events.
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
            let Some(outcome) = strike(&case, &clean, name, bench, score) else { break };
            judge_times(&case, name, &outcome, &clean, score);
            if outcome.violation.is_some() {
                break;
            }
        }
        progress(1);
        true
    })
}

/// Second faults, which strike during the recovery from the first.
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

/// Number of controller events that all runs with second faults after one first fault may have
/// together. If the recovery has so many events that this is not enough, only some events of each
/// stretch (the time between two recovery steps) are struck.
const EVENTS_MAX: u64 = 400_000;
/// Smallest limit for the number of events in a stretch (the time between two recovery steps) at
/// which a second fault strikes. The limit is not made smaller, even if all runs together then have
/// more controller events than [`EVENTS_MAX`].
const STRETCH_MIN: u64 = 12;

/// Returns which of the events `first` to `last` are struck, at most `limit`. These events are a
/// stretch of recovery (the time between two recovery steps). Half of the struck events are at its
/// beginning, a quarter at its end, and the others evenly between.
pub fn picked(first: u64, last: u64, limit: u64) -> Vec<u64> {
    let count = (last + 1).saturating_sub(first);
    if count <= limit {
        return (first..=last).collect();
    }
    let (head, tail) = (limit / 2, limit / 4);
    let (from, middle, between) = (first + head, count - head - tail, limit - head - tail);
    let mut picked: Vec<u64> = (first..from).collect();
    picked.extend((0..between).map(|n| from + n * middle / between));
    picked.extend(last + 1 - tail..=last);
    picked
}

/// Returns the second faults to try during the recovery from the fault `shot`, one after the other.
/// The [marks](Outcome::marks) divide the recovery into stretches. For each kind of fault, at most
/// `limit` events of each stretch are struck.
pub fn seconds(shot: Shot, marks: &[[u64; Point::COUNT]], limit: u64) -> Vec<Shot> {
    let mut seconds = Vec::new();
    for (point, strike) in SECONDS {
        let place = index_of(point);
        let mut first = marks.first().map_or(0, |mark| mark[place]) + 1;
        if point == shot.point {
            first = first.max(shot.nth + 1);
        }
        for mark in marks.iter().skip(1) {
            let ordinals = picked(first, mark[place], limit);
            seconds.extend(ordinals.into_iter().map(|nth| Shot { point, nth, strike }));
            first = first.max(mark[place] + 1);
        }
    }
    seconds
}

/// Number of places in each workload at which the first fault of [`double`] strikes.
pub const PLACES: u64 = 3;

/// Returns the numbers of the first, the middle and the last of the `events` events of one kind in
/// a workload; `from` is the number of the first.
fn places(from: u64, events: u64) -> Vec<u64> {
    let mut places = vec![from, from + events / 2, from + events.saturating_sub(1)];
    places.dedup();
    places
}

/// Runs each workload with two faults, for many pairs of places (a place is the number of the event
/// that a fault strikes), on `jobs` threads. The first fault strikes at the beginning, in the
/// middle or at the end of the workload. The second fault strikes after the first, at each event
/// until recovery ends, or at some of them if recovery is long. Calls `progress` with the number of
/// places of the first fault that are done; there are [`PLACES`] for each kind of fault and
/// workload.
pub fn double(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds = kinds();
    spread(jobs, &|index, bench, score| {
        let Some(&(name, point, kind)) = kinds.get(index as usize / NAMES.len()) else { return false };
        let whole = workload(index as usize % NAMES.len());
        let clean = run(&whole, bench, None);
        let from = first(&clean, &whole, point);
        let events = clean.points[index_of(point)].saturating_sub(from) + 1;
        // The campaign of bring-ups covers faults during bring-up.
        let places = if whole.setup.armed_early { Vec::new() } else { places(from, events) };
        let left = PLACES - places.len() as u64;
        for nth in places {
            second_faults(name, &whole, &clean, Shot { point, nth, strike: kind }, bench, score);
            progress(1);
        }
        progress(left);
        true
    })
}

fn second_faults(
    name: &str,
    whole: &Case,
    clean: &Outcome,
    shot: Shot,
    bench: &mut Bench,
    score: &mut Score,
) {
    let once = run(&Case { luck: Luck::Shots(vec![shot]), dry: true, ..whole.clone() }, bench, None);
    let all = seconds(shot, &once.marks, u64::MAX);
    let runs = (EVENTS_MAX / once.events.max(1)) as usize;
    // The limit for a stretch falls until all runs together fit into `EVENTS_MAX`, but not below
    // `STRETCH_MIN`.
    let limits = [u64::MAX, 256, 64, 32, STRETCH_MIN];
    let tried = limits.map(|limit| seconds(shot, &once.marks, limit));
    let fits = tried.iter().find(|tried| tried.len() <= runs).or(tried.last());
    let chosen = fits.map_or(&[][..], Vec::as_slice);
    score.left_out("second faults in the middle of long waits", (all.len() - chosen.len()) as u64);
    let mut broken = None;
    for &second in chosen {
        // A fault that broke a promise at one event would most likely break it at the next one too.
        if broken == Some((second.point, second.strike)) {
            score.left_out("second faults after one of their kind that broke a promise", 1);
            continue;
        }
        let case = Case { luck: Luck::Shots(vec![shot, second]), ..whole.clone() };
        let outcome = excused(&case, run(&case, bench, None));
        if outcome.struck.len() < 2 {
            score.left_out("second faults that did not come", 1);
            continue;
        }
        if outcome.violation.is_some() {
            broken = Some((second.point, second.strike));
        }
        score.add(&case, &outcome);
        score.recovered(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
        judge_whole(&case, name, &outcome, score);
    }
}

/// Events at which a lasting fault begins, one run for each. 0 is the first event of the kind that
/// the fault can strike, among those that the sweep strikes; 9 is nine events later.
const STAYS_FROM: [u64; 4] = [0, 1, 3, 9];

/// Executes each workload with each fault that lasts from a given event on. Checks that every
/// request is answered in bounded time nevertheless.
pub fn permanent(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Score {
    let kinds: Vec<_> = catalogue::entries()
        .flat_map(|entry| entry.injections)
        .filter_map(|injection| injection.aim().map(|(point, strike)| (injection.name, point, strike)))
        .filter(|(_, point, _)| !point.is_of_queue() && !point.is_of_spi())
        .collect();
    spread(jobs, &|index, bench, score| {
        let Some(&(name, point, kind)) = kinds.get(index as usize / NAMES.len()) else { return false };
        let mut whole = workload(index as usize % NAMES.len());
        whole.setup.armed_early = false;
        let clean = run(&whole, bench, None);
        let from = first(&clean, &whole, point);
        // A reset needs a fault before it, since nothing is reset in a run without errors.
        let nth = first(&clean, &whole, Point::Response);
        let cause = Shot { point: Point::Response, nth, strike: Strike::Lost };
        for offset in STAYS_FROM {
            let shot = Shot { point, nth: from + offset, strike: kind };
            let luck = if point == Point::Reset { Luck::Brought(cause, shot) } else { Luck::Always(shot) };
            let case = Case { luck, ..whole.clone() };
            let mut outcome = excused(&case, run(&case, bench, None));
            if !outcome.struck.iter().any(|struck| struck.point == point) {
                break;
            }
            if outcome.violation.is_none() && outcome.work_ns > LIVE_NS {
                let text =
                    format!("{name} from event {}: {} ns until all were answered", shot.nth, outcome.work_ns);
                outcome.violation = Some(Violation::new(Fault::Hang, text));
            }
            score.add(&case, &outcome);
            score.lasted(name, outcome.errors, outcome.work_ns.saturating_sub(clean.work_ns));
            judge_whole(&case, name, &outcome, score);
        }
        progress(1);
        true
    })
}
