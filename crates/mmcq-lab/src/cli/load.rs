//! The jobs of a run and the board on which they run.

use super::function::Function;
use super::page::Files;
use super::{Error, jobs, jobs_with_output, load_name, voice};
use clap::Args;
use mmcq_lab::fio::JobFile;
use mmcq_lab::iozone::Iozone;
use mmcq_lab::scene::{Loaded, Scene};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Load {
    /// fio job file (or fio's options after --); a file whose name ends in .toml describes an SDIO
    /// function
    #[arg(value_name = "JOB.fio", required_unless_present = "options")]
    job: Option<PathBuf>,
    /// Jobs as options of fio's command line, with one dash or two
    #[arg(last = true, value_name = "FIO OPTIONS")]
    options: Vec<String>,
    #[command(flatten)]
    pub scene: Scene,
}

impl Load {
    /// Reads the jobs, and prints notes about options and depths that have no effect here.
    pub fn read(&self) -> Result<(JobFile, Loaded), Error> {
        let (file, loaded) = self.read_quietly()?;
        loaded.notes().iter().for_each(voice::note);
        Ok((file, loaded))
    }

    /// Reads the jobs as [`read`](Self::read) does, for a command that prints fio's report. Does
    /// not print the notes about depths, since the report contains them. The jobs may name the file
    /// of the report (fio's option `--output`).
    pub fn read_for_report(&self) -> Result<(JobFile, Loaded), Error> {
        let (file, loaded) = self.loaded(jobs_with_output(self.job.as_deref(), &self.options)?)?;
        loaded.file.notes.iter().for_each(voice::note);
        Ok((file, loaded))
    }

    /// Returns the names of the files that the command reads, here the job file. No output may be
    /// written to one of them.
    pub fn inputs(&self) -> Files {
        let files = Files::default();
        self.job.as_deref().map_or(files.clone(), |job| files.reads("JOB.fio", job))
    }

    fn read_quietly(&self) -> Result<(JobFile, Loaded), Error> {
        self.loaded(jobs(self.job.as_deref(), &self.options)?)
    }

    fn loaded(&self, file: JobFile) -> Result<(JobFile, Loaded), Error> {
        let loaded = self.scene.load(&file, &self.scene.set).map_err(Error::input)?;
        Ok((file, loaded))
    }

    /// Returns the user's SDIO function, if its file is given in place of a job file.
    pub fn function(&self) -> Result<Option<Function>, Error> {
        Function::of(self.job.as_deref(), &self.options, &self.scene)
    }

    /// Returns the parsed command line of iozone, if the options are one; `None`: they are options
    /// of fio.
    pub fn iozone(&self) -> Result<Option<Iozone>, Error> {
        super::iozone::line(&self.options)
    }

    /// Returns the name of the load for titles.
    pub fn name(&self) -> String {
        load_name(self.job.as_deref())
    }
}
