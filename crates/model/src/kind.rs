//! The kind of file that a text seems to be.
//!
//! Problem: a plan in the place of a system file gives an error about the first key that a system
//! file has not. Rule: JSON files of solocore name their format, and each TOML file has keys that
//! no other kind has. A text that does not parse, and seems to be of another kind, is refused as
//! that. Does not cover: files of other programs.

use crate::error::ModelError;
use serde::Deserialize;
use std::path::Path;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    System,
    Scenario,
    Platform,
    Instance,
    Plan,
    Profile,
    Run,
    Sim,
    Verify,
}

impl Kind {
    /// Kinds in JSON, with the names of their formats.
    const JSON: [(&str, Self); 5] = [
        ("solocore-plan", Self::Plan),
        ("solocore-profile", Self::Profile),
        ("solocore-run", Self::Run),
        ("solocore-sim", Self::Sim),
        ("solocore-verify", Self::Verify),
    ];

    /// The format that a text in JSON names.
    fn format_of(text: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        serde_json::from_str(text).ok().map(|head: Head| head.format)
    }

    /// The kind in JSON of this format, for any version.
    fn of_format(format: &str) -> Option<Self> {
        let name = format.split('/').next()?;
        Self::JSON.iter().find(|(format, _)| *format == name).map(|(_, kind)| *kind)
    }

    /// The format of a text of this kind, if it is not `ours`.
    pub fn other_version(self, text: &str, ours: &str) -> Option<String> {
        let format = Self::format_of(text)?;
        (format != ours && Self::of_format(&format) == Some(self)).then_some(format)
    }

    /// The kind that a text seems to be.
    fn of(text: &str) -> Option<Self> {
        if text.trim_start().starts_with('{') {
            return Self::of_format(&Self::format_of(text)?);
        }
        let file: toml::Table = toml::from_str(text).ok()?;
        let has = |key: &str| file.contains_key(key);
        if has("simulation") {
            Some(Self::Scenario)
        } else if file.get("platform").is_some_and(toml::Value::is_str) {
            Some(Self::System)
        } else if has("llc") && has("dram") {
            Some(Self::Platform)
        } else if has("cores") && has("partition") {
            Some(Self::Instance)
        } else {
            None
        }
    }

    /// Its name, with an article.
    const fn name(self) -> &'static str {
        match self {
            Self::System => "a system file",
            Self::Scenario => "a scenario",
            Self::Platform => "a platform file",
            Self::Instance => "an instance",
            Self::Plan => "a plan",
            Self::Profile => "a profile",
            Self::Run => "a result of `solocore run`",
            Self::Sim => "a result of `solocore sim`",
            Self::Verify => "a result of `solocore verify`",
        }
    }

    /// The command that takes a file of this kind; a profile goes into a system file.
    const fn command(self) -> Option<&'static str> {
        match self {
            Self::System => Some("solocore plan"),
            Self::Scenario => Some("solocore sim"),
            Self::Platform => Some("solocore platform check"),
            Self::Instance => Some("solocore schedule-io"),
            Self::Plan => Some("solocore run"),
            Self::Run | Self::Sim | Self::Verify => Some("solocore report"),
            Self::Profile => None,
        }
    }

    /// The error of a text that was to be of this kind: if it seems to be of another, the error
    /// says so.
    pub fn explains(self, path: &Path, text: &str, error: ModelError) -> ModelError {
        let Some(found) = Self::of(text).filter(|found| *found != self) else { return error };
        let message =
            format!("is not {}, but {}; {}", self.name(), found.name(), self.remedy(found, path));
        ModelError::Invalid { path: path.to_owned(), line: None, message }
    }

    fn remedy(self, found: Self, path: &Path) -> String {
        match (self, found) {
            (Self::Plan, Self::System) => {
                format!("make one of it: solocore plan {} -o plan.json", path.display())
            }
            (Self::Plan, _) => "name a file that `solocore plan -o` has written".to_owned(),
            (Self::System, Self::Plan) => "name the file that it was made from".to_owned(),
            (Self::Platform, Self::System) => "name the board of its key `platform`".to_owned(),
            _ => found.command().map_or_else(
                || format!("name {}", self.name()),
                |command| format!("name {}, or give this one to `{command}`", self.name()),
            ),
        }
    }
}
