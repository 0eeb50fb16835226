//! Measures how long recovery takes, step by step, and compares the times with their budgets.

use super::machine::Machine;
use super::run::{Outcome, POINTS, Run};
use mmcq::engine::{FlushBy, RecoveryStep};
use mmcq::task::Platform;
use std::fmt;

const MS: u64 = 1_000_000;
/// Longest time in ns that the handling of one failure (an incident) may take, in addition to the
/// times that the card declares ([`Outcome::card_ns`]).
const INCIDENT_NS: u64 = 12_000 * MS;

/// Class of a recovery time. The time counts from the moment at which the stack notices the failure
/// to the next answer, or to the next step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A failure of a command, response or block, damaged or lost, that recovery ended with status
    /// requests, CMD12 and another attempt.
    Again,
    /// A lost interrupt. The time counts from the deadline at which the stack found it.
    Interrupt,
    /// A new tuning, which is recovery step R5 ([`RecoveryStep::Retune`]).
    Retune,
    /// Recovery step R5 (a new tuning) that leads to the next step because the card does not
    /// respond. A controller that tunes by itself has 150 ms for the whole tuning, and does not
    /// notice the silence earlier. The stack tunes twice, each time with the slack of a deadline.
    /// [SD 4.2.4.5]
    RetuneInVain,
    /// Recovery step R6, a new initialisation in a slower mode.
    Slower,
    /// Recovery step R7 (a reset of the controller).
    Reset,
    /// Recovery step R8 (a new initialisation of the card).
    Reinit,
    /// Recovery step R9 (a power cycle of the card).
    PowerCycle,
    /// The answer to a request after the stack has given up the card (R11).
    Dead,
    /// The whole time of recovery, from its first step to the next answer to a request.
    Whole,
}

impl Class {
    /// Number of classes of recovery times.
    pub const COUNT: usize = 10;
    /// All classes of recovery times, in the order of their declaration.
    pub const ALL: [Class; Class::COUNT] = [
        Class::Again,
        Class::Interrupt,
        Class::Retune,
        Class::RetuneInVain,
        Class::Slower,
        Class::Reset,
        Class::Reinit,
        Class::PowerCycle,
        Class::Dead,
        Class::Whole,
    ];

    /// Returns the class (with a time budget) to which a step of recovery belongs; `None` if the
    /// step has no budget of its own. `next` is the step after it.
    fn of(step: RecoveryStep, next: Option<RecoveryStep>) -> Option<Class> {
        match step {
            RecoveryStep::Retune if next.is_some_and(|next| next > RecoveryStep::Retune) => {
                Some(Class::RetuneInVain)
            }
            RecoveryStep::Retune => Some(Class::Retune),
            RecoveryStep::Slower => Some(Class::Slower),
            RecoveryStep::Reset => Some(Class::Reset),
            RecoveryStep::Reinit => Some(Class::Reinit),
            RecoveryStep::PowerCycle => Some(Class::PowerCycle),
            _ => None,
        }
    }

    /// Returns the longest time in ns that a recovery of this class may take. The times that the
    /// card declares, and the transfer itself, are not included ([`Outcome::allowance`]).
    #[must_use]
    pub fn budget_ns(self) -> u64 {
        match self {
            Class::Again => 2 * MS,
            Class::Interrupt => 10 * MS,
            Class::Retune => 20 * MS,
            Class::RetuneInVain => 450 * MS,
            Class::Slower | Class::Reinit => 2_000 * MS,
            Class::Reset => 100 * MS,
            Class::PowerCycle => 3_000 * MS,
            Class::Dead => MS,
            Class::Whole => INCIDENT_NS,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Class::Again => "once more",
            Class::Interrupt => "lost interrupt, past its deadline",
            Class::Retune => "retune",
            Class::RetuneInVain => "retune in vain",
            Class::Slower => "re-initialisation, slower",
            Class::Reset => "controller reset",
            Class::Reinit => "re-initialisation",
            Class::PowerCycle => "power cycle",
            Class::Dead => "answer of a dead card",
            Class::Whole => "whole incident",
        })
    }
}

/// Measures the times of the recovery steps between a power-on and the next power cut.
#[derive(Debug, Default)]
pub struct Stopwatch {
    /// Number of recovery steps since power-on.
    steps: u64,
    /// Number of lost interrupts that the stack has found since power-on.
    lost: u64,
    /// Time in ns at which the recovery in progress began, and its highest step so far; `None`: no
    /// recovery is in progress.
    incident: Option<(u64, RecoveryStep)>,
    /// Time in ns and kind of the last recovery step.
    step: Option<(u64, RecoveryStep)>,
    interrupt_ns: Option<u64>,
    dead_ns: Option<u64>,
}

impl Stopwatch {
    /// Records that recovery has begun `step` at `at_ns`. Adds the time of the previous step to
    /// `times`, if that step has a class.
    pub fn climbed(&mut self, at_ns: u64, step: RecoveryStep, times: &mut Vec<(Class, u64)>) {
        self.step_ends(at_ns, Some(step), times);
        self.step = Some((at_ns, step));
        self.incident = Some(match self.incident {
            None => (at_ns, step),
            Some((began_ns, top)) => (began_ns, top.max(step)),
        });
        if step == RecoveryStep::Dead {
            self.dead_ns = self.dead_ns.or(Some(at_ns));
        }
    }

