//! A temporary folder with a job, where commands run.

use std::path::{Path, PathBuf};

pub struct JobFolder(tempfile::TempDir);

impl JobFolder {
    /// The job is `job.fio`.
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
