//! Which changes of a run made a difference.

use super::voice;
use mmcq_lab::runner::{self, Outcome, Setting};
use mmcq_lab::scene::{Loaded, Scene};

/// `work`, and beside it the same run without each of the changes. Says which of them made no
/// difference: the jobs, their times and all counters are the same without it.
pub fn with_effects<T, E>(
    scene: &Scene,
    load: impl Fn(&[String]) -> Result<Loaded, E> + Sync,
    work: impl FnOnce() -> T,
    outcome: impl FnOnce(&T) -> Option<&Outcome>,
) -> T {
    let without = |index: usize| {
        let mut changes = scene.set.clone();
        changes.remove(index);
        let loaded = load(&changes).ok()?;
        let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ()).ok()?;
        Some(print_of(&outcome))
    };
    let mut cores = mmcq_sim::parallel::cores().min(scene.set.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let (done, others) = std::thread::scope(|scope| {
        let mut hands = Vec::new();
        while cores > 0 {
            cores -= 1;
            hands.push(scope.spawn(|| {
                let mut seen = Vec::new();
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if index >= scene.set.len() {
                        return seen;
                    }
                    seen.push((index, without(index)));
                }
            }));
        }
        let done = work();
        let others: Vec<_> = hands.into_iter().flat_map(|hand| hand.join().unwrap_or_default()).collect();
        (done, others)
    });
    if let Some(outcome) = outcome(&done) {
        let with = print_of(outcome);
        let mut idle: Vec<usize> =
            others.into_iter().filter(|(_, other)| *other == Some(with)).map(|(index, _)| index).collect();
        idle.sort_unstable();
        for index in idle {
            voice::note(format_args!(
                "--set {}: made no difference in this run{}",
                scene.set[index],
                hint(scene, index)
            ));
        }
    }
    done
}

/// What to try instead.
fn hint(scene: &Scene, index: usize) -> &'static str {
    let ours = !matches!(scene.setting, Setting::None | Setting::HsqTag | Setting::HsqFifo);
    match (scene.set[index].split('=').next(), ours) {
        (Some("cost.wake_us"), true) => {
            "; it is the wake-up of a driver's thread, and this setting has none. A job's is \
             cost.job_wake_us. --setting none also has a worker's, cost.hop_us"
        }
        (Some("cost.wake_us"), false) => {
            "; it is the wake-up of a driver's thread. A job's is cost.job_wake_us, a worker's \
             cost.hop_us: a slow CPU has all three"
        }
        (Some("cost.hop_us"), true) => {
            "; it is the wake-up of a worker, and this setting has none; --setting none has"
        }
        _ => "",
    }
}

/// Two runs with the same print are the same.
fn print_of(outcome: &Outcome) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    format!("{:?} {:?} {:?}", outcome.stats, outcome.counters, outcome.verify_errors).hash(&mut hasher);
    hasher.finish()
}
