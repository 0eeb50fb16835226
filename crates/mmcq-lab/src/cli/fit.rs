//! `mmcq fit`: fits values of board and card to measured figures.

use super::page::Place;
use super::progress::{Progress, Unit};
use super::{Error, jobs, print};
use clap::Args;
use mmcq_lab::fit::measured::{self, Figure, Load, Wanted};
use mmcq_lab::fit::{self, Bench, Free, Task, design, free, save};
use mmcq_lab::platform::{JOB, Platform};
use mmcq_lab::runner::Setting;
use mmcq_lab::scene::PLATFORM;
use mmcq_sim::parallel;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fit values of board and card to figures measured on a real board
///
/// Figures come from fio's JSON (fio --output-format=json; the model runs the job options in it
/// again), from tables of iozone -a, from rows as mmcq sweep writes them, or from traces
/// (blktrace, blkparse, ftrace, Perfetto), of which the time from the driver to the completion
/// counts. The result is a table. For each free value, that is, each value that the fit may
/// change, it shows the value before and after the fit, and how well the figures determine the
/// value (95 % interval). If they do not determine it, the table names a job that would. Held-out
/// figures, to which nothing is fitted, show how well the model predicts the board.
///
///   mmcq fit --jobs --card my-card.toml > measure.fio
///   fio --output-format=json --output=measured.json measure.fio           (on the board)
///   mmcq fit --card my-card.toml --measured measured.json -o fitted.toml
///   mmcq fit --card my-card.toml --measured app.blkparse --free card.flash.read.read_first_us
///   mmcq fit --measured measured.json --holdout more.json --require 10% --free 'card.flash.*,cost.irq_us'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Fit {
    /// Files of figures: fio's JSON, tables of iozone, rows of mmcq sweep, or traces with the
    /// events D (issued) and C (complete)
    #[arg(long, value_name = "FILE", num_args = 1.., value_delimiter = ',', required_unless_present = "jobs")]
    measured: Vec<PathBuf>,
    /// Files of held-out figures: nothing is fitted to them, and the model must predict them
    #[arg(long, value_name = "FILE", num_args = 1.., value_delimiter = ',')]
    holdout: Vec<PathBuf>,
    /// Fits only the figures of --measured with these block sizes; the other figures are held out
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    fit_blocks: Vec<String>,
    /// Values that the fit may change: keys of `mmcq params`. KEY* stands for all keys that begin
    /// so; KEY=LEAST..MOST gives other bounds [default: times and rates of the card]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    free: Vec<String>,
    /// Print a file of jobs to run on the board: the jobs that determine the free values
    #[arg(long, conflicts_with_all = ["measured", "holdout", "fit_blocks", "require", "out", "platform_out", "json"])]
    jobs: bool,
    /// Board: a name from `mmcq platforms`, or a TOML file
    #[arg(long, value_name = "PLATFORM", default_value = PLATFORM)]
    platform: String,
    /// Card: a name from `mmcq platforms`, or a TOML file [default: the board's]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// The stack that was measured, as in `mmcq run`: none is Linux's own
    #[arg(long, value_name = "SETTING", default_value = "none")]
    setting: Setting,
    /// Changes one value of board or card, or an option of all jobs, as in `mmcq run`; may be
    /// repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the models' random numbers. fio's random numbers have fio's own seeds, and a card's
    /// rare delays have card.seed
    #[arg(long, default_value_t = 1, value_parser = super::whole)]
    seed: u64,
    /// Jobs that ran for rows of a sweep that have no column job.rw
    #[arg(long, value_name = "JOB.fio")]
    job: Option<PathBuf>,
    /// Reads from a trace only the requests of this device, as the trace names it
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Fits also these percentiles of the times from submission to completion
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', value_parser = of_hundred)]
    percentiles: Vec<f64>,
    /// Smallest standard deviation that is expected between two measurements of the same figure, in
    /// percent
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = percent)]
    noise: f64,
    /// Exit with 1 if the held-out figures differ from the model by more than this percentage on
    /// average
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    require: Option<f64>,
    /// Largest number of I/Os of a job in the model [default: 3000, but at most 32 MiB, or twice
    /// the size of the card's caches if that is more]
    #[arg(long, value_name = "N", value_parser = ios)]
    ios: Option<u64>,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads)]
    threads: Option<usize>,
    /// Write the fitted card (or the board, if nothing of the card is free) to this file
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Write the fitted board to this file
    #[arg(long, value_name = "FILE.toml")]
    platform_out: Option<PathBuf>,
    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let number = number.filter(|percent: &f64| (0.01..=1000.0).contains(percent));
    number
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected a percentage from 0.01% to 1000%".to_owned())
}

fn of_hundred(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|percent: &f64| (0.01..100.0).contains(percent));
    number.ok_or_else(|| "expected a number from 0.01 to below 100".to_owned())
}

fn ios(text: &str) -> Result<u64, String> {
    let ios = text.parse().ok().filter(|ios| (100..=10_000_000).contains(ios));
    ios.ok_or_else(|| "expected a whole number from 100 to 10000000".to_owned())
}

