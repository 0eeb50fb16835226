//! Runs every plan with up to a given number of faults, each plan one time.

use crate::choice::{Bad, Plan};
use crate::run::{Room, Start, run};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A violation that was found, with its plan and its faults.
pub struct Found {
    pub plan: Plan,
    pub bad: Vec<Bad>,
    pub times: u64,
}

#[derive(Default)]
pub struct Report {
    pub runs: u64,
    pub steps: u64,
    pub states: std::collections::HashSet<u64>,
    pub found: BTreeMap<&'static str, Found>,
}

impl Report {
    fn note(&mut self, plan: &[(u32, u8)], violations: &[&'static str], bad: &[(u64, Bad)]) {
        for &what in violations {
            let bad: Vec<Bad> = bad.iter().map(|&(_, bad)| bad).collect();
            let found = self.found.entry(what).or_insert_with(|| Found {
                plan: plan.to_vec(),
                bad: bad.clone(),
                times: 0,
            });
            found.times += 1;
            if bad.len() < found.bad.len() {
                (found.plan, found.bad) = (plan.to_vec(), bad);
            }
        }
    }

    fn merge(&mut self, other: Report) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.states.extend(other.states);
        for (what, found) in other.found {
            match self.found.get_mut(what) {
                Some(mine) => {
                    mine.times += found.times;
                    if (found.bad.len(), &found.plan) < (mine.bad.len(), &mine.plan) {
                        (mine.plan, mine.bad) = (found.plan, found.bad);
                    }
                }
                None => drop(self.found.insert(what, found)),
            }
        }
    }
}

struct Worker<'a> {
    start: &'a Start,
    room: Room,
    report: Report,
    plan: Plan,
}

impl Worker<'_> {
    /// Runs the present plan, and every plan that continues it with up to `left` more faults.
    fn explore(&mut self, left: usize) {
        let Some(points) = self.one() else { return };
        if left == 0 {
            return;
        }
        let first = self.plan.last().map_or(0, |&(point, _)| point as usize + 1);
        for (point, &count) in points.iter().enumerate().skip(first) {
            for alternative in 0..count {
                self.plan.push((point as u32, alternative));
                self.explore(left - 1);
                self.plan.pop();
            }
        }
    }

    /// Runs the present plan. Returns its choice points; `None` if the run violated a rule.
    fn one(&mut self) -> Option<Vec<u8>> {
        self.report.runs += 1;
        let Worker { start, room, plan, report, .. } = self;
        match catch_unwind(AssertUnwindSafe(|| run(start, room, plan, false))) {
            Ok(outcome) => {
                report.note(plan, &outcome.violations, &outcome.bad);
                outcome.violations.is_empty().then_some(outcome.points)
            }
            Err(_) => {
                report.note(plan, &["a panic"], &[]);
                None
            }
        }
    }
}

/// Runs all plans with up to `depth` faults, by `threads` threads.
pub fn explore(start: &Start, depth: usize, threads: usize) -> Report {
    let mut room = Room::new();
    let points = run(start, &mut room, &[], false);
    assert_eq!(points.violations, [""; 0], "with all well");
    let mut first: Vec<(u32, u8)> = Vec::new();
    for (point, &count) in points.points.iter().enumerate() {
        first.extend((0..count).map(|alternative| (point as u32, alternative)));
    }
    let total = Mutex::new(Report { runs: 1, ..Report::default() });
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (room, report) = (Room::new(), Report::default());
                let mut worker = Worker { start, room, report, plan: Vec::new() };
                while let Some(&deviation) = first.get(next.fetch_add(1, Relaxed)) {
                    if depth > 0 {
                        worker.plan.push(deviation);
                        worker.explore(depth - 1);
                        worker.plan.pop();
                    }
                }
                worker.report.steps = worker.room.steps;
                worker.report.states = std::mem::take(&mut worker.room.states);
                total.lock().unwrap().merge(worker.report);
            });
        }
    });
    total.into_inner().unwrap()
}
