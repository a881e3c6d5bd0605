//! Errors of the crates as Python's exceptions, with message, file and line where they are known.

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use solocore_experiments::ExperimentError;
use solocore_model::ModelError;
use solocore_planner::PlanError;
use solocore_profile::ProfileError;
use solocore_sim::SimError;
use solocore_study::StudyError;
use std::path::PathBuf;

/// Reason for a missing result.
#[derive(Debug)]
pub enum Error {
    /// The input is at fault.
    Input { message: String, file: Option<PathBuf>, line: Option<usize> },
    /// The machine lacks something.
    Machine(String),
    /// Python asked to stop; its own exception has the reason.
    Stopped,
}

impl Error {
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), file: None, line: None }
    }

    /// The same error, with this file if it names none.
    pub fn of(self, path: &std::path::Path) -> Self {
        match self {
            Self::Input { message, file: None, line } => {
                let message = format!("{}: {message}", path.display());
                Self::Input { message, file: Some(path.to_owned()), line }
            }
            other => other,
        }
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        let message = error.to_string();
        match error {
            ModelError::Write { .. } => Self::Machine(message),
            ModelError::Read { path, .. } => Self::Input { message, file: Some(path), line: None },
            ModelError::Parse { path, line, .. } => {
                Self::Input { message, file: Some(path), line: Some(line) }
            }
            ModelError::Invalid { path, line, .. } => {
                Self::Input { message, file: Some(path), line }
            }
        }
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::input(error.to_string())
    }
}

impl From<ProfileError> for Error {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Input(text) => Self::input(text),
            ProfileError::Machine(text) => Self::Machine(text),
            ProfileError::Model(inner) => inner.into(),
            ProfileError::Interrupted => Self::Stopped,
        }
    }
}

impl From<SimError> for Error {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Model(inner) => inner.into(),
            SimError::Input(text) => Self::input(text),
            SimError::Interrupted => Self::Stopped,
        }
    }
}

impl From<StudyError> for Error {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Files(inner) => inner.into(),
            StudyError::Interrupted => Self::Stopped,
            other => Self::input(other.to_string()),
        }
    }
}

impl From<ExperimentError> for Error {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Interrupted => Self::Stopped,
            ExperimentError::Setup(text) => Self::input(text),
            ExperimentError::Files(inner) => inner.into(),
        }
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        // Without an interpreter no exception can be made, and no code would see it.
        Python::attach(|py| {
            let made = match error {
                Error::Stopped => return PyKeyboardInterrupt::new_err(()),
                Error::Input { message, file, line } => {
                    exception(py, "InputError", message, file, line)
                }
                Error::Machine(message) => exception(py, "MachineError", message, None, None),
            };
            made.unwrap_or_else(|failed| failed)
        })
    }
}

/// The exception of `solocore.errors` with this name.
fn exception(
    py: Python<'_>,
    name: &str,
    message: String,
    file: Option<PathBuf>,
    line: Option<usize>,
) -> PyResult<PyErr> {
    let class = py.import("solocore.errors")?.getattr(name)?;
    let file = file.map(|path| path.display().to_string());
    Ok(PyErr::from_value(class.call1((message, file, line))?))
}

/// The exception for a thread of this package that panicked.
pub fn panicked() -> PyErr {
    PyRuntimeError::new_err("solocore panicked; report what led to it")
}
