//! Compares stacks on a board with its card: how much faster or slower each is than the others, and
//! how certain this result is.
//!
//! - [`load`] has the loads;
//! - [`uncertain`] has the values that are not known exactly, each with a lower and an upper end;
//! - `standin` has the differences between unmodified Linux and the models that replace it
//!   (stand-ins);
//! - [`answer`] has the results, and [`report`] writes them.
//!
//! Each load runs with each setting, first with all values as they are. Then it runs twice for each
//! uncertain value: with this value alone at its lower end, and at its upper end.

pub mod answer;
pub mod load;
pub mod report;
mod standin;
pub mod uncertain;

pub use answer::{Answer, Cell, Decides, Gain, Point};
pub use load::Load;
pub use standin::Kind;
pub use uncertain::{Basis, Given, Uncertain};

use crate::board;
use crate::fio::{self, Worker};
use crate::platform::{ControllerConfig, Files, JOB, Platform};
use crate::runner::{self, Run, RunError, Setting};
use mmcq_sim::parallel;

/// Largest number of simulated runs of one [`Question::ask`]: the number of loads, times settings,
/// times variants of the board.
const RUNS_MAX: usize = 100_000;

/// Settings that are compared if the user names none, in order. The first one that runs is the
/// setting with which the others are compared. A setting that board or card cannot run is listed
/// with its reason.
const SETTINGS: [Setting; 8] = [
    Setting::None,
    Setting::HsqTag,
    Setting::HsqFifo,
    Setting::LinuxCqe,
    Setting::Mmcq,
    Setting::MmcqOwn,
    Setting::Auto,
    Setting::AutoOwn,
];
/// Settings that are compared if the user names none, on a board whose controller is Realtek's card
/// reader, which sends no CMD12 by itself.
const OF_READER: [Setting; 4] = [Setting::Close, Setting::Patch, Setting::Mmcq, Setting::MmcqOwn];

/// Returns the settings (stacks with their contexts) that are compared on this board if the user
/// names none.
///
/// # Errors
/// The board cannot be read.
pub fn settings(platform: &str) -> Result<Vec<Setting>, String> {
    let board = Platform::load(platform).map_err(|error| error.to_string())?;
    Ok(match board.controller {
        ControllerConfig::Rtsx(_) => OF_READER.to_vec(),
        _ => SETTINGS.to_vec(),
    })
}

/// Question: which stacks, board and loads to compare.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the board.
    pub platform: String,
    /// Name of a card that replaces the board's own; `None`: the board's own.
    pub card: Option<String>,
    /// Changes of board, card and jobs, as in `--set`.
    pub set: Vec<String>,
    /// Seed of all random numbers of the models. fio's random numbers come from fio's own seeds.
    pub seed: u64,
    /// Settings to compare.
    pub settings: Vec<Setting>,
    /// Loads to run.
    pub loads: Vec<Load>,
    /// Ranges of uncertain values that the user gave.
    pub given: Vec<Given>,
    /// Whether to compute for each gain (how much faster a setting is) the range in which it may
    /// lie.
    pub has_intervals: bool,
    /// Number of threads for the runs.
    pub threads: usize,
}

/// A board with all values as they are in its files, or with one value changed to the low or high
/// end of the value's range.
struct Variant {
    platform: Platform,
    /// Index of the changed value, and 0 or 1 for its low or high end; `None`: no value is changed.
    of: Option<(usize, usize)>,
}

/// One simulated run of a [`Question`]: index of the load, setting, and index of the variant.
#[derive(Clone, Copy)]
struct Place {
    load: usize,
    setting: Setting,
    variant: usize,
}

