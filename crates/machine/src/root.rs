//! The root directory from which a description is made: `/`, or a directory that `collect` wrote.
//!
//! Problem: a file may be missing, forbidden, endless, or hold anything. Rule: only regular files
//! are opened, [`LIMIT`] bytes of each are read at most, and files that cannot be used are noted
//! with the reason. A missing file is not a problem by itself. Does not cover: directories that
//! change meanwhile.

use crate::error::MachineError;
use crate::known::Note;
use crate::lists;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Longest file that is accepted; `/proc/cpuinfo` of 8,192 CPUs is shorter.
pub const LIMIT: u64 = 16 << 20;
/// Most names of a directory that are read.
const MOST_NAMES: usize = 1 << 16;

/// A root, and the files below it that could not be read.
#[derive(Debug)]
pub struct Root {
    dir: PathBuf,
    local: bool,
    problems: RefCell<BTreeSet<Note>>,
}

impl Root {
    /// This machine.
    pub fn machine() -> Self {
        Self { dir: PathBuf::from("/"), local: true, problems: RefCell::default() }
    }

    /// A directory that `collect` wrote.
    ///
    /// # Errors
    /// It is not a directory, or holds none of the files.
    pub fn collected(dir: &Path) -> Result<Self, MachineError> {
        let shown = dir.display();
        if !dir.is_dir() {
            return Err(MachineError::Input(format!(
                "--from {shown}: is not a directory; give one that `solocore platform collect` wrote"
            )));
        }
        if !["proc/cpuinfo", "proc/device-tree", "sys/devices/system/cpu"]
            .iter()
            .any(|path| dir.join(path).exists())
        {
            return Err(MachineError::Input(format!(
                "--from {shown}: it holds neither proc/cpuinfo nor sys/devices/system/cpu; give a \
                    directory that `solocore platform collect` or its script wrote"
            )));
        }
        Ok(Self { dir: dir.to_owned(), local: false, problems: RefCell::default() })
    }

    /// Are its files those of this machine?
    pub fn is_this_machine(&self) -> bool {
        self.local
    }

    /// The error for missing information: of this machine, or of the directory.
    pub fn lack(&self, text: String) -> MachineError {
        if self.local {
            MachineError::Machine(text)
        } else {
            MachineError::Input(format!("--from {}: {text}", self.dir.display()))
        }
    }

    /// Files that exist and could not be used.
    pub fn problems(&self) -> Vec<Note> {
        self.problems.borrow().iter().cloned().collect()
    }

    fn problem(&self, path: &str, text: String) {
        self.problems.borrow_mut().insert(Note::new(&format!("/{path}"), text));
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let full = self.dir.join(path);
        // A pipe would never end.
        if !full.metadata().is_ok_and(|m| m.is_file()) {
            return None;
        }
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(&full).and_then(|f| f.take(LIMIT + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() as u64 > LIMIT => {
                self.problem(path, "longer than 16 MiB, and not used".to_owned());
                None
            }
            Ok(_) => Some(bytes),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                self.problem(path, "may not be read; run as root".to_owned());
                None
            }
            // The kernel refuses attributes that a machine does not have in many ways.
            Err(_) => None,
        }
    }

    /// A file as text without blanks at its ends.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        match String::from_utf8(bytes) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(_) => {
                self.problem(path, "no text, and not used".to_owned());
                None
            }
        }
    }

    /// A file as the result of `parse` on its text. A text without a result is a problem.
    pub fn parsed<T>(
        &self,
        path: &str,
        kind: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(path)?;
        let value = parse(&text);
        if value.is_none() {
            let start: String = text.chars().take(20).flat_map(char::escape_default).collect();
            self.problem(path, format!("`{start}` is not a {kind}, and not used"));
        }
        value
    }

    /// A file that holds a number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.parsed(path, "number", |t| t.parse().ok())
    }

    /// A file that holds a number in hexadecimal digits.
    pub fn hex(&self, path: &str) -> Option<u64> {
        let digits = |t: &str| u64::from_str_radix(t.trim_start_matches("0x"), 16).ok();
        self.parsed(path, "hexadecimal number", digits)
    }

    /// A file that holds a list of CPUs.
    pub fn list(&self, path: &str) -> Option<Vec<u32>> {
        self.parsed(path, "list of CPUs", lists::parse)
    }

    /// The names in a directory, in order.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.dir.join(dir)) else { return Vec::new() };
        let name = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().into_string().ok();
        let mut names: Vec<String> = entries.take(MOST_NAMES).filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// Is there a file or a directory?
    pub fn has(&self, path: &str) -> bool {
        self.dir.join(path).exists()
    }
}
