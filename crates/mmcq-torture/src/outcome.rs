//! Outcome of a run (the execution of a case): what the torture counts.

use super::stopwatch::Class;
use mmcq::engine::RecoveryStep;
use mmcq_sim::checker::Violation;
use mmcq_sim::faults::{Point, Shot};

/// Number of times each recovery step was taken, in the order of [`RecoveryStep::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub [u64; RecoveryStep::COUNT]);

impl Steps {
    /// Adds these numbers of steps to the counts.
    pub fn add(&mut self, more: [u64; RecoveryStep::COUNT]) {
        self.0.iter_mut().zip(more).for_each(|(sum, count)| *sum += count);
    }
}

/// Counters of one run of a torture case: requests, errors, power cuts, and what recovery did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of requests that were answered, or cut off by a power cut.
    pub requests: u64,
    /// Number of power cuts in the run.
    pub cuts: u64,
    /// Number of answers that were errors.
    pub errors: u64,
    /// Number of futures that clients dropped before their answer.
    pub dropped: u64,
    /// Number of events of the controller models in this run.
    pub events: u64,
    /// Virtual time of the whole run in ns.
    pub elapsed_ns: u64,
    /// Longest time in ns from the submission of a request to its answer.
    pub longest_ns: u64,
    /// Faults that have struck.
    pub struck: Vec<Shot>,
    /// Counts before the first requests were submitted: controller events, and events of each
    /// [`Point`] (kind of event that a fault may strike).
    pub before: (u64, [u64; Point::COUNT]),
    /// Number of events of each [`Point`] (kind of event that a fault may strike) in the whole run.
    pub points: [u64; Point::COUNT],
    /// How many times the stack has taken each step of recovery.
    pub steps: Steps,
    /// Virtual time in ns from the first request to the last answer, or to the next power cut if
    /// that comes earlier.
    pub work_ns: u64,
    /// Events at which a power cut can leave other contents of the card than at the event before:
    /// for each, the number of the event, and the number of contents that the cut can leave.
    /// Recorded only with [`Case::dry`](super::case::Case::dry).
    pub stakes: Vec<(u64, u64)>,
    /// Number of events at which a power cut can leave the same contents of the card as at the
    /// event before, so that no run is needed.
    pub same_stakes: u64,
    /// Number of events of the controller that had happened when the last request was submitted.
    pub all_asked: u64,
    /// Counts of the events of each [`Point`] (kind of event that a fault may strike) at several
    /// moments: before the first fault, at each new step of recovery, and at the end of recovery.
    /// Recorded only with [`Case::dry`](super::case::Case::dry).
    pub marks: Vec<[u64; Point::COUNT]>,
    /// Times of recovery in ns, by class. Recorded only with
    /// [`Case::one_life`](super::case::Case::one_life).
    pub times: Vec<(Class, u64)>,
    /// Sum in ns of the longest times that the card declares for a read, a write and a flush of an
    /// eMMC's cache.
    pub card_ns: u64,
    /// Description of the promise (a guarantee about data) that the stack has broken; `None` if it
    /// has kept all.
    pub violation: Option<Violation>,
}
