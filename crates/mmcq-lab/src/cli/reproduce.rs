//! `mmcq reproduce`: runs published experiments again.

use super::page::{Files, command_line};
use super::progress::{Progress, Unit};
use super::{Error, print, voice};
use clap::{Args, ValueEnum};
use mmcq_lab::platform::Platform;
use mmcq_lab::plot;
use mmcq_lab::reproduce::never::{Cell, Grid, Kept, Measured};
use mmcq_lab::reproduce::{
    self, Amount, Row, fair, fifo, hsq, listed, never, original, queues, sdio, spread, stream, stream_sweep,
};
use mmcq_lab::runner::RunError;
use mmcq_lab::sdio::Failure;
use mmcq_sim::parallel;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

/// Run a published experiment again: published value, model, error, share of the physical limit
///
/// Published values with a star were used to find the model's parameters; the model predicts all
/// others. `limit` is the same load with wire and card alone: software costs nothing, and
/// sequential requests go in batches as long as the depth.
///
/// Settings: none is Linux without the queue, hsq-tag and hsq-fifo are Linux with its software
/// queue. close and patch are Linux's driver of a reader: close as it is, patch with transfers that
/// stay open. mmcq is this stack with Linux's CPU costs, mmcq-own with those of its own measured
/// code.
///
/// Settings of never: in mmcq-early and mmcq-early-own a write is complete when its data are
/// transferred. They are compared with hsq-tag and hsq-fifo where these complete writes so early,
/// that is, on a host that does not report the end of busy. There, mmcq and mmcq-own are compared
/// with none.
///
/// Settings of queues: single (mmcq), tasks (software drives the card's queue), cqe (the
/// controller's engine drives it), packed (packed commands), adma3 (chains that the controller
/// executes) and auto (the stack chooses at run time, by load).
///
/// Settings of sdio: thread+tasklet, thread and async name the context that starts each of Linux's
/// six commands. In thread+spin the thread spins until a CMD52 has ended. In mmcq asks, two
/// functions may interrupt, so the driver reads INTx. In mmcq spin, the driver spins until a CMD52
/// has ended if its policy chooses so. In mmcq dma, DMA transfers the payload. mmcq-own slow has
/// the largest number of cycles per instruction. More tables show the CPU time of a CMD52 for each
/// way to wait for it, and the packets on a fast PC with SDHCI.
#[derive(Debug, Args)]
pub struct Reproduce {
    /// Experiment to run
    experiment: Experiment,
    /// Runs jobs of the exact published sizes, instead of shorter ones that reach the steady state
    #[arg(long)]
    full: bool,
    /// Another board: a name from `mmcq platforms` (nothing was published for it). With never: only
    /// this board runs
    #[arg(long, value_name = "PLATFORM", conflicts_with = "all")]
    platform: Option<String>,
    /// With sdio only: sets one value of the board, such as cost.wake_us=30 or
    /// bus.clock_hz=25000000. May be repeated; without --platform only the published board runs
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also runs variants of the experiment's board: busy CPU, host that completes requests in a
    /// thread, host that does not report the end of busy. For stream: also block sizes from 4 KiB
    /// to 1 MiB, depths from 1 to 32 and mixed loads, with open and with closed transfers, and
    /// merging on a host that cannot continue data
    #[arg(long)]
    all: bool,
    /// With never only: runs a part of the cases (board, card and load), which takes a minute
    #[arg(long)]
    thin: bool,
    /// With never only: file of results. Cells that are in the file do not run again, and the
    /// results of other cells are added to it. So an interrupted sweep can continue, and parts of
    /// it (--platform) can be collected in one file
    #[arg(long, value_name = "FILE.jsonl")]
    keep: Option<PathBuf>,
    /// With never only: runs only cells whose name contains this text, such as "read 512, depth 8,
    /// 4 jobs". May be repeated: a cell runs if its name contains any of the texts
    #[arg(long, value_name = "TEXT", conflicts_with = "original")]
    only: Vec<String>,
    /// With never, hsq and fifo only: file with the results of unmodified Linux
    /// (tools/guest-time.sh), which are shown beside the models of Linux and mmcq
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["thin", "keep", "platform", "all"])]
    original: Option<PathBuf>,
    /// Draws the rates as an SVG picture into this file as well
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Also writes one HTML file: the tables, and the rates as a picture. Not with never
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1, value_parser = super::whole)]
    seed: u64,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads)]
    jobs: Option<usize>,
    /// One JSON object per line: cell, setting, unit, published, fitted, model, limit
    #[arg(long)]
    json: bool,
    /// Tables in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Tables as CSV, without notes
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    csv: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Experiment {
    /// A software queue for cards without a command queue: loads of 20 jobs with requests of 4 KiB
    Hsq,
    /// Two orders in which that queue sends requests: latency percentiles of 8 readers
    Fifo,
    /// A multi-block transfer that stays open while requests are sequential: one thread, requests
    /// from 8 KiB to 10 MiB
    Stream,
    /// A sequential writer and a random reader that share a card, with each scheduler (nothing was
    /// published)
    Fair,
    /// This stack compared with the best of Linux in thousands of cells (combinations of board,
    /// card, load, request size, depth, jobs and cost of a wake-up); no publication has figures for
    /// it
    Never,
    /// Command queues of cards, driven by software or by the controller, with several loads: a
    /// phone's published rates, a controller with a queue engine, an A2 card
    Queues,
    /// A Bluetooth card on a slow CPU: six commands for each packet; a thread or the interrupt
    /// starts each command
    Sdio,
}

