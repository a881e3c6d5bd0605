//! All ways to put the tasks on the cores, each closed by a limit of its sets or by budgets.
//!
//! Rule: cores are equal, so that a placement is a partition of the tasks. Its first set has the
//! first task, the next one the first task that is left, and so on. A partition is closed where a set
//! breaks a limit by itself, where the sets need more ways than there are, or where the least budgets
//! of the others break a limit of one. The others are closed with each split of the ways by
//! [`Split`], or are solved. Does not cover: what is gained by a split with ways left over, as a way
//! more never raises a bound.

use super::programs::Share;
use super::sets::{Sets, State};
use super::split::{Split, others, with_speed};
use crate::budgets::optimal::candidate::Candidate;
use crate::budgets::optimal::certificate::{Leaf, Set};

/// The reason for an end before all is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The caller wanted it.
    Stopped,
    /// A choice that is better was found.
    Better,
}

/// What the caller has to say.
pub struct Caller<'a> {
    /// Shall the search end?
    pub stop: &'a dyn Fn() -> bool,
    /// Solves a candidate; is it better than the best so far?
    pub solve: &'a mut dyn FnMut(&Candidate) -> bool,
}

/// A search over all partitions.
pub struct Cover<'s, 'a, 'c> {
    pub sets: &'s mut Sets<'a>,
    pub caller: &'s mut Caller<'c>,
    /// Partitions with their splits that were closed by budgets.
    pub leaves: Vec<Leaf>,
    /// Splits that could not be closed, and are no better.
    pub open: u64,
    /// By set: ways, budget, least sum of the others' budgets that breaks a limit, largest speed.
    table: Vec<Option<Entry>>,
    steps: u32,
}

/// What a partition asks of a set.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ways: u32,
    budget: u64,
    breaks: u64,
    speed: f64,
}

/// Sums over the sets of a partition so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    ways: u32,
    budgets: u64,
    speed: f64,
}

impl<'s, 'a, 'c> Cover<'s, 'a, 'c> {
    pub fn new(sets: &'s mut Sets<'a>, caller: &'s mut Caller<'c>) -> Self {
        Self { sets, caller, leaves: Vec::new(), open: 0, table: Vec::new(), steps: 0 }
    }

    /// Closes all partitions.
    ///
    /// # Errors
    /// The reason for an end before that.
    pub fn all(&mut self) -> Result<(), End> {
        let all = self.sets.machine.all();
        for set in 0..=all {
            self.pause(16)?;
            let entry = self.entry(set);
            self.table.push(entry);
        }
        self.place(all, &mut Vec::new(), Sums::default())
    }

    /// Asks now and then whether to end.
    fn pause(&mut self, each: u32) -> Result<(), End> {
        self.steps = self.steps.wrapping_add(1);
        let ends = self.steps.is_multiple_of(each) && (self.caller.stop)();
        if ends { Err(End::Stopped) } else { Ok(()) }
    }

    fn entry(&mut self, set: Set) -> Option<Entry> {
        let State::Open { ways, budget } = self.sets.state(set) else { return None };
        let (machine, question) = (self.sets.machine, self.sets.question);
        let hard = set & machine.hard != 0;
        let most = machine.ways.1;
        let breaks = if hard { self.sets.breaks(set, most) } else { u64::MAX };
        let mut entry = Entry { ways, budget, breaks, speed: 0.0 };
        if question.speed > 0.0 && set & machine.programs != 0 {
            let content = self.sets.content(set, most);
            let ways = machine.stated_ways(most);
            let share = Share { set, content: &content, ways, most: 0 };
            entry.speed = machine.speed(&share, machine.problem.bus);
        }
        Some(entry)
    }

    /// Places the rest of the tasks, the first of them in a set of its own core.
    fn place(&mut self, rest: Set, placed: &mut Vec<Set>, sums: Sums) -> Result<(), End> {
        if rest == 0 {
            return self.partition(placed);
        }
        let left = self.sets.machine.cores - placed.len() as u32;
        if left == 0 {
            return Ok(());
        }
        let first = rest & rest.wrapping_neg();
        let mut more = rest ^ first;
        loop {
            self.pause(1 << 12)?;
            let set = first | more;
            if let Some(entry) = self.table[set as usize] {
                let sums = Sums {
                    ways: sums.ways + entry.ways,
                    budgets: sums.budgets.saturating_add(entry.budget),
                    speed: sums.speed + entry.speed,
                };
                placed.push(set);
                if self.possible(placed, sums, rest & !set) {
                    self.place(rest & !set, placed, sums)?;
                }
                placed.pop();
            }
            if more == 0 || left == 1 {
                return Ok(());
            }
            more = (more - 1) & (rest ^ first);
        }
    }

    /// May sets with these sums be part of a partition?
    fn possible(&self, placed: &[Set], sums: Sums, rest: Set) -> bool {
        let machine = self.sets.machine;
        let left = machine.cores - placed.len() as u32;
        let programs = f64::from((rest & machine.programs).count_ones());
        let all = sums.budgets.saturating_add(u64::from(left));
        let keeps = |&set: &Set| {
            self.table[set as usize].is_some_and(|entry| all - entry.budget < entry.breaks)
        };
        sums.ways + left <= machine.ways.0
            && (left > 0 || rest == 0)
            && sums.speed + programs >= self.sets.question.speed
            && placed.iter().all(keeps)
    }

