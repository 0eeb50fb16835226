//! A cell of the sweep `mmcq reproduce never`: board and card, load, depth, cost of a wake-up, and
//! the amount of work.

use super::{EARLY, OURS, Pause, Place};
use crate::fio::Worker;
use crate::platform::{Platform, PlatformError};
use crate::reproduce::workers;
use crate::runner::{RunError, Setting};
use std::fmt;

/// Number of requests that Linux's scheduler accepts for a queue of 64 tags. Further requests of a
/// job wait in the job.
const SCHEDULER_REQUESTS: u32 = 128;

/// Length in seconds of a run with a reader beside a writer, which gives 400 reads or more.
const BESIDE_S: u64 = 4;

/// Load that the jobs of a cell (one compared case) run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// All jobs read the same file from beginning to end (`rw=read`), as in the published jobs.
    Read,
    /// All jobs write the same file from beginning to end.
    Write,
    /// The jobs read at random places of the card.
    RandRead,
    /// The jobs write at random places of the card.
    RandWrite,
    /// Of ten requests of a job, seven read and three write, at random places.
    Mixed,
    /// The jobs write at random places of the card; each job flushes after each of its writes and
    /// waits for the flush.
    Flushed,
    /// A single job reads 4 KiB at random places, one request at a time, while the other jobs write
    /// sequentially.
    Beside,
}

impl Load {
    /// Loads for which the rate is compared.
    pub const RATES: [Load; 5] = [Load::Read, Load::Write, Load::RandRead, Load::RandWrite, Load::Mixed];

    /// Returns the name of the load in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Load::Read => "read",
            Load::Write => "write",
            Load::RandRead => "randread",
            Load::RandWrite => "randwrite",
            Load::Mixed => "70/30",
            Load::Flushed => "fsync",
            Load::Beside => "reader beside writer",
        }
    }

    /// Returns whether jobs of the load write.
    pub fn writes(self) -> bool {
        !matches!(self, Load::Read | Load::RandRead)
    }

    /// Returns whether the load reads or writes a file from beginning to end, so that its requests
    /// may be merged.
    pub fn sequential(self) -> bool {
        matches!(self, Load::Read | Load::Write)
    }
}

/// Settings of mmcq and of Linux that are compared, since they promise the same about a completed
/// write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Side {
    /// mmcq's settings: with Linux's CPU costs, and with its own.
    pub ours: [Setting; 2],
    /// Models of Linux's stacks (settings) with which mmcq's settings are compared.
    pub linux: Vec<Setting>,
}

/// Cell of the sweep: a board, a card and a load with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Board, card, and Linux's settings on this board's host.
    pub place: Place,
    /// Load of the cell: how its jobs read or write.
    pub load: Load,
    /// Size of a request in bytes; with [`Load::Beside`], of a writer's request.
    pub bytes: u64,
    /// Number of requests that a job has under way; with [`Load::Beside`], that a writer has.
    pub depth: u32,
    /// Number of jobs that run at the same time.
    pub jobs: u32,
    /// Time in us to wake a thread.
    pub wake_us: u32,
    /// Pause of the jobs after each request; `None`: they do not pause.
    pub pause: Option<Pause>,
}

impl Cell {
    /// Returns the number of requests that all jobs together have under way.
    pub fn under_way(&self) -> u32 {
        self.depth * self.jobs
    }

    /// Returns the settings that run in this comparison; the setting `limit` comes first.
    pub fn settings(&self) -> impl Iterator<Item = Setting> {
        let sides = self.sides();
        let linux = self.place.linux.iter().copied();
        [Setting::Limit].into_iter().chain(linux).chain(sides.into_iter().flat_map(|side| side.ours))
    }

    /// Returns the groups of settings to compare: mmcq's settings with those of Linux that promise
    /// as much about a completed write.
    pub(super) fn sides(&self) -> Vec<Side> {
        let Place { linux, early, .. } = self.place;
        if early.is_empty() || !self.load.writes() {
            return vec![Side { ours: OURS, linux: linux.to_vec() }];
        }
        let waits = linux.iter().copied().filter(|setting| !early.contains(setting)).collect();
        vec![Side { ours: OURS, linux: waits }, Side { ours: EARLY, linux: early.to_vec() }]
    }

    /// Returns why this cell (board, card and load) is left out: it has more requests under way
    /// than Linux's scheduler accepts. `None`: it is not left out.
    pub fn senseless(&self) -> Option<String> {
        (self.under_way() > SCHEDULER_REQUESTS).then(|| {
            format!(
                "depth {} x {} jobs: Linux's scheduler holds {SCHEDULER_REQUESTS} requests, the others wait in the jobs",
                self.depth, self.jobs
            )
        })
    }

