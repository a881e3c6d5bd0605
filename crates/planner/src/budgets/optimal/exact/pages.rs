//! Pages that the tasks of a set lock, without handing them out one by one.
//!
//! Rule: `hand_out` gives each further page to the task with the largest gain from its next one; of
//! equal gains, to the first task. A page is then taken right after the pages of its task before
//! it, if its gain is larger than theirs: so its rank is that of the least gain up to it. With
//! `capacity` pages, a set has those of the best ranks, and of the last rank those of its first
//! tasks. Sums by rank make that a search by halves.

use crate::budgets::optimal::certificate::{Set, bits};
use crate::budgets::optimal::pages::UNITY;
use crate::budgets::optimal::problem::Problem;
use crate::budgets::optimal::speed::Need;
use solocore_model::system::Objective;
use std::sync::Arc;

/// Most runs of the savings by pages.
const MOST_RUNS: usize = 5;
/// The least saving of the last page of a run, in hundredths of the saving of the first page.
const PARTS: [u64; 8] = [98, 95, 90, 80, 70, 50, 30, 10];

/// Pages with the cost that each of them saves, falling.
pub type Saved = Arc<[(u64, u64)]>;

/// Pages by rank.
#[derive(Debug, Default)]
pub struct Pages {
    /// By bit and rank, the pages of the task with a better rank.
    before: Vec<Vec<u32>>,
    /// Bits in the order of their tasks.
    order: Vec<usize>,
    ranks: usize,
}

impl Pages {
    /// The pages of these tasks, by bit; with all ways, and the most ways of a core (see
    /// [`super::machine::Machine::ways`]).
    pub fn of(problem: &Problem, tasks: &[usize]) -> (Self, (u32, u32)) {
        let base = &problem.base;
        let (all, cores) = (base.platform.llc.ways, base.cores);
        let choice = base.pages.is_own() && all >= cores;
        let ways = if choice { (all, all - cores + 1) } else { (cores, 1) };
        let most = base.lock_capacity_in(if choice { ways.1 } else { base.ways });
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let worth: Vec<Vec<u128>> = tasks.iter().map(|&t| worth(problem, t, most)).collect();
        let mut all: Vec<u128> = worth.iter().flatten().copied().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        let below = |worth: &Vec<u128>| {
            all.iter()
                .scan(0usize, |count, &rank| {
                    let before = *count;
                    while worth.get(*count).is_some_and(|&gain| gain >= rank) {
                        *count += 1;
                    }
                    Some(before as u32)
                })
                .chain([worth.len() as u32])
                .collect()
        };
        let before: Vec<Vec<u32>> = worth.iter().map(below).collect();
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|&bit| tasks[bit]);
        let speeds = problem.needs.iter().any(Need::has_ways);
        let ways = if all.is_empty() && !speeds { (cores, 1) } else { ways };
        (Self { before, order, ranks: all.len() }, ways)
    }

    /// Sets the locked pages of a set, by bit.
    pub fn locked(&self, set: Set, capacity: u64, out: &mut [u64]) {
        let count =
            |rank: usize| -> u64 { bits(set).map(|bit| u64::from(self.before[bit][rank])).sum() };
        // The largest rank up to which all pages have room.
        let (mut fits, mut not) = (0, self.ranks + 1);
        while not - fits > 1 {
            let middle = usize::midpoint(fits, not);
            if count(middle) <= capacity { fits = middle } else { not = middle }
        }
        let mut left = capacity - count(fits);
        for &bit in self.order.iter().filter(|&&bit| set >> bit & 1 == 1) {
            let own = &self.before[bit];
            let at = u64::from(own[fits]);
            let next = own.get(fits + 1).map_or(0, |&n| u64::from(n) - at).min(left);
            left -= next;
            out[bit] = at + next;
        }
    }
}

/// Least gain of the pages of a task up to each one, as `pages::lock` weighs them.
fn worth(problem: &Problem, task: usize, most: usize) -> Vec<u128> {
    let (w, base) = (&problem.work[task], &problem.base);
    let multiples = problem.objective == Objective::Bounds || problem.wish.is_some();
    if !w.hard() || (w.task.period.is_none() && !multiples) {
        return Vec::new();
    }
    let each = base.platform.dram.latency_max.ps();
    let (mut execution, mut least) = (w.wcet_ps(0, base), u128::MAX);
    let mut gain = |accesses: u64| {
        let gain = if multiples {
            let before = u128::from(execution);
            execution = execution.saturating_sub(accesses.saturating_mul(each));
            before * u128::from(UNITY) * 1000 / u128::from(problem.alone[task].max(1))
        } else {
            let period = w.task.period.map_or(u64::MAX, |p| p.ps());
            u128::from(accesses) * 1_000_000_000_000 / u128::from(period)
        };
        least = least.min(gain);
        least
    };
    w.demand.page_accesses().take(most).map(&mut gain).collect()
}

/// Pages with the cost that each of them saves at most, falling, by the accesses with a number of
/// pages. Runs of pages that save about as much count together. The first pages of a run save as
/// much as its very first one, and the others as little as its last one. The sum of a run stays the
/// same. So no number of pages has a smaller sum than its own, and that of whole runs is exact.
pub fn saved(misses: &[u64], any_ps: u64) -> Saved {
    let gain = |pair: &[u64]| match pair {
        [before, after] => before.saturating_sub(*after).saturating_mul(any_ps),
        _ => 0,
    };
    let mut gains: Vec<u64> = misses.windows(2).map(gain).collect();
    let mut most = 0;
    for gain in gains.iter_mut().rev() {
        most = most.max(*gain);
        *gain = most;
    }
    gains.truncate(gains.iter().take_while(|&&gain| gain > 0).count());
    let runs = |part: u64| -> Vec<&[u64]> {
        let (mut out, mut rest) = (Vec::new(), &gains[..]);
        while let Some(&first) = rest.first() {
            let alike = |gain: &&u64| gain.saturating_mul(100) >= first.saturating_mul(part);
            let (run, after) = rest.split_at(rest.iter().take_while(alike).count());
            out.push(run);
            rest = after;
        }
        out
    };
    let few = |part: &u64| runs(*part).len() <= MOST_RUNS;
    let part = PARTS.into_iter().find(few).unwrap_or(0);
    runs(part).into_iter().flat_map(outer).collect()
}

/// The steps of a run: the largest sums of its first pages that a falling run with these ends and
/// this sum can have.
fn outer(run: &[u64]) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (first, last) = (run.first().copied().unwrap_or(0), run.last().copied().unwrap_or(0));
    let (pages, all) = (run.len() as u64, run.iter().copied().fold(0, u64::saturating_add));
    let more = all.saturating_sub(pages.saturating_mul(last));
    let like_first = more.checked_div(first - last).unwrap_or(pages).min(pages);
    let between = u64::from(like_first < pages);
    let rest = last.saturating_add(more.saturating_sub(like_first.saturating_mul(first - last)));
    let steps = [(like_first, first), (between, rest), (pages - like_first - between, last)];
    steps.into_iter().filter(|&(pages, _)| pages > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::optimal::exact_tests::{falling, outlines};

    /// The sum of all pages is exact. One that is far above it would leave the others' jobs without
    /// accesses.
    #[test]
    fn pages_save_no_less_than_they_do_and_all_of_them_no_more() {
        falling(|misses| outlines(misses, 3, &saved(misses, 3)));
    }
}
