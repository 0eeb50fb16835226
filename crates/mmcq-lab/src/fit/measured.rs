//! Reads measured figures, and the jobs that they belong to.
//!
//! A file's content decides how it is read:
//!
//! - fio's JSON (`--output-format=json` or `json+`): its `job options` say what to run again;
//! - tables of `iozone -a`;
//! - rows as `mmcq sweep` writes them (JSON lines or CSV);
//! - traces, whose requests are replayed.

mod fio;
mod iozone;
mod rows;
mod trace;

use crate::fio::{Dir, Job, JobFile, Place, Worker};
use crate::fio::{options, value};
use crate::recorded;
use std::path::Path;
use std::sync::Arc;

pub use trace::Class;
pub(super) use trace::figure as of_trace;

/// Size in bytes of the largest file of figures that is read. It is large since json+ has every
/// bucket of a histogram.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Quantity of which a figure gives the measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Mean rate of one direction in MiB/s.
    Rate,
    /// Mean time in us from the submission of an I/O to its completion.
    Mean,
    /// Time in us from submission to completion that this percentage of the I/Os does not exceed.
    Percentile(f64),
    /// Median time in us from the driver to the completion (D2C), of a class of a trace's requests.
    Device(Class),
}

impl What {
    /// Returns the unit of the quantity.
    pub fn unit(self) -> &'static str {
        match self {
            What::Rate => "MiB/s",
            What::Mean | What::Percentile(_) | What::Device(_) => "us",
        }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Rate => f.write_str("rate"),
            What::Mean => f.write_str("mean time"),
            What::Percentile(percent) => write!(f, "p{percent}"),
            What::Device(_) => f.write_str("D2C"),
        }
    }
}

/// A figure that was measured on the board.
#[derive(Clone, Debug)]
pub struct Figure {
    /// File and the place in this file where the figure was read.
    pub place: String,
    /// Name of the job, such as `randread 4k, depth 1`.
    pub name: String,
    /// Quantity that the figure measures.
    pub what: What,
    /// Direction (read or write) of the I/Os that the figure measures.
    pub dir: Dir,
    /// Range of the load's job sections that the figure covers: the index of the first section, and
    /// the index after the last.
    pub sections: (usize, usize),
    /// Largest block size in bytes that the jobs use in the figure's direction.
    pub block_bytes: u64,
    /// Measured value, in the unit of [`Figure::what`].
    pub measured: f64,
}

impl Figure {
    /// Returns whether this figure and `other` are the same measurement, with values that are equal
    /// to the last digit.
    pub fn is_again(&self, other: &Figure) -> bool {
        let of = |figure: &Figure| (figure.what, figure.dir, figure.block_bytes, figure.measured);
        self.name == other.name && of(self) == of(other)
    }
}

/// Jobs that ran together, and their measured figures.
#[derive(Clone, Debug)]
pub struct Load {
    /// Jobs of the load; empty for a trace.
    pub jobs: Vec<Job>,
    /// Workers that replay a trace, in place of jobs.
    pub trace: Arc<[Worker]>,
    /// Changes `key=value` of board, card and jobs for this load only. They come from a sweep's
    /// row: the values that its parameters had there.
    pub changes: Vec<String>,
    /// Name of the setting in a sweep's row; `None`: the setting of the whole fit.
    pub setting: Option<String>,
    /// Seed in a sweep's row; `None`: the seed of the whole fit.
    pub seed: Option<u64>,
    /// Measured figures of the load, such as its rate; at least one.
    pub figures: Vec<Figure>,
}

/// Which figures of a file to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// Percentiles of fio's completion times to read as figures, in addition to rates.
    pub percentiles: &'a [f64],
    /// Job file for rows of a sweep that do not name their own jobs; `None`: all rows must name
    /// them.
    pub job: Option<&'a JobFile>,
    /// Device whose requests are read, as a trace names it; `None`: the trace must have one device.
    pub device: Option<&'a str>,
}

