//! Limits of a set of tasks on a core of its own, for one question.
//!
//! Problem: the bounds of a core depend on the others' budgets, and these depend on the core. Rule:
//! for each set and numbers of ways, two limits are looked for. One is the least sum of the others'
//! budgets that breaks a limit, while the core's own budget is as large as possible. The other is
//! the least own budget beside a sum of the others' budgets. Bounds never fall when the others'
//! budgets grow, and never rise with an own budget or a way more (`analysis::interference`, test
//! `monotone`). If the others' jobs are known, the jobs of all tasks outside of the set count. A
//! limit holds for a range of own ways ([`Ways`]): the set has the pages of the most, and the
//! others have the ways that the least leaves. A set that breaks a limit beside no other core
//! breaks it with more tasks: they add work, and take pages. Does not cover: the other sets of a
//! partition ([`super::rounds`], [`super::cover`]).

use super::machine::{Content, Machine};
use crate::budgets::optimal::certificate::{Fact, Part, Question, Set, Ways, bits};
use solocore_analysis::interference::{Rivals, Stall};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Limits are found to this part of themselves.
const FINE: u64 = 100;

/// Jobs of other cores that count for a set: those that take most of the memory's time. More of
/// them would close little more, and take long to add up.
pub const FEW_JOBS: usize = 8;

/// Most sets with their pages that are kept.
const MOST_KEPT: usize = 1 << 16;
/// Most sets that the jobs of the others are kept for: a set is asked about with some numbers of
/// ways in turn, and a partition has few sets.
const MOST_BESIDE: usize = 64;

/// The reason for an end before all is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The caller wanted it.
    Stopped,
    /// A choice that is better was found.
    Better,
    /// Too many choices had to be closed one by one, or could not be.
    Open,
    /// Smaller parts of the choices are to be closed one by one.
    Wide,
}

/// Sets of tasks with their limits.
#[derive(Debug)]
pub struct Sets<'a> {
    pub machine: &'a Machine<'a>,
    pub question: Question,
    /// Does a set break a limit alone?
    impossible: Vec<bool>,
    /// The sets that break a limit alone, none of whose parts does.
    alone: Vec<Set>,
    /// By set and ways, the largest sum of the others' budgets that is known to keep to the limits,
    /// and the least one that is known to break one.
    edges: HashMap<(Set, Ways), (u64, u64)>,
    /// Own budgets that a set needs, by set and ways.
    needs: HashMap<(Set, Ways, u64), u64>,
    /// Own budgets that suffice there.
    suffice: HashMap<(Set, Ways, u64), u64>,
    /// Are limits found to a smaller part of themselves?
    pub fine: bool,
    /// The last budget that was found: the next one is often near it.
    guess: u64,
    /// Jobs of the others beside the last sets, with their least ways.
    beside: Vec<(Set, u32, Arc<Rivals>)>,
    contents: HashMap<(Set, u32), Rc<Content>>,
}

/// Do the jobs of a core keep to the limits of a question?
pub fn fits(content: &Content, stall: &Stall, question: &Question) -> bool {
    let once = stall.once();
    let of = |asked| stall.of(asked);
    // The task of the lowest priority is the first to break a limit.
    content.jobs.iter().rev().all(|job| job.within(&of, [once, once], question.limits))
}

/// The largest number from `fails` on for which a search by ratios finds that it fails; `works`
/// does not.
pub fn last_failing(fails: u64, works: u64, keeps: impl FnMut(u64) -> bool) -> u64 {
    last_failing_to(FINE, fails, works, keeps)
}

/// The same, accurate to one part in the given number.
fn last_failing_to(
    parts: u64,
    mut fails: u64,
    mut works: u64,
    mut keeps: impl FnMut(u64) -> bool,
) -> u64 {
    while works - fails > 1 + works / parts {
        let middle = ((fails as f64 * works as f64).sqrt() as u64).clamp(fails + 1, works - 1);
        if keeps(middle) { works = middle } else { fails = middle }
    }
    fails
}

impl<'a> Sets<'a> {
    pub fn new(machine: &'a Machine<'a>, question: Question) -> Self {
        Self {
            machine,
            question,
            impossible: Vec::new(),
            alone: Vec::new(),
            edges: HashMap::new(),
            needs: HashMap::new(),
            suffice: HashMap::new(),
            fine: false,
            guess: 1,
            beside: Vec::new(),
            contents: HashMap::new(),
        }
    }

