//! `mmcq run`: runs fio jobs on a board.

use super::Error;
use super::load::Load;
use super::reporting::Reporting;
use clap::Args;
use mmcq_lab::fio::Worker;
use mmcq_lab::fio::report::Replayed;
use mmcq_lab::image::Lock;
use mmcq_sim::card::Medium;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run fio jobs on a simulated board, in virtual time
///
/// JOB is a fio job file. In its place, options of fio's command line may follow (`mmcq run --
/// -rw=randread -bs=4k ...`), also with sudo or a path of fio in front, or a command line of iozone
/// (`mmcq iozone`). Files of the jobs are parts of the simulated card. The report is fio's.
///
/// A file whose name ends in .toml describes an SDIO function of your own instead of a job. It says
/// what the function's driver does on the bus for each packet, how often packets come, and whether
/// the driver learns of them by interrupt or by polling (jobs/sdio-function.toml has all keys). The
/// function runs on an SDIO board (--platform, by default sdio-s3c24a0), with four ways to start
/// its steps: by a thread and a tasklet, by a thread, by callbacks, and by this stack.
/// --output-format is normal or json.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    load: Load,
    /// Image file with the card's content, instead of generated memory. The board's own card takes
    /// the size of the image; a card named by --card must fit into it (the rest of the image is not
    /// used)
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Lets the jobs write to the image
    #[arg(long, requires = "image")]
    write: bool,
    #[command(flatten)]
    reporting: Reporting,
}

impl Run {
    pub fn run(self) -> Result<ExitCode, Error> {
        if let Some(function) = self.load.function()? {
            if let Some(path) = &self.image {
                let why = "an SDIO function has no memory; expected a job";
                return Err(Error::Input(format!("--image {}: {why}", path.display())));
            }
            return function.run(self.reporting.of_function()?);
        }
        let (file, loaded) = self.load.read_for_report()?;
        let (medium, _lock) = self.medium(&loaded.workers)?.unzip();
        let again = |changes: &[String]| self.load.scene.load(&file, changes);
        let title = self.load.name();
        let inputs = self.load.inputs();
        let inputs = match &self.image {
            Some(image) => inputs.reads("--image", image),
            None => inputs,
        };
        let reporting = self.reporting.with_table(self.load.iozone()?).beside(inputs);
        reporting.run(&self.load.scene, loaded, medium, again, Replayed::default(), &title)
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
