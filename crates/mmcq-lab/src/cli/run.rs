//! `mmcq run`: fio jobs on a board.

use super::progress::{Progress, Unit};
use super::{Error, print};
use clap::Args;
use mmcq_lab::buslog;
use mmcq_lab::fio::report::{self, Context, Report};
use mmcq_lab::fio::stats::{Cpu, DirStats, DiskUtil};
use mmcq_lab::fio::{self, JobFile, OutputFormat, Worker};
use mmcq_lab::image::Lock;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{self, Outcome, RunError, Setting};
use mmcq_sim::card::Medium;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run fio jobs on a simulated board, in virtual time
///
/// JOB is a fio job file; options of fio's own command line may follow instead
/// (`mmcq run -- -rw=randread -bs=4k ...`). Files of the jobs are places on the simulated card. The
/// report is fio's.
#[derive(Debug, Args)]
pub struct Run {
    /// fio job file (or fio's options after --)
    #[arg(value_name = "JOB.fio", required_unless_present = "options")]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = "hsq-sprd")]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Whose stack, at whose price: none, hsq-tag, hsq-fifo (Linux), close, patch (Linux on a host
    /// that can continue data), mmcq (ours at Linux's prices), mmcq-own (at its own), mmcq-early,
    /// mmcq-early-own (these with writes complete with their data), tasks, tasks-own (mmcq and
    /// mmcq-own with the command queue of the card), limit (wire and card alone;
    /// sequential jobs that meet run as one, in batches as long as their depth)
    #[arg(long, value_name = "SETTING", default_value = "mmcq")]
    setting: Setting,
    /// Changes one value of the board, as `cost.wake_us=30`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of everything random that is not fio's own
    #[arg(long, default_value_t = 1, value_parser = super::whole)]
    seed: u64,
    /// Image file behind the card instead of generated memory. The board's own card takes its size;
    /// a card named by --card must fit into it (what is left over is not used)
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Lets jobs write to the image
    #[arg(long, requires = "image")]
    write: bool,
    /// Report: normal, json, json+, terse; several with commas
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    output_format: Vec<String>,
    /// Report to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write down what happens on the bus, a line each, times in nanoseconds (for `mmcq diff-bus`)
    #[arg(long, value_name = "FILE")]
    bus_log: Option<PathBuf>,
    /// A line about what the stack did: transfers, merging, interrupts, context switches, shares of
    /// time
    #[arg(long)]
    counters: bool,
}

