//! Advice for a plan that is not schedulable: the least change of each kind that makes it
//! schedulable.
//!
//! Problem: "lengthen periods, or spread the tasks" names neither amounts nor tasks. Rule: each
//! kind of change is one key of the system file and values in order of their distance from the
//! file's. A value suffices when the changed file is schedulable by the planner ([`trials`]).
//! [`search`] finds the least such value, in steps of three digits of the file's value. The printed
//! value is one that was planned. With optimal shares the values before the edge are not tried one
//! by one, and the search tries fewer candidates than a plan: a smaller change may do there. Each
//! value that it finds is then planned as a whole, and larger changes are tried if that misses a
//! deadline. The kinds of all plans are optimal shares, other policies, active cores, the
//! regulation period and the capacities of VCPUs. Of a task that may miss its deadline, they are
//! the deadline, period, core, and the stated numbers of its jobs. Of a core with such a task, the
//! kinds are its bandwidth and its ways of the cache, which hold locked pages. The other cores'
//! bandwidths come then, and the same of the tasks that preempt it; last, each of these tasks as
//! best effort. More bandwidth for one core is not a change of optimal shares, which choose all
//! budgets. Does not cover: two changes together; time tables and levels.

mod kinds;
mod search;
mod trials;

use crate::demand::Demand;
use crate::whole::before_verdict;
use crate::work::DETAILED;
use kinds::{Kind, Values};
use search::{Answer, Cut};
use solocore_model::plan::advice::Repair;
use solocore_model::system::Share;
use solocore_model::system::text::SystemText;
use solocore_model::{Plan, System};
use trials::Trials;

/// Values of a kind that are planned, from the first one with a good verdict on.
const FURTHER: u32 = 8;

/// Changes that would help.
#[derive(Debug)]
pub struct Advice {
    /// Changes of one key each.
    pub repairs: Vec<Repair>,
    /// Message about an incomplete search, where that matters.
    pub note: Option<String>,
}

impl Advice {
    /// Writes the advice into its plan. The note comes before the last reason, the verdict's.
    pub fn write_into(self, plan: &mut Plan) {
        plan.repair = self.repairs;
        before_verdict(plan, self.note);
    }
}

/// Looks for changes with which an unschedulable `plan` is schedulable. `text` is the text of
/// `system`'s file, and `demands` are those of its tasks. `stop` ends the search early.
pub fn repair(
    text: &SystemText,
    system: &System,
    demands: &[Demand],
    plan: &Plan,
    stop: &dyn Fn() -> bool,
) -> Advice {
    if plan.schedulable || !trials::covers(system) {
        return Advice { repairs: Vec::new(), note: None };
    }
    if system.tasks.len() > DETAILED {
        // The first planning would exceed the allowed work, and each kind reads the file again
        // before.
        return Advice { repairs: Vec::new(), note: note(&[], true, 0) };
    }
    let mut trials = Trials::new(text, demands, stop);
    let mut cut = false;
    let mut found: Vec<(Kind, u64)> = Vec::new();
    for kind in kinds::of(system, plan) {
        match least(&kind, &mut trials) {
            Ok(at) => found.extend(at.map(|at| (kind, at))),
            // Other kinds may be cheaper to plan.
            Err(Cut) => cut = true,
        }
    }
    // A planning of optimal shares takes as long as some hundred others.
    let scans = system.regulation.share() != Share::Optimal;
    for (kind, at) in found.iter_mut().filter(|_| scans) {
        match search::nearer(*at, |at| trials.ask(&kind.key, &kind.values.at(at))) {
            Ok(nearer) => *at = nearer,
            Err(Cut) => cut = true,
        }
    }
    // Optimal shares of a plan are found by another search than those of a verdict.
    found.retain_mut(|(kind, at)| match planned(kind, *at, &mut trials) {
        Ok(Some(nearest)) => {
            *at = nearest;
            true
        }
        Ok(None) => false,
        Err(Cut) => {
            cut = true;
            false
        }
    });
    let repairs: Vec<Repair> = found.iter().map(|(kind, at)| kind.repair(*at)).collect();
    let note = note(&repairs, cut, trials.made());
    Advice { repairs, note }
}

/// The number of the least change of a kind that suffices; of values without an order, the first.
fn least(kind: &Kind, trials: &mut Trials) -> Result<Option<u64>, Cut> {
    let count = kind.values.count();
    let mut ask = |at| trials.ask(&kind.key, &kind.values.at(at));
    match kind.values {
        Values::Steps(_) => search::least(count, ask),
        Values::Listed(_) => {
            for at in 0..count {
                if ask(at)? == Answer::Meets {
                    return Ok(Some(at));
                }
            }
            Ok(None)
        }
    }
}

/// The number of a value from this one on with which the whole plan is schedulable; `None` if there
/// is none among the first few. Steps double where values have an order.
fn planned(kind: &Kind, from: u64, trials: &mut Trials) -> Result<Option<u64>, Cut> {
    let ordered = matches!(kind.values, Values::Steps(_));
    let step = |n: u32| if ordered { (1 << n) - 1 } else { u64::from(n) };
    let further = (0..FURTHER).map(|n| from.saturating_add(step(n)));
    for at in further.take_while(|&at| at < kind.values.count()) {
        if trials.whole(&kind.key, &kind.values.at(at))? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn note(repairs: &[Repair], cut: bool, made: u64) -> Option<String> {
    match (cut, repairs.is_empty()) {
        (true, _) => Some(format!(
            "repair: the search for sufficient changes ended after {made} plannings, to save \
                time. Other changes may suffice too; --what-if tries a change"
        )),
        (false, true) => Some(format!(
            "repair: no tried change of a single key makes the system schedulable ({made} \
                plannings); change several, or shed load"
        )),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests;
