//! Temporary folder with a job, in which tests run commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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

/// Runs the laboratory in this folder, with a command line whose words have blanks between them.
pub fn mmcq(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmcq"));
    command.current_dir(folder).args(line.split_whitespace()).output().unwrap()
}

/// Returns the standard output of a command that must succeed.
pub fn well(folder: &Path, line: &str) -> String {
    let output = mmcq(folder, line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{line}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that a command line is refused with exit code 2 and one line that has all these texts.
pub fn refused(folder: &Path, line: &str, expected: &[&str]) {
    let output = mmcq(folder, line);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{line}: {said}");
    assert_eq!(said.lines().count(), 1, "{line}: {said}");
    for part in expected {
        assert!(said.contains(part), "{line}: {said:?} does not name {part:?}");
    }
}
