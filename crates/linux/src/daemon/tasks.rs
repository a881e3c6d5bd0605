//! The plan's tasks, started or attached on their cores, as a part.

use super::clients::LockClients;
use super::colours::{Colours, Environments};
use super::isolation::Ways;
use super::part::{Held, Member, Next, Part, Preview, Round, Settings};
use super::probes::Probes;
use super::regulation::Regulating;
use crate::clients::OwnPages;
use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::host::newcomers::each_thread;
use crate::host::resctrl::Groups;
use crate::host::threads::{self, Thread, ThreadChange, What};
use crate::regulate::engine::{Engine, Ranker};
use crate::regulate::liveness::Liveness;
use crate::schedule::isolate::Layout;
use crate::schedule::jobs::Jobs;
use crate::schedule::locker::Locker;
use crate::schedule::placed::{How, Placed, STARTS_IN_ITS_JOBS, Trial};
use crate::schedule::prefetch::Prefetch;
use crate::schedule::task_groups::TaskGroups;
use crate::sys::Scheduling;
use solocore_model::plan::{Answer, Promise, Subject};
use solocore_model::profile::PageName;
use solocore_model::run::RunResult;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// Adds a task to a further group or scheduler, before its first job is released.
pub type Bind = Box<dyn Fn(&str, Member) -> Result<(), LinuxError>>;

/// Locked pages, by task.
type Pages = BTreeMap<String, Vec<PageName>>;

/// The part that starts the tasks.
pub struct Tasks {
    layout: Rc<Layout>,
    settings: Option<Settings>,
    /// Groups of the hardware, and the pages for ways of their own.
    ways: Option<(Held<Groups>, Pages)>,
    /// Frames of the tasks' own, by variables of their programs' environment.
    colours: Option<Environments>,
    bind: Bind,
    /// Whether a scheduler of solocore gives tasks their time.
    scheduled: bool,
    /// Pages of the tasks for which solocore signals, where a program reads them.
    pages: Rc<RefCell<OwnPages>>,
    /// Longest time for which a section of the lock counts, ns; 0: there is no limit.
    max_hold_ns: u64,
    /// Engine that orders tasks, if it can, so that budgets bind them as well.
    engine: Held<Box<dyn Engine>>,
    /// The CPUs that came and went, and the changes of them that it has seen.
    liveness: Option<Rc<RefCell<Liveness>>>,
    changes: u64,
    /// Control groups of the tasks.
    groups: TaskGroups,
    /// Start times of attached processes.
    attached: BTreeMap<u32, u64>,
    probes: Option<Probes>,
    jobs: Option<Jobs>,
    locker: Option<Locker>,
}

impl Tasks {
    /// The part for a layout.
    #[must_use]
    pub fn new(layout: &Rc<Layout>, settings: &Settings) -> Self {
        let bind: Bind = Box::new(|_, _| Ok(()));
        let (layout, settings) = (Rc::clone(layout), Some(settings.clone()));
        Self {
            layout,
            settings,
            ways: None,
            colours: None,
            bind,
            scheduled: false,
            engine: Held::default(),
            liveness: None,
            changes: 0,
            groups: TaskGroups::default(),
            attached: BTreeMap::new(),
            pages: Rc::default(),
            max_hold_ns: 0,
            probes: None,
            jobs: None,
            locker: None,
        }
    }

    /// The same part, in groups of the hardware; locked pages are read into ways of their own.
    #[must_use]
    pub fn in_ways(self, ways: &Ways) -> Self {
        Self { ways: Some((ways.groups(), ways.pages())), ..self }
    }

    /// The same part, with programs on frames of their cores' colours and banks.
    #[must_use]
    pub fn in_colours(self, colours: &Colours) -> Self {
        Self { colours: Some(colours.environments()), ..self }
    }

    /// The same part beside a regulation: in the order of its engine, if that can stop tasks at
    /// their budgets, and in place again once a CPU that was away is back.
    #[must_use]
    pub fn beside(self, regulating: &Regulating) -> Self {
        let (engine, liveness) = (regulating.engine(), Some(regulating.liveness()));
        Self { engine, liveness, ..self }
    }

