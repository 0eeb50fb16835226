//! Loads that were recorded elsewhere: readers of several formats, and the conversion into workers.
//!
//! A reader returns [`Event`]s one after the other, and stores only a line or a record at a time.
//! (Only the events of Perfetto must all be sorted first.) [`read`] merges several files by time.
//! [`plan`](plan::plan) makes workers from the events, with their requests in a
//! [`Script`](crate::fio::script::Script). [`export`] writes such a recording of a run.

mod blkparse;
mod blktrace;
mod csv;
mod described;
mod devices;
pub mod export;
mod ftrace;
mod iolog;
mod lines;
pub mod passed;
mod perfetto;
pub mod plan;
mod programs;
mod records;
pub mod snoop;
mod words;

pub use csv::unit_ns;
pub use words::time_ns;

use crate::fio::{ParseError, Place};
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Operation of a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads data from the device.
    Read,
    /// Writes data to the device.
    Write,
    /// Flushes the cache of the device.
    Flush,
    /// Discards blocks: the card need not keep their content.
    Discard,
}

/// A request of a device as the trace recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Start of the request in ns. Time 0 is a moment that the trace has chosen.
    pub at_ns: u64,
    /// Operation of the request.
    pub op: Op,
    /// Whether the write is complete only when it is on the medium.
    pub durable: bool,
    /// Whether the device's cache must be flushed before this request.
    pub flush_first: bool,
    /// Number that the reader gave to the device or file which the request accessed.
    pub device: u32,
    /// Offset in the device or file of the request's first byte.
    pub offset: u64,
    /// Length of the request in bytes; 0 for a flush.
    pub bytes: u64,
    /// Number of the process that made the request.
    pub process: u32,
    /// Name of the program that the process ran; `None`: the trace has no names.
    pub program: Option<Arc<str>>,
    /// Time in ns from start to end of the request; `None`: the record does not have it.
    pub took_ns: Option<u64>,
}

/// Kind of an event in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A request begins: the field describes it.
    Begins(Record),
    /// All requests that lie inside this range of a device are complete.
    Ends {
        /// Number that the reader of the trace gave to the device or file of the range.
        device: u32,
        /// Offset in bytes of the range's first byte on the device.
        offset: u64,
        /// Length of the range in bytes.
        bytes: u64,
    },
}

/// An event in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the event in ns; the trace decides from when the time counts.
    pub at_ns: u64,
    /// Place of the event in the trace (file, and line or byte), for error messages.
    pub place: Place,
    /// Kind of the event.
    pub what: What,
}

/// Events of one trace file, or the error that ended its reading.
type Events = Box<dyn Iterator<Item = Result<Event, ParseError>>>;

/// Format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's I/O log, version 2 or 3.
    Iolog,
    /// Default output of blkparse.
    Blkparse,
    /// The files of blktrace.
    Blktrace,
    /// The block events of Linux's tracefs.
    Ftrace,
    /// The block events of ftrace in a trace of Perfetto.
    Perfetto,
    /// Values in columns; the user gives a map of the columns.
    Csv,
    /// Traces of Microsoft Research Cambridge (SNIA).
    Msr,
    /// Traces of the Storage Performance Council (UMass).
    Spc,
    /// Input traces of the simulator MQSim.
    Mqsim,
    /// Columns of the published traces of a Pixel 6a.
    Pixel,
}

impl Format {
    /// All formats of recordings.
    pub const ALL: [Format; 10] = [
        Format::Iolog,
        Format::Blkparse,
        Format::Blktrace,
        Format::Ftrace,
        Format::Perfetto,
        Format::Csv,
        Format::Msr,
        Format::Spc,
        Format::Mqsim,
        Format::Pixel,
    ];

    /// Returns the name of the format in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Iolog => "iolog",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Ftrace => "ftrace",
            Format::Perfetto => "perfetto",
            Format::Csv => "csv",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Mqsim => "mqsim",
            Format::Pixel => "pixel",
        }
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Format::ALL.map(Format::name).join(", ");
        let found = Format::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("expected one of: {names}"))
    }
}