    /// All facts that were found.
    pub fn facts(&self) -> Vec<Fact> {
        let mut breaks: Vec<Fact> = Vec::new();
        for (&(set, ways), &(_, others)) in self.edges.iter().filter(|(_, e)| e.1 < u64::MAX) {
            breaks.push(Fact::Breaks { set, ways, others });
        }
        let mut needs: Vec<Fact> = Vec::new();
        for (&(set, ways, others), &budget) in &self.needs {
            if budget > self.question.floor(self.machine, set) {
                needs.push(Fact::Needs { set, ways, others, budget });
            }
        }
        breaks.sort_unstable();
        needs.sort_unstable();
        // More of the others' budgets say something only where they make it need more.
        needs.dedup_by(|next, before| match (next, before) {
            (
                Fact::Needs { set, ways, budget, .. },
                Fact::Needs { set: of, ways: with, budget: least, .. },
            ) => (set, ways) == (of, with) && budget <= least,
            _ => false,
        });
        let alone = self.alone.iter().map(|&set| Fact::Alone(set));
        let mut facts: Vec<Fact> = alone.chain(breaks).chain(needs).collect();
        // Those about a set with its ways in a row: the check then finds the others' jobs once.
        facts.sort_by_key(|fact| match fact {
            Fact::Alone(set) => (*set, None),
            Fact::Breaks { set, ways, .. } | Fact::Needs { set, ways, .. } => (*set, Some(*ways)),
        });
        facts
    }

    /// A set with its pages locked in these ways.
    pub fn content(&mut self, set: Set, ways: u32) -> Rc<Content> {
        let machine = self.machine;
        if self.contents.len() > MOST_KEPT {
            self.contents.clear();
        }
        let made = || Rc::new(machine.content(set, ways));
        Rc::clone(self.contents.entry((set, ways)).or_insert_with(made))
    }

    /// Least sum of the others' budgets: one access each.
    pub fn least_others(&self) -> u64 {
        u64::from(self.machine.cores) - 1
    }

    /// The least jobs of the others beside a set with this number of ways or more, if they are
    /// known.
    fn jobs(&mut self, set: Set, least: u32) -> Option<Arc<Rivals>> {
        let machine = self.machine;
        if !machine.known {
            return None;
        }
        let beside = self.beside.iter().rev().find(|b| (b.0, b.1) == (set, least));
        if let Some((_, _, known)) = beside {
            return Some(Arc::clone(known));
        }
        let jobs = machine.least_jobs(machine.all() & !set, machine.ways.0.saturating_sub(least));
        if self.beside.len() >= MOST_BESIDE {
            self.beside.clear();
        }
        self.beside.push((set, least, Arc::clone(&jobs)));
        Some(jobs)
    }

    /// The key of facts: without the others' jobs, fewer ways only raise bounds.
    fn key(&self, set: Set, ways: Ways) -> (Set, Ways) {
        (set, if self.machine.known { ways } else { Ways { least: 1, ..ways } })
    }

    /// The same sets for another question with the same limits.
    #[must_use]
    pub fn again(self, question: Question) -> Self {
        Self { question, ..self }
    }

    /// Looks at all sets alone, those with fewer tasks first.
    ///
    /// # Errors
    /// When the caller wants it to end.
    pub fn all_alone(&mut self, pause: &mut dyn FnMut() -> Result<(), End>) -> Result<(), End> {
        for set in 0..=self.machine.all() {
            pause()?;
            let part = bits(set).any(|bit| self.impossible(set & !(1 << bit)));
            let breaks = !part && set & self.machine.hard != 0 && self.breaks_alone(set);
            if breaks {
                self.alone.push(set);
            }
            self.impossible.push(part || breaks);
        }
        Ok(())
    }

    /// Is the question about a part of the choices, which has smaller ones?
    pub fn in_parts(&self) -> bool {
        let part = self.machine.few_left == 0 || self.question.part != Part::ALL;
        part && !self.smaller_parts().is_empty()
    }

    /// Parts that have all choices of the part of the question together; none if it is as small as
    /// the accuracy of shares.
    pub fn smaller_parts(&self) -> Vec<Part> {
        let (part, programs) = (self.question.part, self.machine.programs);
        let (least, most) = (part.least, part.most.min(self.machine.problem.bus));
        if self.question.speed <= 0.0 {
            Vec::new()
        } else if part.few == 0 {
            bits(programs).map(|bit| Part { least, most, few: 1 << bit }).collect()
        } else if most - least <= 1 + least / FINE {
            Vec::new()
        } else {
            let middle = (least as f64 * most as f64).sqrt() as u64;
            let middle = middle.clamp(least + 1, most - 1);
            vec![Part { most: middle, ..part }, Part { least: middle, most, ..part }]
        }
    }

    /// Does a set break a limit alone?
    pub fn impossible(&self, set: Set) -> bool {
        self.impossible.get(set as usize).copied().unwrap_or(true)
    }

