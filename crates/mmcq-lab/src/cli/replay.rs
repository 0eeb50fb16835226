//! `mmcq replay`: a recorded load on a board.

use super::reporting::Reporting;
use super::{Error, voice};
use clap::Args;
use mmcq_lab::fio::script::Remap;
use mmcq_lab::recorded::plan::{self, Mode, Plan, Wishes};
use mmcq_lab::recorded::{self, Format, Moment, Reading};
use mmcq_lab::scene::Scene;
use std::path::PathBuf;
use std::process::ExitCode;

/// Replay a recorded load on a simulated board, in virtual time
///
/// TRACE is known by how it begins, or named by --format:
///
///   iolog     fio's I/O log, version 2 or 3 (fio --write_iolog)
///   blktrace  binary: `x` stands for x.blktrace.0, x.blktrace.1 ... (blktrace -d DEV -o x)
///   blkparse  text as blkparse prints it by default
///   ftrace    text of tracefs: block_bio_queue, block_rq_issue, block_rq_complete
///   csv       any columns, named by --columns
///   msr, spc, mqsim, pixel   columns of the SNIA MSR, UMass SPC, MQSim and Pixel 6a traces
///
/// Reads, writes, forced unit access (FUA), flushes and discards go to the card as recorded. The
/// report is that of `mmcq run`, and says how late requests went against the trace.
///
///   mmcq replay phone.blkparse                          at the recorded times
///   mmcq replay x --mode think --setting none           processes wait for the card; Linux's stack
///   mmcq replay x --mode closed --depth 8               as fast as it goes, eight at a time
///   gzip -dc app.csv.gz | mmcq replay - --remap modulo --gap-max 10ms
///   mmcq replay t.csv --columns time=ts,op=rw,sector=lba,bytes=len,unit=us
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Replay {
    /// Files of one trace, merged by time; - is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Format, instead of what the file's beginning says
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Columns of CSV, by number from 1 or by name in the first line: time, op, offset or sector,
    /// bytes or sectors, process, device, took (how long it took). unit=s, ms, us, 100ns or ns is
    /// that of the times; read=0 or write=W the word in column op
    #[arg(long, value_name = "KEY=COLUMN,...")]
    columns: Option<String>,
    /// Unit of the times where the format leaves it open: s, ms, us, 100ns, ns [default: us for
    /// iolog, ns for csv]
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    time_unit: Option<u64>,
    /// Which event is a request's time: Q (queued: before merging), D (issued: merged), C (complete)
    #[arg(long, value_name = "EVENT", default_value = "Q")]
    event: Moment,
    /// Only this device or file, as the trace names it. Several are placed one after the other
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// When requests go: open (at the trace's times, whatever the card does), closed (a loop of
    /// --depth requests), think (each process waits for what it waited for, and then as long as it
    /// did: for a card of another speed)
    #[arg(long, value_name = "MODE", default_value = "open")]
    mode: Mode,
    /// Most requests under way: of the loop, or of each process
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Factor of all times: 0.5 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// Longer pauses become this long: 10ms, 2s
    #[arg(long, value_name = "TIME", value_parser = time)]
    gap_max: Option<u64>,
    /// Offsets beyond the card: refuse (an error), modulo (start again at 0), scale (map pieces of
    /// 1 MiB so that the whole trace covers the whole card)
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    remap: Remap,
    /// Put requests in the order of their times
    #[arg(long)]
    sort: bool,
    /// Only the first requests
    #[arg(long, value_name = "N", default_value_t = plan::REQUESTS_MAX as u64, value_parser = super::whole)]
    count: u64,
    /// Leave out: flush, discard, fua (writes become plain ones)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = ["flush", "discard", "fua"])]
    without: Vec<String>,
    #[command(flatten)]
    scene: Scene,
    #[command(flatten)]
    reporting: Reporting,
}

/// Parses the name of a unit of time.
fn unit(text: &str) -> Result<u64, String> {
    recorded::unit_ns(text).ok_or_else(|| "expected s, ms, us, 100ns or ns".to_owned())
}

/// Parses a time with its unit.
fn time(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let ns = recorded::unit_ns(name).and_then(|unit_ns| recorded::time_ns(number, unit_ns));
    ns.ok_or_else(|| "expected a number and s, ms, us or ns: 10ms".to_owned())
}

/// Parses a factor of times.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|f| (0.0..=1e6).contains(f));
    factor.ok_or_else(|| "expected a number from 0 to 1000000".to_owned())
}

impl Replay {
    pub fn run(self) -> Result<ExitCode, Error> {
        let wishes = self.wishes();
        let (plan, format) = self.plan(&wishes)?;
        for note in &plan.notes {
            voice::note(format_args!("{}: {note}", self.name()));
        }
        let again = |changes: &[String]| self.scene.load_workers(&plan.workers, changes);
        let loaded = again(&self.scene.set).map_err(Error::input)?;
        let replayed = plan.replayed(&self.name(), format, &wishes);
        self.reporting.run(&self.scene, loaded, None, again, replayed, &self.name())
    }

    /// Returns the trace's name for reports.
    fn name(&self) -> String {
        match self.traces.first() {
            Some(path) if path.as_os_str() == "-" => "standard input".to_owned(),
            Some(path) => path.display().to_string(),
            None => String::new(),
        }
    }

    fn wishes(&self) -> Wishes {
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

    fn plan(&self, wishes: &Wishes) -> Result<(Plan, Format), Error> {
        let reading = Reading {
            format: self.format,
            columns: self.columns.clone(),
            unit_ns: self.time_unit,
            moment: self.event,
            device: self.device.clone(),
        };
        let files: Vec<PathBuf> = self.traces.iter().flat_map(|path| recorded::files(path)).collect();
        let (events, format) = recorded::read(&files, &reading).map_err(Error::input)?;
        let plan = plan::plan(&self.name(), events, wishes).map_err(Error::input)?;
        Ok((plan, format))
    }
}
