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
/// Boots a kernel in QEMU, whose clock counts instructions, and runs a job (a script of its shell)
/// there. Its own mmc_core, mmc_block and sdhci drive the model, or mmcq.ko does, this stack as a
/// block driver of Linux (--driver). Returns what the guest said, the
/// loads of its program `load` with what was counted beside them, and the log of the bus. QEMU,
/// kernel and modules are parts that tools/guest-parts.sh fetches and builds (mmcq.ko with
/// --module); nothing is left running when this ends.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tools/guest-parts.sh
  echo 'load $disk randread 4096 1 20 200 all' >job.sh
  mmcq guest job.sh --platform hsq-sprd --driver hsq --twice
  mmcq guest job.sh --platform hsq-sprd --driver mmcq --twice
  mmcq guest jobs/guest/recovery.sh --schedule jobs/guest/recovery.list --json >linux.jsonl")]
pub struct Guest {
    /// Script that the guest's shell runs; $disk is the card. With --image: file whose first line
    /// is the image's command line
    #[arg(required_unless_present = "table")]
    job: Option<PathBuf>,
    /// Run nothing: show the reports of --json in this file, a line each, as tables side by side
    #[arg(long, value_name = "FILE", exclusive = true)]
    table: Option<PathBuf>,
    /// File of events in the card slot, one a line: the time in milliseconds since the guest's
    /// program `probe` began; a fault of the catalogue (docs/FAILURES.md), `cut` (the card has no
    /// power) or `out` (it is taken out); and for lasting ones the duration in milliseconds
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Firmware instead of Linux, such as boards/pc; --setting is its name in the report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "initrd", "append", "scheduler"])]
    image: Option<PathBuf>,
    /// Folder with the parts: QEMU, plugin, kernel and modules
    #[arg(long, value_name = "DIR", default_value = "target/judges/guest")]
    parts: PathBuf,
    /// Kernel instead of the one among the parts
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Initial file system instead of the one among the parts; it must run /job
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Words to add to the kernel's command line
    #[arg(long, value_name = "TEXT", default_value = "")]
    append: String,
    /// Board with an SDHCI controller or Realtek's reader: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = mmcq_lab::scene::PLATFORM)]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Driver of the slot in the guest
    #[arg(long, value_enum, value_name = "DRIVER", default_value_t)]
    driver: Driver,
    /// Queue of Linux's own driver: none, hsq-tag (its software queue) or cqe (the card's own, by the controller's
    /// queue engine)
    #[arg(long, value_name = "SETTING", default_value = "none")]
    setting: String,
    /// Scheduler of the block layer: none, mq-deadline or bfq [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// CPUs of the guest. With one, two runs are the same byte for byte
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    cpus: u8,
    /// Nanoseconds an instruction takes: 1, 2, 4, 8 or 16
    #[arg(long, value_name = "NS", default_value_t = 1)]
    instruction_ns: u32,
    /// Microseconds from waking a thread to its first instruction
    /// [default: the board's cost.job_wake_us]
    #[arg(long, value_name = "US")]
    wake_us: Option<f64>,
    /// Microseconds from the controller's interrupt line to the CPU
    #[arg(long, value_name = "US", default_value_t = 1.5)]
    irq_us: f64,
    /// Write all events on the bus to this file, a line each, times in nanoseconds
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Longest real time in seconds that the machine may run
    #[arg(long, value_name = "S", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    limit: u64,
    /// Run the job two times and compare console, counters and bus, byte for byte; exit code 1 if
    /// they differ with one CPU
    #[arg(long)]
    twice: bool,
    /// One JSON object
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

/// Prints the reports of guests in a file as tables, side by side.
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
