//! What is profiled.
//!
//! Problem: the run, the profile built from it and the store of profiles depend on the same
//! choices. Rule: one [`Job`] holds them all.

use solocore_model::Platform;
use std::path::Path;
use std::time::Duration;

/// What to run and how.
pub struct Job<'a> {
    /// Whose caches to model.
    pub platform: &'a Platform,
    /// Program and arguments.
    pub command: &'a [String],
    /// Where to run it.
    pub dir: &'a Path,
    /// Keep its input and output to itself, and the session's variables from it (planning), or pass
    /// them through (profiling).
    pub quiet: bool,
    /// Most accesses to record, in each process.
    pub trace_limit: u64,
    /// End the program, and all that it started, after this time.
    pub timeout: Option<Duration>,
    /// Called once a second while the program runs.
    pub watch: &'a (dyn Fn(Seen) + 'a),
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Since its start.
    pub time: Duration,
    /// Instructions, to the last few millions.
    pub instructions: u64,
    /// Loads, stores and fetched lines that the private caches no longer hold.
    pub references: u64,
}

/// Variables that a shell, a terminal or a login sets anew: a quiet job does not get them, so that
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
/// The same by how they begin.
const SESSION_PREFIXES: [&str; 4] = ["SSH_", "SUDO_", "TERM_", "XDG_SESSION_"];

/// Is this a variable of the session?
pub(crate) fn of_session(name: &str) -> bool {
    SESSION.contains(&name) || SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
