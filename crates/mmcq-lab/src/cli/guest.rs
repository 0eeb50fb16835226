//! `mmcq guest`: runs an unmodified Linux on the laboratory's controller and card, in virtual time.

use super::serve::{ENDING, signals};
use super::{Error, print, writable};
use clap::Args;
use mmcq_lab::guest::{Driver, Failure, Machine, Report, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Run an unmodified Linux on the laboratory's controller and card, in virtual time
///
/// Boots a kernel in QEMU, whose clock counts instructions, and runs there a job: a script for the
/// guest's shell. The card is driven by Linux's own mmc_core, mmc_block and sdhci, or by this stack
/// as a block driver of Linux, mmcq.ko (--driver).
///
/// Prints the output of the guest, the results of each load that its program `load` ran, with
/// counters, and writes the log of the bus (--log). QEMU, kernel and modules are parts that
/// tools/guest-parts.sh fetches and builds (mmcq.ko with --module). No process is left running when
/// this command ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tools/guest-parts.sh
  echo 'load $disk randread 4096 1 20 200 all' >job.sh
  mmcq guest job.sh --platform hsq-sprd --driver hsq --twice
  mmcq guest job.sh --platform hsq-sprd --driver mmcq --twice
  mmcq guest jobs/guest/recovery.sh --schedule jobs/guest/recovery.list --json >linux.jsonl")]
pub struct Guest {
    /// Script for the guest's shell, in which $disk is the card. With --image: file whose first
    /// line is the command line of the firmware image
    #[arg(required_unless_present = "table")]
    job: Option<PathBuf>,
    /// Runs no guest. Shows the reports in this file side by side in tables. The file has one
    /// report per line, as --json prints it
    #[arg(long, value_name = "FILE", exclusive = true)]
    table: Option<PathBuf>,
    /// File of events at the card slot, one a line: the time in milliseconds since the guest's
    /// program `probe` began; then a fault of the catalogue (docs/FAILURES.md), `cut` (the card has
    /// no power) or `out` (the card is taken out); for an event that lasts, also its duration in
    /// milliseconds
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Firmware to run instead of Linux, such as that of boards/pc; the report shows --setting as
    /// its name
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "initrd", "append", "scheduler"])]
    image: Option<PathBuf>,
    /// Folder with the parts: QEMU, plugin, kernel and modules
    #[arg(long, value_name = "DIR", default_value = "target/judges/guest")]
    parts: PathBuf,
    /// Kernel to use instead of the kernel of the parts
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial file system, instead of the one among the parts that `mmcq guest` has fetched; it
    /// must run /job
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Words to add to the kernel's command line
    #[arg(long, value_name = "TEXT", default_value = "")]
    append: String,
    /// Board whose controller is an SDHCI, DesignWare's, or Realtek's card reader: a name from
    /// `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = mmcq_lab::scene::PLATFORM)]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Driver that the guest uses for the card slot
    #[arg(long, value_enum, value_name = "DRIVER", default_value_t)]
    driver: Driver,
    /// Queue that Linux's own driver uses: none, hsq-tag (Linux's software queue), or cqe (the
    /// card's command queue, driven by the controller's queue engine)
    #[arg(long, value_name = "SETTING", default_value = "none")]
    setting: String,
    /// Scheduler of the block layer: none, mq-deadline or bfq [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// Number of CPUs of the guest. With one CPU, two runs are equal byte for byte
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    cpus: u8,
    /// Time in nanoseconds that an instruction of the guest takes: 1, 2, 4, 8 or 16
    #[arg(long, value_name = "NS", default_value_t = 1)]
    instruction_ns: u32,
    /// Time in microseconds from waking a thread to its first instruction [default: the board's
    /// cost.job_wake_us]
    #[arg(long, value_name = "US")]
    wake_us: Option<f64>,
    /// Delay in microseconds between the controller's interrupt line and the guest's CPU
    #[arg(long, value_name = "US", default_value_t = 1.5)]
    irq_us: f64,
    /// Write all events on the bus to this file, one a line, with times in nanoseconds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Longest real time in seconds that the machine may run
    #[arg(long, value_name = "S", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Runs the job two times, and compares console output, counters and bus log byte for byte.
    /// Exit code 1 if they differ and the guest has one CPU
    #[arg(long)]
    twice: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Converts a time of the guest's CPU from microseconds to ns, and checks its range; `option` names
/// it in errors.
fn ns(option: &str, us: f64) -> Result<u64, Error> {
    if us.is_finite() && (0.0..=1000.0).contains(&us) {
        return Ok((us * 1e3).round() as u64);
    }
    Err(Error::Input(format!("{option} {us}: expected microseconds from 0 to 1000")))
}

/// Prints the reports of guests in the file `path` as tables, side by side. `text` is the content
/// of the file: one report in JSON on each line.
fn side_by_side(path: &Path, text: &str) -> Result<ExitCode, Error> {
    let reports = (1..).zip(text.lines()).map(|(number, line)| {
        serde_json::from_str::<Report>(line)
            .map_err(|error| Error::Input(format!("{}, line {number}: {error}", path.display())))
    });
    print(&table(&reports.collect::<Result<Vec<_>, _>>()?))?;
    Ok(ExitCode::SUCCESS)
}

impl Guest {
    pub fn run(self) -> Result<ExitCode, Error> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|error| Error::Input(format!("{}: {error}", path.display())))
        };
        if let Some(path) = &self.table {
            return side_by_side(path, &read(path)?);
        }
        let job = read(self.job.as_deref().ok_or_else(|| Error::Input("no job".to_owned()))?)?;
        if !matches!(self.instruction_ns, 1 | 2 | 4 | 8 | 16) {
            let given = self.instruction_ns;
            return Err(Error::Input(format!("--instruction-ns {given}: expected 1, 2, 4, 8 or 16")));
        }
        let machine = Machine {
            parts: self.parts,
            kernel: self.kernel,
            initrd: self.initrd,
            arguments: self.append,
            image: self.image,
            schedule: self.schedule,
            platform: self.platform,
            card: self.card,
            setting: self.setting,
            driver: self.driver,
            scheduler: self.scheduler,
            cpus: self.cpus,
            instruction_ns: self.instruction_ns,
            wake_ns: self.wake_us.map(|us| ns("--wake-us", us)).transpose()?,
            irq_ns: ns("--irq-us", self.irq_us)?,
            limit: Duration::from_secs(self.limit),
        };
        if let Some(path) = &self.log {
            writable("--log", path)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        signals(&ENDING, |stop: &Arc<AtomicBool>, _| stop.store(true, Ordering::Relaxed))?(stop.clone());
        let log = self.log.as_deref();
        let (report, twice) = if self.twice {
            machine.run_twice(&job, log, &stop).map(|(report, twice)| (report, Some(twice)))
        } else {
            machine.run(&job, log, &stop).map(|report| (report, None))
        }
        .map_err(|failure| match failure {
            Failure::Input(why) => Error::Input(why),
            Failure::Run(why) => Error::Run(why),
        })?;
        if self.json {
            let line = serde_json::to_string(&report).map_err(|error| Error::Run(error.to_string()))?;
            print(&format!("{line}\n"))?;
        } else {
            print(&report.text())?;
        }
        let Some(twice) = twice else { return Ok(ExitCode::SUCCESS) };
        eprintln!("mmcq: {}", twice.line());
        Ok(if twice.same || report.cpus > 1 { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
