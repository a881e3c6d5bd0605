//! The parts of a run, and the values that they share.

use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::regulate::history::Period;
use crate::regulate::regulation::CoreBudget;
use serde::Serialize;
use solocore_model::Plan;
use solocore_model::plan::{Answer, PlanVcpu, Promise};
use solocore_model::run::{RunConfined, RunOtherBudget, RunOtherJobBudget, RunResult, RunScheme};
use solocore_model::sched_trace::SchedTrace;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A part of a run. The default of each method does nothing.
pub trait Part {
    /// Checks that the part can start on this machine. Changes nothing.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn check(&mut self) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Adds the changes that it would make to a preview. Changes nothing.
    fn preview(&self, _preview: &mut Preview) {}

    /// Whether it keeps this promise of the plan; before the start: whether it would. `None`: the
    /// promise does not concern it.
    fn keeps(&self, _promise: &Promise) -> Option<Answer> {
        None
    }

    /// Paths of the sockets that it opens. They are removed when the daemon is killed as well.
    fn sockets(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Starts it.
    ///
    /// # Errors
    /// The machine refuses it; nothing of the part is left behind then.
    fn start(&mut self) -> Result<(), LinuxError>;

    /// Called when all parts have started and the plan's tasks are about to be released. Promises
    /// to the tasks count from now on.
    fn begun(&mut self) {}

    /// Called each round: checks that the part still works, and reports events.
    ///
    /// # Errors
    /// The part cannot go on.
    fn look(&mut self, _round: &mut Round) -> Result<Next, LinuxError> {
        Ok(Next::GoOn)
    }

    /// The longest time between two rounds.
    fn every(&self) -> Duration {
        Duration::from_millis(50)
    }

    /// Notes for the user, before and after the start.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its present activity, on one line, where that is worth a line.
    fn about(&self) -> Option<String> {
        None
    }

    /// Adds its counts so far to the result.
    ///
    /// # Errors
    /// The kernel refuses to be read.
    fn seen(&self, _run: &mut RunResult) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Completes the result at the end of the run with the whole record; `seen` shows a part of it.
    fn recorded(&self, _run: &mut RunResult) {}

    /// Whether it starts or binds this task of the plan.
    fn runs(&self, _task: &str) -> bool {
        false
    }

    /// Whether it gives cores the ways of the shared cache.
    fn divides(&self) -> bool {
        false
    }

    /// Whether it has placed pages in the colours of their cores.
    fn places_pages(&self) -> bool {
        false
    }

    /// Checks that the part can go on under another plan, which has other budgets and ways only,
    /// and prepares for it. `true`: the part gives the CPUs these budgets. Changes nothing that is
    /// in force.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn can_take(&mut self, _plan: &Plan) -> Result<bool, LinuxError> {
        Ok(false)
    }

    /// Gives the cores the ways of the plan that it was asked about last, and the hardware's limits
    /// of bandwidth.
    ///
    /// # Errors
    /// The machine refuses them; the cores have those of the old plan.
    fn divide(&mut self) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Gives the cores the ways and limits of the old plan again, after `divide`.
    fn divide_as_before(&mut self) {}

    /// Begins the handover of budgets to the plan that it was asked about last.
    ///
    /// # Errors
    /// The machine refuses it; the old plan is in force.
    fn take(&mut self) -> Result<(), LinuxError> {
        Ok(())
    }

    /// The state of the handover that it began; each round asks for it.
    fn taken(&mut self) -> Taking {
        Taking::Done(Others::default())
    }

    /// Hands over the events that it recorded one by one; called once, before the end.
    fn traced(&mut self, _traces: &mut Traces) {}

    /// Called when the user asks for the end of the run. `false`: the run goes on until this part
    /// is done.
    fn asked_to_end(&mut self) -> bool {
        true
    }

    /// Whether the run goes on for this part when another one fails.
    fn outlives(&self) -> bool {
        false
    }

    /// Undoes its start; called once.
    fn end(&mut self);
}

/// Consequence of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another one.
    GoOn,
    /// The end, with its reason.
    Done(String),
}

/// Budgets that changed with the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Of CPUs.
    pub cores: Vec<RunOtherBudget>,
    /// Of the jobs of hard tasks.
    pub tasks: Vec<RunOtherJobBudget>,
}

