//! The plan's tasks on their cores, and everything else off them.
//!
//! Problem: budgets bound what a core does to memory; who runs on it is up to the kernel, and any program or interrupt may.
//! Rule: a core with an analysed task (level A to C) is hard. Tasks of the plan are started on their cores or attached there
//! (`jobs`, `Wishes`), analysed ones under `SCHED_FIFO` in the order of the plan's priorities. Other programs are kept off the hard cores
//! (`cpuset`), interrupts go to one designated CPU (`irq`). Everything is recorded with the keeper before it is changed, so that it is
//! put back at the end, also after `kill -9`.
//! In a plan with partitions, tasks run in the windows of the time table (`windows`), and drivers move data in its slots (`drivers`,
//! crate::clients::slots).
//! If every core is hard, nobody can be kept off them: other programs stay where they are, below `SCHED_FIFO` and within the
//! budgets, and interrupts go to the core whose analysed tasks use it least.
//! Source: single-core-equivalence, section 2; ARINC 653 and MC2 reserve cores in the same way.
//! Does not cover: kernel threads of a CPU, its timer interrupt, and the time that the kernel itself takes.

use super::drivers;
use super::jobs::{Bind, Jobs, TaskRun};
use super::locker::{LockRun, Locker};
use super::placed::{How, Placed, Wishes, startable};
use super::windows::{self, WindowRun};
use crate::clients::SlotTable;
use crate::error::LinuxError;
use crate::host::cpuset::{Confined, Confiner};
use crate::host::irq::{self, Moved, Places};
use crate::host::keeper::Changes;
use crate::host::resctrl;
use crate::host::threads::{self, ThreadChange, What};
use crate::sys::{self, Scheduling, tasks};
use solocore_model::Plan;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Priority of the most urgent analysed task; the helper engine has 1 and the daemon 2.
const HIGHEST: i32 = 89;
/// Lowest priority of an analysed task.
const LOWEST: i32 = 10;
/// How often newcomers are looked for.
const SWEEP: Duration = Duration::from_secs(2);

/// Who runs where, checked.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Cores with analysed tasks.
    pub hard: Vec<u32>,
    /// The others, for everybody else.
    pub rest: Vec<u32>,
    /// The CPU for interrupts.
    pub irq_cpu: u32,
    /// The plan's tasks, in its order, and drivers.
    pub tasks: Vec<Placed>,
    /// The transfers of its time table.
    pub slots: SlotTable,
    /// For the user.
    pub notes: Vec<String>,
    directory: PathBuf,
    move_irqs: bool,
    confine: bool,
    /// The plan whose shares the hardware is to give.
    by_hardware: Option<Plan>,
}

/// What would be changed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Preview {
    /// Cores with analysed tasks.
    pub hard_cores: Vec<u32>,
    /// The CPU for interrupts.
    pub irq_cpu: u32,
    /// Interrupts that would be moved there, if they let.
    pub irqs: Vec<u32>,
    /// Others that would be kept off the hard cores.
    pub confine: Option<Confined>,
    /// Tasks that would be started or attached: name, core, priority, how.
    pub tasks: Vec<(String, u32, Option<i32>, &'static str)>,
}

impl Layout {
    /// Checks plan and wishes.
    ///
    /// # Errors
    /// [`LinuxError::Input`]: a wish names what the plan or the machine lacks.
    pub fn new(plan: &Plan, wishes: &Wishes) -> Result<Self, LinuxError> {
        let cores: Vec<u32> = plan.cores.iter().map(|c| c.id).collect();
        let analysed: BTreeSet<u32> = plan.tasks.iter().filter(|t| !t.best_effort()).map(|t| t.core).collect();
        let (hard, rest): (Vec<u32>, Vec<u32>) = cores.iter().partition(|c| analysed.contains(c));
        let least_used = || plan.cores.iter().min_by(|a, b| a.utilization.total_cmp(&b.utilization)).map(|c| c.id);
        let irq_cpu = match wishes.irq_cpu {
            Some(cpu) if !cores.contains(&cpu) => {
                return Err(LinuxError::Input(format!(
                    "--irq-cpu {cpu}: the plan has cores 0 to {}; name one of them",
                    cores.len().saturating_sub(1)
                )));
            }
            Some(cpu) => cpu,
            None => rest.first().copied().or_else(least_used).unwrap_or(0),
        };
        let slots = SlotTable::of(plan);
        let tasks = place(plan, wishes, &slots, irq_cpu)?;
        let mut layout = Self {
            hard,
            rest,
            irq_cpu,
            tasks,
            slots,
            notes: Vec::new(),
            directory: wishes.directory.clone(),
            move_irqs: wishes.move_irqs,
            confine: wishes.confine,
            by_hardware: wishes.resctrl.then(|| plan.clone()),
        };
        if wishes.resctrl {
            resctrl::look(plan)?;
        }
        layout.notes = layout.first_notes(plan);
        Ok(layout)
    }

