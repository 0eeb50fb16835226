//! Runs a job at every point of a grid, and returns the rows of each point.

use super::grid::{Axis, Grid};
use super::load::Load;
use super::places::{Place, Places};
use super::row::{self, Row};
use crate::fio::Note;
use crate::runner::{self, Counters, Setting};
use crate::scene::{Scene, whole};
use mmcq_sim::parallel;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Sweep that runs one load at all points of a grid. Several threads may use it at the same time.
#[derive(Debug)]
pub struct Sweep {
    scene: Scene,
    load: Load,
    grid: Grid,
    job_hash: u64,
    places: Places,
    /// Physical limits that were computed, each by a hash over board, card and jobs. Setting and
    /// CPU costs do not change a limit. The few limits that depend on the seed are stored for each
    /// seed.
    limits: Mutex<HashMap<u64, Arc<OnceLock<Limit>>>>,
}

/// The physical limit of a job, and the run that gave it.
#[derive(Clone, Debug)]
struct Limit {
    /// Counters of the run with `Setting::Limit`; `None`: such a run is not possible.
    counters: Option<Counters>,
    /// Seed of the run that has given the physical limit.
    seed: u64,
    /// Whether a run with another seed may have another physical limit, so that the limit must be
    /// measured again.
    seeded: bool,
}

/// Result of the run at one point of a sweep (one combination of values), as rows of the sweep's
/// table.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// A row for each direction, or a single one that says why the point cannot run.
    pub rows: Vec<Row>,
    /// Whether no I/O of the run at this point of the grid failed.
    pub well: bool,
}

impl Sweep {
    /// Makes a sweep over a grid of these axes. `scene` has everything that no axis changes. Checks
    /// every value with every board and card.
    ///
    /// # Errors
    /// An axis, a zip, a value, the job, a board or a card is wrong; the error is one line.
    pub fn new(
        scene: Scene,
        load: impl Into<Load>,
        axes: Vec<Axis>,
        zips: &[String],
    ) -> Result<Self, String> {
        let (load, grid) = (load.into(), Grid::new(axes, zips)?);
        let job_hash = load.hash();
        let (places, limits) = Default::default();
        let sweep = Sweep { scene, load, grid, job_hash, places, limits };
        for point in (0..sweep.grid.points()).filter(|point| sweep.grid.is_telling(*point)) {
            sweep.check(point)?;
        }
        Ok(sweep)
    }

