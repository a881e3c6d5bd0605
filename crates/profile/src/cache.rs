//! Profiles made while planning are kept, keyed by all that is known to shape them.

use crate::elf::Program;
use crate::emulation::{profile, trace_path};
use crate::error::ProfileError;
use crate::job::Job;
use sha2::{Digest, Sha256};
use solocore_model::{ModelError, Profile, files};
use std::path::{Path, PathBuf};

/// A directory of profiles.
#[derive(Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// The cache at `dir`, or in the user's cache directory.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn open(dir: Option<PathBuf>) -> Result<Self, ProfileError> {
        let dir = dir.unwrap_or_else(default_dir);
        std::fs::create_dir_all(&dir)
            .map_err(|source| ModelError::Write { path: dir.clone(), source })?;
        let dir = dir.canonicalize().unwrap_or(dir);
        Ok(Self { dir })
    }

    /// Finds the profile of a command, or makes it. Returns where it lies and whether it was made
    /// now.
    ///
    /// # Errors
    /// As [`profile`]; also when the program fails, for a job that fails tells nothing of one that
    /// works.
    pub fn get(&self, job: &Job, fresh: bool) -> Result<(PathBuf, Profile, bool), ProfileError> {
        let path = self.dir.join(format!("{}.json", key(job)?));
        if !fresh && path.exists() && trace_path(&path).exists() {
            let known = files::read_json::<Profile>(&path);
            if let Ok(known) = known
                && trace_is_whole(&path, &known)
            {
                return Ok((path, known, false));
            }
        }
        let (made, status) = profile(job, &path)?;
        if !status.success() {
            let (code, name) = (made.exit_code, job.command.join(" "));
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(trace_path(&path));
            return Err(ProfileError::Input(format!(
                "`{name}` failed with exit code {code}; a job must succeed to be planned for, so \
                    run it by hand first"
            )));
        }
        Ok((path, made, true))
    }
}

/// A damaged trace is made again rather than handed on.
fn trace_is_whole(path: &Path, profile: &Profile) -> bool {
    let Ok(file) = std::fs::File::open(trace_path(path)) else { return false };
    let records = solocore_cache::trace::read(std::io::BufReader::new(file), |_| ());
    records.is_ok_and(|n| profile.trace.as_ref().is_some_and(|t| t.records == n))
}

/// A name for the profile of `job`: hash of the program, its arguments, the files they name, and
/// the modelled machine. A program that reads other files needs `--fresh` when those change.
///
/// # Errors
/// When the program cannot be found.
pub fn key(job: &Job) -> Result<String, ProfileError> {
    let program = Program::find(&job.command[0], job.dir).map_err(ProfileError::Input)?;
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(env!("CARGO_PKG_VERSION").as_bytes());
    add(solocore_model::profile::FORMAT.as_bytes());
    add(job.platform.geometry().as_bytes());
    add(&job.trace_limit.to_le_bytes());
    add(&std::fs::read(&program.path).unwrap_or_default());
    for argument in job.command {
        add(argument.as_bytes());
        // An argument may name a file by itself or as the last word (`.read FILE`, `--in=FILE`).
        let words = argument.rsplit([' ', '=']).next().unwrap_or_default();
        for name in [argument.as_str(), words] {
            let path: &Path = &job.dir.join(name);
            if path.is_file() {
                add(&std::fs::read(path).unwrap_or_default());
            }
        }
    }
    Ok(hash.finalize().iter().take(12).map(|b| format!("{b:02x}")).collect())
}

fn default_dir() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("solocore/profiles")
}
