//! A scheduler of levels or windows, with the programs that are its tasks, as a part.
//!
//! Rule: the scheduler is removed first at the end, so that every throttled client runs and sees
//! the request to end. A program that goes on (`job = "wakeup"` or a function) is started once; for
//! the scheduler a job of it ends where all its threads sleep, and probes report its jobs.

use super::colours::{Colours, Environments};
use super::decisions::Decisions;
use super::isolation::Ways;
use super::part::{Held, LevelPreview, Next, Part, Preview, Round, TablePreview, Traces};
use super::probes::Probes;
use super::tasks::late;
use crate::clients::OwnPages;
use crate::error::LinuxError;
use crate::host::machine;
use crate::host::newcomers::each_thread;
use crate::host::resctrl::Groups;
use crate::schedule::isolate::Layout as Places;
use crate::schedule::jobs::Jobs;
use crate::schedule::levels::{Layout, LayoutTask, Scheduler, Table};
use crate::schedule::placed::{How, Placed, STARTS_IN_ITS_JOBS};
use crate::schedule::prefetch::Prefetch;
use crate::schedule::task_groups::TaskGroups;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::run::{RunLevelCpu, RunLevelTask, RunLevels, RunResult, RunTask};
use std::rc::Rc;

/// The part that runs a scheduler of levels or windows.
pub struct Levels {
    layout: Layout,
    places: Rc<Places>,
    /// The plan's tasks, with the ways in which they are started.
    placed: Vec<Placed>,
    traced: bool,
    /// Groups of the hardware, once they exist.
    groups: Held<Groups>,
    /// Frames of the tasks' own, by variables of their programs' environment.
    colours: Option<Environments>,
    scheduler: Held<Scheduler>,
    probes: Option<Probes>,
    jobs: Option<Jobs>,
    task_groups: TaskGroups,
    decisions: Option<Decisions>,
}

impl Levels {
    /// The part for a layout; `places` tells the ways in which tasks are started.
    #[must_use]
    pub fn new(layout: Layout, places: &Rc<Places>, traced: bool) -> Self {
        // The scheduler decides the time and the core of each job; it also keeps the releases.
        let free = |p: &Placed| Placed {
            free: true,
            fifo: None,
            period_ns: None,
            deadline_ns: None,
            window: None,
            ..p.clone()
        };
        let placed = places.tasks.iter().map(free).collect();
        let scheduler = Held::default();
        Self {
            layout,
            places: Rc::clone(places),
            placed,
            traced,
            groups: Held::default(),
            colours: None,
            scheduler,
            probes: None,
            jobs: None,
            task_groups: TaskGroups::default(),
            decisions: None,
        }
    }

    /// The same part, in groups of the hardware.
    #[must_use]
    pub fn in_ways(self, ways: &Ways) -> Self {
        Self { groups: ways.groups(), ..self }
    }

    /// The same part, with programs on frames of their tasks.
    #[must_use]
    pub fn in_colours(self, colours: &Colours) -> Self {
        Self { colours: Some(colours.environments()), ..self }
    }

    /// The scheduler, while it is there.
    #[must_use]
    pub fn scheduler(&self) -> Held<Scheduler> {
        Held::clone(&self.scheduler)
    }

    /// Whether the start of a process, on frames of its own, falls into each job of a task.
    fn starts_in_its_jobs(&self, name: &str) -> bool {
        let of = |p: &Placed| p.name == name && p.starts_in_its_jobs();
        self.colours.is_some() && self.placed.iter().any(of)
    }