    /// Where commands run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn first_notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = Vec::new();
        if self.confine && self.rest.is_empty() {
            notes.push("every core has analysed tasks, so other programs are not kept off them".to_owned());
        }
        let budgets: BTreeSet<Option<u64>> = plan.cores.iter().map(|c| c.budget_accesses).collect();
        let runs = |t: &Placed| t.how != How::NotRun;
        if budgets.len() > 1 && self.tasks.iter().any(|t| t.fifo.is_some() && runs(t)) {
            notes.push(
                "tasks under SCHED_FIFO pass by their budgets; with uneven budgets the other cores' bounds rest on these: see CAVEATS.md, or give --no-fifo"
                    .to_owned(),
            );
        }
        if self.by_hardware.is_none() {
            notes.push("shares of cache and banks are not applied (`solocore doctor` says what this CPU can, --resctrl does it)".to_owned());
        }
        if plan.windows().is_some() {
            notes.push(
                "windows of partitions are kept for tasks that solocore starts, and no pages are prefetched".to_owned(),
            );
        }
        notes.extend(drivers::note(&self.slots));
        let idle: Vec<&str> = self.tasks.iter().filter(|t| !runs(t)).map(|t| t.name.as_str()).collect();
        if !idle.is_empty() {
            notes.push(format!(
                "tasks that solocore neither starts nor binds (--start, --attach NAME=PID): {}",
                idle.join(", ")
            ));
        }
        notes
    }

    /// Hard cores that interrupts are moved off.
    fn off(&self) -> Vec<u32> {
        self.hard.iter().copied().filter(|&c| c != self.irq_cpu).collect()
    }

    fn confiner(&self) -> Option<Confiner> {
        let attached = self.tasks.iter().filter_map(|t| if let How::Attach(pid) = t.how { Some(pid) } else { None });
        (self.confine && !self.hard.is_empty() && !self.rest.is_empty()).then(|| Confiner::new(&self.rest, attached))
    }

    /// What would be changed; changes nothing.
    pub fn preview(&self) -> Preview {
        let confine = self.confiner().map(|mut c| {
            c.preview();
            c.confined
        });
        let runs = self.tasks.iter().filter(|t| t.how != How::NotRun);
        Preview {
            hard_cores: self.hard.clone(),
            irq_cpu: self.irq_cpu,
            irqs: if self.move_irqs { irq::that_reach(&Places::default(), &self.off()) } else { Vec::new() },
            confine,
            tasks: runs.map(|t| (t.name.clone(), t.core, t.fifo, t.how.word())).collect(),
        }
    }

    /// Changes it, until the result is dropped.
    ///
    /// # Errors
    /// A task cannot be started or attached; then everything is put back.
    pub fn apply(&self) -> Result<Isolation, LinuxError> {
        self.apply_bound(&|_, _| Ok(()))
    }

    /// As [`Self::apply`]; `bind` is called with the name of each started task and the number of the thread whose scheduling its jobs
    /// inherit, before the first job is released.
    ///
    /// # Errors
    /// As there, and those of `bind`.
    pub fn apply_bound(&self, bind: &Bind<'_>) -> Result<Isolation, LinuxError> {
        let mut changes = Changes::begin()?;
        let mut notes = self.notes.clone();
        let (mut groups, mut locker) = (None, None);
        let mut placed = self.tasks.clone();
        if let Some(plan) = &self.by_hardware {
            let (given, more) = resctrl::give(plan, &mut changes)?;
            notes.extend(more);
            placed.iter_mut().for_each(|p| p.group = given.tasks_file(&p.name));
            let pages = plan.tasks.iter().map(|t| (t.name.clone(), t.locked_pages.clone())).collect();
            locker = Some(Locker::new(&placed, &pages, &given.lock_files(), given.first_tasks_file()));
            groups = Some(given);
        }
        let moved = self.move_irqs.then(|| {
            let work = if self.rest.is_empty() { vec![self.irq_cpu] } else { self.rest.clone() };
            irq::move_off(&mut changes, &Places::default(), &self.off(), self.irq_cpu, &work)
        });
        let mut confiner = self.confiner();
        if let Some(confiner) = &mut confiner {
            confiner.begin(&mut changes);
            // The daemon itself has no business on a hard core either; its helpers bind themselves.
            let _ = bind_me(&mut changes, &self.rest);
        }
        for task in &placed {
            if let How::Attach(pid) = task.how {
                attach(&mut changes, task, pid)?;
            }
        }
        if self.tasks.iter().any(|t| t.window.is_some()) {
            changes
                .stops_jobs()
                .map_err(|e| LinuxError::of_io("the keeper of settings does not listen", &e, "start again"))?;
        }
        let jobs = Jobs::start(&placed, &self.directory, &self.slots.epoch, bind)?;
        Ok(Isolation { jobs, locker, confiner, moved, groups, notes, swept: Instant::now(), changes })
    }
}

