//! Exact search on differences of offsets, for small problems and for proofs that there is no
//! table.
//!
//! Rule: two activities on one resource are apart iff o_j - o_i lies in [k g + c_i, (k + 1) g -
//! c_j] for some whole k. Each choice of k is a pair of difference bounds, and precedence and age
//! are difference bounds, too. Kept closed under shortest paths (Dechter, Meiri, Pearl 1991), they
//! tighten each other. The search splits the pair with the fewest k left. When every pair has one
//! k, the earliest offsets are a table. Offsets are unbounded in number of periods. But a partition
//! moved by the least common multiple of its gcds has the same conflicts with the others, so one
//! such stretch is enough. Not covered: many activities; the matrix is copied for every open
//! choice.

use super::problem::{Place, Problem, Solution, gcd};

/// State of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Cores of the searched partitions, in order, and offsets of the variables.
    Found(Vec<usize>, Vec<i64>),
    /// There is no table.
    Infeasible,
    /// The budget is used up.
    Open,
}

/// "Unbounded"; twice this value still fits.
const FAR: i64 = i64::MAX / 4;
/// Largest bound handled, so that sums cannot overflow.
const NEAR: i64 = i64::MAX / 16;

/// Two activities that exclude each other.
#[derive(Clone, Copy, Debug)]
struct Pair {
    i: usize,
    j: usize,
    g: i64,
    /// The pair counts only if these two searched partitions are on one core.
    when: Option<(usize, usize)>,
}

/// An open choice.
struct Node {
    /// `d[i * n + j]`: most ticks from o_i to o_j.
    d: Vec<i64>,
    /// Cores of the partitions decided so far.
    cores: Vec<usize>,
}

/// A search that can be interrupted after any number of nodes.
pub struct Exact {
    n: usize,
    dur: Vec<i64>,
    pairs: Vec<Pair>,
    /// Given cores of the searched partitions; empty for single resources.
    fixed: Vec<Option<usize>>,
    core_count: usize,
    open: Vec<Node>,
    /// Nodes so far.
    pub nodes: u64,
}

impl Exact {
    /// All rules, for some partitions of a problem; their activities are the variables, partition
    /// by partition.
    pub fn partitions(problem: &Problem, parts: &[usize]) -> Self {
        let acts: Vec<usize> =
            parts.iter().flat_map(|p| problem.parts[*p].proc..problem.parts[*p].end).collect();
        let owner =
            |act: usize| parts.iter().position(|p| *p == problem.acts[act].part).unwrap_or(0);
        let mut exact = Self::empty(problem, &acts);
        exact.fixed = parts.iter().map(|p| problem.parts[*p].core).collect();
        for i in 0..acts.len() {
            for j in i + 1..acts.len() {
                let (a, b) = (&problem.acts[acts[i]], &problem.acts[acts[j]]);
                let (p, q) = (owner(acts[i]), owner(acts[j]));
                let when = match (a.place, b.place) {
                    (Place::Core, Place::Core)
                        if exact.fixed[p].is_none() || exact.fixed[q].is_none() =>
                    {
                        Some((p, q))
                    }
                    (Place::Core, Place::Core) if exact.fixed[p] == exact.fixed[q] => None,
                    (x, y) if x == y && x != Place::Core => None,
                    _ => continue,
                };
                exact.pairs.push(Pair { i, j, g: gcd(a.period, b.period), when });
            }
        }
        let mut d = exact.blank();
        let var = |act: usize| acts.iter().position(|a| *a == act).unwrap_or(0);
        for p in parts {
            let part = &problem.parts[*p];
            for link in &part.links {
                let path = link.activities(part.proc);
                for w in path.windows(2) {
                    exact.cap(&mut d, var(w[1]), var(w[0]), -problem.acts[w[0]].dur);
                }
                let (first, last) = (path[0], path[path.len() - 1]);
                exact.cap(&mut d, var(first), var(last), link.age - problem.acts[last].dur);
            }
        }
        let roots: Vec<usize> = parts.iter().map(|p| var(problem.parts[*p].proc)).collect();
        let groups: Vec<usize> = acts.iter().map(|a| owner(*a)).collect();
        exact.begin(d, &roots, &groups, problem, &acts);
        exact
    }

    /// Only the rule that activities on one resource do not overlap; each is on its own.
    pub fn resource(problem: &Problem, acts: &[usize]) -> Self {
        let mut exact = Self::empty(problem, acts);
        for i in 0..acts.len() {
            for j in i + 1..acts.len() {
                let g = gcd(problem.acts[acts[i]].period, problem.acts[acts[j]].period);
                exact.pairs.push(Pair { i, j, g, when: None });
            }
        }
        let all: Vec<usize> = (0..acts.len()).collect();
        let d = exact.blank();
        exact.begin(d, &all, &all, problem, acts);
        exact
    }

