//! `mmcq compare`: compares two saved reports, or the stacks on a board.

use super::form::Form;
use super::page::{Files, Place, command_line};
use super::progress::{Progress, Unit};
use super::{Error, voice};
use clap::Args;
use mmcq_lab::compare::{self, Comparison};
use mmcq_lab::fio::Note;
use mmcq_lab::gain::{self, Given, Question, load};
use mmcq_lab::rate::Rate;
use mmcq_lab::runner::Setting;
use mmcq_sim::parallel;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest size in bytes of a file that is read as a report; no report is larger.
const BYTES_MAX: u64 = 64 << 20;
/// Depths (numbers of requests under way) at which the built-in loads of `mmcq compare` run, if the
/// user gives no depths.
const DEPTHS: [u32; 3] = [1, 8, 32];
/// Largest depth that a user can give: no card's queue and no job has more requests.
const DEPTH_MAX: u32 = 1024;
/// Largest number of depths in a comparison.
const DEPTHS_MAX: usize = 8;

/// Compare two saved reports; or, with --platform, compare card stacks on a board
///
/// A and B are reports of this version: JSON (`mmcq run --output-format json`) or HTML (`mmcq
/// report`). Runs are deterministic, so each difference is exact. Equal figures are counted, not
/// listed.
///
///   mmcq report job.fio -o a.html
///   mmcq report job.fio -o b.html --set cost.wake_us=80
///   mmcq compare a.html b.html
///
/// With --platform no report is needed. Three kinds of load run: random reads, random writes, and
/// writes that are each followed by a flush. Each runs at several depths; for the flushed writes
/// the depth is the number of jobs. Each load runs with Linux without a queue, with the queues of
/// Linux that board and card can have, and with this stack. The table shows the rate, its gain
/// over the first stack, the latency that 99 % of the requests do not exceed (of flushed writes:
/// of the flushes), and the CPU time.
///
/// Each gain has an interval, and the table names the value of the board or card that moves it
/// most. For the interval, each value that is not known exactly is set to its low and to its high
/// end, one value at a time. The ends are the interval that `mmcq fit` wrote into the file, or
/// else the file's range. Without either, they follow from the value's kind: a prior from half to
/// double, fit and val 10 % down and up, measured 5 %. A count moves at least to the next whole
/// number; a fitted size from half to double; a measured count or size is exact. Values of --set
/// are exact, too.
///
///   mmcq compare --platform my-board.toml --card fitted.toml --report answer.html
///   mmcq compare --platform intel-jsl --card emmc-queue --range card.queue.units=1..4
///   mmcq compare --platform my-board.toml --load my.fio --settings none,hsq-tag,mmcq
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Compare {
    /// The first report
    #[arg(value_name = "A", requires = "b")]
    a: Option<PathBuf>,
    /// The second report
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// Unit in which rates of two reports are shown: MiB/s, MB/s or IOPS
    #[arg(long, value_name = "UNIT", default_value = "MiB/s", conflicts_with = "platform")]
    rates: Rate,
    #[command(flatten)]
    form: Form,
    /// Also writes the comparison as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    stacks: Stacks,
}

/// Options that compare the stacks on a board.
#[derive(Debug, Args)]
#[command(next_help_heading = "The stacks on a board")]
struct Stacks {
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", conflicts_with_all = ["a", "b"])]
    platform: Option<String>,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD", conflicts_with = "a")]
    card: Option<String>,
    /// Changes one value, as in `mmcq run`. A value that is set counts as exact. May be repeated
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "a")]
    set: Vec<String>,
    /// Seed of the models' random numbers. fio's random numbers have fio's own seeds, and a card's
    /// rare delays have card.seed
    #[arg(long, default_value_t = 1, value_parser = super::whole, conflicts_with = "a")]
    seed: u64,
    /// Settings to compare: the others are compared with the first [default: the settings of Linux
    /// and of this stack that board and card can run]
    #[arg(long, value_name = "SETTING,...", value_delimiter = ',', conflicts_with = "a")]
    settings: Vec<Setting>,
    /// Depths: number of requests under way, for durable loads number of jobs. With a load of your
    /// own, each of its sections gets this depth [default: 1,8,32; with a load of your own: its
    /// own]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = depth, conflicts_with = "a")]
    depth: Vec<u32>,
    /// fio job file instead of the usual loads (or fio's options after --). It runs as it is and,
    /// if it writes and never flushes, also with fsync=1. It runs some hundred times: keep it short
    #[arg(long, value_name = "JOB.fio", conflicts_with = "a")]
    load: Option<PathBuf>,
    /// The load as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS", conflicts_with = "a")]
    options: Vec<String>,
    /// Low and high end of a value that is not known exactly: the value of any key of `mmcq params`
    /// that is a number. May be repeated
    #[arg(long, value_name = "KEY=LEAST..MOST", conflicts_with = "a")]
    range: Vec<Given>,
    /// Runs only with the values as they are in the files, and not with both ends of the ranges of
    /// uncertain values: quick, but no result has an interval
    #[arg(long, conflicts_with_all = ["a", "range"])]
    no_interval: bool,
    /// Number of requests in each run of the usual loads (those that run without a job file)
    #[arg(long, value_name = "N", default_value_t = 1500, value_parser = ios, conflicts_with = "a")]
    ios: u64,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads, conflicts_with = "a")]
    jobs: Option<usize>,
}

