//! The search that ends with a proof, against all candidates of small systems.

use super::analysed::{Limits, WHOLE};
use super::candidate::Candidate;
use super::certificate::{Certificate, Fact, Part, Question, Step, Ways};
use super::check::check;
use super::exact::{self, Proved, TOLERANCE};
use super::outcome::Value;
use super::problem::Problem;
use super::search::{Asked, Effort, Tried};
use super::solver::Solver;
use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::System;
use solocore_model::plan::ProofResult;
use solocore_model::system::Objective;
use solocore_model::units::Bytes;
use std::fmt::Write as _;
use std::path::Path;

/// Sums of speeds are rounded by less than this.
const ROUNDED: f64 = 1e-8;

/// Random systems of more than two cores, unless `SOLOCORE_CASES` names another number.
const CASES: usize = 48;

fn cases() -> usize {
    std::env::var("SOLOCORE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

/// Some cores, one or two more tasks with curves, and a number of best-effort programs.
fn system(rng: &mut ChaCha8Rng, cores: u32, programs: u32, load: f64) -> String {
    let mut text = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nactive_cores = {cores}\n"
    );
    let hard = cores + rng.random_range(1..3u32);
    for i in 0..hard {
        let period = f64::from(rng.random_range(10..60u32));
        let work = (period * load * rng.random_range(0.3..1.7) / f64::from(hard)).min(0.6 * period);
        let (pages, misses) = (rng.random_range(1..900u32), work * rng.random_range(100.0..3000.0));
        let point = |k: u32| {
            let misses = (misses * f64::from(pages - k) / f64::from(pages)) as u64;
            format!("{{ wcet = \"{:.6} ms\", misses = {misses} }}", work + misses as f64 * 2e-4)
        };
        let curve = (0..=pages).map(point).collect::<Vec<_>>().join(", ");
        writeln!(text, "[[task]]\nname = \"t{i}\"\nperiod = \"{period} ms\"\ncurve = [{curve}]")
            .unwrap();
    }
    for i in 0..programs {
        let misses = rng.random_range(1000..100_000u32);
        writeln!(
            text,
            "[[task]]\nname = \"d{i}\"\ncriticality = \"D\"\nwcet = \"20 ms\"\nmisses = {misses}"
        )
        .unwrap();
    }
    text
}

/// Gives the solver of a system to a test.
fn with_solver(text: &str, objective: Objective, test: impl FnOnce(&Solver)) {
    with_ways(text, None, objective, test);
}

/// The same with this number of ways.
pub fn with_ways(text: &str, ways: Option<u32>, objective: Objective, test: impl FnOnce(&Solver)) {
    let mut system = System::parse(Path::new("system.toml"), text).unwrap();
    if let Some(ways) = ways {
        let llc = &mut system.platform.llc;
        llc.size = Bytes(llc.size.0 / u64::from(llc.ways) * u64::from(ways));
        llc.ways = ways;
    }
    let stated =
        |t: &solocore_model::system::SystemTask| Demand::stated(&t.demand).expect("stated");
    let demands: Vec<Demand> = system.tasks.iter().map(stated).collect();
    let rank = |t: usize| {
        let w = &system.tasks[t];
        (w.criticality == solocore_model::system::Criticality::D, w.period, t)
    };
    let mut order: Vec<usize> = (0..system.tasks.len()).collect();
    order.sort_by_key(|&t| rank(t));
    let priority = |t: usize| order.iter().position(|&o| o == t).unwrap() as u32 + 1;
    let work: Vec<Work> = system
        .tasks
        .iter()
        .zip(&demands)
        .enumerate()
        .map(|(t, (task, demand))| Work { task, demand, priority: priority(t) })
        .collect();
    let resources = Resources::of(&system).unwrap();
    test(&Solver::new(Problem::new(&work, resources, objective, None)));
}

/// All ways to put tasks on equal cores: each is on a core that has some, or on the next one.
fn placements(tasks: usize, cores: u32) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new()];
    for _ in 0..tasks {
        let further = |placed: Vec<u32>| {
            let used = placed.iter().max().map_or(0, |core| core + 1);
            (0..cores.min(used + 1)).map(move |core| [&placed[..], &[core]].concat())
        };
        out = out.into_iter().flat_map(further).collect();
    }
    out
}

