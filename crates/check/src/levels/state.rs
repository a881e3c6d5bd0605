//! The rules' knowledge of tasks and cores, and the begin of a trace of levels.

use crate::about::number;
use crate::violation::{UNCHECKABLE, Violation};
use solocore_model::sched_trace::{Event, Kind, SchedTrace};
use solocore_policy::UNLIMITED;
use solocore_policy::levels::{Level, Levels};
use std::collections::BTreeMap;

/// A task, as the rules see it.
#[derive(Clone, Debug)]
pub struct RuledTask {
    pub level: u64,
    pub core: u32,
    pub period_ns: u64,
    pub pet_ns: u64,
    /// It has a job that wants to run.
    pub ready: bool,
    /// Its job waits for the next release, because its budget is used up.
    pub spent: bool,
    pub used_ns: u64,
    pub deadline_ns: u64,
    pub released_ns: Option<u64>,
    pub job: u64,
    /// The present job has not run yet.
    pub unstarted: bool,
    /// Time from which on it may run, ns.
    pub may_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub struct RuledCore {
    pub current: Option<usize>,
    pub picked: bool,
    /// Time up to which execution is charged, ns.
    pub charged_ns: u64,
    pub until_ns: u64,
    pub frame_ns: u64,
    pub origin_ns: u64,
    pub slots: Vec<(u64, u64, usize)>,
    /// Time since which it ought to choose another task, ns.
    pub wrong_ns: Option<u64>,
    /// The running thread: its number, its task, and the time since which it ought not to run.
    pub runs: Option<(u32, Option<usize>, Option<u64>)>,
}

impl RuledCore {
    /// The slot that is open: its task, its begin, its end.
    pub fn slot(&self, at: u64) -> Option<(usize, u64, u64)> {
        let since = at.checked_sub(self.origin_ns).filter(|_| self.frame_ns > 0)?;
        let (frame, offset) = (at - since % self.frame_ns, since % self.frame_ns);
        let open = self.slots.iter().find(|s| s.0 <= offset && offset < s.1)?;
        Some((open.2, frame + open.0, frame + open.1))
    }
}

/// Tasks and tables from the begin of the trace, for the rules and for the policy.
pub fn set_up(trace: &SchedTrace) -> Result<(Vec<RuledTask>, Vec<RuledCore>, Levels), Violation> {
    let wrong = |e: &Event, what: String| Err(Violation::of(e.time_ns, e.cpu, UNCHECKABLE, what));
    let cpus =
        number(trace, "cpus").and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=256).contains(n));
    let cpus = cpus.ok_or_else(|| {
        Violation::of(
            0,
            0,
            UNCHECKABLE,
            "it does not state the number of cores (cpus=1 to 256)".to_owned(),
        )
    })?;
    let origin = trace.events.iter().find(|e| e.event == Kind::LevelTable).map_or(0, |e| e.b);
    let policy = Levels::with_origin(cpus, 0, origin);
    let mut policy = policy
        .ok_or_else(|| Violation::of(0, 0, UNCHECKABLE, format!("{cpus} cores are too many")))?;
    let mut tasks: BTreeMap<u32, RuledTask> = BTreeMap::new();
    let mut cores = vec![RuledCore::default(); cpus as usize];
    for e in &trace.events {
        if e.cpu >= cpus {
            return wrong(e, format!("the trace has cores 0 to {}", cpus - 1));
        }
        match e.event {
            Kind::LevelAdd => {
                let task = task_of(e);
                let level = [Level::A, Level::B, Level::C, Level::D]
                    .get(usize::try_from(task.level).unwrap_or(9))
                    .copied();
                let period = if task.period_ns == 0 { 1_000_000_000 } else { task.period_ns };
                if task.core >= cpus
                    || !level.is_some_and(|l| policy.add(e.id, l, task.core, period, task.pet_ns))
                {
                    return wrong(e, format!("task {} cannot be: {task:?}", e.id));
                }
                tasks.insert(e.id, task);
            }
            Kind::LevelTable => {
                cores[e.cpu as usize].frame_ns = e.a;
                cores[e.cpu as usize].origin_ns = e.b;
            }
            Kind::LevelSlot => {
                let frame = cores[e.cpu as usize].frame_ns;
                if !tasks.contains_key(&e.id) || !policy.slot(e.cpu, e.a, e.b, e.id, frame) {
                    return wrong(
                        e,
                        format!(
                            "a slot of task {} from {} to {} does not fit its table",
                            e.id, e.a, e.b
                        ),
                    );
                }
                cores[e.cpu as usize].slots.push((e.a, e.b, e.id as usize));
            }
            _ => {}
        }
    }
    if tasks.keys().zip(0u32..).any(|(&id, at)| id != at) {
        return Err(Violation::of(0, 0, UNCHECKABLE, "tasks are not numbered from 0".to_owned()));
    }
    Ok((tasks.into_values().collect(), cores, policy))
}

fn task_of(e: &Event) -> RuledTask {
    RuledTask {
        level: e.b >> 56,
        core: u32::try_from(e.b >> 48 & 0xff).unwrap_or(u32::MAX),
        period_ns: e.a,
        pet_ns: e.b & ((1 << 48) - 1),
        ready: false,
        spent: false,
        used_ns: 0,
        deadline_ns: UNLIMITED,
        released_ns: None,
        job: 0,
        unstarted: false,
        may_ns: 0,
    }
}
