//! `mmcq trace`: a window of a run as an oscilloscope shows it.

use super::form::Form;
use super::{Error, voice, writable};
use clap::{Args, ValueEnum};
use mmcq_lab::runner::{self, RunError};
use mmcq_lab::scene::Scene;
use mmcq_lab::sdio::packet::{self, PacketError};
use mmcq_lab::sdio::platform::{Board, NAME};
use mmcq_lab::sdio::stacked;
use mmcq_lab::trace::{self, Capture, Clk, Start, Window, WindowError, perfetto, picture, steps, vcd};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Record a window of a run: every bit on the bus, interrupts, cores, requests
///
/// Runs the jobs as `mmcq run` does and writes what an oscilloscope at the card's slot shows: as a
/// waveform, a picture, slices for a trace viewer, and on standard output as a list. Times have a
/// unit: 250us, 2ms.
///
/// With --sdio, instead of jobs: one packet of the experiment `mmcq reproduce sdio`, from the
/// card's interrupt (the fall of DAT1) to the acknowledge. Waveform, slices and list show one
/// setting; the picture shows all four on one time axis.
#[derive(Debug, Args)]
pub struct Trace {
    /// fio job file (or fio's options after --)
    #[arg(value_name = "JOB.fio", required_unless_present_any = ["sdio", "options"])]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    /// One packet of the SDIO experiment, advanced by: thread+tasklet, thread, async (Linux's six
    /// commands) or mmcq
    #[arg(long, value_name = "SETTING", num_args = 0..=1, default_missing_value = "mmcq", conflicts_with_all = OF_JOBS)]
    sdio: Option<String>,
    #[command(flatten)]
    scene: Scene,
    /// Waveform (value change dump): CLK, CMD, DAT, interrupt line, contexts of the cores
    #[arg(long, value_name = "FILE")]
    vcd: Option<PathBuf>,
    /// The waveform's clock: each edge, as a decoder needs it, or gated: high while it runs, which is
    /// a hundred times shorter
    #[arg(long, value_enum, default_value = "full", requires = "vcd")]
    clk: Clock,
    /// Picture: lanes with named boxes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Trace of Perfetto (ui.perfetto.dev): requests, bus, cores, counters, and arrows from a request
    /// to its transfer, the interrupt and the completion
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// The window starts so long after the jobs begin [default: 0us]
    #[arg(long, value_name = "TIME", conflicts_with = "trigger")]
    from: Option<String>,
    /// The window starts at: bringup (power-on), cmd=18,n=3 (the third CMD18), irq,n=2 (the second
    /// interrupt of the jobs)
    #[arg(long, value_name = "TRIGGER")]
    trigger: Option<String>,
    /// Length of the window [default: 1ms, or all of the bring-up]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Shown before a trigger
    #[arg(long, value_name = "TIME", default_value = "5us")]
    before: String,
    /// No list: files alone
    #[arg(long, conflicts_with = "Form")]
    no_list: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Clock {
    Full,
    Gated,
}

/// What says which jobs, and where to look at them.
const OF_JOBS: [&str; 10] =
    ["job", "options", "platform", "card", "setting", "set", "from", "trigger", "length", "before"];

impl Trace {
    pub fn run(self) -> Result<ExitCode, Error> {
        match &self.sdio {
            Some(setting) => self.packet(setting),
            None => self.jobs(),
        }
    }

