//! The budgets of a candidate against a search over all budgets.

use super::analysed::{Limits, WHOLE};
use super::attempt::Attempt;
use super::candidate::Candidate;
use super::pages;
use super::problem::Problem;
use super::speed::mean;
use crate::core_plan::CorePlan;
use crate::demand::Demand;
use crate::resources::Resources;
use crate::work::Work;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::System;
use solocore_model::system::Objective;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

/// Cores with an analysed task each, of three cores.
fn system(rng: &mut ChaCha8Rng, tasks: u32) -> String {
    let mut text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nactive_cores = 3\n"
        .to_owned();
    for i in 0..tasks {
        let period = f64::from(rng.random_range(10..60u32));
        let work = period * rng.random_range(0.2..0.7);
        let misses = (work * rng.random_range(300.0..4000.0)) as u64;
        writeln!(
            text,
            "[[task]]\nname = \"t{i}\"\ncore = {i}\nperiod = \"{period} ms\"\nwcet = \
            \"{work:.3} ms\"\nmisses = {misses}"
        )
        .unwrap();
    }
    text
}

/// A program on a core.
fn best_effort(core: u32, misses: u32) -> String {
    format!(
        "[[task]]\nname = \"d{core}\"\ncore = {core}\ncriticality = \"D\"\nwcet = \"10 ms\"\nmisses = \
            {misses}\n"
    )
}

/// Gives a test a system of three cores with stated cores, with the candidate of these and its
/// pages.
fn with_problem(text: &str, test: impl FnOnce(&Problem, &Candidate, &[Rc<CorePlan>])) {
    let system = System::parse(Path::new("system.toml"), text).unwrap();
    let stated =
        |t: &solocore_model::system::SystemTask| Demand::stated(&t.demand).expect("stated");
    let demands: Vec<Demand> = system.tasks.iter().map(stated).collect();
    let work: Vec<Work> = (1..)
        .zip(&system.tasks)
        .zip(&demands)
        .map(|((priority, task), demand)| Work { task, demand, priority })
        .collect();
    let resources = Resources::of(&system).unwrap();
    let placement = system.tasks.iter().filter_map(|t| t.core).collect();
    let candidate = Candidate { placement, ways: vec![4, 4, 4] };
    let lock = |core: u32| {
        let on = candidate.on(core);
        Rc::new(pages::lock(core, &on, &HashMap::new(), None, &work, &resources))
    };
    let pages: Vec<Rc<CorePlan>> = (0..3).map(lock).collect();
    let problem = Problem::new(&work, resources, Objective::BestEffort, None);
    test(&problem, &candidate, &pages);
}

/// Do any budgets of the two analysed cores meet all deadlines beside this budget of best effort?
/// The ladder has steps of 10 %.
fn any_budgets(problem: &Problem, pages: &[Rc<CorePlan>], best_effort: u64) -> bool {
    let step = |&q: &u64| (q > 1).then_some((q * 9 / 10).min(q - 1));
    let ladder: Vec<u64> = std::iter::successors(Some(problem.bus), step).collect();
    let mut tried = problem.base.clone();
    let mut works = |a: u64, b: u64| {
        tried.set_budgets(vec![a, b, best_effort], vec![None; 3]);
        [pages[0].again(problem.work, &tried), pages[1].again(problem.work, &tried)]
            .iter()
            .all(CorePlan::schedulable)
    };
    ladder.iter().any(|&a| ladder.iter().any(|&b| works(a, b)))
}

/// A program that makes few accesses leaves the rest of its part to the other one: with one part
/// for both, the deadline would be missed.
#[test]
fn a_program_that_cannot_use_its_part_leaves_it() {
    let task = |name: &str, core: u32, kind: &str, misses: u32| {
        format!(
            "[[task]]\nname = \"{name}\"\ncore = {core}\n{kind}\nwcet = \"8 ms\"\nmisses = {misses}\n"
        )
    };
    let best_effort = "criticality = \"D\"";
    let text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nactive_cores = 3\n"
        .to_owned()
        + &task("t", 0, "period = \"20 ms\"", 8000)
        + &task("few", 1, best_effort, 4000)
        + &task("many", 2, best_effort, 160_000);
    with_problem(&text, |problem, candidate, pages| {
        let resources = &problem.base;
        let mut attempt = Attempt::new(problem, candidate, pages, resources, None);
        let found = attempt.best(Limits { deadline: WHOLE, slowdown: u64::MAX }).expect("budgets");
        let [_, few, many] = found.budgets[..] else { panic!("three budgets") };
        let usable = problem.usable(1, &[1]);
        assert!(few == usable && few < many && many < problem.most, "{few} {many}");
        let mut tried = resources.clone();
        let mut meets = |own: u64, few: u64| {
            tried.set_budgets(vec![own, few, many], vec![None; 3]);
            pages[0].again(problem.work, &tried).schedulable()
        };
        assert!(meets(found.budgets[0], few));
        assert!(!meets(problem.bus, many), "{many}");
    });
}

