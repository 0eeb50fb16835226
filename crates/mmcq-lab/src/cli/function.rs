//! An SDIO function that a user describes in a file, as the load of `mmcq run`, `why` and `trace`.

use super::form::Form;
use super::{Error, print};
use mmcq_lab::functions::Told;
use mmcq_lab::reproduce::Row;
use mmcq_lab::reproduce::{json_lines, table};
use mmcq_lab::runner::Setting;
use mmcq_lab::scene::{PLATFORM, Scene};
use mmcq_lab::sdio::Failure;
use mmcq_lab::sdio::load::Load;
use mmcq_lab::sdio::platform::{Board, NAME};
use mmcq_lab::sdio::served::{self, RecordError};
use mmcq_lab::trace::Capture;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A user's SDIO function and the board on which it runs.
pub struct Function {
    load: Load,
    board: Board,
    /// Name of the board on which the function runs.
    name: String,
    path: PathBuf,
    seed: u64,
}

impl Function {
    /// Returns the function if the file `job` describes one; `None`: the file is a job file.
    pub fn of(job: Option<&Path>, options: &[String], scene: &Scene) -> Result<Option<Self>, Error> {
        let Some(path) = job.filter(|path| Load::is_named(path)) else { return Ok(None) };
        if let Some(option) = options.first() {
            return Err(Error::Input(format!(
                "{option}: an SDIO function has no jobs; expected nothing after --"
            )));
        }
        let load = Load::read(path)?;
        if let Some(card) = &scene.card {
            return Err(Error::Input(format!("--card {card}: the function is the card; expected none")));
        }
        if scene.setting != Setting::Mmcq {
            let (setting, why) = (scene.setting.name(), "run and why show a function in all its ways");
            return Err(Error::Input(format!("--setting {setting}: {why}; expected none, or trace's --way")));
        }
        let name = if scene.platform == PLATFORM { NAME } else { &scene.platform };
        let board = Board::load_with(name, &scene.set).map_err(Error::input)?;
        let (name, path) = (name.to_owned(), path.to_owned());
        Ok(Some(Function { load, board, name, path, seed: scene.seed }))
    }

    fn told(&self) -> Result<Told<'_>, Error> {
        Told::of(&self.load, &self.board, self.seed).map_err(failed)
    }

    /// Returns two lines of text that say what ran.
    fn title(&self) -> String {
        let by = match self.load.poll_ns {
            Some(poll_ns) => format!("looked for each {} us", poll_ns as f64 / 1e3),
            None => "by interrupt".to_owned(),
        };
        format!(
            "{}: {}\nboard {}, {} steps a packet, {by}, {:.1} s of virtual time, seed {}\n\n",
            self.path.display(),
            self.load.description,
            self.name,
            self.load.steps.len(),
            self.load.for_ns as f64 / 1e9,
            self.seed
        )
    }

    /// Runs the function for `mmcq run`: prints its rates, latencies and wake-ups in all settings,
    /// as JSON lines if `json`.
    pub fn run(&self, json: bool) -> Result<ExitCode, Error> {
        let rows = self.told()?.rows();
        print(&if json { lines(&rows)? } else { self.title() + &table(&rows).text() })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Runs the user's SDIO function for `mmcq why`: prints where the time of a packet is spent.
    pub fn why(&self, form: &Form) -> Result<ExitCode, Error> {
        let told = self.told()?;
        let rows = told.steps();
        let json = lines(&rows)?;
        form.print(|| self.title() + &table(&rows).text() + "\n" + &told.conclusions(), || json)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Records a packet of the function for `mmcq trace`. `way` names the context that advances the
    /// steps of the function's driver, such as `thread`. Returns the recorded window and its title.
    pub fn record(&self, way: &str, for_ns: Option<u64>) -> Result<(Capture, String), Error> {
        let advance = served::way(way).map_err(|line| Error::Input(format!("--way {line}")))?;
        let capture = served::record(&self.board, &self.load, advance, self.seed, for_ns);
        let capture = capture.map_err(|error| match error {
            RecordError::Run(error) => failed(error),
            RecordError::Window(error) => Error::Input(format!("board {}: {error}", self.name)),
        })?;
        Ok((capture, format!("{}, {}, {way}", self.path.display(), self.name)))
    }
}

fn lines(rows: &[Row]) -> Result<String, Error> {
    json_lines(rows).map_err(|error| Error::Run(error.to_string()))
}

fn failed(error: Failure) -> Error {
    match error {
        Failure::Platform(_) | Failure::Card(_) => Error::input(error),
        other => Error::Run(other.to_string()),
    }
}
