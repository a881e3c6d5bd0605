//! The plan's tasks on their cores, and all other programs off them.
//!
//! Problem: budgets bound the accesses of a core; the kernel decides which programs run on it, and
//! any program or interrupt may.
//! Rule: a core with an analysed task (level A to C) is hard. Tasks of the plan are started on
//! their cores or attached there (`jobs`, `Wishes`), analysed ones under `SCHED_FIFO` in the order
//! of the plan's priorities. Other programs are kept off the hard cores (`cpuset`), interrupts go
//! to one designated CPU (`irq`). Everything is recorded with the keeper before it is changed, so
//! that it is put back at the end, also after `kill -9`.
//! In a plan with partitions, tasks run in the windows of the time table (`windows`), and drivers
//! move data in its slots (`drivers`, crate::clients::slots).
//! If every core is hard, no program can be kept off: other programs stay on their CPUs, below
//! `SCHED_FIFO` and within the budgets, and interrupts go to the core whose analysed tasks use it
//! least.
//! Source: single-core-equivalence, section 2; ARINC 653 and MC2 reserve cores in the same way.
//! Does not cover: kernel threads of a CPU, its timer interrupt, and the time that the kernel
//! itself takes.

use super::drivers;
use super::placed::{HIGHEST, How, Placed, Probed, ProbedJobs, Trial, Wishes, account, startable};
use super::programs::Compared;
use super::windows;
use crate::clients::{SilentTask, SlotTable};
use crate::error::LinuxError;
use crate::host::cpuset::Confiner;
use solocore_model::Plan;
use solocore_model::plan::{Answer, Promise, Subject};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Lowest priority of an analysed task.
const LOWEST: i32 = 10;

/// The place of each task, checked.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Cores with analysed tasks.
    pub hard: Vec<u32>,
    /// The other cores, for all other programs.
    pub rest: Vec<u32>,
    /// The CPU for interrupts.
    pub irq_cpu: u32,
    /// The plan's tasks, in its order, and drivers.
    pub tasks: Vec<Placed>,
    /// The transfers of its time table.
    pub slots: SlotTable,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Measurement of one task only.
    pub(crate) trial: Option<Trial>,
    /// Time that a window may be late: the plan's margin at the end of each.
    pub(crate) margin_ns: u64,
    /// Programs of profiled tasks, compared with their profiles.
    programs: Vec<Compared>,
    directory: PathBuf,
    confine: bool,
    /// Whether the hardware gives shares.
    by_hardware: bool,
}

