//! Failures of a call as Python's exceptions: bad input is a `ValueError`, and a run that cannot
//! finish is a `RuntimeError`. The message of each has one line.

use mmcq_lab::runner::RunError;
use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use std::fmt::Display;

/// Why a call failed.
pub enum Failure {
    /// The caller's input is wrong.
    Input(String),
    /// The run could not finish.
    Run(String),
    /// A Python function raised this exception.
    Raised(PyErr),
}

/// Makes the failure for wrong input of the caller.
pub fn input(error: impl Display) -> Failure {
    Failure::Input(error.to_string())
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Stuck(_) | RunError::Memory(_) | RunError::Stopped => Failure::Run(error.to_string()),
            other => input(other),
        }
    }
}

impl From<String> for Failure {
    fn from(line: String) -> Self {
        Failure::Input(line)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Input(line) => PyValueError::new_err(line),
            Failure::Run(line) => PyRuntimeError::new_err(line),
            Failure::Raised(error) => error,
        }
    }
}
