//! Common part of all commands that run a load: runs it and prints its report.

use super::effects::with_effects;
use super::page::{self, Files, Place};
use super::progress::{Progress, Unit};
use super::{Error, print, voice};
use clap::Args;
use mmcq_lab::buslog;
use mmcq_lab::finished;
use mmcq_lab::fio::OutputFormat;
use mmcq_lab::fio::logs::Logs;
use mmcq_lab::fio::report::{self, Replayed, Report};
use mmcq_lab::iozone::Iozone;
use mmcq_lab::page::live::Live;
use mmcq_lab::page::{Compared, html};
use mmcq_lab::platform::JOB;
use mmcq_lab::recorded::export;
use mmcq_lab::runner::{self, Outcome, RunError, Setting};
use mmcq_lab::scene::{Loaded, Scene, SceneError};
use mmcq_lab::series::{self, Series};
use mmcq_sim::card::Medium;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Reporting {
    /// Format of the report: normal, json, json+ or terse; several formats with commas
    #[arg(long, value_name = "FORMAT", value_delimiter = ',')]
    output_format: Vec<String>,
    /// Write the report to this file instead of standard output [default: fio's option --output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all events on the bus to this file, one a line, with times in nanoseconds (for `mmcq
    /// diff-bus`)
    #[arg(long, value_name = "FILE")]
    bus_log: Option<PathBuf>,
    /// Write a trace of the requests, as Linux's block layer would record it. FORMAT is blktrace,
    /// which these programs read: btt, blkparse (-i - < FILE), fio (read_iolog) and `mmcq replay`
    #[arg(long, value_names = ["FORMAT", "FILE"], num_args = 2)]
    export: Vec<String>,
    /// Print a line with counters of the stack: transfers, merging, interrupts, context switches,
    /// shares of time
    #[arg(long)]
    counters: bool,
    /// Also writes one HTML file for a colleague: a verdict, the rate beside the limit, where the
    /// time was spent in other settings, latencies, the bus, and the JSON report. For this the load
    /// runs about seven times more
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// iozone's table, if the report must have that form.
    #[arg(skip)]
    table: Option<Iozone>,
    /// Whether the command writes only the HTML page, and no other report.
    #[arg(skip)]
    page_alone: bool,
    /// Playground (the laboratory as WebAssembly, with a form) to put into the HTML page; `None`:
    /// the page has none.
    #[arg(skip)]
    live: Option<Live>,
    /// Files that the command reads, beside those of board and card.
    #[arg(skip)]
    inputs: Files,
}

impl Reporting {
    /// Makes options for a run whose only outputs are the HTML page in the file `file`, and the
    /// verdict on the run that the page begins with. `live`: the playground in the page; `None`: it
    /// has none.
    pub fn page_alone(file: PathBuf, live: Option<Live>) -> Self {
        let (output_format, output, bus_log, export) = Default::default();
        Reporting {
            output_format,
            output,
            bus_log,
            export,
            counters: false,
            report: Some(file),
            table: None,
            page_alone: true,
            live,
            inputs: Files::default(),
        }
    }

    /// Adds files that the command reads, so that no output file can replace them.
    pub fn beside(self, inputs: Files) -> Self {
        Reporting { inputs, ..self }
    }

    /// Makes the report have the form of iozone's table, if `table` is given.
    pub fn with_table(self, table: Option<Iozone>) -> Self {
        Reporting { table, ..self }
    }

