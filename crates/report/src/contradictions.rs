//! Measurements beyond the plan's promises, simulated or on a machine.
//!
//! Problem: where a measurement contradicts the plan, one of the two is wrong, and nobody may count
//! on the bound. Rule: they are listed in a row, and the page guarantees nothing for the task of
//! one.

use crate::contradiction::Contradiction;
use crate::inputs::{Inputs, result_of};
use crate::{format, machine, promises, verification};
use solocore_model::plan::PlanTask;

/// The contradictions of all measurements of a page.
pub struct Contradictions(Vec<Contradiction>);

impl Contradictions {
    /// Of the verification, the run and the managed simulation, in this order.
    pub fn of(inputs: &Inputs) -> Self {
        let mut all = Vec::new();
        if let Some(v) = inputs.verification {
            let plan = &inputs.plan.promises;
            all.extend(v.broken.iter().map(|id| promises::broken(plan.iter(), id)));
            verification::contradictions(v, &mut all);
        }
        inputs.run.iter().for_each(|run| all.extend(machine::contradictions(inputs.plan, run)));
        for task in inputs.plan.tasks.iter().filter(|t| !t.best_effort()) {
            managed(inputs, task, &mut all);
        }
        Self(all)
    }

    /// In the order in which they are listed.
    pub fn all(&self) -> &[Contradiction] {
        &self.0
    }

    /// Is any of them about the task called `name`?
    pub fn about(&self, name: &str) -> bool {
        self.0.iter().any(|found| found.is_about(name))
    }
}

/// Those of the managed simulation about a task.
fn managed(inputs: &Inputs, task: &PlanTask, all: &mut Vec<Contradiction>) {
    let Some(seen) = result_of(inputs.managed, &task.name) else { return };
    let mut add = |sentence: String| all.push(Contradiction::of_task(&task.name, &sentence));
    if task.schedulable && task.tardiness_ns.is_none() && task.broken_by(seen) {
        add(format!(
            "{} of {} missed the deadline in the managed run",
            format::count(seen.misses_deadline),
            format::plural(seen.jobs, "job")
        ));
    }
    // In a partition, the cost of a window's start is added to C_sce; the response includes it.
    let c_sce = Some(task.c_sce_ns).filter(|_| task.partition.is_none());
    for (what, seen, bound) in [
        ("execution time", seen.moet_ns, c_sce),
        ("response time", seen.max_response_ns, task.wcrt_ns),
    ] {
        if let Some(bound) = bound.filter(|bound| seen > *bound) {
            add(format!(
                "measured {what} {} ({} ns) is above its bound {} ({} ns)",
                format::time(seen),
                format::count(seen),
                format::time(bound),
                format::count(bound)
            ));
        }
    }
}
