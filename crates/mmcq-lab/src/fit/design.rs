//! Chooses jobs that determine the free values of a fit (the values that it may change). Before a
//! fit, these are jobs to run on the board. After a fit, these are jobs whose figures would add
//! information.

use super::free::Free;
use super::measured::{Figure, Load, What, in_words, size};
use super::model::Bench;
use super::solve::{self, DETERMINED};
use crate::fio::job::{Job, Rw};
use crate::fio::{Dir, Place, options};
use nalgebra::DMatrix;
use std::sync::Arc;

/// Jobs to choose from: value of fio's `rw=`, block size in KiB, depth.
const JOBS: [(&str, u64, u32); 20] = [
    ("randread", 4, 1),
    ("randread", 16, 1),
    ("randread", 64, 1),
    ("randread", 512, 1),
    ("randread", 4, 8),
    ("randread", 4, 32),
    ("read", 4, 1),
    ("read", 64, 1),
    ("read", 1024, 1),
    ("read", 128, 8),
    ("randwrite", 4, 1),
    ("randwrite", 16, 1),
    ("randwrite", 64, 1),
    ("randwrite", 512, 1),
    ("randwrite", 4, 8),
    ("randwrite", 4, 32),
    ("write", 4, 1),
    ("write", 64, 1),
    ("write", 1024, 1),
    ("write", 128, 8),
];
/// More jobs to choose from, if the time of a flush is one of the values to fit: `rw`, KiB of a
/// request, and depth.
const DURABLE: [(&str, u64, u32); 2] = [("randwrite+fsync", 4, 1), ("randwrite+fsync", 64, 1)];
/// Largest number of jobs that are proposed.
const JOBS_MOST: usize = 12;
/// Factor within which each value must be known (two standard deviations). Jobs are added until all
/// values are known so well, and there are more jobs than values.
const KNOWN: f64 = 1.06;
/// Standard deviation, in logarithms, of the weak prior that holds each value near its start value,
/// as in the solver. Without it, the uncertainty of the values would be infinite before the first
/// job.
const PULL: f64 = 1.386;
const DIFFERENCE: f64 = 0.05;

/// State of a fit whose measured figures do not determine all values. From it the fit proposes jobs
/// that would determine them.
pub struct Open<'a> {
    /// Board, card and stack of the model.
    pub bench: &'a Bench,
    /// All values that the fit may change, also those that must be powers of two.
    pub free: &'a [Free],
    /// Indices of the values that the solver fits: those that may be any number within their
    /// bounds.
    pub smooth: &'a [usize],
    /// Values that the fit has found, as changes `key=value`.
    pub changes: &'a [String],
    /// Logarithms of the values that the solver has found, in the order of `smooth`.
    pub at: &'a [f64],
    /// Information matrix of the figures (inverse of the values' covariance).
    pub information: &'a DMatrix<f64>,
    /// Expected standard deviation of a figure, as a share of the figure: 0.03 is 3 %.
    pub noise: f64,
}

