//! Which changes of a run made a difference.

use super::voice;
use mmcq_lab::fio::stats::Stats;
use mmcq_lab::runner::{self, Counters, Outcome};
use mmcq_lab::scene::{Loaded, Scene};

/// `work`, and beside it the same run without each of the changes. Says which of them made no
/// difference: the jobs, their times and all counters are the same without it.
pub fn with_effects<T, E>(
    scene: &Scene,
    load: impl Fn(&[String]) -> Result<Loaded, E> + Sync,
    work: impl FnOnce() -> T,
    outcome: impl FnOnce(&T) -> Option<&Outcome>,
) -> T {
    if scene.set.is_empty() {
        return work();
    }
    let without = |index: usize| {
        let mut changes = scene.set.clone();
        changes.remove(index);
        let loaded = load(&changes).ok()?;
        let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ()).ok()?;
        Some(Figures::of(outcome))
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
        let same = |other: &Option<Figures>| other.as_ref().is_some_and(|other| other.are_of(outcome));
        let mut idle: Vec<usize> =
            others.iter().filter(|(_, other)| same(other)).map(|(index, _)| *index).collect();
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
    let ours = !scene.setting.is_linux();
    match (scene.set[index].split('=').next(), ours) {
        (Some("cost.wake_us"), true) => {
            "; it is the wake-up of a driver's thread, and this setting has none. A job's is \
             cost.job_wake_us. --setting none also has a worker's, cost.hop_us"
        }
        (Some("cost.wake_us"), false) => {
            "; it is the wake-up of a driver's thread. A job's is cost.job_wake_us, a worker's \
             cost.hop_us: a slow CPU has all three"
        }
        (Some("stack.scheduler" | "stack.weights"), false) => {
            "; it is our engine's. This setting stands for Linux with mq-deadline; BFQ itself runs in \
             mmcq guest --scheduler bfq"
        }
        (Some("cost.hop_us"), true) => {
            "; it is the wake-up of a worker, and this setting has none; --setting none has"
        }
        _ => "",
    }
}

/// What a change makes a difference to.
struct Figures {
    stats: Vec<Stats>,
    counters: Counters,
    verify_errors: Vec<String>,
}

impl Figures {
    fn of(outcome: Outcome) -> Self {
        let Outcome { stats, counters, verify_errors, .. } = outcome;
        Figures { stats, counters, verify_errors }
    }

    fn are_of(&self, outcome: &Outcome) -> bool {
        (&self.stats, &self.counters, &self.verify_errors)
            == (&outcome.stats, &outcome.counters, &outcome.verify_errors)
    }
}
