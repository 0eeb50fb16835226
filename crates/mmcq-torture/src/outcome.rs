//! What a run of the torture counts.

use super::stopwatch::Class;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::Violation;
use mmcq_sim::faults::{Point, Shot};

/// How often each step of the recovery ladder was taken, as [`RecoveryStep::ALL`] lists them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub [u64; RecoveryStep::COUNT]);

impl Steps {
    /// Adds these.
    pub fn add(&mut self, more: [u64; RecoveryStep::COUNT]) {
        self.0.iter_mut().zip(more).for_each(|(sum, count)| *sum += count);
    }
}

/// Counters of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests answered or cut off.
    pub requests: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Futures dropped before their answer.
    pub dropped: u64,
    /// Device events.
    pub events: u64,
    /// Virtual time.
    pub elapsed_ns: u64,
    /// Longest time from submission to answer.
    pub longest_ns: u64,
    /// What struck.
    pub struck: Vec<Shot>,
    /// Events, and those of each point, when the first requests were submitted.
    pub before: (u64, [u64; Point::COUNT]),
    /// Those of each point in all.
    pub points: [u64; Point::COUNT],
    /// Steps of recovery.
    pub steps: Steps,
    /// Virtual time from the first request to the last answer of the first life.
    pub work_ns: u64,
    /// Events at which a cut would find something else than at the one before, and in how many ways
    /// it could decide ([`Case::dry`](super::case::Case::dry)).
    pub stakes: Vec<(u64, u64)>,
    /// Events at which it would find the same.
    pub same_stakes: u64,
    /// Events when the last of the requests was submitted.
    pub all_asked: u64,
    /// Events of each point before the first fault, and then whenever recovery came a step further,
    /// to its end ([`Case::dry`](super::case::Case::dry)).
    pub marks: Vec<[u64; Point::COUNT]>,
    /// How long recovery took ([`Case::one_life`](super::case::Case::one_life)).
    pub times: Vec<(Class, u64)>,
    /// The card's own longest read, write and flush, as it declares them.
    pub card_ns: u64,
    /// The promise that was broken, if any.
    pub violation: Option<Violation>,
}
