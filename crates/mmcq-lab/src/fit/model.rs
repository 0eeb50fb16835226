//! Runs the measured jobs on the model.

use super::measured::{self, Figure, Load, What};
use crate::board;
use crate::fio::job::{Job, Size};
use crate::fio::options;
use crate::fio::stats::Stats;
use crate::fio::{self, Place};
use crate::params::{self, Param};
use crate::platform::{JOB, Platform};
use crate::recorded::export;
use crate::runner::{self, Outcome, Run, Setting};
use mmcq_sim::parallel;

/// Largest number of bytes that a run of the model transfers, unless [`LEAST_IOS`] or the caches of
/// the card need more.
const MOST_BYTES: u64 = 32 << 20;
/// Smallest number of I/Os in a run of the model, since a steady rate needs some completions.
const LEAST_IOS: u64 = 6;
/// Longest run in ns of time-based jobs that run together. They are limited by time, not by bytes:
/// otherwise the slower job would run alone after the faster has ended. Other jobs that run
/// together keep their length.
const TOGETHER_NS: u64 = 1_000_000_000;

/// Board, card, stack and their changes, with which the model runs the jobs of a fit.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Name of the board.
    pub platform: String,
    /// Name of a card that replaces the board's own; `None`: the board's own.
    pub card: Option<String>,
    /// The stack that was measured.
    pub setting: Setting,
    /// Seed of all random numbers of the model.
    pub seed: u64,
    /// Changes of board, card and all jobs, as in `--set`.
    pub changes: Vec<String>,
    /// Largest number of I/Os of a job in the model.
    pub ios: u64,
    /// Whether a job of the model has [`ios`](Self::ios) I/Os, however many bytes these transfer.
    /// If false, a job transfers at most 32 MiB, or twice what the caches of the card hold.
    pub only_ios: bool,
    /// Number of threads that run the model.
    pub threads: usize,
}

impl Bench {
    /// Largest number of I/Os of a job in the model, if no number is given.
    pub const IOS: u64 = 3000;

    /// Returns the changes (`key=value`) of board and card, without those of the jobs.
    pub fn of_board(&self) -> Vec<String> {
        self.changes.iter().filter(|change| !change.starts_with(JOB)).cloned().collect()
    }

    /// Returns whether the card's file describes how the card reads ahead, or the size of its flash
    /// pages.
    ///
    /// # Errors
    /// The board or the card cannot be loaded; the error is one line.
    pub fn card_reads_ahead(&self) -> Result<bool, String> {
        let all = params::all(&self.platform, self.card.as_deref(), &self.of_board());
        let keys = ["flash.read.prefetch_kib", "flash.read.page_kib"];
        let is_one = |param: &Param| param.value.is_some() && keys.iter().any(|key| param.key.ends_with(key));
        all.map(|all| all.iter().any(is_one)).map_err(|error| error.to_string())
    }

    /// Returns the figures of all loads at each point, where a point is a list of changes
    /// `key=value`.
    ///
    /// # Errors
    /// A load cannot be run; the error is one line.
    pub fn figures(&self, loads: &[Load], points: &[Vec<String>]) -> Result<Vec<Vec<f64>>, String> {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); points.len()];
        let mut at = 0;
        parallel::in_order(
            points.len() * loads.len(),
            self.threads,
            |at| self.load(&loads[at % loads.len()], &points[at / loads.len()]),
            |figures| {
                all[at / loads.len()].extend(figures?);
                at += 1;
                Ok::<_, String>(())
            },
        )?;
        Ok(all)
    }

    /// Returns the figures of a load that the model gives at one point (a list of changes).
    fn load(&self, load: &Load, point: &[String]) -> Result<Vec<f64>, String> {
        let place = load.figures.first().map_or("", |figure| figure.place.as_str());
        let fault = |what: &dyn std::fmt::Display| format!("{place}: {what}");
        let mut changes = self.of_board();
        changes.extend(load.changes.iter().chain(point).cloned());
        let platform = Platform::load_with(&self.platform, &changes).map_err(|error| fault(&error))?;
        if !load.trace.is_empty() {
            return self.replayed(load, &platform);
        }
        let mut jobs = load.jobs.clone();
        for change in self.changes.iter().filter_map(|change| change.strip_prefix(JOB)) {
            let at = Place::Whole(format!("--set job.{change}"));
            let (option, value) = change.split_once('=').unwrap_or((change, ""));
            for job in &mut jobs {
                options::apply(job, option, Some(value), &at).map_err(|error| error.to_string())?;
                job.check().map_err(|error| fault(&error))?;
            }
        }
        let cut = cut(&mut jobs, self.ios, self.most_bytes(&platform).map_err(|error| fault(&error))?);
        let workers = fio::expand(&jobs).map_err(|error| fault(&error))?;
        let setting = match &load.setting {
            Some(name) => name.parse().map_err(|error: String| fault(&error))?,
            None => self.setting,
        };
        let run = Run {
            workers: &workers,
            platform: &platform,
            card: self.card.as_deref(),
            setting,
            seed: load.seed.unwrap_or(self.seed),
        };
        let outcome = runner::run(&run, None, &mut |_, _| ()).map_err(|error| fault(&error))?;
        if outcome.counters.failed > 0 {
            return Err(fault(&format_args!("{} I/Os failed in the model", outcome.counters.failed)));
        }
        let of = |figure: &Figure| {
            let value = value(figure, &jobs, &outcome, cut.is_some());
            value
                .filter(|value| value.is_finite() && *value > 0.0)
                .ok_or_else(|| format!("{}: {}: nothing of it moved in the model", figure.place, figure.name))
        };
        load.figures.iter().map(of).collect()
    }
}

