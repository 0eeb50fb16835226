//! A run as one HTML file to pass on: what it did, how near to the limit it was, where its time was
//! spent, and all its figures as data.
//!
//! The file loads nothing, and runs no script unless it has a playground (`live.rs`).
//! [`Compared::of`] runs the load again where a page needs it: in other settings, and with the
//! oscilloscope attached.

#[cfg(feature = "torture")]
pub mod campaigns;
#[cfg(feature = "host")]
pub mod chart;
#[cfg(feature = "host")]
pub mod frame;
#[cfg(feature = "host")]
pub mod listed;
#[cfg(feature = "host")]
pub mod live;
#[cfg(feature = "host")]
mod sections;

#[cfg(feature = "host")]
pub use sections::html;

use crate::fio::stats::Stats;
use crate::params::{self, Param};
use crate::runner::{self, Counters, Outcome, Run, RunError, Setting};
use crate::series::Series;
use crate::trace::{self, Start, Window, picture};
use crate::why::Why;

/// Settings that a page compares: Linux on each kind of host, mmcq, and the physical limit.
const SETTINGS: [Setting; 9] = [
    Setting::None,
    Setting::HsqTag,
    Setting::HsqFifo,
    Setting::LinuxCqe,
    Setting::Close,
    Setting::Patch,
    Setting::Mmcq,
    Setting::MmcqOwn,
    Setting::Limit,
];
/// Approximate number of requests in the window that the oscilloscope shows.
const SCOPE_REQUESTS: u64 = 8;
/// Shortest and longest window of the oscilloscope in ns.
const SCOPE_NS: std::ops::RangeInclusive<u64> = 200_000..=10_000_000;
/// Largest picture of the oscilloscope in bytes. A larger one is left out, since pages are sent by
/// mail.
const SCOPE_BYTES: usize = 150_000;

/// Results of the page's load (its jobs or its trace) in one setting.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Setting with which the load ran.
    pub setting: Setting,
    /// Counters of the run.
    pub counters: Counters,
    /// Measurements of all jobs of the run together.
    pub stats: Stats,
}

/// What a page shows in addition to the results of its own run.
#[derive(Debug)]
pub struct Compared {
    /// Where the time of the run went: data on the bus, busy, CPU and so on; also for the same job
    /// at its physical limit.
    pub why: Why,
    /// Results in each setting that the board supports, including the page's own setting.
    pub settings: Vec<Measured>,
    /// Settings in which the load cannot run, and why.
    pub refused: Vec<(Setting, String)>,
    /// Picture of the bus in the middle of the run, as SVG, or the reason why there is none.
    pub scope: Result<String, String>,
    /// All values of board and card.
    pub params: Vec<Param>,
    /// The stack that served the jobs in the run that the page shows.
    pub setting: Setting,
    /// Rate and depth over the time of the run.
    pub series: Series,
}

impl Compared {
    /// Runs the load of a finished run again: in other settings, and once more with a recording of
    /// the bus for the page's picture. `name` and `changes` are the board's name and its changes
    /// (`--set`). `step` is called with the name of each run before the run starts.
    ///
    /// # Errors
    /// The load cannot run at the physical limit or with another depth, or the values of board and
    /// card cannot be read.
    pub fn of(
        run: &Run<'_>,
        (name, changes): (&str, &[String]),
        outcome: &Outcome,
        series: Series,
        step: &mut dyn FnMut(&str),
    ) -> Result<Self, RunError> {
        let own = Measured::of(run.setting, outcome);
        let (mut settings, mut refused) = (Vec::new(), Vec::new());
        for setting in SETTINGS {
            if setting == run.setting {
                settings.push(own.clone());
                continue;
            }
            step(&format!("setting {}", setting.name()));
            match runner::run(&Run { setting, ..*run }, None, &mut |_, _| ()) {
                Ok(outcome) => settings.push(Measured::of(setting, &outcome)),
                Err(error) if setting == Setting::Limit => return Err(error),
                // The setting is for another kind of host than the board has, or for a card with a
                // queue.
                Err(RunError::Host { .. } | RunError::Queue { .. }) => {}
                Err(error) => refused.push((setting, error.to_string())),
            }
        }
        if !SETTINGS.contains(&run.setting) {
            settings.insert(settings.len() - 1, own);
        }
        let limit = settings.last().map_or_else(|| outcome.counters.clone(), |last| last.counters.clone());
        step("where the time went");
        let why = Why::of(run, outcome.counters.clone(), limit)?;
        step("the bus");
        let scope = scope(run, &series);
        let params = params::all(name, run.card, changes)?;
        Ok(Compared { why, settings, refused, scope, params, setting: run.setting, series })
    }
}

impl Measured {
    fn of(setting: Setting, outcome: &Outcome) -> Self {
        Measured { setting, counters: outcome.counters.clone(), stats: outcome.group() }
    }
}

/// Returns a picture of the bus in the middle of a run, as SVG, or the reason why there is none.
/// `series` is the run's rate and depth over time; it says where the middle is.
pub fn scope(run: &Run<'_>, series: &Series) -> Result<String, String> {
    let from_ns = series.middle_ns().ok_or("no request came")?;
    let few_ns = (SCOPE_REQUESTS * series.turn_ns()).clamp(*SCOPE_NS.start(), *SCOPE_NS.end());
    for length_ns in [few_ns, few_ns / 4, few_ns / 16] {
        let window = Window { start: Start::At(from_ns), before_ns: 0, for_ns: Some(length_ns) };
        let (outcome, recording) = trace::record(window, || runner::run(run, None, &mut |_, _| ()));
        outcome.map_err(|error| error.to_string())?;
        let capture = recording.capture().map_err(|error| error.to_string())?;
        let svg = picture::write(&capture, &format!("From {} of the run", trace::time(from_ns)));
        if svg.len() <= SCOPE_BYTES {
            return Ok(svg);
        }
    }
    Err("too much happens at once for a picture on this page; `mmcq trace` draws it".to_owned())
}
