//! From two looks to figures that the screen draws: bars with budget lines, tasks with deadlines.
//!
//! Rule: a bar is of the time between the looks; a longest time is of the whole run. A budget line
//! stands at the same place of all bars of budgets, so that the eye compares shares.

use super::super::since::since;
use super::super::tables::holder;
use crate::commands::promises::verdict;
use crate::commands::run_text::{bandwidth, limit};
use solocore_model::run::{
    RunCore, RunJob, RunLevelCpu, RunLevelTask, RunRegulation, RunResult, RunVcpu,
};

/// The use of a CPU or VCPU since the last look.
pub struct Bar {
    /// `CPU 2`, or the name of a VCPU.
    pub name: String,
    /// The used part of the bar, 0 to 1.
    pub used: f64,
    /// The budget's place in the bar, 0 to 1; `None`: no budget.
    pub line: Option<f64>,
    /// The part of the time for which it was throttled, 0 to 1; `None`: it cannot be.
    pub throttled: Option<f64>,
    /// Something happened since the last look that no budget allows.
    pub alarm: bool,
    /// Figures beside the bar.
    pub figures: String,
}

/// A task of the plan, or a driver.
#[derive(Debug, PartialEq)]
pub struct SeenTask {
    pub name: String,
    /// Core, with the level where the scheduler has levels.
    pub place: String,
    /// Jobs that ended since the last look.
    pub jobs: u64,
    /// Time from release to end of the latest job.
    pub last_ns: Option<u64>,
    /// The longest such time.
    pub longest_ns: Option<u64>,
    /// The plan's bound on it.
    pub bound_ns: Option<u64>,
    pub deadline_ns: Option<u64>,
    /// Jobs of the whole run that missed their deadlines.
    pub missed: u64,
    /// `started`, `attached` or `not run`.
    pub how: String,
}

/// A budget's place in a bar: a use of up to a quarter more than the budget can be seen.
const BUDGET_AT: f64 = 0.8;

/// Bars of regulated CPUs, of VCPUs, or of CPUs under a scheduler of levels.
pub fn bars(before: &RunResult, now: &RunResult) -> Vec<Bar> {
    let elapsed = now.duration_ns.saturating_sub(before.duration_ns).max(1) as f64;
    let mut out = now
        .regulation
        .as_ref()
        .map_or_else(Vec::new, |new| regulated(before.regulation.as_ref(), new, elapsed));
    out.extend(vcpus(before, now, elapsed));
    out.extend(cpus_of_levels(before, now, elapsed));
    out
}

fn regulated(old: Option<&RunRegulation>, new: &RunRegulation, elapsed: f64) -> Vec<Bar> {
    let was = |core: &RunCore| old.and_then(|old| old.cores.iter().find(|c| c.cpu == core.cpu));
    let use_of = |core: &RunCore| {
        let grown = since(core, was(core));
        grown(|c| c.accesses) as f64 / grown(|c| c.periods).max(1) as f64
    };
    let most = new.cores.iter().map(use_of).fold(1.0, f64::max);
    let bar = |core: &RunCore| {
        let (grown, use_now) = (since(core, was(core)), use_of(core));
        let budget = (core.budget != u64::MAX).then_some(core.budget);
        let full = budget.map_or(most, |b| b.max(1) as f64 / BUDGET_AT);
        let throttled = (grown(|c| c.throttled_ns) as f64 / elapsed).min(1.0);
        let over = grown(|c| c.periods_over_budget);
        Bar {
            name: format!("CPU {}", core.cpu),
            used: use_now / full,
            line: budget.map(|_| BUDGET_AT),
            throttled: budget.map(|_| throttled),
            alarm: over > 0,
            figures: format!(
                "{use_now:.1} of {}, {} MB/s, throttled {:.1} %, over {over}",
                limit(core.budget),
                bandwidth(core.budget, new.period_ns, new.stands_in),
                100.0 * throttled
            ),
        }
    };
    new.cores.iter().map(bar).collect()
}

