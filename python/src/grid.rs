//! Grids of runs: a job is run with each combination of given values.

use crate::failure::{Failure, input};
use crate::heard::{heard, in_parts};
use crate::load::{Load, scene};
use mmcq_lab::parallel::{self, Stop};
use mmcq_lab::runner::RunError;
use mmcq_lab::sweep::{Axis, Format, Shard, Sweep};
use pyo3::prelude::*;
use std::num::NonZeroUsize;

/// A job and the grid of values with which it is run. Several threads may use it at a time.
#[pyclass(frozen)]
pub struct Grid(Sweep);

#[pymethods]
impl Grid {
    /// Makes a grid. `over` has the axes, written as for `mmcq sweep --over`. Each text of `zips`
    /// names axes that advance together.
    #[new]
    #[pyo3(signature = (job, over, zips, platform, card, setting, seed, set))]
    #[allow(clippy::too_many_arguments, reason = "the keywords of a function in Python")]
    fn new(
        job: Load,
        over: Vec<String>,
        zips: Vec<String>,
        platform: String,
        card: Option<String>,
        setting: &str,
        seed: u64,
        set: Vec<String>,
    ) -> PyResult<Self> {
        let scene = scene(platform, card, setting, seed, set)?;
        let axes: Vec<Axis> =
            over.iter().map(|text| text.parse()).collect::<Result<_, String>>().map_err(input)?;
        Ok(Grid(Sweep::new(scene, job.file()?, axes, &zips).map_err(input)?))
    }

    /// Returns the number of points.
    fn points(&self) -> usize {
        self.0.grid().points()
    }

    /// Returns the numbers of the points in shard `I/N`: part I of N.
    fn part(&self, shard: &str) -> PyResult<Vec<usize>> {
        let shard: Shard = shard.parse().map_err(|why: String| input(format!("shard {shard}: {why}")))?;
        Ok(shard.part(self.points()).collect())
    }

    /// Runs a point. Returns its rows, one JSON object per line: the bytes that `mmcq sweep` writes
    /// for this point.
    fn lines(&self, py: Python<'_>, point: usize) -> PyResult<String> {
        if point >= self.points() {
            let why = format!("point {point}: the grid has {} points", self.points());
            return Err(input(why).into());
        }
        let done = heard(py, || self.0.done(point).map_err(input))?;
        Ok(text(&done.rows))
    }

    /// Runs these points on `jobs` threads (`None`: one for each core). Calls `take` with the lines
    /// of each point, in the order of the points.
    #[pyo3(signature = (points, jobs, take))]
    fn run(
        &self,
        py: Python<'_>,
        points: Vec<usize>,
        jobs: Option<NonZeroUsize>,
        take: Py<PyAny>,
    ) -> PyResult<()> {
        let threads = jobs.map_or_else(parallel::cores, usize::from);
        let work = |tell: &dyn Fn(String)| {
            self.0.run(&points, threads, |done| {
                if Stop::heard().is_some_and(|stop| stop.is_asked()) {
                    return Err(Failure::from(RunError::Stopped));
                }
                tell(text(&done.rows));
                Ok(())
            })
        };
        let taken = |lines: String| Python::attach(|py| take.call1(py, (lines,)).map(|_| ()));
        in_parts(py, work, taken).map_err(PyErr::from)
    }
}

fn text(rows: &[mmcq_lab::sweep::Row]) -> String {
    rows.iter().map(|row| Format::Json.line(row)).collect()
}