    fn breaks_alone(&self, set: Set) -> bool {
        let machine = self.machine;
        let content = machine.content(set, machine.ways.1);
        let nobody = machine.known.then(|| machine.rivals(std::iter::empty(), &[]));
        let alone = machine.stall(machine.problem.bus, self.least_others(), nobody);
        !fits(&content, &alone, &self.question)
    }

    /// Is this sum of the others' budgets not known to break a limit with each of these ways?
    pub fn keeps(&mut self, set: Set, ways: Ways, others: u64) -> bool {
        let (key, endless) = (self.key(set, ways), self.machine.endless());
        let (mut keeps, mut breaks) = self.edges.get(&key).copied().unwrap_or((0, u64::MAX));
        if others > keeps && others < breaks {
            if self.tried(set, ways, others) {
                keeps = others
            } else {
                breaks = others
            }
            if keeps >= endless {
                keeps = u64::MAX;
            }
        }
        self.edges.insert(key, (keeps, breaks));
        others < breaks
    }

    /// Takes it as known that a set breaks a limit beside this sum of the others' budgets, and
    /// beside none that is smaller.
    #[cfg(test)]
    pub fn know(&mut self, set: Set, ways: Ways, breaks: u64) {
        self.edges.insert((set, ways), (breaks - 1, breaks));
    }

    /// The least sum of the others' budgets that is known to break a limit of a set with analysed
    /// tasks; [`u64::MAX`] if none does.
    pub fn breaks(&mut self, set: Set, ways: Ways) -> u64 {
        if self.keeps(set, ways, self.machine.endless()) {
            return u64::MAX;
        }
        let key = self.key(set, ways);
        let (mut works, mut breaks) = self.edges.get(&key).copied().unwrap_or_default();
        let least = works.max(1);
        while works < breaks && breaks - works > 1 + works / FINE && breaks > least {
            let middle = (works.max(1) as f64 * breaks as f64).sqrt() as u64;
            let middle = middle.clamp(works + 1, breaks - 1);
            if self.keeps(set, ways, middle) { works = middle } else { breaks = middle }
        }
        breaks
    }

    /// Does a set keep to the limits with the largest own budget, beside this sum of the others'?
    fn tried(&mut self, set: Set, ways: Ways, others: u64) -> bool {
        let content = self.content(set, ways.most);
        let (machine, jobs) = (self.machine, self.jobs(set, ways.least));
        fits(&content, &machine.stall(machine.problem.bus, others, jobs), &self.question)
    }

    /// An own budget below which the set breaks a limit with each of these ways, beside this sum of
    /// the others' budgets, or a little less.
    pub fn needs(&mut self, set: Set, ways: Ways, others: u64) -> u64 {
        self.needs_above(set, ways, others, 1)
    }

    /// The same, or `known` if that suffices.
    pub fn needs_above(&mut self, set: Set, ways: Ways, others: u64, known: u64) -> u64 {
        let floor = self.question.floor(self.machine, set).max(known);
        if set & self.machine.hard == 0 {
            return floor;
        }
        let others = if self.fine { rounded(others, 7) } else { rounded(others, 4) };
        let (set, ways) = self.key(set, ways);
        if let Some(&found) = self.needs.get(&(set, ways, others)) {
            return found.max(floor);
        }
        if self.suffice.get(&(set, ways, others)).is_some_and(|&enough| floor >= enough) {
            return floor;
        }
        let content = self.content(set, ways.most);
        let (machine, question, jobs) = (self.machine, self.question, self.jobs(set, ways.least));
        let keeps = |own: u64| fits(&content, &machine.stall(own, others, jobs.clone()), &question);
        let (mut fails, mut works) = (floor, machine.problem.bus);
        if keeps(fails) || !keeps(works) {
            self.suffice.insert((set, ways, others), floor);
            return floor;
        }
        // From the guess on in larger steps, up or down.
        let mut step = 1.05f64;
        let mut next = self.guess.clamp(fails, works);
        while next > fails && next < works {
            let up = !keeps(next);
            (fails, works) = if up { (next, works) } else { (fails, next) };
            let further = if up { next as f64 * step } else { next as f64 / step };
            if (up && further as u64 >= works) || (!up && further as u64 <= fails) {
                break;
            }
            next = further as u64;
            step *= step;
        }
        let part = if self.fine { 4 * FINE } else { FINE / 2 };
        let found = last_failing_to(part, fails, works, keeps) + 1;
        self.guess = found;
        self.needs.insert((set, ways, others), found);
        found
    }
}

/// A sum of budgets, less by at most the part that this power of two is of it.
fn rounded(sum: u64, power: u32) -> u64 {
    let low = sum.max(1).ilog2().saturating_sub(power);
    (sum >> low) << low
}