/// The plan's tasks with what was wished of them.
fn place(plan: &Plan, wishes: &Wishes, slots: &SlotTable, irq_cpu: u32) -> Result<Vec<Placed>, LinuxError> {
    let named =
        wishes.commands.iter().map(|(n, _)| ("--command", n)).chain(wishes.attach.iter().map(|(n, _)| ("--attach", n)));
    let mut seen = BTreeSet::new();
    for (option, name) in named {
        let is_slot = slots.slots.iter().any(|s| s.name == *name);
        if is_slot && option == "--attach" {
            return Err(LinuxError::Input(format!(
                "--attach {name}=...: a driver attaches by itself (sc_attach_slot); give --command {name}=COMMAND to start one"
            )));
        }
        if !is_slot && !plan.tasks.iter().any(|t| t.name == *name) {
            let slots = slots.slots.iter().map(|s| s.name.as_str());
            let all: Vec<&str> = plan.tasks.iter().map(|t| t.name.as_str()).chain(slots).collect();
            return Err(LinuxError::Input(format!(
                "{option} {name}=...: the plan has no such task; it has {}",
                all.join(", ")
            )));
        }
        if !seen.insert(name) {
            return Err(LinuxError::Input(format!("{option}: task `{name}` is named twice; name it once")));
        }
    }
    let find = |t: &solocore_model::plan::PlanTask| -> Result<How, LinuxError> {
        if let Some((_, pid)) = wishes.attach.iter().find(|(n, _)| *n == t.name) {
            return Ok(How::Attach(*pid));
        }
        let own = wishes.commands.iter().find(|(n, _)| *n == t.name).map(|(_, c)| c.clone());
        let planned = t.command.clone().filter(|_| wishes.start);
        own.or(planned).map_or(Ok(How::NotRun), |c| startable(&t.name, c, &wishes.directory).map(How::Start))
    };
    let mut placed = Vec::new();
    for t in &plan.tasks {
        placed.push(Placed {
            name: t.name.clone(),
            core: t.core,
            fifo: if wishes.fifo && !t.best_effort() { Some(priority(plan, t)?) } else { None },
            period_ns: t.period_ns,
            deadline_ns: t.deadline_ns,
            window: windows::of(plan, t),
            how: find(t)?,
            group: None,
        });
    }
    placed.extend(drivers::place(plan, slots, wishes, irq_cpu)?);
    if let Some(p) = placed.iter().find(|p| p.window.is_some() && matches!(p.how, How::Attach(_))) {
        return Err(LinuxError::Input(format!(
            "--attach {}=...: the windows of a partition are kept for tasks that solocore starts; give --command {}=COMMAND",
            p.name, p.name
        )));
    }
    if wishes.start && !placed.iter().any(|p| p.how.command().is_some()) {
        return Err(LinuxError::Input(
            "--start: no task of the plan has a command; give them with --command NAME=COMMAND".to_owned(),
        ));
    }
    Ok(placed)
}

/// The priorities of a core's analysed tasks follow each other without gaps, from the most urgent down.
fn priority(plan: &Plan, task: &solocore_model::plan::PlanTask) -> Result<i32, LinuxError> {
    let above: BTreeSet<u32> = plan
        .tasks
        .iter()
        .filter(|t| t.core == task.core && !t.best_effort() && t.priority < task.priority)
        .map(|t| t.priority)
        .collect();
    let rank = i32::try_from(above.len()).unwrap_or(i32::MAX);
    if rank > HIGHEST - LOWEST {
        return Err(LinuxError::Input(format!(
            "core {} has more than {} priorities of analysed tasks; give --no-fifo",
            task.core,
            HIGHEST - LOWEST + 1
        )));
    }
    Ok(HIGHEST - rank)
}

