//! `mmcq snoop`: lists the requests of a run.

use super::form::Form;
use super::load::Load;
use super::{Error, print};
use clap::Args;
use mmcq_lab::recorded::{export, snoop};
use mmcq_lab::runner::{self, Outcome, RunError, Setting};
use std::process::ExitCode;

/// List the requests of a run, a line each, or their latencies as a histogram
///
/// Runs the jobs as `mmcq run` does. The columns are those of bcc's `biosnoop -Q`: when the request
/// was complete, whose it was, where it went, how long it waited for the driver (QUE) and how long
/// the driver had it (LAT). T is R, W, D (discard) or F (flush). Two more say how much of LAT was in
/// the driver's own queue (DRV), and how many younger requests went to the card first (YOUNGER). Our
/// stack has a request from its submission on. Rows of --json have their times in nanoseconds.
///
///   mmcq snoop jobs/quickstart.fio | sort -k9 -n | tail       the slowest
///   mmcq snoop jobs/fifo.fio --platform fifo-allwinner --setting hsq-tag --slowest 5
///   mmcq snoop jobs/fair.fio --histogram --setting hsq-tag    as bcc's biolatency draws it
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Snoop {
    #[command(flatten)]
    load: Load,
    /// Latencies from submission to completion in powers of two, by kind of request
    #[arg(long, conflicts_with = "Form")]
    histogram: bool,
    /// The N slowest requests in words: where each waited, how many younger ones went first, and by
    /// which rule
    #[arg(long, value_name = "N", conflicts_with_all = ["Form", "histogram"], value_parser = count)]
    slowest: Option<usize>,
    #[command(flatten)]
    form: Form,
}

impl Snoop {
    pub fn run(self) -> Result<ExitCode, Error> {
        if self.load.scene.setting == Setting::Limit {
            let why = "limit joins requests, and runs several lanes; expected another setting";
            return Err(Error::Input(format!("--setting limit: {why}")));
        }
        let (_, loaded) = self.load.read()?;
        let run = self.load.scene.run_of(&loaded);
        let (outcome, completed) = export::completed(|| runner::run(&run, None, &mut |_, _| ()));
        let outcome = outcome.map_err(|error| match error {
            RunError::Stuck(_) | RunError::Memory(_) => Error::Run(error.to_string()),
            other => Error::input(other),
        })?;
        if self.histogram {
            print(&snoop::histogram(&completed))?;
            return Ok(code(&outcome));
        }
        let names: Vec<String> = loaded.workers.iter().map(|worker| worker.job.name.clone()).collect();
        if let Some(count) = self.slowest {
            let rules = run.setting.rules(run.platform);
            print(&snoop::slowest(&completed, &names, count, rules))?;
        } else {
            self.form.print(|| snoop::lines(&completed, &names), || snoop::json_lines(&completed, &names))?;
        }
        Ok(code(&outcome))
    }
}

/// Parses the number of requests to list.
fn count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

fn code(outcome: &Outcome) -> ExitCode {
    if outcome.counters.failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS }
}