    /// The same part; jobs are signalled to the regulator of these clients.
    #[must_use]
    pub fn signalled(self, clients: &LockClients) -> Self {
        Self { pages: clients.pages(), max_hold_ns: clients.max_hold_ns(), ..self }
    }

    /// The same part, with a function that binds the tasks.
    #[must_use]
    pub fn bound(self, bind: Bind) -> Self {
        Self { bind, scheduled: true, ..self }
    }

    /// The tasks, in the groups of the hardware if there are any.
    fn placed(&mut self) -> Vec<Placed> {
        let mut placed = self.layout.tasks.clone();
        // A scheduler of VCPUs charges the start of a process to its VCPU.
        placed.iter_mut().for_each(|p| p.starts_early = !self.scheduled);
        if self.engine.borrow().as_ref().is_some_and(|engine| engine.ranks()) {
            placed.iter_mut().for_each(Placed::order_by_rank);
        }
        if let Some(colours) = &self.colours {
            placed.iter_mut().for_each(|p| p.environment = colours.of(&p.name));
        }
        let Some((groups, pages)) = &self.ways else { return placed };
        if let Some(groups) = groups.borrow().as_ref() {
            placed.iter_mut().for_each(|p| p.group = groups.tasks_file(&p.name));
            self.locker =
                Some(Locker::new(&placed, pages, &groups.lock_files(), groups.first_tasks_file()));
        }
        placed
    }
}

impl Tasks {
    /// Locked pages that are read when windows begin.
    fn prefetch(&self) -> Prefetch {
        let in_ways = self.locker.iter().flat_map(Locker::sources);
        in_ways.chain(self.colours.iter().flat_map(Environments::sources)).collect()
    }

    /// Binds the tasks to their cores again, after a CPU went or came back, and every two seconds,
    /// as another program may have bound them elsewhere. Looks at their control groups.
    fn back_in_place(&mut self, round: &mut Round) {
        let changes = self.liveness.as_ref().map_or(0, |l| l.borrow().changes());
        let (due, changed) = (self.groups.is_due(), changes != self.changes);
        let Some(jobs) = self.jobs.as_ref().filter(|_| due || changed) else { return };
        self.changes = changes;
        // The scheduler of VCPUs may let its tasks run on every CPU.
        if changed || !self.scheduled {
            jobs.back_in_place(&self.attached, changed);
        }
        // The kernel gives a group the CPUs that come back a moment later.
        if due && !changed {
            // Both engines keep limits of time (`cpu.max`), the other schedulers do not.
            let limited = !self.scheduled;
            round.messages.extend(self.groups.look(&self.layout.tasks, &jobs.running(), limited));
        }
    }

    /// Reason why a task was not on its core all the time.
    fn left_its_core(&self, task: &str) -> Option<String> {
        if let Some(why) = self.groups.why(task) {
            return Some(why.to_owned());
        }
        let seen = self.jobs.as_ref()?.seen();
        let run = seen.iter().find(|run| run.name == task)?;
        let away =
            self.liveness.as_ref().is_some_and(|l| l.borrow().lapses(run.core).away_ns.is_some());
        (away || run.displaced > 0).then(|| {
            let cause = if away {
                format!("CPU {} was offline, and the kernel let the task run elsewhere", run.core)
            } else {
                "the task itself, another program or the kernel changed its affinity".to_owned()
            };
            format!("{cause}; it was bound to CPU {} again {} times", run.core, run.displaced)
        })
    }

