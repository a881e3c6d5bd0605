//! Trials: a number of jobs of one task, by the daemon that runs plans.

use super::opponents::Opponents;
use crate::args::RunArgs;
use crate::args::verify::VerifyArgs;
use crate::commands::enemies::{Enemies, Weapon};
use crate::commands::{isolation, run};
use crate::fail::Failure;
use crate::progress::stopped;
use solocore_linux::daemon::{Daemon, Settings, Tasks, Word};
use solocore_linux::schedule::placed::Trial;
use solocore_model::plan::{Answer, PlanTask};
use solocore_model::run::{RunResult, RunTask};
use solocore_model::{Plan, Times};
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

/// The enforced part of a plan, and the disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The task runs alone, with nothing enforced.
    Alone,
    /// Enemies run, with nothing enforced.
    Unmanaged,
    /// Enemies run, and the plan is enforced.
    Enforced,
}

impl Case {
    /// Name of the case for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Unmanaged => "unmanaged",
            Self::Enforced => "with the plan enforced",
        }
    }
}

/// A job that takes longer than this multiple of its expected time ends its trial.
const PATIENCE: u64 = 50;
/// Time beside the jobs: for the start of programs and engines.
const START: Duration = Duration::from_secs(20);

/// Trials of a plan.
pub struct Trials<'a> {
    plan: &'a Plan,
    args: RunArgs,
    open: Vec<Answer>,
    broken: Vec<String>,
    stands_in: bool,
}

impl<'a> Trials<'a> {
    /// Trials of a plan; the options are those of `solocore run`.
    pub fn new(args: &VerifyArgs, plan: &'a Plan) -> Result<Self, Failure> {
        let mut words: Vec<OsString> = vec!["run".into(), args.plan.clone().into()];
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--event", args.event.clone().into());
        args.sample.iter().for_each(|n| option("--sample", n.to_string().into()));
        args.vouched.iter().for_each(|v| option("--vouch", v.into()));
        args.commands.iter().for_each(|c| option("--command", c.into()));
        args.directory.iter().for_each(|d| option("--directory", d.into()));
        let map = args.map.iter().filter(|_| args.colors);
        map.for_each(|map| option("--map", map.into()));
        let flags =
            [("--partial", args.partial), ("--resctrl", args.resctrl), ("--colors", args.colors)];
        words.extend(flags.iter().filter(|f| f.1).map(|f| f.0.into()));
        let mut of_run = RunArgs::of(&words)?;
        of_run.engine = args.engine;
        of_run.scheduling.scheduler = args.scheduler;
        of_run.isolation.start = true;
        Ok(Self { plan, args: of_run, open: Vec::new(), broken: Vec::new(), stands_in: false })
    }

    /// Open promises, and those that were broken, in all trials so far.
    pub fn promises(&self) -> (Vec<Answer>, Vec<String>) {
        (self.open.clone(), self.broken.clone())
    }

    /// Whether another event is the substitute for accesses.
    pub const fn stands_in(&self) -> bool {
        self.stands_in
    }

