//! The files that the program looks at, with their state before it changed them.
//!
//! Problem: whether a profile still holds depends on files that only the run names. Rule: the state
//! of a path is taken before the first call that looks at it: its content where the call opens it
//! for reading or maps or executes it, its names where a directory is listed, else its status.
//! A file that the program creates, cuts to nothing or only writes is its own: what it holds later
//! is no input. A file that it writes in part and then reads counts as it was before the first
//! write. Not covered: devices, `/proc`, `/sys` (named in `not_covered`), descriptors that were open
//! at the start, and times of files.

use crate::clock::clock_ns;
use solocore_cache::contract::Looked;
use solocore_cache::look;
use solocore_model::profile::{FileState, InputFile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// More files than that are not listed.
const MOST_FILES: usize = 50_000;
/// More names of what is not covered are not either.
const MOST_NAMES: usize = 50;
/// Devices that always give the same.
const CONSTANT: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// How a call looks at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Reads it, or executes it.
    Content,
    /// Lists a directory.
    Entries,
    /// Reads a link, or the status of one.
    Link,
    /// Asks whether it is there, and of what kind.
    Status,
    /// Opens it for writing only, and keeps what is in it.
    Write,
    /// Replaces what is in it, whether it was there or not.
    Replace,
    /// Makes it, and fails where it is.
    Create,
    /// Removes it.
    Remove,
}

#[derive(Clone, Debug)]
struct Known {
    at_ns: u64,
    /// What was found; `None` for what is the program's own.
    found: Option<FileState>,
    /// Before the program wrote into it; an input if it reads it later.
    before: Option<FileState>,
    /// When the program changed it first: what is there since says nothing.
    changed: Option<u64>,
}

/// Every path that was looked at.
#[derive(Debug, Default)]
pub struct Files {
    known: BTreeMap<PathBuf, Known>,
    not_covered: BTreeSet<String>,
    not_whole: Option<String>,
}

impl Files {
    /// A call is about to look at a path (absolute).
    pub fn look(&mut self, path: &Path, how: How) {
        let path = plain(path);
        let volatile = ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
        if volatile {
            if !CONSTANT.iter().any(|name| path == Path::new(name)) {
                self.not_covered(&own_pid(&path));
            }
            return;
        }
        if self.known.len() >= MOST_FILES && !self.known.contains_key(&path) {
            self.not_whole = Some(format!("it looks at more than {MOST_FILES} files"));
            return;
        }
        let device =
            |state: &FileState| matches!(state, FileState::Status { kind, .. } if kind == "other");
        if how == How::Content && device(&look::status(&path)) {
            self.not_covered(&path.to_string_lossy());
            return;
        }
        match self.known.get_mut(&path) {
            Some(known) => known.look(&path, how),
            None => {
                self.known.insert(path.clone(), Known::first(&path, how));
            }
        }
    }

    /// The program asked for something that no file tells.
    pub fn not_covered(&mut self, what: &str) {
        if self.not_covered.len() < MOST_NAMES {
            self.not_covered.insert(what.to_owned());
        } else {
            self.not_covered.insert("and more".to_owned());
        }
    }

    /// What was found so far, for the results.
    pub fn looked(&self) -> Vec<Looked> {
        let known = self.known.iter();
        known
            .filter_map(|(path, k)| {
                let file = InputFile { path: path.clone(), state: k.found.clone()? };
                Some(Looked { file, at_ns: k.at_ns })
            })
            .collect()
    }

    /// What the program changed, and since when.
    pub fn owned(&self) -> Vec<(PathBuf, u64)> {
        self.known.iter().filter_map(|(path, k)| Some((path.clone(), k.changed?))).collect()
    }

    /// Names of what is not covered.
    pub fn names_not_covered(&self) -> Vec<String> {
        self.not_covered.iter().cloned().collect()
    }

    /// Why the list is not whole.
    pub fn not_whole(&self) -> Option<String> {
        self.not_whole.clone()
    }
}

impl Known {
    fn first(path: &Path, how: How) -> Self {
        let mut known = Self { at_ns: clock_ns(), found: None, before: None, changed: None };
        match how {
            How::Content => known.found = Some(look::content(path)),
            How::Entries => known.found = Some(look::entries(path)),
            How::Link => known.found = Some(look::link(path)),
            How::Status => known.found = Some(look::status(path)),
            How::Write => known.before = Some(look::content(path)),
            How::Replace => {}
            How::Create | How::Remove => known.found = Some(look::status(path)),
        }
        let changes = matches!(how, How::Write | How::Replace | How::Create | How::Remove);
        known.changed = changes.then_some(known.at_ns);
        known
    }

    fn look(&mut self, path: &Path, how: How) {
        let status = matches!(self.found, Some(FileState::Status { .. } | FileState::Link { .. }));
        match how {
            // It was there when it was first seen, and nobody here has written to it since.
            How::Content if self.changed.is_none() && status => {
                self.found = Some(look::content(path))
            }
            How::Entries if self.changed.is_none() && status => {
                self.found = Some(look::entries(path))
            }
            How::Content if self.before.is_some() && self.found.as_ref().is_none_or(|_| status) => {
                self.found = self.before.take();
            }
            How::Write if self.changed.is_none() => {
                let read = matches!(self.found, Some(FileState::File { .. } | FileState::Absent));
                self.before = (!read).then(|| look::content(path));
                self.changed = Some(clock_ns());
            }
            How::Replace | How::Create | How::Remove => {
                self.changed.get_or_insert_with(clock_ns);
            }
            _ => {}
        }
    }
}

/// Without `.` and, where it can be told from the text alone, `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|c| *c != Component::CurDir).collect()
}

/// Names of this process in `/proc` are the same in each run.
fn own_pid(path: &Path) -> String {
    let own = format!("/proc/{}", std::process::id());
    let text = path.to_string_lossy();
    match text.strip_prefix(&own) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/proc/self{rest}"),
        _ => text.into_owned(),
    }
}