impl Fit {
    pub fn run(self) -> Result<ExitCode, Error> {
        let bench = self.bench()?;
        let free = free::free(&self.platform, self.card.as_deref(), &bench.of_board(), &self.free)
            .map_err(Error::Input)?;
        if self.jobs {
            let progress = Progress::new("runs of the model", 0, Unit::Step);
            let text = design::jobs(&bench, &free, self.noise, &mut |runs| progress.inc(runs as u64));
            progress.end();
            print(&text.map_err(Error::Input)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (fitted, held) = self.loads()?;
        if self.require.is_some() && held.is_empty() {
            return Err(Error::input("--require: nothing is held out; expected --holdout or --fit-blocks"));
        }
        let (card_out, platform_out) = self.places(&free)?;
        let task = Task { bench, free, fitted, held, noise: self.noise };
        let progress = Progress::new("runs of the model", 0, Unit::Step);
        let fit = task.fit(&mut |runs| progress.inc(runs as u64));
        progress.end();
        let fit = fit.map_err(Error::Input)?;
        print(&if self.json { format!("{}\n", fit.json()) } else { fit.text() })?;
        self.save(&task, &fit, card_out, platform_out)?;
        let far = self.require.zip(fit.held_error()).filter(|(most, error)| error > most);
        if let Some((most, error)) = far {
            return Err(Error::Run(format!(
                "the held-out figures are {:.1} % off on average; --require allows {:.1} %",
                100.0 * error,
                100.0 * most
            )));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn bench(&self) -> Result<Bench, Error> {
        if let Some(change) = self.set.iter().find(|change| change.starts_with(JOB) && !change.contains('='))
        {
            return Err(Error::Input(format!("--set {change}: expected job.OPTION=VALUE")));
        }
        Ok(Bench {
            platform: self.platform.clone(),
            card: self.card.clone(),
            setting: self.setting,
            seed: self.seed,
            changes: self.set.clone(),
            ios: self.ios.unwrap_or(Bench::IOS),
            only_ios: self.ios.is_some(),
            threads: self.threads.unwrap_or_else(parallel::cores),
        })
    }

    /// Returns two lists of loads. The values are fitted to the figures of the first list. The
    /// figures of the second list (`--holdout`, and the block sizes that `--fit-blocks` does not
    /// name) are not used for the fit.
    fn loads(&self) -> Result<(Vec<Load>, Vec<Load>), Error> {
        let job = self.job.as_deref().map(|path| jobs(Some(path), &[])).transpose()?;
        let wanted =
            Wanted { percentiles: &self.percentiles, job: job.as_ref(), device: self.device.as_deref() };
        let read = |paths: &[PathBuf]| -> Result<Vec<Load>, Error> {
            let files = paths.iter().map(|path| measured::read(path, wanted)).collect::<Result<Vec<_>, _>>();
            Ok(files.map_err(Error::Input)?.into_iter().flatten().collect())
        };
        let (all, mut held) = (read(&self.measured)?, read(&self.holdout)?);
        let (fitted, rest) = measured::parts(all, &self.fit_blocks)
            .map_err(|why| Error::Input(format!("--fit-blocks {why}")))?;
        held.extend(rest);
        let figures =
            |loads: &[Load]| -> Vec<Figure> { loads.iter().flat_map(|load| load.figures.clone()).collect() };
        let known = figures(&fitted);
        let again = figures(&held).into_iter().find(|held| known.iter().any(|other| held.is_again(other)));
        if let Some(figure) = again {
            return Err(Error::Input(format!(
                "--holdout {}: {} is {} there and among --measured; expected figures that were not fitted",
                figure.place, figure.name, figure.measured
            )));
        }
        Ok((fitted, held))
    }

    /// Returns the output files for the fitted card and the fitted board, after checking that they
    /// can be written.
    fn places(&self, free: &[Free]) -> Result<(Option<Place>, Option<Place>), Error> {
        let card = free.iter().any(Free::of_card);
        let board = free.iter().any(|free| !free.of_card());
        let fault = |option: &str, path: &Path, what: &str| {
            Error::Input(format!("{option} {}: {what}", path.display()))
        };
        let place = |option: &str, path: &PathBuf| match path.extension().is_some_and(|end| end == "toml") {
            true => Place::new(option, path),
            false => Err(fault(option, path, "expected a name that ends in .toml")),
        };
        match (&self.out, &self.platform_out) {
            (Some(out), None) if card && board => Err(fault(
                "--out",
                out,
                "it has the card, and values of the board are free, too; expected --platform-out FILE beside it",
            )),
            (_, Some(out)) if !board => Err(fault("--platform-out", out, "no value of the board is free")),
            (Some(out), Some(other)) if out == other || !card => Err(fault(
                "--out",
                out,
                "expected another file than --platform-out, and values of the card among --free",
            )),
            (out, platform_out) => {
                let (out, platform_out) = match card {
                    true => (out.as_ref(), platform_out.as_ref().map(|path| ("--platform-out", path))),
                    false => (
                        None,
                        out.as_ref()
                            .map(|path| ("--out", path))
                            .or(platform_out.as_ref().map(|path| ("--platform-out", path))),
                    ),
                };
                let card = out.map(|path| place("--out", path)).transpose()?;
                Ok((card, platform_out.map(|(option, path)| place(option, path)).transpose()?))
            }
        }
    }

    fn save(
        &self,
        task: &Task,
        fit: &fit::Fit,
        card_out: Option<Place>,
        platform_out: Option<Place>,
    ) -> Result<(), Error> {
        let of_board = task.bench.of_board();
        let names: Vec<String> = self
            .measured
            .iter()
            .map(|path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()))
            .collect();
        let figures = format!("{} figures of {}", fit.fitted.len(), names.join(", "));
        if let Some(place) = card_out {
            let platform = Platform::load_with(&self.platform, &of_board).map_err(Error::input)?;
            let card = self.card.as_deref().unwrap_or(&platform.card);
            let text = save::card(card, &platform.card_changes, fit, &figures).map_err(Error::Run)?;
            place.write(&text)?;
        }
        if let Some(place) = platform_out {
            place.write(&save::platform(&self.platform, &of_board, fit, &figures).map_err(Error::Run)?)?;
        }
        Ok(())
    }
}
