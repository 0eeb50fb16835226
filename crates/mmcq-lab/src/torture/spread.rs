//! PollOutcome spread over threads; each has a bench of its own.

use super::case::Case;
use super::run::{Bench, run};
use super::score::Score;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One broken promise is enough.
static STOP_AT_FIRST: AtomicBool = AtomicBool::new(false);

/// From now on a campaign ends with the first broken promise, in the whole process: for planted
/// bugs.
#[cfg(planted)]
pub(super) fn stop_at_first() {
    STOP_AT_FIRST.store(true, Ordering::Relaxed);
}

/// Does `work` for 0, 1, 2 ... until it says false or enough is broken. It adds to the thread's own
/// score.
pub fn spread(jobs: usize, work: &(dyn Fn(u64, &mut Bench, &mut Score) -> bool + Sync)) -> Score {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new(Score::default());
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
                    if !goes_on || enough || score.is_broken() {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
                total.lock().unwrap_or_else(|poison| poison.into_inner()).merge(score);
            });
        }
    });
    total.into_inner().unwrap_or_else(|poison| poison.into_inner())
}

/// Runs the cases that `draw` makes of `seed` and the numbers after it, until there were enough
/// requests, or enough is broken. `progress` hears of requests.
pub fn until(
    seed: u64,
    requests: u64,
    jobs: usize,
    progress: &(dyn Fn(u64) + Sync),
    draw: &(dyn Fn(u64) -> Case + Sync),
) -> Score {
    let done = AtomicU64::new(0);
    spread(jobs, &|index, bench, score| {
        let case = draw(seed.wrapping_add(index));
        let outcome = run(&case, bench, None);
        score.add(&case, &outcome);
        progress(outcome.requests);
        done.fetch_add(outcome.requests, Ordering::Relaxed) + outcome.requests < requests
    })
}