#[test]
fn no_budgets_leave_best_effort_more() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut compared, mut none) = (0, 0);
    for case in 0..10 {
        let text = system(&mut rng, 2) + &best_effort(2, 200_000);
        with_problem(&text, |problem, candidate, pages| {
            let mut attempt = Attempt::new(problem, candidate, pages, &problem.base, None);
            let limits = Limits { deadline: WHOLE, slowdown: u64::MAX };
            let found = attempt.best(limits).map(|found| found.budgets);
            let best_effort = found.as_ref().map_or(0, |budgets| budgets[2]);
            match &found {
                Some(budgets) => {
                    let mut with = problem.base.clone();
                    with.set_budgets(budgets.clone(), vec![None; 3]);
                    assert!(
                        (0..2).all(|c| pages[c].again(problem.work, &with).schedulable()),
                        "case {case}\n{text}"
                    );
                    // The bus carries no more, so larger budgets have no effect.
                    if best_effort * 102 / 100 + 2 > problem.most {
                        return;
                    }
                    compared += 1;
                }
                None => none += 1,
            }
            let more = (best_effort * 102 / 100).max(best_effort + 2);
            assert!(
                !any_budgets(problem, pages, more),
                "case {case}: more than {best_effort}\n{text}"
            );
        });
    }
    assert!(compared > 2, "{compared} compared, {none} without");
}

/// The largest mean speed of the programs on cores 1 and 2 with any budgets from these floors on,
/// in steps of 1 %. A larger budget of one core leaves the other one no more: so one goes up while
/// the other goes down.
fn fastest(attempt: &mut Attempt, floors: [u64; 2], limits: Limits) -> f64 {
    let up = |&q: &u64| Some((q * 101 / 100).max(q + 1)).filter(|&q| q <= 20_000);
    let ladder = |floor: u64| std::iter::successors(Some(floor), up);
    let mut down: Vec<u64> = ladder(floors[1]).collect();
    let shares = attempt.shares();
    let mut best = 0.0f64;
    for a in ladder(floors[0]) {
        while let Some(&b) = down.last() {
            if let Some(budgets) = attempt.least(vec![1, a, b], limits) {
                best = best.max(mean(&shares, attempt.with(&budgets)));
                break;
            }
            down.pop();
        }
    }
    best
}

/// Programs beside analysed tasks on two cores: no other budgets make them faster by more than 1 %,
/// and with one factor for all cores some would be slower.
#[test]
fn no_budgets_make_best_effort_faster() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let (mut compared, mut gained) = (0, 0);
    for case in 0..12 {
        let mut text = system(&mut rng, 3);
        for core in 1..3 {
            let misses = rng.random_range(20_000..400_000);
            text += &best_effort(core, misses);
        }
        with_problem(&text, |problem, candidate, pages| {
            let mut attempt = Attempt::new(problem, candidate, pages, &problem.base, None);
            let limits = Limits { deadline: WHOLE, slowdown: u64::MAX };
            let Some(found) = attempt.best(limits) else { return };
            let shares = attempt.shares();
            let floors = [1, 2].map(|core| problem.floor.min(found.budgets[core]));
            let together = attempt.raised(found.budgets.clone(), limits);
            let chosen = attempt.raised_by_speed(found.budgets, limits, true);
            assert_eq!(attempt.least(chosen.clone(), limits).as_ref(), Some(&chosen));
            let mut speed = |budgets: &[u64]| mean(&shares, attempt.with(budgets));
            let [together, chosen] = [speed(&together), speed(&chosen)];
            let fastest = fastest(&mut attempt, floors, limits);
            println!("case {case}: {together} {chosen} {fastest}");
            assert!(chosen >= 0.99 * fastest && chosen >= together, "case {case}\n{text}");
            compared += 1;
            gained += u32::from(together < 0.99 * fastest);
        });
    }
    assert!(compared > 5 && gained > 2, "{compared} compared, {gained} gained");
}