    /// A packet of the SDIO experiment.
    fn packet(&self, setting: &str) -> Result<ExitCode, Error> {
        let failed = |error: PacketError| match error {
            PacketError::Setting(_) => Error::input(error),
            other => Error::Run(other.to_string()),
        };
        let board = Board::load(NAME).map_err(Error::input)?;
        if !packet::SETTINGS.iter().any(|(name, _)| *name == setting) {
            return Err(failed(PacketError::Setting(setting.to_owned())));
        }
        let mut created = self.ready()?;
        let one = packet::record(&board, setting, self.scene.seed).map_err(failed)?;
        if let Some(path) = &self.vcd {
            self.waveform(path, &one.capture)?;
        }
        if let Some(path) = &self.svg {
            let all = packet::SETTINGS.iter().map(|(name, _)| packet::record(&board, name, self.scene.seed));
            let all = all.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            let title = format!("One packet of the SDIO experiment on {NAME}, by what advances its steps");
            save(path, &stacked::write(&all, &title))?;
        }
        if let Some(path) = &self.perfetto {
            save(path, &perfetto::write(&one.capture))?;
        }
        created.keep();
        self.list(&one.capture)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The files that are wanted can be written, and are different ones.
    fn ready(&self) -> Result<Created, Error> {
        let files = [("--vcd", &self.vcd), ("--svg", &self.svg), ("--perfetto", &self.perfetto)];
        let mut created = Created::default();
        let mut before: Vec<(&str, PathBuf)> = Vec::new();
        for (option, path) in files {
            let Some(path) = path else { continue };
            created.ready(option, path)?;
            // Devices, as /dev/null, may be given twice.
            let Some(place) = path.canonicalize().ok().filter(|place| place.is_file()) else { continue };
            if let Some((other, _)) = before.iter().find(|(_, known)| *known == place) {
                let path = path.display();
                return Err(Error::Input(format!(
                    "{option} {path}: {other} writes the same file; expected another"
                )));
            }
            before.push((option, place));
        }
        Ok(created)
    }

    fn jobs(&self) -> Result<ExitCode, Error> {
        let window = self.window()?;
        let jobs = super::jobs(self.job.as_deref(), &self.options)?;
        let loaded = self.scene.load(&jobs, &self.scene.set).map_err(Error::input)?;
        for note in &loaded.file.notes {
            voice::note(note);
        }
        let platform = &loaded.platform;
        let mut created = self.ready()?;
        let run = self.scene.run_of(&loaded);
        let (outcome, recording) = trace::record(window, || runner::run(&run, None, &mut |_, _| ()));
        outcome.map_err(|error| match error {
            RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
            other => Error::input(other),
        })?;
        let capture = recording.capture().map_err(|error| match error {
            WindowError::NoProbe => {
                let kind = platform.controller.kind();
                let board = &self.scene.platform;
                Error::Input(format!(
                    "board {board}: its controller {kind} cannot be traced; expected a board with sdhci, as generic"
                ))
            }
            other => Error::input(other),
        })?;
        self.write(&capture)?;
        created.keep();
        self.list(&capture)?;
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self, capture: &Capture) -> Result<(), Error> {
        if self.no_list {
            return Ok(());
        }
        self.form.print(|| steps::list(capture), || steps::json_lines(capture))
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
            Start::Command { .. } | Start::Interrupt { .. } | Start::CardInterrupt { .. } => {
                time("--before", &self.before)?
            }
            Start::BringUp | Start::At(_) => 0,
        };
        let for_ns = self.length.as_ref().map(|length| time("--for", length)).transpose()?;
        if let (Some(0), Some(length)) = (for_ns, &self.length) {
            return Err(Error::Input(format!("--for {length}: expected a time above 0")));
        }
        Ok(Window { start, before_ns, for_ns })
    }

    fn waveform(&self, path: &Path, capture: &Capture) -> Result<(), Error> {
        let clk = if self.clk == Clock::Gated { Clk::Gated } else { Clk::Full };
        vcd::fits(capture, clk).map_err(Error::input)?;
        let written = File::create(path).map(BufWriter::new).and_then(|mut file| {
            vcd::write(capture, clk, &mut file)?;
            file.flush()
        });
        written.map_err(|error| Error::Run(format!("{}: {error}", path.display())))
    }

    fn write(&self, capture: &Capture) -> Result<(), Error> {
        if let Some(path) = &self.vcd {
            self.waveform(path, capture)?;
        }
        if let Some(path) = &self.svg {
            let job = self.job.as_ref().map_or("jobs by options".to_owned(), |job| job.display().to_string());
            let scene = &self.scene;
            let title = format!("{job}, {}, setting {}", scene.platform, scene.setting.name());
            save(path, &picture::write(capture, &title))?;
        }
        if let Some(path) = &self.perfetto {
            save(path, &perfetto::write(capture))?;
        }
        Ok(())
    }
}

fn save(path: &Path, text: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Error> {
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