/// The same as the sets of the cores.
pub fn partitions(tasks: usize, cores: u32) -> impl Iterator<Item = Vec<usize>> {
    placements(tasks, cores).into_iter().map(move |placement| {
        let set = |core: u32| (0..tasks).filter(|&t| placement[t] == core).map(|t| 1 << t).sum();
        (0..cores).map(set).collect()
    })
}

/// All ways to give this number of ways to cores, one each at least.
fn splits(ways: u32, cores: u32) -> Vec<Vec<u32>> {
    if cores == 1 {
        return vec![vec![ways]];
    }
    let with = |own: u32| {
        let rest = splits(ways - own, cores - 1);
        rest.into_iter().map(move |rest| [&[own][..], &rest].concat())
    };
    (1..=ways + 1 - cores).flat_map(with).collect()
}

/// Beside each of these sets, by its ways, the least sum of the costs of the others in any choice
/// of the rest, by trying all. `own`: the cost of each set by ways, infinite where it cannot have
/// them.
pub fn least_beside(own: &[Vec<f64>], [cores, ways]: [u32; 2], placed: &[usize]) -> Vec<Vec<f64>> {
    let tasks = own.len().trailing_zeros() as usize;
    let mut least = vec![vec![f64::INFINITY; ways as usize + 1]; placed.len()];
    for mut sets in partitions(tasks, cores) {
        if !placed.iter().all(|set| sets.contains(set)) {
            continue;
        }
        sets.sort_by_key(|set| placed.iter().position(|p| p == set).unwrap_or(usize::MAX));
        for split in splits(ways, cores) {
            let costs: Vec<f64> =
                sets.iter().zip(&split).map(|(&set, &ways)| own[set][ways as usize]).collect();
            for (at, least) in least.iter_mut().enumerate() {
                let others = costs.iter().enumerate().filter(|&(other, _)| other != at);
                let sum: f64 = others.map(|(_, cost)| cost).sum();
                if costs[at] < f64::INFINITY {
                    let known = &mut least[split[at] as usize];
                    *known = known.min(sum);
                }
            }
        }
    }
    least
}

/// A table of costs of all sets of four tasks with up to six ways, at random, and a system for it
/// with three cores.
pub fn with_costs(seed: u64, test: impl Fn(&Solver, &[Vec<f64>])) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let text = system(&mut rng, 3, 0, 0.5);
    // One or two tasks more than cores: four are needed.
    let text = text.split("[[task]]").take(5).collect::<Vec<_>>().join("[[task]]");
    with_ways(&text, Some(6), Objective::Margin, |solver| {
        for _ in 0..20 {
            let mut one = || match rng.random_range(0..4) {
                0 => f64::INFINITY,
                _ => f64::from(rng.random_range(1..100u32)),
            };
            let mut row = || [vec![f64::INFINITY], (0..6).map(|_| one()).collect()].concat();
            let own: Vec<Vec<f64>> = (0..16).map(|_| row()).collect();
            test(solver, &own);
        }
    });
}

/// Budgets by set and ways. The least sum of all, less the first task's least budget, is more than
/// the others of some choice have. That task needs 100 with one way, and 10 with two; the next one
/// needs 40 and 5. The last two share a core and need 40 with three ways, and 5 with four.
pub fn misleading() -> Vec<Vec<f64>> {
    let mut own = vec![vec![f64::INFINITY; 7]; 16];
    for (set, ways, budget) in
        [(1, 1, 100.0), (1, 2, 10.0), (2, 1, 40.0), (2, 2, 5.0), (12, 3, 40.0), (12, 4, 5.0)]
    {
        own[set][ways] = budget;
    }
    own
}

/// The ways with which a set with these costs is possible, from the first to the last, and its
/// least cost; `None`: with none.
pub fn needs(own: &[f64]) -> Option<(Ways, u64)> {
    let possible = |&ways: &usize| own[ways] < f64::INFINITY;
    let least = (0..own.len()).find(possible)? as u32;
    let most = (0..own.len()).rev().find(possible)? as u32;
    let cost = own.iter().copied().fold(f64::INFINITY, f64::min) as u64;
    Some((Ways { least, most }, cost))
}

