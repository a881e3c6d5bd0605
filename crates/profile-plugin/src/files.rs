//! The files that the program looks at, with their state before it changed them.
//!
//! Problem: the validity of a profile depends on files that only the run names. Rule: the state of
//! a path is taken before the first call that looks at it. It is the content where the call opens
//! it for reading or maps or executes it, the names where a directory is listed, else the status.
//! A file that the program creates, truncates to zero or only writes is its own: its later contents
//! are not input.
//! A file that it writes in part and then reads counts as it was before the first write. Not
//! covered: devices, `/proc`, `/sys` (named in `not_covered`), descriptors that were open at the
//! start, and times of files.

use crate::clock::clock_ns;
use solocore_cache::contract::Looked;
use solocore_cache::look;
use solocore_model::profile::{FileState, InputFile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Maximum number of listed files.
const MOST_FILES: usize = 50_000;
/// Maximum number of listed names in `not_covered`.
const MOST_NAMES: usize = 50;
/// Devices with constant contents.
const CONSTANT: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// The way in which a call looks at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Reads it, or executes it.
    Content,
    /// Lists a directory.
    Entries,
    /// Reads a link, or the status of one.
    Link,
    /// Asks for its existence and its kind.
    Status,
    /// Opens it for writing only, and keeps its contents.
    Write,
    /// Replaces its contents, or creates it.
    Replace,
    /// Creates it, and fails if it exists.
    Create,
    /// Removes it.
    Remove,
}

#[derive(Clone, Debug)]
struct Known {
    at_ns: u64,
    /// State that was found; `None` for a file of the program's own.
    found: Option<FileState>,
    /// State before the program wrote to it; an input if the program reads it later.
    before: Option<FileState>,
    /// Time of the program's first change: later states are not inputs.
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
    /// Notes that a call is about to look at a path (absolute).
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

    /// Notes that the program asked for something that no file contains.
    pub fn not_covered(&mut self, what: &str) {
        if self.not_covered.len() < MOST_NAMES {
            self.not_covered.insert(what.to_owned());
        } else {
            self.not_covered.insert("and more".to_owned());
        }
    }

    /// States found so far, for the results.
    pub fn looked(&self) -> Vec<Looked> {
        let known = self.known.iter();
        known
            .filter_map(|(path, k)| {
                let file = InputFile { path: path.clone(), state: k.found.clone()? };
                Some(Looked { file, at_ns: k.at_ns })
            })
            .collect()
    }

    /// Files that the program changed, with the times of the first change.
    pub fn owned(&self) -> Vec<(PathBuf, u64)> {
        self.known.iter().filter_map(|(path, k)| Some((path.clone(), k.changed?))).collect()
    }

    /// Names of inputs that are not covered.
    pub fn names_not_covered(&self) -> Vec<String> {
        self.not_covered.iter().cloned().collect()
    }

    /// Reason why the list is incomplete.
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
            // The file existed at the first look, and the program has not written to it since.
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

/// A path without `.`, and without `..` where the text alone allows that.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|c| *c != Component::CurDir).collect()
}

/// The path with a fixed name for this process in `/proc`, the same in each run.
fn own_pid(path: &Path) -> String {
    let own = format!("/proc/{}", std::process::id());
    let text = path.to_string_lossy();
    match text.strip_prefix(&own) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("/proc/self{rest}"),
        _ => text.into_owned(),
    }
}
