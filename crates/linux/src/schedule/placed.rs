//! A task of a plan in its place: what the user wants of it, and how it comes to run.

use super::windows::Window;
use crate::clients::functions::Function;
use crate::error::LinuxError;
use crate::sys::accounts::Account;
use solocore_model::plan::PlanTask;
use solocore_model::system::Job;
use std::path::{Path, PathBuf};

/// Priority of the most urgent analysed task; of the helper engine's threads one has 1 or 92, the
/// daemon one more.
pub(super) const HIGHEST: i32 = 89;

/// What the user wants beside budgets.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Start the plan's commands.
    pub start: bool,
    /// Commands in place of the plan's, by task; drivers, by transfer of the time table.
    pub commands: Vec<(String, Vec<String>)>,
    /// Processes that are tasks of the plan.
    pub attach: Vec<(String, u32)>,
    /// Where commands run.
    pub directory: PathBuf,
    /// Analysed tasks under `SCHED_FIFO`?
    pub fifo: bool,
    /// Keep others off the hard cores?
    pub confine: bool,
    /// The CPU for interrupts, if not the one chosen here.
    pub irq_cpu: Option<u32>,
    /// Give shares of cache and bandwidth by the hardware?
    pub resctrl: bool,
    /// Only this task is measured.
    pub trial: Option<Trial>,
}

/// A measurement of one task's jobs, one by one (`solocore verify`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The task.
    pub task: String,
    /// Number of jobs after which it ends.
    pub jobs: u64,
    /// From the end of a job to the release of the next at least, at most twice that: releases come
    /// at all phases of a regulation period.
    pub rest_ns: u64,
    /// Tasks that do not run meanwhile.
    pub left_out: Vec<String>,
}

/// How a task of the plan comes to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// By this command.
    Start(Vec<String>),
    /// A driver of the time table, by this command.
    Drive(Vec<String>),
    /// It runs already, as this process.
    Attach(u32),
    /// It does not, as far as solocore is concerned.
    NotRun,
}

impl How {
    /// For people and files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Start(_) => "started",
            Self::Drive(_) => "driver",
            Self::Attach(_) => "attached",
            Self::NotRun => "not run",
        }
    }

    /// What solocore starts.
    pub(crate) fn command(&self) -> Option<&[String]> {
        match self {
            Self::Start(command) | Self::Drive(command) => Some(command),
            Self::Attach(_) | Self::NotRun => None,
        }
    }
}

/// How it is known when jobs and sections of a program begin that says nothing of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// What its jobs are; none: runs of its command.
    pub jobs: Option<ProbedJobs>,
    /// Functions whose calls hold the bandwidth lock.
    pub sections: Vec<Function>,
}

/// Jobs of a program that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbedJobs {
    /// From waking to going to sleep.
    Wakeups,
    /// Calls of a function.
    Calls(Function),
}

impl Probed {
    /// What the plan says of a task that comes to run like this.
    ///
    /// # Errors
    /// Its program has no such function.
    pub(super) fn of(task: &PlanTask, how: &How) -> Result<Self, LinuxError> {
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
        Ok(Self { jobs, sections })
    }

    /// Is there anything to watch?
    pub fn any(&self) -> bool {
        self.jobs.is_some() || !self.sections.is_empty()
    }
}

/// As whom a task's program is started, if the plan says.
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
    /// Time between releases; none: back to back.
    pub period_ns: Option<u64>,
    /// In place of a period: `Trial::rest_ns`.
    pub rest_ns: Option<u64>,
    /// Relative deadline.
    pub deadline_ns: Option<u64>,
    /// The windows of its partition.
    pub window: Option<Window>,
    /// How it comes to run.
    pub how: How,
    /// Where its threads are written, if the hardware gives it ways of its own.
    pub group: Option<PathBuf>,
    /// A scheduler of solocore decides where and when it runs: it is bound to no core.
    pub free: bool,
    /// How jobs and sections of its program are known.
    pub probed: Probed,
    /// Is what it prints thrown away?
    pub quiet: bool,
    /// As whom it is started; none: as solocore.
    pub account: Option<Account>,
}

impl Placed {
    /// Does its program go on, so that its end is not that of a job?
    pub(crate) fn goes_on(&self) -> bool {
        self.probed.jobs.is_some()
    }

    /// Not under `SCHED_FIFO`, which passes by every budget, but in the same order inside the
    /// engine. Drivers stay real-time.
    pub(crate) fn order_by_rank(&mut self) {
        if !matches!(self.how, How::Drive(_))
            && let Some(fifo) = self.fifo.take()
        {
            self.rank = u32::try_from(HIGHEST - fifo + 1).ok();
        }
    }
}

/// The command, if its program is there: a relative path is one from the directory, a plain name is
/// looked for in PATH.
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
            "there is no program `{program}` (from {}); say where it is with --directory or \
                --command {task}=COMMAND",
            directory.display()
        )));
    };
    command[0] = found.display().to_string();
    Ok(command)
}