    fn empty(problem: &Problem, acts: &[usize]) -> Self {
        let dur = acts.iter().map(|a| problem.acts[*a].dur).collect();
        let (fixed, open, core_count) = (Vec::new(), Vec::new(), problem.cores);
        Self { n: acts.len(), dur, pairs: Vec::new(), fixed, core_count, open, nodes: 0 }
    }

    fn blank(&self) -> Vec<i64> {
        let mut d = vec![FAR; self.n * self.n];
        (0..self.n).for_each(|i| d[i * self.n + i] = 0);
        d
    }

    fn cap(&self, d: &mut [i64], i: usize, j: usize, most: i64) {
        let at = i * self.n + j;
        d[at] = d[at].min(most);
    }

    /// Bounds the roots against the first, closes the matrix, and opens the root node.
    fn begin(
        &mut self,
        mut d: Vec<i64>,
        roots: &[usize],
        groups: &[usize],
        problem: &Problem,
        acts: &[usize],
    ) {
        for (k, root) in roots.iter().enumerate().skip(1) {
            let meets = self.pairs.iter().filter(|p| (groups[p.i] == k) != (groups[p.j] == k));
            let lcm = meets.fold(1i64, |m, p| (m / gcd(m, p.g)).saturating_mul(p.g));
            let stretch = lcm.min(problem.acts[acts[*root]].period);
            self.cap(&mut d, roots[0], *root, stretch - 1);
            self.cap(&mut d, *root, roots[0], 0);
        }
        let n = self.n;
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    let via = d[i * n + k].saturating_add(d[k * n + j]).min(FAR);
                    d[i * n + j] = d[i * n + j].min(via);
                }
            }
        }
        let consistent = (0..n).all(|i| d[i * n + i] >= 0);
        let possible =
            self.pairs.iter().all(|p| p.when.is_some() || self.dur[p.i] + self.dur[p.j] <= p.g);
        if consistent && possible {
            self.open.push(Node { d, cores: Vec::new() });
        }
    }

    /// Searches up to this number of further nodes, or until `stop`.
    pub fn advance(&mut self, nodes: u64, stop: &dyn Fn() -> bool) -> Outcome {
        for count in 0..nodes {
            let Some(mut node) = self.open.pop() else { return Outcome::Infeasible };
            self.nodes += 1;
            if !self.propagate(&mut node) {
                continue;
            }
            if node.cores.len() < self.fixed.len() {
                self.branch_core(node);
            } else if let Some((pair, split)) = self.widest(&node) {
                self.branch(node, pair, split);
            } else {
                // All differences from the first variable at their least are a solution of closed
                // bounds.
                let offsets = (0..self.n).map(|i| -node.d[i * self.n]).collect();
                return Outcome::Found(node.cores, offsets);
            }
            if count % 64 == 63 && stop() {
                break;
            }
        }
        if self.open.is_empty() { Outcome::Infeasible } else { Outcome::Open }
    }

    fn active(&self, pair: &Pair, cores: &[usize]) -> bool {
        pair.when.is_none_or(
            |(p, q)| matches!((cores.get(p), cores.get(q)), (Some(a), Some(b)) if a == b),
        )
    }

    /// The whole numbers k that the bounds allow for a pair, and the least and largest difference
    /// that they allow.
    fn windows(&self, node: &Node, pair: &Pair) -> (i64, i64, i64, i64) {
        let (low, high) = (-node.d[pair.j * self.n + pair.i], node.d[pair.i * self.n + pair.j]);
        let (low, high) = (low.max(-NEAR), high.min(NEAR));
        let (ci, cj, g) = (self.dur[pair.i], self.dur[pair.j], pair.g);
        let first = -(-(low + cj)).div_euclid(g) - 1;
        let last = (high - ci).div_euclid(g);
        (first, last, low.max(first * g + ci), high.min((last + 1) * g - cj))
    }

    /// Tightens until nothing changes; false on a contradiction.
    fn propagate(&self, node: &mut Node) -> bool {
        loop {
            let mut changed = false;
            for pair in &self.pairs {
                if !self.active(pair, &node.cores) {
                    continue;
                }
                if self.dur[pair.i] + self.dur[pair.j] > pair.g {
                    return false;
                }
                let (first, last, low, high) = self.windows(node, pair);
                if first > last || low > high {
                    return false;
                }
                let (i, j) = (pair.i, pair.j);
                if high < node.d[i * self.n + j] {
                    changed = true;
                    if !self.tighten(&mut node.d, i, j, high) {
                        return false;
                    }
                }
                if -low < node.d[j * self.n + i] {
                    changed = true;
                    if !self.tighten(&mut node.d, j, i, -low) {
                        return false;
                    }
                }
            }
            if !changed {
                return true;
            }
        }
    }

    /// Sets a bound and closes the matrix again; false on a negative cycle.
    fn tighten(&self, d: &mut [i64], i: usize, j: usize, most: i64) -> bool {
        let n = self.n;
        if most + d[j * n + i] < 0 {
            return false;
        }
        for a in 0..n {
            let to = d[a * n + i];
            if to >= FAR {
                continue;
            }
            let base = to + most;
            if base >= d[a * n + j] {
                continue;
            }
            for b in 0..n {
                let via = base.saturating_add(d[j * n + b]);
                if via < d[a * n + b] {
                    d[a * n + b] = via;
                }
            }
        }
        true
    }

    /// The undecided pair with the fewest k, the tightest among equals, and the k to split at.
    fn widest(&self, node: &Node) -> Option<(Pair, i64)> {
        let mut best: Option<(i64, i64, Pair, i64)> = None;
        for pair in self.pairs.iter().filter(|p| self.active(p, &node.cores)) {
            let (first, last, ..) = self.windows(node, pair);
            let slack = (pair.g - self.dur[pair.i] - self.dur[pair.j]) * 1024 / pair.g;
            let key = (last - first, slack);
            if last > first && best.as_ref().is_none_or(|b| key < (b.0, b.1)) {
                best = Some((key.0, key.1, *pair, first + (last - first) / 2));
            }
        }
        best.map(|(_, _, pair, split)| (pair, split))
    }

    fn branch(&mut self, node: Node, pair: Pair, split: i64) {
        let mut right = Node { d: node.d.clone(), cores: node.cores.clone() };
        if self.tighten(&mut right.d, pair.j, pair.i, -((split + 1) * pair.g + self.dur[pair.i])) {
            self.open.push(right);
        }
        let mut left = node;
        if self.tighten(&mut left.d, pair.i, pair.j, (split + 1) * pair.g - self.dur[pair.j]) {
            self.open.push(left);
        }
    }

    /// Decides the core of the next partition. Cores without a bound or placed partition are
    /// equivalent.
    fn branch_core(&mut self, node: Node) {
        let part = node.cores.len();
        let known = |c: usize| node.cores.contains(&c) || self.fixed.contains(&Some(c));
        let mut options: Vec<usize> = match self.fixed[part] {
            Some(c) => vec![c],
            None => (0..self.core_count).filter(|c| known(*c)).collect(),
        };
        if self.fixed[part].is_none() {
            options.extend((0..self.core_count).find(|c| !known(*c)));
        }
        // An unused core is tried first, as it is popped last in, first out.
        for core in options {
            let mut cores = node.cores.clone();
            cores.push(core);
            self.open.push(Node { d: node.d.clone(), cores });
        }
    }
}

