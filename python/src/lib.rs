//! The laboratory as a Python module. Arguments are text, and results are JSON. The classes for
//! users are written in Python (the folder `mmcq/`). During a computation other Python threads
//! continue, and Ctrl-C ends the call.

mod failure;
mod fit;
mod grid;
mod heard;
mod load;
mod torture;
mod trace;

use failure::{Failure, input};
use heard::heard;
use load::{Load, scene};
use mmcq_lab::effects;
use mmcq_lab::finished;
use mmcq_lab::fio::JobFile;
use mmcq_lab::fio::report::{Replayed, json};
use mmcq_lab::runner::{self, Outcome};
use mmcq_lab::scene::{Loaded, Scene};
use mmcq_lab::why::{self, Why};
use mmcq_lab::{board, params as parameters, platform};
use pyo3::prelude::*;

/// Runs a load. Returns the report of `mmcq run --output-format json`.
fn reported(scene: &Scene, loaded: Loaded, replay: Replayed) -> Result<String, Failure> {
    let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ())?;
    Ok(told(scene, loaded, outcome, replay))
}

fn told(scene: &Scene, loaded: Loaded, outcome: Outcome, replay: Replayed) -> String {
    let origin = finished::origin(scene, &loaded.platform, &outcome);
    let origin = finished::with_trace(origin, replay, &outcome);
    json::json(&finished::report(loaded, outcome, origin), false)
}

/// Returns warnings, one line each: changes of values (`set`) that had no effect on the run.
fn idle(scene: &Scene, file: &JobFile, outcome: &Outcome) -> Vec<String> {
    effects::idle(scene, |changes| scene.load(file, changes), outcome)
}

/// Returns warnings, one line each: options and depths of jobs that have no effect.
fn notes(loaded: &Loaded) -> Vec<String> {
    loaded.notes().iter().map(ToString::to_string).collect()
}

/// Runs jobs. Returns the report as JSON, and warnings.
#[pyfunction]
#[pyo3(signature = (job, platform, card, setting, seed, set))]
fn run(
    py: Python<'_>,
    job: Load,
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> PyResult<(String, Vec<String>)> {
    let scene = scene(platform, card, setting, seed, set)?;
    heard(py, || {
        let file = job.file()?;
        let loaded = scene.load(&file, &scene.set).map_err(input)?;
        let outcome = runner::run(&scene.run_of(&loaded), None, &mut |_, _| ())?;
        let idle = [notes(&loaded), idle(&scene, &file, &outcome)].concat();
        Ok((told(&scene, loaded, outcome, Replayed::default()), idle))
    })
    .map_err(PyErr::from)
}

/// Explains where the time of a run goes. Returns the facts (one JSON object per line), the
/// conclusion, and warnings.
#[pyfunction]
#[pyo3(signature = (job, platform, card, setting, seed, set))]
fn explain(
    py: Python<'_>,
    job: Load,
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> PyResult<(String, String, Vec<String>)> {
    let scene = scene(platform, card, setting, seed, set)?;
    heard(py, || {
        let file = job.file()?;
        let loaded = scene.load(&file, &scene.set).map_err(input)?;
        let run = scene.run_of(&loaded);
        let mut why = Why::new(&run)?;
        why.title = scene.title(&loaded.platform);
        why.priors = parameters::priors(&scene.params().map_err(input)?).len();
        let idle = match scene.set.is_empty() {
            true => Vec::new(),
            false => idle(&scene, &file, &runner::run(&run, None, &mut |_, _| ())?),
        };
        Ok((why::json_lines(&why), why.conclusion(), [notes(&loaded), idle].concat()))
    })
    .map_err(|failure: Failure| failure.into())
}

/// Returns all values of a board and a card that can be set, as `mmcq params --json` lists them.
#[pyfunction]
#[pyo3(signature = (platform, card, set))]
fn params(platform: &str, card: Option<&str>, set: Vec<String>) -> PyResult<String> {
    let all = parameters::all(platform, card, &set).map_err(input)?;
    serde_json::to_string(&all).map_err(|error| input(error).into())
}

/// Returns the names of the boards that come with the package.
#[pyfunction]
fn platforms() -> Vec<&'static str> {
    platform::Platform::names().collect()
}

/// Returns the names of the cards that come with the package.
#[pyfunction]
fn cards() -> Vec<&'static str> {
    board::card_names().collect()
}

/// Returns the names of the settings: the stacks, and "limit" for the limit of bus and card.
#[pyfunction]
fn settings() -> Vec<&'static str> {
    runner::Setting::ALL.map(runner::Setting::name).to_vec()
}

#[pymodule]
fn _mmcq(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<grid::Grid>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)?;
    module.add_function(wrap_pyfunction!(trace::replay, module)?)?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_function(wrap_pyfunction!(torture::torture, module)?)?;
    module.add_function(wrap_pyfunction!(torture::merge, module)?)?;
    module.add_function(wrap_pyfunction!(params, module)?)?;
    module.add_function(wrap_pyfunction!(platforms, module)?)?;
    module.add_function(wrap_pyfunction!(cards, module)?)?;
    module.add_function(wrap_pyfunction!(settings, module)?)?;
    Ok(())
}
