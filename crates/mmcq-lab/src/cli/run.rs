//! `mmcq run`: fio jobs on a board.

use super::Error;
use super::reporting::Reporting;
use super::scene::Scene;
use clap::Args;
use mmcq_lab::fio::Worker;
use mmcq_lab::image::Lock;
use mmcq_sim::card::Medium;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run fio jobs on a simulated board, in virtual time
///
/// JOB is a fio job file; options of fio's own command line may follow instead
/// (`mmcq run -- -rw=randread -bs=4k ...`). Files of the jobs are places on the simulated card. The
/// report is fio's.
#[derive(Debug, Args)]
pub struct Run {
    /// fio job file (or fio's options after --)
    #[arg(value_name = "JOB.fio", required_unless_present = "options")]
    job: Option<PathBuf>,
    /// Jobs as fio options, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    #[command(flatten)]
    scene: Scene,
    /// Image file behind the card instead of generated memory. The board's own card takes its size;
    /// a card named by --card must fit into it (what is left over is not used)
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Lets jobs write to the image
    #[arg(long, requires = "image")]
    write: bool,
    #[command(flatten)]
    reporting: Reporting,
}

impl Run {
    pub fn run(self) -> Result<ExitCode, Error> {
        let file = super::jobs(self.job.as_deref(), &self.options)?;
        let loaded = self.scene.load(&file, &self.scene.set)?;
        for note in &loaded.file.notes {
            eprintln!("mmcq: {note}");
        }
        let (medium, _lock) = self.medium(&loaded.workers)?.unzip();
        let again = |changes: &[String]| self.scene.load(&file, changes);
        let title = super::load_name(self.job.as_deref());
        self.reporting.run(&self.scene, loaded, medium, again, Vec::new(), &title)
    }

    fn medium(&self, workers: &[Worker]) -> Result<Option<(Medium, Lock)>, Error> {
        let Some(path) = &self.image else { return Ok(None) };
        let writer = workers.iter().find(|worker| worker.job.rw.write);
        if let (Some(worker), false) = (writer, self.write) {
            return Err(Error::Input(format!(
                "{}: job {} writes, and the image is opened read-only; --write allows it",
                path.display(),
                worker.job.name
            )));
        }
        super::image(path, self.write).map(Some)
    }
}
