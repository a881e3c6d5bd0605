//! `solocore profile --from`: puts observations of a run or a simulation of a plan back into a
//! task's profile.
//!
//! Rule: a job of a run shares the machine, so its time is compared with `C_sce`, the time that the
//! plan allows it beside the others. The excess was not in the profile: `private_cycles` grows by
//! it. A run below that time changes no number. Does not cover: misses, which a run does not count
//! by job.

use super::parts::{estimated, output, trace_of, write};
use super::text;
use crate::args::ProfileArgs;
use crate::fail::Failure;
use serde::Deserialize;
use solocore_model::plan::PlanTask;
use solocore_model::profile::{Measured, MeasuredInput, Quantity, Raised, quantity};
use solocore_model::results::{self, SimResult};
use solocore_model::run::{self, RunResult};
use solocore_model::{Plan, Profile, files};
use solocore_profile::carried;
use std::path::Path;
use std::process::ExitCode;

/// The head of any file with observations of jobs.
#[derive(Deserialize)]
struct Head {
    format: String,
}

/// Observations in a file of the task's jobs.
struct Seen {
    what: &'static str,
    quantities: Vec<Quantity>,
    /// The longest time that a job used, ns.
    most_ns: u64,
}

/// Raises the task's profile.
pub fn run(args: &ProfileArgs, from: &Path, plan: &Path, task: &str) -> Result<ExitCode, Failure> {
    let out = output(args)?;
    let (path, mut plan) = (plan, Plan::load(plan)?);
    let kept = carried::unpack(path, &mut plan)?;
    let named = plan.tasks.iter().find(|t| t.name == task).ok_or_else(|| {
        let all: Vec<&str> = plan.tasks.iter().map(|t| t.name.as_str()).collect();
        Failure::Input(format!(
            "--task {task}: {} has no such task; it has {}",
            path.display(),
            all.join(", ")
        ))
    })?;
    let (mut profile, place) = profile_of(named, path)?;
    let seen = seen(from, named)?;
    let beyond = seen.most_ns.saturating_sub(named.c_sce_ns);
    let clock = u128::from(plan.platform.fastest().0);
    let cycles = u64::try_from((u128::from(beyond) * clock).div_ceil(1_000_000_000));
    let raised = Raised { private_cycles: cycles.unwrap_or(u64::MAX), ..Raised::default() };
    profile.private_cycles = profile.private_cycles.saturating_add(raised.private_cycles);
    let before = std::mem::take(&mut profile.origin.raised);
    profile.origin.raised = Raised {
        private_cycles: before.private_cycles.saturating_add(raised.private_cycles),
        ..before
    };
    profile.origin.measured = Some(Measured {
        machine: plan.platform.name.clone(),
        cpu: named.core,
        core_type: None,
        date: String::new(),
        jobs_are: seen.what.to_owned(),
        cold: false,
        notes: vec![verdict(named, seen.most_ns)],
        inputs: vec![MeasuredInput { quantities: seen.quantities, ..MeasuredInput::default() }],
    });
    let trace = trace_of(&profile, &place);
    let profile = write(profile, trace.as_deref(), &out)?;
    drop(kept);
    text::summarise(&profile, &out);
    Ok(ExitCode::SUCCESS)
}

fn verdict(task: &PlanTask, most_ns: u64) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    if most_ns > task.c_sce_ns {
        format!(
            "the longest job took {:.3} ms, and its plan allowed {:.3} ms: the profile was too small; \
                plan again with this one",
            ms(most_ns),
            ms(task.c_sce_ns)
        )
    } else {
        format!(
            "the longest job took {:.3} ms of the {:.3} ms that its plan allowed: no number changed",
            ms(most_ns),
            ms(task.c_sce_ns)
        )
    }
}

fn profile_of(task: &PlanTask, plan: &Path) -> Result<(Profile, std::path::PathBuf), Failure> {
    let Some(path) = &task.profile else {
        return Err(Failure::Input(format!(
            "task `{}` of {} has no profile: its numbers are stated; raise them in the system file",
            task.name,
            plan.display()
        )));
    };
    Ok((files::read_json(path)?, path.clone()))
}

/// Observations in the file of the task.
fn seen(from: &Path, task: &PlanTask) -> Result<Seen, Failure> {
    let head: Head = files::read_json(from)?;
    let none = |what: &str| {
        Err(Failure::Input(format!(
            "{}: it saw no job of task `{}`{what}",
            from.display(),
            task.name
        )))
    };
    match head.format.as_str() {
        run::FORMAT => {
            let run: RunResult = files::read_json(from)?;
            let found = run.tasks.iter().find(|t| t.name == task.name && t.jobs > 0);
            let Some(seen) = found else {
                return none("; start it: solocore run --start");
            };
            let times = seen.latest.iter().map(|j| j.end_ns.saturating_sub(j.start_ns)).collect();
            let most = Quantity {
                jobs: seen.jobs,
                ..Quantity::of(quantity::CPU_TIME, "wait4", vec![seen.max_cpu_ns])
            };
            let latest = estimated(Quantity::of(quantity::TIME, "clock", times));
            Ok(Seen { what: "run", quantities: vec![latest, most], most_ns: seen.max_cpu_ns })
        }
        results::FORMAT => {
            let sim: SimResult = files::read_json(from)?;
            let Some(seen) = sim.tasks.iter().find(|t| t.name == task.name && t.jobs > 0) else {
                return none("; simulate longer: --duration");
            };
            let most = Quantity {
                jobs: seen.jobs,
                ..Quantity::of(quantity::CPU_TIME, "simulator", vec![seen.moet_ns])
            };
            Ok(Seen { what: "sim", quantities: vec![most], most_ns: seen.moet_ns })
        }
        other => Err(Failure::Input(format!(
            "{}: format `{}` has no jobs; give a file of `solocore run -o` or `solocore sim \
                -o`",
            from.display(),
            other.escape_debug()
        ))),
    }
}