/// Which event of a recorded request gives the time at which the replay starts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// The arrival of the request in the block layer, before merging.
    #[default]
    Queued,
    /// The arrival of the request in the driver, after merging.
    Issued,
    /// The completion of the request.
    Completed,
}

impl Moment {
    /// Returns blktrace's letter for this event of a request.
    pub fn letter(self) -> &'static str {
        match self {
            Moment::Queued => "Q",
            Moment::Issued => "D",
            Moment::Completed => "C",
        }
    }
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Moment::Queued, Moment::Issued, Moment::Completed];
        let found = all.into_iter().find(|moment| moment.letter() == name);
        found.ok_or_else(|| "expected Q, D or C".to_owned())
    }
}

/// Options for reading a trace.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Format of the trace; `None`: detected from the start of the file.
    pub format: Option<Format>,
    /// Map of the columns, for [`Format::Csv`]; `None`: the user gave none.
    pub columns: Option<String>,
    /// Length in ns of the trace's unit of time, where the format does not define it; `None`: the
    /// default of the format.
    pub unit_ns: Option<u64>,
    /// Event of a request whose time counts as the request's time.
    pub moment: Moment,
    /// Name of the only device or file whose requests are read; `None`: all.
    pub device: Option<String>,
    /// Whether a trace without times is refused, because the replay needs the time of each request.
    pub needs_times: bool,
}

impl Reading {
    /// Refuses an option that has no effect on a trace of this format.
    fn has_effect(&self, format: Format) -> Result<(), ParseError> {
        let (name, letter) = (format.name(), self.moment.letter());
        let in_columns = !matches!(
            format,
            Format::Iolog | Format::Blkparse | Format::Blktrace | Format::Ftrace | Format::Perfetto
        );
        let is_timed = in_columns || format == Format::Iolog;
        let fault = |option: &str, why: &str| {
            Err(ParseError::new(
                &Place::Whole(option.to_owned()),
                format!("format {name} {why}; expected none"),
            ))
        };
        match (self.unit_ns, &self.columns) {
            (Some(_), _) if !is_timed => fault("--time-unit", "has a unit of its own"),
            (Some(_), None) if csv::preset(format).is_some() => fault("--time-unit", "has a unit of its own"),
            (_, Some(_)) if !in_columns => fault("--columns", "has none"),
            _ if is_timed && self.moment != Moment::default() => {
                fault(&format!("--event {letter}"), "has one time for each request")
            }
            _ => Ok(()),
        }
    }
}

/// Number of bytes at the start of a file from which its format is detected.
const HEAD_BYTES: u64 = 16 << 10;

/// Returns the trace files that a name stands for: the named file, or the files that blktrace wrote
/// for each CPU.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let of_cpu = |cpu: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".blktrace.{cpu}"));
        PathBuf::from(name)
    };
    if path.exists() || !of_cpu(0).exists() {
        return vec![path.to_owned()];
    }
    // blktrace writes no file for a CPU without events.
    (0..4096).map(of_cpu).filter(|file| file.exists()).collect()
}

/// Returns the events of all files, merged by time, and the format of the first file. If times
/// decrease within a file, its events stay in the order of the file. The path `-` means standard
/// input.
pub fn read(paths: &[PathBuf], reading: &Reading) -> Result<(Events, Format), ParseError> {
    let (mut all, mut first) = (Vec::new(), None);
    for path in paths {
        let (events, format) = open(path, reading)?;
        first.get_or_insert(format);
        all.push(events);
    }
    let Some(format) = first else {
        return Err(ParseError::new(&Place::Whole("trace".to_owned()), "expected a file"));
    };
    let events: Events = match all.len() {
        1 => all.remove(0),
        _ => Box::new(Merged { heads: all.iter_mut().map(Iterator::next).collect(), all }),
    };
    Ok((events, format))
}

