//! Options about a recorded load (a trace), for all commands that replay one.

use super::{Error, voice};
use clap::Args;
use mmcq_lab::fio::script::Remap;
use mmcq_lab::recorded::plan::{self, Mode, Plan, Wishes};
use mmcq_lab::recorded::{self, Format, Moment, Reading};
use std::path::{Path, PathBuf};

/// Options about how a trace is read, and when its requests start.
#[derive(Clone, Debug, Args)]
pub struct Traced {
    /// Format of the trace. Without this option the program recognises it by how the file begins
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Columns of a CSV file, by number from 1 or by name in the first line: time, op, offset or
    /// sector, bytes or sectors, process, device, took (how long the request took). unit=s, ms, us,
    /// 100ns or ns gives the unit of the times. read=0 and write=W give the texts for reads and
    /// writes in column op
    #[arg(long, value_name = "KEY=COLUMN,...")]
    columns: Option<String>,
    /// Unit of the trace's times, if its format does not fix the unit: s, ms, us, 100ns, ns
    /// [default: us for iolog, ns for csv]
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    time_unit: Option<u64>,
    /// Event whose time counts as the time of a request: Q (queued, before merging), D (issued to
    /// the driver, merged), C (complete)
    #[arg(long, value_name = "EVENT", default_value = "Q")]
    event: Moment,
    /// Replays only this device or file, as the trace names it. Without this option, the devices of
    /// a trace are placed one after the other on the card
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// When requests start. open: at the trace's times, whatever the card does. closed: as soon as
    /// fewer than --depth requests are under way. think: when the request that the process had
    /// waited for has ended, and its pause in the trace has passed; this is for a card of another
    /// speed
    #[arg(long, value_name = "MODE", default_value = "open")]
    mode: Mode,
    /// Largest number of requests under way: in all with --mode closed, of each process otherwise
    #[arg(long, value_name = "N", default_value_t = DEPTH, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Factor by which all times of the trace are multiplied: 0.5 replays twice as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// Shortens longer pauses to this length, such as 10ms or 2s
    #[arg(long, value_name = "TIME", value_parser = time)]
    gap_max: Option<u64>,
    /// Treatment of offsets beyond the card's end. refuse: an error. modulo: they continue at 0.
    /// scale: parts of 1 MiB are moved so that the whole trace covers the whole card
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    remap: Remap,
    /// Sorts the requests by their times
    #[arg(long)]
    sort: bool,
    /// Replays only this number of requests, the first ones of the trace
    #[arg(long, value_name = "N", default_value_t = plan::REQUESTS_MAX as u64, value_parser = super::whole)]
    count: u64,
    /// Leaves out: flush, discard, fua (such a write becomes an ordinary one)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = ["flush", "discard", "fua"])]
    without: Vec<String>,
}

/// Default of `--depth`: largest number of requests under way, of a closed loop or of each process.
const DEPTH: u32 = 64;

/// Parses the name of a unit of time, such as `us`. Returns the unit in ns.
fn unit(text: &str) -> Result<u64, String> {
    recorded::unit_ns(text).ok_or_else(|| "expected s, ms, us, 100ns or ns".to_owned())
}

/// Parses a time with its unit, such as `10ms`. Returns ns.
fn time(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let ns = recorded::unit_ns(name).and_then(|unit_ns| recorded::time_ns(number, unit_ns));
    ns.ok_or_else(|| "expected a number and s, ms, us or ns: 10ms".to_owned())
}

/// Parses the factor by which all times of a trace are multiplied.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|f| (0.0..=1e6).contains(f));
    factor.ok_or_else(|| "expected a number from 0 to 1000000".to_owned())
}

/// Returns the name of the trace in these files for reports.
pub fn name(traces: &[PathBuf]) -> String {
    match traces.first() {
        Some(path) if path.as_os_str() == "-" => "standard input".to_owned(),
        Some(path) => path.display().to_string(),
        None => String::new(),
    }
}

impl Traced {
    /// Returns whether this file is a trace: it begins like one, or the user gave `--format` or
    /// `--columns`.
    pub fn is_trace(&self, path: &Path) -> bool {
        let known = || recorded::files(path).first().is_some_and(|file| recorded::format(file).is_some());
        self.format.is_some() || self.columns.is_some() || known()
    }

    /// Returns the name of the first option about traces that the user gave, to refuse it for a
    /// load that is not a trace; `None`: the user gave none.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--format", self.format.is_some()),
            ("--columns", self.columns.is_some()),
            ("--time-unit", self.time_unit.is_some()),
            ("--event", self.event != Moment::default()),
            ("--device", self.device.is_some()),
            ("--mode", self.mode != Mode::default()),
            ("--depth", self.depth != DEPTH),
            ("--scale", self.scale != 1.0),
            ("--gap-max", self.gap_max.is_some()),
            ("--remap", self.remap != Remap::default()),
            ("--sort", self.sort),
            ("--count", self.count != plan::REQUESTS_MAX as u64),
            ("--without", !self.without.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// Returns the options that say how the trace is replayed.
    pub fn wishes(&self) -> Wishes {
        let without = |what: &str| self.without.iter().any(|given| given == what);
        Wishes {
            mode: self.mode,
            depth: self.depth,
            scale: self.scale,
            gap_max_ns: self.gap_max,
            remap: self.remap,
            sort: self.sort,
            count: usize::try_from(self.count).unwrap_or(usize::MAX),
            without_flush: without("flush"),
            without_fua: without("fua"),
            without_discard: without("discard"),
        }
    }

    /// Returns the option of the user that may be the reason why a trace has no requests to replay,
    /// and what is wrong with it; `None`: no option explains it. `files` are the files of the
    /// trace.
    fn why_nothing(&self, files: &[PathBuf]) -> Option<String> {
        let looks =
            files.first().filter(|file| !recorded::is_fifo(file)).and_then(|file| recorded::format(file));
        let other = self.format.zip(looks).filter(|(given, looks)| given != looks);
        if let Some((given, looks)) = other {
            let (given, looks) = (given.name(), looks.name());
            return Some(format!("--format {given}, and the file begins as {looks} does"));
        }
        let device = self.device.as_ref()?;
        Some(format!("--device {device}: expected a device as the trace names it, such as 179,0 or sda"))
    }

    /// Reads the files of a trace, and prints notes about what differs from the recording.
    pub fn plan(&self, traces: &[PathBuf]) -> Result<(Plan, Format), Error> {
        let reading = Reading {
            format: self.format,
            columns: self.columns.clone(),
            unit_ns: self.time_unit,
            moment: self.event,
            device: self.device.clone(),
            needs_times: self.mode != Mode::Closed,
        };
        let files: Vec<PathBuf> = traces.iter().flat_map(|path| recorded::files(path)).collect();
        let (events, format) = recorded::read(&files, &reading).map_err(Error::input)?;
        let plan = plan::plan(&name(traces), events, &self.wishes());
        let plan = plan.map_err(|error| {
            match self.why_nothing(&files).filter(|_| error.message.starts_with(plan::NO_REQUEST)) {
                Some(why) => Error::Input(format!("{}: {}: {why}", name(traces), plan::NO_REQUEST)),
                None => Error::input(error),
            }
        })?;
        for note in &plan.notes {
            voice::note(format_args!("{}: {note}", name(traces)));
        }
        Ok((plan, format))
    }
}
