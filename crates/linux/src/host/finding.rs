//! Finding of an examination of the machine.
//!
//! Problem: a machine can run a plan and still break the promises that its bounds rest on. Rule: a
//! finding has the state, whether that is good, the promises that it touches, and one command as a
//! remedy. A state that cannot be read is unknown, and no failure.
//! Source: docs/promises.md.
//! Does not cover: whether a run is refused; the run decides that itself.

use super::threads::printable;
use solocore_model::plan::Subject;

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Subject of the finding, by a stable name.
    pub what: String,
    /// Whether the state is good; also true where it is unknown.
    pub good: bool,
    /// Whether it could not be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// State, with the remedy where something is missing.
    pub found: String,
    /// Promises of a plan that depend on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Subject>,
    /// Remedy, as a line for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    pub(crate) fn new(what: &str, good: bool, found: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            good,
            unknown: false,
            found: printable(&found.into()),
            touches: Vec::new(),
            command: None,
        }
    }

    pub(crate) fn helped_by(self, command: impl Into<String>) -> Self {
        Self { command: Some(printable(&command.into())), ..self }
    }
}

/// A subject, and the promises that depend on it.
pub(crate) struct Topic {
    what: &'static str,
    touches: &'static [Subject],
}

impl Topic {
    pub(crate) const fn new(what: &'static str, touches: &'static [Subject]) -> Self {
        Self { what, touches }
    }

    fn finding(&self, good: bool, found: impl Into<String>) -> Finding {
        Finding { touches: self.touches.to_vec(), ..Finding::new(self.what, good, found) }
    }

    pub(crate) fn good(&self, found: impl Into<String>) -> Finding {
        self.finding(true, found)
    }

    pub(crate) fn bad(&self, found: impl Into<String>) -> Finding {
        self.finding(false, found)
    }

    /// The finding for a state that cannot be read or understood.
    pub(crate) fn unknown(&self, why: impl Into<String>) -> Finding {
        Finding { unknown: true, ..self.finding(true, why) }
    }
}