    /// Closes a partition.
    fn partition(&mut self, placed: &[Set]) -> Result<(), End> {
        let (machine, question) = (self.sets.machine, self.sets.question);
        let mut placed = placed.to_vec();
        placed.resize(machine.cores as usize, 0);
        let entries: Vec<Entry> =
            placed.iter().filter_map(|&set| self.table[set as usize]).collect();
        let mut budgets: Vec<u64> = entries.iter().map(|entry| entry.budget).collect();
        let most = room(&entries, &budgets, |at| placed[at] & machine.hard != 0);
        let top = machine.ways.1;
        let contents: Vec<_> = placed.iter().map(|&set| self.sets.content(set, top)).collect();
        let ways = |_| machine.stated_ways(top);
        if with_speed(machine, &contents, &placed, &question, ways, |at| most[at], &mut budgets)
            .is_none()
        {
            return Ok(());
        }
        let mut least = Vec::with_capacity(placed.len());
        for (at, &set) in placed.iter().enumerate() {
            let Some(ways) = self.least_ways(set, others(&budgets, at)) else { return Ok(()) };
            least.push(ways);
        }
        self.split(&placed, &entries, &mut Vec::new(), &least)
    }

    /// The least ways with which a set is not known to break a limit beside these budgets.
    fn least_ways(&mut self, set: Set, others: u64) -> Option<u32> {
        let (mut fails, mut works) = (0, self.sets.machine.ways.1);
        if set & self.sets.machine.hard == 0 {
            return Some(1);
        }
        if !self.sets.keeps(set, works, others) {
            return None;
        }
        while works - fails > 1 {
            let middle = u32::midpoint(fails, works);
            if self.sets.keeps(set, middle, others) { works = middle } else { fails = middle }
        }
        Some(works)
    }

    /// Closes all splits of the ways that begin with `ways`.
    fn split(
        &mut self,
        placed: &[Set],
        entries: &[Entry],
        ways: &mut Vec<u32>,
        least: &[u32],
    ) -> Result<(), End> {
        let machine = self.sets.machine;
        let at = ways.len();
        let used: u32 = ways.iter().sum();
        let later: u32 = least[at..].iter().skip(1).sum();
        let Some(&own) = least.get(at) else { return self.leaf(placed, entries, ways) };
        let Some(most) = machine.ways.0.checked_sub(used + later) else { return Ok(()) };
        // A way is of use to a core that has tasks.
        let useful =
            |set: Set| set & machine.hard != 0 || (self.sets.question.speed > 0.0 && set != 0);
        let last = !placed[at + 1..].iter().any(|&set| useful(set));
        let range = match (useful(placed[at]), last) {
            (false, _) => own..=own.min(most),
            (true, true) => most.max(own)..=most,
            (true, false) => own..=most,
        };
        for own in range {
            ways.push(own);
            self.split(placed, entries, ways, least)?;
            ways.pop();
        }
        Ok(())
    }

    /// Closes a partition with its ways.
    fn leaf(&mut self, placed: &[Set], entries: &[Entry], ways: &[u32]) -> Result<(), End> {
        self.pause(1)?;
        let (machine, question) = (self.sets.machine, self.sets.question);
        let contents: Vec<_> =
            placed.iter().zip(ways).map(|(&set, &ways)| self.sets.content(set, ways)).collect();
        let mut budgets: Vec<u64> = entries.iter().map(|entry| entry.budget).collect();
        let mut exact = entries.to_vec();
        for ((entry, &set), &ways) in exact.iter_mut().zip(placed).zip(ways) {
            if set & machine.hard != 0 {
                entry.breaks = self.sets.breaks(set, ways);
            }
        }
        let most = room(&exact, &budgets, |at| placed[at] & machine.hard != 0);
        let free = |at: usize| contents[at].free_ways;
        let steps =
            with_speed(machine, &contents, placed, &question, free, |at| most[at], &mut budgets)
                .map_or(Some(Vec::new()), |()| {
                    Split::new(self.sets, placed, ways, &budgets).refuted(budgets)
                });
        if let Some(steps) = steps {
            self.leaves.push(Leaf { sets: placed.to_vec(), ways: ways.to_vec(), steps });
            return Ok(());
        }
        if (self.caller.solve)(&machine.candidate(placed, ways)) {
            return Err(End::Better);
        }
        self.open += 1;
        Ok(())
    }
}

/// Largest budget of each core: so much as no other core breaks a limit for it.
fn room(entries: &[Entry], budgets: &[u64], hard: impl Fn(usize) -> bool) -> Vec<u64> {
    let all = budgets.iter().fold(0, |sum: u64, &b| sum.saturating_add(b));
    let beside = |own: usize, at: usize| {
        let rest = all - budgets[own] - if own == at { 0 } else { budgets[at] };
        entries[at].breaks.saturating_sub(rest).saturating_sub(1)
    };
    let of = |own: usize| {
        let others = (0..entries.len()).filter(|&at| at != own && hard(at));
        others.map(|at| beside(own, at)).min().unwrap_or(u64::MAX)
    };
    (0..entries.len()).map(of).collect()
}
