//! Many small random runs, each on a machine of its own. A run depends on its seed alone, so threads share the work.

use super::case::{Case, Wishes};
use super::run::{Bench, CARDS, run};
use super::score::{FAILURES_MAX, Score};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Mean requests of one run: small runs find more, and are easier to read.
pub const OPERATIONS: u32 = 250;

/// How much of what.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// Seed of the first run; the next have the next numbers.
    pub seed: u64,
    /// Requests, at least.
    pub requests: u64,
    /// Mean share of events that are struck.
    pub faults: f64,
    /// Power cuts, at least about.
    pub cuts: u64,
    /// Only this card.
    pub card: Option<usize>,
    /// Threads.
    pub jobs: usize,
}

impl Swarm {
    /// The runs' parameters.
    #[must_use]
    pub fn wishes(&self) -> Wishes {
        // Each run ends with a cut; more of them come in between.
        let runs = (self.requests / u64::from(OPERATIONS)).max(1);
        let cuts = (self.cuts as f64 / runs as f64 - 1.0).clamp(0.0, 20.0);
        Wishes { faults: self.faults, cuts, operations: OPERATIONS, cards: CARDS.len(), card: self.card }
    }

    /// Runs until there were enough requests, or enough is broken. `progress` hears of requests.
    pub fn run(&self, progress: &(dyn Fn(u64) + Sync)) -> Score {
        let wishes = self.wishes();
        let (next, done, stop) = (AtomicU64::new(self.seed), AtomicU64::new(0), AtomicBool::new(false));
        let total = Mutex::new(Score::default());
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    let mut bench = Bench::new();
                    let mut score = Score::default();
                    while done.load(Ordering::Relaxed) < self.requests && !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let outcome = run(&Case::draw(seed, &wishes), &mut bench, None);
                        done.fetch_add(outcome.requests, Ordering::Relaxed);
                        progress(outcome.requests);
                        score.add(seed, &outcome);
                        if score.failures.len() >= FAILURES_MAX {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    total.lock().unwrap_or_else(|poison| poison.into_inner()).merge(score);
                });
            }
        });
        total.into_inner().unwrap_or_else(|poison| poison.into_inner())
    }
}
