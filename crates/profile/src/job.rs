//! The job to profile.
//!
//! Problem: the run, the profile built from it and the store of profiles depend on the same
//! choices. Rule: one [`Job`] holds them all.

use solocore_model::Platform;
use std::path::Path;
use std::time::Duration;

/// A job: its command, its place and its limits.
pub struct Job<'a> {
    /// Platform with the modelled caches.
    pub platform: &'a Platform,
    /// The core that runs it; `None`: any core, so that the profile is the worst over the private
    /// caches of all types of cores.
    pub core: Option<u32>,
    /// Program and arguments.
    pub command: &'a [String],
    /// Working directory.
    pub dir: &'a Path,
    /// Whether to keep its input and output to itself, and the session's variables from it
    /// (planning), or to pass them through (profiling).
    pub quiet: bool,
    /// Maximum number of recorded accesses, in each process.
    pub trace_limit: u64,
    /// Time after which the program and all its children are ended.
    pub timeout: Option<Duration>,
    /// Called once a second while the program runs.
    pub watch: &'a (dyn Fn(Seen) + 'a),
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Time since its start.
    pub time: Duration,
    /// Instructions so far, to the last few millions.
    pub instructions: u64,
    /// Loads, stores and fetched lines that missed the private caches.
    pub references: u64,
}

/// Variables that a shell, a terminal or a login sets again: a quiet job does not get them, so that
/// nothing of it depends on them.
const SESSION: [&str; 16] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "LINES",
    "LS_COLORS",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "TERM",
    "WAYLAND_DISPLAY",
    "WINDOWID",
    "XAUTHORITY",
    "SOLOCORE_PLUGIN",
];
/// Prefixes of such variables.
const SESSION_PREFIXES: [&str; 4] = ["SSH_", "SUDO_", "TERM_", "XDG_SESSION_"];

/// Whether this is a variable of the session.
pub(crate) fn of_session(name: &str) -> bool {
    SESSION.contains(&name) || SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
