//! Budgets of sets of tasks on all cores, with a number of ways for each.
//!
//! Rule: as `attempt`, but from below. A core that breaks a limit beside the least budgets of the
//! others so far needs a larger own one. The last one found to break it is a bound, and the one
//! after it is the least that the core can have. If a core breaks a limit with all that the bus
//! carries, no budgets keep to the limits. Every step is a fact of its own, which [`Step`] names.
//! Does not cover: steps of less than a part in [`FINE`], after which the choice counts as
//! possible.

use super::machine::{Content, Machine};
use super::programs::Share;
use super::sets::{FEW_JOBS, Sets, fits, last_failing};
use crate::budgets::optimal::certificate::{Question, Set, Step};
use solocore_analysis::interference::Rivals;
use std::sync::Arc;

/// Least step of a budget, as a part of it.
const FINE: u64 = 200;

/// Cores with their tasks and ways.
pub struct Split<'a> {
    machine: &'a Machine<'a>,
    question: Question,
    contents: Vec<Arc<Content>>,
    idle: Vec<u64>,
    /// Jobs of the others beside each core, where they are known: a few, and all of them.
    jobs: [Vec<Option<Arc<Rivals>>>; 2],
}

impl<'a> Split<'a> {
    /// All cores, those without tasks last, with `budgets` as the least ones.
    pub fn new(sets: &Sets<'a>, placed: &[Set], ways: &[u32], budgets: &[u64]) -> Self {
        let machine = sets.machine;
        let contents: Vec<Arc<Content>> =
            placed.iter().zip(ways).map(|(&set, &ways)| sets.content(set, ways)).collect();
        let idle: Vec<u64> =
            placed.iter().zip(budgets).filter(|(set, _)| **set == 0).map(|(_, b)| *b).collect();
        let jobs = [vec![None; placed.len()], vec![None; placed.len()]];
        Self { machine, question: sets.question, contents, idle, jobs }
    }

    /// The jobs beside a core.
    fn jobs(&mut self, place: usize, all: bool) -> Option<Arc<Rivals>> {
        if !self.machine.known {
            return None;
        }
        if let Some(known) = &self.jobs[usize::from(all)][place] {
            return Some(Arc::clone(known));
        }
        let others = self.contents.iter().enumerate().filter(|&(at, _)| at != place);
        let accesses = others.flat_map(|(_, content)| content.accesses.iter().copied());
        let made = if all {
            self.machine.rivals(accesses, &self.idle)
        } else {
            let few = FEW_JOBS.saturating_sub(self.idle.len());
            self.machine.rivals(self.machine.heaviest(accesses, few), &self.idle)
        };
        self.jobs[usize::from(all)][place] = Some(Arc::clone(&made));
        Some(made)
    }

    /// A few jobs of the others suffice for most limits that are broken.
    fn keeps(&mut self, place: usize, own: u64, budgets: &[u64]) -> bool {
        let others = others(budgets, place);
        let few = self.jobs(place, false);
        let stall = self.machine.stall(own, others, few);
        if !fits(&self.contents[place], &stall, &self.question) {
            return false;
        }
        if !self.machine.known {
            return true;
        }
        let all = self.jobs(place, true);
        fits(&self.contents[place], &self.machine.stall(own, others, all), &self.question)
    }

    /// A core that breaks a limit beside these budgets with all that the bus carries.
    pub fn broken(&mut self, budgets: &[u64]) -> Option<Step> {
        let bus = self.machine.problem.bus;
        let mut broken =
            |place: &usize| !self.contents[*place].is_soft() && !self.keeps(*place, bus, budgets);
        (0..budgets.len()).find(&mut broken).map(|place| Step { place, budget: None })
    }

    /// The steps after which a core has no budget; `None` if all cores are found to have one.
    pub fn refuted(&mut self, mut budgets: Vec<u64>) -> Option<Vec<Step>> {
        let bus = self.machine.problem.bus;
        let mut steps = Vec::new();
        loop {
            let mut grew = false;
            for place in 0..budgets.len() {
                let own = budgets[place];
                let more = own.saturating_add(1 + own / FINE).min(bus);
                if self.contents[place].is_soft() || self.keeps(place, more, &budgets) {
                    continue;
                }
                if !self.keeps(place, bus, &budgets) {
                    steps.push(Step { place, budget: None });
                    return Some(steps);
                }
                let last = last_failing(more, bus, |own| self.keeps(place, own, &budgets));
                budgets[place] = last + 1;
                steps.push(Step { place, budget: Some(last + 1) });
                grew = true;
            }
            if !grew {
                return None;
            }
        }
    }
}

/// Sum of the budgets of the others.
pub fn others(budgets: &[u64], place: usize) -> u64 {
    let all = budgets.iter().enumerate().filter(|&(at, _)| at != place);
    all.map(|(_, &budget)| budget).fold(0, u64::saturating_add)
}

/// Budgets of all places with the least that their programs need for the speed of the question,
/// while each core has `most` at most; `None` if that is out of reach.
pub fn with_speed(
    machine: &Machine,
    contents: &[Arc<Content>],
    placed: &[Set],
    question: &Question,
    ways: impl Fn(usize) -> u32,
    most: impl Fn(usize) -> u64,
    budgets: &mut [u64],
) -> Option<()> {
    if question.speed <= 0.0 {
        return Some(());
    }
    let places: Vec<usize> =
        (0..placed.len()).filter(|&at| placed[at] & machine.programs != 0).collect();
    let share = |&at: &usize| Share {
        set: placed[at],
        content: &contents[at],
        ways: ways(at),
        most: most(at).min(machine.problem.bus),
        part: question.part,
    };
    let shares: Vec<Share> = places.iter().map(share).collect();
    let least = machine.budgets_for(&shares, question.speed)?;
    for (place, least) in places.into_iter().zip(least) {
        budgets[place] = budgets[place].max(least);
    }
    Some(())
}
