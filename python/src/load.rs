//! Jobs, and what they run on.

use crate::failure::{Failure, input};
use mmcq_lab::fio::{self, JobFile};
use mmcq_lab::scene::Scene;
use pyo3::FromPyObject;
use std::path::PathBuf;

/// Jobs as a user gives them: (kind, value) is made in Python.
#[derive(Clone, FromPyObject)]
pub enum Load {
    /// fio's options.
    #[pyo3(transparent)]
    Options(Vec<String>),
    /// The text of a job file.
    #[pyo3(transparent)]
    Text(String),
    /// A job file.
    #[pyo3(transparent)]
    File(PathBuf),
}

impl Load {
    /// Reads them.
    pub fn file(&self) -> Result<JobFile, Failure> {
        match self {
            Load::Options(options) => fio::parse_command_line(options, &fio::System),
            Load::Text(text) => fio::parse_text("job", text.as_bytes(), &fio::System),
            Load::File(path) => fio::parse_file(path, &fio::System),
        }
        .map_err(input)
    }
}

/// The options of a command line, one by one.
pub fn scene(
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> Result<Scene, Failure> {
    Ok(Scene { platform, card, setting: setting.parse().map_err(input)?, set, seed })
}
