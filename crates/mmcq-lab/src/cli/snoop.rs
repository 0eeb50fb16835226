//! `mmcq snoop`: lists the requests of a run.

use super::form::Form;
use super::load::Load;
use super::{Error, print};
use clap::Args;
use mmcq_lab::recorded::{export, snoop};
use mmcq_lab::runner::{self, Outcome, RunError, Setting};
use std::process::ExitCode;

/// List the requests of a run, a line each, or show their latencies as a histogram
///
/// Runs the jobs as `mmcq run` does. The columns are those of bcc's `biosnoop -Q`: time of the
/// completion, job, kind (T: R, W, D for discard, F for flush), place, time in the queue before
/// the driver took the request (QUE), and time from there to the completion (LAT). Two more
/// columns say how much of LAT the request waited in the driver's own queue (DRV), and how many
/// requests that came later went to the card first (YOUNGER). This stack takes a request when it
/// is submitted, so its QUE is 0. Rows of --json have their times in nanoseconds.
///
///   mmcq snoop jobs/quickstart.fio | sort -k9 -n | tail       the slowest
///   mmcq snoop jobs/fifo.fio --platform fifo-allwinner --setting hsq-tag --slowest 5
///   mmcq snoop jobs/fair.fio --histogram --setting hsq-tag    as bcc's biolatency draws it
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Snoop {
    #[command(flatten)]
    load: Load,
    /// Shows the latencies from submission to completion as a histogram: classes are powers of two,
    /// and each kind of request has a histogram of its own
    #[arg(long, conflicts_with = "Form")]
    histogram: bool,
    /// Describes the N slowest requests in words: where each waited, how many later requests went
    /// to the card first, and by which rule
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
