//! A program with several inputs, for a profile in a place of its own.
//!
//! Rule: each input is a run; the profile has the worst per quantity
//! (`solocore_model::profile::merge::worst`) and the trace of the slowest. Not covered: the store
//! of profiles, which keeps each run.

use crate::emulation::{put, scratch, trace_path};
use crate::error::ProfileError;
use crate::job::Job;
use crate::types::{profile, time};
use solocore_model::Profile;
use solocore_model::profile::merge::worst;
use std::path::{Path, PathBuf};

/// Profiles the job's command with each of `inputs` added, and writes `out` and its trace.
///
/// # Errors
/// [`ProfileError`], also if a run fails. Nothing is left at `out` then.
pub fn profile_inputs(
    job: &Job,
    inputs: &[Vec<String>],
    out: &Path,
) -> Result<Profile, ProfileError> {
    let dir = scratch(out)?;
    let mut profiles = Vec::new();
    let mut places = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        let command = [job.command, input].concat();
        let place = dir.path().join(at.to_string());
        let (one, status) = profile(&Job { command: &command, ..*job }, &place)?;
        if !status.success() {
            return Err(ProfileError::Input(format!(
                "`{}` failed with exit code {}; each input must be a job that succeeds",
                command.join(" "),
                one.exit_code
            )));
        }
        profiles.push(one);
        places.push(place);
    }
    let Some((mut merged, slowest)) = worst(profiles, inputs, |p| time(p, job.platform)) else {
        return Err(ProfileError::Input("there is no input; give one".to_owned()));
    };
    if let Some(trace) = &mut merged.trace {
        trace.file = trace_path(out).file_name().map(PathBuf::from).unwrap_or_default();
    }
    put(&merged, dir.path(), Some(&trace_path(&places[slowest])), out)?;
    Ok(merged)
}