    /// Returns the grid of the sweep: all combinations of the values of its axes.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns notes about jobs whose depth (`iodepth=`) has no effect. Looks at so many points
    /// that each value of each axis occurs.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        for point in (0..self.grid.points()).filter(|point| self.grid.is_telling(*point)) {
            let Ok(scene) = self.scene(point) else { continue };
            let place = self.place(&scene);
            let capped = place.loaded.iter().flat_map(|loaded| loaded.file.capped());
            let new: Vec<Note> = capped.filter(|note| !notes.contains(note)).collect();
            notes.extend(new);
        }
        notes
    }

    /// Returns board, card, setting, seed and changes of one run of the sweep; `point` is the
    /// number of the run's combination of values.
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

    /// Returns what all points with this board, this card and these changes share, such as the
    /// loaded files.
    fn place(&self, scene: &Scene) -> Arc<Place> {
        self.places.of(scene, &self.load)
    }

    /// Checks that the jobs, the board and the card of a point of the grid (a combination of
    /// values) can be loaded.
    fn check(&self, point: usize) -> Result<(), String> {
        let place = self.place(&self.scene(point)?);
        let fault = place.loaded.as_ref().err().or(place.configuration.as_ref().err());
        fault.cloned().map_or(Ok(()), Err).map_err(|mut text: String| {
            for (key, value) in self.grid.point(point) {
                text = text.replace(&format!("--set {key}={value}"), &format!("--over {key}={value}"));
            }
            text
        })
    }

    /// Returns the first values of each row of the point with the number `point` (one combination
    /// of values of the sweep): the values that identify the run.
    ///
    /// # Errors
    /// The point cannot be loaded; the error is one line.
    pub fn begin(&self, point: usize) -> Result<Row, String> {
        let scene = self.scene(point)?;
        let (platform, place) = (scene.platform.as_str(), self.place(&scene));
        let whole = place.configuration.as_ref().map_err(String::clone)?.whole;
        let version = env!("CARGO_PKG_VERSION");
        let (job, seed) = (format!("{:016x}", self.job_hash), scene.seed.to_string());
        let hash = super::hash_on(whole, &[platform, scene.setting.name(), &seed, &job, version]);
        let mut row: Row = vec![("point".to_owned(), point.into())];
        row.extend(self.grid.point(point).into_iter().map(|(key, text)| (key.to_owned(), row::value(text))));
        let card = match &scene.card {
            Some(card) => card.clone(),
            None => place.loaded.as_ref().map_err(String::clone)?.platform.card.clone(),
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
        if let Some((_, program)) = self.load.program() {
            row.push(("program".to_owned(), program.as_str().into()));
        }
        Ok(row)
    }

    /// Returns the names of all columns in the rows of the sweep: first those that describe the
    /// run, then those of the measured figures.
    pub fn names(&self) -> Vec<String> {
        let begin = self.begin(0).unwrap_or_default();
        begin.into_iter().map(|(name, _)| name).chain(row::measures()).collect()
    }

    /// Runs the load at one point of the sweep (a combination of values), and returns its rows. A
    /// point that cannot run has a row that says why.
    ///
    /// # Errors
    /// The point cannot be loaded; the error is one line.
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
        let place = self.place(&scene);
        let run = scene.run_of(place.loaded.as_ref().map_err(String::clone)?);
        let outcome = runner::run(&run, None, &mut |_, _| ()).map_err(|error| error.to_string())?;
        let key = place.configuration.as_ref().map_err(String::clone)?.unpriced;
        let program = self.load.program().map(|(number, _)| *number);
        Ok(row::measured_of(&outcome, self.limit(key, &run).counters.as_ref(), program))
    }

    /// Returns the physical limit of a run; `key` is the hash over its board, card and jobs.
    /// Computes the limit if it is not stored yet.
    fn limit(&self, key: u64, run: &runner::Run<'_>) -> Limit {
        let place = |key: u64| {
            self.limits.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone()
        };
        let found = || {
            let outcome = runner::run(&runner::Run { setting: Setting::Limit, ..*run }, None, &mut |_, _| ());
            let seeded = outcome.as_ref().map_or(true, |outcome| outcome.seeded);
            let counters = outcome.ok().map(|outcome| outcome.counters);
            Limit { counters, seed: run.seed, seeded }
        };
        let first = place(key).get_or_init(found).clone();
        if !first.seeded || first.seed == run.seed {
            return first;
        }
        place(super::hash_on(key, &[&run.seed.to_string()])).get_or_init(found).clone()
    }

    /// Returns the indices of the changes (`--set`) of the scene that have no effect at any point
    /// of `told`, which lists points by number with their rows: without the change, the rows have
    /// the same figures. Points that cannot run are ignored.
    pub fn idle(&self, told: &[(usize, Vec<Row>)]) -> Vec<usize> {
        let figures = |rows: &[Row]| -> Vec<Row> {
            let names = row::measures();
            let own = |row: &Row| row.iter().filter(|(name, _)| names.contains(name)).cloned().collect();
            rows.iter().map(own).collect()
        };
        let is_run =
            |rows: &[Row]| !rows.iter().flatten().any(|(name, value)| name == "error" && !value.is_null());
        let told: Vec<_> = told.iter().filter(|(_, rows)| is_run(rows)).collect();
        let same = |index: &usize| {
            let mut scene = self.scene.clone();
            scene.set.remove(*index);
            let (load, grid, job_hash) = (self.load.clone(), self.grid.clone(), self.job_hash);
            let (places, limits) = Default::default();
            let other = Sweep { scene, load, grid, job_hash, places, limits };
            let is_same = |(point, rows): &&(usize, Vec<Row>)| {
                other.done(*point).is_ok_and(|done| figures(&done.rows) == figures(rows))
            };
            !told.is_empty() && told.iter().all(is_same)
        };
        (0..self.scene.set.len()).filter(same).collect()
    }

    /// Runs these points on `threads` threads. Calls `take` with their rows in the order of the
    /// grid. The first error of a point or of `take` ends the run.
    ///
    /// # Errors
    /// The first error of a point or of `take`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted;
    use crate::fio;

    fn sweep(options: &str, axes: &[&str]) -> Sweep {
        let text = format!("[t]\nfilename=/dev/mmcblk0\nsize=64M\n{}\n", options.replace(' ', "\n"));
        let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
        let axes = axes.iter().map(|axis| axis.parse().unwrap()).collect();
        Sweep::new(Scene::default(), file, axes, &[]).unwrap()
    }

    /// Runs a sweep with these options and axes. Returns the physical limit in the rows of each
    /// point, the number of files that were parsed, and the number of boards that were built.
    fn lived(options: &str, axes: &[&str]) -> (Vec<Value>, u32, u32) {
        counted::by(|| {
            let sweep = sweep(options, axes);
            let limit = |row: &Row| row.iter().find(|(name, _)| name == "limit_mib_s").unwrap().1.clone();
            (0..sweep.grid().points()).map(|point| limit(&sweep.done(point).unwrap().rows[0])).collect()
        })
    }

    const RANDOM: &str = "rw=randread bs=4k io_size=64k";
    const DRAWN: &str = "rw=randrw bsrange=4k-64k io_size=256k randrepeat=0";

    #[test]
    fn a_file_is_parsed_once_and_a_limit_that_no_seed_changes_runs_once() {
        // Two files for the board and the one that it extends, two for the card (as profile and as
        // table).
        let files = 4;
        let (limits, parsed, built) = lived(RANDOM, &["seed=1..8"]);
        assert_eq!((parsed, built), (files, 8 + 1));
        assert!(limits.iter().all(|limit| *limit == limits[0] && limit.is_f64()), "{limits:?}");
        let (_, parsed, built) = lived(RANDOM, &["seed=1,2", "setting=none,mmcq", "cost.wake_us=5,50"]);
        assert_eq!((parsed, built), (files, 8 + 1));
        let (_, parsed, built) = lived(RANDOM, &["job.bs=4k,8k", "seed=1..3"]);
        assert_eq!((parsed, built), (files, 6 + 2));
    }

    #[test]
    fn a_limit_that_the_seed_changes_runs_for_each() {
        let (limits, _, built) = lived(DRAWN, &["seed=1..4", "cost.wake_us=5,50"]);
        assert_eq!(built, 8 + 4);
        assert!(limits.chunks(2).all(|pair| pair[0] == pair[1]), "{limits:?}");
        assert!(limits.iter().any(|limit| *limit != limits[0]), "{limits:?}");
        // The result does not depend on which seed runs first.
        let (mut back, _, _) = lived(DRAWN, &["seed=4,3,2,1", "cost.wake_us=5,50"]);
        back.reverse();
        assert_eq!(back, limits);
    }
}
