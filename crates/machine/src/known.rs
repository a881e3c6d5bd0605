//! Values with their sources.
//!
//! Problem: a platform file mixes what was read with what was guessed, and later nobody can tell
//! the two apart.
//! Rule: a value carries where it is from, from the file that told it to the line that states it.
//! Does not cover: measured values. `solocore platform detect` measures nothing; an assumed value
//! names the command that does (`measure`, which puts its own comments behind them).

use serde::Serialize;

/// Where a value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A file of the machine says so.
    Read,
    /// A document says so of what the machine says it is.
    Table,
    /// Nothing says so.
    Assumed,
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Where it is from.
    pub source: Source,
    /// The file, the document, or the reason.
    pub from: String,
    /// What would make an assumed value known.
    pub known_by: Option<String>,
}

impl<T> Known<T> {
    /// From a file of the machine.
    pub fn read(value: T, from: impl Into<String>) -> Self {
        Self { value, source: Source::Read, from: from.into(), known_by: None }
    }

    /// From a document.
    pub fn table(value: T, from: impl Into<String>) -> Self {
        Self { value, source: Source::Table, from: from.into(), known_by: None }
    }

    /// From nowhere, for a reason.
    pub fn assumed(value: T, why: impl Into<String>, known_by: impl Into<String>) -> Self {
        let known_by = Some(known_by.into());
        Self { value, source: Source::Assumed, from: why.into(), known_by }
    }

    /// Another value of the same source.
    pub fn with<U>(&self, value: U) -> Known<U> {
        let Self { source, from, known_by, .. } = self;
        Known { value, source: *source, from: from.clone(), known_by: known_by.clone() }
    }

    /// The same value, with a remark on how it follows from its source.
    #[must_use]
    pub fn remark(mut self, remark: &str) -> Self {
        self.from = format!("{}, {remark}", self.from);
        self
    }

    /// As a line of a file or a document.
    pub fn fact(&self, key: &str, value: impl Into<String>) -> Fact {
        Fact {
            key: key.to_owned(),
            value: value.into(),
            source: self.source,
            from: self.from.clone(),
            known_by: self.known_by.clone(),
        }
    }
}

/// A key, its value as text, and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Key of a platform file, or a name of this crate.
    pub key: String,
    /// The value; as TOML, where the key is one of a platform file.
    pub value: String,
    /// Where it is from.
    pub source: Source,
    /// The file, the document, or the reason.
    pub from: String,
    /// What would make an assumed value known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_by: Option<String>,
}

impl Fact {
    /// What a comment says of the value.
    pub fn comment(&self) -> String {
        let source = match self.source {
            Source::Read => "read",
            Source::Table => "table",
            Source::Assumed => "assumed",
        };
        let known_by = self.known_by.as_ref().map(|k| format!("; {k}")).unwrap_or_default();
        format!("{source}: {}{known_by}", self.from)
    }
}

/// What the user must know beside the numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Key of a platform file, or a name of this crate.
    pub key: String,
    /// What was found, and what the file says in its place.
    pub text: String,
    /// A command that changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Note {
    /// Without a command.
    pub fn new(key: &str, text: impl Into<String>) -> Self {
        Self { key: key.to_owned(), text: text.into(), command: None }
    }

    /// With a command that changes it.
    pub fn with(key: &str, text: impl Into<String>, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..Self::new(key, text) }
    }

    /// On one line.
    pub fn line(&self) -> String {
        let command = self.command.as_ref().map(|c| format!(": {c}")).unwrap_or_default();
        format!("{}: {}{command}", self.key, self.text)
    }
}
