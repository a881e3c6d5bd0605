//! The kind of file that a text seems to be.
//!
//! Problem: a plan in the place of a system file gives an error about the first key that a system
//! file has not. Rule: JSON files of solocore name their format, and each TOML file has keys that
//! no other kind has. A text that does not parse, and seems to be of another kind, is refused as
//! that. Does not cover: files of other programs, and an instance in the place of a system file,
//! which may as well lack its platform.

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

    /// The kind that a text seems to be.
    fn of(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        if text.trim_start().starts_with('{') {
            let head: Head = serde_json::from_str(text).ok()?;
            let name = head.format.split('/').next()?;
            return Self::JSON.iter().find(|(format, _)| *format == name).map(|(_, kind)| *kind);
        }
        let file: toml::Table = toml::from_str(text).ok()?;
        let has = |key: &str| file.contains_key(key);
        if has("simulation") {
            Some(Self::Scenario)
        } else if file.get("platform").is_some_and(toml::Value::is_str) {
            Some(Self::System)
        } else if has("llc") && has("dram") {
            Some(Self::Platform)
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

    /// The error of a text that was to be of this kind: if it seems to be of another, the error says
    /// so.
    pub fn explains(self, path: &Path, text: &str, error: ModelError) -> ModelError {
        let Some(found) = Self::of(text).filter(|found| *found != self) else { return error };
        let noun = self.name().split_once(' ').map_or("", |(_, noun)| noun);
        let message =
            format!("is no {noun}, but {}; {}", found.name(), self.remedy(found, path, noun));
        ModelError::Invalid { path: path.to_owned(), line: None, message }
    }

    fn remedy(self, found: Self, path: &Path, noun: &str) -> String {
        match (self, found) {
            (Self::Plan, Self::System) => {
                format!("make one of it: solocore plan {} -o plan.json", path.display())
            }
            (Self::Plan, _) => "name a file that `solocore plan -o` has written".to_owned(),
            (Self::System, Self::Plan) => "name the file that it was made of".to_owned(),
            (_, Self::Scenario) => format!("`solocore sim` runs it, or name a {noun}"),
            (Self::Platform, Self::System) => {
                "name the board that its key `platform` names".to_owned()
            }
            (Self::Instance, Self::System) => "`solocore plan` reads it".to_owned(),
            _ => format!("name a {noun}"),
        }
    }
}
