//! Profiles made while planning are kept, and used again while they are valid.
//!
//! Problem: a profile takes seconds, and its program and the files that it reads change. Rule: the
//! key consists of the facts before a run: the command, its directory, its environment, the numbers
//! of the platform that shape a profile, and emulator and plugin by content. The profile contains
//! the facts that only a run gives: every file that it looked at ([`RestsOn`]). These files are
//! compared before the profile is used again. Not covered: the files that [`RestsOn::not_covered`]
//! names.

mod place;

use crate::elf::Program;
use crate::emulation::{lock, trace_path};
use crate::error::ProfileError;
use crate::job::{Job, of_session};
use crate::types::{profile, time};
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use solocore_cache::look;
use solocore_model::profile::RestsOn;
use solocore_model::profile::merge::worst;
use solocore_model::{Platform, Profile, files};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A directory of profiles.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// A profile of the store.
#[derive(Debug)]
pub struct Kept {
    /// Path of its file.
    pub path: PathBuf,
    /// The profile.
    pub profile: Profile,
    /// Time when it was made, if that was before now.
    pub made: Option<SystemTime>,
}

/// Knowledge of the store about a job.
#[derive(Debug)]
pub enum Known {
    /// A profile that is valid.
    Holds(Box<Kept>),
    /// Reason why a kept profile is not valid.
    Stale(String),
    /// No profile.
    Nothing,
}

impl Cache {
    /// The cache at `dir`, or in a directory of the user's own.
    ///
    /// # Errors
    /// The directory cannot be made, or others may write to it.
    pub fn open(dir: Option<&Path>) -> Result<Self, ProfileError> {
        Ok(Self { dir: place::find(dir)? })
    }

    /// Looks for the profile of a command.
    ///
    /// # Errors
    /// As [`key`].
    pub fn find(&self, job: &Job) -> Result<Known, ProfileError> {
        let path = self.path(&key(job)?);
        let _lock = lock(&self.dir, FlockOperation::LockShared);
        let Ok(meta) = std::fs::symlink_metadata(&path) else { return Ok(Known::Nothing) };
        if meta.uid() != place::user() || !meta.is_file() {
            return Ok(Known::Stale(format!("{} is not this user's file", path.display())));
        }
        let Ok(profile) = files::read_json::<Profile>(&path) else {
            return Ok(Known::Stale("the kept profile is damaged".to_owned()));
        };
        if !trace_is_whole(&path, &profile) {
            return Ok(Known::Stale("the kept trace is damaged".to_owned()));
        }
        if let Some(why) = changed(&profile.origin.rests_on) {
            return Ok(Known::Stale(why));
        }
        Ok(Known::Holds(Box::new(Kept { path, profile, made: meta.modified().ok() })))
    }

    /// Makes the profile of a command, and keeps it.
    ///
    /// # Errors
    /// As [`profile`]; also if the program fails, as a failing job says nothing about a successful
    /// one.
    pub fn make(&self, job: &Job) -> Result<Kept, ProfileError> {
        let path = self.path(&key(job)?);
        let (made, status) = profile(job, &path)?;
        if !status.success() {
            let (code, name) = (made.exit_code, job.command.join(" "));
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(trace_path(&path));
            return Err(ProfileError::Input(format!(
                "`{name}` failed with exit code {code}; only a job that succeeds can be planned, \
                so run it by hand first"
            )));
        }
        Ok(Kept { path, profile: made, made: None })
    }

    /// One profile of several inputs: the worst per quantity, kept beside theirs; its trace is that
    /// of the slowest.
    ///
    /// # Errors
    /// The profile cannot be written.
    pub fn worst(
        &self,
        platform: &Platform,
        kept: Vec<Kept>,
        arguments: &[Vec<String>],
    ) -> Result<Kept, ProfileError> {
        let mut hash = Hash::default();
        kept.iter().for_each(|k| hash.add(k.path.as_os_str().as_bytes()));
        slowest_by(platform).iter().for_each(|number| hash.add(&number.to_le_bytes()));
        let path = self.path(&format!("{}-worst", hash.name()));
        let made = kept.iter().map(|k| k.made).min().flatten();
        let profiles = kept.into_iter().map(|k| k.profile).collect();
        let merged = worst(profiles, arguments, |p| time(p, platform));
        let Some((profile, _)) = merged else {
            return Err(ProfileError::Input("there is no input; give one".to_owned()));
        };
        files::write_json(&path, &profile)?;
        Ok(Kept { path, profile, made })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }
}

