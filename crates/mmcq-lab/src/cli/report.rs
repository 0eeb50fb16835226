//! `mmcq report`: a run as one HTML file.

use super::Error;
use super::load::Load;
use super::reporting::Reporting;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run fio jobs, and write one HTML file that a colleague can open
///
/// The file has what `mmcq why` says first; then the rate against what bus and card allow, the time
/// of a request in other settings (Linux without and with its queue, mmcq, the limit), latencies,
/// rate and depth over time, the bus as an oscilloscope sees it, all parameters with their sources,
/// and how to run it again. It loads nothing and needs no script. The JSON report of `mmcq run` is
/// inside: `mmcq compare` reads it. A recorded load: `mmcq replay TRACE --report FILE`.
///
///   mmcq report jobs/quickstart.fio -o quickstart.html
///   mmcq report jobs/quickstart.fio -o slow.html --set cost.wake_us=80 --setting none
///   mmcq compare quickstart.html slow.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Report {
    #[command(flatten)]
    load: Load,
    /// The file
    #[arg(short, long, value_name = "FILE.html", default_value = "report.html")]
    output: PathBuf,
}

impl Report {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (file, loaded) = self.load.read()?;
        let again = |changes: &[String]| self.load.scene.load(&file, changes);
        let title = self.load.name();
        let reporting = Reporting::page_alone(self.output);
        reporting.run(&self.load.scene, loaded, None, again, Vec::new(), &title)
    }
}