    fn how(&self, name: &str) -> &'static str {
        self.placed.iter().find(|p| p.name == name).map_or("not run", |p| p.how.word())
    }

    /// Whether the jobs of a task are processes that are started before their release.
    fn waits_for_release(&self, task: &RunTask) -> bool {
        let waits = |p: &Placed| {
            p.name == task.name
                && p.period_ns.is_some()
                && p.how.command().is_some()
                && !p.goes_on()
        };
        self.places.tasks.iter().any(waits)
    }

    /// Starts programs and attaches processes.
    fn begin(&mut self, scheduler: &Scheduler) -> Result<Jobs, LinuxError> {
        let index = |name: &str| self.layout.tasks.iter().position(|t| t.name == name);
        for placed in &self.placed {
            if let (How::Attach(process), Some(task)) = (&placed.how, index(&placed.name)) {
                scheduler.attach(task, *process)?;
            }
        }
        // Tasks without a level are not started.
        let known = |p: &&Placed| index(&p.name).is_some() || p.how.command().is_none();
        let mut placed: Vec<Placed> = self.placed.iter().filter(known).cloned().collect();
        if let Some(groups) = self.groups.borrow().as_ref() {
            placed.iter_mut().for_each(|p| p.group = groups.tasks_file(&p.name));
            self.join(groups)?;
        }
        if let Some(colours) = &self.colours {
            placed.iter_mut().for_each(|p| p.environment = colours.of(&p.name));
        }
        let probes = Probes::set(&placed, &OwnPages::new())?;
        let belongs = |name: &str, process: u32, thread: u32| {
            probes.as_ref().map_or(Ok(()), |probes| probes.belongs(name, process, thread))
        };
        let me = std::process::id();
        let claim = |name: &str, thread: u32| {
            belongs(name, me, thread)?;
            index(name).map_or(Ok(()), |task| scheduler.claim(task, thread, true))
        };
        let jobs = Jobs::start(
            &placed,
            self.places.directory(),
            &self.places.slots.epoch,
            &claim,
            &OwnPages::new(),
            &Prefetch::default(),
            None,
        )?;
        for placed in &placed {
            if let How::Attach(process) = placed.how {
                belongs(&placed.name, process, process)?;
            }
        }
        self.probes = probes;
        Ok(jobs)
    }

    /// Attached processes join their groups; started programs inherit them.
    fn join(&self, groups: &Groups) -> Result<(), LinuxError> {
        for placed in &self.placed {
            let (How::Attach(process), Some(file)) = (&placed.how, groups.tasks_file(&placed.name))
            else {
                continue;
            };
            each_thread(*process, |thread| {
                std::fs::write(&file, format!("{}\n", thread.tid)).map_err(|e| {
                    LinuxError::of_io(&file.display().to_string(), &e, "is it still running?")
                })
            })?;
        }
        Ok(())
    }

    /// Reason why a core's tasks did not have their time.
    fn disturbed(&self, promise: &Promise) -> Option<String> {
        let core = match promise.subject {
            Subject::Window => self.places.core_of(promise.name())?,
            _ => promise.core()?,
        };
        let scheduler = self.scheduler.borrow();
        let scheduler = scheduler.as_ref()?;
        let cpus = scheduler.cpus().ok()?;
        let seen = cpus.iter().find(|c| c.cpu == core)?;
        disturbed(promise.subject, seen, self.places.margin_ns)
    }

    /// Whether real-time threads beside it are seen.
    fn sees_all(&self) -> bool {
        self.scheduler.borrow().as_ref().is_none_or(Scheduler::sees_intruders)
    }

    fn what(&self) -> &'static str {
        if self.layout.windows() { "windows of partitions" } else { "criticality levels" }
    }
}

/// Reason against a promise to the tasks of a CPU, from the observations there.
fn disturbed(subject: Subject, seen: &RunLevelCpu, margin_ns: u64) -> Option<String> {
    let lost = &seen.lost;
    let lost_ns = match subject {
        Subject::Slots => lost.a_ns,
        Subject::Window => lost.window_ns,
        _ => lost.b_ns.saturating_add(lost.c_ns),
    };
    if lost_ns > 0 {
        return Some(format!(
            "real-time threads of other programs took {:.3} ms of its time on CPU {}; keep them \
                off it, or make them ordinary threads",
            lost_ns as f64 / 1e6,
            seen.cpu
        ));
    }
    let late_ns = if subject == Subject::Window { seen.max_timer_late_ns } else { 0 };
    late(late_ns, margin_ns)
}

