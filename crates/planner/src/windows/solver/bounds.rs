//! Reasons why there can be no table, by counting.
//!
//! Each rule is sufficient. An activity or chain is too long for its age. A pair on one resource
//! has c_i + c_j > gcd. A resource is asked for more than all of its time. Periods with the
//! pairwise gcd g share residues modulo g. More partitions exclude each other pairwise than there
//! are cores. Each reason names what cannot fit, and by how much.

use super::problem::{Problem, gcd};

/// The first reason found.
pub fn impossible(problem: &Problem) -> Option<String> {
    ages(problem)
        .or_else(|| (0..problem.resources()).find_map(|r| resource(problem, r)))
        .or_else(|| total_load(problem))
        .or_else(|| clique(problem))
}

/// Activities known to be on a resource.
pub fn on_resource(problem: &Problem, resource: usize) -> Vec<usize> {
    (0..problem.acts.len()).filter(|a| problem.known_resource(*a) == Some(resource)).collect()
}

fn ages(problem: &Problem) -> Option<String> {
    for part in &problem.parts {
        for link in &part.links {
            let path = link.activities(part.proc);
            let sum: i64 = path.iter().map(|a| problem.acts[*a].dur).sum();
            if sum > link.age {
                return Some(format!(
                    "the chain from {} to {} takes {} end to end, {} more than its age limit {}",
                    problem.name(path[0]),
                    problem.name(path[path.len() - 1]),
                    problem.time(sum),
                    problem.time(sum - link.age),
                    problem.time(link.age)
                ));
            }
        }
    }
    None
}

fn resource(problem: &Problem, resource: usize) -> Option<String> {
    let acts = on_resource(problem, resource);
    pair(problem, resource, &acts)
        .or_else(|| load(problem, resource, &acts))
        .or_else(|| residues(problem, resource, &acts))
}

/// The two longest activities of every class are sufficient.
fn pair(problem: &Problem, resource: usize, acts: &[usize]) -> Option<String> {
    let mut sorted = acts.to_vec();
    sorted.sort_by_key(|a| (problem.acts[*a].class, -problem.acts[*a].dur, *a));
    let mut longest: Vec<usize> = Vec::new();
    for act in sorted {
        let class = |a: &usize| problem.acts[*a].class;
        if longest.iter().rev().take(2).filter(|a| class(a) == class(&act)).count() < 2 {
            longest.push(act);
        }
    }
    for (n, &j) in longest.iter().enumerate() {
        for &i in &longest[..n] {
            if let Some(excess) = excess(problem, i, j) {
                let (a, b) = (&problem.acts[i], &problem.acts[j]);
                return Some(format!(
                    "{} ({} every {}) and {} ({} every {}) collide on {} at any offsets: together \
                        they are {} longer than the greatest common divisor of their periods, {}",
                    problem.name(i),
                    problem.time(a.dur),
                    problem.time(a.period),
                    problem.name(j),
                    problem.time(b.dur),
                    problem.time(b.period),
                    problem.resource_name(resource),
                    problem.time(excess),
                    problem.time(gcd(a.period, b.period))
                ));
            }
        }
    }
    None
}

/// Ticks by which two activities are too long for one resource.
fn excess(problem: &Problem, i: usize, j: usize) -> Option<i64> {
    let (a, b) = (&problem.acts[i], &problem.acts[j]);
    let excess = a.dur + b.dur - gcd(a.period, b.period);
    (excess > 0).then_some(excess)
}

/// Sums of c / T compared exactly, as fractions of the periods' least common multiple where it
/// fits.
fn above(problem: &Problem, acts: &[usize], capacity: usize) -> Option<f64> {
    let sum: f64 =
        acts.iter().map(|a| problem.acts[*a].dur as f64 / problem.acts[*a].period as f64).sum();
    let capacity_f = capacity as f64;
    let mut lcm: i128 = 1;
    for a in acts {
        let period = i128::from(problem.acts[*a].period);
        let divisor =
            i128::from(gcd(problem.acts[*a].period, i64::try_from(lcm % period).unwrap_or(0)));
        match (lcm / divisor).checked_mul(period) {
            // Sums of a million such terms still fit.
            Some(l) if l < i128::MAX >> 24 => lcm = l,
            // Without an exact sum, only a clear excess counts.
            _ => return (sum > capacity_f + 1e-6).then_some(sum),
        }
    }
    let exact: i128 = acts
        .iter()
        .map(|a| lcm / i128::from(problem.acts[*a].period) * i128::from(problem.acts[*a].dur))
        .sum();
    (exact > lcm * i128::try_from(capacity).unwrap_or(i128::from(u32::MAX))).then_some(sum)
}

