//! Makes a failing case short: fewer operations, cuts and faults, and a plainer machine, as long as
//! the same kind of promise is broken.

use super::case::{Case, Luck, Operation, Setup, areas};
use super::run::{Bench, run};
use mmcq::sched::Origin;
use mmcq_sim::checker::Fault;

/// Largest number of runs that shortening a case may take.
const RUNS_MAX: u32 = 3_000;

struct Shrink<'b> {
    bench: &'b mut Bench,
    fault: Fault,
    runs: u32,
    best: Case,
}

/// Returns the shortest case found in which the stack breaks the same guarantee about data. `None`:
/// the stack breaks no guarantee in `case`.
pub fn shrink(case: &Case, bench: &mut Bench) -> Option<Case> {
    let outcome = run(case, bench, None);
    let fault = outcome.violation?.fault;
    let mut shrink = Shrink { bench, fault, runs: 0, best: case.clone() };
    // Random faults become a list of single faults, so that faults do not change when others are
    // removed.
    shrink.try_case(Case { luck: Luck::Shots(outcome.struck), ..case.clone() });
    loop {
        let before = shrink.best.clone();
        shrink.list(|case| &mut case.cuts);
        if let Luck::Shots(_) = shrink.best.luck {
            shrink.list(|case| match &mut case.luck {
                Luck::Shots(shots) => shots,
                _ => unreachable!("it was a list a moment ago"),
            });
        }
        shrink.list(|case| &mut case.operations);
        shrink.list(|case| &mut case.acts);
        shrink.earlier_cuts();
        shrink.plainer();
        if shrink.best == before || shrink.runs >= RUNS_MAX {
            return Some(shrink.best);
        }
    }
}

impl Shrink<'_> {
    fn try_case(&mut self, case: Case) -> bool {
        if self.runs >= RUNS_MAX || case == self.best {
            return false;
        }
        self.runs += 1;
        let fails = run(&case, self.bench, None).violation.is_some_and(|v| v.fault == self.fault);
        if fails {
            self.best = case;
        }
        fails
    }

    /// Removes parts of a list of the case, large parts first (delta debugging), and keeps each
    /// removal with which the case still fails.
    fn list<T: Clone>(&mut self, of: impl Fn(&mut Case) -> &mut Vec<T>) {
        let mut piece = of(&mut self.best).len();
        while piece > 0 {
            let mut at = 0;
            while at < of(&mut self.best).len() {
                let mut shorter = self.best.clone();
                let list = of(&mut shorter);
                list.drain(at..(at + piece).min(list.len()));
                if !self.try_case(shorter) {
                    at += piece;
                }
            }
            piece /= 2;
        }
    }

    fn earlier_cuts(&mut self) {
        for index in 0..self.best.cuts.len() {
            let mut step = self.best.cuts.get(index).map_or(0, |cut| cut.at / 2);
            while step > 0 {
                let mut earlier = self.best.clone();
                if let Some(cut) = earlier.cuts.get_mut(index) {
                    cut.at = cut.at.saturating_sub(step).max(1);
                }
                if !self.try_case(earlier) {
                    step /= 2;
                }
            }
        }
    }

    /// Makes the case simpler. Replaces its settings one after the other by those of
    /// [`Setup::PLAIN`], and shortens requests to one block.
    fn plainer(&mut self) {
        let plain = Setup::PLAIN;
        type Change = fn(&mut Setup, &Setup);
        let changes: [Change; 28] = [
            |s, _| s.depth = 1,
            |s, p| s.transfer = p.transfer,
            |s, p| s.busy = p.busy,
            |s, p| s.old_host = p.old_host,
            |s, p| (s.auto_stop, s.auto_count, s.count) = (p.auto_stop, p.auto_count, p.count),
            |s, p| s.defer = p.defer,
            |s, p| s.early = p.early,
            |s, p| s.merge = p.merge,
            |s, p| s.scheduler = p.scheduler,
            |s, p| s.place = p.place,
            |s, p| s.start_ns = p.start_ns,
            |s, p| (s.access_ns, s.near_boundary) = (p.access_ns, p.near_boundary),
            |s, p| s.armed_early = p.armed_early,
            |s, p| s.tasks = p.tasks,
            |s, p| s.ones = p.ones,
            |s, p| s.discarded = p.discarded,
            |s, p| s.secure = p.secure,
            |s, p| s.unused = p.unused,
            |s, p| s.bounce = p.bounce,
            |s, p| s.exception_alone = p.exception_alone,
            |s, p| s.meddles = p.meddles,
            |s, p| s.most_blocks = p.most_blocks,
            |s, p| s.reliable_unit = p.reliable_unit,
            |s, p| s.singly = p.singly,
            |s, p| s.tuned = p.tuned,
            |s, p| s.lean = p.lean,
            |s, p| s.host = p.host,
            |s, p| s.card = p.card,
        ];
        for change in changes {
            let mut plainer = self.best.clone();
            change(&mut plainer.setup, &plain);
            // The card may not have the partitions that requests use.
            if plainer.areas().iter().all(|area| areas(plainer.setup.card).contains(area)) {
                self.try_case(plainer);
            }
        }
        for index in 0..self.best.operations.len() {
            for change in [
                |o: &mut Operation| o.area = 0,
                |o: &mut Operation| o.blocks = o.blocks.min(1),
                |o: &mut Operation| o.dropped_after = 0,
                |o: &mut Operation| o.origin = Origin::DEFAULT,
            ] {
                let mut smaller = self.best.clone();
                if let Some(operation) = smaller.operations.get_mut(index) {
                    change(operation);
                }
                self.try_case(smaller);
            }
        }
    }
}
