//! Proofs with several programs beside analysed tasks, against all candidates of small systems.

use super::certificate::{Certificate, Leaf};
use super::exact_tests::{agreed, proved, refused, some, with_ways};
use super::solver::Solver;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::plan::ProofResult;
use solocore_model::system::Objective;
use std::cell::Cell;
use std::fmt::Write as _;

/// Systems with two tasks and three programs, all with many accesses, on three cores.
fn with_three_programs(test: impl Fn(&Solver, &str)) {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    for _ in 0..6 {
        let mut text =
            "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nactive_cores = 3\n"
                .to_owned();
        for task in 0..5 {
            let (kind, wcet) = match task {
                0 | 1 => ("period = \"33.3 ms\"", rng.random_range(2.0..6.0)),
                _ => ("criticality = \"D\"", 1.0),
            };
            let misses: u32 = rng.random_range(5_000..12_000);
            writeln!(
                text,
                "[[task]]\nname = \"t{task}\"\n{kind}\nwcet = \"{wcet:.3} ms\"\nmisses = {misses}"
            )
            .unwrap();
        }
        with_ways(&text, Some(4), Objective::BestEffort, |solver| test(solver, &text));
    }
}

/// Each core alone may have a large budget, but not all of them together: only the sum of budgets
/// says how fast all programs are at most.
#[test]
fn proofs_by_sums_of_budgets_agree_with_all_candidates() {
    let (best, sums) = (Cell::new(0), Cell::new(0));
    with_three_programs(|solver, text| {
        best.set(best.get() + u32::from(agreed(solver, text).0 == ProofResult::Best));
        for certificate in proved(solver).1.certificates {
            let leaves = || certificate.parts.iter().flat_map(|(_, leaves)| leaves);
            sums.set(sums.get() + leaves().filter(|leaf| !leaf.totals.is_empty()).count());
        }
    });
    let (best, sums) = (best.get(), sums.get());
    println!("{best} proved, {sums} leaves by sums of budgets");
    assert!(best >= 5 && sums > 0, "{best} {sums}");
}

/// A system whose programs would be fastest on average if the first of them had next to nothing.
fn with_a_program_to_starve(test: impl Fn(&Solver)) {
    let mut text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\n".to_owned();
    for (name, period, wcet, misses) in
        [("t0", 50, 13.330, 79_675), ("t1", 10, 0.651, 490), ("t2", 20, 3.745, 22_420)]
    {
        writeln!(
            text,
            "[[task]]\nname = \"{name}\"\nperiod = \"{period} ms\"\nwcet = \"{wcet} ms\"\n\
                misses = {misses}"
        )
        .unwrap();
    }
    for (name, misses) in [("d0", 10_658), ("d1", 5267), ("d2", 5861), ("d3", 7109)] {
        writeln!(
            text,
            "[[task]]\nname = \"{name}\"\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = {misses}"
        )
        .unwrap();
    }
    with_ways(&text, None, Objective::BestEffort, |solver| test(solver));
}

/// The last certificate of a system's proof.
fn certificate(solver: &Solver) -> Option<Certificate> {
    let (_, proved) = proved(solver);
    let certificate = proved.certificates.into_iter().next_back();
    certificate.filter(|_| proved.proof.result == ProofResult::Best)
}

/// The number of changes of leaves of a kind that the check refuses.
fn refusals(
    solver: &Solver,
    whole: &Certificate,
    kind: impl Fn(&Leaf) -> bool,
    change: impl Fn(&mut Leaf),
) -> usize {
    let all = whole.parts.iter().enumerate();
    let of = all.flat_map(|(part, (_, own))| (0..own.len()).map(move |at| (part, at)));
    let of: Vec<(usize, usize)> = of.filter(|&(part, at)| kind(&whole.parts[part].1[at])).collect();
    let refuses = |place: &usize| {
        let (mut other, (part, at)) = (whole.clone(), of[*place]);
        change(&mut other.parts[part].1[at]);
        refused(solver, &other)
    };
    some(of.len()).filter(refuses).count()
}

/// Without an interval, a step or a price, sums close less.
#[test]
fn sums_of_budgets_that_were_changed_are_refused() {
    let changes: [fn(&mut Leaf); 4] = [
        |leaf| drop(leaf.totals.remove(leaf.totals.len() / 2)),
        |leaf| leaf.totals.iter_mut().for_each(|total| total.steps.clear()),
        |leaf| leaf.totals.iter_mut().for_each(|total| total.price = 0.0),
        |leaf| leaf.totals.iter_mut().for_each(|total| total.price = f64::NAN),
    ];
    let counts = [const { Cell::new(0) }; 4];
    with_three_programs(|solver, _| {
        let Some(whole) = certificate(solver) else { return };
        for (count, change) in counts.iter().zip(changes) {
            let refused = refusals(solver, &whole, |leaf| !leaf.totals.is_empty(), change);
            count.set(count.get() + refused);
        }
    });
    let counts = counts.map(|count| count.get());
    println!("{counts:?}");
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

/// Budgets with which all programs have more than in a part close it. Those that give some program
/// no more, and those that break a limit, do not.
#[test]
fn budgets_that_starve_a_program_are_left_out() {
    with_a_program_to_starve(|solver| {
        let whole = certificate(solver).expect("a proof");
        let fair = |leaf: &Leaf| !leaf.fair.is_empty();
        let leaves = whole.parts.iter().flat_map(|(_, leaves)| leaves).filter(|l| fair(l)).count();
        assert!(leaves > 0);
        let counts = [
            refusals(solver, &whole, fair, |leaf| leaf.fair.iter_mut().for_each(|own| *own /= 64)),
            refusals(solver, &whole, fair, |leaf| leaf.fair.iter_mut().for_each(|own| *own *= 64)),
            refusals(solver, &whole, fair, |leaf| leaf.fair.truncate(1)),
        ];
        println!("{leaves} leaves, {counts:?}");
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    });
}
