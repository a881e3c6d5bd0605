//! Measurements beyond the plan's promises, simulated or on a machine.
//!
//! Problem: where a measurement contradicts the plan, one of the two is wrong, and nobody may count
//! on the bound. Rule: each contradiction is a sentence. It begins with the name of its task where
//! it is about one, and the page then guarantees nothing for that task.

use crate::inputs::{Inputs, result_of};
use crate::{format, machine, promises, verification};
use solocore_model::plan::PlanTask;

/// The contradictions of all measurements of a page.
pub struct Contradictions(Vec<String>);

impl Contradictions {
    /// Of the verification, the run and the managed simulation, in this order.
    pub fn of(inputs: &Inputs) -> Self {
        let mut lines = Vec::new();
        if let Some(v) = inputs.verification {
            let plan = &inputs.plan.promises;
            lines.extend(v.broken.iter().map(|id| promises::broken(plan.iter(), id)));
            verification::contradictions(v, &mut lines);
        }
        inputs.run.iter().for_each(|run| lines.extend(machine::contradictions(inputs.plan, run)));
        for task in inputs.plan.tasks.iter().filter(|t| !t.best_effort()) {
            managed(inputs, task, &mut lines);
        }
        Self(lines)
    }

    /// Each as a sentence without its full stop.
    pub fn lines(&self) -> &[String] {
        &self.0
    }

    /// Is any of them about the task called `name`?
    pub fn about(&self, name: &str) -> bool {
        self.0.iter().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": ")))
    }
}

/// Those of the managed simulation about a task.
fn managed(inputs: &Inputs, task: &PlanTask, lines: &mut Vec<String>) {
    let Some(seen) = result_of(inputs.managed, &task.name) else { return };
    let name = &task.name;
    if task.schedulable && task.tardiness_ns.is_none() && task.broken_by(seen) {
        lines.push(format!(
            "{name}: {} of {} missed the deadline in the managed run",
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
            lines.push(format!(
                "{name}: measured {what} {} ({} ns) is above its bound {} ({} ns)",
                format::time(seen),
                format::count(seen),
                format::time(bound),
                format::count(bound)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradiction_is_about_the_task_that_it_begins_with() {
        let found = Contradictions(vec!["video: 2 of 4 jobs missed the deadline".to_owned()]);
        assert!(found.about("video"));
        assert!(!found.about("vid") && !found.about("2 of 4 jobs"));
    }
}
