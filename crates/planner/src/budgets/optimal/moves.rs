//! The neighbours of a candidate, the most promising first.
//!
//! Rule: one task moves to another core, one way moves to another core, or two analysed tasks swap
//! their cores. Where a core is known that keeps the candidate from a better value, its tasks and
//! ways come first. Best effort moves before the others: that never costs a bound of its old core.

use super::candidate::Candidate;
use super::outcome::Outcome;
use crate::resources::Resources;
use crate::work::Work;

impl Candidate {
    /// The neighbours; `found` is the outcome of the candidate.
    pub fn neighbours(&self, work: &[Work], resources: &Resources, found: &Outcome) -> Vec<Self> {
        let mut out: Vec<Self> = Vec::new();
        if let Some(core) = found.critical {
            let near = self.ways(resources).into_iter().filter(|n| n.ways_grow(self, core));
            let away = self.moves(work, resources, true).into_iter();
            let away = away.filter(|n| n.leaves(self, core));
            out.extend(alternating(near, away));
            out.extend(self.swaps(work).into_iter().filter(|n| n.leaves(self, core)));
        }
        out.extend(self.moves(work, resources, false));
        out.extend(self.ways(resources));
        out.extend(self.moves(work, resources, true));
        out.extend(self.swaps(work));
        out
    }

    /// The same with the best-effort tasks without stated cores on the cores with analysed tasks,
    /// one after the other.
    pub fn beside_analysed(&self, work: &[Work]) -> Self {
        let mut next = self.clone();
        let analysed: Vec<u32> =
            (0..self.ways.len() as u32).filter(|&core| self.analysed(core, work)).collect();
        let free = |&t: &usize| !work[t].hard() && work[t].task.core.is_none();
        let tasks: Vec<usize> = (0..work.len()).filter(free).collect();
        for (at, task) in tasks.into_iter().enumerate() {
            if let Some(&core) = analysed.get(at % analysed.len().max(1)) {
                next.placement[task] = core;
            }
        }
        next
    }

    /// Has a core more ways than in another candidate?
    fn ways_grow(&self, from: &Self, core: u32) -> bool {
        self.ways.get(core as usize) > from.ways.get(core as usize)
    }

    /// Has a task left a core of another candidate?
    fn leaves(&self, from: &Self, core: u32) -> bool {
        from.placement.iter().zip(&self.placement).any(|(&a, &b)| a == core && b != core)
    }

    /// One way from each core to each other one.
    fn ways(&self, resources: &Resources) -> Vec<Self> {
        let cores = if resources.pages.is_own() { self.ways.len() } else { 0 };
        let pairs = (0..cores).flat_map(|a| (0..cores).map(move |b| (a, b)));
        let moved = |(from, to): (usize, usize)| {
            let mut next = self.clone();
            next.ways[from] -= 1;
            next.ways[to] += 1;
            next
        };
        pairs.filter(|&(from, to)| from != to && self.ways[from] > 1).map(moved).collect()
    }

    /// One task without a stated core, analysed or best effort, on each other core.
    fn moves(&self, work: &[Work], resources: &Resources, hard: bool) -> Vec<Self> {
        let free =
            (0..work.len()).filter(|&t| work[t].task.core.is_none() && work[t].hard() == hard);
        let others = |t: usize| {
            (0..resources.cores).filter(move |&c| c != self.placement[t]).map(move |c| (t, c))
        };
        let moved = |(task, core): (usize, u32)| {
            let mut next = self.clone();
            next.placement[task] = core;
            next
        };
        free.flat_map(others).map(moved).collect()
    }

    /// Two analysed tasks without stated cores in each other's place.
    fn swaps(&self, work: &[Work]) -> Vec<Self> {
        let free: Vec<usize> =
            (0..work.len()).filter(|&t| work[t].task.core.is_none() && work[t].hard()).collect();
        let mut out = Vec::new();
        for (at, &a) in free.iter().enumerate() {
            for &b in free[at + 1..].iter().filter(|&&b| self.placement[a] != self.placement[b]) {
                let mut next = self.clone();
                next.placement.swap(a, b);
                out.push(next);
            }
        }
        out
    }
}

/// The items of both in turn.
fn alternating<T>(
    first: impl Iterator<Item = T>,
    second: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let (mut first, mut second) = (first.fuse(), second.fuse());
    let mut turn = false;
    std::iter::from_fn(move || {
        turn = !turn;
        if turn {
            first.next().or_else(|| second.next())
        } else {
            second.next().or_else(|| first.next())
        }
    })
}
