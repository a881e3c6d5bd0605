//! Criticality levels (`levels.h`; mc2-os-isolation, section 2): level A by tables, B rate
//! monotonic, C by global EDF, D on cores that no other level uses.
//!
//! At level A, a job that has used up its PET is given up. At B and C it waits for the next
//! release. At B, jobs whose release found another unfinished follow it within the budget and
//! deadline of the latest release; the policy is told of a completion only when none is left. At C
//! the policy is told of such a release when the job before it is done, with the release's own
//! time. So each job keeps its own deadline, on which bounded tardiness rests. (If the deadline of
//! a tardy job moved on with each release, the job could wait for ever.) Only if that job has used
//! its PET up does the new release, at once, give it a budget and deadline, which both jobs then
//! share. Not covered: levels in which programs sleep inside a job (a job that wakes has its whole
//! budget again).

use super::interface::{Call, JobTimes, Overlap, Pick, Scheduler};
use super::places::{core_of, id};
use super::windows::{check_place, refused, windows_ns};
use crate::kernel::config::{CoreTable, KernelError, Level, TaskSpec, span_ns};
use crate::kernel::cores::CoreSet;
use solocore_model::sched_trace::{Event, Kind};
use solocore_policy::UNLIMITED;
use solocore_policy::levels::{Levels, State};

/// Period of a level-D task that has none: level D is ordered by number, and the period is not
/// used.
const ANY_PERIOD_NS: u64 = 1_000_000_000;

/// The scheduler of criticality levels. See the module.
pub struct LevelScheduler {
    policy: Levels,
    level: Vec<Level>,
    /// Core of levels A, B and D.
    home: Vec<usize>,
    /// By core: the task of its last pick.
    current: Vec<Option<usize>>,
    ended: Vec<usize>,
    /// Level C: time from release to deadline, ns, and releases reported while a job was
    /// unfinished.
    span_ns: Vec<u64>,
    told: Vec<u64>,
    /// By task: jobs that were reported to the policy.
    jobs: Vec<u64>,
    /// For traces: tasks and tables.
    described: Vec<Event>,
}

impl LevelScheduler {
    pub fn new(
        tables: &[CoreTable],
        tasks: &[TaskSpec],
        cores: usize,
        now_ps: u64,
    ) -> Result<Self, KernelError> {
        let board = || KernelError::config("board", "has no cores, or more than 256");
        let mut policy = Levels::new(id(cores), now_ps / 1000).ok_or_else(board)?;
        let mut level = Vec::new();
        let mut home = Vec::new();
        let mut described = Vec::new();
        let event = |core, event, of, a, b| Event {
            time_ns: now_ps / 1000,
            cpu: id(core),
            event,
            id: id(of),
            a,
            b,
        };
        for (index, task) in tasks.iter().enumerate() {
            let (its_level, core, [period, pet]) = add_task(&mut policy, index, task, cores)?;
            level.push(its_level);
            home.push(core);
            let detail = (its_level as u64) << 56 | (core as u64) << 48 | pet;
            described.push(event(core, Kind::LevelAdd, index, period, detail));
        }
        let mut seen = CoreSet::default();
        for table in tables {
            check_place(table, cores, seen.iter().any(|core| core == table.core))?;
            seen.insert(table.core);
            let frame = span_ns(table.frame_ps, "scheduler", "the frame")?;
            described.push(event(table.core, Kind::LevelTable, 0, frame, now_ps / 1000));
            for (at, (start, end, task)) in windows_ns(table)?.into_iter().enumerate() {
                if !policy.slot(id(table.core), start, end, id(task), frame) {
                    return Err(refused(table, at));
                }
                described.push(event(table.core, Kind::LevelSlot, task, start, end));
            }
        }
        let span_ns = tasks
            .iter()
            .map(|t| t.deadline_ps.or(t.period_ps()).map_or(0, |ps| ps / 1000))
            .collect();
        let (told, jobs) = (vec![0; tasks.len()], vec![0; tasks.len()]);
        let current = vec![None; cores];
        Ok(Self { policy, level, home, current, ended: Vec::new(), span_ns, told, jobs, described })
    }

    fn state(&self, task: usize) -> State {
        self.policy.task(id(task)).map_or(State::Idle, solocore_policy::levels::LevelTask::state)
    }

    fn overruns(&self, task: usize) -> u64 {
        self.policy.task(id(task)).map_or(0, solocore_policy::levels::LevelTask::overruns)
    }

    fn deadline_ns(&self, task: usize) -> u64 {
        self.policy
            .task(id(task))
            .map_or(UNLIMITED, solocore_policy::levels::LevelTask::deadline_ns)
    }

    /// Rank of the task that would leave a core for another one: the larger, the sooner. Idle, then
    /// D, C by deadline, B and A.
    fn room(&self, core: usize) -> u64 {
        let Some(task) = self.current[core] else { return UNLIMITED };
        match self.level[task] {
            Level::D => UNLIMITED - 1,
            Level::C => self.deadline_ns(task).min(UNLIMITED - 2),
            Level::A | Level::B => 0,
        }
    }

    /// The cores that a waiting job of level C may take.
    fn offer(&self, task: usize, dirty: &mut CoreSet) {
        let deadline = self.deadline_ns(task);
        (0..self.current.len())
            .filter(|&core| self.room(core) > deadline)
            .for_each(|core| dirty.insert(core));
    }