    /// Reason why jobs of a task take more than was profiled: their processes start on frames of
    /// their own.
    fn starts_late(&self, task: &str) -> Option<String> {
        self.colours.as_ref().filter(|colours| colours.has(task))?;
        let late = |p: &Placed| p.starts_in_its_jobs() || self.scheduled && p.may_be_prepared();
        if self.layout.tasks.iter().any(|p| p.name == task && late(p)) {
            return Some(STARTS_IN_ITS_JOBS.to_owned());
        }
        let within = self.colours.as_ref().map_or(0, |colours| colours.within_jobs(task));
        if within > 0 && self.layout.tasks.iter().any(|p| p.name == task && p.may_be_prepared()) {
            return Some(format!(
                "{within} processes or programs started on their frames within jobs, which no \
                    profile has; start the last program directly, or let the program go on from \
                    job to job (docs/functions.md)"
            ));
        }
        let seen = self.jobs.as_ref()?.seen();
        let late = seen.iter().find(|run| run.name == task)?.unprepared;
        (late > 0).then(|| {
            format!(
                "{late} jobs were released before their processes were ready on their frames; give \
                    the task a longer period, or a program that goes on from job to job \
                    (docs/functions.md)"
            )
        })
    }

    /// Reason why a task that holds the lock makes accesses that no job has: as a client it is never
    /// limited.
    fn runs_outside_of_its_jobs(&self, task: &str) -> Option<String> {
        let placed = self.layout.tasks.iter().find(|p| p.name == task && p.probed.holds)?;
        let prepared = self.colours.as_ref().is_some_and(|colours| colours.has(task))
            && placed.may_be_prepared();
        (prepared || placed.goes_on()).then(|| {
            "its program also runs outside of its jobs, and no lock and no budget limits it then; \
                let each job be one run of the command, without --colors, or give --vouch holds"
                .to_owned()
        })
    }

    /// Reason why a partition did not have its windows.
    fn late_windows(&self, partition: &str) -> Option<String> {
        let seen = self.jobs.as_ref()?.windows();
        let seen = seen.iter().find(|w| w.partition == partition)?;
        late(seen.max_start_late_ns.max(seen.max_late_ns), self.layout.margin_ns)
    }

    /// Reason why a task did not hold the lock in each of its calls to the end.
    fn cut_sections(&self, task: &str) -> Option<String> {
        let seen = self.probes.as_ref()?.seen();
        let of_task = seen.iter().filter(|f| f.task == task && f.what == "section");
        let longest_ns = of_task.map(|f| f.longest_ns).max()?;
        (self.max_hold_ns > 0 && longest_ns > self.max_hold_ns).then(|| {
            format!(
                "a call took {:.3} ms, and held the lock for the first {:.3} ms only; give a \
                    longer --max-hold",
                longest_ns as f64 / 1e6,
                self.max_hold_ns as f64 / 1e6
            )
        })
    }

    /// Reason why the locked pages of a partition may not be in the shared cache when its window
    /// begins, although they have ways of their own; `None`: they have none.
    fn not_prefetched(&self, partition: &str) -> Option<String> {
        self.ways.as_ref()?;
        let windows = self.layout.tasks.iter().filter_map(|t| t.window.as_ref());
        let planned = windows.filter(|w| w.partition == partition).map(|w| w.prefetch_ns).max()?;
        let seen = self.jobs.as_ref().map_or_else(Vec::new, Jobs::windows);
        let took = seen.iter().find(|w| w.partition == partition).map_or(0, |w| w.max_prefetch_ns);
        let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
        Some(if took > planned {
            format!(
                "the reads of its locked pages took {}, and the plan counts with {} in each window; \
                    plan with fewer locked pages",
                ms(took),
                ms(planned)
            )
        } else {
            "its locked pages are read when a window begins, but a process that starts inside it has \
                none before, and a line in other ways stays there until it is lost; give --vouch \
                prefetch"
                .to_owned()
        })
    }

    fn ranker(&self) -> Result<Option<Ranker>, LinuxError> {
        self.engine.borrow().as_ref().map_or(Ok(None), |engine| engine.ranker())
    }
}

impl Part for Tasks {
    fn runs(&self, task: &str) -> bool {
        self.layout.tasks.iter().any(|placed| placed.name == task && placed.how != How::NotRun)
    }

    fn check(&mut self) -> Result<(), LinuxError> {
        self.layout.tasks.iter().try_for_each(|task| task.check_attached())
    }