    /// Times of a number of jobs of a task, from release to end.
    ///
    /// # Errors
    /// The machine cannot do it; the program fails, or takes far too long; or the user stopped it.
    pub fn run(
        &mut self,
        task: &PlanTask,
        opponents: &Opponents,
        (case, weapon, cpus): (Case, Option<Weapon<'_>>, &[u32]),
        jobs: u64,
    ) -> Result<Times, Failure> {
        let enforced = case == Case::Enforced;
        let mut left_out = opponents.left_out.clone();
        if !enforced {
            left_out.extend(opponents.beside.iter().cloned());
        }
        // Enemies begin together with the first job, which is not counted then.
        let first = u64::from(weapon.is_some());
        self.set(task, jobs + first, left_out);
        let mut daemon = if enforced { self.enforced()? } else { self.bare()? };
        let expected = task.c_sce_ns.max(task.wcet_ns).saturating_mul(PATIENCE);
        let rest_ns = self.plan.regulation.period_ns;
        let each = Duration::from_nanos(expected.saturating_add(2 * rest_ns));
        let jobs_limit = u32::try_from(jobs).unwrap_or(u32::MAX);
        daemon.duration = Some(START.saturating_add(each.saturating_mul(jobs_limit)));
        let run = ran(daemon, weapon.map(|weapon| (weapon, cpus)))?;
        if enforced {
            self.note(&run);
        }
        times(&run.tasks, &task.name, case, (first, jobs))
    }

    /// Runs all tasks as planned, for this time.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn together(
        &mut self,
        enemies: Option<(Weapon<'_>, &[u32])>,
        duration: Duration,
    ) -> Result<RunResult, Failure> {
        self.args.isolation.trial = None;
        let mut daemon = self.enforced()?;
        daemon.duration = Some(duration);
        let run = ran(daemon, enemies)?;
        self.note(&run);
        Ok(run)
    }

    /// Refuses what would only be refused after hours of other trials: promises of the plan that
    /// nobody keeps in the trials of this task, or without one, with all tasks at once.
    ///
    /// # Errors
    /// The reason for which a run with the plan enforced would not begin.
    pub fn check(&mut self, one: Option<(&PlanTask, &Opponents)>) -> Result<(), Failure> {
        self.args.isolation.trial = None;
        if let Some((task, opponents)) = one {
            self.set(task, 1, opponents.left_out.clone());
        }
        let (_, refused) = self.enforced()?.preview();
        refused.map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// The next run is a trial of this task.
    fn set(&mut self, task: &PlanTask, jobs: u64, left_out: Vec<String>) {
        let rest_ns = self.plan.regulation.period_ns;
        let trial = Trial { task: task.name.clone(), jobs, rest_ns, left_out };
        self.args.isolation.trial = Some(trial);
    }

    /// A run with the plan enforced.
    fn enforced(&self) -> Result<Daemon, Failure> {
        run::prepared(&self.args, self.plan.clone())
    }

    /// A run of the task alone, as an ordinary program.
    fn bare(&self) -> Result<Daemon, Failure> {
        let layout = isolation::layout_with(
            &self.args.isolation,
            self.plan,
            &self.args.plan,
            (false, false),
        )?;
        let mut daemon = Daemon::default();
        daemon.add(Tasks::new(&Rc::new(layout), &Settings::default()));
        Ok(daemon)
    }

    fn note(&mut self, run: &RunResult) {
        for answer in run.promises.iter().filter(|a| a.kept_by.is_none()) {
            if !self.open.iter().any(|a| a.promise.id == answer.promise.id) {
                self.open.push(answer.clone());
            }
        }
        for id in &run.broken {
            if !self.broken.contains(id) {
                self.broken.push(id.clone());
            }
        }
        self.stands_in |= run.regulation.as_ref().is_some_and(|r| r.stands_in);
    }
}

/// The result of a daemon, beside enemies on these CPUs.
fn ran(mut daemon: Daemon, enemies: Option<(Weapon<'_>, &[u32])>) -> Result<RunResult, Failure> {
    if let Some((weapon, cpus)) = enemies {
        let mut enemies = Enemies::start(cpus, weapon)?;
        enemies.rest()?;
        daemon.add(enemies);
    }
    let outcome = daemon.run(&stopped, &|word| {
        if let Word::Message(message) = word {
            eprintln!("solocore: {message}");
        }
    })?;
    if stopped() {
        return Err(Failure::Interrupted);
    }
    match outcome.lost {
        Some(lost) => Err(lost.into()),
        None => Ok(outcome.run),
    }
}

/// Refuses a task with failed jobs; `how`: the case of its run.
pub fn succeeded(name: &str, failed: u64, how: &str) -> Result<(), Failure> {
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Input(format!(
            "task `{name}`: {failed} of its jobs failed ({how}); their messages are above; \
            correct the program, because only jobs that succeed are measured"
        ))),
    }
}

/// Times of the jobs after the first `first` ones.
fn times(
    tasks: &[RunTask],
    name: &str,
    case: Case,
    (first, jobs): (u64, u64),
) -> Result<Times, Failure> {
    let seen = tasks.iter().find(|t| t.name == name);
    let times: Vec<u64> = seen.map_or_else(Vec::new, |t| {
        t.latest.iter().map(|j| j.end_ns.saturating_sub(j.release_ns)).collect()
    });
    succeeded(name, seen.map_or(0, |t| t.failed), case.words())?;
    let counted: Vec<u64> = times
        .iter()
        .copied()
        .skip(usize::try_from(first).unwrap_or(0))
        .take(usize::try_from(jobs).unwrap_or(usize::MAX))
        .collect();
    if (counted.len() as u64) < jobs {
        return Err(Failure::Machine(format!(
            "task `{name}`, {}: {} of {jobs} jobs ended, and the next took more than {PATIENCE} \
                times its promise; see `solocore run` with the same plan",
            case.words(),
            counted.len()
        )));
    }
    Ok(Times::of(counted))
}
