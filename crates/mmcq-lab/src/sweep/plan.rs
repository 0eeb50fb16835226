//! A job at every point of a grid: what each point is, and its rows.

use super::grid::{Axis, Grid};
use super::row::{self, Row};
use crate::board;
use crate::fio::JobFile;
use crate::runner::{self, RunError, Setting};
use crate::scene::{Scene, whole};
use crate::why;
use mmcq_sim::parallel;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A grid over one job file. Threads share it.
#[derive(Debug)]
pub struct Sweep {
    scene: Scene,
    file: JobFile,
    grid: Grid,
    job_hash: u64,
    /// The physical limit does not depend on the setting and on what software costs.
    limits: Mutex<HashMap<u64, Arc<OnceLock<Option<f64>>>>>,
}

/// A point's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// One for each direction, or the one that says why the point cannot be run.
    pub rows: Vec<Row>,
    /// Nothing failed.
    pub well: bool,
}

impl Sweep {
    /// A grid of these axes; `scene` is what no axis changes. Every value is tried on every board
    /// and card.
    ///
    /// # Errors
    /// One line: an axis or a zip is wrong, or a value, the job, a board or a card.
    pub fn new(scene: Scene, file: JobFile, axes: Vec<Axis>, zips: &[String]) -> Result<Self, String> {
        let grid = Grid::new(axes, zips)?;
        let jobs: Vec<_> = file.jobs.iter().map(|job| (&job.name, &job.given)).collect();
        let job_hash = super::hash(&[&format!("{:?} {jobs:?}", file.global_options)]);
        let sweep = Sweep { scene, file, grid, job_hash, limits: Mutex::default() };
        for point in (0..sweep.grid.points()).filter(|point| sweep.grid.is_telling(*point)) {
            sweep.check(point)?;
        }
        Ok(sweep)
    }

    /// Its points.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The scene of a point.
    fn scene(&self, point: usize) -> Result<Scene, String> {
        let mut scene = self.scene.clone();
        for (key, value) in self.grid.point(point) {
            let fault = |why: String| format!("--over {key}={value}: {why}");
            match key {
                "platform" => value.clone_into(&mut scene.platform),
                "card" => scene.card = Some(value.to_owned()),
                "setting" => scene.setting = value.parse().map_err(fault)?,
                "seed" => scene.seed = whole(value).map_err(fault)?,
                key => scene.set.push(format!("{key}={value}")),
            }
        }
        Ok(scene)
    }

    /// Whether a point can be loaded: job, board and card.
    fn check(&self, point: usize) -> Result<(), String> {
        let scene = self.scene(point)?;
        let loaded = scene.load(&self.file, &scene.set).map_err(|error| error.to_string());
        let card = loaded.and_then(|loaded| {
            let card = scene.card_of(&loaded.platform);
            board::card_table(card, &loaded.platform.card_changes).map_err(|error| error.to_string())
        });
        card.map(|_| ()).map_err(|mut text| {
            for (key, value) in self.grid.point(point) {
                text = text.replace(&format!("--set {key}={value}"), &format!("--over {key}={value}"));
            }
            text
        })
    }

    /// Which run the rows of a point are of: their first values.
    ///
    /// # Errors
    /// One line: the point cannot be loaded.
    pub fn begin(&self, point: usize) -> Result<Row, String> {
        let scene = self.scene(point)?;
        let (platform, card) = (scene.platform.as_str(), scene.card.as_deref());
        let text = super::configuration(platform, card, &scene.set, true).map_err(|e| e.to_string())?;
        let version = env!("CARGO_PKG_VERSION");
        let (job, seed) = (format!("{:016x}", self.job_hash), scene.seed.to_string());
        let hash = super::hash(&[&text, platform, scene.setting.name(), &seed, &job, version]);
        let mut row: Row = vec![("point".to_owned(), point.into())];
        row.extend(self.grid.point(point).into_iter().map(|(key, text)| (key.to_owned(), row::value(text))));
        let card = match card {
            Some(card) => card.to_owned(),
            None => scene.load(&self.file, &scene.set).map_err(|e| e.to_string())?.platform.card,
        };
        let rest: [(&str, Value); 8] = [
            ("platform", platform.into()),
            ("card", card.into()),
            ("setting", scene.setting.name().into()),
            ("seed", scene.seed.into()),
            ("set", self.scene.set.join(" ").into()),
            ("version", version.into()),
            ("job_hash", job.into()),
            ("config_hash", format!("{hash:016x}").into()),
        ];
        for (name, value) in rest {
            if !row.iter().any(|(known, _)| known == name) {
                row.push((name.to_owned(), value));
            }
        }
        Ok(row)
    }

    /// The names of all columns.
    pub fn names(&self) -> Vec<String> {
        let begin = self.begin(0).unwrap_or_default();
        begin.into_iter().map(|(name, _)| name).chain(row::measures()).collect()
    }

    /// Runs a point. What cannot be run has a row that says why.
    ///
    /// # Errors
    /// One line: the point cannot be loaded.
    pub fn done(&self, point: usize) -> Result<Done, String> {
        let (rows, well) = match self.measured(point) {
            Ok(rows) => {
                let failed = |row: &Row| row.iter().any(|(name, value)| name == "failed" && *value != 0);
                let well = !rows.iter().any(failed);
                (rows, well)
            }
            Err(error) => (row::refused(&error), false),
        };
        let begin = self.begin(point)?;
        let whole = |row: Row| begin.iter().cloned().chain(row).collect();
        Ok(Done { rows: rows.into_iter().map(whole).collect(), well })
    }

    fn measured(&self, point: usize) -> Result<Vec<Row>, String> {
        let scene = self.scene(point)?;
        let loaded = scene.load(&self.file, &scene.set).map_err(|error| error.to_string())?;
        let run = scene.run_of(&loaded);
        let of = |run: &runner::Run<'_>| -> Result<_, RunError> { runner::run(run, None, &mut |_, _| ()) };
        let outcome = of(&run).map_err(|error| error.to_string())?;
        let text = super::configuration(&scene.platform, scene.card.as_deref(), &scene.set, false);
        let key = super::hash(&[&text.map_err(|error| error.to_string())?, &scene.seed.to_string()]);
        let limit =
            self.limits.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let limit = *limit.get_or_init(|| {
            let outcome = of(&runner::Run { setting: Setting::Limit, ..run }).ok()?;
            Some(why::mib_per_s(&outcome.counters))
        });
        Ok(row::measured(&outcome, limit))
    }

    /// Runs these points on so many threads. `take` is given their rows in the order of the grid;
    /// the first error of a point or of `take` ends the run.
    ///
    /// # Errors
    /// That error.
    pub fn run<E: From<String>>(
        &self,
        points: &[usize],
        threads: usize,
        mut take: impl FnMut(Done) -> Result<(), E>,
    ) -> Result<(), E> {
        parallel::in_order(
            points.len(),
            threads,
            |at| self.done(points[at]),
            |done| done.map_err(E::from).and_then(&mut take),
        )
    }
}
