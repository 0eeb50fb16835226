//! `mmcq compare`: two saved reports.

use super::Error;
use super::form::Form;
use super::page::{Place, command_line};
use clap::Args;
use mmcq_lab::compare::{self, Comparison};
use mmcq_lab::rate::Rate;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// More bytes than any report has.
const BYTES_MAX: u64 = 64 << 20;

/// Compare two saved reports: what ran, rates, latencies, where the time of the run went
///
/// A and B are JSON (`mmcq run --output-format json`) or pages (`mmcq report`) of this version. Runs
/// are deterministic, so each difference is exact. Figures that are equal are counted, not listed.
///
///   mmcq report job.fio -o a.html
///   mmcq report job.fio -o b.html --set cost.wake_us=80
///   mmcq compare a.html b.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Compare {
    /// The first report
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second report
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Rates as MiB/s, MB/s or IOPS
    #[arg(long, value_name = "UNIT", default_value = "MiB/s")]
    rates: Rate,
    #[command(flatten)]
    form: Form,
    /// Also writes the comparison as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl Compare {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (a, b) = (read(&self.a)?, read(&self.b)?);
        let place = self.report.as_deref().map(|path| Place::new("--report", path)).transpose()?;
        let found = compare::compare_in(&a, &b, self.rates);
        if let Some(place) = place {
            place.write(&self.page(&found)?)?;
        }
        self.form.print(|| found.text(), || found.json_lines())?;
        Ok(ExitCode::SUCCESS)
    }

    fn page(&self, found: &Comparison) -> Result<String, Error> {
        let names = [&self.a, &self.b].map(|path| path.display().to_string());
        found.html([&names[0], &names[1]], &command_line()).map_err(Error::Run)
    }
}

/// A report, by its file.
pub fn read(path: &Path) -> Result<Value, Error> {
    let wrong = |said: String| Error::Input(format!("{}: {said}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, BYTES_MAX), &mut text)
        .map_err(|error| wrong(format!("no report: {error}")))?;
    compare::read(&text).map_err(wrong)
}
