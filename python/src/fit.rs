//! Fits values of a board and a card to measured figures.

use crate::failure::{Failure, input};
use crate::load::scene;
use mmcq_lab::fit::measured::{self, Wanted};
use mmcq_lab::fit::{Bench, Task, free};
use mmcq_lab::parallel;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// The measured figures: files for the fit, files that are held out, the block sizes to fit, and
/// the percentiles of latency to fit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Figures {
    measured: Vec<PathBuf>,
    holdout: Vec<PathBuf>,
    fit_blocks: Vec<String>,
    percentiles: Vec<f64>,
}

/// Settings of the fit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct How {
    free: Vec<String>,
    noise: f64,
    ios: Option<u64>,
    jobs: Option<NonZeroUsize>,
}

/// Fits values to figures. Returns the JSON that `mmcq fit --json` prints.
#[pyfunction]
#[pyo3(signature = (figures, how, platform, card, setting, seed, set))]
pub fn fit(
    py: Python<'_>,
    figures: Figures,
    how: How,
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> PyResult<String> {
    let scene = scene(platform, card, setting, seed, set)?;
    if !(0.0001..=10.0).contains(&how.noise) {
        return Err(input(format!("noise {}: expected a share from 0.0001 to 10", how.noise)).into());
    }
    let ios = how.ios.unwrap_or(Bench::IOS);
    if !(100..=10_000_000).contains(&ios) {
        return Err(input(format!("ios {ios}: expected a whole number from 100 to 10000000")).into());
    }
    crate::heard::heard(py, || {
        let bench = Bench {
            platform: scene.platform,
            card: scene.card,
            setting: scene.setting,
            seed: scene.seed,
            changes: scene.set,
            ios,
            only_ios: how.ios.is_some(),
            threads: how.jobs.map_or_else(parallel::cores, usize::from),
        };
        let free = free::free(&bench.platform, bench.card.as_deref(), &bench.of_board(), &how.free)?;
        let wanted = Wanted { percentiles: &figures.percentiles, ..Wanted::default() };
        let read = |paths: &[PathBuf]| -> Result<Vec<_>, Failure> {
            let files =
                paths.iter().map(|path| measured::read(path, wanted)).collect::<Result<Vec<_>, _>>()?;
            Ok(files.into_iter().flatten().collect())
        };
        let (all, mut held) = (read(&figures.measured)?, read(&figures.holdout)?);
        let (fitted, rest) = measured::parts(all, &figures.fit_blocks)?;
        held.extend(rest);
        let task = Task { bench, free, fitted, held, noise: how.noise };
        Ok(task.fit(&mut |_| ())?.json().to_string())
    })
    .map_err(|failure: Failure| failure.into())
}
