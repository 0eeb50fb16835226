//! Finds changes (`--set`) of a run that have no effect on the run.

use crate::fio::stats::Stats;
use crate::runner::{self, Counters, Outcome};
use crate::scene::{Loaded, Scene};
use mmcq_sim::parallel::Stop;

/// Figures of a run that show whether a change has an effect: jobs, times and all counters.
#[derive(Clone, Debug)]
pub struct Figures {
    stats: Vec<Stats>,
    counters: Counters,
    verify_errors: Vec<String>,
    /// Names and contents of fio's log files, which an option of a job requests (such as
    /// `write_lat_log=`).
    logs: Vec<(String, String)>,
}

impl Figures {
    /// Repeats the run of `scene` without the change at `index`, and returns the figures of that
    /// run. `load` makes the load of a run from a list of changes. `bytes` returns the number of
    /// bytes that the run with the change has transferred; `u64::MAX`: not known yet. A run that
    /// transfers more is stopped, since its figures differ in any case: a job of hours that a
    /// change makes short does not run for hours here. `None`: without the change, the run is not
    /// possible, or was stopped.
    pub fn without<E>(
        scene: &Scene,
        load: impl Fn(&[String]) -> Result<Loaded, E>,
        index: usize,
        bytes: impl Fn() -> u64,
    ) -> Option<Self> {
        let mut changes = scene.set.clone();
        changes.remove(index);
        let loaded = load(&changes).ok()?;
        let (stop, outer) = (Stop::default(), Stop::heard());
        let mut looks = |moved: u64, _| {
            if moved > bytes() || outer.as_ref().is_some_and(Stop::is_asked) {
                stop.ask();
            }
        };
        let outcome = stop.during(|| runner::run(&scene.run_of(&loaded), None, &mut looks)).ok()?;
        let Outcome { stats, counters, verify_errors, logs, .. } = outcome;
        Some(Figures { stats, counters, verify_errors, logs })
    }

    /// Returns whether the run `outcome` has exactly these figures: then a change between the two
    /// runs has no effect.
    pub fn are_of(&self, outcome: &Outcome) -> bool {
        (&self.stats, &self.counters, &self.verify_errors, &self.logs)
            == (&outcome.stats, &outcome.counters, &outcome.verify_errors, &outcome.logs)
    }
}

/// Runs the load again without each of the changes, one at a time. Returns one line for each change
/// that has no effect: without it, the figures equal those of `outcome`.
pub fn idle<E>(
    scene: &Scene,
    load: impl Fn(&[String]) -> Result<Loaded, E>,
    outcome: &Outcome,
) -> Vec<String> {
    let bytes = || outcome.counters.bytes;
    let same = |index: &usize| {
        Figures::without(scene, &load, *index, bytes).is_some_and(|figures| figures.are_of(outcome))
    };
    (0..scene.set.len()).filter(same).map(|index| line(scene, index, "in this run")).collect()
}

/// Returns a line that says that one change of the user (option --set number `index`) made no
/// difference, and what to try instead. `place` says where it made none, such as "in this run".
pub fn line(scene: &Scene, index: usize, place: &str) -> String {
    format!("--set {}: made no difference {place}{}", scene.set[index], hint(scene, index))
}

/// Returns what to try instead of the change (`--set`) with the number `index`, which had no
/// effect; empty: no hint is known.
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