fn load(problem: &Problem, resource: usize, acts: &[usize]) -> Option<String> {
    let sum = above(problem, acts, 1)?;
    let mut by_share = acts.to_vec();
    by_share.sort_by_key(|a| (problem.acts[*a].period * 1000 / problem.acts[*a].dur.max(1), *a));
    let largest: Vec<String> = by_share.iter().take(3).map(|a| problem.name(*a)).collect();
    Some(format!(
        "{} is asked for {:.4} of its time, {:.4} too much; it serves {} activities, the largest \
            shares are {}",
        problem.resource_name(resource),
        sum,
        sum - 1.0,
        acts.len(),
        largest.join(", ")
    ))
}

/// For a modulus g and periods that are pairwise apart by gcd = g, no two of different periods
/// share a residue. The n activities of one period T cover at least max(longest, sum / (T / g)) of
/// the g residues.
fn residues(problem: &Problem, resource: usize, acts: &[usize]) -> Option<String> {
    let mut classes: Vec<(i64, i64, i64, usize)> = Vec::new();
    for &a in acts {
        let act = &problem.acts[a];
        match classes.iter_mut().find(|c| c.0 == act.period) {
            Some(c) => (c.1, c.2) = (c.1 + act.dur, c.2.max(act.dur)),
            None => classes.push((act.period, act.dur, act.dur, a)),
        }
    }
    let mut moduli: Vec<i64> = Vec::new();
    for (n, a) in classes.iter().enumerate() {
        moduli.extend(classes[..n].iter().map(|b| gcd(a.0, b.0)));
    }
    moduli.sort_unstable();
    moduli.dedup();
    for g in moduli {
        let mut cover: Vec<(i64, i64)> = classes
            .iter()
            .filter(|c| c.0 % g == 0)
            .map(|c| {
                let rows = c.0 / g;
                (c.2.max((c.1 + rows - 1) / rows), c.0)
            })
            .collect();
        cover.sort_by_key(|c| (-c.0, c.1));
        // A period by itself may cover all residues, even more than once.
        let partners: Vec<bool> =
            cover.iter().map(|c| cover.iter().any(|d| gcd(c.1, d.1) == g && c.1 != d.1)).collect();
        let mut chosen: Vec<(i64, i64)> = Vec::new();
        for (c, partner) in cover.into_iter().zip(partners) {
            if partner && chosen.iter().all(|d| gcd(c.1, d.1) == g) {
                chosen.push(c);
            }
        }
        let need: i64 = chosen.iter().map(|c| c.0).sum();
        if chosen.len() > 1 && need > g {
            let periods: Vec<String> = chosen.iter().map(|c| problem.time(c.1)).collect();
            return Some(format!(
                "on {}, activities with the periods {} cannot share a residue modulo {}, the \
                    greatest common divisor of any two; they need {} of it, {} too much",
                problem.resource_name(resource),
                periods.join(", "),
                problem.time(g),
                problem.time(need),
                problem.time(need - g)
            ));
        }
    }
    None
}

fn total_load(problem: &Problem) -> Option<String> {
    let procs: Vec<usize> = problem.parts.iter().map(|p| p.proc).collect();
    let sum = above(problem, &procs, problem.cores)?;
    let cores = problem.cores as f64;
    Some(format!(
        "the partitions ask for {sum:.4} cores, {:.4} more than the {} there are",
        sum - cores,
        problem.cores
    ))
}

/// Partitions that cannot share a core in pairs, chosen greedily from the longest on.
fn clique(problem: &Problem) -> Option<String> {
    let mut order: Vec<usize> = (0..problem.parts.len()).collect();
    let proc = |p: &usize| problem.parts[*p].proc;
    order.sort_by_key(|p| (problem.acts[proc(p)].period - 2 * problem.acts[proc(p)].dur, *p));
    for first in order.iter().take(64) {
        let mut chosen = vec![*first];
        for p in &order {
            let apart = |q: &usize| match (problem.parts[*p].core, problem.parts[*q].core) {
                (Some(a), Some(b)) if a != b => true,
                _ => excess(problem, proc(p), proc(q)).is_some(),
            };
            if !chosen.contains(p) && chosen.iter().all(apart) {
                chosen.push(*p);
            }
            if chosen.len() > problem.cores {
                let names: Vec<String> = chosen.iter().map(|p| problem.name(proc(p))).collect();
                return Some(format!(
                    "no two of {} can share a core (their durations exceed the greatest common \
                        divisors of their periods), and there are {} cores, {} too few",
                    names.join(", "),
                    problem.cores,
                    chosen.len() - problem.cores
                ));
            }
        }
    }
    None
}