fn vcpus(before: &RunResult, now: &RunResult, elapsed: f64) -> Vec<Bar> {
    let Some(new) = &now.vcpus else { return Vec::new() };
    let bar = |v: &RunVcpu| {
        let grown = since(v, before.vcpus.iter().flat_map(|b| &b.vcpus).find(|o| o.id == v.id));
        let share = |of| grown(of) as f64 / elapsed;
        let (foreground, background) = (share(|v| v.foreground_ns), share(|v| v.background_ns));
        Bar {
            name: v.name.clone(),
            used: foreground + background,
            line: (v.period_ns > 0).then(|| v.capacity_ns as f64 / v.period_ns as f64),
            throttled: None,
            alarm: false,
            figures: format!(
                "core {}, {}, foreground {:.1} %, background {:.1} %, {} moves",
                v.core,
                v.state,
                100.0 * foreground,
                100.0 * background,
                v.moves
            ),
        }
    };
    new.vcpus.iter().map(bar).collect()
}

fn cpus_of_levels(before: &RunResult, now: &RunResult, elapsed: f64) -> Vec<Bar> {
    let Some(new) = &now.levels else { return Vec::new() };
    let old = before.levels.as_ref();
    let ran = |t: &RunLevelTask| {
        let was = old.and_then(|old| old.tasks.iter().find(|o| o.name == t.name));
        since(t, was)(|t| t.ran_ns) as f64
    };
    let bar = |c: &RunLevelCpu| {
        let was = old.and_then(|old| old.cpus.iter().find(|o| o.cpu == c.cpu));
        let lost = since(c, was)(|c| c.intruder_ns);
        let used: f64 = new.tasks.iter().filter(|t| t.core == Some(c.cpu)).map(ran).sum();
        Bar {
            name: format!("CPU {}", c.cpu),
            used: used / elapsed,
            line: None,
            throttled: None,
            alarm: lost > 0,
            figures: format!(
                "{:.1} % by its own tasks, decisions at most {:.1} us, lost {:.3} ms",
                100.0 * used / elapsed,
                c.max_decision_ns as f64 / 1e3,
                lost as f64 / 1e6
            ),
        }
    };
    new.cpus.iter().map(bar).collect()
}

/// Tasks in the plan's order, drivers after them.
pub fn tasks(before: &RunResult, now: &RunResult) -> Vec<SeenTask> {
    let old = before.tasks.iter().chain(&before.drivers);
    let mut out = Vec::new();
    for t in now.tasks.iter().chain(&now.drivers) {
        let ended = since(t, old.clone().find(|o| o.name == t.name))(|t| t.jobs + t.failed);
        out.push(SeenTask {
            name: t.name.clone(),
            place: t.core.to_string(),
            jobs: ended,
            last_ns: t.latest.last().map(|j: &RunJob| j.end_ns.saturating_sub(j.release_ns)),
            longest_ns: (t.jobs + t.failed > 0).then_some(t.max_response_ns),
            bound_ns: t.bound_ns,
            deadline_ns: t.deadline_ns,
            missed: t.misses_deadline,
            how: t.how.clone(),
        });
    }
    let Some(levels) = &now.levels else { return out };
    let old = before.levels.as_ref().map_or(&[][..], |l| &l.tasks);
    for t in &levels.tasks {
        let ended = since(t, old.iter().find(|o| o.name == t.name))(|t| t.completed);
        let core = t.core.map_or_else(|| "all".to_owned(), |core| core.to_string());
        out.push(SeenTask {
            name: t.name.clone(),
            place: format!("{core} {}", t.level),
            jobs: ended,
            last_ns: None,
            longest_ns: (t.completed > 0).then_some(t.max_response_ns),
            bound_ns: t.bound_ns,
            deadline_ns: t.deadline_ns,
            missed: t.late,
            how: t.how.clone(),
        });
    }
    out
}

/// Holders of the bandwidth lock and clients that wait, a line each; holders first.
pub fn holders(now: &RunResult) -> Vec<(String, bool)> {
    let Some(lock) = &now.lock else { return Vec::new() };
    let mut out: Vec<(String, bool)> = lock
        .clients
        .iter()
        .map(|c| {
            let (name, state) = holder(c);
            (format!("{name} (process {}): {state}", c.pid), c.depth > 0 && !c.cut)
        })
        .collect();
    out.sort_by_key(|(_, holds)| !holds);
    out
}

/// The promises of the plan in a line, and whether all are kept.
pub fn promises(now: &RunResult) -> Option<(String, bool)> {
    let kept = now.promises.iter().all(|a| a.kept_by.is_some());
    (!now.promises.is_empty()).then(|| (verdict(&now.promises), kept))
}
