//! Exact search where it can decide: single partitions, the hardest few activities of each
//! resource, small problems.
//!
//! Rule: if a part of the rules cannot be met, that proves it for the whole, and the smallest such
//! part is the most useful reason. Parts grow from the tightest pair; each gets more nodes in every
//! turn, so that no part delays the others.

use super::bounds::on_resource;
use super::exact::{Exact, Outcome, solution};
use super::problem::{Problem, Solution, gcd};

/// Most activities for which the whole problem is searched.
const WHOLE: usize = 60;
/// Most activities of a resource searched together.
const SUBSET: usize = 16;
/// Nodes in the first turn of a part.
const FIRST_NODES: u64 = 100;

/// Result of a proof.
pub enum Proof {
    /// A table.
    Table(Solution),
    /// The reason why there is none.
    None(String),
}

/// Part of a problem.
enum Part {
    /// All partitions.
    Whole,
    /// One partition by itself.
    Single(usize),
    /// Some activities of a resource.
    Subset(usize, Vec<usize>),
}

/// A search that can be interrupted.
pub struct Prover<'a> {
    problem: &'a Problem,
    parts: Vec<(Part, Exact)>,
    next: usize,
    nodes: u64,
    /// Nodes of all parts so far.
    searched: u64,
}

impl<'a> Prover<'a> {
    /// Lays out the parts.
    pub fn new(problem: &'a Problem) -> Self {
        let mut parts: Vec<(Part, Exact)> = Vec::new();
        for resource in 0..problem.resources() {
            let hardest = hardest(problem, &on_resource(problem, resource));
            let mut last = 2;
            for size in [3, 4, 6, 8, 12, SUBSET].map(|size| size.min(hardest.len())) {
                if size > last {
                    let subset = hardest[..size].to_vec();
                    let exact = Exact::resource(problem, &subset);
                    parts.push((Part::Subset(resource, subset), exact));
                    last = size;
                }
            }
        }
        for p in (0..problem.parts.len()).filter(|p| !problem.parts[*p].links.is_empty()) {
            if problem.parts[p].end - problem.parts[p].proc <= WHOLE {
                parts.push((Part::Single(p), Exact::partitions(problem, &[p])));
            }
        }
        // Last, as its nodes take longest.
        if problem.acts.len() <= WHOLE {
            let all: Vec<usize> = (0..problem.parts.len()).collect();
            parts.push((Part::Whole, Exact::partitions(problem, &all)));
        }
        Self { problem, parts, next: 0, nodes: FIRST_NODES, searched: 0 }
    }

    /// Nodes of all parts that were searched so far.
    pub fn searched(&self) -> u64 {
        self.searched
    }

    /// Searches about this number of nodes, or until `stop`.
    pub fn advance(&mut self, nodes: u64, stop: &dyn Fn() -> bool) -> Option<Proof> {
        let mut left = nodes;
        while left > 0 && !self.parts.is_empty() && !stop() {
            if self.next >= self.parts.len() {
                (self.next, self.nodes) = (0, self.nodes.saturating_mul(4));
            }
            let (part, exact) = &mut self.parts[self.next];
            // The budget of a turn may span calls.
            let due = (FIRST_NODES.max(self.nodes)).saturating_sub(exact.nodes).min(left);
            let before = exact.nodes;
            let outcome = exact.advance(due, stop);
            self.searched += exact.nodes - before;
            left = left.saturating_sub((exact.nodes - before).max(1));
            match outcome {
                Outcome::Open if exact.nodes >= self.nodes => self.next += 1,
                Outcome::Open => {}
                Outcome::Infeasible => {
                    return Some(Proof::None(reason(self.problem, part, exact.nodes, stop)));
                }
                Outcome::Found(cores, offset) => {
                    if matches!(part, Part::Whole) {
                        return Some(Proof::Table(solution(self.problem, cores, offset)));
                    }
                    self.parts.remove(self.next);
                }
            }
        }
        None
    }
}

/// Activities of a resource, each next one the tightest with those before it.
fn hardest(problem: &Problem, acts: &[usize]) -> Vec<usize> {
    let tight = |i: usize, j: usize| {
        let (a, b) = (&problem.acts[i], &problem.acts[j]);
        (a.dur + b.dur) * 1_000_000 / gcd(a.period, b.period)
    };
    // All pairs are too many on a busy I/O core; the longest relative to the smallest gcd come
    // first.
    let mut pool = acts.to_vec();
    pool.sort_by_key(|i| (-(problem.acts[*i].dur * 1_000_000 / problem.acts[*i].period), *i));
    pool.truncate(256);
    let mut best = (0, None);
    for (n, &i) in pool.iter().enumerate() {
        for &j in &pool[..n] {
            if tight(i, j) > best.0 {
                best = (tight(i, j), Some([i, j]));
            }
        }
    }
    let Some(pair) = best.1 else { return Vec::new() };
    let mut chosen = pair.to_vec();
    while chosen.len() < SUBSET {
        let rest = pool.iter().filter(|i| !chosen.contains(i));
        let Some(&next) = rest
            .max_by_key(|i| (chosen.iter().map(|j| tight(**i, *j)).sum::<i64>(), usize::MAX - **i))
        else {
            break;
        };
        chosen.push(next);
    }
    chosen
}

fn reason(problem: &Problem, part: &Part, nodes: u64, stop: &dyn Fn() -> bool) -> String {
    match part {
        Part::Whole => format!(
            "no choice of cores and offsets keeps all rules. The exact search went through all of \
                them in {nodes} steps; each resource by itself may still be feasible, so relax an \
                age limit, shorten a transfer, or add a core"
        ),
        Part::Single(p) => format!(
            "partition `{}` cannot keep its own rules: its transfers collide with each other, or a \
                chain exceeds its age limit, at any offsets",
            problem.part_name(*p)
        ),
        Part::Subset(resource, acts) => {
            let core = smallest(problem, acts, nodes, stop);
            let names: Vec<String> = core
                .iter()
                .map(|a| {
                    let act = &problem.acts[*a];
                    format!(
                        "{} ({} every {})",
                        problem.name(*a),
                        problem.time(act.dur),
                        problem.time(act.period)
                    )
                })
                .collect();
            format!(
                "{} cannot hold these {} together, at any offsets: {}; leave out at least one of \
                them",
                problem.resource_name(*resource),
                core.len(),
                names.join(", ")
            )
        }
    }
}

/// Leaves out the activities that the proof does not need; each try has as many nodes as the proof
/// took.
fn smallest(problem: &Problem, acts: &[usize], nodes: u64, stop: &dyn Fn() -> bool) -> Vec<usize> {
    let mut core = acts.to_vec();
    let mut at = 0;
    while at < core.len() {
        let mut fewer = core.clone();
        fewer.remove(at);
        let outcome = Exact::resource(problem, &fewer).advance(2 * nodes + 100, stop);
        if outcome == Outcome::Infeasible {
            core = fewer;
        } else {
            at += 1;
        }
    }
    core
}
