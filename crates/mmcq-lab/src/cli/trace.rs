//! `mmcq trace`: a window of a run as an oscilloscope shows it.

use super::{Error, print, writable};
use clap::Args;
use mmcq_lab::fio;
use mmcq_lab::platform::Platform;
use mmcq_lab::runner::{self, RunError, Setting};
use mmcq_lab::trace::{self, Capture, Start, Window, chrome, picture, steps, vcd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record a window of a run: every bit on the bus, interrupts, cores, requests
///
/// Runs the jobs as `mmcq run` does and writes what an oscilloscope at the card's slot shows: as a waveform, a picture, slices for a trace viewer, and on
/// standard output as a list. Times have a unit: 250us, 2ms.
#[derive(Debug, Args)]
pub struct Trace {
    /// fio job file
    #[arg(value_name = "JOB.fio")]
    job: PathBuf,
    /// Board: a name from `mmcq platforms`, or a TOML file; its controller must be an SDHCI
    #[arg(long, value_name = "PLATFORM", default_value = "generic")]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Whose stack, at whose price, as in `mmcq run`
    #[arg(long, value_name = "SETTING", default_value = "mmcq")]
    setting: Setting,
    /// Changes one value of the board, as `cost.wake_us=30`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of everything random that is not fio's own
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Waveform (value change dump): CLK, CMD, DAT, interrupt line, contexts of the cores
    #[arg(long, value_name = "FILE")]
    vcd: Option<PathBuf>,
    /// Picture: lanes with named boxes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Trace Event Format, for about://tracing or Perfetto
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    /// The window starts so long after the jobs begin [default: 0us]
    #[arg(long, value_name = "TIME", conflicts_with = "trigger")]
    from: Option<String>,
    /// The window starts at: bringup (power-on), cmd=18,n=3 (the third CMD18), irq,n=2 (the second interrupt of the jobs)
    #[arg(long, value_name = "TRIGGER")]
    trigger: Option<String>,
    /// Length of the window [default: 1ms, or all of the bring-up]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Shown before a trigger
    #[arg(long, value_name = "TIME", default_value = "5us")]
    before: String,
}

impl Trace {
    pub fn run(self) -> Result<ExitCode, Error> {
        let window = self.window()?;
        let file = fio::parse_file(&self.job, &fio::System).map_err(Error::input)?;
        for note in &file.notes {
            eprintln!("mmcq: {note}");
        }
        let platform = Platform::load_with(&self.platform, &self.set).map_err(Error::input)?;
        let workers = fio::expand(&file.jobs).map_err(Error::input)?;
        let files = [("--vcd", &self.vcd), ("--svg", &self.svg), ("--chrome", &self.chrome)];
        let mut created = Created::default();
        for (option, path) in files {
            if let Some(path) = path {
                created.ready(option, path)?;
            }
        }
        let run = runner::Run {
            workers: &workers,
            platform: &platform,
            card: self.card.as_deref(),
            setting: self.setting,
            seed: self.seed,
        };
        let (outcome, recording) = trace::record(window, || runner::run(&run, None, &mut |_, _| ()));
        outcome.map_err(|error| match error {
            RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
            other => Error::input(other),
        })?;
        let capture = recording.capture().map_err(Error::input)?;
        self.write(&capture)?;
        created.keep();
        print(&steps::list(&capture))?;
        Ok(ExitCode::SUCCESS)
    }

    fn window(&self) -> Result<Window, Error> {
        let time = |option: &str, text: &String| {
            trace::parse_time(text).map_err(|error| Error::Input(format!("{option}: {error}")))
        };
        let start = match (&self.trigger, &self.from) {
            (Some(trigger), _) => trigger.parse().map_err(Error::Input)?,
            (None, Some(from)) => Start::At(time("--from", from)?),
            (None, None) => Start::At(0),
        };
        let before_ns = match start {
            Start::Command { .. } | Start::Interrupt { .. } => time("--before", &self.before)?,
            Start::BringUp | Start::At(_) => 0,
        };
        let for_ns = self.length.as_ref().map(|length| time("--for", length)).transpose()?;
        if for_ns == Some(0) {
            return Err(Error::Input("--for 0: expected a time above 0".to_owned()));
        }
        Ok(Window { start, before_ns, for_ns })
    }

    fn write(&self, capture: &Capture) -> Result<(), Error> {
        if let Some(path) = &self.vcd {
            save(path, &vcd::write(capture).map_err(Error::input)?)?;
        }
        if let Some(path) = &self.svg {
            let title = format!("{}, {}, setting {}", self.job.display(), self.platform, self.setting.name());
            save(path, &picture::write(capture, &title))?;
        }
        if let Some(path) = &self.chrome {
            save(path, &chrome::write(capture))?;
        }
        Ok(())
    }
}

fn save(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::Run(format!("{}: {error}", path.display())))
}

/// Files that were not there before: they go away again if nothing comes of the run.
#[derive(Default)]
struct Created(Vec<PathBuf>);

impl Created {
    fn ready(&mut self, option: &str, path: &Path) -> Result<(), Error> {
        let there = path.exists();
        writable(option, path)?;
        if !there {
            self.0.push(path.to_owned());
        }
        Ok(())
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
