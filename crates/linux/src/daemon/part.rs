//! What takes part in a run, and what parts share.

use crate::error::LinuxError;
use crate::host::keeper::Changes;
use crate::regulate::history::Period;
use crate::regulate::regulation::CoreBudget;
use serde::Serialize;
use solocore_model::plan::{Answer, PlanVcpu, Promise};
use solocore_model::run::{RunConfined, RunResult, RunScheme};
use solocore_model::sched_trace::SchedTrace;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Something that takes part in a run. A method that is not written does nothing.
pub trait Part {
    /// Can it start on this machine? Changes nothing.
    ///
    /// # Errors
    /// Why not.
    fn check(&mut self) -> Result<(), LinuxError> {
        Ok(())
    }

    /// What it would do. Changes nothing.
    fn preview(&self, _preview: &mut Preview) {}

    /// Does it keep this promise of the plan? `None`: it has nothing to do with it. Before the
    /// start: would it?
    fn keeps(&self, _promise: &Promise) -> Option<Answer> {
        None
    }

    /// Starts it.
    ///
    /// # Errors
    /// What the machine refuses; then nothing of it is left behind.
    fn start(&mut self) -> Result<(), LinuxError>;

    /// All parts have started, and the plan's tasks are about to be released: what they are promised
    /// counts from now on.
    fn begun(&mut self) {}

    /// Called each round: does it still work, and has anything happened?
    ///
    /// # Errors
    /// It cannot go on.
    fn look(&mut self, _round: &mut Round) -> Result<Next, LinuxError> {
        Ok(Next::GoOn)
    }

    /// The longest time between two rounds.
    fn every(&self) -> Duration {
        Duration::from_millis(50)
    }

    /// What the user should know, before and after it has started.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it is doing, on one line, if that is worth a line.
    fn about(&self) -> Option<String> {
        None
    }

    /// Adds what it has seen so far.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn seen(&self, _run: &mut RunResult) -> Result<(), LinuxError> {
        Ok(())
    }

    /// Hands over what it recorded one by one; called once, before the end.
    fn traced(&mut self, _traces: &mut Traces) {}

    /// Somebody asks for the end of the run. `false`: not before this part is done.
    fn asked_to_end(&mut self) -> bool {
        true
    }

    /// Does the run go on for its sake when another part fails?
    fn outlives(&self) -> bool {
        false
    }

    /// Undoes its start; called once.
    fn end(&mut self);
}

/// What follows a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another one.
    GoOn,
    /// The end, and why.
    Done(String),
}

/// A round.
#[derive(Debug, Default)]
pub struct Round {
    /// When the run began, by `CLOCK_MONOTONIC`.
    pub begun_ns: u64,
    /// What happened, for the user.
    pub messages: Vec<String>,
}

/// Something that one part has while it is started, and others use.
pub type Held<T> = Rc<RefCell<Option<T>>>;

/// What belongs to a task of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The thread whose scheduling its jobs inherit.
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

/// What was recorded one by one.
#[derive(Debug, Default)]
pub struct Traces {
    /// When the run began, by `CLOCK_MONOTONIC`; times below are by that clock.
    pub begun_ns: u64,
    /// Periods of regulated CPUs.
    pub periods: Vec<(u32, Vec<Period>)>,
    /// Decisions of a scheduler.
    pub decisions: Option<SchedTrace>,
    /// What is missing in them, for the user.
    pub notes: Vec<String>,
}

/// Written at the head of what a dry run says.
pub(super) const PREVIEW_FORMAT: &str = "solocore-dry-run/2";

/// What would be regulated.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RegulationPreview {
    /// What would be counted.
    pub event: String,
    /// How often it was made happen, to try it.
    pub self_test_made: Option<u64>,
    /// How often that was counted.
    pub self_test_counted: Option<u64>,
    /// Length of a period.
    pub period_ns: u64,
    /// Why not with sched_ext.
    pub sched_ext: Option<String>,
    /// Which engine would run.
    pub engine: &'static str,
    /// Budgets.
    pub cores: Vec<CoreBudget>,
}

/// A task that levels or windows would schedule.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// How it would come to run.
    pub how: &'static str,
}

/// A time table of level A.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TablePreview {
    /// Its core.
    pub core: u32,
    /// Its slots.
    pub slots: usize,
    /// Its length.
    pub frame_ns: u64,
}

/// Where tasks would run, and which programs would be kept off.
#[derive(Clone, Debug, Default, Serialize)]
pub struct IsolationPreview {
    /// Cores with analysed tasks.
    pub hard_cores: Vec<u32>,
    /// The CPU for interrupts.
    pub irq_cpu: u32,
    /// Interrupts that would be moved there, if they let.
    pub irqs: Vec<u32>,
    /// Others that would be kept off the hard cores.
    pub confine: Option<RunConfined>,
    /// Tasks that would be started or attached: name, core, priority, how.
    pub tasks: Vec<(String, u32, Option<i32>, &'static str)>,
}

/// What a run would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Preview {
    /// Of this text.
    pub format: &'static str,
    /// The scheduler that would decide when each task runs.
    pub scheme: RunScheme,
    /// Why this machine cannot; `null` if it can.
    pub machine: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The plan's promises, each with the part that would keep it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TablePreview>,
    /// Where tasks would run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationPreview>,
}

impl Preview {
    pub(super) fn isolation(&mut self) -> &mut IsolationPreview {
        self.isolation.get_or_insert_with(IsolationPreview::default)
    }
}