/// A table of all partitions, moved so that each starts within its first period.
pub fn solution(problem: &Problem, cores: Vec<usize>, offset: Vec<i64>) -> Solution {
    Solution { core: cores, offset }.settled(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use solocore_model::WindowsInput;
    use std::path::Path;

    fn problem(acts: &[(i64, i64)]) -> Problem {
        let mut text = "cores = 1\n".to_owned();
        for (i, (t, c)) in acts.iter().enumerate() {
            text += &format!(
                "[[partition]]\nname = \"p{i}\"\nperiod = \"{t} ms\"\nduration = \"{c} ms\"\ncore \
                    = 0\n"
            );
        }
        Problem::new(&WindowsInput::parse(Path::new("i.toml"), &text).expect("valid"))
    }

    /// The answer by trying all offsets.
    fn possible(acts: &[(i64, i64)]) -> bool {
        fn go(acts: &[(i64, i64)], at: &mut Vec<i64>) -> bool {
            let k = at.len();
            if k == acts.len() {
                return true;
            }
            (0..acts[k].0).any(|o| {
                let fits = (0..k).all(|i| {
                    let g = gcd(acts[i].0, acts[k].0);
                    let d = (o - at[i]).rem_euclid(g);
                    acts[i].1 <= d && d <= g - acts[k].1
                });
                at.push(o);
                let found = fits && go(acts, at);
                at.pop();
                found
            })
        }
        go(acts, &mut Vec::new())
    }

    proptest! {
        #[test]
        fn agrees_with_trying_all(
            acts in prop::collection::vec((prop::sample::select(vec![4i64, 6, 8, 10, 12, 18]), 1i64..4), 2..6)
        ) {
            let p = problem(&acts);
            let all: Vec<usize> = (0..acts.len()).collect();
            for mut exact in [Exact::resource(&p, &all), Exact::partitions(&p, &all)] {
                match exact.advance(1_000_000, &|| false) {
                    Outcome::Found(_, offset) => {
                        let holds = p.holds(&Solution { core: vec![0; acts.len()], offset });
                        prop_assert!(holds);
                        prop_assert!(possible(&acts));
                    }
                    Outcome::Infeasible => prop_assert!(!possible(&acts)),
                    Outcome::Open => prop_assert!(false, "not decided"),
                }
            }
        }
    }
}