    /// The task got ready, or its deadline changed.
    fn touch(&self, task: usize, dirty: &mut CoreSet) {
        if self.level[task] == Level::C {
            // The core on which it runs, as a later deadline may cost it the core.
            self.current
                .iter()
                .position(|&c| c == Some(task))
                .into_iter()
                .for_each(|core| dirty.insert(core));
            self.offer(task, dirty);
        } else {
            dirty.insert(self.home[task]);
        }
    }

    fn release(&mut self, task: usize, call: &mut Call<'_>) {
        self.release_at(task, call.now_ns(), call);
    }

    fn release_at(&mut self, task: usize, at_ns: u64, call: &mut Call<'_>) {
        self.policy.release(id(task), at_ns);
        self.jobs[task] += 1;
        self.tell(Kind::LevelRelease, (self.home[task], task), (self.jobs[task], at_ns), call);
        self.touch(task, call.dirty);
    }

    /// Records an event for traces.
    fn tell(
        &self,
        event: Kind,
        (core, task): (usize, usize),
        (a, b): (u64, u64),
        call: &mut Call<'_>,
    ) {
        let cpu = id(core);
        call.observer.scheduled(Event { time_ns: call.now_ns(), cpu, event, id: id(task), a, b });
    }
}

/// Level, core, period and PET.
type Added = (Level, usize, [u64; 2]);

fn add_task(
    policy: &mut Levels,
    index: usize,
    task: &TaskSpec,
    cores: usize,
) -> Result<Added, KernelError> {
    let level =
        task.level.ok_or_else(|| KernelError::task(task, "has no level; name A, B, C or D"))?;
    let core = if level == Level::C { 0 } else { core_of(task, cores)? };
    let place = format!("task `{}`", task.name);
    let period = match (level, task.period_ps().or(task.deadline_ps)) {
        // The order of level C is by deadline, of level B by period.
        (Level::C, Some(period)) => {
            span_ns(task.deadline_ps.unwrap_or(period), &place, "a deadline")?
        }
        (_, Some(period)) => span_ns(period, &place, "a period")?,
        (Level::D, None) => ANY_PERIOD_NS,
        (_, None) => return Err(KernelError::task(task, "has no period; levels A to C need one")),
    };
    let pet = match (level, task.pet_ps) {
        (Level::D, _) => 0,
        (_, Some(pet)) => span_ns(pet, &place, "a PET")?,
        (_, None) => return Err(KernelError::task(task, "has no PET; levels A to C need one")),
    };
    if !policy.add(id(index), level, id(core), period, pet) {
        return Err(KernelError::task(task, "has a period or PET out of range"));
    }
    Ok((level, core, [period, pet]))
}

impl Scheduler for LevelScheduler {
    fn released(
        &mut self,
        task: usize,
        _: JobTimes,
        unfinished: bool,
        call: &mut Call<'_>,
    ) -> Overlap {
        if unfinished && self.level[task] == Level::C {
            if self.state(task) == State::Ready {
                return Overlap::Queue;
            }
            self.told[task] += 1;
        }
        self.release(task, call);
        if unfinished && self.level[task] == Level::A { Overlap::Replace } else { Overlap::Queue }
    }

    fn next_job(&mut self, task: usize, job: JobTimes, call: &mut Call<'_>) {
        if self.level[task] != Level::C {
            call.dirty.insert(self.home[task]);
            return;
        }
        if self.told[task] > 0 {
            self.told[task] -= 1;
            self.touch(task, call.dirty);
            return;
        }
        self.unready(task, call);
        self.release_at(task, (job.deadline_ps / 1000).saturating_sub(self.span_ns[task]), call);
    }

    fn unready(&mut self, task: usize, call: &mut Call<'_>) {
        self.told[task] = 0;
        if self.policy.complete(id(task), call.now_ns()) {
            self.tell(Kind::LevelComplete, (self.home[task], task), (self.jobs[task], 0), call);
        }
        match self.current.iter().position(|&c| c == Some(task)) {
            Some(core) => {
                self.current[core] = None;
                call.dirty.insert(core);
            }
            None => call.dirty.insert(self.home[task]),
        }
    }

    fn woken(&mut self, task: usize, _: JobTimes, call: &mut Call<'_>) {
        self.release(task, call);
    }

    fn pick(&mut self, core: usize, call: &mut Call<'_>) -> Pick {
        let before = self.current[core];
        let overruns = before.map_or(0, |task| self.overruns(task));
        let Some(choice) = self.policy.pick(id(core), call.now_ns()) else {
            return Pick::new(None, UNLIMITED);
        };
        let task = choice.task.map(|task| task as usize);
        if let Some(old) = before.filter(|&old| self.overruns(old) != overruns) {
            self.tell(Kind::LevelOverrun, (core, old), (self.jobs[old], 0), call);
        }
        let level = choice.level.map_or(4, |level| level as u64);
        self.tell(
            Kind::LevelPick,
            (core, task.unwrap_or(usize::MAX)),
            (choice.until_ns, level),
            call,
        );
        self.current[core] = task;
        if let Some(old) = before.filter(|_| before != task) {
            match (self.level[old], self.state(old)) {
                (Level::A, State::Idle) => self.ended.push(old),
                (Level::C, State::Ready) => self.offer(old, call.dirty),
                _ => {}
            }
        }
        Pick::new(task, choice.until_ns)
    }

    fn next_core(&self, dirty: CoreSet) -> Option<usize> {
        dirty.iter().min_by_key(|&core| (std::cmp::Reverse(self.room(core)), core))
    }

    fn take_ended(&mut self, out: &mut Vec<usize>) {
        out.append(&mut self.ended);
    }

    fn described(&self) -> Vec<Event> {
        self.described.clone()
    }

    fn home(&self, task: usize) -> usize {
        self.home[task]
    }
}
