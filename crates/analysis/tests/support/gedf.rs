//! A simulator of preemptive global scheduling by priority points, in integer time, and sources of
//! task sets and releases.
//!
//! It shares nothing with the analysis but the task type. Time is integral; multiply all parameters
//! of a set by a factor to attack it with releases at fractions of its unit.

#![allow(dead_code)]

use solocore_analysis::{SporadicTask, TaskSet};

/// A linear congruential generator: the same sequence everywhere.
pub struct Draw(pub u64);

impl Draw {
    /// A value below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A value in `low..=high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }
}

/// A set of these tasks: WCET, period and deadline of each.
pub fn set(cores: u32, tasks: &[(u64, u64, u64)]) -> TaskSet {
    let task = |(wcet, period, deadline): &(u64, u64, u64)| SporadicTask {
        wcet: *wcet,
        period: *period,
        deadline: *deadline,
    };
    TaskSet { cores, tasks: tasks.iter().map(task).collect() }
}

/// Deadlines of a random set.
#[derive(Clone, Copy, PartialEq)]
pub enum Deadlines {
    Implicit,
    Constrained,
    Arbitrary,
}

/// A random set; execution times are drawn so that the utilisation is spread around the number of
/// cores.
pub fn random_set(
    draw: &mut Draw,
    cores: u32,
    tasks: usize,
    longest: u64,
    deadlines: Deadlines,
) -> TaskSet {
    let per_task = 2 * u64::from(cores) * 100 / tasks as u64;
    let task = |draw: &mut Draw| {
        let period = draw.within(1, longest);
        let share = draw.within(1, per_task.clamp(20, 100));
        let wcet = (period * share / 100).clamp(1, period);
        let deadline = match deadlines {
            Deadlines::Implicit => period,
            Deadlines::Constrained => draw.within(wcet, period),
            Deadlines::Arbitrary => draw.within(wcet, 2 * period),
        };
        SporadicTask { wcet, period, deadline }
    };
    TaskSet { cores, tasks: (0..tasks).map(|_| task(draw)).collect() }
}

/// The set in a unit that is `factor` times finer.
pub fn finer(set: &TaskSet, factor: u64) -> TaskSet {
    let task = |t: &SporadicTask| SporadicTask {
        wcet: t.wcet * factor,
        period: t.period * factor,
        deadline: t.deadline * factor,
    };
    TaskSet { cores: set.cores, tasks: set.tasks.iter().map(task).collect() }
}

/// Release times of each task up to a horizon.
pub type Releases = Vec<Vec<u64>>;

/// First releases at `offsets`, then each period, sometimes (one in `rarity`; 0: never) later by up
/// to `most`.
pub fn releases(
    draw: &mut Draw,
    set: &TaskSet,
    offsets: &[u64],
    horizon: u64,
    rarity: u64,
    most: u64,
) -> Releases {
    let mut all = Vec::new();
    for (t, offset) in set.tasks.iter().zip(offsets) {
        let (mut list, mut at) = (Vec::new(), *offset);
        while at < horizon {
            list.push(at);
            at += t.period;
            if rarity > 0 && draw.below(rarity) == 0 {
                at += draw.below(most + 1);
            }
        }
        all.push(list);
    }
    all
}

/// Offsets that make a deadline of each task coincide with one of task `k`, the pattern that the
/// tests consider the worst, a little disturbed.
pub fn aligned_offsets(draw: &mut Draw, set: &TaskSet, k: usize) -> Vec<u64> {
    let longest = set.tasks.iter().map(|t| t.period.max(t.deadline)).max().unwrap_or(1);
    let meet = 3 * longest + set.tasks[k].deadline;
    let offset = |t: &SporadicTask, nudge: u64| (meet + nudge - t.deadline) % t.period;
    set.tasks
        .iter()
        .map(|t| {
            let nudge = draw.below(2) * draw.below(3);
            offset(t, nudge)
        })
        .collect()
}

/// Longest response of each task, jobs of the same priority point in order of tasks; `points` are
/// relative to releases. `available(time)` is the number of cores that can be used in
/// `time..time + 1`.
pub fn responses(
    set: &TaskSet,
    points: &[u64],
    releases: &Releases,
    available: &dyn Fn(u64) -> u32,
) -> Vec<u64> {
    let n = set.tasks.len();
    let mut head = vec![0usize; n];
    let mut left: Vec<u64> = set.tasks.iter().map(|t| t.wcet).collect();
    let mut worst = vec![0u64; n];
    let mut now = 0u64;
    let mut pending: Vec<(u64, usize)> = Vec::with_capacity(n);
    loop {
        pending.clear();
        let mut next = u64::MAX;
        for i in 0..n {
            if let Some(release) = releases[i].get(head[i]) {
                if *release <= now {
                    pending.push((release + points[i], i));
                } else {
                    next = next.min(*release);
                }
            }
        }
        if pending.is_empty() {
            if next == u64::MAX {
                return worst;
            }
            now = next;
            continue;
        }
        pending.sort_unstable();
        let cores = available(now) as usize;
        let running = &pending[..cores.min(pending.len())];
        // With all cores available up to the next event; else one unit, as availability may change.
        let mut span = if cores == set.cores as usize { next - now } else { 1 };
        for (_, i) in running {
            span = span.min(left[*i]);
        }
        for (_, i) in running {
            left[*i] -= span;
            if left[*i] == 0 {
                worst[*i] = worst[*i].max(now + span - releases[*i][head[*i]]);
                head[*i] += 1;
                left[*i] = set.tasks[*i].wcet;
            }
        }
        now += span;
    }
}

/// Longest responses under GEDF on whole cores.
pub fn gedf(set: &TaskSet, releases: &Releases) -> Vec<u64> {
    let points: Vec<u64> = set.tasks.iter().map(|t| t.deadline).collect();
    let cores = set.cores;
    responses(set, &points, releases, &|_| cores)
}

/// The release patterns of an attack: synchronous, aligned deadlines, random offsets; periodic and
/// sporadic.
pub fn attack(draw: &mut Draw, set: &TaskSet, rounds: u64, mut judge: impl FnMut(&Releases)) {
    let longest = set.tasks.iter().map(|t| t.period).max().unwrap_or(1);
    let horizon = 12 * longest;
    for round in 0..rounds {
        let offsets = match round % 4 {
            0 if round == 0 => vec![0; set.tasks.len()],
            0 | 1 => aligned_offsets(draw, set, (round / 4) as usize % set.tasks.len()),
            _ => set.tasks.iter().map(|t| draw.below(t.period)).collect(),
        };
        let rarity = [0, 4, 0, 2][(round / 2 % 4) as usize];
        judge(&releases(draw, set, &offsets, horizon, rarity, longest / 2 + 1));
    }
}
