//! What is profiled.
//!
//! Problem: the run, the profile built from it and the store of profiles depend on the same
//! choices. Rule: one [`Job`] holds them all.

use solocore_model::Platform;
use std::path::Path;

/// What to run and how.
#[derive(Debug)]
pub struct Job<'a> {
    /// Whose caches to model.
    pub platform: &'a Platform,
    /// Program and arguments.
    pub command: &'a [String],
    /// Where to run it.
    pub dir: &'a Path,
    /// Keep its input and output to itself (planning) or pass them through (profiling).
    pub quiet: bool,
    /// Most accesses to record.
    pub trace_limit: u64,
}