/// Reads the figures of a file, as loads with the jobs that gave them.
///
/// # Errors
/// The file cannot be used; the error is one line with the place and what was expected.
pub fn read(path: &Path, wanted: Wanted<'_>) -> Result<Vec<Load>, String> {
    if recorded::files(path).first().is_some_and(|file| recorded::format(file).is_some()) {
        return trace::read(path, wanted.device).map(|load| vec![load]);
    }
    let name = path.display().to_string();
    let size = std::fs::metadata(path).map_err(|error| format!("{name}: {error}"))?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("{name}: {size} bytes; expected at most {FILE_BYTES_MAX}"));
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{name}: not text"))?;
    read_text(&name, &text, wanted)
}

/// Reads the figures of a text; `name` is the name of its file in errors.
///
/// # Errors
/// The text cannot be used; the error is one line with the place and what was expected.
pub fn read_text(name: &str, text: &str, wanted: Wanted<'_>) -> Result<Vec<Load>, String> {
    let loads = if let Some(header) = iozone::header(text) {
        iozone::read(name, text, header)?
    } else if fio::is_report(text) {
        fio::read(name, text, wanted)?
    } else if rows::are(text) {
        rows::read(name, text, wanted)?
    } else {
        return Err(format!(
            "{name}: no figures; expected fio's JSON (fio --output-format=json), a table of iozone -a, a trace, or \
             rows of mmcq sweep (JSON lines or CSV)"
        ));
    };
    match loads.iter().any(|load| !load.figures.is_empty()) {
        true => Ok(loads),
        false => Err(format!("{name}: no figure in it; expected at least one")),
    }
}

/// Splits the loads' figures into those with one of the block sizes `blocks`, and all others.
/// Without sizes, all figures are in the first part.
///
/// # Errors
/// A text is not a size, or no figure has this size; the error is one line.
pub fn parts(all: Vec<Load>, blocks: &[String]) -> Result<(Vec<Load>, Vec<Load>), String> {
    if blocks.is_empty() {
        return Ok((all, Vec::new()));
    }
    let mut sizes = Vec::new();
    for text in blocks {
        let bytes = value::size(text, 1024).map_err(|what| format!("{text}: expected {what}"))?;
        if !all.iter().flat_map(|load| &load.figures).any(|figure| figure.block_bytes == bytes) {
            return Err(format!("{text}: no figure of --measured has this block size"));
        }
        sizes.push(bytes);
    }
    let part = |load: &Load, wanted: bool| {
        let mut part = load.clone();
        part.figures.retain(|figure| sizes.contains(&figure.block_bytes) == wanted);
        (!part.figures.is_empty()).then_some(part)
    };
    let of = |wanted| all.iter().filter_map(|load| part(load, wanted)).collect();
    Ok((of(true), of(false)))
}

/// Makes the job `name` from its options; `place` says in error messages where the job was read.
fn job<'a>(
    name: &str,
    place: &str,
    given: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) -> Result<Job, String> {
    let at = Place::Whole(place.to_owned());
    let mut job = Job::new(name, at.clone());
    for (option, value) in given {
        options::apply(&mut job, option, value, &at).map_err(|error| error.to_string())?;
        job.given.extend(value.map(|value| (option.to_owned(), value.to_owned())));
    }
    job.check().map_err(|error| format!("{place}: {}", error.message))?;
    Ok(job)
}

/// Returns the name of a job for one direction, such as `randread 4k, depth 1`.
pub(super) fn in_words(job: &Job, dir: Dir) -> String {
    let word = match (job.rw.mixed(), dir) {
        (true, Dir::Read) => format!("{} (read)", job.rw.word()),
        (true, Dir::Write) => format!("{} (write)", job.rw.word()),
        (false, _) => job.rw.word().to_owned(),
    };
    let many = if job.numjobs > 1 { format!(", {} jobs", job.numjobs) } else { String::new() };
    let bs = &job.bs[dir.index()];
    let least = if bs.min < bs.max { format!("{}-", size(bs.min)) } else { String::new() };
    let flushes = if job.fsync.max(job.fdatasync) > 0 || job.sync { ", flushes" } else { "" };
    let rates = [job.rate_bytes[dir.index()].is_some(), job.rate_iops[dir.index()].is_some()];
    let paced = if rates.contains(&true) || job.thinktime_ns > 0 { ", paced" } else { "" };
    format!("{word} {least}{}, depth {}{many}{flushes}{paced}", size(bs.max), job.depth())
}

/// Returns a number of bytes as fio writes it, such as `4k`.
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{}M", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{}k", b >> 10),
        b => b.to_string(),
    }
}
