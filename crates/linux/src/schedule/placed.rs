//! A task of a plan in its place: the user's wishes, and the way in which it is started.

use super::coloured::Environment;
use super::windows::Window;
use crate::clients::functions::Function;
use crate::error::LinuxError;
use crate::host::threads;
use crate::sys::accounts::Account;
use solocore_model::plan::PlanTask;
use solocore_model::system::Job;
use std::path::{Path, PathBuf};

/// Priority of the most urgent analysed task. The threads of the helper engine have 1 or 92, the
/// daemon has one more.
pub(super) const HIGHEST: i32 = 89;
/// Reason against the demand of a task that [`Placed::starts_in_its_jobs`].
pub(crate) const STARTS_IN_ITS_JOBS: &str = "each job is a process that starts on frames of its own \
    when it is released, which no profile has; let its program go on (docs/functions.md), or give \
    --vouch demand";

/// The user's wishes beside budgets.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Whether to start the plan's commands.
    pub start: bool,
    /// Commands in place of the plan's, by task; drivers, by transfer of the time table.
    pub commands: Vec<(String, Vec<String>)>,
    /// Processes that are tasks of the plan.
    pub attach: Vec<(String, u32)>,
    /// Working directory of commands.
    pub directory: PathBuf,
    /// Whether analysed tasks run under `SCHED_FIFO`.
    pub fifo: bool,
    /// Whether to keep others off the hard cores.
    pub confine: bool,
    /// The CPU for interrupts; `None`: solocore chooses it.
    pub irq_cpu: Option<u32>,
    /// Whether the hardware is to give shares of cache and bandwidth.
    pub resctrl: bool,
    /// Measurement of one task only.
    pub trial: Option<Trial>,
}

/// A measurement of one task's jobs, one by one (`solocore verify`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Name of the task.
    pub task: String,
    /// Number of jobs after which the measurement ends.
    pub jobs: u64,
    /// Shortest time from the end of a job to the release of the next, ns; the longest is twice
    /// this time. So releases come at all phases of a regulation period.
    pub rest_ns: u64,
    /// Tasks that do not run meanwhile.
    pub left_out: Vec<String>,
}

/// The way in which a task of the plan is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// solocore starts it with this command.
    Start(Vec<String>),
    /// solocore starts this driver of the time table with this command.
    Drive(Vec<String>),
    /// It runs already, as this process.
    Attach(u32),
    /// solocore neither starts nor attaches it.
    NotRun,
}

impl How {
    /// Word for people and files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => "started",
            Self::Drive(_) => "driver",
            Self::Attach(_) => "attached",
            Self::NotRun => "not run",
        }
    }

    /// The command that solocore starts.
    pub(crate) fn command(&self) -> Option<&[String]> {
        match self {
            Self::Start(command) | Self::Drive(command) => Some(command),
            Self::Attach(_) | Self::NotRun => None,
        }
    }
}

/// Sources for the jobs and sections of an unmodified program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// The events that are its jobs; `None`: runs of its command.
    pub jobs: Option<ProbedJobs>,
    /// Functions whose calls hold the bandwidth lock.
    pub sections: Vec<Function>,
    /// Whether the whole program holds it while it runs.
    pub holds: bool,
}

/// Jobs of a program that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbedJobs {
    /// Times from waking up to going to sleep.
    Wakeups,
    /// Calls of a function.
    Calls(Function),
}

impl Probed {
    /// The probes that the plan asks for, for a task that is started in this way; `held`: analysed
    /// tasks hold the lock while they run.
    ///
    /// # Errors
    /// Its program has no such function.
    pub(super) fn of(task: &PlanTask, how: &How, held: bool) -> Result<Self, LinuxError> {
        let file = match how {
            How::Start(command) => PathBuf::from(command.first().cloned().unwrap_or_default()),
            How::Attach(pid) => PathBuf::from(format!("/proc/{pid}/exe")),
            How::Drive(_) | How::NotRun => return Ok(Self::default()),
        };
        let find = |name: &String| {
            Function::find(&file, name).map_err(|e| e.of(&format!("task `{}`", task.name)))
        };
        let jobs = match &task.program.job {
            Job::Process => None,
            Job::Wakeup => Some(ProbedJobs::Wakeups),
            Job::Function(name) => Some(ProbedJobs::Calls(find(name)?)),
        };
        let sections = task.program.lock.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self { jobs, sections, holds: held && !task.best_effort() })
    }

    /// Whether there is anything to watch.
    pub fn any(&self) -> bool {
        self.jobs.is_some() || !self.sections.is_empty()
    }

    /// Whether solocore holds the bandwidth lock for it.
    pub fn locks(&self) -> bool {
        self.holds || !self.sections.is_empty()
    }
}

/// User of a task's program, if the plan names one.
pub(super) fn account(task: &PlanTask, how: &How) -> Result<Option<Account>, LinuxError> {
    let Some(name) = task.program.user.as_ref().filter(|_| matches!(how, How::Start(_))) else {
        return Ok(None);
    };
    Account::named(name).map(Some).ok_or_else(|| {
        LinuxError::Input(format!(
            "task `{}`: there is no user `{name}`; make one (adduser --system {name}), or remove \
                user from the system file",
            task.name
        ))
    })
}