/// Returns whether the path is a named pipe, whose opening would wait for a writer. Pipes in
/// `/dev/fd`, which a shell passes, have a writer.
pub fn is_fifo(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let handed = path.starts_with("/dev/fd") || path.starts_with("/proc");
        !handed && std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

fn open(path: &Path, reading: &Reading) -> Result<(Events, Format), ParseError> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let place = Place::Whole(name.clone());
    let failed = |error: std::io::Error| ParseError::new(&place, error.to_string());
    if !is_stdin && is_fifo(path) {
        let why = "a named pipe, which may never end; expected a file, or - with the pipe as standard input";
        return Err(ParseError::new(&place, why));
    }
    let mut input: Box<dyn BufRead> = match is_stdin {
        true => Box::new(BufReader::new(std::io::stdin())),
        false => Box::new(BufReader::with_capacity(1 << 16, std::fs::File::open(path).map_err(failed)?)),
    };
    let mut head = Vec::new();
    Read::take(&mut input, HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    let format = match reading.format {
        Some(format) => format,
        None if reading.columns.is_some() => Format::Csv,
        None => detect(&head).map_err(|why| ParseError::new(&place, why))?,
    };
    reading.has_effect(format)?;
    let input: Box<dyn BufRead> = Box::new(Cursor::new(head).chain(input));
    let events: Events = match format {
        Format::Blktrace => Box::new(blktrace::Blktrace::new(name, input, reading)),
        Format::Perfetto => Box::new(perfetto::Perfetto::new(name, input, reading)),
        Format::Iolog => Box::new(iolog::Iolog::new(lines::Lines::new(name, input), reading)?),
        Format::Blkparse => Box::new(blkparse::Blkparse::new(lines::Lines::new(name, input), reading)),
        Format::Ftrace => Box::new(ftrace::Ftrace::new(lines::Lines::new(name, input), reading)),
        _ => {
            let columns = match (csv::preset(format), &reading.columns) {
                (_, Some(given)) => given.as_str(),
                (Some(preset), None) => preset,
                (None, None) => {
                    let why = "CSV: expected --columns (time=..,op=..,offset=..,bytes=..), or a preset";
                    return Err(ParseError::new(&place, why));
                }
            };
            Box::new(csv::Csv::new(lines::Lines::new(name, input), columns, reading)?)
        }
    };
    Ok((events, format))
}

/// Returns the format of a trace, detected from the start of its file.
fn detect(head: &[u8]) -> Result<Format, String> {
    if head.starts_with(&[0x1f, 0x8b]) {
        return Err("compressed by gzip; expected what `gzip -dc FILE | mmcq replay -` reads".to_owned());
    }
    if blktrace::is_one(head) {
        return Ok(Format::Blktrace);
    }
    if perfetto::is_one(head) {
        return Ok(Format::Perfetto);
    }
    let text = String::from_utf8_lossy(head);
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    if first.starts_with("fio version ") {
        return Ok(Format::Iolog);
    }
    if first.starts_with("# tracer:") || text.contains(": block_") {
        return Ok(Format::Ftrace);
    }
    if std::iter::once(first).chain(lines).take(50).any(blkparse::is_one) {
        return Ok(Format::Blkparse);
    }
    let known = [Format::Msr, Format::Spc, Format::Mqsim, Format::Pixel];
    known.into_iter().find(|&format| csv::is_one(format, first)).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        match first.is_empty() {
            true => "empty: expected a trace".to_owned(),
            false => format!("format not recognised; expected --format of one of: {names}"),
        }
    })
}

/// Returns the format of a trace file; `None`: the file does not begin like a trace, or cannot be
/// read.
pub fn format(path: &Path) -> Option<Format> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    detect(&head).ok()
}

/// Events of several trace files merged by time, such as the files that blktrace writes for each
/// CPU.
struct Merged {
    heads: Vec<Option<Result<Event, ParseError>>>,
    all: Vec<Events>,
}

impl Iterator for Merged {
    type Item = Result<Event, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        // An error comes before all events.
        let key = |head: &Option<Result<Event, ParseError>>| match head {
            Some(Ok(event)) => Some(event.at_ns + 1),
            Some(Err(_)) => Some(0),
            None => None,
        };
        let earliest = (0..self.heads.len())
            .filter(|&i| self.heads[i].is_some())
            .min_by_key(|&i| key(&self.heads[i]))?;
        let next = self.all[earliest].next();
        std::mem::replace(&mut self.heads[earliest], next)
    }
}