impl Layout {
    /// Checks plan and wishes.
    ///
    /// # Errors
    /// [`LinuxError::Input`]: a wish names something that the plan or the machine lacks.
    pub fn new(plan: &Plan, wishes: &Wishes) -> Result<Self, LinuxError> {
        let cores: Vec<u32> = plan.cores.iter().map(|c| c.id).collect();
        let analysed: BTreeSet<u32> =
            plan.tasks.iter().filter(|t| !t.best_effort()).map(|t| t.core).collect();
        let (hard, rest): (Vec<u32>, Vec<u32>) = cores.iter().partition(|c| analysed.contains(c));
        let least_used = || {
            plan.cores.iter().min_by(|a, b| a.utilization.total_cmp(&b.utilization)).map(|c| c.id)
        };
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
            slots,
            notes: Vec::new(),
            trial: wishes.trial.clone(),
            programs: compared(plan, &tasks),
            tasks,
            margin_ns: plan.windows().map_or(0, |w| w.margin.processing_ns),
            directory: wishes.directory.clone(),
            confine: wishes.confine,
            by_hardware: wishes.resctrl,
        };
        layout.notes = layout.first_notes(plan);
        Ok(layout)
    }

    /// Working directory of commands.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Answer of tasks in their places to a plan's promise; `scheduled`: a scheduler of solocore
    /// gives them their time.
    pub(crate) fn keeps(&self, promise: &Promise, scheduled: bool) -> Option<Answer> {
        let kept = |checked, why: &str| Some(Answer::kept(promise, "tasks", checked, why));
        let open = |why: &str| Some(Answer::open(promise, false, why));
        let runs = |t: &&Placed| t.how != How::NotRun;
        let left_out =
            |name: &str| self.trial.iter().flat_map(|t| &t.left_out).any(|left| left == name);
        let of_task = matches!(
            promise.subject,
            Subject::Place | Subject::Releases | Subject::Jobs | Subject::Sections | Subject::Holds
        );
        if of_task && left_out(promise.name()) {
            return kept(true, "the task does not run in this trial");
        }
        let task = self.tasks.iter().filter(runs).find(|t| t.name == promise.name());
        match (promise.subject, task) {
            (Subject::Place, Some(task)) if task.fifo.is_none() && !scheduled => open(
                "it runs as an ordinary program (--no-fifo), so others there delay it; drop \
                    --no-fifo",
            ),
            (Subject::Place, Some(_)) => kept(false, "bound to its core, above other programs"),
            (Subject::Jobs, Some(task)) if task.goes_on() => match &task.probed.jobs {
                Some(ProbedJobs::Calls(f)) => {
                    kept(true, &format!("calls of `{}` are its jobs (probes)", f.name))
                }
                _ => kept(true, "its wakeups are its jobs (probes)"),
            },
            (Subject::Sections, Some(task)) if !task.probed.sections.is_empty() => {
                kept(true, "probes see the calls, and the task holds the lock in them")
            }
            (Subject::Holds, Some(task)) if task.probed.holds => {
                kept(true, "solocore holds the lock for its program while that runs")
            }
            (Subject::Releases, Some(task))
                if matches!(task.how, How::Start(_)) && !task.goes_on() =>
            {
                kept(true, "solocore releases its jobs")
            }
            (Subject::Jobs, Some(Placed { how: How::Start(_), .. })) => {
                kept(true, "solocore signals its processes' begin and end")
            }
            (Subject::Releases, Some(_)) => open(
                "its program keeps its own period; have solocore start each job (job = \
                        \"process\"), or give --vouch releases",
            ),
            (Subject::Demand, _) => self.keeps_demand(promise),
            (Subject::Window, _) => self.keeps_window(promise, &left_out),
            (Subject::Transfer, Some(Placed { how: How::Drive(_), .. })) => {
                kept(true, "solocore starts its driver")
            }
            _ => None,
        }
    }

    /// A profiled demand is that of the program that was profiled.
    pub(crate) fn keeps_demand(&self, promise: &Promise) -> Option<Answer> {
        self.programs.iter().find(|p| p.task == promise.name()).map(|p| p.answer(promise))
    }

    /// The core of a partition's windows.
    pub(crate) fn core_of(&self, partition: &str) -> Option<u32> {
        let of = |t: &&Placed| t.window.as_ref().is_some_and(|w| w.partition == partition);
        self.tasks.iter().find(of).map(|t| t.core)
    }

    /// Windows are kept by stopping the jobs that were started in them. A task that solocore did
    /// not start is not stopped, so it may run in any window of its core.
    fn keeps_window(&self, promise: &Promise, left_out: &dyn Fn(&str) -> bool) -> Option<Answer> {
        let core = self.core_of(promise.name())?;
        let in_windows = || self.tasks.iter().filter(|t| t.window.is_some() && t.core == core);
        let its = |t: &&Placed| t.window.as_ref().is_some_and(|w| w.partition == promise.name());
        in_windows().filter(its).find(|t| t.how != How::NotRun)?;
        let loose = in_windows().find(|t| t.how == How::NotRun && !left_out(&t.name));
        Some(match loose {
            Some(task) => Answer::open(
                promise,
                true,
                format!(
                    "task `{}` of core {core} is not started, so the run could not stop it \
                    outside of its windows; give --start or --command {}=COMMAND",
                    task.name, task.name
                ),
            ),
            None => Answer::kept(
                promise,
                "tasks",
                true,
                "its programs are stopped outside of its windows",
            ),
        })
    }

    fn first_notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes = Vec::new();
        if self.confine && self.rest.is_empty() {
            notes.push("every core has analysed tasks, so other programs are not moved".to_owned());
        }
        let runs = |t: &Placed| t.how != How::NotRun;
        if !self.by_hardware {
            notes.push(
                "the hardware does not divide the cache and its bandwidth (`solocore doctor` says \
                    what this CPU can do, --resctrl applies it)"
                    .to_owned(),
            );
        }
        if plan.windows().is_some() {
            notes.push(
                "windows of partitions are kept for tasks that solocore starts; locked pages are \
                    read when a window begins, if --colors or --resctrl gives them a place"
                    .to_owned(),
            );
        }
        notes.extend(drivers::note(&self.slots));
        let idle: Vec<&str> =
            self.tasks.iter().filter(|t| !runs(t)).map(|t| t.name.as_str()).collect();
        if !idle.is_empty() {
            notes.push(format!(
                "tasks that solocore neither starts nor binds (--start, --attach NAME=PID): {}",
                idle.join(", ")
            ));
        }
        notes
    }

    /// Tasks for which solocore signals jobs or sections of the lock, where the plan's policy has
    /// any.
    #[must_use]
    pub fn silent(&self, jobs: bool, locks: bool) -> Vec<SilentTask> {
        let locking = |t: &Placed| locks && t.probed.locks();
        let signalled = |t: &Placed| jobs && (matches!(t.how, How::Start(_)) || t.goes_on());
        self.tasks
            .iter()
            .filter(|t| locking(t) || signalled(t))
            .map(|t| SilentTask {
                name: t.name.clone(),
                locks: locking(t),
                holds: locks && t.probed.holds,
            })
            .collect()
    }

    /// Whether analysed tasks run at real-time priorities, above every task that budgets stop by
    /// themselves.
    #[must_use]
    pub fn has_fifo(&self) -> bool {
        self.tasks.iter().any(|t| t.fifo.is_some() && t.how != How::NotRun)
    }

    /// Hard cores that lose their interrupts.
    pub(crate) fn off(&self) -> Vec<u32> {
        self.hard.iter().copied().filter(|&c| c != self.irq_cpu).collect()
    }

    /// The part that keeps other programs off the hard cores, if any.
    pub(crate) fn confiner(&self) -> Option<Confiner> {
        let attached = self
            .tasks
            .iter()
            .filter_map(|t| if let How::Attach(pid) = t.how { Some(pid) } else { None });
        (self.confine && !self.hard.is_empty() && !self.rest.is_empty())
            .then(|| Confiner::new(&self.rest, attached))
    }
}

