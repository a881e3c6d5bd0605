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

use super::known::{Kept, Known};
use super::machine::{Content, Machine};
use crate::budgets::optimal::certificate::{Fact, Part, Question, Set, Ways, bits};
use rayon::prelude::*;
use solocore_analysis::interference::{Rivals, Stall};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits are found to this part of themselves.
const FINE: u64 = 100;

/// Jobs of other cores that count for a set: those that take most of the memory's time. More of
/// them would close little more, and take long to add up.
pub const FEW_JOBS: usize = 8;

/// Most sets with their pages that are kept, and most of those with the jobs beside them.
const MOST_KEPT: usize = 1 << 16;
const MOST_BESIDE: usize = 1 << 12;
/// A limit is looked for beside a sum that is larger by one part in this number first.
const AHEAD: u64 = 4;
/// Sets that are looked at before the caller is asked whether to end.
pub const AT_ONCE: usize = 1 << 10;

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

/// The part of itself to which a limit is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Coarse,
    Plain,
    Fine,
}

/// A number of ways of a set, with the least budget, and the least sum of the others' that is known
/// to break a limit.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    pub ways: u32,
    pub budget: u64,
    pub breaks: u64,
}

/// Sets of tasks with their limits. All threads of a search share them. The knowledge of each set
/// has a lock of its own.
#[derive(Debug)]
pub struct Sets<'a> {
    pub machine: &'a Machine<'a>,
    pub question: Question,
    /// Does a set break a limit alone?
    impossible: Vec<bool>,
    /// Have all been asked about alone, with these limits?
    all_asked: bool,
    /// The sets that break a limit alone, none of whose parts does.
    alone: Vec<Set>,
    /// What is known of each set.
    known: Vec<Mutex<Known>>,
    grade: Grade,
    /// Own budgets that are tried, rising, by grade.
    steps: [Vec<u64>; 3],
    /// The last budget that was found: the next one is often near it.
    guess: AtomicU64,
    contents: Kept<(Set, u32), Content>,
    /// Jobs of the others beside a set, with its least ways.
    beside: Kept<(Set, u32), Rivals>,
}

/// Do the jobs of a core keep to the limits of a question?
pub fn fits(content: &Content, stall: &Stall, question: &Question) -> bool {
    let once = stall.once();
    let of = |asked| stall.of(asked);
    // The task of the lowest priority is the first to break a limit.
    content.jobs().all(|job| job.within(&of, [once, once], question.limits))
}

/// The largest number from `fails` on for which a search by ratios finds that it fails; `works`
/// does not.
pub fn last_failing(mut fails: u64, mut works: u64, mut keeps: impl FnMut(u64) -> bool) -> u64 {
    while works - fails > 1 + works / FINE {
        let middle = ((fails as f64 * works as f64).sqrt() as u64).clamp(fails + 1, works - 1);
        if keeps(middle) { works = middle } else { fails = middle }
    }
    fails
}

/// Numbers from 1 to `most`, each larger than the one before by about one part in `parts`.
fn steps(parts: u64, most: u64) -> Vec<u64> {
    let next = |n: &u64| Some(n + 1 + n / parts).filter(|next| *next < most);
    std::iter::successors(Some(1), next).chain([most]).collect()
}

impl<'a> Sets<'a> {
    pub fn new(machine: &'a Machine<'a>, question: Question) -> Self {
        let bus = machine.problem.bus;
        Self {
            machine,
            question,
            impossible: Vec::new(),
            all_asked: false,
            alone: Vec::new(),
            known: (0..=machine.all()).map(|_| Mutex::default()).collect(),
            grade: Grade::Coarse,
            steps: [steps(AHEAD, bus), steps(FINE / 2, bus), steps(4 * FINE, bus)],
            guess: AtomicU64::new(1),
            contents: Kept::of(MOST_KEPT),
            beside: Kept::of(MOST_BESIDE),
        }
    }

    /// What is known of a set.
    fn known(&self, set: Set) -> MutexGuard<'_, Known> {
        // A thread that panicked has left single answers, each of which holds.
        self.known[set as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All facts that were found: those about a set with its ways in a row, so that the check finds
    /// the others' jobs once.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = self.alone.iter().map(|&set| Fact::Alone(set)).collect();
        for set in 0..=self.machine.all() {
            facts.extend(self.known(set).facts(set, self.question.floor(self.machine, set)));
        }
        facts
    }

    /// A set with its pages locked in these ways.
    pub fn content(&self, set: Set, ways: u32) -> Arc<Content> {
        self.contents.of_or((set, ways), || Arc::new(self.machine.content(set, ways)))
    }

    /// Are limits found to their smallest part?
    pub fn is_fine(&self) -> bool {
        self.grade == Grade::Fine
    }

    /// Least sum of the others' budgets: one access each.
    pub fn least_others(&self) -> u64 {
        u64::from(self.machine.cores) - 1
    }

    /// The least jobs of the others beside a set with this number of ways or more, if they are
    /// known.
    fn jobs(&self, set: Set, least: u32) -> Option<Arc<Rivals>> {
        let machine = self.machine;
        let left = machine.ways.0.saturating_sub(least);
        let made = || machine.least_jobs(machine.all() & !set, left);
        machine.known.then(|| self.beside.of_or((set, least), made))
    }