/// A task of the plan in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Its core.
    pub core: u32,
    /// Priority under `SCHED_FIFO`; none: an ordinary task.
    pub fifo: Option<i32>,
    /// Rank inside the sched_ext engine, 1 first; none: an ordinary task there.
    pub rank: Option<u32>,
    /// Time between releases; `None`: jobs follow each other directly.
    pub period_ns: Option<u64>,
    /// Rest between jobs in place of a period: `Trial::rest_ns`.
    pub rest_ns: Option<u64>,
    /// Relative deadline.
    pub deadline_ns: Option<u64>,
    /// The windows of its partition.
    pub window: Option<Window>,
    /// The way in which it is started.
    pub how: How,
    /// File for its threads, if the hardware gives it ways of its own.
    pub group: Option<PathBuf>,
    /// Whether a scheduler of solocore decides its core and times: it is bound to no core.
    pub free: bool,
    /// Sources for the jobs and sections of its program.
    pub probed: Probed,
    /// Whether its output is discarded.
    pub quiet: bool,
    /// Variables of its program's environment, beside those of solocore.
    pub environment: Environment,
    /// User of its program; `None`: that of solocore.
    pub account: Option<Account>,
    /// Pages that a job touches, for which frames are to be there at its release.
    pub touched_pages: u64,
    /// Whether a start before the release takes nothing from its jobs. It does in a VCPU, whose
    /// capacity the start uses up.
    pub starts_early: bool,
}

impl Placed {
    /// An ordinary task in its place: everything that a plan or a user may state is left out.
    pub(super) fn new(name: &str, core: u32, how: How) -> Self {
        Self {
            name: name.to_owned(),
            core,
            fifo: None,
            rank: None,
            period_ns: None,
            rest_ns: None,
            deadline_ns: None,
            window: None,
            how,
            group: None,
            free: false,
            probed: Probed::default(),
            quiet: false,
            environment: Vec::new(),
            account: None,
            touched_pages: 0,
            starts_early: true,
        }
    }

    /// Whether its program goes on, so that its end is not that of a job.
    pub(crate) fn goes_on(&self) -> bool {
        self.probed.jobs.is_some()
    }

    /// Whether the process of each job is started before its release, because it starts on frames
    /// of its own (`jobs/prepared.rs`).
    pub(crate) fn is_prepared(&self) -> bool {
        self.may_be_prepared() && !self.environment.is_empty()
    }

    /// The same, if it starts on frames of its own.
    pub(crate) fn may_be_prepared(&self) -> bool {
        self.is_run_for_each_job() && !self.starts_in_its_jobs()
    }

    /// Whether the start of a process, on frames of its own, would fall into each of its jobs:
    /// nothing starts it before.
    pub(crate) fn starts_in_its_jobs(&self) -> bool {
        let late = self.window.is_some() || self.free || !self.starts_early;
        self.is_run_for_each_job() && late
    }

    fn is_run_for_each_job(&self) -> bool {
        let timed = self.free || self.period_ns.is_some() || self.rest_ns.is_some();
        matches!(self.how, How::Start(_)) && timed && !self.goes_on()
    }

    /// Checks that the process is there, if it is one that runs already.
    ///
    /// # Errors
    /// There is no such process, or it is one of the kernel.
    pub(crate) fn check_attached(&self) -> Result<(), LinuxError> {
        let How::Attach(pid) = self.how else { return Ok(()) };
        threads::to_attach(&self.name, pid).map(drop)
    }

    /// Orders it by rank inside the engine, in place of `SCHED_FIFO`, which no budget would stop.
    /// Drivers stay real-time.
    pub(crate) fn order_by_rank(&mut self) {
        if !matches!(self.how, How::Drive(_))
            && let Some(fifo) = self.fifo.take()
        {
            self.rank = u32::try_from(HIGHEST - fifo + 1).ok();
        }
    }
}

/// The windows of a core, each partition once.
pub(super) fn windows_on_core<'a>(
    placed: impl Iterator<Item = &'a Placed>,
    core: u32,
) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for window in placed.filter(|p| p.core == core).filter_map(|p| p.window.as_ref()) {
        if !windows.contains(window) {
            windows.push(window.clone());
        }
    }
    windows
}

/// The command, if its program exists. A relative path starts at the directory; a plain name is
/// looked up in PATH.
pub(super) fn startable(
    task: &str,
    mut command: Vec<String>,
    directory: &Path,
) -> Result<Vec<String>, LinuxError> {
    let wrong = |what: String| LinuxError::Input(format!("task `{task}`: {what}"));
    let Some(program) = command.first().filter(|p| !p.is_empty()).cloned() else {
        return Err(wrong("its command is empty; give --command NAME=COMMAND".to_owned()));
    };
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![directory.join(&program)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|dir| dir.join(&program)).collect()
    };
    let Some(found) =
        candidates.iter().find(|c| c.is_file()).and_then(|c| std::path::absolute(c).ok())
    else {
        return Err(wrong(format!(
            "there is no program `{program}` (from {}); give its place with --directory or \
            --command {task}=COMMAND",
            directory.display()
        )));
    };
    command[0] = found.display().to_string();
    Ok(command)
}