/// A certificate of four tasks without facts.
pub fn nothing() -> Certificate {
    let limits = Limits { deadline: 1, slowdown: 1 };
    Certificate {
        question: Question { limits, t: 1, speed: 0.0, part: Part::ALL },
        tasks: (0..4).collect(),
        facts: Vec::new(),
        parts: Vec::new(),
    }
}

/// The placed sets of partitions of four tasks on three cores, with the rest.
pub const PLACED: [(&[usize], usize); 5] =
    [(&[1], 14), (&[3], 12), (&[1, 2], 12), (&[5, 2], 8), (&[3, 4, 8], 0)];

/// All candidates, with the value of each.
fn all(solver: &Solver) -> Vec<(Candidate, Value)> {
    let base = &solver.problem.base;
    let mut out = Vec::new();
    for placement in placements(solver.problem.work.len(), base.cores) {
        for ways in splits(base.platform.llc.ways, base.cores) {
            let candidate = Candidate { placement: placement.clone(), ways };
            let plain = solver.plain(&candidate);
            let gains = plain.value.meets() && solver.gains_by_speed(&candidate);
            let value = if gains { solver.by_speed(&plain, true).value } else { plain.value };
            out.push((candidate, value));
        }
    }
    out
}

/// Searches from one bad choice on.
pub fn proved(solver: &Solver) -> (Value, Proved) {
    let tasks = solver.problem.work.len();
    let ways = solver.problem.base.platform.llc.ways;
    let mut tried = Tried::default();
    let cores = solver.problem.base.cores;
    let mut own = vec![1; cores as usize];
    own[0] = ways + 1 - cores;
    tried.add(solver.plain(&Candidate { placement: vec![0; tasks], ways: own }));
    let asked = Asked {
        objective: solver.problem.objective,
        slowdown: None,
        placement: &[],
        fewer: None,
        prices: None,
        effort: Effort::Endless,
        stop: &|_| false,
    };
    // Nothing would stay open in a small system, so all choices are a part that has smaller ones.
    let proved = exact::prove_with(solver, &mut tried, &asked, 0).expect("equal cores");
    (tried.best().value, proved)
}

/// Does the proof say what all candidates say: the best is not better, or none meets the deadlines?
/// Its result, and the most parts of a certificate.
pub fn agreed(solver: &Solver, text: &str) -> (ProofResult, usize) {
    let all = all(solver);
    let most = all.iter().map(|(_, v)| *v).reduce(|a, b| if b.better(&a) { b } else { a });
    let most = most.expect("candidates");
    let (value, proved) = proved(solver);
    match proved.proof.result {
        ProofResult::Best => {
            let less = |value: f64| value * (1.0 - TOLERANCE);
            let (own, other) = (value.objective, most.objective);
            let (own, other) = if other < 0.0 { (less(own), other) } else { (own, less(other)) };
            let near = own >= other - ROUNDED;
            // The best one may lock other pages, and meet deadlines that no candidate meets.
            let good = value.class > most.class || (value.class >= most.class && near);
            assert!(good, "{value:?}, not {most:?}\n{text}");
        }
        ProofResult::Impossible => assert!(!most.meets(), "{most:?}\n{text}"),
        ProofResult::Open => {}
    }
    let parts = proved.certificates.iter().map(|certificate| certificate.parts.len());
    (proved.proof.result, parts.max().unwrap_or(0))
}

#[test]
fn the_proof_agrees_with_all_candidates() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut best, mut impossible, mut open) = (0, 0, 0);
    for case in 0..24 {
        let objective =
            [Objective::Margin, Objective::Bounds, Objective::BestEffort][case as usize % 3];
        let programs = if case % 3 == 2 { 1 + case / 3 % 2 } else { 0 };
        let text = system(&mut rng, 2, programs, 0.6 + f64::from(case % 8) / 4.0);
        with_solver(&text, objective, |solver| match agreed(solver, &text).0 {
            ProofResult::Best => best += 1,
            ProofResult::Impossible => impossible += 1,
            ProofResult::Open => open += 1,
        });
    }
    println!("{best} best, {impossible} impossible, {open} open");
    assert!(
        best > 5 && impossible > 2 && open * 4 <= best + impossible,
        "{best} {impossible} {open}"
    );
}

