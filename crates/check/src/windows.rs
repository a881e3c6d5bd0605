//! Traces of partitions and their windows (single-core-equivalence, section 2.4).
//!
//! *Replay*: each pick must be that of `time_table.h` and `ready_set.h`. *Rules*, without them, at
//! every instant and not only at picks:
//! * `window`: only tasks of the partition whose window is open are chosen;
//! * `priority`: of these, the one of the lowest rank that is ready;
//! * `edge`: a core without a chosen task decides at each begin of a window;
//! * `runs`: a thread of a partition runs only while its task is chosen.
//!
//! A change after an event may take the tolerance of the trace.

use crate::about::{number, tolerance};
use crate::report::LevelsReport;
use crate::violation::{UNCHECKABLE, Violation};
use solocore_model::sched_trace::{Event, Kind, NONE, SchedTrace};
use solocore_policy::ready_set::ReadySet;
use solocore_policy::time_table::Table;
use std::collections::BTreeMap;

/// Level of tasks in windows.
const WINDOW: u64 = 5;

/// Is this trace about windows?
pub fn concerns(trace: &SchedTrace) -> bool {
    trace.events.iter().any(|e| e.event == Kind::LevelAdd && e.b >> 56 == WINDOW)
}

#[derive(Clone, Debug)]
struct WindowTask {
    partition: u32,
    rank: u32,
    ready: bool,
    unstarted: bool,
    may_ns: u64,
}

#[derive(Default)]
struct WindowCore {
    table: Option<Box<Table>>,
    origin_ns: u64,
    frame_ns: u64,
    windows: Vec<(u64, u64, u32)>,
    current: Option<u32>,
    until_ns: Option<u64>,
    /// Time since which it ought to choose another task, ns.
    wrong_ns: Option<u64>,
    runs: Option<(u32, u32, Option<u64>)>,
}

impl WindowCore {
    /// The window that is open, and its begin, ns.
    fn open(&self, at: u64) -> Option<(u32, u64)> {
        let since = at.checked_sub(self.origin_ns).filter(|_| self.frame_ns > 0)?;
        let offset = since % self.frame_ns;
        let w = self.windows.iter().find(|w| w.0 <= offset && offset < w.1)?;
        Some((w.2, at - offset + w.0))
    }
}

struct Replay {
    tasks: BTreeMap<u32, WindowTask>,
    cores: Vec<WindowCore>,
    ready: BTreeMap<u32, ReadySet>,
    tolerance_ns: u64,
    now_ns: u64,
    report: LevelsReport,
}

fn broken<T>(e: &Event, rule: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation::of(e.time_ns, e.cpu, rule, what))
}

pub fn check(trace: &SchedTrace) -> Result<LevelsReport, Violation> {
    let mut replay = set_up(trace)?;
    for e in &trace.events {
        if matches!(e.event, Kind::LevelAdd | Kind::LevelTable | Kind::LevelSlot) {
            continue;
        }
        replay.report.events += 1;
        replay.pass(e.time_ns)?;
        match e.event {
            Kind::LevelRelease | Kind::LevelComplete => replay.job(e)?,
            Kind::LevelPick => replay.pick(e)?,
            Kind::Runs => replay.runs(e)?,
            Kind::Stops => {
                replay.stray(e)?;
                replay.cores[e.cpu as usize].runs = None;
            }
            _ => {}
        }
    }
    Ok(replay.report)
}

fn set_up(trace: &SchedTrace) -> Result<Replay, Violation> {
    let cpus = number(trace, "cpus").filter(|n| (1..=256).contains(n)).unwrap_or(0);
    let mut replay = Replay {
        tasks: BTreeMap::new(),
        cores: (0..cpus).map(|_| WindowCore::default()).collect(),
        ready: BTreeMap::new(),
        tolerance_ns: tolerance(trace),
        now_ns: 0,
        report: LevelsReport { scheduler: "windows".to_owned(), ..LevelsReport::default() },
    };
    for e in &trace.events {
        let Some(core) = replay.cores.get_mut(e.cpu as usize) else {
            return broken(e, UNCHECKABLE, format!("the trace has {cpus} cores (cpus=1 to 256)"));
        };
        match e.event {
            Kind::LevelAdd => {
                let half = |shift: u32| u32::try_from(e.b >> shift & 0xffff).unwrap_or(0);
                let partition = u32::try_from(e.b >> 16 & 0xffff_ffff).unwrap_or(0);
                let task = WindowTask {
                    partition,
                    rank: half(0),
                    ready: false,
                    unstarted: false,
                    may_ns: 0,
                };
                replay.tasks.insert(e.id, task);
                replay.ready.entry(partition).or_default();
            }
            Kind::LevelTable => {
                (core.frame_ns, core.origin_ns) = (e.a, e.b);
                core.table = Table::new(e.b, e.a);
            }
            Kind::LevelSlot => {
                if !core.table.as_mut().is_some_and(|t| t.append(e.a, e.b, e.id)) {
                    return broken(
                        e,
                        UNCHECKABLE,
                        format!("a window from {} to {} does not fit its table", e.a, e.b),
                    );
                }
                core.windows.push((e.a, e.b, e.id));
            }
            _ => {}
        }
    }
    Ok(replay)
}

