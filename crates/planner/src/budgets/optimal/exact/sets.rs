//! Limits of a set of tasks on a core of its own, for one question.
//!
//! Problem: whether a core keeps to the limits depends on the others' budgets, and these on it. Rule:
//! two numbers are found. For each set and number of ways it is the least sum of the others' budgets
//! that breaks a limit, while the core's own budget is as large as can be. For each set it is the
//! least own budget while the others have next to none. Bounds never fall when the others' budgets grow, and never rise with an
//! own budget or a way more (`analysis::interference`, test `monotone`). So no choice with this set
//! on a core exceeds the first or goes below the second. Where the others' jobs are known, those of
//! all tasks outside of the set count, with as many pages as one core can have. A set that breaks a
//! limit beside no other core breaks it with more tasks: they add work, and take pages. Does not
//! cover: what other sets a set can stand beside ([`super::cover`]).

use super::machine::{Content, Machine};
use crate::budgets::optimal::certificate::{Fact, Question, Set, bits};
use solocore_analysis::interference::{Rivals, Stall};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Limits are found to this part of themselves.
const FINE: u64 = 250;

/// What is known of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    #[default]
    Unknown,
    /// It breaks a limit even alone on the machine, and so does each larger set.
    Alone,
    /// It breaks a limit beside the tasks outside of it, or its cores are stated otherwise.
    Impossible,
    /// It is not known to break one with these ways at least, and this own budget at least.
    Open {
        /// Ways.
        ways: u32,
        /// Accesses in a period.
        budget: u64,
    },
}

/// Sets of tasks with their limits.
#[derive(Debug)]
pub struct Sets<'a> {
    pub machine: &'a Machine<'a>,
    pub question: Question,
    states: Vec<State>,
    /// The sets that break a limit alone, none of whose parts does.
    alone: Vec<Set>,
    /// Least known sum of the others' budgets that breaks a limit, by set and ways.
    breaks: HashMap<(Set, u32), u64>,
    contents: HashMap<(Set, u32), Rc<Content>>,
}

/// Do the jobs of a core keep to the limits of a question?
pub fn fits(content: &Content, stall: &Stall, question: &Question) -> bool {
    let once = stall.once();
    let of = |asked| stall.of(asked);
    // The task of the lowest priority is the first to break a limit.
    content.jobs.iter().rev().all(|job| job.within(&of, [once, once], question.limits))
}

/// The largest number from `fails` on for which a search by ratios finds that it fails; `works` does
/// not.
pub fn last_failing(mut fails: u64, mut works: u64, mut keeps: impl FnMut(u64) -> bool) -> u64 {
    while works - fails > 1 + works / FINE {
        let middle = ((fails as f64 * works as f64).sqrt() as u64).clamp(fails + 1, works - 1);
        if keeps(middle) { works = middle } else { fails = middle }
    }
    fails
}

impl<'a> Sets<'a> {
    pub fn new(machine: &'a Machine<'a>, question: Question) -> Self {
        let states = vec![State::Unknown; machine.all() as usize + 1];
        Self {
            machine,
            question,
            states,
            alone: Vec::new(),
            breaks: HashMap::new(),
            contents: HashMap::new(),
        }
    }

    /// What was found, as facts that can be checked.
    pub fn facts(&self) -> Vec<Fact> {
        let needs = |(set, state): (Set, &State)| match *state {
            State::Open { budget, .. } if budget > self.question.floor(self.machine, set) => {
                Some(Fact::Needs { set, budget })
            }
            _ => None,
        };
        let mut breaks: Vec<(Set, u32, u64)> =
            self.breaks.iter().map(|(&(set, ways), &others)| (set, ways, others)).collect();
        breaks.retain(|&(.., others)| others < u64::MAX);
        breaks.sort_unstable();
        let breaks =
            breaks.into_iter().map(|(set, ways, others)| Fact::Breaks { set, ways, others });
        let alone = self.alone.iter().map(|&set| Fact::Alone(set));
        alone.chain(breaks).chain((0..).zip(&self.states).filter_map(needs)).collect()
    }

    /// A set with its pages locked in these ways.
    pub fn content(&mut self, set: Set, ways: u32) -> Rc<Content> {
        let machine = self.machine;
        let made = || Rc::new(machine.content(set, ways));
        Rc::clone(self.contents.entry((set, ways)).or_insert_with(made))
    }