    fn step_ends(&mut self, now_ns: u64, next: Option<RecoveryStep>, times: &mut Vec<(Class, u64)>) {
        if let Some((began_ns, step)) = self.step.take()
            && let Some(class) = Class::of(step, next)
        {
            times.push((class, now_ns.saturating_sub(began_ns)));
        }
    }

    /// Records in `times` that a request was answered, which the client had submitted at
    /// `submitted_ns`. Returns true if this answer ends the handling of a failure.
    pub fn answered(&mut self, submitted_ns: u64, now_ns: u64, times: &mut Vec<(Class, u64)>) -> bool {
        if let Some(dead_ns) = self.dead_ns {
            times.push((Class::Dead, now_ns.saturating_sub(submitted_ns.max(dead_ns))));
        }
        self.step_ends(now_ns, None, times);
        let found_ns = self.interrupt_ns.take();
        match self.incident.take() {
            Some((began_ns, top)) => {
                let took_ns = now_ns.saturating_sub(began_ns);
                times.push((Class::Whole, took_ns));
                if top <= RecoveryStep::Retry {
                    times.push((Class::Again, took_ns));
                }
                true
            }
            None => {
                times.extend(found_ns.map(|at_ns| (Class::Interrupt, now_ns.saturating_sub(at_ns))));
                found_ns.is_some()
            }
        }
    }
}

impl Run<'_> {
    fn counts(&self) -> [u64; POINTS.len()] {
        POINTS.map(|point| self.faults.events(point))
    }

    /// Begins to measure the times of recovery steps after a power-on, and records the times that
    /// the card declares ([`Outcome::card_ns`]).
    pub(super) fn watch<B: Platform>(&mut self, machine: &Machine<B>) {
        self.watch = Stopwatch::default();
        let target = machine.stack.with(|engine| engine.card_params().copied());
        self.outcome.card_ns = target.map_or(0, |target| {
            let flush_ns = match target.flush {
                FlushBy::EmmcCache { timeout_ns } => timeout_ns,
                _ => 0,
            };
            target.read_timeout_ns.saturating_add(target.write_timeout_ns).saturating_add(flush_ns)
        });
    }

    /// Records new recovery steps and newly found lost interrupts. Must be called after each step
    /// of the machine.
    pub(super) fn look_at_ladder<B: Platform>(&mut self, machine: &Machine<B>) {
        let watch = &mut self.watch;
        let times = &mut self.outcome.times;
        let climbed = machine.stack.with(|engine| {
            let stats = engine.stats();
            if stats.lost_interrupts != watch.lost {
                watch.lost = stats.lost_interrupts;
                watch.interrupt_ns = watch.interrupt_ns.or(Some(machine.now()));
            }
            let steps = stats.recovery_steps.iter().sum();
            let new = (steps - watch.steps) as usize;
            if new > 0 {
                watch.steps = steps;
                let kept = engine.incidents().count();
                for event in engine.incidents().skip(kept.saturating_sub(new)) {
                    watch.climbed(event.at_ns, event.step, times);
                }
            }
            new > 0
        });
        if self.case.dry && self.outcome.marks.is_empty() && self.faults.strikes() > 0 {
            self.outcome.marks.push(self.quiet);
        }
        if self.case.dry {
            self.quiet = self.counts();
            if climbed {
                self.mark();
            }
        }
    }

    /// Records that a request, submitted at `submitted_ns`, was answered at `now_ns`. The answer
    /// may end the time of a recovery.
    pub(super) fn stop_watch(&mut self, submitted_ns: u64, now_ns: u64) {
        if self.watch.answered(submitted_ns, now_ns, &mut self.outcome.times) {
            self.mark();
        }
    }

    /// Records how many events of each [`Point`](mmcq_sim::faults::Point) (kind of event that a
    /// fault may strike) there were so far. Called at a new recovery step, and when the handling of
    /// a failure ends. Does nothing before the first fault, and in a run that is not
    /// [dry](super::case::Case::dry).
    fn mark(&mut self) {
        if self.case.dry && !self.outcome.marks.is_empty() {
            let counts = self.counts();
            self.outcome.marks.push(counts);
        }
    }

    /// Records how many events of each [`Point`](mmcq_sim::faults::Point) (kind of event that a
    /// fault may strike) there were. Called when the requests of the run have ended or the power
    /// was cut. Records only if recovery is going on then, or if the request whose interrupt was
    /// lost has no answer yet.
    pub(super) fn last_mark(&mut self) {
        if self.watch.incident.is_some() || self.watch.interrupt_ns.is_some() {
            self.mark();
        }
    }
}

impl Outcome {
    /// Returns the time in ns that a recovery of this class may take in this run in addition to
    /// [`Class::budget_ns`]. `transfer_ns` is the longest answer time without faults.
    #[must_use]
    pub fn allowance(&self, class: Class, transfer_ns: u64) -> u64 {
        match class {
            Class::Reset | Class::Dead => 0,
            // The millisecond is for a status request that is under way when the card's time ends.
            Class::Whole => self.card_ns + MS,
            _ => transfer_ns,
        }
    }
}