    /// Returns the board of this case, with all three wake-up times set to the case's `wake_us`.
    pub fn platform(&self) -> Result<Platform, PlatformError> {
        let changes = ["wake", "job_wake", "hop"].map(|cost| format!("cost.{cost}_us={}", self.wake_us));
        Platform::load_with(self.place.platform, &changes)
    }

    /// Returns the board on which waking a job's thread (the cost `job_wake`) takes `wake_us` of
    /// this cell (combination of board, card and load). The costs `wake` and `hop` change by as
    /// much as `job_wake`, but are at least 0. (`platform` instead sets all three costs to
    /// `wake_us`.)
    pub(super) fn priced(&self) -> Result<Platform, PlatformError> {
        let costs = Platform::load(self.place.platform)?.costs;
        let more_us = |cost| costs.value(cost) - costs.value("job_wake") + f64::from(self.wake_us);
        let changes =
            ["wake", "job_wake", "hop"].map(|cost| format!("cost.{cost}_us={}", more_us(cost).max(0.0)));
        Platform::load_with(self.place.platform, &changes)
    }

    /// Returns the number of requests of all jobs together, so many that the rate is steady
    /// ([`crate::runner::Steady`]), multiplied by `times`. Of a cell with pauses: 96 or 256 times
    /// `times`. Of other cells the larger one of two numbers:
    ///
    /// - 128 to 3072, by the request size: then the card's cache is full before a quarter of the
    ///   bytes is transferred, and the mean of a random load is near its final value;
    /// - 24 times the number of requests that are under way at a time.
    ///
    /// The number is limited to 96 MiB of data, or to twice the number of requests under way if
    /// this is more.
    fn requests(&self, times: u64) -> u64 {
        if self.pause.is_some() {
            return times * if self.bytes > 65_536 { 96 } else { 256 };
        }
        let base: u64 = match self.bytes {
            0..=4_096 => 3_072,
            4_097..=16_384 => 1_536,
            16_385..=65_536 => 768,
            _ => 128,
        };
        let deep = u64::from(self.under_way()) * 24;
        // More than 96 MiB add nothing: requests of this size hardly merge any more.
        let most = ((96 << 20) / self.bytes).max(u64::from(self.under_way()) * 2);
        times * base.max(deep).min(most).max(64)
    }

    /// Returns the workers that execute the jobs of this cell (a board, a card and a load). The run
    /// has the shortest length that gives a steady rate, multiplied by `times`.
    pub(super) fn workers(&self, times: u64) -> Result<Vec<Worker>, RunError> {
        let mut workers = workers(&self.job(times))?;
        if let Some(pause) = self.pause {
            pause.script(self, self.requests(times), &mut workers);
        }
        Ok(workers)
    }

    /// Returns the case as a fio job, for a run of the shortest length that gives a steady rate,
    /// multiplied by `times`. A job that pauses also has a script.
    pub fn job(&self, times: u64) -> String {
        let global =
            "[global]\nfilename=/dev/mmcblk0\ndirect=1\nioengine=libaio\nnorandommap\nzero_buffers\n";
        let (bytes, depth, jobs) = (self.bytes, self.depth, self.jobs);
        let rw = match self.load {
            Load::Read => "read",
            Load::Write => "write",
            Load::RandRead => "randread",
            Load::RandWrite => "randwrite",
            Load::Mixed => "randrw\nrwmixread=70",
            Load::Flushed => "randwrite\nfsync=1",
            Load::Beside => {
                return format!(
                    "{global}time_based\nruntime={}\n[writer]\nrw=write\nbs={bytes}\niodepth={depth}\n\
                     [reader]\nrw=randread\nbs=4k\niodepth=1\noffset=50%\n",
                    BESIDE_S * times
                );
            }
        };
        if let Some(pause) = self.pause {
            return pause.jobs(global, rw);
        }
        let each = (self.requests(times) / u64::from(jobs)).max(1) * bytes;
        format!("{global}[cell]\nrw={rw}\nbs={bytes}\niodepth={depth}\nnumjobs={jobs}\nio_size={each}\n")
    }
}

/// Returns a size such as `512`, `4k` or `64k`.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 { bytes.to_string() } else { format!("{}k", bytes / 1024) }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { place, load, bytes, depth, jobs, wake_us, pause } = self;
        let (Place { platform, card, .. }, load, bytes) = (place, load.name(), size(*bytes));
        match pause {
            Some(pause) => write!(f, "{platform}, {card}, {load} {bytes}, {pause}, wake {wake_us} us"),
            None => {
                write!(f, "{platform}, {card}, {load} {bytes}, depth {depth}, {jobs} jobs, wake {wake_us} us")
            }
        }
    }
}
