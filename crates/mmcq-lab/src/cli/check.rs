//! `mmcq check`: runs loads and compares their figures with budgets.

use super::form::Form;
use super::progress::{Progress, Unit};
use super::{Error, print, voice};
use clap::Args;
use mmcq_lab::baseline::{self, AgainError};
use mmcq_lab::budgets::{self, CheckError, Kept};
use mmcq_lab::runner::RunError;
use mmcq_sim::parallel;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run loads and compare their figures with budgets: for continuous integration
///
/// BUDGETS.toml has a table for each load. Paths in it (a job, or a board or card that is a file)
/// count from the folder of BUDGETS.toml:
///
///   [[run]]
///   job = "quickstart.fio"         # or options = ["--name=a", "--rw=read"], as fio has them
///   platform = "hsq-sprd"          # also card, setting, seed, set = ["cost.wake_us=40"]
///   [run.least]                    # lowest values that the figures may have
///   run_mib_s = 20
///   limit_share = 0.9              # of the rate that wire and card allow
///   [run.most]                     # highest values that the figures may have
///   read_lat_p99_us = 5000         # of a direction: read, write, trim
///   interrupts_per_io = 1.1
///
/// Runs are deterministic: a figure changes only if code or files change. `mmcq new budgets FILE`
/// writes such a file. A report of an earlier run can be the budget instead:
///
///   mmcq run my.fio --output-format json --output old.json
///   mmcq check --baseline old.json --within 3%            runs the same load now
///   mmcq check new.json --baseline old.json --within 3%   compares two existing reports
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Check {
    /// File of budgets; with --baseline, the report of the new run
    #[arg(value_name = "BUDGETS.toml", required_unless_present_any = ["figures", "baseline"])]
    budgets: Option<PathBuf>,
    /// Report of an earlier run (JSON or HTML) that is the budget. The same load runs now on the
    /// same board, unless the report of a new run is given. All figures are compared of which a
    /// higher or a lower value is known to be better
    #[arg(long, value_name = "OLD.json", conflicts_with_all = ["figures", "jobs"])]
    baseline: Option<PathBuf>,
    /// How much worse than in the baseline a figure may be, in percent: 3%
    #[arg(long, value_name = "PERCENT", default_value = "0%", requires = "baseline", value_parser = percent)]
    within: f64,
    /// List the names of figures that a budget can have
    #[arg(long)]
    figures: bool,
    /// Threads [default: this machine's cores]
    #[arg(long, value_name = "N", value_parser = super::threads)]
    jobs: Option<usize>,
    #[command(flatten)]
    form: Form,
}

impl Check {
    pub fn run(self) -> Result<ExitCode, Error> {
        if let Some(old) = &self.baseline {
            return self.against(old);
        }
        let Some(path) = self.budgets.filter(|_| !self.figures) else {
            print(&(budgets::figures().join("\n") + "\n"))?;
            return Ok(ExitCode::SUCCESS);
        };
        let loads = budgets::read(&path).map_err(Error::Input)?;
        let progress = Progress::new("loads", loads.len() as u64, Unit::Count);
        let threads = self.jobs.unwrap_or_else(parallel::cores);
        let all = budgets::check(&path, &loads, threads, &|| progress.inc(1));
        progress.end();
        let checked = all.map_err(|error| match &error {
            CheckError::Run { error: why, .. }
                if matches!(**why, RunError::Stuck(_) | RunError::Memory(_)) =>
            {
                Error::Run(error.to_string())
            }
            _ => Error::input(error),
        })?;
        checked.idle.iter().for_each(voice::note);
        let all = checked.kept;
        self.form.print(|| budgets::text(&all), || budgets::json_lines(&all))?;
        Ok(code(&all))
    }

    /// Compares the report of an earlier run, in the file `path`, with a newer report: the one that
    /// the user gave, or that of a run that is done now.
    fn against(&self, path: &Path) -> Result<ExitCode, Error> {
        let old = super::compare::read(path)?;
        let name = path.display().to_string();
        let new = match &self.budgets {
            Some(path) => super::compare::read(path)?,
            None => baseline::again(&name, &old).map_err(|error| match &error {
                AgainError::Run(RunError::Stuck(_) | RunError::Memory(_)) => {
                    Error::Run(format!("{name}: {error}"))
                }
                _ => Error::Input(format!("{name}: {error}")),
            })?,
        };
        let all =
            baseline::check(&old, &new, self.within).map_err(|why| Error::Input(format!("{name}: {why}")))?;
        for difference in baseline::differences(&old, &new) {
            voice::note(format_args!("{name}: {difference}"));
        }
        self.form.print(|| baseline::text(&all, self.within), || budgets::json_lines(&all))?;
        Ok(code(&all))
    }
}

fn code(all: &[Kept]) -> ExitCode {
    if all.iter().all(|kept| kept.kept) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Parses a percentage, with or without the percent sign. Returns the number before the sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    number.filter(|n| (0.0..=1e6).contains(n)).ok_or_else(|| "expected a share from 0 up: 3%".to_owned())
}