/// The first file that has changed since the run.
fn changed(rests_on: &RestsOn) -> Option<String> {
    if rests_on.files.is_empty() {
        return Some("the kept profile does not name its files".to_owned());
    }
    if let Some(why) = &rests_on.not_whole {
        return Some(why.clone());
    }
    let other = rests_on.files.iter().find(|f| look::again(&f.path, &f.state) != f.state);
    other.map(|f| format!("{} has changed", f.path.display()))
}

/// Checks a trace: a damaged one is made again.
fn trace_is_whole(path: &Path, profile: &Profile) -> bool {
    let Ok(file) = std::fs::File::open(trace_path(path)) else { return false };
    let records = solocore_cache::trace::read(std::io::BufReader::new(file), |_| ());
    records.is_ok_and(|n| profile.trace.as_ref().is_some_and(|t| t.records == n))
}

/// Hash of texts, each with its length, so that two different lists differ.
#[derive(Default)]
struct Hash(Sha256);

impl Hash {
    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn name(self) -> String {
        look::hex(&self.0.finalize()[..12])
    }
}

/// Numbers that decide which of several runs is the slowest ([`time`]), whose trace is kept.
fn slowest_by(platform: &Platform) -> [u64; 4] {
    let (pace, llc) = (platform.slowest_pace(), platform.cycles_to_ps(platform.llc.latency.0));
    [pace.clock.0, pace.more, llc, platform.dram.latency_max.ps()]
}

/// A name for the profile of `job`: hash of all facts that are known before it runs.
///
/// # Errors
/// The program, the emulator or the plugin cannot be found.
pub fn key(job: &Job) -> Result<String, ProfileError> {
    let program = Program::find(&job.command[0], job.dir).map_err(ProfileError::Input)?;
    let mut hash = Hash::default();
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    hash.add(solocore_model::profile::FORMAT.as_bytes());
    for tool in [program.emulator()?, solocore_plugin::PROFILE.find()?] {
        let digest = look::digest(&tool).map_or_else(|e| e.to_string(), |(_, digest)| digest);
        hash.add(digest.as_bytes());
    }
    hash.add(job.platform.name.as_bytes());
    hash.add(job.platform.geometry_on(job.core).as_bytes());
    // Of the traffic over time.
    hash.add(&job.platform.row_conflict().ps().to_le_bytes());
    if job.platform.views(job.core).len() > 1 {
        slowest_by(job.platform).iter().for_each(|number| hash.add(&number.to_le_bytes()));
    }
    hash.add(&job.trace_limit.to_le_bytes());
    hash.add(&place::user().to_le_bytes());
    let dir = job.dir.canonicalize().unwrap_or_else(|_| job.dir.to_owned());
    hash.add(dir.as_os_str().as_bytes());
    hash.add(program.path.as_os_str().as_bytes());
    job.command.iter().for_each(|word| hash.add(word.as_bytes()));
    let mut variables: Vec<_> = std::env::vars_os().collect();
    variables.sort();
    for (name, value) in variables {
        if !of_session(&name.to_string_lossy()) {
            hash.add(name.as_bytes());
            hash.add(value.as_bytes());
        }
    }
    Ok(hash.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::platform::CoreType;

    /// Breaks when two platforms that differ only in the largest cpi of their types share a trace:
    /// the slowest private caches can be others.
    #[test]
    fn a_kept_trace_depends_on_the_largest_cpi() {
        let mut p = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
        let mut kinds = [("big", vec![0, 1]), ("little", vec![2, 3])]
            .map(|(name, cores)| CoreType::of_clock(name, cores, p.frequency));
        kinds[1].l2.clone_from(&p.l2);
        if let Some(l2) = &mut kinds[1].l2 {
            l2.size.0 /= 2;
        }
        kinds[1].cpi = Some(2.0);
        p.core_types = kinds.to_vec();
        let mut other = p.clone();
        other.core_types[1].cpi = Some(3.0);
        assert_eq!(p.geometry(), other.geometry(), "the least cpi is the same");
        assert_ne!(slowest_by(&p), slowest_by(&other));
    }
}
