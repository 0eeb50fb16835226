//! `mmcq trace`: records a window of a run as an oscilloscope shows it.

use super::form::Form;
use super::function::Function;
use super::page::{Files, Place};
use super::{Error, voice};
use clap::{ArgGroup, Args, ValueEnum};
use mmcq_lab::runner::{self, RunError};
use mmcq_lab::scene::Scene;
use mmcq_lab::sdio::packet::{self, PacketError};
use mmcq_lab::sdio::platform::{Board, NAME};
use mmcq_lab::sdio::stacked;
use mmcq_lab::trace::{self, Capture, Clk, Dump, Head, Start, Window, WindowError, perfetto, picture, steps};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Record a window of a run: every bit on the bus, interrupts, cores, requests
///
/// Runs the jobs as `mmcq run` does, and shows what an oscilloscope at the card's slot would show
/// in a window of time: as a waveform, as a picture, as a trace for a trace viewer, and as a list
/// on standard output. Times have a unit: 250us, 2ms.
///
/// With --sdio, the window is one packet of the experiment `mmcq reproduce sdio` instead of jobs.
/// It lasts from the card's interrupt (DAT1 falls) until the interrupt is acknowledged. Waveform,
/// trace and list show one setting; the picture shows all four on one time axis.
///
/// With an SDIO function of your own (a file whose name ends in .toml, as for `mmcq run`), the
/// window is a packet, or lasts as long as --for says from the card's interrupt on. --way says what
/// starts the steps of the function's driver.
///
/// List, picture and trace need memory for the whole window: at most a million records. With
/// --no-list, --vcd and --fst need the same small memory for a window of any length. The jobs then
/// run once to find the names of the signals, and once more for each waveform.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("waveform").args(["vcd", "fst"]).multiple(true))]
pub struct Trace {
    /// fio job file (or fio's options after --); a file whose name ends in .toml describes an SDIO
    /// function
    #[arg(value_name = "JOB.fio", required_unless_present_any = ["sdio", "options"])]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    /// Records one packet of the SDIO experiment. The steps are started by: thread+tasklet, thread,
    /// async (for Linux's six commands), or mmcq
    #[arg(long, value_name = "SETTING", num_args = 0..=1, default_missing_value = "mmcq", conflicts_with_all = OF_JOBS)]
    sdio: Option<String>,
    /// What starts the steps of an SDIO function's driver: thread+tasklet, thread, async or mmcq
    /// [default: mmcq]
    #[arg(long, value_name = "WAY", requires = "job")]
    way: Option<String>,
    #[command(flatten)]
    scene: Scene,
    /// File for the waveform (value change dump): CLK, CMD, DAT, the interrupt line, and what each
    /// core executes
    #[arg(long, value_name = "FILE")]
    vcd: Option<PathBuf>,
    /// File for the same waveform as a Fast Signal Trace, which GTKWave and Surfer read; it has a
    /// hundredth of the size
    #[arg(long, value_name = "FILE")]
    fst: Option<PathBuf>,
    /// Clock in the waveform. full: each edge, as a decoder needs it. gated: the signal is high
    /// while the clock runs, which makes the file a hundred times shorter
    #[arg(long, value_enum, default_value = "full", requires = "waveform")]
    clk: Clock,
    /// File for the picture: a row of named boxes for each signal
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// File for a trace of Perfetto (ui.perfetto.dev): requests, bus, cores, counters, and arrows
    /// from a request to its transfer, to the interrupt and to the completion
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Starts the window this long after the jobs begin [default: 0us]
    #[arg(long, value_name = "TIME", conflicts_with = "trigger")]
    from: Option<String>,
    /// Event at which the window starts: bringup (power-on), cmd=18,n=3 (the third CMD18), irq,n=2
    /// (the second interrupt of the jobs)
    #[arg(long, value_name = "TRIGGER")]
    trigger: Option<String>,
    /// Length of the window [default: 1ms, or all of the bring-up]
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Length of the time before the trigger that the window also shows [default: 5us]
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Print no list, only write the files
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

/// Length in ns of the time before a trigger that the window shows, if the user gives none.
const BEFORE_NS: u64 = 5_000;

/// Options that apply only to jobs, not to `--sdio`.
const OF_JOBS: [&str; 10] =
    ["job", "options", "platform", "card", "setting", "set", "from", "trigger", "length", "before"];

impl Trace {
    pub fn run(self) -> Result<ExitCode, Error> {
        match &self.sdio {
            Some(setting) => self.packet(setting),
            None => match Function::of(self.job.as_deref(), &self.options, &self.scene)? {
                Some(function) => self.function(&function),
                None => self.jobs(),
            },
        }
    }