impl Run {
    pub fn run(self) -> Result<ExitCode, Error> {
        let file = super::jobs(self.job.as_deref(), &self.options)?;
        for note in &file.notes {
            eprintln!("mmcq: {note}");
        }
        let platform = Platform::load_with(&self.platform, &self.set).map_err(Error::input)?;
        let workers = fio::expand(&file.jobs).map_err(Error::input)?;
        let formats = self.formats(&file)?;
        let (medium, _lock) = self.medium(&workers)?.unzip();
        if let Some(path) = &self.output {
            super::writable("--output", path)?;
        }
        let run = runner::Run {
            workers: &workers,
            platform: &platform,
            card: self.card.as_deref(),
            setting: self.setting,
            seed: self.seed,
        };
        let progress = Progress::new("jobs", 0, Unit::Bytes);
        let go = || runner::run(&run, medium, &mut |moved, planned| progress.set(moved, planned));
        let outcome = match &self.bus_log {
            None => go(),
            Some(path) => buslog::record(path, go)
                .map_err(|error| Error::Input(format!("--bus-log {}: {error}", path.display())))?,
        };
        progress.end();
        let outcome = outcome.map_err(|error| match error {
            RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
            other => Error::input(other),
        })?;
        for error in &outcome.verify_errors {
            eprintln!("mmcq: {error}");
        }
        if outcome.counters.stack.continue_lost {
            eprintln!(
                "mmcq: platform {}: the controller does not continue data although its driver says so; every transfer was closed since",
                self.platform
            );
        }
        self.write_logs(&outcome)?;
        let counters = self.counters.then(|| counters_line(&outcome));
        let failed = !outcome.verify_errors.is_empty() || outcome.counters.failed > 0;
        self.print_report(&formats, &report(file, workers, outcome))?;
        if let Some(line) = counters {
            eprint!("{line}");
        }
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    fn formats(&self, file: &JobFile) -> Result<Vec<OutputFormat>, Error> {
        if self.output_format.is_empty() {
            let given = file.formats.clone();
            return Ok(if given.is_empty() { vec![OutputFormat::Normal] } else { given });
        }
        let format = |name: &String| {
            OutputFormat::from_name(name).ok_or_else(|| {
                Error::Input(format!("--output-format={name}: expected normal, json, json+ or terse"))
            })
        };
        self.output_format.iter().map(format).collect()
    }

    fn medium(&self, workers: &[Worker]) -> Result<Option<(Medium, Lock)>, Error> {
        let Some(path) = &self.image else { return Ok(None) };
        let writer = workers.iter().find(|worker| worker.job.rw.write);
        if let (Some(worker), false) = (writer, self.write) {
            return Err(Error::Input(format!(
                "{}: job {} writes, and the image is opened read-only; --write allows it",
                path.display(),
                worker.job.name
            )));
        }
        super::image(path, self.write).map(Some)
    }

    fn print_report(&self, formats: &[OutputFormat], report: &Report) -> Result<(), Error> {
        let text: String = formats
            .iter()
            .map(|format| match format {
                OutputFormat::Normal => report::normal(report),
                OutputFormat::Json => report::json::json(report, false),
                OutputFormat::JsonPlus => report::json::json(report, true),
                OutputFormat::Terse => report::terse(report),
            })
            .collect();
        match &self.output {
            Some(path) => write_file(path, &text),
            None => print(&text),
        }
    }

    fn write_logs(&self, outcome: &Outcome) -> Result<(), Error> {
        outcome.logs.iter().try_for_each(|(name, text)| write_file(Path::new(name), text))
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::Run(format!("{}: {error}", path.display())))
}

/// fio's report of a run. Its clock is the virtual one, which begins in 1970.
fn report(file: JobFile, workers: Vec<Worker>, outcome: Outcome) -> Report {
    let counters = &outcome.counters;
    let context = Context {
        version: report::FORMAT_VERSION.to_owned(),
        timestamp_ms: counters.elapsed_ns / 1_000_000,
        elapsed_ns: counters.elapsed_ns,
        global_options: file.global_options,
    };
    let jobs = workers.len().max(1) as u64;
    let commands = |a: usize, b: usize| counters.bus.commands[a] + counters.bus.commands[b];
    let transfers = [commands(17, 18), commands(24, 25)];
    let of = |direction: usize, f: fn(&DirStats) -> u64| -> u64 {
        outcome.stats.iter().map(|stats| f(&stats.dirs[direction])).sum()
    };
    let ticks_ms = [0, 1].map(|d| of(d, |dir| (dir.lat.ns.mean * dir.lat.ns.samples as f64 / 1e6) as u64));
    let disk = DiskUtil {
        name: "mmcblk0".to_owned(),
        ios: transfers,
        merges: [0, 1].map(|d| of(d, |dir| dir.total_ios).saturating_sub(transfers[d])),
        ticks_ms,
        in_queue_ms: ticks_ms[0] + ticks_ms[1],
        util_percent: (100.0 * counters.bus_share()).min(100.0),
    };
    let mut results = Vec::new();
    for (worker, mut stats) in workers.into_iter().zip(outcome.stats) {
        stats.cpu = Cpu {
            system_ns: counters.cpu.busy_ns / jobs,
            context_switches: counters.cpu.switches / jobs,
            ..Cpu::default()
        };
        results.push((worker, stats));
    }
    Report::new(context, results, vec![disk])
}

fn counters_line(outcome: &Outcome) -> String {
    let c = &outcome.counters;
    let per = |n: u64| n as f64 / c.ios.max(1) as f64;
    let commands: u64 = c.bus.commands.iter().sum();
    let holds = c.stack.holds;
    let held = match holds.count {
        0 => String::new(),
        count => format!(
            "; held for the tail: {count} times, {:.0} us, gained {:.0} us",
            holds.waited_ns as f64 / 1e3,
            holds.gained_ns as f64 / 1e3
        ),
    };
    let tasks = c.stack.tasks.map_or_else(String::new, |tasks| {
        let demoted = tasks.demoted.map_or_else(String::new, |why| format!(", given up: {why:?}"));
        format!(
            "; queue: on {} times, {} tasks executed, asked {} times, {} of these in vain{demoted}",
            tasks.entered, tasks.executed, tasks.asked, tasks.asked_in_vain
        )
    });
    format!(
        "{} I/Os in {} transfers ({:.2} x 4 KiB each); per I/O: {:.2} commands, {:.2} interrupts, {:.2} context switches, \
         {:.2} register reads, {:.2} writes; time: {:.1} % wire, {:.1} % card, CPU {:.1} % idle{held}{tasks}\n",
        c.ios,
        c.transfers,
        c.merge(),
        per(commands),
        per(c.cpu.interrupts),
        per(c.cpu.switches),
        per(c.accesses.0),
        per(c.accesses.1),
        100.0 * c.bus.wire_ns() as f64 / c.elapsed_ns.max(1) as f64,
        100.0 * (c.bus.physical_ns() - c.bus.wire_ns()) as f64 / c.elapsed_ns.max(1) as f64,
        100.0 * c.idle_share(),
    )
}
