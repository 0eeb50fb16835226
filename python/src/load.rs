//! Jobs, and the board and card on which they run.

use crate::failure::{Failure, input};
use mmcq_lab::fio::{self, JobFile};
use mmcq_lab::scene::Scene;
use pyo3::FromPyObject;
use std::path::PathBuf;

/// Jobs as a user passes them. The Python type of the argument selects the variant.
#[derive(Clone, FromPyObject)]
pub enum Load {
    /// Options of fio, as on its command line.
    #[pyo3(transparent)]
    Options(Vec<String>),
    /// The text of a job file.
    #[pyo3(transparent)]
    Text(String),
    /// The path of a job file.
    #[pyo3(transparent)]
    File(PathBuf),
}

impl Load {
    /// Parses the jobs.
    pub fn file(&self) -> Result<JobFile, Failure> {
        match self {
            Load::Options(options) => fio::parse_command_line(options, &fio::System),
            Load::Text(text) => fio::parse_text("job", text.as_bytes(), &fio::System),
            Load::File(path) => fio::parse_file(path, &fio::System),
        }
        .map_err(input)
    }
}

/// Makes the scene of a run: board, card, setting, seed and changed values, as the options of the
/// program `mmcq` do.
pub fn scene(
    platform: String,
    card: Option<String>,
    setting: &str,
    seed: u64,
    set: Vec<String>,
) -> Result<Scene, Failure> {
    Ok(Scene { platform, card, setting: setting.parse().map_err(input)?, set, seed })
}