    /// The ways of facts: without the others' jobs, fewer ways only raise bounds.
    fn of_facts(&self, ways: Ways) -> Ways {
        if self.machine.known { ways } else { Ways { least: 1, ..ways } }
    }

    /// The same sets for another question: a set that breaks a limit breaks a tighter one, too.
    #[must_use]
    pub fn again(mut self, question: Question) -> Self {
        if !self.question.has_limits_of(&question) {
            (self.all_asked, self.grade) = (false, Grade::Coarse);
            for known in &mut self.known {
                known.get_mut().unwrap_or_else(PoisonError::into_inner).tighter();
            }
        }
        Self { question, ..self }
    }

    /// Looks at all sets alone, those with fewer tasks first.
    ///
    /// # Errors
    /// When the caller wants it to end.
    pub fn all_alone(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), End> {
        if self.all_asked {
            return Ok(());
        }
        let all = self.machine.all();
        self.impossible.resize(all as usize + 1, false);
        for count in 0..=all.count_ones() {
            let sets: Vec<Set> = (0..=all).filter(|set| set.count_ones() == count).collect();
            for some in sets.chunks(AT_ONCE) {
                if stop() {
                    return Err(End::Stopped);
                }
                let part = |set: Set| bits(set).any(|bit| self.impossible(set & !(1 << bit)));
                let found: Vec<(Set, bool)> = some
                    .par_iter()
                    .filter(|&&set| !self.impossible(set))
                    .filter_map(|&set| match (part(set), set & self.machine.hard != 0) {
                        (true, _) => Some((set, true)),
                        (false, hard) => (hard && self.breaks_alone(set)).then_some((set, false)),
                    })
                    .collect();
                for (set, part) in found {
                    self.impossible[set as usize] = true;
                    if !part {
                        self.alone.push(set);
                    }
                }
            }
        }
        self.all_asked = true;
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
            // Below the floor, choices with larger shares may exclude those with smaller ones.
            let floor = self.machine.problem.floor;
            let middle = if least < floor && floor < most {
                floor
            } else {
                ((least as f64 * most as f64).sqrt() as u64).clamp(least + 1, most - 1)
            };
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
    pub fn keeps(&self, set: Set, ways: Ways, others: u64) -> bool {
        let ways = self.of_facts(ways);
        let mut known = self.known(set);
        if let Some(keeps) = known.keeps(ways, others) {
            return keeps;
        }
        // The next questions are about larger sums: often none breaks a limit, or not soon.
        let endless = self.machine.endless();
        for more in [endless, others.saturating_add(others / AHEAD)] {
            if more > others && known.keeps(ways, more).is_none() {
                let keeps = self.tried(set, ways, more);
                known.learn(ways, if keeps && more >= endless { u64::MAX } else { more }, keeps);
                if keeps {
                    return true;
                }
            }
        }
        let keeps = self.tried(set, ways, others);
        known.learn(ways, if keeps && others >= endless { u64::MAX } else { others }, keeps);
        keeps
    }

    /// Takes it as known that a set breaks a limit beside this sum of the others' budgets, and
    /// beside none that is smaller.
    #[cfg(test)]
    pub fn know(&mut self, set: Set, ways: Ways, breaks: u64) {
        let mut known = self.known(set);
        known.learn(ways, breaks - 1, true);
        known.learn(ways, breaks, false);
    }

    /// The least sum of the others' budgets that is known to break a limit of a set with analysed
    /// tasks; [`u64::MAX`] if none does.
    pub fn breaks(&self, set: Set, ways: Ways) -> u64 {
        let endless = self.machine.endless();
        if self.keeps(set, ways, endless) {
            return u64::MAX;
        }
        let first = self.least_others();
        if !self.keeps(set, ways, first) {
            return first;
        }
        let (mut works, mut breaks) = (first, endless);
        while breaks - works > 1 + works / FINE {
            let middle =
                ((works as f64 * breaks as f64).sqrt() as u64).clamp(works + 1, breaks - 1);
            if self.keeps(set, ways, middle) { works = middle } else { breaks = middle }
        }
        breaks
    }

    /// The numbers of ways of a set among these, with its budgets by ways.
    pub fn owned(&self, set: Set, budgets: &[f64], ways: Ways) -> Vec<Owned> {
        let known = self.known(set);
        let of = |ways: u32| {
            let budget = *budgets.get(ways as usize)?;
            let breaks = known.breaks(self.of_facts(Ways::just(ways)));
            (budget < f64::INFINITY).then_some(Owned { ways, budget: budget as u64, breaks })
        };
        (ways.least..=ways.most).filter_map(of).collect()
    }

    /// Does a set keep to the limits with the largest own budget, beside this sum of the others'?
    fn tried(&self, set: Set, ways: Ways, others: u64) -> bool {
        let content = self.content(set, ways.most);
        self.fits(set, ways, &content, [self.machine.problem.bus, others])
    }

    /// Does a set keep to the limits with an own budget, beside a sum of the others'?
    fn fits(&self, set: Set, ways: Ways, content: &Content, [own, others]: [u64; 2]) -> bool {
        let beside = |jobs| fits(content, &self.machine.stall(own, others, jobs), &self.question);
        // The others' jobs only help, and take long to sum up.
        beside(None) || (self.machine.known && beside(self.jobs(set, ways.least)))
    }

    /// The least own budget from `least` to `most` with which a set keeps to the limits, where it
    /// leaves the others the rest of a sum; `None`: there is none. A smaller one breaks a limit.
    pub fn least_of(&self, set: Set, ways: u32, sum: u64, [least, most]: [u64; 2]) -> Option<u64> {
        let content = self.content(set, ways);
        let keeps = |own: u64| {
            let beside = [own, sum.saturating_sub(own)];
            self.fits(set, Ways::just(ways), &content, beside)
        };
        if keeps(least) {
            return Some(least);
        }
        keeps(most).then(|| last_failing(least, most, keeps) + 1)
    }

    /// An own budget below which the set breaks a limit with each of these ways, beside this sum of
    /// the others' budgets, or a little less.
    pub fn needs(&self, set: Set, ways: Ways, others: u64) -> u64 {
        self.needs_above(set, ways, others, 1)
    }

    /// The same, or `least` if that suffices.
    pub fn needs_above(&self, set: Set, ways: Ways, others: u64, least: u64) -> u64 {
        let floor = self.question.floor(self.machine, set).max(least);
        if set & self.machine.hard == 0 {
            return floor;
        }
        let others = rounded(others, if self.grade == Grade::Fine { 7 } else { 4 });
        let ways = self.of_facts(ways);
        let mut known = self.known(set);
        let (floor, enough) = known.needs(ways, others, floor);
        if enough {
            return floor;
        }
        let content = self.content(set, ways.most);
        let beside = |own: u64, others: u64| self.fits(set, ways, &content, [own, others]);
        if beside(floor, others) {
            // The next question is about a larger sum.
            let more = others.saturating_add(others / AHEAD);
            let most = if more > others && beside(floor, more) { more } else { others };
            known.suffices(ways, most, floor);
            return floor;
        }
        let bus = self.machine.problem.bus;
        if known.keeps(ways, others) != Some(true) && !beside(bus, others) {
            known.suffices(ways, others, floor);
            return floor;
        }
        let steps = &self.steps[self.grade as usize];
        let at = |budget: u64| steps.partition_point(|&step| step <= budget).saturating_sub(1);
        let guess = known.last_need().unwrap_or_else(|| self.guess.load(Ordering::Relaxed));
        let keeps = |at: usize| beside(steps[at], others);
        let found = steps[last_failing_near(at(floor), steps.len() - 1, at(guess), keeps)] + 1;
        self.guess.store(found, Ordering::Relaxed);
        known.needed(ways, others, found);
        found.max(floor)
    }

    /// Looks for limits to a smaller part of themselves from now on, if there is one: is there?
    pub fn finer(&mut self) -> bool {
        self.grade = match self.grade {
            Grade::Coarse => Grade::Plain,
            // The jobs of the others are known only roughly, which is worth no fine budgets.
            Grade::Plain if !self.machine.known => Grade::Fine,
            _ => return false,
        };
        for known in &mut self.known {
            known.get_mut().unwrap_or_else(PoisonError::into_inner).finer();
        }
        true
    }
}

/// The last number for which a search finds that it fails, from a guess on in larger and larger
/// steps, and then by halves: the same for each guess. `fails` does, and `works` does not.
fn last_failing_near(
    mut fails: usize,
    mut works: usize,
    guess: usize,
    keeps: impl Fn(usize) -> bool,
) -> usize {
    let (mut next, mut step) = (guess.clamp(fails, works), 1);
    let up = next <= fails || (next < works && !keeps(next));
    if up {
        fails = next.max(fails);
    } else {
        works = next.min(works);
    }
    loop {
        next = if up { fails + step } else { works.saturating_sub(step) };
        if next <= fails || next >= works {
            break;
        }
        let kept = keeps(next);
        if kept {
            works = next
        } else {
            fails = next
        }
        if kept == up {
            break;
        }
        step *= 2;
    }
    while works - fails > 1 {
        let middle = usize::midpoint(fails, works);
        if keeps(middle) { works = middle } else { fails = middle }
    }
    fails
}

/// A sum of budgets, less by at most the part that this power of two is of it.
fn rounded(sum: u64, power: u32) -> u64 {
    let low = sum.max(1).ilog2().saturating_sub(power);
    (sum >> low) << low
}

#[cfg(test)]
mod tests {
    use super::last_failing_near;

    /// A guess only saves steps: facts do not depend on the order in which threads find them.
    #[test]
    fn the_last_failing_number_is_the_same_for_each_guess() {
        for works in 1..20 {
            for last in 0..works {
                for guess in 0..works + 3 {
                    let keeps = |at: usize| {
                        assert!(at > 0 && at < works, "its answer is known");
                        at > last
                    };
                    assert_eq!(last_failing_near(0, works, guess, keeps), last, "from {guess}");
                }
            }
        }
    }
}
