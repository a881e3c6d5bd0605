//! A partial table: the placed partitions, and the possible places of a further one.
//!
//! Problem: a partition's activities hang together by precedence and age, so they are placed
//! together. Rule: with the start of processing chosen, a chain's input goes as late as possible
//! and its output as early as possible. For one chain this excludes no table: a later device input
//! only widens the room of the physical input, and a younger input only that of the output. A
//! partition that fits nowhere may be placed over others, which are then ejected. The cheapest
//! offsets are searched among those where an activity ends or begins.

use super::problem::{Problem, Solution};
use super::timeline::{Ask, Own, Timeline};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Critical offsets that are drawn at random when a transfer has no free slot.
const LOTS: usize = 16;

/// A partial table.
pub struct State<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// One timeline per resource.
    pub lines: Vec<Timeline>,
    /// Cores and offsets; unplaced partitions keep their last ones.
    pub table: Solution,
    /// Is each partition placed?
    pub placed: Vec<bool>,
    /// Cost of ejecting each partition.
    pub weight: Vec<u64>,
    /// Random draws of the search.
    pub rng: ChaCha8Rng,
    /// Look-ups in timelines so far: the clock of the search, the same on every machine.
    pub work: u64,
}

/// A place for a partition, and the partitions that would have to leave it.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Core of the partition.
    pub core: usize,
    /// All its activities.
    pub own: Vec<Own>,
    /// Partitions in the way.
    pub ejects: Vec<usize>,
    /// Sum of their weights.
    pub cost: u64,
}

impl<'a> State<'a> {
    /// A table with no partition placed.
    pub fn new(problem: &'a Problem, seed: u64) -> Self {
        let parts = problem.parts.len();
        let table = Solution {
            core: problem.parts.iter().map(|p| p.core.unwrap_or(0)).collect(),
            offset: vec![0; problem.acts.len()],
        };
        let rng = ChaCha8Rng::seed_from_u64(seed);
        Self {
            problem,
            lines: timelines(problem),
            table,
            placed: vec![false; parts],
            weight: vec![1; parts],
            rng,
            work: 0,
        }
    }

    /// Takes everything off the table.
    pub fn clear(&mut self) {
        for part in 0..self.placed.len() {
            self.remove(part);
        }
    }

    /// Takes a partition off the table.
    pub fn remove(&mut self, part: usize) {
        if !std::mem::take(&mut self.placed[part]) {
            return;
        }
        let p = &self.problem.parts[part];
        for act in p.proc..p.end {
            let resource = self.problem.resource(act, self.table.core[part]);
            self.lines[resource].remove(act, self.problem.acts[act].class, self.table.offset[act]);
        }
    }

    /// Ejects the partitions that are in the way, and puts the partition there.
    pub fn commit(&mut self, part: usize, trial: &Trial) {
        for q in &trial.ejects {
            self.remove(*q);
        }
        self.table.core[part] = trial.core;
        for o in &trial.own {
            self.table.offset[o.act] = o.offset;
            self.lines[o.resource].insert(o.act, self.problem.acts[o.act].class, o.offset, o.dur);
        }
        self.placed[part] = true;
    }

    /// A number from 0 to `below` - 1; 0 if there is none.
    pub fn lot(&mut self, below: usize) -> usize {
        if below < 2 {
            0
        } else {
            usize::try_from(self.rng.random_range(0..below as u64)).unwrap_or(0)
        }
    }

    /// A tick from 0 to `below` - 1.
    pub fn tick(&mut self, below: i64) -> i64 {
        if below < 2 { 0 } else { self.rng.random_range(0..below) }
    }