    /// Records a packet of an SDIO function that a user describes in a file.
    fn function(&self, function: &Function) -> Result<ExitCode, Error> {
        let starts = [("--from", self.from.is_some()), ("--trigger", self.trigger.is_some())];
        if let Some((option, _)) = starts.iter().find(|(_, given)| *given) {
            return Err(Error::Input(format!("{option}: the window of a function begins with a packet")));
        }
        let for_ns = self.window()?.for_ns;
        let places = self.ready()?;
        let (capture, title) = function.record(self.way.as_deref().unwrap_or("mmcq"), for_ns)?;
        self.write(places, &capture, || Ok(picture::write(&capture, &title)))
    }

    /// Records a packet of the SDIO experiment. `setting`: the name of a driver and its context,
    /// one of [`packet::SETTINGS`].
    fn packet(&self, setting: &str) -> Result<ExitCode, Error> {
        let failed = |error: PacketError| match error {
            PacketError::Setting(_) => Error::input(error),
            other => Error::Run(other.to_string()),
        };
        let board = Board::load(NAME).map_err(Error::input)?;
        if !packet::SETTINGS.iter().any(|(name, _)| *name == setting) {
            return Err(failed(PacketError::Setting(setting.to_owned())));
        }
        let places = self.ready()?;
        let one = packet::record(&board, setting, self.scene.seed).map_err(failed)?;
        let picture = || {
            let all = packet::SETTINGS.iter().map(|(name, _)| packet::record(&board, name, self.scene.seed));
            let all = all.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            let title = format!("One packet of the SDIO experiment on {NAME}, by what advances its steps");
            Ok(stacked::write(&all, &title))
        };
        self.write(places, &one.capture, picture)
    }

    /// Checks that the output files can be written and are all different.
    fn ready(&self) -> Result<Places, Error> {
        let mut files = Files::default().reads_scene(&self.scene);
        if let Some(job) = &self.job {
            files = files.reads("JOB.fio", job);
        }
        let mut ready = |option: &'static str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| files.place(option, path)).transpose()
        };
        #[cfg(feature = "fst")]
        let fst = (Dump::Fst, ready("--fst", &self.fst)?);
        #[cfg(not(feature = "fst"))]
        let fst = match &self.fst {
            Some(path) => {
                return Err(Error::Input(super::left_out(&format!("--fst {}", path.display()), "fst")));
            }
            None => (Dump::Vcd, None),
        };
        let waves = [(Dump::Vcd, ready("--vcd", &self.vcd)?), fst];
        let waves = waves.into_iter().filter_map(|(dump, place)| Some((dump, place?))).collect();
        let svg = ready("--svg", &self.svg)?;
        if let Some(path) = &self.svg {
            Place::is_svg("--svg", path)?;
        }
        let (svg, perfetto) = (svg, ready("--perfetto", &self.perfetto)?);
        Ok(Places { waves, svg, perfetto })
    }

