//! Values with their sources.
//!
//! Problem: a platform file mixes read and assumed values, and later they cannot be distinguished.
//! Rule: a value carries its source, from the file that gave it to the line that states it. Does
//! not cover: measured values. `solocore platform detect` measures nothing; an assumed value names
//! the command that does (`measure`, which puts its own comments behind them).

use serde::Serialize;

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A file of the machine.
    Read,
    /// A document about a part that the machine names.
    Table,
    /// No file or document; the value is assumed.
    Assumed,
}

/// A value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Kind of source.
    pub source: Source,
    /// The file, the document, or the reason.
    pub from: String,
    /// The measure that would make an assumed value known.
    pub known_by: Option<String>,
}

impl<T> Known<T> {
    /// A value from a file of the machine.
    pub fn read(value: T, from: impl Into<String>) -> Self {
        Self { value, source: Source::Read, from: from.into(), known_by: None }
    }

    /// A value from a document.
    pub fn table(value: T, from: impl Into<String>) -> Self {
        Self { value, source: Source::Table, from: from.into(), known_by: None }
    }

    /// A value without a source, with the reason.
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

    /// The value as a line of a file or a document.
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
    /// Kind of source.
    pub source: Source,
    /// The file, the document, or the reason.
    pub from: String,
    /// The measure that would make an assumed value known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_by: Option<String>,
}

impl Fact {
    /// The comment on the value.
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

/// A note for the user, beside the numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// Key of a platform file, or a name of this crate.
    pub key: String,
    /// The finding, and the value of the file in its place.
    pub text: String,
    /// A command that changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Note {
    /// A note without a command.
    pub fn new(key: &str, text: impl Into<String>) -> Self {
        Self { key: key.to_owned(), text: text.into(), command: None }
    }

    /// A note with a command that changes it.
    pub fn with(key: &str, text: impl Into<String>, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..Self::new(key, text) }
    }

    /// The note on one line.
    pub fn line(&self) -> String {
        let command = self.command.as_ref().map(|c| format!(": {c}")).unwrap_or_default();
        format!("{}: {}{command}", self.key, self.text)
    }
}
