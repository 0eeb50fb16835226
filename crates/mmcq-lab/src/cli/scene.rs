//! What a run takes place on: board, card, stack, seed, and single values changed.

use super::Error;
use clap::Args;
use mmcq_lab::fio::{self, JobFile, Worker};
use mmcq_lab::platform::{JOB, Platform};
use mmcq_lab::runner::{self, Outcome, Setting};

/// The board of all commands.
pub const PLATFORM: &str = "generic";

#[derive(Clone, Debug, Args)]
pub struct Scene {
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = PLATFORM)]
    pub platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    pub card: Option<String>,
    /// Whose stack, at whose price: none, hsq-tag, hsq-fifo (Linux), close, patch (Linux on a host
    /// that can continue data), mmcq (ours at Linux's prices), mmcq-own (at its own), mmcq-early,
    /// mmcq-early-own (these with writes complete with their data), tasks, tasks-own (mmcq and
    /// mmcq-own with the command queue of the card), cqe, cqe-own (the same by the controller's
    /// engine, for all that it can be used for), auto, auto-own (where it pays), packed, packed-own
    /// (with packed commands), adma3, adma3-own (in chains that the controller executes), limit
    /// (wire and card alone; sequential jobs that meet run as one, in batches as long as their depth)
    #[arg(long, value_name = "SETTING", default_value = "mmcq")]
    pub setting: Setting,
    /// Changes one value of the board (`cost.wake_us=30`), of the card
    /// (`card.read_first_us=90`) or an option of all jobs (`job.iodepth=8`); may be repeated.
    /// `mmcq params` lists what there is
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of everything random that is not fio's own
    #[arg(long, default_value_t = 1, value_parser = super::whole)]
    pub seed: u64,
}

/// What stands in a run.
pub struct Loaded {
    pub platform: Platform,
    pub workers: Vec<Worker>,
    /// The jobs, with what was changed of them.
    pub file: JobFile,
}

impl Scene {
    /// The board and the jobs with these changes.
    pub fn load(&self, file: &JobFile, changes: &[String]) -> Result<Loaded, Error> {
        let mut file = file.clone();
        let (of_jobs, of_board): (Vec<&String>, Vec<&String>) =
            changes.iter().partition(|change| change.starts_with(JOB));
        for change in of_jobs {
            let option = change.strip_prefix(JOB).unwrap_or(change);
            if !option.contains('=') {
                return Err(Error::Input(format!("--set {change}: expected job.OPTION=VALUE")));
            }
            file.set(option, &format!("--set {change}")).map_err(Error::input)?;
        }
        let of_board: Vec<String> = of_board.into_iter().cloned().collect();
        let platform = Platform::load_with(&self.platform, &of_board).map_err(Error::input)?;
        let workers = fio::expand(&file.jobs).map_err(Error::input)?;
        Ok(Loaded { platform, workers, file })
    }

    /// The board with these changes, and workers that no job file has.
    pub fn load_workers(&self, workers: &[Worker], changes: &[String]) -> Result<Loaded, Error> {
        if let Some(change) = changes.iter().find(|change| change.starts_with(JOB)) {
            return Err(Error::Input(format!(
                "--set {change}: a trace has no jobs; expected a key of board or card"
            )));
        }
        let platform = Platform::load_with(&self.platform, changes).map_err(Error::input)?;
        let (jobs, global_options, formats, notes) = Default::default();
        let file = JobFile { jobs, global_options, formats, output: None, notes };
        Ok(Loaded { platform, workers: workers.to_vec(), file })
    }

    /// What the runner takes.
    pub fn run_of<'a>(&'a self, loaded: &'a Loaded) -> runner::Run<'a> {
        runner::Run {
            workers: &loaded.workers,
            platform: &loaded.platform,
            card: self.card.as_deref(),
            setting: self.setting,
            seed: self.seed,
        }
    }

    /// The name of the card in the slot.
    pub fn card_of<'a>(&'a self, platform: &'a Platform) -> &'a str {
        self.card.as_deref().unwrap_or(&platform.card)
    }

    /// `work`, and beside it the same run without each of the changes. Says which of them made no
    /// difference: the jobs, their times and all counters are the same without it.
    pub fn with_effects<T>(
        &self,
        load: impl Fn(&[String]) -> Result<Loaded, Error> + Sync,
        work: impl FnOnce() -> T,
        outcome: impl FnOnce(&T) -> Option<&Outcome>,
    ) -> T {
        let without = |index: usize| {
            let mut changes = self.set.clone();
            changes.remove(index);
            let loaded = load(&changes).ok()?;
            let outcome = runner::run(&self.run_of(&loaded), None, &mut |_, _| ()).ok()?;
            Some(print_of(&outcome))
        };
        let mut cores = std::thread::available_parallelism().map_or(1, |n| n.get()).min(self.set.len());
        let next = std::sync::atomic::AtomicUsize::new(0);
        let (done, others) = std::thread::scope(|scope| {
            let mut hands = Vec::new();
            while cores > 0 {
                cores -= 1;
                hands.push(scope.spawn(|| {
                    let mut seen = Vec::new();
                    loop {
                        let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if index >= self.set.len() {
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
            let mut idle: Vec<usize> = others
                .into_iter()
                .filter(|(_, other)| *other == Some(with))
                .map(|(index, _)| index)
                .collect();
            idle.sort_unstable();
            for index in idle {
                eprintln!(
                    "mmcq: --set {}: made no difference in this run{}",
                    self.set[index],
                    self.hint(index)
                );
            }
        }
        done
    }

    /// What to try instead.
    fn hint(&self, index: usize) -> &'static str {
        let wakes = ["cost.wake_us", "cost.hop_us"].iter().any(|key| self.set[index].starts_with(key));
        let ours = !matches!(self.setting, Setting::None | Setting::HsqTag | Setting::HsqFifo);
        if wakes && ours { ": this setting wakes no thread for a request; --setting none does" } else { "" }
    }
}

/// Two runs with the same print are the same.
fn print_of(outcome: &Outcome) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    format!("{:?} {:?} {:?}", outcome.stats, outcome.counters, outcome.verify_errors).hash(&mut hasher);
    hasher.finish()
}
