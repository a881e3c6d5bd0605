//! All tasks of a plan at once, as planned.
//!
//! Problem: a task by itself on its core shows the effect of other cores, but not that of the tasks
//! of its own core, its window, its VCPU or its level's scheduler. Rule: all tasks with a command
//! run as `solocore run` would run them, beside one kind of enemy after the other; the longest
//! response of each is compared with its bound. Enemies run on cores without analysed tasks, and on
//! cores of analysed tasks where the plan allows other programs.
//! Does not cover: enemies inside windows, VCPUs and levels; phases of releases that did not come
//! up.

use super::opponents::{has_command, is_kept_free, weapon};
use super::trials::{Trials, succeeded};
use crate::args::enemy::Enemy;
use crate::args::verify::VerifyArgs;
use crate::fail::Failure;
use crate::progress::Progress;
use solocore_model::plan::{PlanTask, Scheme};
use solocore_model::run::{RunLevelTask, RunTask};
use solocore_model::verification::{Responded, Together};
use solocore_model::{Plan, Time, Times};
use std::time::Duration;

/// Analysed tasks that can be started.
fn tasks<'a>(args: &'a VerifyArgs, plan: &'a Plan) -> impl Iterator<Item = &'a PlanTask> {
    plan.tasks.iter().filter(|t| !t.best_effort() && has_command(args, t))
}

/// Time for which all tasks run at once beside each kind; `None`: they do not.
pub fn duration(args: &VerifyArgs, plan: &Plan) -> Option<Duration> {
    let shared = || {
        tasks(args, plan).any(|t| tasks(args, plan).filter(|o| o.core == t.core).nth(1).is_some())
    };
    if args.together.is_none() && matches!(plan.scheme, Scheme::Budgets) && !shared() {
        return None;
    }
    let longest = tasks(args, plan).filter_map(|t| t.period_ns).max().unwrap_or(0);
    // One job more, as the first is not counted.
    let all = Time::from_ns(longest.saturating_mul(args.jobs.saturating_add(1)));
    Some(Duration::from_nanos(args.together.unwrap_or(all).ns_ceil()))
}

/// CPUs for enemies; none with --colors, as an enemy would lie in any colours.
fn cpus(args: &VerifyArgs, plan: &Plan, online: &[u32]) -> Vec<u32> {
    if args.colors {
        return Vec::new();
    }
    let budgets = matches!(plan.scheme, Scheme::Budgets);
    let can = |core: &u32| {
        let there = || plan.tasks.iter().filter(|t| t.core == *core);
        let counted = plan.tasks.iter().any(|t| is_kept_free(plan, t, *core));
        let company = plan.regulation.other_programs || there().any(PlanTask::best_effort);
        match there().any(|t| !t.best_effort()) {
            true => budgets && company,
            false => args.everywhere || !counted,
        }
    };
    let all = plan.cores.iter().map(|c| c.id).filter(|c| online.contains(c));
    // Level C runs on every core.
    all.filter(|core| plan.levels().is_none() && can(core)).collect()
}

/// Runs all tasks for this time beside each of these kinds.
pub fn measure(
    (args, plan): (&VerifyArgs, &Plan),
    trials: &mut Trials<'_>,
    (kinds, bytes): (&[Enemy], u64),
    duration: Duration,
    online: &[u32],
) -> Result<Together, Failure> {
    let enemies = cpus(args, plan, online);
    let mut out = Together {
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        tasks: tasks(args, plan).map(begun).collect(),
        ..Together::default()
    };
    let mut responses: Vec<Vec<u64>> = vec![Vec::new(); out.tasks.len()];
    let kinds: Vec<Option<Enemy>> = match enemies.is_empty() {
        true => vec![None],
        false => kinds.iter().copied().map(Some).collect(),
    };
    for kind in kinds {
        let name = kind.map(Enemy::name);
        let beside = name.map_or(String::new(), |name| format!(" beside {name}"));
        let seconds = duration.as_secs_f64();
        let _progress = Progress::new(&format!("all tasks as planned{beside}, {seconds:.1} s"));
        let weapon = kind.map(|enemy| (weapon(args, enemy, bytes), enemies.as_slice()));
        let seen = trials.together(weapon, duration)?;
        for (task, times) in out.tasks.iter_mut().zip(&mut responses) {
            let scheduled = seen.levels.iter().flat_map(|l| &l.tasks);
            if let Some(seen) = scheduled.into_iter().find(|s| s.name == task.name) {
                add_scheduled(task, seen, name);
            } else if let Some(seen) = seen.tasks.iter().find(|s| s.name == task.name) {
                add(task, times, seen, name)?;
            }
        }
        out.channels.extend(name.map(str::to_owned));
    }
    for (task, times) in out.tasks.iter_mut().zip(responses) {
        task.responses = Times::of(times);
        task.judge();
    }
    out.enemies = enemies;
    Ok(out)
}

