//! One error type for every input file: the fault, its place and the remedy, on one line.

use crate::words::plain;
use std::path::{Path, PathBuf};

/// Reasons for which an input file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read.
    #[error("{path}: cannot read: {}; check the path and its permissions", said(source))]
    Read {
        /// The file asked for.
        path: PathBuf,
        /// Message of the operating system.
        source: std::io::Error,
    },
    /// The file could not be written; nothing was left behind.
    #[error("{path}: cannot write: {}; {}", said(source), remedy(source))]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// Message of the operating system.
        source: std::io::Error,
    },
    /// The text of the file does not match its schema.
    #[error("{path}:{line}:{column}: {message}")]
    Parse {
        /// The file that was read.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The fault there and its remedy.
        message: String,
    },
    /// The file parses, but its values do not fit together.
    #[error("{path}{}: {message}", line.map_or(String::new(), |l| format!(":{l}")))]
    Invalid {
        /// The file that was read.
        path: PathBuf,
        /// Line of the table concerned, from 1, where it is known.
        line: Option<usize>,
        /// The fault and its remedy.
        message: String,
    },
}

/// The words of the operating system, without its number for them.
fn said(error: &std::io::Error) -> String {
    without_os_numbers(&error.to_string())
}

/// A text without the numbers that stand behind the operating system's words: ` (os error 2)`.
#[must_use]
pub fn without_os_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.split_once(')').map_or(part, |(_number, rest)| rest);
    }
    out
}

/// Remedy for a file that cannot be written.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::NotFound => "make its directory, or name another place",
        Kind::PermissionDenied => "name a place that you may write to, or run it as its owner",
        Kind::ReadOnlyFilesystem => "its file system is read-only; name another place",
        Kind::IsADirectory => "name a file",
        Kind::NotADirectory => "a part of its path is a file; name another place",
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
            "free some space, or name another place"
        }
        _ => "name another place",
    }
}

impl ModelError {
    /// A semantic error at the table that starts at byte `offset` of `text`.
    pub fn invalid_at(path: &Path, text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, _) = line_and_column(text, offset);
        Self::Invalid { path: path.to_owned(), line: Some(line), message: message.into() }
    }

    /// The same error, with each line number that it names replaced by `of` that number.
    #[must_use]
    pub fn on_lines(self, of: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Parse { path, line, column, message } => {
                Self::Parse { path, line: of(line), column, message }
            }
            Self::Invalid { path, line, message } => {
                Self::Invalid { path, line: line.map(of), message }
            }
            other => other,
        }
    }

    /// Turns a TOML error into one line with file, line and column.
    pub fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, column) = line_and_column(text, offset);
        let mut message = plain(&error.message().lines().collect::<Vec<_>>().join("; "));
        let remedies = [
            ("missing field", "add it"),
            ("invalid type", "write that in its place"),
            ("invalid value", "write that in its place"),
            ("duplicate key", "remove one of the two"),
            ("unknown variant", "take one of these"),
            ("unknown field", "correct or remove it"),
        ];
        if let Some(meant) = meant(&message) {
            message = format!("{message}; did you mean `{meant}`?");
        }
        for (what, remedy) in remedies {
            if message.starts_with(what) && !message.contains(';') {
                message = format!("{message}; {remedy}");
            }
        }
        if !message.contains(';') {
            message += "; correct it there";
        }
        Self::Parse { path: path.to_owned(), line, column, message }
    }

    /// Turns a JSON error into one line with file, line and column.
    pub fn from_json(path: &Path, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let mut message = plain(text.split(" at line ").next().unwrap_or(&text));
        // TOML and text differ from JSON within their first two letters.
        let other = match message.as_str() {
            "EOF while parsing a value" if (line, column) == (1, 0) => Some("is empty"),
            "expected value" | "expected ident" if line == 1 && column <= 2 => Some("is not JSON"),
            _ => None,
        };
        if let Some(what) = other {
            let message = format!("{what}; name a file that solocore has written");
            return Self::Invalid { path: path.to_owned(), line: None, message };
        }
        if let Some(meant) = meant(&message) {
            message = format!("{message}; did you mean `{meant}`?");
        }
        if !message.contains(';') {
            message += "; correct it there, or make the file again";
        }
        // A fault that only shows once the whole is read has no place.
        if line == 0 {
            return Self::Invalid { path: path.to_owned(), line: None, message };
        }
        Self::Parse { path: path.to_owned(), line, column, message }
    }
}

/// The name of serde's list that is most similar to an unknown one, if one is similar. The message
/// is "unknown field `perod`, expected one of `name`, `period`".
fn meant(message: &str) -> Option<&str> {
    /// Least similarity, from 0 (nothing in common) to 1. In names of three letters and more, a
    /// letter too many, too few, wrong or swapped is above it.
    const ALIKE: f64 = 0.6;
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return None;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    let alike = |name: &&str| {
        strsim::normalized_damerau_levenshtein(&unknown.to_lowercase(), &name.to_lowercase())
    };
    let best = names.max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(&best) >= ALIKE).then_some(best)
}

/// Line and column, both from 1, of a byte offset.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::{ModelError, meant, without_os_numbers};

    #[test]
    fn errors_of_the_system_have_no_numbers() {
        let of = |number| ModelError::Write {
            path: "plan.json".into(),
            source: std::io::Error::from_raw_os_error(number),
        };
        // ENOSPC and EEXIST.
        for (number, words) in
            [(28, "free some space, or name another place"), (17, "name another place")]
        {
            let error = of(number).to_string();
            assert!(error.starts_with("plan.json: cannot write: ") && error.ends_with(words));
            assert!(!error.contains("os error"), "{error}");
        }
        assert!(!of(17).to_string().contains("space"));
        let text = "a: No such file (os error 2); b: File exists (os error 17)";
        assert_eq!(without_os_numbers(text), "a: No such file; b: File exists");
    }

    #[test]
    fn every_error_of_a_parser_has_a_remedy() {
        let path = std::path::Path::new("file");
        for text in ["a = \"x", "a", "a = 1\na = 2", "a = 99999999999999999999999"] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            let said = ModelError::from_toml(path, text, &error).to_string();
            assert!(said.contains(';'), "{said}");
        }
        for text in ["{\"a\": ", "[1,", "{\"a\": 1 2}", "plan"] {
            let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
            let said = ModelError::from_json(path, &error).to_string();
            assert!(said.contains(';'), "{said}");
        }
    }

    #[test]
    fn names_that_are_alike_are_proposed() {
        let of = |unknown: &str| {
            let message =
                format!("unknown field `{unknown}`, expected one of `id`, `name`, `period`");
            meant(&message).map(str::to_owned)
        };
        for (unknown, name) in
            [("perod", "period"), ("Period", "period"), ("perdio", "period"), ("nmae", "name")]
        {
            assert_eq!(of(unknown).as_deref(), Some(name), "{unknown}");
        }
        assert_eq!(["colour", "x", ""].map(of), [None, None, None]);
        assert_eq!(meant("missing field `name`"), None);
    }
}
