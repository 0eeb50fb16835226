//! The counters of a torture campaign over all its cases: requests, power cuts, faults, failures,
//! and the times that recovery took.

use super::case::Case;
use super::describe;
use super::outcome::{Outcome, Steps};
use super::stopwatch::Class;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::{Fault, Violation};
use mmcq_sim::faults::{Point, Strike};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Largest number of failures whose texts are stored. Texts that differ only in numbers are stored
/// once ([`shape`]).
const FAILURES_MAX: usize = 8;
/// Number of broken promises at which a campaign stops.
const BROKEN_MAX: u64 = 64;

/// Returns the text of a violation without its digits, so that violations that differ only in
/// numbers have the same shape.
fn shape(violation: &Violation) -> String {
    violation.to_string().chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Everything that a campaign has counted.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Number of runs (executions of cases).
    pub runs: u64,
    /// Number of requests in all runs.
    pub requests: u64,
    /// Number of power cuts in all runs.
    pub cuts: u64,
    /// Number of requests that got an error.
    pub errors: u64,
    /// Number of futures that clients dropped.
    pub dropped: u64,
    /// Number of events of the controller models in all runs.
    pub events: u64,
    /// Total virtual time in ns.
    pub virtual_ns: u64,
    /// Longest time in ns from the submission of a request to its answer.
    pub longest_ns: u64,
    /// Description of the case in which this longest time occurred.
    pub longest_in: String,
    /// How many times the stack has taken each step of recovery.
    pub steps: Steps,
    /// Number of faults that struck, by the kind of event that they struck ([`Point`]) and by the
    /// kind of fault.
    pub struck: BTreeMap<(Point, String), u64>,
    /// Number of times that the stack has broken a guarantee about data, by kind.
    pub broken: [u64; Fault::COUNT],
    /// At most eight cases in which the stack broke a promise (a guarantee about data), each with a
    /// description. Of several descriptions that differ only in digits, one is stored.
    pub failures: Vec<(Case, Violation)>,
    /// Cost of recovery from each fault of the catalogue that struck once, alone or followed by a
    /// second fault, by name.
    pub recoveries: BTreeMap<String, Recovery>,
    /// Cost of each lasting fault of the catalogue, by name.
    pub lasting: BTreeMap<String, Recovery>,
    /// Times that recovery took, by class of the recovery.
    pub classes: BTreeMap<Class, Times>,
    /// Descriptions of the first recoveries that took longer than allowed.
    pub late: Vec<String>,
    /// Number of power cuts or faults that were not tried, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// How often recovery took place in one class (kind of recovery), and how long the longest one
/// took.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Number of recoveries of the class.
    pub count: u64,
    /// Longest time in ns of a recovery of the class.
    pub longest_ns: u64,
    /// Name of the fault before the longest recovery, as in the catalogue.
    pub after: String,
    /// Number of these recoveries that have a budget (a longest allowed time).
    pub judged: u64,
    /// Number of recoveries that took longer than their budget.
    pub over: u64,
    /// Time and budget in ns of the recovery that came nearest to its budget, or exceeded it most.
    pub nearest_ns: (u64, u64),
}

impl Times {
    fn merge(&mut self, other: Times) {
        self.count += other.count;
        self.judged += other.judged;
        self.over += other.over;
        let margin = |(ns, budget_ns): (u64, u64)| i128::from(budget_ns) - i128::from(ns);
        if self.nearest_ns == (0, 0)
            || other.nearest_ns != (0, 0) && margin(other.nearest_ns) < margin(self.nearest_ns)
        {
            self.nearest_ns = other.nearest_ns;
        }
        if (other.longest_ns, &other.after) > (self.longest_ns, &self.after) {
            (self.longest_ns, self.after) = (other.longest_ns, other.after);
        }
    }
}

/// Cost of a kind of fault: extra time, and requests that failed.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// For each run that the fault struck: the virtual time in ns that it took longer than the same
    /// run without the fault.
    pub times_ns: Vec<u64>,
    /// Number of requests that got an error in the runs that the fault struck.
    pub errors: u64,
}

impl Recovery {
    /// Returns the median and the longest of the extra times in ns that runs with this fault took.
    #[must_use]
    pub fn p50_p100_ns(&self) -> (u64, u64) {
        let mut times = self.times_ns.clone();
        times.sort_unstable();
        (times.get(times.len() / 2).copied().unwrap_or(0), times.last().copied().unwrap_or(0))
    }
}

fn add(recoveries: &mut BTreeMap<String, Recovery>, name: &str, errors: u64, ns: u64) {
    if !recoveries.contains_key(name) {
        recoveries.insert(name.to_owned(), Recovery::default());
    }
    if let Some(recovery) = recoveries.get_mut(name) {
        recovery.errors += errors;
        recovery.times_ns.push(ns);
    }
}

