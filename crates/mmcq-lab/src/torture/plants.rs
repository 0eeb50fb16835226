//! Who checks the checker: bugs planted in the core, and how soon the campaigns find each.

use super::case::Case;
use super::exhaustive::exhaustive;
use super::presence;
use super::score::Score;
use super::spread::stop_at_first;
use super::swarm::Swarm;
use mmcq::plant::{self, Bug};
use mmcq_sim::checker::Fault;
use std::time::{Duration, Instant};

/// Requests of one try at random.
const REQUESTS: u64 = 400_000;
/// Seeds to begin with, for the median.
const BEGINNINGS: [u64; 3] = [1, 1_000_001, 2_000_001];

/// How a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which campaign.
    pub mode: &'static str,
    /// What it broke.
    pub fault: Fault,
    /// Real time.
    pub took: Duration,
    /// Runs until then, from each of the beginnings (at random), or in all.
    pub runs: Vec<u64>,
    /// A run that shows it.
    pub case: Case,
}

impl Found {
    /// The median of the runs.
    #[must_use]
    pub fn median_runs(&self) -> u64 {
        let mut runs = self.runs.clone();
        runs.sort_unstable();
        runs.get(runs.len() / 2).copied().unwrap_or(0)
    }
}

fn found(mode: &'static str, began: Instant, score: &Score) -> Option<Found> {
    let (case, violation) = score.failures.first()?;
    let (took, runs) = (began.elapsed(), vec![score.runs]);
    Some(Found { mode, fault: violation.fault, took, runs, case: case.clone() })
}

/// `many_too`: also by many faults at a time. Plants one bug (or none: then nothing should be found) and looks for it: at random, then in all small programs, with another card, and with many faults.
pub fn look_for(bug: Option<Bug>, card: Option<usize>, many_too: bool, jobs: usize) -> Option<Found> {
    plant::choose(bug);
    stop_at_first();
    let began = Instant::now();
    let silent = &|_| {};
    let swarm = |seed, requests| {
        let swarm = Swarm { seed, requests, faults: 0.003, cuts: requests / 60, card, jobs };
        swarm.run(silent)
    };
    let mut result = found("random", began, &swarm(BEGINNINGS[0], REQUESTS));
    if let Some(found) = &mut result {
        for seed in &BEGINNINGS[1..] {
            found.runs.push(swarm(*seed, REQUESTS).runs);
        }
    }
    let result = result
        .or_else(|| found("programs", began, &exhaustive(2, jobs, silent)))
        .or_else(|| found("another card", began, &presence::swaps(jobs, silent)));
    // Once more, with ten times as many faults.
    let many = Swarm { seed: 1, requests: REQUESTS, faults: 0.03, cuts: 10_000, card, jobs };
    let result = match result {
        None if many_too => found("many faults", began, &many.run(silent)),
        result => result,
    };
    plant::choose(None);
    result
}
