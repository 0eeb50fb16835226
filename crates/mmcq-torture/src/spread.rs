//! Distributes cases over threads, and over the shards of a campaign. Each thread has its own
//! bench.

use super::case::Case;
use super::run::{Bench, run};
use super::score::Score;
use super::swarm::OPERATIONS;
use mmcq_sim::parallel::{Shard, Stop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a campaign stops at its first broken promise.
static STOP_AT_FIRST: AtomicBool = AtomicBool::new(false);

/// Makes every campaign of this process stop at the first guarantee about data that the stack
/// breaks, from now on. The search for planted bugs uses this.
#[cfg(planted)]
pub(super) fn stop_at_first() {
    STOP_AT_FIRST.store(true, Ordering::Relaxed);
}

/// Calls `work` once with each of the numbers 0, 1, 2 and so on, on `jobs` threads. `work` adds to
/// the score of its thread. The calls end when `work` returns false, when the stack has broken too
/// many promises (guarantees about data), or when this thread is asked to end by a [`Stop`].
pub fn spread(jobs: usize, work: &(dyn Fn(u64, &mut Bench, &mut Score) -> bool + Sync)) -> Score {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (total, asked) = (Mutex::new(Score::default()), Stop::heard());
    #[cfg(planted)]
    let (planted, told) = (mmcq::plant::chosen(), mmcq_sim::plant::chosen());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                #[cfg(planted)]
                {
                    mmcq::plant::choose(planted);
                    mmcq_sim::plant::choose(told);
                }
                let mut bench = Bench::new();
                let mut score = Score::default();
                while !stop.load(Ordering::Relaxed) {
                    let goes_on = work(next.fetch_add(1, Ordering::Relaxed), &mut bench, &mut score);
                    let enough = STOP_AT_FIRST.load(Ordering::Relaxed) && score.violations() > 0;
                    let asked = asked.as_ref().is_some_and(Stop::is_asked);
                    if !goes_on || enough || asked || score.is_broken() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                total.lock().unwrap_or_else(|poison| poison.into_inner()).merge(score);
            });
        }
    });
    total.into_inner().unwrap_or_else(|poison| poison.into_inner())
}

/// The part of a random campaign that this process does, and its number of threads.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Seed of the campaign's first case. Each further case has the next number.
    pub seed: u64,
    /// Number of requests in the whole campaign.
    pub requests: u64,
    /// Shard that this process does. `None`: cases are executed until they have had `requests`
    /// requests. A shard executes the cases whose number modulo the shard count is the shard's
    /// index; the campaign has [`Share::runs`] cases. So a shard does not depend on other shards.
    pub shard: Option<Shard>,
    /// Number of threads.
    pub jobs: usize,
}

impl Share {
    /// Returns the number of cases in the whole campaign, if each has the mean number of requests.
    pub fn runs(&self) -> u64 {
        self.requests.div_ceil(u64::from(OPERATIONS)).max(1)
    }

    /// Returns the seed of case number `index` in this share; `None` after the last case.
    fn seed_of(&self, index: u64) -> Option<u64> {
        let number = match self.shard {
            None => index,
            Some(Shard { index: first, count }) => {
                let number = index.checked_mul(count as u64)?.checked_add(first as u64)?;
                (number < self.runs()).then_some(number)?
            }
        };
        Some(self.seed.wrapping_add(number))
    }
}

/// Executes the cases that `draw` makes from the share's seeds. Ends when the share is done, or
/// when the stack has broken too many promises (guarantees about data). Calls `progress` with the
/// number of requests of each case.
pub fn until(share: &Share, progress: &(dyn Fn(u64) + Sync), draw: &(dyn Fn(u64) -> Case + Sync)) -> Score {
    let done = AtomicU64::new(0);
    spread(share.jobs, &|index, bench, score| {
        let Some(seed) = share.seed_of(index) else { return false };
        let case = draw(seed);
        let outcome = run(&case, bench, None);
        score.add(&case, &outcome);
        progress(outcome.requests);
        let requests = done.fetch_add(outcome.requests, Ordering::Relaxed) + outcome.requests;
        share.shard.is_some() || requests < share.requests
    })
}