/// Programs of profiled tasks, compared with their profiles.
fn compared(plan: &Plan, placed: &[Placed]) -> Vec<Compared> {
    let how = |name: &str| placed.iter().find(|p| p.name == name).map(|p| &p.how);
    plan.tasks.iter().filter_map(|t| Compared::of(t, how(&t.name)?)).collect()
}

/// The plan's tasks with the user's wishes.
fn place(
    plan: &Plan,
    wishes: &Wishes,
    slots: &SlotTable,
    irq_cpu: u32,
) -> Result<Vec<Placed>, LinuxError> {
    let named = wishes
        .commands
        .iter()
        .map(|(n, _)| ("--command", n))
        .chain(wishes.attach.iter().map(|(n, _)| ("--attach", n)));
    let mut seen = BTreeSet::new();
    for (option, name) in named {
        let is_slot = slots.slots.iter().any(|s| s.name == *name);
        if is_slot && option == "--attach" {
            return Err(LinuxError::Input(format!(
                "--attach {name}=...: a driver attaches by itself (sc_attach_slot); give --command \
                    {name}=COMMAND to start one"
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
            return Err(LinuxError::Input(format!(
                "{option}: task `{name}` is named twice; name it once"
            )));
        }
    }
    let find = |t: &solocore_model::plan::PlanTask| -> Result<How, LinuxError> {
        if let Some((_, pid)) = wishes.attach.iter().find(|(n, _)| *n == t.name) {
            return Ok(How::Attach(*pid));
        }
        let own = wishes.commands.iter().find(|(n, _)| *n == t.name).map(|(_, c)| c.clone());
        let left_out = wishes.trial.iter().any(|trial| trial.left_out.contains(&t.name));
        if left_out {
            return Ok(How::NotRun);
        }
        let planned = t.command.clone().filter(|_| wishes.start);
        own.or(planned)
            .map_or(Ok(How::NotRun), |c| startable(&t.name, c, &wishes.directory).map(How::Start))
    };
    let mut placed = Vec::new();
    for t in &plan.tasks {
        let how = find(t)?;
        placed.push(Placed {
            fifo: if wishes.fifo && !t.best_effort() { Some(priority(plan, t)?) } else { None },
            period_ns: t.period_ns,
            rest_ns: wishes.trial.as_ref().filter(|r| r.task == t.name).map(|r| r.rest_ns),
            deadline_ns: t.deadline_ns,
            window: windows::of(plan, t),
            quiet: wishes.trial.is_some(),
            probed: Probed::of(t, &how, plan.regulation.lock_reaction_ns.is_some())?,
            account: account(t, &how)?,
            touched_pages: t.touched_pages.unwrap_or(0),
            ..Placed::new(&t.name, t.core, how)
        });
    }
    placed.extend(drivers::place(plan, slots, wishes, irq_cpu)?);
    if let Some(p) = placed.iter().find(|p| p.window.is_some() && matches!(p.how, How::Attach(_))) {
        return Err(LinuxError::Input(format!(
            "--attach {}=...: the windows of a partition are kept for tasks that solocore starts; \
                give --command {}=COMMAND",
            p.name, p.name
        )));
    }
    if wishes.start && !placed.iter().any(|p| p.how.command().is_some()) {
        return Err(LinuxError::Input(
            "--start: no task of the plan has a command; give them with --command NAME=COMMAND"
                .to_owned(),
        ));
    }
    Ok(placed)
}

/// Priority of an analysed task. Those of a core follow each other without gaps, from the most
/// urgent down.
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
            "core {} has more than {} priorities of analysed tasks; run the plan with --no-fifo",
            task.core,
            HIGHEST - LOWEST + 1
        )));
    }
    Ok(HIGHEST - rank)
}