fn bind_me(changes: &mut Changes, cpus: &[u32]) -> std::io::Result<()> {
    let me = std::process::id();
    let old = tasks::affinity_of(me)?;
    let threads = threads::all(Path::new("/proc"), Some(me));
    let start = threads.iter().find(|t| t.tid == me).map_or(0, |t| t.start);
    changes.change(&ThreadChange { tid: me, start, what: What::Cpus(old, cpus.to_vec()) })
}

/// Binds a running process to its task's core, and schedules it.
fn attach(changes: &mut Changes, task: &Placed, pid: u32) -> Result<(), LinuxError> {
    let fail = |e: &std::io::Error| {
        LinuxError::of_io(&format!("--attach {}={pid}", task.name), e, "is it still running, and may it use that CPU?")
    };
    let all = threads::all(Path::new("/proc"), Some(pid));
    if all.is_empty() || all.iter().any(|t| t.kernel) {
        return Err(LinuxError::Input(format!(
            "--attach {}={pid}: there is no such process, or it is the kernel's; give the number of a running program",
            task.name
        )));
    }
    for thread in all {
        let change = |what| ThreadChange { tid: thread.tid, start: thread.start, what };
        let old = tasks::affinity_of(thread.tid).map_err(|e| fail(&e))?;
        changes.change(&change(What::Cpus(old, vec![task.core]))).map_err(|e| fail(&e))?;
        if let Some(priority) = task.fifo {
            let old = Scheduling::of(thread.tid).map_err(|e| fail(&e))?.numbers();
            let new = Scheduling::fifo_inherited(priority).numbers();
            changes.change(&change(What::Scheduling(old, new))).map_err(|e| fail(&e))?;
        }
        if let Some(tasks) = &task.group {
            // It leaves when the group is removed.
            std::fs::write(tasks, format!("{}\n", thread.tid)).map_err(|e| fail(&e))?;
        }
    }
    Ok(())
}

/// Tasks in their places and others off them, until this is dropped.
pub struct Isolation {
    // Dropped in this order: first the tasks end, then all is put back.
    jobs: Jobs,
    locker: Option<Locker>,
    confiner: Option<Confiner>,
    moved: Option<Moved>,
    groups: Option<resctrl::Groups>,
    notes: Vec<String>,
    swept: Instant,
    changes: Changes,
}

impl Isolation {
    /// Reads locked pages; looks for newcomers, every two seconds.
    pub fn look(&mut self) {
        if let Some(locker) = &mut self.locker {
            locker.look(&self.jobs.running());
        }
        if self.swept.elapsed() < SWEEP {
            return;
        }
        self.swept = Instant::now();
        if let Some(confiner) = &mut self.confiner {
            confiner.sweep(&mut self.changes);
        }
    }

    /// What was seen of the plan's tasks.
    pub fn tasks(&self) -> Vec<TaskRun> {
        self.jobs.seen()
    }

    /// What was seen of partitions' windows.
    pub fn windows(&self) -> Vec<WindowRun> {
        self.jobs.windows()
    }

    /// Others that were kept off.
    pub fn confined(&self) -> Option<&Confined> {
        self.confiner.as_ref().map(|c| &c.confined)
    }

    /// What was seen of locked pages.
    pub fn locked(&self) -> Vec<LockRun> {
        self.locker.as_ref().map_or_else(Vec::new, Locker::runs)
    }

    /// What the hardware's groups hold and transfer.
    pub fn groups(&self) -> Vec<resctrl::GroupRun> {
        self.groups.as_ref().map_or_else(Vec::new, resctrl::Groups::runs)
    }

    /// Interrupts that were moved.
    pub fn moved(&self) -> Option<&Moved> {
        self.moved.as_ref()
    }

    /// What the user should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if let Some(moved) = &self.moved {
            notes.extend(moved.notes.iter().cloned());
            if !moved.refused.is_empty() {
                let which: Vec<String> = moved.refused.iter().map(|(irq, _)| irq.to_string()).collect();
                notes.push(format!("interrupts that cannot be moved: {} ({})", which.join(", "), moved.refused[0].1));
            }
        }
        if let Some(bound) = self.confined().map(|c| &c.bound).filter(|b| !b.is_empty()) {
            notes.push(format!(
                "threads that somebody bound to cores of analysed tasks, and that stay there: {}{}",
                bound.iter().take(8).map(u32::to_string).collect::<Vec<_>>().join(", "),
                if bound.len() > 8 { format!(" and {} more", bound.len() - 8) } else { String::new() }
            ));
        }
        notes.extend(self.jobs.notes());
        notes
    }
}

/// `CLOCK_MONOTONIC`, in which jobs are recorded.
pub fn now_ns() -> u64 {
    sys::tasks::monotonic_ns()
}
