//! Finds changes (`--set`) of a run that have no effect on the run.

use super::voice;
use mmcq_lab::effects::{self, Figures};
use mmcq_lab::runner::Outcome;
use mmcq_lab::scene::{Loaded, Scene};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Calls `work`. Meanwhile runs the same load once for each of the user's changes (`--set`), each
/// time with all changes except that one. Prints each change that has no effect: the run without it
/// has the same jobs, times and counters.
pub fn with_effects<T, E>(
    scene: &Scene,
    load: impl Fn(&[String]) -> Result<Loaded, E> + Sync,
    work: impl FnOnce() -> T,
    outcome: impl Fn(&T) -> Option<&Outcome>,
) -> T {
    if scene.set.is_empty() {
        return work();
    }
    let mut cores = mmcq_sim::parallel::cores().min(scene.set.len());
    let next = AtomicUsize::new(0);
    // Bytes that the run with all changes has transferred; it is not known before that run's end.
    let bytes = AtomicU64::new(u64::MAX);
    let (done, others) = std::thread::scope(|scope| {
        let mut hands = Vec::new();
        while cores > 0 {
            cores -= 1;
            hands.push(scope.spawn(|| {
                let mut seen = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= scene.set.len() {
                        return seen;
                    }
                    let bytes = || bytes.load(Ordering::Relaxed);
                    seen.push((index, Figures::without(scene, &load, index, bytes)));
                }
            }));
        }
        let done = work();
        // A run that failed has no figures to compare: the others stop.
        bytes.store(outcome(&done).map_or(0, |outcome| outcome.counters.bytes), Ordering::Relaxed);
        let others: Vec<_> = hands.into_iter().flat_map(|hand| hand.join().unwrap_or_default()).collect();
        (done, others)
    });
    if let Some(outcome) = outcome(&done) {
        let same = |other: &Option<Figures>| other.as_ref().is_some_and(|other| other.are_of(outcome));
        let mut idle: Vec<usize> =
            others.iter().filter(|(_, other)| same(other)).map(|(index, _)| *index).collect();
        idle.sort_unstable();
        for index in idle {
            voice::note(effects::line(scene, index, "in this run"));
        }
    }
    done
}
