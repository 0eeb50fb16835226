//! Temporary folder with a job, in which tests run commands.

use std::path::{Path, PathBuf};

pub struct JobFolder(tempfile::TempDir);

impl JobFolder {
    /// Makes a folder with this job as `job.fio`.
    pub fn new(job: &str) -> Self {
        let folder = JobFolder(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("job.fio"), job).unwrap();
        folder
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