    /// Least sum of the others' budgets: one access each.
    pub fn least_others(&self) -> u64 {
        u64::from(self.machine.cores) - 1
    }

    /// Jobs that the others make at least, where they are known.
    fn jobs(&self, set: Set, ways: u32) -> Option<Arc<Rivals>> {
        let (all, _) = self.machine.ways;
        let others = self.machine.cores.saturating_sub(2);
        let ways = all.saturating_sub(ways).saturating_sub(others).max(1);
        self.machine.known.then(|| self.machine.least_jobs(self.machine.all() & !set, ways))
    }

    /// What is known of a set. Sets with fewer tasks must have been asked for.
    pub fn state(&mut self, set: Set) -> State {
        let known = self.states[set as usize];
        if known != State::Unknown {
            return known;
        }
        let found = self.found(set);
        self.states[set as usize] = found;
        found
    }

    fn found(&mut self, set: Set) -> State {
        let smaller = |bit: usize| self.states[(set & !(1 << bit)) as usize] == State::Alone;
        if set != 0 && bits(set).any(smaller) {
            return State::Alone;
        }
        let bus = self.machine.problem.bus;
        let floor = self.question.floor(self.machine, set);
        let most = self.machine.ways.1;
        if set & self.machine.hard == 0 {
            return State::Open { ways: 1, budget: floor };
        }
        let content = self.content(set, most);
        let nobody = self.machine.known.then(|| self.machine.rivals(std::iter::empty(), &[]));
        let alone = self.machine.stall(bus, self.least_others(), nobody);
        if content.time < 0.0 || !fits(&content, &alone, &self.question) {
            self.alone.push(set);
            return State::Alone;
        }
        if !self.machine.allowed(set) || !self.keeps(set, most, self.least_others()) {
            return State::Impossible;
        }
        let (mut fails, mut ways) = (0, most);
        while ways - fails > 1 {
            let middle = u32::midpoint(fails, ways);
            if self.keeps(set, middle, self.least_others()) {
                ways = middle;
            } else {
                fails = middle;
            }
        }
        State::Open { ways, budget: self.least_budget(set, floor) }
    }

    /// Is this sum of the others' budgets below the least one that is known to break a limit?
    pub fn keeps(&mut self, set: Set, ways: u32, others: u64) -> bool {
        others < self.breaks(set, ways)
    }

    /// The least sum of the others' budgets that is known to break a limit of a set with analysed
    /// tasks; [`u64::MAX`] if none does.
    pub fn breaks(&mut self, set: Set, ways: u32) -> u64 {
        if let Some(&known) = self.breaks.get(&(set, ways)) {
            return known;
        }
        let found = self.least_break(set, ways);
        self.breaks.insert((set, ways), found);
        found
    }

    fn least_break(&mut self, set: Set, ways: u32) -> u64 {
        let content = self.content(set, ways);
        let (machine, question, jobs) = (self.machine, self.question, self.jobs(set, ways));
        let bus = machine.problem.bus;
        let keeps =
            |others: u64| fits(&content, &machine.stall(bus, others, jobs.clone()), &question);
        let (least, endless) = (self.least_others(), machine.endless());
        if keeps(endless) {
            return u64::MAX;
        }
        if !keeps(least) {
            return 0;
        }
        // The last sum that keeps them is looked for; the one after it is known to break one.
        let (mut works, mut breaks) = (least, endless);
        while breaks - works > 1 + works / FINE {
            let middle =
                ((works as f64 * breaks as f64).sqrt() as u64).clamp(works + 1, breaks - 1);
            if keeps(middle) { works = middle } else { breaks = middle }
        }
        breaks
    }

    /// An own budget below which the set breaks a limit.
    fn least_budget(&mut self, set: Set, floor: u64) -> u64 {
        let most = self.machine.ways.1;
        let content = self.content(set, most);
        let (machine, question, jobs) = (self.machine, self.question, self.jobs(set, most));
        let others = self.least_others();
        let keeps = |own: u64| fits(&content, &machine.stall(own, others, jobs.clone()), &question);
        if keeps(floor) {
            return floor;
        }
        last_failing(floor, machine.problem.bus, keeps) + 1
    }
}