impl Replay {
    /// Lets time pass; fails if an action that was due by now is missing.
    fn pass(&mut self, to_ns: u64) -> Result<(), Violation> {
        if to_ns == self.now_ns {
            return Ok(());
        }
        for at in 0..self.cores.len() {
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            // Before time passes, not after: changes at this very instant have happened.
            let first = self.first(at);
            let core = &mut self.cores[at];
            let Some(until) = core.until_ns else { continue };
            let late = to_ns.saturating_sub(until);
            self.report.max_decision_late_ns = self.report.max_decision_late_ns.max(late);
            if late > self.tolerance_ns {
                let rule = if core.current.is_some() { "window" } else { "edge" };
                let what = format!(
                    "a window began or ended at {until}, and {late} ns later {:?} is still chosen",
                    core.current
                );
                return Err(Violation::of(to_ns, number, rule, what));
            }
            // An action that is due at the edge is judged above.
            let wrong = first.is_some() && first != core.current && self.now_ns < until;
            core.wrong_ns = wrong.then(|| core.wrong_ns.unwrap_or(self.now_ns));
            if let Some(since) = core.wrong_ns
                && to_ns - since > self.tolerance_ns
            {
                let waits = to_ns - since;
                let what = format!(
                    "task {first:?} waits in its window for {waits} ns while {:?} is chosen",
                    core.current
                );
                return Err(Violation::of(since, number, "priority", what));
            }
        }
        self.now_ns = to_ns;
        Ok(())
    }

    /// The first ready task of the partition with the open window on a core.
    fn first(&self, core: usize) -> Option<u32> {
        let (open, _) = self.cores[core].open(self.now_ns)?;
        let of_it = self.tasks.iter().filter(|(_, t)| t.ready && t.partition == open);
        of_it.min_by_key(|(_, t)| t.rank).map(|(&id, _)| id)
    }

    fn job(&mut self, e: &Event) -> Result<(), Violation> {
        let Some(t) = self.tasks.get_mut(&e.id) else {
            return broken(e, "replay", format!("there is no task {}", e.id));
        };
        let begins = e.event == Kind::LevelRelease;
        let set = self.ready.entry(t.partition).or_default();
        let changed = if begins { set.add(t.rank) } else { set.remove(t.rank) };
        if !changed || t.ready == begins {
            let what = if begins {
                "begins a job before the last one ended"
            } else {
                "ends a job that it does not have"
            };
            return broken(e, "replay", format!("task {} {what}", e.id));
        }
        (t.ready, t.unstarted, t.may_ns) = (begins, begins, e.time_ns);
        let (partition, rank) = (t.partition, t.rank);
        let count = if begins { &mut self.report.jobs } else { &mut self.report.completed };
        *count += 1;
        if !begins {
            // A task that waited for it may start from now on.
            for t in self
                .tasks
                .values_mut()
                .filter(|t| t.unstarted && t.partition == partition && t.rank > rank)
            {
                t.may_ns = e.time_ns;
            }
            for core in self.cores.iter_mut().filter(|c| c.current == Some(e.id)) {
                core.current = None;
            }
        }
        Ok(())
    }

    fn pick(&mut self, e: &Event) -> Result<(), Violation> {
        self.report.decisions += 1;
        let chosen = (e.id != NONE).then_some(e.id);
        let core = &mut self.cores[e.cpu as usize];
        let slot = core.table.as_ref().map(|t| t.lookup(e.time_ns));
        let edge = slot.map_or(u64::MAX, |s| s.edge_ns);
        let rank = slot.and_then(|s| s.id).and_then(|p| self.ready.get(&p)?.first());
        let answer = rank
            .and_then(|rank| self.tasks.iter().find(|(_, t)| t.rank == rank).map(|(&id, _)| id));
        if (answer, edge) != (chosen, e.a) {
            return broken(
                e,
                "replay",
                format!(
                    "task {chosen:?} was chosen until {}, and the policy says {answer:?} until \
                        {edge}",
                    e.a
                ),
            );
        }
        core.until_ns = Some(e.a);
        core.current = chosen;
        self.stray(e)
    }

    fn runs(&mut self, e: &Event) -> Result<(), Violation> {
        let task = u32::try_from(e.a).ok().and_then(|n| n.checked_sub(1));
        let core = &mut self.cores[e.cpu as usize];
        core.runs = task.map(|task| (e.id, task, None));
        let open = core.open(e.time_ns).map_or(0, |o| o.1);
        if let Some(t) =
            task.filter(|_| core.current == task).and_then(|id| self.tasks.get_mut(&id))
            && t.unstarted
        {
            t.unstarted = false;
            let late = e.time_ns.saturating_sub(open.max(t.may_ns));
            self.report.max_start_late_ns = self.report.max_start_late_ns.max(late);
        }
        self.stray(e)
    }

    fn stray(&mut self, e: &Event) -> Result<(), Violation> {
        let core = &mut self.cores[e.cpu as usize];
        let Some((thread, task, since)) = core.runs else { return Ok(()) };
        let begun = since.unwrap_or(e.time_ns);
        core.runs = Some((thread, task, (core.current != Some(task)).then_some(begun)));
        let stray = e.time_ns - begun;
        self.report.max_stray_ns = self.report.max_stray_ns.max(stray);
        if stray > self.tolerance_ns {
            return broken(
                e,
                "runs",
                format!("thread {thread} of task {task} runs for {stray} ns without being chosen"),
            );
        }
        Ok(())
    }
}