/// Returns a count in words: "1 run", "2 runs".
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns the name of a kind of fault without its numbers.
pub fn name(strike: Strike) -> String {
    let text = format!("{strike:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

impl Score {
    /// Adds the outcome of a run. Returns whether the stack kept all promises (its guarantees about
    /// data).
    pub fn add(&mut self, case: &Case, outcome: &Outcome) -> bool {
        self.runs += 1;
        self.requests += outcome.requests;
        self.cuts += outcome.cuts;
        self.errors += outcome.errors;
        self.dropped += outcome.dropped;
        self.events += outcome.events;
        self.virtual_ns += outcome.elapsed_ns;
        // Of several equal times the same case is named, whatever the order in which runs end. Most
        // runs need no description.
        if outcome.longest_ns >= self.longest_ns {
            let longest = (outcome.longest_ns, describe::line(case));
            if (longest.0, &longest.1) > (self.longest_ns, &self.longest_in) {
                (self.longest_ns, self.longest_in) = longest;
            }
        }
        self.steps.add(outcome.steps.0);
        for shot in &outcome.struck {
            *self.struck.entry((shot.point, name(shot.strike))).or_default() += 1;
        }
        if let Some(violation) = &outcome.violation {
            self.broken[violation.fault as usize] += 1;
            let known = shape(violation);
            if self.failures.len() < FAILURES_MAX && self.failures.iter().all(|(_, v)| shape(v) != known) {
                self.failures.push((case.clone(), violation.clone()));
            }
        }
        outcome.violation.is_none()
    }

    /// Adds the score of another thread to this one.
    pub fn merge(&mut self, other: Score) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.cuts += other.cuts;
        self.errors += other.errors;
        self.dropped += other.dropped;
        self.events += other.events;
        self.virtual_ns += other.virtual_ns;
        if (other.longest_ns, &other.longest_in) > (self.longest_ns, &self.longest_in) {
            (self.longest_ns, self.longest_in) = (other.longest_ns, other.longest_in);
        }
        self.steps.add(other.steps.0);
        for (kind, count) in other.struck {
            *self.struck.entry(kind).or_default() += count;
        }
        for (sum, count) in self.broken.iter_mut().zip(other.broken) {
            *sum += count;
        }
        let both = [(&mut self.recoveries, other.recoveries), (&mut self.lasting, other.lasting)];
        for (mine, others) in both {
            for (name, other) in others {
                let recovery = mine.entry(name).or_default();
                recovery.errors += other.errors;
                recovery.times_ns.extend(other.times_ns);
            }
        }
        for (class, times) in other.classes {
            self.classes.entry(class).or_default().merge(times);
        }
        self.late.extend(other.late);
        self.late.sort_unstable();
        self.late.truncate(FAILURES_MAX);
        for (what, count) in other.left_out {
            self.left_out(what, count);
        }
        self.failures.extend(other.failures);
        self.failures.sort_by_key(|(case, violation)| (shape(violation), case.seed));
        self.failures.dedup_by_key(|(_, violation)| shape(violation));
        self.failures.truncate(FAILURES_MAX);
    }

    /// Records a run in which a fault struck once, alone or followed by a second fault. `name`:
    /// name of the first fault. `errors`: number of failed requests. `ns`: extra time of the run in
    /// ns.
    pub fn recovered(&mut self, name: &str, errors: u64, ns: u64) {
        add(&mut self.recoveries, name, errors, ns);
    }

    /// Records a run in which a fault lasted from one event on. `name`: name of the fault.
    /// `errors`: number of failed requests. `ns`: extra time of the run in ns.
    pub fn lasted(&mut self, name: &str, errors: u64, ns: u64) {
        add(&mut self.lasting, name, errors, ns);
    }

    /// Records the time of a recovery of this class. `after`: name of the fault in the catalogue
    /// that caused it. `budget_ns`: longest time that is allowed; `None`: there is none.
    pub fn timed(&mut self, case: &Case, class: Class, after: &str, ns: u64, budget_ns: Option<u64>) {
        let one = Times {
            count: 1,
            longest_ns: ns,
            after: after.to_owned(),
            judged: u64::from(budget_ns.is_some()),
            over: u64::from(budget_ns.is_some_and(|budget_ns| ns > budget_ns)),
            nearest_ns: budget_ns.map_or((0, 0), |budget_ns| (ns, budget_ns)),
        };
        if let Some(budget_ns) = budget_ns.filter(|_| one.over > 0 && self.late.len() < FAILURES_MAX) {
            let (took, budget) = (ns as f64 / 1e6, budget_ns as f64 / 1e6);
            self.late.push(format!("{class} took {took:.3} of {budget:.3} ms: {}", describe::line(case)));
        }
        self.classes.entry(class).or_default().merge(one);
    }

    /// Returns the number of recoveries that took longer than their budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.classes.values().map(|times| times.over).sum()
    }

    /// Records that `count` power cuts or faults were not tried, for this reason.
    pub fn left_out(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.left_out.entry(what).or_default() += count;
        }
    }

    /// Returns whether so many promises are broken that the campaign should stop.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.failures.len() >= FAILURES_MAX || self.violations() >= BROKEN_MAX
    }

    /// Returns how many times the stack has broken a guarantee about data.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.broken.iter().sum()
    }

    /// Returns the number of faults that have struck.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.struck.values().sum()
    }

    /// Returns the score of one campaign as text below `title`. `took`: real time that the campaign
    /// needed; without it the text is the same on every computer.
    #[must_use]
    pub fn text(&self, title: &str, took: Option<Duration>) -> String {
        let mut text = format!("{title}\n");
        let pace = took.map_or_else(String::new, |took| {
            let seconds = took.as_secs_f64();
            format!("; {seconds:.1} s, {:.0} requests/s", self.requests as f64 / seconds.max(1e-9))
        });
        let _ = writeln!(
            text,
            "  {}, {} ({}, {} dropped), {}, {}{pace}",
            counted(self.runs, "run"),
            counted(self.requests, "request"),
            counted(self.errors, "error"),
            self.dropped,
            counted(self.cuts, "power cut"),
            counted(self.faults(), "fault")
        );
        let _ = writeln!(
            text,
            "  {} controller events, {:.1} s of virtual time, longest answer {:.1} ms ({})",
            self.events,
            self.virtual_ns as f64 / 1e9,
            self.longest_ns as f64 / 1e6,
            self.longest_in
        );
        let used = RecoveryStep::ALL.iter().zip(self.steps.0).filter(|(_, count)| *count > 0);
        let used: Vec<String> = used.map(|(step, count)| format!("{step:?} {count}")).collect();
        if !used.is_empty() {
            let _ = writeln!(text, "  steps: {}", used.join(", "));
        }
        let mut line = String::new();
        for ((point, name), count) in &self.struck {
            let item = format!("{point:?} {name} {count}");
            if line.len() + item.len() > 100 {
                let _ = writeln!(text, "  faults: {line}");
                line.clear();
            }
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(&item);
        }
        if !line.is_empty() {
            let _ = writeln!(text, "  faults: {line}");
        }
        if !self.lasting.is_empty() {
            text += "  from one event on for good: the work takes longer by all the recoveries together, each within its budget, until the card is declared dead\n";
        }
        for (name, recovery) in self.recoveries.iter().chain(&self.lasting) {
            let (p50, p100) = recovery.p50_p100_ns();
            let _ = writeln!(
                text,
                "  {name:<22} {:>6} {:<5} {:>6} {:<7} took longer by {:>10.3} ms p50, {:>10.3} ms p100",
                recovery.times_ns.len(),
                if recovery.times_ns.len() == 1 { "run," } else { "runs," },
                recovery.errors,
                if recovery.errors == 1 { "error," } else { "errors," },
                p50 as f64 / 1e6,
                p100 as f64 / 1e6
            );
        }
        if !self.classes.is_empty() {
            // The whole reset of an SDHCI also switches off the card's power. The budget of a reset
            // (`Class::Reset`) counts only the controller's part.
            text += "  times of recovery, from when the stack sees a failure to the next step or answer; what a reset takes from the card counts as the step after it\n";
            text += "  each run's budget is its class's and the longest transfer, for whole incidents what the card declares for itself; where the card is busy for long or its medium does not\n";
            text += "  answer, the whole incident alone is judged, for that is the card's own time: so p100 may lie above all budgets of its class\n";
        }
        for (class, times) in &self.classes {
            let ms = |ns: u64| ns as f64 / 1e6;
            let (nearest, budget) = times.nearest_ns;
            let _ = writeln!(
                text,
                "  {class:<33} {:>6} times, p100 {:>10.3} ms ({}), nearest to its budget {:.3} of {:.3} ms, {} over budget",
                times.count,
                ms(times.longest_ns),
                times.after,
                ms(nearest),
                ms(budget),
                times.over
            );
        }
        for late in &self.late {
            let _ = writeln!(text, "  over budget: {late}");
        }
        for (what, count) in &self.left_out {
            let _ = writeln!(text, "  left out: {count} {what}");
        }
        let broken: Vec<String> =
            Fault::NAMES.iter().zip(self.broken).map(|(name, count)| format!("{name} {count}")).collect();
        let _ = writeln!(text, "  {}", broken.join(", "));
        text
    }
}
