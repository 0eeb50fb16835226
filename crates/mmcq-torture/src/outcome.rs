//! Outcome of a run: what the torture counts.

use super::stopwatch::Class;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::Violation;
use mmcq_sim::faults::{Point, Shot};

/// Number of times each recovery step was taken, in the order of [`RecoveryStep::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub [u64; RecoveryStep::COUNT]);

impl Steps {
    /// Adds these numbers.
    pub fn add(&mut self, more: [u64; RecoveryStep::COUNT]) {
        self.0.iter_mut().zip(more).for_each(|(sum, count)| *sum += count);
    }
}

/// Counters of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests answered, or cut off by a power cut.
    pub requests: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Futures dropped before their answer.
    pub dropped: u64,
    /// Events of the controllers.
    pub events: u64,
    /// Virtual time in ns.
    pub elapsed_ns: u64,
    /// Longest time from submission to answer in ns.
    pub longest_ns: u64,
    /// Faults that struck.
    pub struck: Vec<Shot>,
    /// Number of events, and of those at each point, when the first requests were submitted.
    pub before: (u64, [u64; Point::COUNT]),
    /// Number of events at each point in the whole run.
    pub points: [u64; Point::COUNT],
    /// Steps of recovery that were taken.
    pub steps: Steps,
    /// Virtual time in ns from the first request to the last answer of the first life (until the
    /// first power cut).
    pub work_ns: u64,
    /// Events at which a cut would have other results than at the event before, each with the
    /// number of results ([`Case::dry`](super::case::Case::dry)).
    pub stakes: Vec<(u64, u64)>,
    /// Number of events at which a cut would have the same results as at the event before.
    pub same_stakes: u64,
    /// Number of the event at which the last request was submitted.
    pub all_asked: u64,
    /// Events of each point: before the first fault, and then at each new step of recovery, to its
    /// end ([`Case::dry`](super::case::Case::dry)).
    pub marks: Vec<[u64; Point::COUNT]>,
    /// Times of recovery in ns, by class ([`Case::one_life`](super::case::Case::one_life)).
    pub times: Vec<(Class, u64)>,
    /// Sum in ns of the longest read, write and flush that the card declares.
    pub card_ns: u64,
    /// The promise that was broken, if any.
    pub violation: Option<Violation>,
}