/// The state of a part's handover to another plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taking {
    /// It goes on.
    UnderWay,
    /// The new plan is in force, with these other budgets.
    Done(Others),
    /// The old plan is in force again, with the reason.
    GivenUp(String),
}

/// A round.
#[derive(Debug, Default)]
pub struct Round {
    /// Start of the run, by `CLOCK_MONOTONIC`.
    pub begun_ns: u64,
    /// Events, for the user.
    pub messages: Vec<String>,
}

/// A value that one part holds while it is started, and that others use.
pub type Held<T> = Rc<RefCell<Option<T>>>;

/// A thread or a process of a task of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The thread that gives its jobs their scheduling.
    Thread(u32),
    /// A process that runs already.
    Process(u32),
}

/// Changes of settings that parts make together; they are put back when the last part has ended.
#[derive(Clone, Default)]
pub struct Settings(Rc<RefCell<Option<Changes>>>);

impl Settings {
    pub(super) fn change<T>(
        &self,
        what: impl FnOnce(&mut Changes) -> Result<T, LinuxError>,
    ) -> Result<T, LinuxError> {
        let mut changes = self.0.borrow_mut();
        match &mut *changes {
            Some(changes) => what(changes),
            none => what(none.insert(Changes::begin()?)),
        }
    }
}

/// Events that were recorded one by one.
#[derive(Debug, Default)]
pub struct Traces {
    /// Start of the run, by `CLOCK_MONOTONIC`; times below are by that clock.
    pub begun_ns: u64,
    /// Periods of regulated CPUs.
    pub periods: Vec<(u32, Vec<Period>)>,
    /// Decisions of a scheduler.
    pub decisions: Option<SchedTrace>,
    /// Gaps in them, for the user.
    pub notes: Vec<String>,
}

/// Format name at the head of a dry run's output.
pub(super) const PREVIEW_FORMAT: &str = "solocore-dry-run/2";

/// The regulation that would run.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct RegulationPreview {
    /// Event that would be counted.
    pub event: String,
    /// Accesses that the self-test made.
    pub self_test_made: Option<u64>,
    /// Accesses that the self-test counted.
    pub self_test_counted: Option<u64>,
    /// Length of a period.
    pub period_ns: u64,
    /// Reason why sched_ext is not used.
    pub sched_ext: Option<String>,
    /// Engine that would run.
    pub engine: &'static str,
    /// Budgets.
    pub cores: Vec<CoreBudget>,
}

/// A task that levels or windows would schedule.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct LevelPreview {
    /// The task.
    pub task: String,
    /// Its level.
    pub level: &'static str,
    /// Its core.
    pub core: u32,
    /// Its period.
    pub period_ns: u64,
    /// Its provisioned execution time.
    pub pet_ns: u64,
    /// The way in which it would be started.
    pub how: &'static str,
}

/// A time table of level A.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct TablePreview {
    /// Its core.
    pub core: u32,
    /// Its slots.
    pub slots: usize,
    /// Its length.
    pub frame_ns: u64,
}

/// Places of the tasks, and the programs that would be kept off.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct IsolationPreview {
    /// Cores with analysed tasks.
    pub hard_cores: Vec<u32>,
    /// The CPU for interrupts.
    pub irq_cpu: u32,
    /// Interrupts that would be moved there, if they can be moved.
    pub irqs: Vec<u32>,
    /// Other programs that would be kept off the hard cores.
    pub confine: Option<RunConfined>,
    /// Tasks that would be started or attached: name, core, priority, way of starting.
    pub tasks: Vec<(String, u32, Option<i32>, &'static str)>,
}

/// The changes of a run.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Preview {
    /// Format of this text.
    pub format: &'static str,
    /// The scheduler that would decide when each task runs.
    pub scheme: RunScheme,
    /// Reason why this machine cannot run it; `null` if it can.
    pub machine: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The plan's promises, each with the part that would keep it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<Answer>,
    /// Regulation of accesses.
    #[serde(flatten)]
    pub regulation: Option<RegulationPreview>,
    /// The VCPU that would get background time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<&'static str>,
    /// VCPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<Vec<PlanVcpu>>,
    /// Tasks under levels or windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<LevelPreview>>,
    /// Time tables of level A.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TablePreview>,
    /// Places of the tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationPreview>,
}

impl Preview {
    pub(super) fn isolation(&mut self) -> &mut IsolationPreview {
        self.isolation.get_or_insert_with(IsolationPreview::default)
    }
}
