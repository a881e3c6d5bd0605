//! An adversary against the bounds: it searches for the programs, places and offsets that come
//! nearest to them, or beyond.
//!
//! Problem: random systems with random pages come nowhere near a worst case, so that a bound can be
//! wrong and no test shows it (issue 18).
//! Rule: `solocore_experiments::attack` searches; here no attack may exceed a bound.
//!
//! `ATTACKS` is the number of evaluations of each policy. A plan without a bound cannot be
//! attacked; the number of such plans is printed, and a planner with too few bounds fails as well.
//! Not covered: DMA without partitions, locked pages, shared frames.

mod small;

use solocore_experiments::attack::climb::Genes;
use solocore_experiments::attack::evaluate::{Outcome, evaluate};
use solocore_experiments::attack::genes::{BOARDS, Cursor, KNOWN, decode, sizes};
use solocore_experiments::attack::{Found, POLICIES, Policy, Search, boards};
use solocore_model::Platform;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Directory for variants of boards.
fn dir() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn attacks(usual: u64) -> u64 {
    std::env::var("ATTACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Genes with a fixed value, for a search of one kind of attack: `ATTACK_KEEP="83=2 64=1"`.
fn kept() -> Vec<(usize, u16)> {
    let text = std::env::var("ATTACK_KEEP").unwrap_or_default();
    let one = |pair: &str| {
        let (gene, choice) = pair.split_once('=').expect("gene=choice");
        (gene.parse().expect("a gene"), choice.parse().expect("a choice"))
    };
    text.split_whitespace().map(one).collect()
}

/// Climbs on one board.
fn attack(policy: Policy, board: usize, attacks: u64, seed: u64) -> Found {
    Search { policy, board, attacks, seed }.run(&kept(), &|_| true).unwrap()
}

/// The variables that reproduce a point.
fn reproduction(policy: Policy, genes: &Genes) -> String {
    let attack = decode(policy, dir(), &mut Cursor::new(genes));
    let platform = Platform::find(&attack.board, Path::new(".")).unwrap();
    let mut out = format!(
        "{policy:?}, genes {genes:?}\n--- system.toml\n{}--- programs\n",
        attack.text(&platform)
    );
    writeln!(out, "victim {:?}", attack.victim).unwrap();
    writeln!(out, "mates {:?}\nown {:?}\njobs {:?}", attack.mates, attack.own, attack.jobs)
        .unwrap();
    for (core, other) in (1..).zip(&attack.others) {
        writeln!(out, "core {core} {other:?}").unwrap();
    }
    out
}

/// The results of a search, by board.
fn search(policy: Policy, total: u64) -> Vec<(&'static str, Found)> {
    let boards = boards(policy);
    let count = boards.len() as u64;
    let seed = std::env::var("ATTACK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let share = |at: u64| total / count + u64::from(at < total % count);
    (0..)
        .zip(boards)
        .map(|(at, board)| (BOARDS[board], attack(policy, board, share(at), seed)))
        .collect()
}

fn hold(policy: Policy, usual: u64) {
    let started = std::time::Instant::now();
    let found = search(policy, attacks(usual));
    let mut all = Found::default();
    for (board, found) in found {
        println!(
            "{policy:?} on {board}: {} evaluations, {} bounded, {} unbounded, {} refused, {} \
                violations; seen/bound median {:.3}, most {:.3}",
            found.evaluations,
            found.ratios.len(),
            found.unbounded,
            found.refusals(),
            found.violations.len(),
            found.median(),
            found.most()
        );
        if let Some((_, genes)) =
            found.best.as_ref().filter(|_| std::env::var_os("ATTACK_BEST").is_some())
        {
            println!("best: {policy:?} {genes:?}");
        }
        all.merge(found);
    }
    println!(
        "{policy:?}: {} evaluations in {:.1} s, {} bounded, {} violations; seen/bound median \
            {:.3}, most {:.3}",
        all.evaluations,
        started.elapsed().as_secs_f64(),
        all.ratios.len(),
        all.violations.len(),
        all.median(),
        all.most()
    );
    println!(
        "{policy:?}: a core made at most {} transactions beyond its budget in a period",
        all.beyond_budget
    );
    for (why, count) in all.refused.iter().take(5) {
        println!("refused {count} times: {why}");
    }
    all.violations.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (ratio, what, genes) in all.violations.iter().take(3) {
        println!("=== {ratio:.3}: {what}\n{}", reproduction(policy, genes));
    }
    assert!(
        all.violations.is_empty(),
        "{} of {} attacks exceeded a bound",
        all.violations.len(),
        all.evaluations
    );
    assert!(
        all.ratios.len() as u64 * 4 > all.evaluations,
        "only {} of {} attacks had a bound to attack",
        all.ratios.len(),
        all.evaluations
    );
}

#[test]
fn bounds_without_regulation_hold() {
    hold(Policy::None, 125);
}

#[test]
fn bounds_of_even_budgets_hold() {
    hold(Policy::Even, 125);
}

#[test]
fn bounds_of_uneven_budgets_hold() {
    hold(Policy::Uneven, 125);
}

#[test]
fn bounds_of_optimal_shares_hold() {
    hold(Policy::Optimal, 125);
}

#[test]
fn bounds_with_pages_anywhere_hold() {
    hold(Policy::Anywhere, 125);
}

#[test]
fn bounds_beside_the_bandwidth_lock_hold() {
    hold(Policy::Bwlock, 125);
}

#[test]
fn bounds_beside_jobs_that_hold_the_lock_hold() {
    hold(Policy::HeldJobs, 125);
}

#[test]
fn bounds_of_dynamic_budgets_hold() {
    hold(Policy::Dynamic, 125);
}

#[test]
fn bounds_of_vcpus_hold() {
    hold(Policy::Maracas, 125);
}

#[test]
fn bounds_of_windows_hold() {
    hold(Policy::Windows, 125);
}

#[test]
fn bounds_of_levels_hold() {
    hold(Policy::Levels, 125);
}

/// Every policy, in the order of the time of its simulations, longest first.
const LONGEST_FIRST: [Policy; 11] = [
    Policy::Dynamic,
    Policy::Maracas,
    Policy::HeldJobs,
    Policy::Bwlock,
    Policy::None,
    Policy::Windows,
    Policy::Levels,
    Policy::Even,
    Policy::Uneven,
    Policy::Optimal,
    Policy::Anywhere,
];

/// Searches all policies, two at a time; results by policy, then board. Prints each when it ends.
fn search_all(usual: u64) -> Vec<(Policy, Vec<(&'static str, Found)>)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        while let Some(&policy) = LONGEST_FIRST.get(next.fetch_add(1, Ordering::Relaxed)) {
            let started = std::time::Instant::now();
            out.push((policy, search(policy, attacks(usual))));
            println!("after {:.1} s:", started.elapsed().as_secs_f64());
            print_table(&out[out.len() - 1..]);
        }
        out
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut all = work();
        all.extend(other.join().unwrap());
        all
    });
    all.sort_by_key(|(policy, _)| POLICIES.iter().position(|p| p == policy));
    all
}

/// A table for docs. The row of all boards has the median of the boards' closest attacks, in place
/// of that over all attacks: the share of each bound that an adversary can fill.
fn print_table(found: &[(Policy, Vec<(&'static str, Found)>)]) {
    println!(
        "| policy | board | attacks | no bound | above the bound | bound/seen, median | \
            bound/seen, least |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|");
    let over =
        |ratio: f64| if ratio > 0.0 { format!("{:.2}", 1.0 / ratio) } else { "-".to_owned() };
    let (mut sentences, mut violations) = (Vec::new(), Vec::new());
    for (policy, boards) in found {
        let (mut all, mut closest) = (Found::default(), Found::default());
        let row = |board: &str, f: &Found, median: f64| {
            let (none, above) = (f.unbounded + f.refusals(), f.violations.len());
            let (median, least) = (over(median), over(f.most()));
            println!(
                "| {policy:?} | {board} | {} | {none} | {above} | {median} | {least} |",
                f.evaluations
            );
        };
        for (board, found) in boards {
            row(board, found, found.median());
            closest.ratios.push(found.most());
            all.merge(found.clone());
        }
        row("all", &all, closest.median());
        sentences.push(format!(
            "{policy:?}: seen/bound median {:.3}, most {:.3}",
            all.median(),
            all.most()
        ));
        sentences.extend(
            all.refused.iter().map(|(why, count)| format!("  refused {count} times: {why}")),
        );
        let worst = all.violations.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        violations.extend(worst.map(|(ratio, what, genes)| {
            let again = reproduction(*policy, &genes);
            format!("=== {ratio:.3}: {what}\n{again}")
        }));
    }
    sentences.iter().chain(&violations).for_each(|line| println!("{line}"));
}

/// `ATTACKS` evaluations a policy: `ATTACKS=10000 cargo test --release -p solocore-cli --test
/// attack table_of_bounds -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table, takes as long as it is asked to"]
fn table_of_bounds() {
    print_table(&search_all(700));
}

/// Each kind of attack by itself: the largest ratio of seen time to bound on any board, by policy.
#[test]
#[ignore = "prints a table"]
fn table_of_kinds() {
    println!("| attack | {} |", POLICIES.map(|p| format!("{p:?}")).join(" | "));
    println!("|---|{}", "--:|".repeat(POLICIES.len()));
    for (name, known) in KNOWN {
        let cell = |policy: Policy| {
            let ratio = |board: usize| {
                let mut genes = vec![0; sizes(policy).len()];
                known.iter().for_each(|&(gene, choice)| genes[gene] = choice);
                genes[0] = u16::try_from(board).unwrap();
                match evaluate(&decode(policy, dir(), &mut Cursor::new(&genes)), Path::new(".")) {
                    Outcome::Bounded { ratio, .. } => Some((ratio, BOARDS[board])),
                    _ => None,
                }
            };
            let worst =
                boards(policy).into_iter().filter_map(ratio).max_by(|a, b| a.0.total_cmp(&b.0));
            worst.map_or_else(
                || "no bound".to_owned(),
                |(ratio, board)| format!("{ratio:.2} {board}"),
            )
        };
        println!("| {name} | {} |", POLICIES.map(cell).join(" | "));
    }
}

/// As the table, and writes the worst point of each policy and board to `known.txt`; the points
/// that it had already follow them.
#[test]
#[ignore = "takes as long as it is asked to, and writes a file of `solocore_experiments::attack`"]
fn write_known() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/src/attack/known.txt");
    let found = search_all(700);
    let mut lines: Vec<String> = Vec::new();
    for (policy, boards) in &found {
        for (board, found) in boards {
            let Some((_, genes)) = found.best.as_ref().filter(|b| b.0 > 0.0) else { continue };
            let numbers: Vec<String> = genes.iter().map(u16::to_string).collect();
            lines.push(format!("{policy:?} {board} {}", numbers.join(" ")));
        }
    }
    let before = std::fs::read_to_string(&path).unwrap();
    let before = before.lines().map(str::to_owned).filter(|line| !lines.contains(line));
    let before: Vec<String> = before.collect();
    std::fs::write(
        path,
        lines.into_iter().chain(before).map(|line| line + "\n").collect::<String>(),
    )
    .unwrap();
    print_table(&found);
}

/// Shows one point again: `GENES="Even 0 1 2 ..."`.
#[test]
#[ignore = "needs GENES"]
fn one_point_again() {
    let Ok(text) = std::env::var("GENES") else { return };
    let (name, rest) = text.split_once(' ').expect("a policy, then genes");
    let policy = *POLICIES.iter().find(|p| format!("{p:?}") == name).expect("one of the policies");
    let numbers = rest.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    let genes: Genes = numbers.map(|n| n.parse().unwrap()).collect();
    println!("{}", reproduction(policy, &genes));
    println!("{:?}", evaluate(&decode(policy, dir(), &mut Cursor::new(&genes)), Path::new(".")));
}
