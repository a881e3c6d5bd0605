//! Exit codes: 0 success, 1 a negative answer, 2 bad input or usage, 3 the machine cannot do it.

use solocore_board::BoardError;
use solocore_linux::LinuxError;
use solocore_machine::MachineError;
use solocore_model::error::without_os_numbers;
use solocore_model::{ModelError, files};
use solocore_planner::PlanError;
use solocore_profile::ProfileError;
use solocore_sim::SimError;
use solocore_space::SpaceError;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether anything was printed as a result.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Notes that a result goes to standard output, perhaps in part.
pub fn note_printed() {
    PRINTED.store(true, Relaxed);
}

/// Message for a command that a signal ended; allocates nothing.
pub fn interrupted() -> &'static str {
    if files::wrote_wanted() || PRINTED.load(Relaxed) {
        "interrupted; the output that was written before may be incomplete"
    } else {
        "interrupted; no output was written"
    }
}

/// Reason for a failed command.
#[derive(Debug)]
pub enum Failure {
    /// The input or the usage is wrong: exit code 2.
    Input(String),
    /// The machine cannot do it: exit code 3.
    Machine(String),
    /// Ctrl-C or SIGTERM: exit code 130.
    Interrupted,
    /// As `Interrupted`, with a text on the results that are kept.
    Stopped(String),
}

impl Failure {
    /// One line for the user, without the operating system's numbers for its words.
    pub fn message(&self) -> String {
        let text = match self {
            Self::Input(text) | Self::Machine(text) => text.clone(),
            Self::Interrupted => interrupted().to_owned(),
            Self::Stopped(kept) => format!("interrupted; {kept}"),
        };
        without_os_numbers(&text)
    }

    /// Exit code of the failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Machine(_) => 3,
            Self::Interrupted | Self::Stopped(_) => 130,
        }
    }

    /// A program that does not start.
    pub fn cannot_run(program: &OsStr, error: &std::io::Error) -> Self {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "check its name and PATH",
            std::io::ErrorKind::PermissionDenied => "name a file that you may execute",
            _ => "name a program for this machine",
        };
        Self::Input(format!("cannot run {}: {error}; {remedy}", program.display()))
    }

    /// The same failure, with its subject in front.
    pub fn of(self, what: &str) -> Self {
        match self {
            Self::Input(text) => Self::Input(format!("{what}: {text}")),
            Self::Machine(text) => Self::Machine(format!("{what}: {text}")),
            Self::Interrupted | Self::Stopped(_) => self,
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            // A full or read-only disk is the machine's doing, not the input's.
            ModelError::Write { .. } => Self::Machine(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<ProfileError> for Failure {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Input(text) => Self::Input(text),
            ProfileError::Machine(text) => Self::Machine(text),
            ProfileError::Model(inner) => inner.into(),
            ProfileError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Model(inner) => inner.into(),
            SimError::Input(text) => Self::Input(text),
            SimError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<LinuxError> for Failure {
    fn from(error: LinuxError) -> Self {
        match error {
            LinuxError::Input(text) => Self::Input(text),
            LinuxError::Machine(text) => Self::Machine(text),
        }
    }
}

impl From<BoardError> for Failure {
    fn from(error: BoardError) -> Self {
        match error {
            BoardError::Input(text) => Self::Input(text),
            BoardError::Machine(text) => Self::Machine(text),
            BoardError::Model(inner) => inner.into(),
            BoardError::Interrupted => Self::Interrupted,
        }
    }
}

impl From<MachineError> for Failure {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Input(text) => Self::Input(text),
            MachineError::Machine(text) => Self::Machine(text),
            MachineError::Model(inner) => inner.into(),
        }
    }
}

impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Self {
        match error {
            SpaceError::Input(text) => Self::Input(text),
            SpaceError::Machine(text) => Self::Machine(text),
        }
    }
}