/// The record of a plan's task, before any job.
fn begun(task: &PlanTask) -> Responded {
    let late = task.tardiness_ns.and_then(|t| task.deadline_ns?.checked_add(t));
    Responded {
        name: task.name.clone(),
        core: task.core,
        promise_ns: task.wcrt_ns.or(late),
        schedulable: task.schedulable && task.tardiness_ns.is_none(),
        ..Responded::default()
    }
}

/// Adds the jobs of a run after the first. A run keeps the last jobs of a task one by one. Where it
/// had more, the longest response is that of all its jobs, the first one included.
fn add(
    task: &mut Responded,
    times: &mut Vec<u64>,
    seen: &RunTask,
    channel: Option<&str>,
) -> Result<(), Failure> {
    succeeded(&task.name, seen.failed, "all tasks at once")?;
    let all = seen.latest.len() as u64 == seen.jobs;
    let counted = seen.latest.iter().skip(usize::from(all));
    let responses: Vec<u64> = counted.map(|j| j.end_ns.saturating_sub(j.release_ns)).collect();
    let longest = responses.iter().copied().max().unwrap_or(0);
    times.extend(responses);
    task.jobs += seen.jobs.saturating_sub(1);
    task.misses_deadline += seen.misses_deadline;
    longer(task, if all { longest } else { seen.max_response_ns }, channel);
    Ok(())
}

/// Adds the jobs of a run with levels or windows that the kernel schedules.
fn add_scheduled(task: &mut Responded, seen: &RunLevelTask, channel: Option<&str>) {
    task.jobs += seen.completed;
    task.misses_deadline += seen.late;
    // A partition's tasks have no such time.
    task.overruns += if seen.level == "window" { 0 } else { seen.overruns };
    longer(task, seen.max_response_ns, channel);
}

fn longer(task: &mut Responded, response_ns: u64, channel: Option<&str>) {
    if response_ns > task.max_response_ns {
        task.max_response_ns = response_ns;
        task.worst_channel = channel.map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::run::RunJob;

    fn seen(jobs: u64, responses: &[u64]) -> RunTask {
        let job = |&end_ns: &u64| RunJob { release_ns: 0, start_ns: 0, end_ns };
        let latest: Vec<RunJob> = responses.iter().map(job).collect();
        RunTask { jobs, latest, max_response_ns: 90, ..RunTask::default() }
    }

    /// Fails where a long response is lost with the jobs that a run no longer keeps, or where the
    /// first job counts although it can be distinguished.
    #[test]
    fn the_longest_response_is_that_of_all_jobs() {
        let added = |run: &RunTask| {
            let (mut task, mut times) = (Responded::default(), Vec::new());
            assert!(add(&mut task, &mut times, run, Some("reads")).is_ok());
            (task.jobs, task.max_response_ns, times)
        };
        assert_eq!(added(&seen(3, &[90, 5, 7])), (2, 7, vec![5, 7]));
        assert_eq!(added(&seen(1000, &[5, 7])), (999, 90, vec![5, 7]));
        assert_eq!(added(&seen(0, &[])), (0, 0, vec![]));
    }
}
