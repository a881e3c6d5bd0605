//! Profiles that commands make on the way.
//!
//! Problem: `plan` and `init` need profiles of the same commands, and one takes seconds.
//! Rule: both ask the same store, which is opened when the first profile is needed.
//! Does not cover: profiles with a file of their own; `solocore profile` makes them.

use crate::args::Profiling;
use crate::fail::Failure;
use crate::progress::{Progress, stopped};
use solocore_model::{Platform, Profile};
use solocore_profile::{Cache, Job};
use std::path::{Path, PathBuf};

/// The store, and how to use it.
pub struct Profiles<'a> {
    options: &'a Profiling,
    store: Option<Cache>,
}

impl<'a> Profiles<'a> {
    /// Opens nothing yet.
    pub fn new(options: &'a Profiling) -> Self {
        Self { options, store: None }
    }

    /// Finds or makes the profile of a task's command, run in `dir`; it and where it lies.
    pub fn get(
        &mut self,
        task: &str,
        platform: &Platform,
        command: &[String],
        dir: &Path,
    ) -> Result<(PathBuf, Profile), Failure> {
        let job =
            Job { platform, command, dir, quiet: true, trace_limit: solocore_profile::TRACE_LIMIT };
        let store = match self.store.take() {
            Some(store) => store,
            None => Cache::open(self.options.profiles.clone())?,
        };
        let _progress = Progress::new(&format!("profiling {task}"));
        let found = self.store.insert(store).get(&job, self.options.fresh);
        if stopped() {
            return Err(Failure::Interrupted);
        }
        let (path, profile, _) = found?;
        Ok((path, profile))
    }
}
