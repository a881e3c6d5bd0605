//! Other programs in place of a plan's own, to attack its bounds.
//!
//! Problem: a plan promises its bounds for every program that keeps to the stated numbers, and the
//! programs that `sim` makes by itself are mild: random pages, misses evenly spread. Rule: a
//! [`StandIn`] is a program for one task, with its page frames. Core, priority, release, budget and
//! window stay the plan's. Under the plan, its frames must lie in the banks that the plan gives the
//! task, as the plan promises private banks; without private banks any frame is allowed.
//!
//! A user who gives an analysed task a stand-in is responsible for its numbers: a job makes at most
//! the plan's `misses` DRAM accesses, and takes at most `wcet` alone. Best effort may do
//! anything. Not covered: the prefetch programs and DMA engines of partitions, and the devices of
//! levels, which stay the plan's.

use super::options::{Options, SimError};
use super::regions::{board, region};
use crate::machine::Layout;
use crate::program::{PageKind, Program};
use crate::workload::Workload;
use solocore_model::plan::Plan;
use solocore_model::results::Mode;
use std::sync::Arc;

/// A program in place of a task's own one.
#[derive(Clone)]
pub struct StandIn {
    /// Index of the task in the plan.
    pub task: usize,
    /// Makes the program. Some simulations need it more than once.
    pub program: Arc<dyn Fn() -> Box<dyn Program> + Send + Sync>,
    /// Page frame of each of its pages ([`Layout::frames_of`]).
    pub frames: Vec<u64>,
    /// Caching of its pages; `None`: as under the plan.
    pub kind: Option<PageKind>,
    /// Arrival of its first job, ns. Partitions and levels set their own.
    pub phase_ns: u64,
}

impl std::fmt::Debug for StandIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandIn")
            .field("task", &self.task)
            .field("frames", &self.frames.len())
            .field("kind", &self.kind)
            .field("phase_ns", &self.phase_ns)
            .finish_non_exhaustive()
    }
}

impl StandIn {
    pub(super) fn workload(&self) -> Workload {
        Workload::bare((self.program)())
    }
}

/// Banks that a plan gives a task, counted over channels and ranks; `None`: all.
#[must_use]
pub fn banks(plan: &Plan, task: usize) -> Option<Vec<u32>> {
    let task = plan.tasks.get(task)?;
    if let Some(levels) = plan.levels() {
        return Some(region(plan, levels, task).0);
    }
    let private = plan.cores.iter().all(|c| c.banks.is_some());
    let (first, count) = plan.cores.get(task.core as usize)?.banks.filter(|_| private)?;
    Some((first..first + count).collect())
}

/// Banks and colours of frames on the plan's board.
///
/// # Errors
/// [`SimError`] when the platform cannot be simulated.
pub fn layout(plan: &Plan) -> Result<Layout, SimError> {
    let options = Options { mode: Mode::Managed, duration_ns: 0, seed: 0, timeline_ns: 0 };
    let board = board(plan, &options)?;
    Ok(board.config.layout().map_err(crate::board::BoardError::from)?)
}

/// Checks that every stand-in has a task of its own, and stays in the task's banks under the plan.
pub(super) fn check(plan: &Plan, options: &Options, stand_ins: &[StandIn]) -> Result<(), SimError> {
    if stand_ins.is_empty() {
        return Ok(());
    }
    let layout = layout(plan)?;
    let mut taken = Vec::new();
    for stand_in in stand_ins {
        let Some(task) = plan.tasks.get(stand_in.task) else {
            let (at, count) = (stand_in.task, plan.tasks.len());
            return Err(SimError::Input(format!(
                "a stand-in is for task {at}, but the plan has {count} tasks"
            )));
        };
        if taken.contains(&stand_in.task) {
            return Err(SimError::Input(format!(
                "task `{}` has two stand-ins; give it one",
                task.name
            )));
        }
        taken.push(stand_in.task);
        let banks = banks(plan, stand_in.task).filter(|_| options.mode.is_managed());
        // As the board's own allocator, which uses the bank of a frame's first line.
        let outside =
            |frame: &&u64| banks.as_ref().is_some_and(|b| !b.contains(&layout.bank(**frame)));
        if let Some(frame) = stand_in.frames.iter().find(outside) {
            return Err(SimError::Input(format!(
                "the stand-in of task `{}` has page frame {frame} in bank {}, which is not its \
                    own; the plan gives it the banks {:?}",
                task.name,
                layout.bank(*frame),
                banks.unwrap_or_default()
            )));
        }
    }
    Ok(())
}
