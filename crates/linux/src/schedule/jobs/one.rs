//! One job, from its release to its end.

use super::job_task::JobTask;
use super::prepared::{End, Prepared, Released, schedule};
use super::spawn::spawn;
use crate::sys::tasks;
use rustix::process::Signal;
use solocore_model::run::RunJob;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts a job, in the process that waits for its release if there is one. Returns the number of
/// its process, and what was released; `None`: all jobs are to end.
fn start_job(
    task: &JobTask,
    release_ns: u64,
    begun: u64,
    stop: &AtomicBool,
    next: Option<Prepared>,
) -> Option<io::Result<(u32, Option<Released>)>> {
    {
        // A thread that ends all jobs waits here, and then finds the job or a set `stop`.
        let mut state = task.state();
        if stop.load(Ordering::SeqCst) {
            return None;
        }
        state.starting = Some(release_ns);
    }
    if let Some(signal) = &task.signal {
        signal.begin();
    }
    // Not with the state locked: the process may wait for a budget before it runs its program.
    let child = match next.and_then(|next| next.release(task)) {
        Some(released) => Ok((released.child, Some(released))),
        None => spawn(&task.placed, &task.program, &task.arguments, &task.directory, None)
            .map(|child| (child, None)),
    };
    let ready = match &child {
        Ok((_, Some(released))) => released.ready,
        _ if !task.placed.is_prepared() => true,
        other => {
            // The thread gives it no rank.
            other.iter().for_each(|(child, _)| drop(schedule(*child, task, true)));
            false
        }
    };
    let mut state = task.state();
    (state.starting, state.prepared) = (None, None);
    state.run.unprepared += u64::from(!ready);
    if let Ok((child, _)) = &child {
        state.running = Some((*child, release_ns));
        // A thread that opens the window waits here, and then continues the job.
        let now = tasks::monotonic_ns().saturating_sub(begun);
        if task.placed.window.as_ref().is_some_and(|w| !w.is_open(now)) {
            tasks::signal_group(*child, Signal::STOP);
        }
        // The thread that ends all jobs did not find it.
        if stop.load(Ordering::SeqCst) {
            tasks::signal_group(*child, Signal::TERM);
            tasks::signal_group(*child, Signal::CONT);
        }
    }
    Some(child)
}

/// Runs one job to its end, in the process that waits for its release if there is one.
pub(super) fn one_job(
    task: &JobTask,
    release_ns: u64,
    begun: u64,
    stop: &AtomicBool,
    next: Option<Prepared>,
) {
    let start_ns = tasks::monotonic_ns();
    let Some(started) = start_job(task, release_ns, begun, stop, next) else { return };
    let ended = started.and_then(|(child, released)| {
        let end = match &released {
            Some(released) => released.wait_for_end(task)?,
            None => {
                tasks::wait_for_end(child)?;
                End { end_ns: tasks::monotonic_ns(), said: false }
            }
        };
        Ok((child, released, end))
    });
    let end_ns = ended.as_ref().map_or_else(|_| tasks::monotonic_ns(), |ended| ended.2.end_ns);
    // Its process may be killed in its last look: the job is done nevertheless.
    let done = ended.as_ref().is_ok_and(|ended| ended.2.said) && !stop.load(Ordering::SeqCst);
    task.state().done = ended.as_ref().is_ok_and(|ended| ended.2.said);
    if let (true, Ok((child, ..))) = (task.placed.free, &ended) {
        // Its children end with it; the scheduler counts them to its task.
        tasks::signal_group(*child, Signal::KILL);
    }
    if let Some(signal) = &task.signal {
        signal.end();
    }
    let ended = ended.and_then(|(child, released, _)| Ok((child, overhead(released.as_ref())?)));
    let mut state = task.state();
    let result = ended.and_then(|(child, overhead_ns)| {
        let mut outcome = tasks::outcome(child)?;
        let _ = task.dead.send(child);
        outcome.cpu_ns = outcome.cpu_ns.saturating_sub(overhead_ns);
        Ok(outcome)
    });
    (state.running, state.done) = (None, false);
    let stopped = stop.load(Ordering::SeqCst);
    let result = result.map(|of| (of.succeeded || stopped && done && of.killed, of.cpu_ns));
    if stopped && !matches!(result, Ok((true, _))) {
        // The job was killed before its end.
        let late = task.placed.deadline_ns.is_some_and(|d| end_ns - release_ns > d);
        state.run.misses_deadline += u64::from(late && !task.placed.goes_on());
        return;
    }
    let job = RunJob { release_ns, start_ns, end_ns };
    match result.ok() {
        Some((true, _)) if task.placed.goes_on() => state.in_a_row = 0,
        result => state.record(job, result, task.placed.deadline_ns),
    }
}

/// Waits until the process of a job that is done has ended. Returns its CPU time before the release
/// and since the end of the job, ns.
fn overhead(released: Option<&Released>) -> io::Result<u64> {
    let Some(released) = released else { return Ok(0) };
    let at_end_ns = released.cpu_time_ns();
    tasks::wait_for_end(released.child)?;
    Ok(released.spent_ns + released.cpu_time_ns().saturating_sub(at_end_ns))
}