/// Returns a load of a fit that consists of one job and one figure, the job's rate. The parameters
/// are the job's `rw=` word, its block size in KiB and its `iodepth`.
fn load((rw, kib, depth): (&'static str, u64, u32)) -> Result<Load, String> {
    let (rw, fsync) = parted(rw);
    let at = Place::Whole("mmcq fit".to_owned());
    let mut job = Job::new(&name((rw, kib, depth)), at.clone());
    let (bs, depth) = (format!("{kib}k"), depth.to_string());
    let given = [
        ("rw", rw),
        ("bs", bs.as_str()),
        ("iodepth", depth.as_str()),
        ("filename", "mmcq-fit.bin"),
        ("size", FILE_SIZE),
        ("direct", "1"),
        ("ioengine", "libaio"),
        ("fsync", fsync),
    ];
    for (option, value) in given {
        options::apply(&mut job, option, Some(value), &at).map_err(|error| error.to_string())?;
    }
    let Rw { write, .. } = job.rw;
    let dir = if write { Dir::Write } else { Dir::Read };
    let figure = Figure {
        place: "a job of mmcq fit --jobs".to_owned(),
        name: in_words(&job, dir),
        what: What::Rate,
        dir,
        sections: (0, 1),
        block_bytes: kib * 1024,
        measured: 1.0,
    };
    Ok(Load {
        jobs: vec![job],
        trace: Arc::default(),
        changes: Vec::new(),
        setting: None,
        seed: None,
        figures: vec![figure],
    })
}

const FILE_SIZE: &str = "256M";

/// Splits a job's kind, such as `randwrite+fsync`, into the value of `rw=` and the number of writes
/// after which the job flushes.
fn parted(rw: &'static str) -> (&'static str, &'static str) {
    rw.strip_suffix("+fsync").map_or((rw, "0"), |rw| (rw, "1"))
}

/// Returns the jobs to choose from for a fit that may change these values.
fn candidates(free: &[Free]) -> Vec<(&'static str, u64, u32)> {
    let durable = free.iter().any(|free| free.key.ends_with("flash.cache.flush_us"));
    JOBS.into_iter().chain(DURABLE.into_iter().filter(|_| durable)).collect()
}

fn name((rw, kib, depth): (&str, u64, u32)) -> String {
    format!("{}-{}-depth{depth}", rw.replace('+', "-"), size(kib * 1024))
}

/// Returns the Jacobian of the jobs to choose from: the derivative of each job's figure (row) by
/// each value (column), in logarithms.
fn rows(
    bench: &Bench,
    free: &[Free],
    smooth: &[usize],
    changes: &[String],
    at: &[f64],
    told: &mut dyn FnMut(usize),
) -> Result<DMatrix<f64>, String> {
    let loads = candidates(free).into_iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let mut points = vec![changes.to_vec()];
    let mut steps = Vec::new();
    for (place, value) in smooth.iter().enumerate() {
        let step =
            if at[place] + DIFFERENCE > free[*value].bounds[1].ln() { -DIFFERENCE } else { DIFFERENCE };
        let mut point = changes.to_vec();
        point[*value] = free[*value].change((at[place] + step).exp());
        points.push(point);
        steps.push(step);
    }
    told(points.len() * loads.len());
    let all = bench.figures(&loads, &points)?;
    Ok(DMatrix::from_fn(loads.len(), smooth.len(), |job, value| {
        (all[value + 1][job].ln() - all[0][job].ln()) / steps[value]
    }))
}

fn with(information: &DMatrix<f64>, rows: &DMatrix<f64>, job: usize, noise: f64) -> DMatrix<f64> {
    let row = rows.row(job);
    information + row.transpose() * row / (noise * noise)
}

/// Returns, for each value in `values`, the name of the job to measure next, since its figure would
/// determine this value best. `None`: no job would halve the uncertainty of the value. Before the
/// model runs, calls `told` with the number of runs to come.
///
/// # Errors The model cannot run the jobs; the error is one line.
pub fn more(
    open: &Open<'_>,
    values: &[usize],
    told: &mut dyn FnMut(usize),
) -> Result<Vec<Option<String>>, String> {
    let rows = rows(open.bench, open.free, open.smooth, open.changes, open.at, told)?;
    let count = open.smooth.len();
    let pulled = open.information + DMatrix::<f64>::identity(count, count) / (PULL * PULL);
    let mut jobs = Vec::new();
    for value in values {
        let half = |information: &DMatrix<f64>| 2.0 * solve::variances(information).0[*value].sqrt();
        let before = half(&pulled);
        let best = (0..rows.nrows())
            .map(|job| (half(&with(&pulled, &rows, job, open.noise)), job))
            .min_by(|a, b| a.0.total_cmp(&b.0));
        // A job is worth its time if it halves the uncertainty.
        jobs.push(best.filter(|(after, _)| *after < before / 2.0).map(|(after, job)| {
            let (rw, kib, depth) = candidates(open.free)[job];
            let whole = if after <= DETERMINED.ln() { "" } else { ", with other jobs" };
            format!("{rw} {}, depth {depth}{whole}", size(kib * 1024))
        }));
    }
    Ok(jobs)
}

/// Returns the jobs to run on the board before a fit, as a fio job file whose comments say which
/// values each job determines. `free`: the values to fit; `noise`: expected standard deviation of a
/// figure, as a share of it. Before the model runs, calls `told` with the number of runs to come.
///
/// # Errors The model cannot run the jobs; the error is one line.
pub fn jobs(bench: &Bench, free: &[Free], noise: f64, told: &mut dyn FnMut(usize)) -> Result<String, String> {
    let smooth: Vec<usize> = (0..free.len()).filter(|at| free[*at].steps.is_empty()).collect();
    let at: Vec<f64> = smooth.iter().map(|value| free[*value].before.ln()).collect();
    let changes: Vec<String> = free.iter().map(|free| free.change(free.before)).collect();
    let rows = rows(bench, free, &smooth, &changes, &at, told)?;
    let count = smooth.len();
    let mut information = DMatrix::<f64>::identity(count, count) / (PULL * PULL);
    let mut chosen: Vec<(usize, Vec<usize>)> = Vec::new();
    let halves = |information: &DMatrix<f64>| -> Vec<f64> {
        solve::variances(information).0.iter().map(|variance| 2.0 * variance.sqrt()).collect()
    };
    while chosen.len() < JOBS_MOST {
        let before = halves(&information);
        if before.iter().all(|half| *half <= KNOWN.ln()) && chosen.len() > count {
            break;
        }
        let gain = |job: usize| {
            let after = halves(&with(&information, &rows, job, noise));
            before.iter().zip(after).map(|(before, after)| (before / after.max(1e-12)).ln()).sum::<f64>()
        };
        let left = (0..rows.nrows()).filter(|job| !chosen.iter().any(|(other, _)| other == job));
        let Some((gained, job)) = left.map(|job| (gain(job), job)).max_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        if gained < 0.02 {
            break;
        }
        information = with(&information, &rows, job, noise);
        let after = halves(&information);
        let better = (0..count).filter(|value| after[*value] < before[*value] * 0.8).collect();
        chosen.push((job, better));
    }
    // Reads come first, since writes change a card's speed for a while.
    chosen.sort_by_key(|(job, _)| *job);
    let known = halves(&information);
    let mut text = "\
# What to run on the board, for `mmcq fit`. In a folder of a file system that is on the card:
#   fio --output-format=json --output=measured.json THIS-FILE
# It writes the file mmcq-fit.bin there, and nothing else.
# How well these jobs would tell each value, where the board is near to what the model has now:
"
    .to_owned();
    for (place, value) in smooth.iter().enumerate() {
        let free = &free[*value];
        let known = match known[place] {
            half if half <= DETERMINED.ln() => format!("within {:.0} %", 100.0 * half.exp_m1()),
            _ => "not by any of these jobs".to_owned(),
        };
        text += &format!("# {}: {known}\n", free.key);
    }
    text += &format!(
        "\n[global]\nfilename=mmcq-fit.bin\nsize={FILE_SIZE}\ndirect=1\nioengine=libaio\ntime_based\nruntime=20\n"
    );
    for (job, better) in &chosen {
        let (kind, kib, depth) = candidates(free)[*job];
        let (rw, fsync) = parted(kind);
        let fsync = if fsync == "0" { "" } else { "fsync=1\n" };
        let names: Vec<&str> = better.iter().map(|value| free[smooth[*value]].key.as_str()).collect();
        let what = if names.is_empty() { "a second figure".to_owned() } else { names.join(", ") };
        text += &format!(
            "\n# For {what}\n[{}]\nstonewall\nrw={rw}\nbs={}\niodepth={depth}\n{fsync}",
            name((kind, kib, depth)),
            size(kib * 1024)
        );
    }
    Ok(text)
}