    /// The query for the offsets of an activity.
    pub fn ask<'b>(&self, act: usize, core: usize, own: &'b [Own]) -> Ask<'b> {
        let a = &self.problem.acts[act];
        Ask { class: a.class, dur: a.dur, resource: self.problem.resource(act, core), own }
    }

    /// Places all activities of a partition around processing that starts at `start`. Without
    /// `eject`, only free offsets count. `bound`: a trial with this cost or more is dropped.
    pub fn attempt(
        &mut self,
        part: usize,
        core: usize,
        start: i64,
        eject: bool,
        bound: u64,
    ) -> Option<Trial> {
        let problem = self.problem;
        let p = &problem.parts[part];
        let mut trial =
            Trial { core, own: Vec::with_capacity(p.end - p.proc), ejects: Vec::new(), cost: 0 };
        self.put(&mut trial, p.proc, start, eject)?;
        if trial.cost >= bound {
            return None;
        }
        let dur = |act: usize| problem.acts[act].dur;
        let done = start + dur(p.proc);
        for link in &p.links {
            let mut first = start;
            let rest: i64 = link.output.map_or(0, |[d, o]| dur(d) + dur(o));
            if let Some([physical, device]) = link.input {
                let low = done + rest - link.age;
                let at = self.slot(
                    &mut trial,
                    device,
                    low + dur(physical),
                    start - dur(device),
                    true,
                    eject,
                )?;
                first = self.slot(&mut trial, physical, low, at - dur(physical), true, eject)?;
            }
            if let Some([device, physical]) = link.output {
                let high = first + link.age - dur(physical);
                let at = self.slot(&mut trial, device, done, high - dur(device), false, eject)?;
                self.slot(&mut trial, physical, at + dur(device), high, false, eject)?;
            }
            if trial.cost >= bound {
                return None;
            }
        }
        Some(trial)
    }

    /// Finds an offset from `low` to `high`, as late or as early as it can be, and adds it to the
    /// trial.
    fn slot(
        &mut self,
        trial: &mut Trial,
        act: usize,
        low: i64,
        high: i64,
        late: bool,
        eject: bool,
    ) -> Option<i64> {
        if low > high {
            return None;
        }
        let ask = self.ask(act, trial.core, &trial.own);
        let line = &self.lines[ask.resource];
        let free = if late {
            line.last_free(&ask, low, high, &mut self.work)
        } else {
            line.first_free(&ask, low, high, &mut self.work)
        };
        let at = match free {
            Some(at) => at,
            None if eject => self.least_costly(trial, act, low, high, late)?,
            None => return None,
        };
        self.put(trial, act, at, eject)?;
        Some(at)
    }

    /// The cheapest of some offsets from `low` to `high`.
    fn least_costly(
        &mut self,
        trial: &Trial,
        act: usize,
        low: i64,
        high: i64,
        late: bool,
    ) -> Option<i64> {
        let period = self.problem.acts[act].period;
        let (low, high) = if late {
            (low.max(high - period + 1), high)
        } else {
            (low, high.min(low + period - 1))
        };
        let resource = self.problem.resource(act, trial.core);
        let mut best: Option<(u64, i64)> = None;
        for lot in 0..LOTS {
            let at = match lot {
                0 if late => high,
                0 => low,
                _ => self.critical(act, resource, low, high),
            };
            let cost = self.cost(trial, act, at);
            if cost < best.map_or(u64::MAX, |b| b.0) {
                best = Some((cost, at));
            }
        }
        best.map(|b| b.1)
    }

    /// An offset from `low` to `high` right after or right before another activity, drawn at
    /// random.
    pub fn critical(&mut self, act: usize, resource: usize, low: i64, high: i64) -> i64 {
        let a = self.problem.acts[act];
        let (pick, after) = (self.lot(1 << 30), self.lot(2) == 0);
        let Some((residue, dur, g)) = self.lines[resource].pick(a.class, pick) else {
            return low + self.tick(high - low + 1);
        };
        let touch = if after { residue + dur } else { residue - a.dur };
        let first = low + (touch - low).rem_euclid(g);
        if first > high {
            return low + self.tick(high - low + 1);
        }
        first + g * self.tick((high - first) / g + 1)
    }

    /// Cost of an activity at an offset, beyond the cost of the trial so far; `u64::MAX` where it
    /// is impossible.
    pub fn cost(&mut self, trial: &Trial, act: usize, at: i64) -> u64 {
        let ask = self.ask(act, trial.core, &trial.own);
        self.work += 2;
        if self.lines[ask.resource].own_collision(&ask, at) {
            return u64::MAX;
        }
        let mut seen: [usize; 16] = [usize::MAX; 16];
        let (mut count, mut cost) = (0, 0u64);
        self.lines[ask.resource].collisions(&ask, at, |other| {
            let part = self.problem.acts[other].part;
            if trial.ejects.contains(&part) || seen.contains(&part) {
                return;
            }
            // A partition that is counted twice only makes a poor offset look poorer.
            if count < seen.len() {
                seen[count] = part;
                count += 1;
            }
            cost = cost.saturating_add(self.weight[part]);
        });
        cost
    }

    /// Adds an activity to the trial, and the partitions in its way.
    fn put(&mut self, trial: &mut Trial, act: usize, at: i64, eject: bool) -> Option<()> {
        let ask = self.ask(act, trial.core, &trial.own);
        let (resource, dur) = (ask.resource, ask.dur);
        self.work += 1;
        if self.lines[resource].own_collision(&ask, at) {
            return None;
        }
        let (ejects, cost, mut any) = (&mut trial.ejects, &mut trial.cost, false);
        let ask = Ask { own: &[], ..ask };
        self.lines[resource].collisions(&ask, at, |other| {
            any = true;
            let part = self.problem.acts[other].part;
            if eject && !ejects.contains(&part) {
                ejects.push(part);
                *cost = cost.saturating_add(self.weight[part]);
            }
        });
        if any && !eject {
            return None;
        }
        trial.own.push(Own { act, resource, offset: at, dur });
        Some(())
    }
}

/// Empty timelines of all resources.
fn timelines(problem: &Problem) -> Vec<Timeline> {
    let mut asks = vec![vec![false; problem.periods.len()]; problem.resources()];
    for (i, a) in problem.acts.iter().enumerate() {
        match problem.known_resource(i) {
            Some(r) => asks[r][a.class] = true,
            None => asks[..problem.cores].iter_mut().for_each(|row| row[a.class] = true),
        }
    }
    asks.iter().map(|row| Timeline::new(&problem.periods, row)).collect()
}