/// Beside more than one other core, a set with a small budget may be one with many ways, which the
/// others then lack. The least sum of all, less the least budget of the set, does not bound theirs.
#[test]
fn the_proof_agrees_with_all_candidates_of_more_cores() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut by_result = [0; 3];
    let cases = cases();
    for case in 0..cases {
        let objective = [Objective::Margin, Objective::Bounds, Objective::BestEffort][case % 3];
        let programs = if case % 3 == 2 { 1 } else { 0 };
        let cores = 3 + u32::from(case % 8 == 7);
        let text = system(&mut rng, cores, programs, 0.8 + (case % 16) as f64 / 8.0);
        with_ways(&text, Some(cores + 3), objective, |solver| {
            by_result[agreed(solver, &text).0 as usize] += 1;
        });
    }
    println!("{by_result:?}");
    assert!(by_result[0] > cases / 6 && by_result[1] > cases / 12, "{by_result:?}");
}

/// Programs that need more of the memory than the deadlines leave are asked about in parts. A part
/// that claims too little of a budget, or too much of a speed, would exclude the best candidate.
#[test]
fn proofs_in_parts_agree_with_all_candidates() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (mut best, mut in_parts) = (0, 0);
    for case in 0..16 {
        let light = system(&mut rng, 2, 1 + case % 2, 0.3 + f64::from(case % 6) / 10.0);
        let text = light.replace("\"20 ms\"\nmisses = ", "\"20 ms\"\nmisses = 4");
        with_solver(&text, Objective::BestEffort, |solver| {
            let (result, parts) = agreed(solver, &text);
            let proved = result == ProofResult::Best;
            best += u32::from(proved);
            in_parts += u32::from(proved && parts > 1);
        });
    }
    assert!(best > 10 && in_parts > 0, "{best} proved, {in_parts} of them in parts");
}

/// Beside best effort, the programs' floors make the sets need more, step by step. A check that
/// ends these steps too soon refuses what the search has closed: the proof is lost.
#[test]
fn proofs_of_bounds_beside_best_effort_agree_with_all_candidates() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let mut by_result = [0; 3];
    let cases = cases();
    for case in 0..cases {
        let objective = [Objective::Margin, Objective::Bounds][case % 2];
        let programs = 1 + (case / 2 % 2) as u32;
        let cores = 2 + u32::from(case % 8 == 7);
        let ways = (cores == 3).then_some(6);
        let text = system(&mut rng, cores, programs, 0.8 + (case % 8) as f64 / 4.0);
        with_ways(&text, ways, objective, |solver| {
            by_result[agreed(solver, &text).0 as usize] += 1;
        });
    }
    println!("{by_result:?}");
    assert!(by_result[0] > cases / 3 && by_result[2] * 100 <= cases, "{by_result:?}");
}

/// Asks about accesses by the number of pages: random ones that fall by less and less, one that
/// falls in few steps, and one that does not fall.
pub fn falling(test: impl Fn(&[u64])) {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    for case in 0..200 {
        let pages = rng.random_range(0..40 + case * 2);
        let most = 1u64 << rng.random_range(1..30);
        let mut gains: Vec<u64> = (0..pages).map(|_| rng.random_range(0..most)).collect();
        if case % 3 == 0 {
            gains.iter_mut().for_each(|gain| *gain = 1 << (*gain).max(1).ilog2());
        }
        gains.sort_unstable_by(|a, b| b.cmp(a));
        let all: u64 = gains.iter().sum();
        let after = gains.iter().scan(all + 7, |left, gain| {
            *left -= gain;
            Some(*left)
        });
        test(&[all + 7].into_iter().chain(after).collect::<Vec<u64>>());
    }
    test(&[5, 5, 5]);
    test(&[]);
}

