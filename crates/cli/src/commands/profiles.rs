//! Profiles that commands make on the way.
//!
//! Problem: `plan` and `init` need profiles of the same commands, and one takes seconds.
//! Rule: both ask the same store, which is opened when the first profile is needed. A profile from
//! the store is reported with its date, a new one with the changes since the kept one.
//! Does not cover: profiles with a file of their own; `solocore profile` makes them.

use crate::args::Profiling;
use crate::fail::Failure;
use crate::progress::{Progress, Steps, stopped};
use solocore_model::plan::Profiled;
use solocore_model::{ModelError, Plan, Platform, Time};
use solocore_profile::{Cache, Job, Kept, Known, ProfileError};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The store, and the options for its use.
pub struct Profiles<'a> {
    options: &'a Profiling,
    store: Option<Cache>,
    /// The profile of each task, for the plan.
    found: HashMap<String, Profiled>,
}

/// A command, and its inputs.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Name of the task.
    pub task: &'a str,
    pub platform: &'a Platform,
    /// The core that the task never leaves.
    pub core: Option<u32>,
    pub command: &'a [String],
    /// Arguments that each input adds; empty for the command alone.
    pub inputs: &'a [Vec<String>],
    pub dir: &'a Path,
}

impl<'a> Profiles<'a> {
    /// Profiles by these options; the store is opened later.
    pub fn new(options: &'a Profiling) -> Self {
        Self { options, store: None, found: HashMap::new() }
    }

    /// Finds or makes the profile of a task's command: of several inputs the worst per quantity.
    pub fn get(&mut self, wanted: Wanted) -> Result<Kept, Failure> {
        if self.store.is_none() {
            let open = Cache::open(self.options.profiles.as_deref());
            self.store = Some(open.map_err(|e| self.without_store(e))?);
        }
        let Some(store) = &self.store else { return Err(Failure::Interrupted) };
        let kept = if wanted.inputs.is_empty() {
            one(store, self.options, wanted, wanted.command, wanted.task)?
        } else {
            let mut all = Vec::new();
            for (at, input) in (1..).zip(wanted.inputs) {
                let name = format!("{}, input {at} of {}", wanted.task, wanted.inputs.len());
                let command = [wanted.command, input].concat();
                all.push(one(store, self.options, wanted, &command, &name)?);
            }
            store.worst(wanted.platform, all, wanted.inputs)?
        };
        let profiled = Profiled {
            from_cache: kept.made.map(date),
            inputs: kept.profile.origin.inputs.clone(),
            worst: kept.profile.origin.worst.clone(),
        };
        self.found.insert(wanted.task.to_owned(), profiled);
        Ok(kept)
    }

    /// The error for a missing directory of profiles: one that follows from the environment needs
    /// another remedy than a named one.
    fn without_store(&self, error: ProfileError) -> Failure {
        match error {
            ProfileError::Model(ModelError::Write { path, source })
                if self.options.profiles.is_none() =>
            {
                Failure::Machine(format!(
                    "{}: cannot write: {source}; correct HOME or \
                        XDG_CACHE_HOME, or name a directory with --profiles",
                    path.display()
                ))
            }
            other => other.into(),
        }
    }

    /// Marks in a plan the sources of its profiles.
    pub fn mark(&self, plan: &mut Plan) {
        for task in &mut plan.tasks {
            task.profiled = self.found.get(&task.name).cloned();
        }
    }
}

/// The profile of one command.
fn one(
    store: &Cache,
    options: &Profiling,
    wanted: Wanted,
    command: &[String],
    name: &str,
) -> Result<Kept, Failure> {
    let steps = Steps::default();
    let watch = |seen| steps.say(seen);
    let job = Job {
        platform: wanted.platform,
        core: wanted.core,
        command,
        dir: wanted.dir,
        quiet: true,
        trace_limit: solocore_profile::TRACE_LIMIT,
        timeout: duration(options.timeout),
        watch: &watch,
    };
    let mut why = String::new();
    if !options.fresh {
        match store.find(&job)? {
            Known::Holds(kept) => {
                eprintln!(
                    "{name}: profile from cache, {}",
                    kept.made.map_or_else(String::new, date)
                );
                return Ok(*kept);
            }
            Known::Stale(reason) => why = format!(" again: {reason}"),
            Known::Nothing => {}
        }
    }
    let _progress = Progress::new(&format!("profiling {name}{why}"));
    let made = store.make(&job);
    if stopped() {
        return Err(Failure::Interrupted);
    }
    Ok(made?)
}

/// The time of an option.
pub fn duration(time: Option<Time>) -> Option<Duration> {
    time.map(|t| Duration::from_nanos(t.ns_ceil()))
}

/// A time in UTC, to the second.
pub fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
