//! The guided ejection search, the main engine.
//!
//! Problem: first fit leaves a few partitions over, and a new random try does not remember them.
//! Rule: a partition that fits nowhere takes the place with the least weight of present holders,
//! and these wait instead. A partition's weight grows by one each time it fits nowhere, so
//! partitions that are hard to place are no longer ejected (ejection chains, after Nagata and
//! Braysy's route minimisation). After a long time without progress all are placed again, the heavy
//! first (squeaky wheel, after Joslin and Clements). It finds tables and never proves that there is
//! none.

use super::problem::Problem;
use super::problem::Solution;
use super::state::{State, Trial};

/// Offsets of processing tried where all is free, on each core and on all together.
const FREE_TRIES: usize = 6;
const FREE_TRIES_ALL: usize = 24;
/// Offsets of processing that are weighed when a partition must be ejected.
const CRITICAL: usize = 96;
/// The cheapest of them, for which the transfers are weighed, too.
const WEIGHED: usize = 6;

/// Order in which partitions are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The shortest period, then the longest processing: first fit decreasing for harmonic periods.
    Period,
    /// The largest share of its period.
    Share,
}

/// A search that can be interrupted after any amount of work.
pub struct Search<'a> {
    state: State<'a>,
    order: Order,
    /// Partitions to place; the last is next.
    waiting: Vec<usize>,
    /// Has no partition been placed since the beginning of this try? Then places are taken from the
    /// left.
    building: bool,
    /// Fewest waiting in this try, and rounds since then.
    fewest: usize,
    stale: usize,
}

impl<'a> Search<'a> {
    /// Begins.
    pub fn new(problem: &'a Problem, seed: u64, order: Order) -> Self {
        let state = State::new(problem, seed);
        let mut search = Self {
            state,
            order,
            waiting: Vec::new(),
            building: true,
            fewest: usize::MAX,
            stale: 0,
        };
        search.restart();
        search
    }

    /// Searches for about `work` look-ups, or until `stop`.
    pub fn advance(&mut self, work: u64, stop: &dyn Fn() -> bool) -> Option<Solution> {
        let end = self.state.work.saturating_add(work);
        let mut rounds = 0u32;
        while let Some(part) = self.waiting.pop() {
            self.place(part);
            rounds += 1;
            let pause = self.state.work >= end || (rounds.is_multiple_of(16) && stop());
            if pause && !self.waiting.is_empty() {
                return None;
            }
        }
        Some(self.state.table.clone())
    }