    /// Returns whether the report on an SDIO function must be JSON (true) or text (false).
    ///
    /// # Errors
    /// An option is given that needs a report of fio: the report on a function is one table.
    pub fn of_function(&self) -> Result<bool, Error> {
        let given = [
            ("--output", self.output.is_some()),
            ("--bus-log", self.bus_log.is_some()),
            ("--export", !self.export.is_empty()),
            ("--counters", self.counters),
            ("--report", self.report.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            return Err(Error::Input(format!("{option}: an SDIO function has a table alone; expected none")));
        }
        match &self.formats(&[])?[..] {
            [OutputFormat::Normal] => Ok(false),
            [OutputFormat::Json] => Ok(true),
            _ => Err(Error::Input("--output-format: of an SDIO function expected normal or json".to_owned())),
        }
    }

    /// Runs the jobs `loaded` with the settings `scene`, and prints the report. `medium`: content
    /// of the card, if not generated. `again` makes the board and the jobs anew with changed values
    /// (`--set`), for further runs. `replay`: part of the report about a replayed trace. `title`:
    /// heading of the HTML page.
    pub fn run(
        &self,
        scene: &Scene,
        loaded: Loaded,
        medium: Option<Medium>,
        again: impl Fn(&[String]) -> Result<Loaded, SceneError> + Sync,
        replay: Replayed,
        title: &str,
    ) -> Result<ExitCode, Error> {
        let formats = self.formats(&loaded.file.formats)?;
        let mut files = self.inputs.clone().reads_scene(scene);
        let place = self.page(&mut files, medium.is_some())?;
        let output = self.output.as_deref().or(loaded.file.output.as_deref().map(Path::new));
        let output = output.map(|path| files.place("--output", path)).transpose()?;
        let bus_log = self.bus_log.as_deref().map(|path| files.place("--bus-log", path)).transpose()?;
        let export = self.exported(&mut files, scene.setting)?;
        let mut logs = Vec::new();
        for worker in &loaded.workers {
            for name in Logs::names(&worker.job, worker.thread_number) {
                let place = files.place(&format!("log of job {}", worker.job.name), Path::new(&name))?;
                logs.push((name, place));
            }
        }
        let run = scene.run_of(&loaded);
        let image = medium.is_some();
        let progress = Progress::new("jobs", 0, Unit::Bytes);
        let go = || runner::run(&run, medium, &mut |moved, planned| progress.set(moved, planned));
        let go = || match export {
            None => Ok(go()),
            Some(place) => filled(place, |file| export::blktrace(file, || Ok(go()))),
        };
        let logged = || match bus_log {
            None => go(),
            Some(place) => filled(place, |file| buslog::record(file, go)),
        };
        let kept = || match &place {
            None => (logged(), Series::default()),
            Some(_) => series::record(logged),
        };
        // With an image, no second run is possible, since it would change the same file.
        let (outcome, series) = match image {
            true => kept(),
            false => with_effects(scene, again, kept, |(done, _)| done.as_ref().ok()?.as_ref().ok()),
        };
        progress.end();
        let outcome = outcome?.map_err(failed)?;
        for error in &outcome.verify_errors {
            voice::fault(error);
        }
        if outcome.counters.stack.continue_lost {
            eprintln!(
                "mmcq: platform {}: the controller does not continue data although its driver says so; every transfer was closed since",
                scene.platform
            );
        }
        for (name, place) in logs {
            // A log without an entry is not written, as in fio.
            if let Some((_, text)) = outcome.logs.iter().find(|(known, _)| *known == name) {
                place.write(text)?;
            }
        }
        let counters = self.counters.then(|| counters_line(&outcome));
        let failed = !outcome.verify_errors.is_empty() || outcome.counters.failed > 0;
        let origin = finished::origin(scene, &loaded.platform, &outcome);
        let origin = finished::with_trace(origin, replay, &outcome);
        let compared = place.is_some().then(|| compared(scene, &loaded, &outcome, series)).transpose()?;
        let report = finished::report(loaded, outcome, origin);
        if let (Some(place), Some(compared)) = (place, compared) {
            let title = format!("{title} on board {}", scene.platform);
            let live = self.live.as_ref();
            let text = html(&compared, &report, &title, &page::command_line(), live).map_err(Error::Run)?;
            place.write(&text)?;
            if self.page_alone {
                print(&format!("{}\n", compared.why.conclusion()))?;
            }
        }
        if !self.page_alone {
            self.print_report(&formats, &report, output)?;
        }
        if let Some(line) = counters {
            eprint!("{line}");
        }
        Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// Returns the output file of the HTML page; `None`: no page is wanted.
    fn page(&self, files: &mut Files, image: bool) -> Result<Option<Place>, Error> {
        let Some(path) = &self.report else { return Ok(None) };
        if image {
            let why = "the load runs in other settings too, and an image has one writer; expected no --image";
            return Err(Error::Input(format!("--report {}: {why}", path.display())));
        }
        files.place(if self.page_alone { "--output" } else { "--report" }, path).map(Some)
    }

    /// Returns the output file for a trace of the run's requests; `None`: no trace is wanted.
    fn exported(&self, files: &mut Files, setting: Setting) -> Result<Option<Place>, Error> {
        let [format, file] = &self.export[..] else { return Ok(None) };
        if format != "blktrace" {
            return Err(Error::Input(format!("--export {format}: expected blktrace")));
        }
        if setting == Setting::Limit {
            let why = "limit joins requests, and runs several lanes; expected another setting";
            return Err(Error::Input(format!("--export blktrace: {why}")));
        }
        files.place("--export blktrace", Path::new(file)).map(Some)
    }

    fn formats(&self, given: &[OutputFormat]) -> Result<Vec<OutputFormat>, Error> {
        if self.output_format.is_empty() {
            return Ok(if given.is_empty() { vec![OutputFormat::Normal] } else { given.to_vec() });
        }
        let format = |name: &String| {
            OutputFormat::from_name(name).ok_or_else(|| {
                Error::Input(format!("--output-format={name}: expected normal, json, json+ or terse"))
            })
        };
        self.output_format.iter().map(format).collect()
    }

    fn print_report(
        &self,
        formats: &[OutputFormat],
        report: &Report,
        output: Option<Place>,
    ) -> Result<(), Error> {
        // fio's own format contains the notes; the other formats are for programs, so notes go to
        // standard error.
        if report.started.capped > 0 && !formats.contains(&OutputFormat::Normal) {
            voice::note(report::CAPPED);
        }
        let fios = |format: &OutputFormat| match format {
            OutputFormat::Normal => report::normal(report),
            OutputFormat::Json => report::json::json(report, false),
            OutputFormat::JsonPlus => report::json::json(report, true),
            OutputFormat::Terse => report::terse(report),
        };
        let text: String = match self.table.as_ref().filter(|_| self.output_format.is_empty()) {
            Some(table) => table_of(table, report),
            None => formats.iter().map(fios).collect(),
        };
        match output {
            Some(place) => place.write(&text),
            None => print(&text),
        }
    }
}

/// Returns iozone's table as text, after a line about what ran.
fn table_of(table: &Iozone, report: &Report) -> String {
    let title =
        report.context.origin.as_ref().map_or_else(String::new, |origin| format!("{}\n\n", origin.title()));
    title + &table.table(report.entries.iter().map(|entry| &entry.stats))
}

/// Returns whether a run failed while it ran: it did not end, or accessed wrong memory. Any other
/// error is bad input.
fn is_of_run(error: &RunError) -> bool {
    matches!(error, RunError::Stuck(_) | RunError::Memory(_))
}

/// Converts the error of a run into the error of the command: a failure of the run itself, or bad
/// input.
fn failed(error: RunError) -> Error {
    match is_of_run(&error) {
        true => Error::Run(error.to_string()),
        false => Error::input(error),
    }
}

/// Result of a run that also writes a file. The inner result is that of the run; the outer error is
/// that of the file.
type Ran = Result<Result<Outcome, RunError>, Error>;

/// Calls `run` with an open file, whose content becomes the output file `place` at the end. If the
/// input of the run is bad, the output file stays as it was.
fn filled(place: Place, run: impl FnOnce(File) -> std::io::Result<Ran>) -> Ran {
    let mut ran = None;
    let filled = place.fill(|file| {
        let done = run(file.try_clone()?)?;
        let is_kept = done.as_ref().is_ok_and(|done| done.as_ref().err().is_none_or(is_of_run));
        ran = Some(done);
        if is_kept { Ok(()) } else { Err(std::io::Error::other("the run was refused")) }
    });
    match ran {
        Some(Ok(Ok(outcome))) => filled.map(|()| Ok(outcome)),
        Some(refused) => refused,
        None => Err(filled.err().unwrap_or_else(|| Error::Run("nothing ran".to_owned()))),
    }
}

/// Returns what the HTML page of a run shows in addition to the run itself: the load in other
/// settings, the physical limit, and the bus. `series`: rate and depth of the run over time.
fn compared(scene: &Scene, loaded: &Loaded, outcome: &Outcome, series: Series) -> Result<Compared, Error> {
    let shown = Progress::new("", 0, Unit::Step);
    let changes: Vec<String> = scene.set.iter().filter(|change| !change.starts_with(JOB)).cloned().collect();
    let board = (scene.platform.as_str(), &changes[..]);
    let compared = Compared::of(&scene.run_of(loaded), board, outcome, series, &mut |what| shown.step(what));
    shown.end();
    compared.map_err(failed)
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
    let packs = c.stack.packs.map_or_else(String::new, |packs| {
        let demoted = packs.demoted.map_or_else(String::new, |why| format!(", given up: {why:?}"));
        format!(
            "; packed: {} writes and {} reads of {} entries, {} of them split{demoted}",
            packs.writes, packs.reads, packs.entries, packs.split
        )
    });
    let chains = c.stack.chains.map_or_else(String::new, |chains| {
        let demoted = chains.demoted.map_or_else(String::new, |why| format!(", given up: {why:?}"));
        format!("; chains: {} of {} transfers{demoted}", chains.chains, chains.transfers)
    });
    format!(
        "{} I/Os in {} transfers ({:.2} x 4 KiB each); per I/O: {:.2} commands, {:.2} interrupts, {:.2} context switches, \
         {:.2} register reads, {:.2} writes; time: {:.1} % wire, {:.1} % card, CPU {:.1} % idle{held}{tasks}{packs}{chains}\n",
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