    fn keeps(&self, promise: &Promise) -> Option<Answer> {
        if promise.subject == Subject::Place
            && let Some(why) = self.left_its_core(promise.name())
        {
            return Some(Answer::open(promise, true, why));
        }
        if promise.subject == Subject::Demand
            && let Some(why) = self.starts_late(promise.name())
        {
            return Some(Answer::open(promise, true, why));
        }
        if promise.subject == Subject::Holds
            && let Some(why) = self.runs_outside_of_its_jobs(promise.name())
        {
            return Some(Answer::open(promise, false, why));
        }
        if promise.subject == Subject::Prefetch {
            let why = self.not_prefetched(promise.name());
            return why.map(|why| Answer::open(promise, true, why));
        }
        let answer = self.layout.keeps(promise, self.scheduled);
        if promise.subject == Subject::Sections
            && let Some(why) = self.cut_sections(promise.name())
        {
            return Some(Answer::open(promise, true, why));
        }
        if promise.subject == Subject::Window
            && answer.as_ref().is_some_and(|a| a.kept_by.is_some())
            && let Some(why) = self.late_windows(promise.name())
        {
            return Some(Answer::open(promise, true, why));
        }
        answer
    }

    fn preview(&self, preview: &mut Preview) {
        let runs = self.layout.tasks.iter().filter(|t| t.how != How::NotRun);
        let isolation = preview.isolation();
        isolation.hard_cores.clone_from(&self.layout.hard);
        isolation.irq_cpu = self.layout.irq_cpu;
        isolation.tasks = runs.map(|t| (t.name.clone(), t.core, t.fifo, t.how.word())).collect();
    }

    fn start(&mut self) -> Result<(), LinuxError> {
        let placed = self.placed();
        if let Some(settings) = &self.settings {
            settings.change(|changes| {
                for task in &placed {
                    if let How::Attach(pid) = task.how {
                        self.attached.insert(pid, attach(changes, task, pid)?);
                    }
                }
                if placed.iter().any(|t| t.window.is_some()) {
                    let deaf = |e| {
                        LinuxError::of_io(
                            "the keeper of settings does not answer",
                            &e,
                            "start again",
                        )
                    };
                    changes.stops_jobs().map_err(deaf)?;
                }
                Ok(())
            })?;
        }
        self.probes = Probes::set(&placed, &self.pages.borrow())?;
        let probes = self.probes.as_ref();
        let me = std::process::id();
        let pages = self.pages.borrow();
        let held = |name: &str| placed.iter().any(|p| p.name == name && p.probed.holds);
        let belongs = |name: &str, process: u32, thread: u32| {
            let page = pages.get(name).filter(|_| held(name));
            if let (Some(page), Some(started)) = (page, threads::start_of(process, thread)) {
                page.belongs_to((thread, started))?;
            }
            probes.map_or(Ok(()), |probes| probes.belongs(name, process, thread))
        };
        let ranks = self.ranker()?;
        let rank = |thread: u32, rank: Option<u32>, children_only: bool| match (&ranks, rank) {
            (Some(ranks), Some(rank)) => ranks.rank(thread, rank, children_only),
            _ => Ok(()),
        };
        // A process that is prepared has no rank before its release.
        let inherited = |name: &str| {
            placed.iter().find(|p| p.name == name && !p.is_prepared()).and_then(|p| p.rank)
        };
        let bind = |name: &str, thread: u32| {
            rank(thread, inherited(name), true)?;
            belongs(name, me, thread)?;
            (self.bind)(name, Member::Thread(thread))
        };
        let jobs = Jobs::start(
            &placed,
            self.layout.directory(),
            &self.layout.slots.epoch,
            &bind,
            &self.pages.borrow(),
            &self.prefetch(),
            ranks.as_ref(),
        )?;
        for task in &placed {
            if let How::Attach(pid) = task.how {
                each_thread(pid, |thread| rank(thread.tid, task.rank, false))?;
                belongs(&task.name, pid, pid)?;
                (self.bind)(&task.name, Member::Process(pid))?;
            }
        }
        self.jobs = Some(jobs);
        Ok(())
    }

