//! What an examination of the machine says of one thing.
//!
//! Problem: a machine runs a plan and still does not keep what the plan's bounds rest on. Rule: a
//! finding says what was found, whether that is as it should be, which promises it touches, and the
//! one command that helps. What cannot be read is unknown, and no failure.
//! Source: docs/promises.md.
//! Does not cover: whether a run is refused; the run decides that itself.

use solocore_model::plan::Subject;

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked at, by a name that stays.
    pub what: String,
    /// Is it as it should be? Also true where it is unknown.
    pub good: bool,
    /// Could it not be read?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// What was found, and how to get what is missing.
    pub found: String,
    /// Promises of a plan that depend on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Subject>,
    /// What helps, as a line for a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Finding {
    pub(crate) fn new(what: &str, good: bool, found: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            good,
            unknown: false,
            found: found.into(),
            touches: Vec::new(),
            command: None,
        }
    }

    pub(crate) fn helped_by(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }
}

/// Something to look at, and the promises that depend on it.
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

    /// It cannot be read, or means nothing.
    pub(crate) fn unknown(&self, why: impl Into<String>) -> Finding {
        Finding { unknown: true, ..self.finding(true, why) }
    }
}