fn depth(text: &str) -> Result<u32, String> {
    let depth = text.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
    depth.ok_or_else(|| format!("expected a whole number from 1 to {DEPTH_MAX}"))
}

fn ios(text: &str) -> Result<u64, String> {
    let ios = text.parse().ok().filter(|ios| (100..=1_000_000).contains(ios));
    ios.ok_or_else(|| "expected a whole number from 100 to 1000000".to_owned())
}

impl Compare {
    pub fn run(self) -> Result<ExitCode, Error> {
        let inputs = [("A", &self.a), ("B", &self.b), ("--load", &self.stacks.load)];
        let boards = [&self.stacks.platform, &self.stacks.card].into_iter().flatten();
        let mut files =
            boards.fold(Files::default(), |files, name| files.reads("PLATFORM or CARD", name.as_ref()));
        for (what, path) in inputs {
            if let Some(path) = path {
                files = files.reads(what, path);
            }
        }
        let place = self.report.as_deref().map(|path| files.place("--report", path)).transpose()?;
        let (Some(a), Some(b)) = (&self.a, &self.b) else {
            if self.stacks.platform.is_none() {
                let expected = "expected two reports, A and B, or --platform BOARD";
                return Err(Error::Input(format!("compare: {expected}")));
            }
            return self.stacks.run(&self.form, place);
        };
        let found = compare::compare_in(&read(a)?, &read(b)?, self.rates);
        if let Some(place) = place {
            place.write(&page([a, b], &found)?)?;
        }
        self.form.print(|| found.text(), || found.json_lines())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Stacks {
    fn run(&self, form: &Form, place: Option<Place>) -> Result<ExitCode, Error> {
        let question = self.question()?;
        let progress = Progress::new("runs", 0, Unit::Count);
        let mut done = 0;
        let answer = question.ask(&mut |more, planned| {
            done += more as u64;
            if planned > 0 {
                progress.set(done, planned as u64);
            } else {
                progress.inc(more as u64);
            }
        });
        progress.end();
        let answer = answer.map_err(Error::Input)?;
        if let Some(place) = place {
            place.write(&answer.html(&command_line()).map_err(Error::Run)?)?;
        }
        form.print(|| answer.text(), || answer.json_lines())?;
        Ok(ExitCode::SUCCESS)
    }

    fn question(&self) -> Result<Question, Error> {
        if self.depth.len() > DEPTHS_MAX {
            return Err(Error::Input(format!("--depth: expected at most {DEPTHS_MAX} numbers")));
        }
        let loads = match self.load.is_some() || !self.options.is_empty() {
            true => {
                let file = super::jobs(self.load.as_deref(), &self.options)?;
                let loads = load::own(&super::load_name(self.load.as_deref()), &file, &self.set, &self.depth);
                let of =
                    |load: &gain::Load| load.file.notes.iter().cloned().chain(load.file.capped()).collect();
                let mut notes: Vec<Note> = Vec::new();
                for note in loads.iter().flatten().flat_map::<Vec<Note>, _>(of) {
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                }
                notes.iter().for_each(voice::note);
                loads
            }
            false if self.depth.is_empty() => load::usual(&DEPTHS, self.ios),
            false => load::usual(&self.depth, self.ios),
        };
        let platform = self.platform.clone().unwrap_or_default();
        let settings = match self.settings.is_empty() {
            true => gain::settings(&platform).map_err(Error::Input)?,
            false => self.settings.clone(),
        };
        Ok(Question {
            platform,
            card: self.card.clone(),
            set: self.set.clone(),
            seed: self.seed,
            settings,
            loads: loads.map_err(Error::Input)?,
            given: self.range.clone(),
            has_intervals: !self.no_interval,
            threads: self.jobs.unwrap_or_else(parallel::cores),
        })
    }
}

fn page(files: [&PathBuf; 2], found: &Comparison) -> Result<String, Error> {
    let names = files.map(|path| path.display().to_string());
    found.html([&names[0], &names[1]], &command_line()).map_err(Error::Run)
}

/// Reads a file, and returns the report that it contains.
pub fn read(path: &Path) -> Result<Value, Error> {
    let wrong = |said: String| Error::Input(format!("{}: {said}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, BYTES_MAX), &mut text)
        .map_err(|error| wrong(format!("no report: {error}")))?;
    compare::read(&text).map_err(wrong)
}