impl Bench {
    /// Returns the largest number of bytes that a job may transfer in the model; [`Bench::ios`]
    /// limits the number of its I/Os separately. The limit is at least twice the size of the card's
    /// caches (DRAM and SLC), so that they are full for half of the job: the rate falls then.
    fn most_bytes(&self, platform: &Platform) -> Result<u64, board::BoardError> {
        if self.only_ios {
            return Ok(u64::MAX);
        }
        let profile = board::profile(platform, self.card.as_deref())?;
        let flash = profile.flash();
        let slc = flash.spread.and_then(|spread| spread.slc).map_or(0, |slc| slc.bytes);
        Ok(MOST_BYTES.max(flash.cache_bytes.saturating_add(slc).saturating_mul(2)))
    }

    /// Returns the number of bytes that the model's run of this load transfers, if the load was
    /// longer on the board; otherwise `None`.
    pub(super) fn cut_to(&self, load: &Load) -> Option<u64> {
        let mut changes = self.of_board();
        changes.extend(load.changes.iter().cloned());
        let platform = Platform::load_with(&self.platform, &changes).ok()?;
        cut(&mut load.jobs.clone(), self.ios, self.most_bytes(&platform).ok()?)
    }

    /// Returns the figures of a trace that is replayed on this board.
    fn replayed(&self, load: &Load, platform: &Platform) -> Result<Vec<f64>, String> {
        let place = load.figures.first().map_or("", |figure| figure.place.as_str());
        let fault = |what: &dyn std::fmt::Display| format!("{place}: {what}");
        if let Some(change) = self.changes.iter().find(|change| change.starts_with(JOB)) {
            return Err(fault(&format_args!("--set {change}: a trace has no jobs")));
        }
        let (workers, card) = (&load.trace[..], self.card.as_deref());
        let run = Run { workers, platform, card, setting: self.setting, seed: self.seed };
        let (outcome, completed) = export::completed(|| runner::run(&run, None, &mut |_, _| ()));
        let outcome = outcome.map_err(|error| fault(&error))?;
        if outcome.counters.failed > 0 {
            return Err(fault(&format_args!("{} I/Os failed in the model", outcome.counters.failed)));
        }
        let of = |figure: &Figure| {
            let value = match figure.what {
                What::Device(class) => measured::of_trace(class, &completed),
                _ => None,
            };
            let absent = || fault(&format_args!("{}: none of it was alone in the model", figure.name));
            value.filter(|value| *value > 0.0).ok_or_else(absent)
        };
        load.figures.iter().map(of).collect()
    }
}

/// Shortens jobs for the model. A single job gets at most `ios` I/Os and `most_bytes` bytes;
/// several jobs that run together get a limited time. Returns the number of bytes that a single job
/// now transfers, if it was longer before. Then the steady rate of the short run stands for the
/// rate of the whole job. `None`: the job was short enough, or there are several.
fn cut(jobs: &mut [Job], ios: u64, most_bytes: u64) -> Option<u64> {
    for job in &mut *jobs {
        // No ramp time is needed, since the steady rate leaves the beginning out.
        job.ramp_time_ns = 0;
        (job.write_bw_log, job.write_lat_log, job.write_iops_log, job.write_iolog) = Default::default();
    }
    let [job] = jobs else {
        for job in jobs.iter_mut().filter(|job| job.time_based) {
            job.runtime_ns = job.runtime_ns.map(|ns| ns.min(TOGETHER_NS));
        }
        return None;
    };
    let block = job.max_block().max(512);
    let copies = u64::from(job.numjobs.max(1));
    let most = (ios.max(LEAST_IOS) * block).min(most_bytes.max(LEAST_IOS * block * copies)) / copies;
    let most = most.next_multiple_of(block).max(block);
    let own = match (job.io_size, job.size, job.number_ios) {
        _ if job.time_based => None,
        (_, _, Some(ios)) => Some(ios.saturating_mul(block)),
        (Some(Size::Bytes(bytes)), ..) | (None, Some(Size::Bytes(bytes)), _) => {
            Some(bytes.saturating_mul(job.loops.into()))
        }
        _ => None,
    };
    if own.is_some_and(|own| own <= most) {
        return None;
    }
    job.time_based = false;
    job.runtime_ns = None;
    job.loops = 1;
    job.number_ios = None;
    job.io_size = Some(Size::Bytes(most));
    Some(most * copies)
}

fn value(figure: &Figure, jobs: &[Job], outcome: &Outcome, cut: bool) -> Option<f64> {
    let workers = |sections: usize| jobs.iter().take(sections).map(|job| job.numjobs as usize).sum::<usize>();
    let mut stats = Stats::default();
    for of_worker in outcome.stats.get(workers(figure.sections.0)..workers(figure.sections.1))? {
        stats.sum(of_worker);
    }
    let dir = &stats.dirs[figure.dir.index()];
    match figure.what {
        What::Rate => {
            let all: u64 = stats.dirs.iter().map(|dir| dir.io_bytes).sum();
            let share = dir.io_bytes as f64 / all.max(1) as f64;
            let whole = dir.io_bytes as f64 / f64::from(1 << 20) / (dir.active.ns().max(1) as f64 / 1e9);
            let steady = outcome.counters.steady.mib_per_s().filter(|_| cut);
            Some(steady.map_or(whole, |rate| rate * share))
        }
        What::Device(_) => None,
        What::Mean => Some(dir.lat.ns.mean / 1e3),
        What::Percentile(percent) => Some(*dir.lat.histogram.percentiles(&[percent]).first()? as f64 / 1e3),
    }
}