impl Part for Levels {
    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        let by = "levels";
        match promise.subject {
            Subject::Slots | Subject::Levels | Subject::Window => {
                Some(match self.disturbed(promise) {
                    Some(why) => Answer::open(promise, true, why),
                    None => {
                        let why = "the scheduler runs jobs by the plan's levels, slots and windows";
                        Answer::kept(promise, by, self.sees_all(), why)
                    }
                })
            }
            Subject::Demand if self.starts_in_its_jobs(promise.name()) => {
                Some(Answer::open(promise, true, STARTS_IN_ITS_JOBS.to_owned()))
            }
            Subject::Demand => self.places.keeps_demand(promise),
            Subject::Place if self.task_groups.why(promise.name()).is_some() => {
                let why = self.task_groups.why(promise.name()).unwrap_or_default();
                Some(Answer::open(promise, true, why))
            }
            Subject::Place | Subject::Releases if self.how(promise.name()) != "not run" => {
                Some(Answer::kept(promise, by, true, "the scheduler places and releases it"))
            }
            _ => None,
        }
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        machine::check_sched_ext()?;
        self.placed.iter().try_for_each(Placed::check_attached)
    }

    fn preview(&self, preview: &mut Preview) {
        let task = |t: &LayoutTask| LevelPreview {
            task: t.name.clone(),
            level: t.level.name(),
            core: t.core,
            period_ns: t.period_ns,
            pet_ns: t.pet_ns,
            how: self.how(&t.name),
        };
        preview.levels = Some(self.layout.tasks.iter().map(task).collect());
        let table =
            |t: &Table| TablePreview { core: t.core, slots: t.slots.len(), frame_ns: t.frame_ns };
        preview.tables = self.layout.tables.iter().map(table).collect();
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let scheduler = Scheduler::start(&self.layout, self.traced)?;
        let about = [("scheduler", "levels".to_owned())];
        let begin = || Decisions::begin(&about, scheduler.cpus as usize, scheduler.first_events());
        self.decisions = self.traced.then(begin);
        self.jobs = Some(self.begin(&scheduler)?);
        *self.scheduler.borrow_mut() = Some(scheduler);
        Ok(())
    }

    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        if let Some(scheduler) = self.scheduler.borrow().as_ref() {
            scheduler.check()?;
            if let Some(decisions) = &mut self.decisions {
                decisions.add(scheduler.events());
            }
        }
        if let (Some(probes), Some(jobs)) = (&self.probes, &self.jobs) {
            probes.ended().into_iter().for_each(|(task, job)| jobs.record(task, job));
        }
        if let Some(jobs) = self.jobs.as_ref().filter(|_| self.task_groups.is_due()) {
            round.messages.extend(self.task_groups.look(&self.placed, &jobs.running(), false));
        }
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        let idle = |name: &&str| self.how(name) == "not run";
        let idle: Vec<&str> =
            self.layout.tasks.iter().map(|t| t.name.as_str()).filter(idle).collect();
        let idle = (!idle.is_empty()).then(|| {
            format!(
                "tasks that solocore neither starts nor attaches (--start, --command, --attach): \
                    {}",
                idle.join(", ")
            )
        });
        let of_scheduler =
            self.scheduler.borrow().as_ref().map_or_else(Vec::new, |s| s.notes().to_vec());
        let of_jobs = self.jobs.as_ref().map_or_else(Vec::new, Jobs::notes);
        idle.into_iter().chain(of_scheduler).chain(of_jobs).collect()
    }

    fn about(&self) -> Option<String> {
        let (tasks, cores) = (self.layout.tasks.len(), self.layout.cores);
        Some(format!("scheduling {tasks} tasks on {cores} CPUs by {}", self.what()))
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let (scheduler, Some(jobs)) = (self.scheduler.borrow(), &self.jobs) else { return Ok(()) };
        let Some(scheduler) = scheduler.as_ref() else { return Ok(()) };
        let mut tasks = scheduler.tasks()?;
        tasks.iter_mut().for_each(|task| self.how(&task.name).clone_into(&mut task.how));
        let of_plan = |t: &RunTask| {
            self.places.tasks.iter().any(|p| p.name == t.name && !matches!(p.how, How::Drive(_)))
        };
        run.tasks = jobs.seen().into_iter().filter(of_plan).collect();
        for task in run.tasks.iter_mut().filter(|t| self.waits_for_release(t)) {
            if let Some(seen) = tasks.iter().find(|t| t.name == task.name) {
                timed(task, seen);
            }
        }
        let events_lost = self.decisions.as_ref().map(|d| d.lost);
        run.levels = Some(RunLevels {
            tasks,
            cpus: scheduler.cpus()?,
            intruders: scheduler.intruders(),
            events_lost,
        });
        run.functions = self.probes.as_ref().map_or_else(Vec::new, Probes::seen);
        Ok(())
    }

    fn recorded(&self, run: &mut RunResult) {
        let Some(jobs) = &self.jobs else { return };
        // Of the others, what is recorded are times of processes.
        jobs.recorded(run.tasks.iter_mut().filter(|t| !self.waits_for_release(t)));
    }

    fn traced(&mut self, traces: &mut Traces) {
        if let Some(decisions) = self.decisions.take() {
            decisions.hand_over(traces);
        }
    }

    fn end(&mut self) {
        self.scheduler.borrow_mut().take();
        self.jobs = None;
        self.probes = None;
    }
}