/// Are these steps falling? Is their sum over the first pages nowhere below the savings of these
/// pages, and exact for all pages?
pub fn outlines(misses: &[u64], any_ps: u64, steps: &[(u64, u64)]) {
    assert!(steps.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{steps:?} of {misses:?}");
    let each = steps.iter().flat_map(|&(pages, ps)| (0..pages).map(move |_| ps));
    let sums = each.scan(0, |sum, ps| {
        *sum += ps;
        Some(*sum)
    });
    let sums: Vec<u64> = sums.collect();
    let (mut last, all) = (0, misses.first().map_or(0, |first| first * any_ps));
    for (pages, left) in misses.iter().enumerate().skip(1) {
        let saved = all - left * any_ps;
        last = sums.get(pages - 1).copied().unwrap_or(last);
        assert!(last >= saved, "{pages}: {last}, not {saved}");
    }
    let saved = misses.last().map_or(0, |left| all - left * any_ps);
    assert_eq!(sums.last().copied().unwrap_or(0), saved, "{steps:?} of {misses:?}");
}

/// About a dozen places of a list of this length.
pub fn some(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(length / 12 + 1)
}

pub fn refused(solver: &Solver, certificate: &Certificate) -> bool {
    check(&solver.problem, certificate, &|| false).is_err()
}

/// A certificate with one number changed for the better, or with a part left out, proves nothing.
#[test]
fn certificates_that_were_changed_are_refused() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut facts, mut leaves, mut parts, mut asked) = (0, 0, 0, 0);
    for case in 0..24 {
        let soft = case % 2 == 1;
        let programs = if soft { 1 + case / 2 % 2 } else { 0 };
        let text = system(&mut rng, 3, programs, 1.0 + f64::from(case % 8) / 4.0);
        let objective = if soft { Objective::BestEffort } else { Objective::Margin };
        with_solver(&text, objective, |solver| {
            let (_, proved) = proved(solver);
            let Some(whole) = proved.certificates.first() else { return };
            if proved.proof.result == ProofResult::Open {
                return;
            }
            assert!(!refused(solver, whole));
            // Facts that claim more; that may be so, too. A dozen of each certificate's.
            for at in some(whole.facts.len()) {
                let mut changed = whole.clone();
                match &mut changed.facts[at] {
                    Fact::Alone(_) => continue,
                    Fact::Breaks { others, .. } => *others = 0,
                    Fact::Needs { budget, .. } => *budget *= 2,
                }
                facts += u32::from(refused(solver, &changed));
            }
            // Steps that do not hold, and leaves that are missing: others may close the same.
            let all = whole.parts.iter().enumerate();
            let of = all.flat_map(|(part, (_, own))| (0..own.len()).map(move |at| (part, at)));
            let of: Vec<(usize, usize)> = of.collect();
            for (part, at) in some(of.len()).map(|place| of[place]) {
                let mut less = whole.clone();
                less.parts[part].1.swap_remove(at);
                leaves += u32::from(refused(solver, &less));
                let mut hasty = whole.clone();
                let first = &mut hasty.parts[part].1[at].steps;
                first.insert(0, Step { place: 9, budget: None });
                assert!(soft || refused(solver, &hasty), "case {case}: leaf {at}");
            }
            // Parts that are missing, and parts with a gap to the next.
            for part in some(whole.parts.len()) {
                let mut less = whole.clone();
                less.parts.swap_remove(part);
                let mut narrow = whole.clone();
                narrow.parts[part].0.least += 1;
                let fast = whole.question.speed > f64::from(programs);
                assert!(fast || (refused(solver, &less) && refused(solver, &narrow)));
                parts += 1;
            }
            // Another question, for which there is a choice.
            let mut easier = whole.clone();
            easier.question.limits.deadline = WHOLE;
            easier.question.speed *= 0.9;
            if proved.proof.result == ProofResult::Best {
                assert!(refused(solver, &easier), "case {case}");
                // The choice is in one of many parts, too.
                let leaves = easier.parts[0].1.clone();
                let soft = |bit: &usize| !solver.problem.work[easier.tasks[*bit]].hard();
                let few = (0..easier.tasks.len()).filter(soft).map(|bit| 1 << bit);
                let of = |few| (0..18).map(move |at| Part { least: 1 << at, most: 2 << at, few });
                easier.parts = few.flat_map(of).map(|part| (part, leaves.clone())).collect();
                assert!(refused(solver, &easier), "case {case}");
                asked += 1;
            }
            let mut none = whole.clone();
            (none.facts, none.parts) = (Vec::new(), vec![(Part::ALL, Vec::new())]);
            // The speed of programs may be out of reach without any fact.
            assert!(soft || refused(solver, &none), "case {case}");
            let mut twice = whole.clone();
            twice.tasks[0] = twice.tasks[1];
            assert!(refused(solver, &twice), "case {case}");
        });
    }
    println!("{facts} facts, {leaves} leaves, {parts} parts, {asked} questions");
    assert!(facts > 10 && leaves > 2 && asked > 5, "{facts} {leaves} {asked}");
}
