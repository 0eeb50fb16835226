//! Scene of a run: board, card, stack, seed, and changed values.

use crate::board::BoardError;
use crate::fio::{self, JobFile, Note, ParseError, Worker};
use crate::params::{self, Param};
use crate::platform::{JOB, Platform, PlatformError};
use crate::runner::{self, Setting};
use clap::Args;

/// Default board of all commands.
pub const PLATFORM: &str = "generic";

/// Board, card, stack and seed of a run, and changes of values. Also the options of a command line.
#[derive(Clone, Debug, Args)]
pub struct Scene {
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = PLATFORM)]
    pub platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    pub card: Option<String>,
    /// Stack that serves the jobs, and whose CPU costs are charged (--help explains the settings)
    ///
    /// Models of Linux: none has no queue. hsq-tag and hsq-fifo have the software queue, which
    /// sends requests in the order of their tags or of their arrival. linux-cqe uses the card's
    /// command queue, driven by the controller's queue engine. close and patch run on a host that
    /// can continue data: close ends each transfer, patch keeps it open.
    ///
    /// This stack: mmcq has Linux's CPU costs, mmcq-own those of its own code. In mmcq-early a
    /// write is complete when its data are transferred. In tasks, software drives the card's
    /// command queue; in cqe, the controller's engine drives it where it can. auto uses the card's
    /// queue where that gains. packed uses packed commands, adma3 chains that the controller
    /// executes. mmcq-early, tasks, cqe, auto, packed and adma3 have a form with -own, too, such as
    /// tasks-own.
    ///
    /// limit: wire and card alone. Contiguous sequential jobs run as one job, in batches as long as
    /// their depth
    #[arg(long, value_name = "SETTING", default_value = "mmcq")]
    pub setting: Setting,
    /// Changes one value of the board (`cost.wake_us=30`), of the card (`card.read_first_us=90`) or
    /// an option of all jobs (`job.iodepth=8`). May be repeated. `mmcq params` lists the keys
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Seed of the models' random numbers. fio's random numbers have fio's own seeds, and a card's
    /// rare delays ([flash.spread]) have card.seed
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole)]
    pub seed: u64,
}

impl Default for Scene {
    /// Returns the settings of a run (scene) that apply if the command line has no options.
    fn default() -> Self {
        let (platform, set) = (PLATFORM.to_owned(), Vec::new());
        Scene { platform, card: None, setting: Setting::Mmcq, set, seed: 1 }
    }
}

/// Reason why a scene is not valid; one line.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// The board's file is not valid.
    #[error(transparent)]
    Board(#[from] PlatformError),
    /// A job is not valid.
    #[error(transparent)]
    Job(#[from] ParseError),
    /// A change of a job's option has no value.
    #[error("--set {0}: expected job.OPTION=VALUE")]
    NoValue(String),
    /// A change concerns jobs, but there are none.
    #[error("--set {0}: a trace has no jobs; expected a key of board or card")]
    NoJobs(String),
}

/// Board and jobs loaded for a run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Board of the run, after the changes.
    pub platform: Platform,
    /// Workers of the jobs: one for each thread of a job.
    pub workers: Vec<Worker>,
    /// Jobs of the run, after the user's changes.
    pub file: JobFile,
}

impl Loaded {
    /// Returns notes about options of the jobs that have no effect, and about depths (`iodepth=`)
    /// that have none.
    pub fn notes(&self) -> Vec<Note> {
        self.file.notes.iter().cloned().chain(self.file.capped()).collect()
    }
}

impl Scene {
    /// Loads the board and the jobs with these changes.
    ///
    /// # Errors
    /// The board cannot be read, or a change or a job is wrong.
    pub fn load(&self, file: &JobFile, changes: &[String]) -> Result<Loaded, SceneError> {
        self.load_on(file, changes, |of_board| Platform::load_with(&self.platform, of_board))
    }

    /// Loads as [`load`](Self::load) does, but with the board that the function `board` returns.
    /// `board` is called with those of the changes that concern the board and its card.
    pub(crate) fn load_on(
        &self,
        file: &JobFile,
        changes: &[String],
        board: impl FnOnce(&[String]) -> Result<Platform, PlatformError>,
    ) -> Result<Loaded, SceneError> {
        let mut file = file.clone();
        let (of_jobs, of_board): (Vec<&String>, Vec<&String>) =
            changes.iter().partition(|change| change.starts_with(JOB));
        for change in of_jobs {
            let option = change.strip_prefix(JOB).unwrap_or(change);
            if !option.contains('=') {
                return Err(SceneError::NoValue(change.clone()));
            }
            file.set(option, &format!("--set {change}"))?;
        }
        let of_board: Vec<String> = of_board.into_iter().cloned().collect();
        let platform = board(&of_board)?;
        let workers = fio::expand(&file.jobs)?;
        Ok(Loaded { platform, workers, file })
    }

    /// Loads the board with these changes, and workers that do not come from a job file.
    ///
    /// # Errors
    /// The board cannot be read, or a change is wrong.
    pub fn load_workers(&self, workers: &[Worker], changes: &[String]) -> Result<Loaded, SceneError> {
        self.load_workers_on(workers, changes, |of_board| Platform::load_with(&self.platform, of_board))
    }

    /// Loads the board and these workers. `board` gets the changes of the board's values, and
    /// returns the changed board.
    pub(crate) fn load_workers_on(
        &self,
        workers: &[Worker],
        changes: &[String],
        board: impl FnOnce(&[String]) -> Result<Platform, PlatformError>,
    ) -> Result<Loaded, SceneError> {
        if let Some(change) = changes.iter().find(|change| change.starts_with(JOB)) {
            return Err(SceneError::NoJobs(change.clone()));
        }
        let platform = board(changes)?;
        Ok(Loaded { platform, workers: workers.to_vec(), file: JobFile::default() })
    }

    /// Returns the input of [`runner::run`]: this board, card, setting and seed (the scene), and
    /// the jobs and files that were loaded for them.
    pub fn run_of<'a>(&'a self, loaded: &'a Loaded) -> runner::Run<'a> {
        runner::Run {
            workers: &loaded.workers,
            platform: &loaded.platform,
            card: self.card.as_deref(),
            setting: self.setting,
            seed: self.seed,
        }
    }

    /// Returns one line that says what runs: version, board, card, setting, seed, changes.
    pub fn title(&self, platform: &Platform) -> String {
        let card = self.card_of(platform);
        fio::report::title(&platform.name, card, self.setting.name(), self.seed, &self.set)
    }

    /// Returns board, card, setting and seed in a line, without the values that the user has
    /// changed.
    pub fn ran_on(&self, platform: &Platform) -> String {
        let (card, setting) = (self.card_of(platform), self.setting.name());
        format!("platform {}, card {card}, setting {setting}, seed {}", platform.name, self.seed)
    }

    /// Returns every value of board and card, after the changes.
    ///
    /// # Errors
    /// The board or the card cannot be read, or a change is wrong.
    pub fn params(&self) -> Result<Vec<Param>, BoardError> {
        let of_board: Vec<String> =
            self.set.iter().filter(|change| !change.starts_with(JOB)).cloned().collect();
        params::all(&self.platform, self.card.as_deref(), &of_board)
    }

    /// Returns the name of the card in the slot.
    pub fn card_of<'a>(&'a self, platform: &'a Platform) -> &'a str {
        self.card.as_deref().unwrap_or(&platform.card)
    }
}

/// Parses the value of an option as a whole number.
///
/// # Errors
/// The text is not a whole number, or the number is too large.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}, in digits", u64::MAX))
}