    /// Binds tasks to cores that are back, reads locked pages, and takes the jobs that probes have
    /// seen.
    fn look(&mut self, round: &mut Round) -> Result<Next, LinuxError> {
        self.back_in_place(round);
        if let (Some(probes), Some(jobs)) = (&self.probes, &self.jobs) {
            probes.ended().into_iter().for_each(|(task, job)| jobs.record(task, job));
        }
        if let (Some(locker), Some(jobs)) = (&mut self.locker, &self.jobs) {
            locker.look(&jobs.running());
        }
        let made = |t: &&Trial| self.jobs.as_ref().is_some_and(|j| j.has_made(&t.task, t.jobs));
        if self.layout.trial.as_ref().filter(made).is_some() {
            return Ok(Next::Done("tasks".to_owned()));
        }
        Ok(Next::GoOn)
    }

    fn notes(&self) -> Vec<String> {
        let of_jobs = self.jobs.as_ref().map_or_else(Vec::new, Jobs::notes);
        self.layout.notes.iter().cloned().chain(of_jobs).collect()
    }

    fn seen(&self, run: &mut RunResult) -> Result<(), LinuxError> {
        let Some(jobs) = &self.jobs else { return Ok(()) };
        (run.drivers, run.tasks) = jobs.seen().into_iter().partition(|t| t.how == "driver");
        run.windows = jobs.windows();
        run.functions = self.probes.as_ref().map_or_else(Vec::new, Probes::seen);
        run.locked_pages.extend(self.locker.iter().flat_map(Locker::runs));
        Ok(())
    }

    fn recorded(&self, run: &mut RunResult) {
        let Some(jobs) = &self.jobs else { return };
        jobs.recorded(run.tasks.iter_mut().chain(&mut run.drivers));
    }

    fn end(&mut self) {
        self.jobs = None;
        self.probes = None;
        self.locker = None;
        // It may hold the settings as well.
        self.bind = Box::new(|_, _| Ok(()));
        self.settings = None;
    }
}

/// Reason against windows that were late by this time, where the plan has this margin for it.
pub(super) fn late(late_ns: u64, margin_ns: u64) -> Option<String> {
    (late_ns > margin_ns).then(|| {
        format!(
            "a window began or ended {:.3} ms late, and the plan's margin for it is {:.3} ms; \
                plan with a larger [margin] processing",
            late_ns as f64 / 1e6,
            margin_ns as f64 / 1e6
        )
    })
}

/// Binds a running process to its task's core, and schedules it. Returns its start time.
fn attach(changes: &mut Changes, task: &Placed, pid: u32) -> Result<u64, LinuxError> {
    let fail = |e: &io::Error| {
        LinuxError::of_io(
            &format!("--attach {}={pid}", task.name),
            e,
            "check that it still runs and may use that CPU",
        )
    };
    let all = threads::to_attach(&task.name, pid)?;
    let start = all.iter().find(|t| t.tid == pid).map_or(0, |t| t.start);
    each_thread(pid, |thread| attach_thread(changes, task, thread)).map_err(|e| fail(&e))?;
    Ok(start)
}

fn attach_thread(changes: &mut Changes, task: &Placed, thread: &Thread) -> io::Result<()> {
    changes.bind(thread, vec![task.core])?;
    // A task with a rank must not escape the engine as a real-time task.
    let wanted = match (task.fifo, task.rank) {
        (Some(priority), _) => Some(Scheduling::fifo_inherited(priority)),
        (None, Some(_)) => Some(Scheduling::ordinary()),
        (None, None) => None,
    };
    if let Some(new) = wanted.map(|s| s.numbers()) {
        let what = What::Scheduling(Scheduling::of(thread.tid)?.numbers(), new);
        changes.change(&ThreadChange { tid: thread.tid, start: thread.start, what })?;
    }
    // The thread leaves when the group is removed.
    let group = |tasks: &PathBuf| std::fs::write(tasks, format!("{}\n", thread.tid));
    task.group.as_ref().map_or(Ok(()), group)
}