    fn jobs(&self) -> Result<ExitCode, Error> {
        if let Some(way) = &self.way {
            return Err(Error::Input(format!("--way {way}: expected an SDIO function, a file .toml")));
        }
        let window = self.window()?;
        let jobs = super::jobs(self.job.as_deref(), &self.options)?;
        let loaded = self.scene.load(&jobs, &self.scene.set).map_err(Error::input)?;
        loaded.notes().iter().for_each(voice::note);
        let places = self.ready()?;
        let run = self.scene.run_of(&loaded);
        let run = || runner::run(&run, None, &mut |_, _| ());
        let outside = |error: WindowError| match error {
            WindowError::NoProbe => {
                let kind = loaded.platform.controller.kind();
                let board = &self.scene.platform;
                Error::Input(format!(
                    "board {board}: its controller {kind} cannot be traced; expected a board with sdhci, as generic"
                ))
            }
            other => Error::input(other),
        };
        if self.no_list && places.svg.is_none() && places.perfetto.is_none() {
            let (outcome, survey) = trace::survey(window, run);
            outcome.map_err(failed)?;
            let survey = survey.map_err(outside)?;
            let draw = |dump: Dump, out: BufWriter<File>| {
                dump.draw((window, &survey), self.clk(), out, run).map(|_| ())
            };
            places.fit(&survey.head, self.clk())?;
            places.waveforms(draw)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (outcome, recording) = trace::record(window, run);
        outcome.map_err(failed)?;
        let capture = recording.capture().map_err(outside)?;
        let picture = || {
            let job = self.job.as_ref().map_or("jobs by options".to_owned(), |job| job.display().to_string());
            let title = format!("{job}: {}", self.scene.ran_on(&loaded.platform));
            Ok(picture::write(&capture, &title))
        };
        self.write(places, &capture, picture)
    }

    /// Writes the output files of a recorded window, and prints the window as a list. `places`: the
    /// files; `picture` draws the picture if one is requested.
    fn write(
        &self,
        mut places: Places,
        capture: &Capture,
        picture: impl FnOnce() -> Result<String, Error>,
    ) -> Result<ExitCode, Error> {
        if !places.waves.is_empty() {
            places.fit(&Head::of(capture), self.clk())?;
        }
        if let Some(place) = places.svg.take() {
            place.write(&picture()?)?;
        }
        if let Some(place) = places.perfetto.take() {
            place.fill(|file| file.write_all(&perfetto::write(capture)))?;
        }
        let write = |dump: Dump, out: BufWriter<File>| dump.write(capture, self.clk(), out);
        places.waveforms(write)?;
        if !self.no_list {
            self.form.print(|| steps::list(capture), || steps::json_lines(capture))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn clk(&self) -> Clk {
        if self.clk == Clock::Gated { Clk::Gated } else { Clk::Full }
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
        let before_ns = match (start, &self.before) {
            (Start::BringUp | Start::At(_), Some(before)) => {
                let why = "a trigger has a time before it; expected --trigger, but not bringup";
                return Err(Error::Input(format!("--before {before}: {why}")));
            }
            (Start::BringUp | Start::At(_), None) => 0,
            (_, Some(before)) => time("--before", before)?,
            (_, None) => BEFORE_NS,
        };
        let for_ns = self.length.as_ref().map(|length| time("--for", length)).transpose()?;
        if let (Some(0), Some(length)) = (for_ns, &self.length) {
            return Err(Error::Input(format!("--for {length}: expected a time above 0")));
        }
        Ok(Window { start, before_ns, for_ns })
    }
}

fn failed(error: RunError) -> Error {
    match error {
        RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
        other => Error::input(other),
    }
}

/// Output files that the user asked for.
struct Places {
    waves: Vec<(Dump, Place)>,
    svg: Option<Place>,
    perfetto: Option<Place>,
}

impl Places {
    /// Checks that the waveforms that the user asked for are not too long.
    fn fit(&self, head: &Head, clk: Clk) -> Result<(), Error> {
        self.waves.iter().try_for_each(|(dump, _)| head.fits(clk, dump.cycles_max())).map_err(Error::input)
    }

    /// Writes the files of the waveforms that the user asked for.
    fn waveforms(self, write: impl Fn(Dump, BufWriter<File>) -> std::io::Result<()>) -> Result<(), Error> {
        for (dump, place) in self.waves {
            place.fill(|file| write(dump, BufWriter::new(file.try_clone()?)))?;
        }
        Ok(())
    }
}
