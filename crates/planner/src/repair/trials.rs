//! Plannings of changed systems, counted.
//!
//! Rule: a change is tried as a user would try it: the text of the file is changed, read and
//! planned as a whole. The number of plannings is limited, and so is their work for large systems,
//! but never by a clock: a plan is the same on every machine.

use super::search::{Answer, Cut};
use crate::demand::Demand;
use crate::planning::{Verdict, plan, verdict};
use solocore_model::System;
use solocore_model::system::text::SystemText;
use solocore_model::system::{Policy, Scheme, Share};
use std::collections::HashMap;

/// Most plannings.
const MOST: u64 = 4000;
/// Most work of all verdicts, and of all whole plans; one unit takes some 5 us on a core of 3 GHz.
const WORK: u64 = 400_000;
/// Work to read the file again.
const READ: u64 = 20;
/// Work of a candidate for optimal shares, for each task, and most for pages.
const CANDIDATE: u64 = 4;
const CANDIDATE_PAGES: u64 = 100;
/// Looks of dynamic budgets at a task, in one unit of work.
const DYNAMIC: u64 = 50;
/// Candidates that a planning for a verdict usually tries, and those of a whole plan.
const USUAL: u64 = 40;
const WHOLE: u64 = 120;

/// The units of work of one planning, fitted to measured times: worst fit tries tasks beside tasks
/// and hands out their pages; optimal shares do so first, and then for each candidate. Dynamic
/// budgets try each task on each core beside all others.
fn work_of(system: &System, pages: u64, tried: u64) -> u64 {
    let tasks = system.tasks.len() as u64;
    let candidates = match system.regulation.share() {
        Share::Optimal => tried.saturating_mul(CANDIDATE * tasks + pages.min(CANDIDATE_PAGES)),
        _ => 0,
    };
    let beside = match system.regulation.policy {
        Policy::Dynamic | Policy::Any => tasks.saturating_pow(3) / DYNAMIC,
        _ => 0,
    };
    let more = candidates.saturating_add(beside);
    (tasks * tasks).saturating_add(pages).saturating_add(READ).saturating_add(more)
}

/// See the module.
pub struct Trials<'a> {
    text: &'a SystemText,
    demands: Vec<Demand>,
    stop: &'a dyn Fn() -> bool,
    /// Pages that may be locked.
    pages: u64,
    /// Work done for verdicts, and for whole plans: either may be [`WORK`].
    spent: u64,
    spent_whole: u64,
    /// Whole plans.
    wholes: u64,
    answers: HashMap<String, Answer>,
}

impl<'a> Trials<'a> {
    pub fn new(text: &'a SystemText, demands: &[Demand], stop: &'a dyn Fn() -> bool) -> Self {
        let pages =
            demands.iter().map(|d| d.page_accesses().count() as u64).fold(0, u64::saturating_add);
        Self {
            text,
            demands: demands.to_vec(),
            stop,
            pages,
            spent: 0,
            spent_whole: 0,
            wholes: 0,
            answers: HashMap::new(),
        }
    }

    /// Plannings so far.
    pub fn made(&self) -> u64 {
        self.answers.len() as u64 + self.wholes
    }

    /// Does the system with this change meet its deadlines?
    pub fn ask(&mut self, key: &str, value: &str) -> Result<Answer, Cut> {
        let change = format!("{key}={value}");
        if let Some(&known) = self.answers.get(&change) {
            return Ok(known);
        }
        if self.made() >= MOST || (self.stop)() {
            return Err(Cut);
        }
        let answer = match self.changed(&change) {
            Ok(system) => self.planned(&system)?,
            Err(_) => Answer::Refused,
        };
        self.answers.insert(change, answer);
        Ok(answer)
    }

    /// Is the whole plan with a change schedulable that is so by its verdict? Only for optimal
    /// shares may the two differ.
    pub fn whole(&mut self, key: &str, value: &str) -> Result<bool, Cut> {
        let Ok(system) = self.changed(&format!("{key}={value}")) else { return Ok(false) };
        if system.regulation.share() != Share::Optimal {
            return Ok(true);
        }
        let work = work_of(&system, self.pages, WHOLE);
        if (self.stop)() || self.spent_whole.saturating_add(work) > WORK {
            return Err(Cut);
        }
        self.spent_whole += work;
        self.wholes += 1;
        self.restate(&system);
        Ok(plan(&system, &self.demands).is_ok_and(|plan| plan.schedulable))
    }

    fn changed(&self, change: &str) -> Result<System, String> {
        self.text.with(change).and_then(|text| text.system()).map_err(|e| e.to_string())
    }

    /// Takes the demands that this system states.
    fn restate(&mut self, system: &System) {
        for (demand, task) in self.demands.iter_mut().zip(&system.tasks) {
            if let Some(stated) = Demand::stated(&task.demand) {
                *demand = stated;
            }
        }
    }

    fn planned(&mut self, system: &System) -> Result<Answer, Cut> {
        let work = work_of(system, self.pages, USUAL);
        // A planning that takes long leaves the other kinds their plannings.
        if work > WORK / 4 || self.spent.saturating_add(work) > WORK {
            return Err(Cut);
        }
        self.restate(system);
        let answer = verdict(system, &self.demands);
        let tried = answer.as_ref().map_or(1, |verdict| verdict.tried);
        self.spent = self.spent.saturating_add(work_of(system, self.pages, tried));
        Ok(match answer {
            Ok(Verdict { meets: true, .. }) => Answer::Meets,
            Ok(_) => Answer::Misses,
            Err(_) => Answer::Refused,
        })
    }
}

/// Does this search have the changes of the system's scheme? Time tables and levels are excluded,
/// as one planning of them takes too long.
pub fn covers(system: &System) -> bool {
    matches!(system.scheme, Scheme::Budgets | Scheme::Vcpus(_))
}