    /// Number of partitions that wait for a place.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn place(&mut self, part: usize) {
        if let Some(trial) = self.free(part) {
            self.state.commit(part, &trial);
        } else {
            self.building = false;
            self.state.weight[part] += 1;
            match self.forced(part) {
                Some(trial) => {
                    self.state.commit(part, &trial);
                    // The heaviest is placed first, so it comes last.
                    let mut out = trial.ejects;
                    out.sort_by_key(|q| (self.state.weight[*q], *q));
                    self.waiting.extend(out);
                    self.shake();
                }
                // Its own transfers collide with each other at every offset tried; others may go
                // first.
                None => self.waiting.insert(0, part),
            }
        }
        self.stale += 1;
        if self.waiting.len() < self.fewest {
            (self.fewest, self.stale) = (self.waiting.len(), 0);
        }
        if self.stale > 400 + 30 * self.state.placed.len() {
            self.restart();
        }
    }

    /// A place without present holders.
    fn free(&mut self, part: usize) -> Option<Trial> {
        let problem = self.state.problem;
        let p = &problem.parts[part];
        let last = (self.state.table.core[part], self.state.table.offset[p.proc]);
        let cores = self.cores(part);
        let mut left = FREE_TRIES_ALL;
        if !self.building
            && let Some(trial) = self.state.attempt(part, last.0, last.1, false, u64::MAX)
        {
            return Some(trial);
        }
        for core in cores {
            for n in 0..FREE_TRIES {
                let from = if self.building && n == 0 { 0 } else { self.state.tick(p.period) };
                let Some(start) = self.left_end(part, core, from) else { break };
                let trial = self.state.attempt(part, core, start, false, u64::MAX);
                if trial.is_some() {
                    return trial;
                }
                left -= 1;
                if left == 0 {
                    return None;
                }
            }
        }
        None
    }

    /// The first free offset of processing from `from` on, moved left until it touches another
    /// activity.
    fn left_end(&mut self, part: usize, core: usize, from: i64) -> Option<i64> {
        let p = &self.state.problem.parts[part];
        let ask = self.state.ask(p.proc, core, &[]);
        let line = &self.state.lines[core];
        let start = line.first_free(&ask, from, from + p.period - 1, &mut self.state.work)?;
        let left = start - line.gap_left(&ask, start).unwrap_or(start);
        let mut free = true;
        line.collisions(&ask, left, |_| free = false);
        Some(if free { left } else { start }.rem_euclid(p.period))
    }

    /// Cores to try: the given one, or all in turn from a random one on.
    fn cores(&mut self, part: usize) -> Vec<usize> {
        let problem = self.state.problem;
        match problem.parts[part].core {
            Some(core) => vec![core],
            None => {
                let first = if self.building { 0 } else { self.state.lot(problem.cores) };
                (0..problem.cores).map(|c| (first + c) % problem.cores).collect()
            }
        }
    }

    /// The cheapest place found among those with present holders.
    fn forced(&mut self, part: usize) -> Option<Trial> {
        let problem = self.state.problem;
        let p = &problem.parts[part];
        let cores = self.cores(part);
        let lots = (CRITICAL / cores.len()).max(4);
        let mut starts: Vec<(u64, u64, usize, i64)> = Vec::new();
        for core in cores {
            let empty = Trial { core, own: Vec::new(), ejects: Vec::new(), cost: 0 };
            for _ in 0..lots {
                let at = self.state.critical(p.proc, core, 0, p.period - 1);
                let cost = self.state.cost(&empty, p.proc, at);
                // Among equals, any one.
                let tie = self.state.lot(1 << 16) as u64;
                starts.push((cost, tie, core, at));
            }
        }
        starts.sort_unstable();
        starts.dedup_by_key(|s| (s.2, s.3));
        let mut best: Option<Trial> = None;
        for (cost, _, core, at) in starts.into_iter().take(WEIGHED) {
            let bound = best.as_ref().map_or(u64::MAX, |b| b.cost);
            if cost >= bound {
                break;
            }
            best = self.state.attempt(part, core, at, true, bound).or(best);
        }
        best
    }

    /// Moves a few partitions to other free places, so that the same ejections do not repeat.
    fn shake(&mut self) {
        for _ in 0..2 {
            let part = self.state.lot(self.state.placed.len());
            if !self.state.placed[part] {
                continue;
            }
            let p = &self.state.problem.parts[part];
            let old = (self.state.table.core[part], self.state.table.offset[p.proc]);
            let core = p.core.unwrap_or_else(|| self.state.lot(self.state.problem.cores));
            let from = self.state.tick(p.period);
            let kept: Vec<i64> = self.state.table.offset[p.proc..p.end].to_vec();
            self.state.remove(part);
            let start = self.left_end(part, core, from);
            let trial = start.and_then(|s| self.state.attempt(part, core, s, false, u64::MAX));
            let trial = trial.unwrap_or_else(|| self.as_it_was(part, old.0, &kept));
            self.state.commit(part, &trial);
        }
    }

    fn as_it_was(&self, part: usize, core: usize, offsets: &[i64]) -> Trial {
        let problem = self.state.problem;
        let own =
            (problem.parts[part].proc..).zip(offsets).map(|(act, offset)| super::timeline::Own {
                act,
                resource: problem.resource(act, core),
                offset: *offset,
                dur: problem.acts[act].dur,
            });
        Trial { core, own: own.collect(), ejects: Vec::new(), cost: 0 }
    }

    /// Begins again, the heavy first; weights are reduced.
    fn restart(&mut self) {
        self.state.clear();
        let problem = self.state.problem;
        let mut all: Vec<usize> = (0..problem.parts.len()).collect();
        let share = |i: usize| {
            problem.acts[problem.parts[i].proc].dur * 1_000_000 / problem.parts[i].period
        };
        let longest = |i: usize| -problem.acts[problem.parts[i].proc].dur;
        all.sort_by_key(|&i| {
            let weight = u64::MAX - self.state.weight[i];
            match self.order {
                Order::Period => (weight, problem.parts[i].period, longest(i), i),
                Order::Share => (weight, -share(i), longest(i), i),
            }
        });
        all.reverse();
        self.state.weight.iter_mut().for_each(|w| *w = 1 + *w / 4);
        self.waiting = all;
        (self.building, self.fewest, self.stale) = (true, usize::MAX, 0);
    }
}