/// Takes the times of jobs from the scheduler. A process is started as soon as the one before has
/// ended, and waits for its release; so only the scheduler knows when the job was released.
fn timed(task: &mut RunTask, seen: &RunLevelTask) {
    task.max_response_ns = seen.max_response_ns;
    task.mean_response_ns = seen.mean_response_ns;
    task.misses_deadline = seen.late;
    task.latest.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use solocore_model::run::{RunJob, RunLost};

    #[test]
    fn times_of_jobs_are_those_of_the_scheduler() {
        let process =
            RunTask { jobs: 9, max_response_ns: 131, max_cpu_ns: 7, ..RunTask::default() };
        let seen = RunLevelTask {
            jobs: 10,
            late: 1,
            max_response_ns: 8,
            mean_response_ns: 6,
            ..RunLevelTask::default()
        };
        let job = RunJob { release_ns: 1, start_ns: 1, end_ns: 132 };
        let mut task = RunTask { latest: vec![job], ..process.clone() };
        timed(&mut task, &seen);
        let times =
            RunTask { max_response_ns: 8, mean_response_ns: 6, misses_deadline: 1, ..process };
        assert_eq!(task, times, "what its process tells stays");
    }

    #[test]
    fn lost_time_and_late_windows_break_promises() {
        let seen = |lost| RunLevelCpu { cpu: 2, lost, ..RunLevelCpu::default() };
        let subjects = [Subject::Slots, Subject::Levels, Subject::Window];
        let whom = |lost: RunLost| subjects.map(|s| disturbed(s, &seen(lost.clone()), 0).is_some());
        assert_eq!(whom(RunLost { a_ns: 1, ..RunLost::default() }), [true, false, false]);
        assert_eq!(whom(RunLost { b_ns: 1, ..RunLost::default() }), [false, true, false]);
        assert_eq!(whom(RunLost { c_ns: 1, ..RunLost::default() }), [false, true, false]);
        assert_eq!(whom(RunLost { window_ns: 1, ..RunLost::default() }), [false, false, true]);
        let harmless = RunLost { d_ns: 9, idle_ns: 9, ..RunLost::default() };
        assert_eq!(whom(harmless), [false, false, false], "no bound rests on level D's time");
        let late = RunLevelCpu { max_timer_late_ns: 2_000_000, ..RunLevelCpu::default() };
        let of = |margin| subjects.map(|s| disturbed(s, &late, margin));
        assert_eq!(of(2_000_000), [None, None, None]);
        let [None, None, Some(why)] = of(1_999_999) else { panic!("{:?}", of(1_999_999)) };
        assert!(why.contains("2.000 ms late") && why.contains("[margin]"), "{why}");
    }
}
