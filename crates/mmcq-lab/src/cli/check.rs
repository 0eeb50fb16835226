//! `mmcq check`: loads and their budgets.

use super::form::Form;
use super::progress::{Progress, Unit};
use super::{Error, print};
use clap::Args;
use mmcq_lab::budgets::{self, CheckError};
use mmcq_lab::runner::RunError;
use mmcq_sim::parallel;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run loads and compare their figures with budgets: for continuous integration
///
/// BUDGETS.toml has a table for each load. Its job, and a board or card that is a file, stand beside
/// it:
///
///   [[run]]
///   job = "quickstart.fio"
///   platform = "hsq-sprd"          # also card, setting, seed, set = ["cost.wake_us=40"]
///   [run.least]
///   run_mib_s = 20
///   limit_share = 0.9              # of what wire and card allow
///   [run.most]
///   read_lat_p99_us = 5000         # of a direction: read, write, trim
///   interrupts_per_io = 1.1
///
/// Runs have no noise: a figure that moves was moved by a change. `mmcq new budgets FILE` writes
/// such a file.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Check {
    /// File of budgets
    #[arg(value_name = "BUDGETS.toml", required_unless_present = "figures")]
    budgets: Option<PathBuf>,
    /// List the figures that a budget can name
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
        let Some(path) = self.budgets.filter(|_| !self.figures) else {
            print(&(budgets::figures().join("\n") + "\n"))?;
            return Ok(ExitCode::SUCCESS);
        };
        let loads = budgets::read(&path).map_err(Error::Input)?;
        let progress = Progress::new("loads", loads.len() as u64, Unit::Count);
        let threads = self.jobs.unwrap_or_else(parallel::cores);
        let all = budgets::check(&path, &loads, threads, &|| progress.inc(1));
        progress.end();
        let all = all.map_err(|error| match &error {
            CheckError::Run { error: why, .. }
                if matches!(**why, RunError::Stuck(_) | RunError::Memory(_)) =>
            {
                Error::Run(error.to_string())
            }
            _ => Error::input(error),
        })?;
        self.form.print(|| budgets::text(&all), || budgets::json_lines(&all))?;
        Ok(if all.iter().all(|kept| kept.kept) { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