impl Question {
    /// Runs all loads with all settings, and each of them also with changed values (variants).
    /// Calls `told` with the number of runs that have finished since its last call, and with the
    /// number of all planned runs (0: the number has not changed).
    ///
    /// # Errors
    /// The board, the card, a load or a range is wrong, or nothing can run; the error is
    /// one line.
    pub fn ask(&self, told: &mut dyn FnMut(usize, usize)) -> Result<Answer, String> {
        let of_board: Vec<String> = self.set.iter().filter(|text| !text.starts_with(JOB)).cloned().collect();
        let card = self.card.as_deref();
        let values = match self.has_intervals {
            true => uncertain::uncertain(&self.platform, card, &of_board, &self.given)?,
            false => Vec::new(),
        };
        let (variants, left) = self.variants(&of_board, &values)?;
        let workers = self.workers()?;
        let (loads, settings) = (self.loads.len(), self.settings.len());
        let planned = loads * settings * variants.len();
        if planned > RUNS_MAX {
            return Err(format!(
                "{planned} runs: {loads} loads, {settings} settings, {} variants of the board; expected at most \
                 {RUNS_MAX}: fewer depths, fewer settings, or --no-interval",
                variants.len()
            ));
        }
        told(0, planned);
        let first: Vec<Place> = (0..loads)
            .flat_map(|load| self.settings.iter().map(move |&setting| Place { load, setting, variant: 0 }))
            .collect();
        let done = self.run(&first, &workers, &variants, told);
        let mut answer = Answer {
            platform: self.platform.clone(),
            card: self.card.clone().unwrap_or_else(|| variants[0].platform.card.clone()),
            set: self.set.clone(),
            seed: self.seed,
            runs: first.len(),
            has_intervals: self.has_intervals,
            values,
            left,
            cells: self.loads.iter().zip(&workers).map(|(load, workers)| Cell::new(load, workers)).collect(),
        };
        for (place, point) in first.iter().zip(done) {
            answer.cells[place.load].add(place.setting, point);
        }
        if let Some(why) = answer.nothing_ran() {
            return Err(why);
        }
        // A setting that does not run with the values as they are is not tried with others.
        let varied: Vec<Place> = (0..loads)
            .flat_map(|load| answer.cells[load].gains.iter().map(move |gain| (load, gain.setting)))
            .flat_map(|(load, setting)| {
                (1..variants.len()).map(move |variant| Place { load, setting, variant })
            })
            .collect();
        told(0, first.len() + varied.len());
        let done = self.run(&varied, &workers, &variants, told);
        answer.runs = first.len() + varied.len();
        for (place, point) in varied.iter().zip(done) {
            if let Some((value, end)) = variants[place.variant].of {
                answer.vary(place.load, place.setting, value, end, point.map(|point| point.mib_s));
            }
        }
        answer.conclude();
        Ok(answer)
    }

    /// Returns the variants of the board with the changes `set` (`KEY=VALUE`): one without a
    /// further change, and one for each end of the range of each uncertain value in `values`. Also
    /// returns a text for each variant that the board or the card refuses.
    fn variants(&self, set: &[String], values: &[Uncertain]) -> Result<(Vec<Variant>, Vec<String>), String> {
        let files = Files::default();
        let load = |changes: &[String]| -> Result<Platform, String> {
            let (platform, _) =
                files.load_with(&self.platform, changes).map_err(|error| error.to_string())?;
            board::profile(&platform, self.card.as_deref()).map_err(|error| error.to_string())?;
            Ok(platform)
        };
        let mut variants = vec![Variant { platform: load(set)?, of: None }];
        let mut left = Vec::new();
        for (at, value) in values.iter().enumerate() {
            for (end, to) in value.ends.into_iter().enumerate().filter(|(_, to)| *to != value.value) {
                let change = value.change(to);
                let changes: Vec<String> = set.iter().cloned().chain([change.clone()]).collect();
                match load(&changes) {
                    Ok(platform) => variants.push(Variant { platform, of: Some((at, end)) }),
                    Err(why) => left.push(format!("{change}: {why}")),
                }
            }
        }
        Ok((variants, left))
    }

    /// Returns for each load its workers, after the changes of job options.
    fn workers(&self) -> Result<Vec<Vec<Worker>>, String> {
        let of = |load: &Load| -> Result<Vec<Worker>, String> {
            let mut file = load.file.clone();
            // A load of the user was changed before it got its name and its depth.
            if load.is_steady {
                load::change(&mut file, &self.set, true)?;
            }
            fio::expand(&file.jobs).map_err(|error| error.to_string())
        };
        self.loads.iter().map(of).collect()
    }

    fn run(
        &self,
        places: &[Place],
        workers: &[Vec<Worker>],
        variants: &[Variant],
        told: &mut dyn FnMut(usize, usize),
    ) -> Vec<Result<Point, String>> {
        let one = |at: usize| {
            let Place { load, setting, variant } = places[at];
            let run = Run {
                workers: &workers[load],
                platform: &variants[variant].platform,
                card: self.card.as_deref(),
                setting,
                seed: self.seed,
            };
            let outcome = runner::run(&run, None, &mut |_, _| ());
            outcome.map_err(|error: RunError| error.to_string()).and_then(|outcome| {
                match outcome.counters.failed {
                    0 => Ok(Point::of(&outcome, &self.loads[load])),
                    failed => Err(format!("{failed} I/Os failed")),
                }
            })
        };
        let mut all = Vec::with_capacity(places.len());
        let Ok(()) = parallel::in_order(places.len(), self.threads, one, |done| {
            all.push(done);
            told(1, 0);
            Ok::<_, std::convert::Infallible>(())
        });
        all
    }
}