/// Returns the text of the file with the results of unmodified Linux.
fn read(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path);
    text.map_err(|error| Error::Input(format!("--original {}: {error}", path.display())))
}

type Board = fn(&str, &[String], Amount, &mut dyn FnMut(&str)) -> Result<Vec<Row>, Error>;

fn failed(error: RunError) -> Error {
    match error {
        RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
        other => Error::input(other),
    }
}

/// Makes the function that runs an experiment on one block device's board. It has the same
/// signature for all experiments, and converts the experiment's error.
macro_rules! blocks {
    ($board:path) => {
        |name, _, amount, progress| $board(name, amount, progress).map_err(failed)
    };
}

fn packets(
    name: &str,
    changes: &[String],
    amount: Amount,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Row>, Error> {
    sdio::board(name, changes, amount, progress).map_err(|error| match error {
        Failure::Platform(_) | Failure::Card(_) | Failure::Setup(_) => Error::input(error),
        other => Error::Run(other.to_string()),
    })
}

impl Reproduce {
    fn amount(&self) -> Amount {
        let threads = self.jobs.unwrap_or_else(parallel::cores);
        Amount { full: self.full, seed: self.seed, threads }
    }

    pub fn run(self) -> Result<ExitCode, Error> {
        let amount = self.amount();
        if self.thin && !matches!(self.experiment, Experiment::Never) {
            return Err(Error::Input(
                "--thin: expected never; the others run a steady-state share unless --full is given"
                    .to_owned(),
            ));
        }
        if let Some(path) = self.keep.as_ref().filter(|_| !matches!(self.experiment, Experiment::Never)) {
            return Err(Error::Input(format!("--keep {}: expected never", path.display())));
        }
        if let Some(text) = self.only.first().filter(|_| !matches!(self.experiment, Experiment::Never)) {
            return Err(Error::Input(format!("--only {text}: expected never")));
        }
        let has_original = matches!(self.experiment, Experiment::Never | Experiment::Hsq | Experiment::Fifo);
        if let Some(path) = self.original.as_ref().filter(|_| !has_original) {
            return Err(Error::Input(format!("--original {}: expected never, hsq or fifo", path.display())));
        }
        let (board, boards): (Board, &[&str]) = match self.experiment {
            Experiment::Hsq => (blocks!(hsq::board), &hsq::BOARDS),
            Experiment::Fifo => (blocks!(fifo::board), &fifo::BOARDS),
            Experiment::Stream => (blocks!(stream::board), &stream::BOARDS),
            Experiment::Fair => (blocks!(fair::board), &fair::BOARDS),
            Experiment::Queues => (blocks!(queues::board), &queues::BOARDS),
            Experiment::Sdio => (packets, &sdio::BOARDS),
            Experiment::Never => return self.never(),
        };
        let packets_only = matches!(self.experiment, Experiment::Sdio);
        let queues = matches!(self.experiment, Experiment::Queues);
        let named = self.platform.as_deref().map(|name| [name]);
        let wanted: &[&str] = match &named {
            Some(name) => name,
            None if self.original.is_some() && matches!(self.experiment, Experiment::Fifo) => {
                &[fifo::SDHCI.0]
            }
            None if self.all => boards,
            None if queues || packets_only && self.set.is_empty() => boards,
            None => &boards[..1],
        };
        if self.plot.is_some() && packets_only {
            return Err(Error::Input(
                "--plot: sdio has no rates to draw; expected another experiment, or mmcq trace --sdio --svg FILE"
                    .to_owned(),
            ));
        }
        if let Some(change) = self.set.first().filter(|_| !packets_only) {
            return Err(Error::Input(format!(
                "--set {change}: a published experiment runs as its board is; expected sdio, or mmcq run JOB --set"
            )));
        }
        let files = Files::default();
        let mut files = match &self.original {
            Some(path) => files.reads("--original", path),
            None => files,
        };
        if let Some(board) = self.platform.as_deref().filter(|name| name.ends_with(".toml")) {
            files = files.reads("--platform", Path::new(board));
        }
        let plot = self.plot.as_deref().map(|path| files.svg("--plot", path)).transpose()?;
        let place = self.report.as_deref().map(|path| files.place("--report", path)).transpose()?;
        let reports = match &self.original {
            Some(path) => original::reports(&read(path)?)
                .map_err(|error| Error::Input(format!("--original {}: {error}", path.display())))?,
            None => Vec::new(),
        };
        let shown = Progress::new("", 0, Unit::Step).at_once();
        let mut progress = |what: &str| shown.step(what);
        let mut rows = Vec::new();
        for name in wanted {
            rows.extend(board(name, &self.set, amount, &mut progress)?);
        }
        let (mut merged, mut swept) = (Vec::new(), Vec::new());
        if self.all && matches!(self.experiment, Experiment::Stream) {
            merged = stream_sweep::merging(amount, &mut progress).map_err(failed)?;
            swept = stream_sweep::sweep(&stream_sweep::Grid::FULL, amount, &mut progress).map_err(failed)?;
        }
        shown.end();
        let five = || -> Result<Vec<Row>, Error> {
            if !matches!(self.experiment, Experiment::Hsq) || wanted[0] != hsq::BOARDS[0] {
                return Ok(Vec::new());
            }
            let shown = Progress::new("", 0, Unit::Step).at_once();
            let rows = spread::rows(amount, &mut |what| shown.step(what)).map_err(failed);
            shown.end();
            rows
        };
        let title = match self.experiment {
            Experiment::Fair => "Rates of a writer and a reader that share a card",
            Experiment::Stream => "One thread's rates",
            _ => "Rates of 4 KiB loads",
        };
        let title = format!("{title} on {}; the line is what wire and card allow", on(wanted));
        let drawn = (plot.is_some() || place.is_some()) && !packets_only;
        let svg = drawn.then(|| plot::rates(&rows, &title)).transpose().map_err(Error::Run)?;
        if let (Some(plot), Some(svg)) = (plot, &svg) {
            plot.write(svg)?;
            let path = self.plot.as_deref().unwrap_or(Path::new("-"));
            voice::note(format_args!("the picture is {}", path.display()));
        }
        if let Some(place) = place {
            let name = self
                .experiment
                .to_possible_value()
                .map_or_else(String::new, |value| value.get_name().to_owned());
            let text = listed::page(
                &format!("Reproduced: {name}"),
                &self.parts(&rows),
                svg.as_deref(),
                &command_line(),
            );
            place.write(&text.map_err(|error| Error::Run(error.to_string()))?)?;
        }
        let originals = original::rows(&rows, &reports, wanted[0]);
        if let Some(path) = self.original.as_ref().filter(|_| originals.is_empty()) {
            return Err(Error::Input(format!("--original {}: no load of this experiment", path.display())));
        }
        let as_long = match self.experiment {
            Experiment::Hsq => hsq::as_long(&reports, amount).map_err(failed)?,
            _ => Vec::new(),
        };
        if self.json {
            rows.extend(five()?);
            rows.extend(originals);
            rows.extend(merged.into_iter().chain(swept));
            let lines = reproduce::json_lines(&rows).map_err(|error| Error::Run(error.to_string()))?;
            print(&lines)?;
        } else if self.csv {
            let all: Vec<Row> =
                rows.into_iter().chain(five()?).chain(originals).chain(merged).chain(swept).collect();
            print(&reproduce::table(&all).csv())?;
        } else {
            let beside = original::table(&rows, &originals, &as_long);
            let parts = self.parts(&rows);
            for part in &parts {
                print(&self.shown(part))?;
            }
            let limit = "limit: wire and card alone, no host; under a setting, the share of it.\n";
            let fitted = parts.iter().flatten().any(|row| row.fitted);
            let star = "* the model's parameters were fitted to this value; everything else is predicted.\n";
            print(&format!("{}{limit}", if fitted { star } else { "" }))?;
            if !originals.is_empty() {
                print(&format!("\n{beside}"))?;
            }
            if matches!(self.experiment, Experiment::Hsq) {
                print(&hsq::note(&parts.concat()))?;
                // The first table stands while these runs last.
                let five = five()?;
                if !five.is_empty() {
                    print(&format!("\n{}{}", self.shown(&five), spread::NOTE))?;
                }
            }
            if matches!(self.experiment, Experiment::Fifo)
                && rows.iter().any(|row| row.cell.contains("card B"))
            {
                print(fifo::NOTE)?;
            }
            if matches!(self.experiment, Experiment::Stream) && wanted[0] == stream::BOARDS[0] {
                print(stream::NOTE)?;
            }
            if packets_only && rows.iter().any(|row| row.published.is_some()) {
                print(sdio::NOTE)?;
            }
            if !swept.is_empty() {
                print(&format!("\n{}\n{}", self.shown(&merged), stream_sweep::table(&swept)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Splits the rows of an experiment into parts, one for each table.
    fn parts(&self, rows: &[Row]) -> Vec<Vec<Row>> {
        match self.experiment {
            Experiment::Sdio => sdio::parts(rows),
            Experiment::Queues => queues::parts(rows),
            _ => vec![rows.to_vec()],
        }
    }

    /// Returns a table of these rows in the form that the user requested.
    fn shown(&self, rows: &[Row]) -> String {
        let table = reproduce::table(rows);
        if self.markdown { table.markdown() } else { table.text() }
    }

    /// Measures the cells (board, card and load) of `mmcq reproduce never` and returns the results
    /// in the cells' order. Cells whose results are in the file of `--keep` are not run again.
    fn measure(&self, cells: &[Cell]) -> Result<Vec<Measured>, Error> {
        let opened = |path: &PathBuf| {
            let kept = Kept::open(path, self.seed);
            kept.map_err(|error| Error::Input(format!("--keep {}: {error}", path.display())))
        };
        let kept = self.keep.as_ref().map(opened).transpose()?;
        let known: Vec<Option<Measured>> =
            cells.iter().map(|cell| kept.as_ref().and_then(|kept| kept.find(cell))).collect();
        let missing = cells.iter().zip(&known).filter(|(_, known)| known.is_none());
        let missing: Vec<Cell> = missing.map(|(cell, _)| *cell).collect();
        let shown = Progress::new("cells", missing.len() as u64, Unit::Count);
        let refused: OnceLock<std::io::Error> = OnceLock::new();
        let run = never::sweep(&missing, self.amount(), &|measured| {
            shown.inc(1);
            if let Some(Err(error)) = kept.as_ref().map(|kept| kept.add(measured)) {
                let _ = refused.set(error);
            }
        });
        shown.end();
        let mut run = run.map_err(failed)?.into_iter();
        if let (Some(error), Some(path)) = (refused.into_inner(), &self.keep) {
            return Err(Error::Run(format!("--keep {}: {error}", path.display())));
        }
        Ok(known.into_iter().filter_map(|known| known.or_else(|| run.next())).collect())
    }

    /// Compares mmcq with the results of unmodified Linux in the file. The exit code is 1 if mmcq
    /// is slower in a cell.
    fn original(&self, path: &Path) -> Result<ExitCode, Error> {
        let wrong = |error: String| Error::Input(format!("--original {}: {error}", path.display()));
        let cells = never::original::parse(&read(path)?).map_err(wrong)?;
        let judged = never::original::judge(&cells, self.amount()).map_err(failed)?;
        if self.json {
            let measured: Vec<Measured> = judged.iter().map(|one| one.measured.clone()).collect();
            let mut rows = never::rows(&measured);
            for row in &mut rows {
                let of = |one: &never::original::Judged| one.measured.cell.to_string() == row.cell;
                let found = judged.iter().find(|one| of(one));
                let rates = found.map_or(&[][..], |one| &one.original);
                let original = rates.iter().find(|(setting, _)| setting.name() == row.setting);
                row.published = original.map(|(_, rate)| *rate);
            }
            let lines = reproduce::json_lines(&rows);
            print(&lines.map_err(|error| Error::Run(error.to_string()))?)?;
        } else {
            print(&never::original::table(&judged))?;
        }
        let slower = judged.iter().any(|one| one.gain_percent() < -1.0);
        Ok(if slower { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// Runs the sweep of `never`. The exit code is 1 if [`never::Summary::holds`] is false, such as
    /// for a combination of board, load and settings with which mmcq is slower than the best of
    /// Linux.
    fn never(&self) -> Result<ExitCode, Error> {
        if self.full || self.all || !self.set.is_empty() || self.plot.is_some() || self.report.is_some() {
            return Err(Error::Input(
                "never: its amounts and costs are its own; expected --thin, --platform, --only, --seed, --keep, --original and --json alone"
                    .to_owned(),
            ));
        }
        if self.markdown || self.csv {
            return Err(Error::Input(
                "never --markdown, --csv: its table is of one form; expected --json".to_owned(),
            ));
        }
        if let Some(path) = &self.original {
            return self.original(path);
        }
        let grid = if self.thin { Grid::THIN } else { Grid::FULL };
        let (mut cells, left_out) = grid.cells(self.platform.as_deref());
        if cells.is_empty() {
            let known = grid.platforms().join(", ");
            let name = self.platform.as_deref().unwrap_or_default();
            return Err(Error::Input(format!(
                "never --platform {name}: not swept; expected one of: {known}"
            )));
        }
        if !self.only.is_empty() {
            let is_meant = |cell: &Cell| self.only.iter().any(|text| cell.to_string().contains(text));
            cells.retain(is_meant);
            if cells.is_empty() {
                let texts = self.only.join(", ");
                return Err(Error::Input(format!("never --only {texts}: no cell has this in its name")));
            }
        }
        let measured = self.measure(&cells)?;
        if self.json {
            let lines = reproduce::json_lines(&never::rows(&measured));
            print(&lines.map_err(|error| Error::Run(error.to_string()))?)?;
        } else {
            print(&never::text(&measured, &left_out))?;
        }
        let holds = never::Summary::of(&measured).holds();
        Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// Returns the names of these boards with their cards. For more than two boards, returns only how
/// many there are, such as `5 boards`.
fn on(boards: &[&str]) -> String {
    if boards.len() > 2 {
        return format!("{} boards", boards.len());
    }
    let with = |name: &&str| match Platform::load(name) {
        Ok(platform) => format!("{} with card {}", platform.name, platform.card),
        Err(_) => (*name).to_owned(),
    };
    boards.iter().map(with).collect::<Vec<_>>().join(" and ")
}
