//! A program on a platform with types of cores.
//!
//! Problem: the misses of a profile are those behind given private caches, and a task may run
//! behind several. Rule: each distinct set of private caches that the job may meet is a run of its
//! own (`Platform::views`), and the profile has the worst per quantity
//! (`solocore_model::profile::merge::worst`). Every number is then at least that behind each set,
//! and so an upper bound wherever the job runs, if it stays on one core. The trace is that of the
//! slowest set. A job that has a core meets the caches of one type, and is run once.
//!
//! Does not cover: a job that moves between types (the planner counts its parts); input from a
//! pipe, which only one run can read. Such a pipe is refused.

use crate::emulation::{lock, one_run, put, scratch, trace_path};
use crate::error::ProfileError;
use crate::job::Job;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, FlockOperation, SeekFrom, fstat, seek};
use solocore_model::profile::merge::worst;
use solocore_model::{Platform, Profile, files};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Time in which the writer of a pipe may begin or leave, in ms.
const WRITER_MS: i64 = 200;

/// Profiles a program and writes `out` and, beside it, `out` with `.trace` added.
///
/// # Errors
/// [`ProfileError`]; nothing is left at `out` then, and no process of the program runs on.
pub fn profile(job: &Job, out: &Path) -> Result<(Profile, ExitStatus), ProfileError> {
    let views = job.platform.views(job.core);
    match views.as_slice() {
        [only] => one_run(only, job, out),
        several => worst_of(several, job, out),
    }
}

/// Time of a job with nothing locked on the slowest core, ps; the slowest of several runs is chosen
/// by it.
pub(crate) fn time(profile: &Profile, p: &Platform) -> u64 {
    let computed = p.slowest_pace().ps(profile.private_cycles, profile.instructions);
    let look_ups = profile.llc_reads().saturating_mul(p.cycles_to_ps(p.llc.latency.0));
    let memory = profile.llc_accesses().saturating_mul(p.dram.latency_max.ps());
    computed.saturating_add(look_ups).saturating_add(memory)
}

/// The worst of the runs behind each of these private caches; the status is that of the first run
/// that fails.
fn worst_of(
    views: &[Platform],
    job: &Job,
    out: &Path,
) -> Result<(Profile, ExitStatus), ProfileError> {
    let begin = if job.quiet { None } else { begin_of_input(job, views.len())? };
    let dir = scratch(out)?;
    let mut runs = Vec::with_capacity(views.len());
    let mut places = Vec::with_capacity(views.len());
    let mut failed: Option<ExitStatus> = None;
    let mut last = ExitStatus::default();
    for (at, view) in views.iter().enumerate() {
        if let Some(begin) = begin {
            seek(std::io::stdin(), SeekFrom::Start(begin)).map_err(|e| input_error(e.into()))?;
        }
        let place = dir.path().join(at.to_string());
        let (run, status) = one_run(view, job, &place)?;
        if !status.success() {
            failed = failed.or(Some(status));
        }
        last = status;
        runs.push(run);
        places.push(place);
    }
    let code = runs.iter().map(|run| run.exit_code).find(|&code| code != 0);
    let nothing = vec![Vec::new(); runs.len()];
    let Some((mut merged, slowest)) = worst(runs, &nothing, |run| time(run, job.platform)) else {
        return Err(ProfileError::Input("the platform has no core; give it one".to_owned()));
    };
    merged.exit_code = code.unwrap_or(merged.exit_code);
    // They are one input.
    merged.origin.inputs.clear();
    merged.origin.worst.clear();
    if let Some(trace) = &mut merged.trace {
        trace.file = trace_path(out).file_name().map(PathBuf::from).unwrap_or_default();
    }
    // The store is private: no other process can hold it.
    let store = job.quiet.then(|| files::parent_dir(out));
    let _lock = store.and_then(|dir| lock(dir, FlockOperation::LockExclusive));
    put(&merged, dir.path(), Some(&trace_path(&places[slowest])), out)?;
    Ok((merged, failed.unwrap_or(last)))
}

/// The place in a file at which the program's input begins, so that each run reads the same.
fn begin_of_input(job: &Job, runs: usize) -> Result<Option<u64>, ProfileError> {
    let stdin = std::io::stdin();
    let kind = fstat(&stdin).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::RegularFile) => {
            seek(&stdin, SeekFrom::Current(0)).map(Some).map_err(|e| input_error(e.into()))
        }
        Ok(FileType::Fifo | FileType::Socket) if !has_ended() => Err(ProfileError::Input(format!(
            "the program runs {runs} times, once for the private caches of each type of core of {}; \
                a pipe has its input only once: give a file (< FILE), or the task's core with --core",
            job.platform.name
        ))),
        _ => Ok(None),
    }
}

/// Is standard input a pipe that is empty and that nobody can write to any more?
fn has_ended() -> bool {
    let stdin = std::io::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: WRITER_MS * 1_000_000 };
    let _ = poll(&mut asked, Some(&wait));
    let is = asked[0].revents();
    is.contains(PollFlags::HUP) && !is.contains(PollFlags::IN)
}

fn input_error(error: std::io::Error) -> ProfileError {
    ProfileError::Machine(format!("cannot read the input from its begin again: {error}"))
}
