//! Attack on the bounds: random systems of recorded and stated tasks, run on the simulated board
//! under their plans. No job may take longer than its C_sce (without the cost of preemptions),
//! respond later than its worst-case response time, or let its core exceed the budget.

use crate::recorded;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_cache::trace::{Access, Kind};
use solocore_model::plan::Plan;
use solocore_model::profile::Profile;
use solocore_model::results::Mode;
use solocore_model::system::{Criticality, Pages};
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use solocore_sim::Options;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A made-up program: bursts and quiet stretches over a few pages, with write-backs.
fn program(
    rng: &mut ChaCha8Rng,
    platform: &Platform,
    dir: &Path,
    (name, writes): (&str, f64),
) -> (PathBuf, Profile) {
    let pages = rng.random_range(1..60u32);
    let lines = u64::from(platform.lines_per_page());
    let (mut at, mut accesses) = (0u64, Vec::new());
    let burst = rng.random_range(1..2000u64);
    for i in 0..rng.random_range(10..6000u64) {
        at += if i % burst == 0 { rng.random_range(0..400_000) } else { rng.random_range(0..60) };
        let page = rng.random_range(0..u64::from(pages));
        let line = if rng.random_bool(0.5) { i % lines } else { rng.random_range(0..lines) };
        let kind = if rng.random_bool(writes) { Kind::Write } else { Kind::Read };
        accesses.push(Access { at_cycles: at, line: page * lines + line, kind });
    }
    recorded::write(&accesses, pages, rng.random_range(0..100_000), platform, dir, name)
}

/// A system of a few tasks, many of them sharing few cores so that they preempt each other.
fn system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let board = ["p4080", "imx6q", "xeon-w3530", "core-i5-2500k", "raspberry-pi-4"]
        [rng.random_range(0..5usize)];
    let count = rng.random_range(1..8u32);
    let (shared, policy) =
        (rng.random_range(1..4u32), if rng.random_bool(0.9) { "memguard" } else { "none" });
    let period = ["1 ms", "250 us", "5 ms"][rng.random_range(0..3usize)];
    let mut text = format!(
        "platform = \"{board}\"\n[regulation]\npolicy = \"{policy}\"\nperiod = \"{period}\"\n"
    );
    if policy == "memguard" && rng.random_bool(0.3) {
        let bandwidth = rng.random_range(10..90u32);
        write!(text, "share = \"explicit\"\n[[core]]\nid = 0\nbandwidth = \"{bandwidth} MB/s\"\n")
            .unwrap();
    }
    for i in 0..count {
        let core = rng.random_range(0..shared);
        let period = rng.random_range(4..60u32);
        let deadline = if rng.random_bool(0.8) { period } else { period.div_ceil(2) };
        let level = if rng.random_bool(0.25) { "D" } else { "B" };
        write!(
            text,
            "[[task]]\nname = \"t{i}\"\ncore = {core}\nperiod = \"{period} ms\"\ndeadline = \
                \"{deadline} ms\"\ncriticality = \"{level}\"\ncommand = [\"t{i}\"]\n"
        )
        .unwrap();
    }
    let system = System::parse(&dir.join("system.toml"), &text).unwrap();
    let demands = (0..count)
        .map(|i| {
            let (path, profile) = program(rng, &system.platform, dir, (&format!("t{i}"), 0.2));
            Demand::Profiled { path, profile: Box::new(profile) }
        })
        .collect();
    (system, demands)
}

/// Analysed tasks on few cores, best effort without a pause on the others, budgets stated or the
/// largest.
fn dynamic_system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let board = ["p4080", "imx6q", "xeon-w3530", "core-i5-2500k", "raspberry-pi-4"]
        [rng.random_range(0..5usize)];
    let objective = ["max_min", "total_bandwidth"][rng.random_range(0..2usize)];
    let mut text = format!(
        "platform = \"{board}\"\n[regulation]\npolicy = \"dynamic\"\nobjective = \"{objective}\"\n"
    );
    let (hard, soft, cores) =
        (rng.random_range(1..6u32), rng.random_range(1..4u32), rng.random_range(1..3u32));
    for i in 0..hard {
        let period = rng.random_range(4..60u32);
        let budget = match rng.random_range(0..4u32) {
            0 => format!("soft_budget = {}\n", rng.random_range(10..30_000u32)),
            1 => "soft_budget = \"max\"\n".to_owned(),
            _ => String::new(),
        };
        let core =
            if rng.random_bool(0.8) { format!("core = {}\n", i % cores) } else { String::new() };
        write!(
            text,
            "[[task]]\nname = \"t{i}\"\n{core}{budget}period = \"{period} ms\"\ncommand = \
            [\"t{i}\"]\n"
        )
        .unwrap();
    }
    for i in hard..hard + soft {
        let period =
            if rng.random_bool(0.7) { String::new() } else { "period = \"5 ms\"\n".to_owned() };
        write!(
            text,
            "[[task]]\nname = \"t{i}\"\n{period}criticality = \"D\"\ncommand = [\"t{i}\"]\n"
        )
        .unwrap();
    }
    profiled(rng, dir, &text)
}

/// The system, with a made-up program for each task.
fn profiled(rng: &mut ChaCha8Rng, dir: &Path, text: &str) -> (System, Vec<Demand>) {
    let system = System::parse(&dir.join("system.toml"), text).unwrap();
    let demands = system
        .tasks
        .iter()
        .map(|t| {
            let (path, profile) = program(rng, &system.platform, dir, (&t.name, 0.2));
            Demand::Profiled { path, profile: Box::new(profile) }
        })
        .collect();
    (system, demands)
}

/// Tasks that the planner places, some of them stated, with the cores, cache and budgets that it
/// chooses for some objective.
fn optimal_system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let board = ["p4080", "imx6q", "xeon-x5650", "core-i5-2500k", "raspberry-pi-4"]
        [rng.random_range(0..5usize)];
    let objective = ["best_effort", "margin", "bounds"][rng.random_range(0..3usize)];
    let mut text = format!(
        "platform = \"{board}\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nobjective = \"{objective}\"\n"
    );
    if rng.random_bool(0.5) {
        writeln!(text, "slowdown = {:.1}", rng.random_range(1.2..5.0)).unwrap();
    }
    let (hard, soft) = (rng.random_range(1..6u32), rng.random_range(0..4u32));
    for i in 0..hard + soft {
        let core = if rng.random_bool(0.2) { format!("core = {}\n", i % 4) } else { String::new() };
        let period = if i < hard || rng.random_bool(0.3) {
            format!("period = \"{} ms\"\n", rng.random_range(4..60u32))
        } else {
            String::new()
        };
        let level = if i < hard { "B" } else { "D" };
        write!(
            text,
            "[[task]]\nname = \"t{i}\"\n{core}{period}criticality = \"{level}\"\ncommand \
            = [\"t{i}\"]\n"
        )
        .unwrap();
    }
    profiled(rng, dir, &text)
}

/// A system of any of these kinds whose pages lie anywhere. Its programs write a lot, so that the
/// cache is full of dirty lines, and reads of one program push out lines that another wrote.
fn anywhere_system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let make: Make = [system, dynamic_system, optimal_system][rng.random_range(0..3usize)];
    let (mut system, mut demands) = make(rng, dir);
    system.regulation.pages = Pages::Anywhere;
    let writes = rng.random_range(0.1..0.9);
    for (task, demand) in system.tasks.iter().zip(&mut demands) {
        let (path, profile) = program(rng, &system.platform, dir, (&task.name, writes));
        *demand = Demand::Profiled { path, profile: Box::new(profile) };
    }
    (system, demands)
}

/// Jobs that hold the lock, with the ways and the budget beside them that the planner chooses, or
/// with stated ways.
fn held_system(rng: &mut ChaCha8Rng, dir: &Path) -> (System, Vec<Demand>) {
    let (system, _) = optimal_system(rng, dir);
    let r = &system.regulation;
    let slowdown = r.slowdown_permille.map(|permille| permille as f64 / 1000.0);
    let mut text = format!(
        "platform = \"{}\"\n[regulation]\npolicy = \"bwlock\"\nlock = \"jobs\"\n",
        system.platform.name
    );
    if let Some(slowdown) = slowdown {
        writeln!(text, "slowdown = {slowdown:.1}").unwrap();
    }
    let (core, most) = (rng.random_range(0..system.platform.cores), system.platform.llc.ways);
    if rng.random_bool(0.3) {
        let ways = rng.random_range(1..=most + 1 - system.platform.cores);
        write!(text, "[[core]]\nid = {core}\nways = {ways}\n").unwrap();
    }
    for t in &system.tasks {
        let core = t.core.map(|core| format!("core = {core}\n")).unwrap_or_default();
        let period = t.period.map(|p| format!("period = \"{p}\"\n")).unwrap_or_default();
        let level = if t.criticality == Criticality::D { "D" } else { "B" };
        write!(
            text,
            "[[task]]\nname = \"{}\"\n{core}{period}criticality = \"{level}\"\ncommand = [\"{}\"]\n",
            t.name, t.name
        )
        .unwrap();
    }
    profiled(rng, dir, &text)
}

type Make = fn(&mut ChaCha8Rng, &Path) -> (System, Vec<Demand>);

/// What an attack found.
#[derive(Default)]
struct Seen {
    jobs: u64,
    /// The longest response as a part of its bound.
    tightest: f64,
    /// Tasks with locked pages that ended a job, and those on cores with more ways than others that
    /// the planner chose.
    locked: u64,
    uneven: u64,
    /// Systems that were tried.
    cases: u64,
}

fn attack(case: u64, make: Make) -> Seen {
    let mut rng = ChaCha8Rng::seed_from_u64(case);
    let dir = tempfile::tempdir().unwrap();
    let (system, demands) = make(&mut rng, dir.path());
    let plan: Plan = solocore_planner::plan(&system, &demands).unwrap();
    let options =
        Options { mode: Mode::Managed, duration_ns: 300_000_000, seed: case, timeline_ns: 0 };
    let result = solocore_sim::simulate(&plan, &options, &|_| true).unwrap();
    let mut found = Seen::default();
    for (planned, seen) in plan.tasks.iter().zip(&result.tasks) {
        if planned.best_effort() || seen.jobs == 0 {
            continue;
        }
        found.jobs += seen.jobs;
        let ways = |core: u32| plan.cores.iter().find(|c| c.id == core).map_or(0, |c| c.ways);
        let more = plan.cores.iter().any(|c| c.ways < ways(planned.core));
        found.locked += u64::from(!planned.locked_pages.is_empty());
        let chosen = system.cores.iter().all(|core| core.ways.is_none());
        found.uneven += u64::from(!planned.locked_pages.is_empty() && more && chosen);
        let what = format!("case {case}, {}: {planned:?} against {seen:?}", plan.platform.name);
        if let Some(wcrt) = planned.wcrt_ns {
            assert!(seen.max_response_ns <= wcrt, "response beyond its bound: {what}");
            let part = seen.max_response_ns as f64 / wcrt as f64;
            found.tightest = found.tightest.max(part);
            if planned.schedulable {
                assert_eq!(seen.misses_deadline, 0, "{what}");
            }
        }
        // Without preemption costs, which the simulator reports separately; with a soft budget,
        // C_sce contains the costs of no other task.
        let alone = plan.tasks.iter().filter(|t| t.core == planned.core).count() == 1;
        if planned.soft_budget.is_none() || (alone && planned.schedulable) {
            assert!(seen.moet_ns <= planned.c_sce_ns, "execution beyond C_sce: {what}");
        }
    }
    for (planned, seen) in plan.cores.iter().zip(&result.cores) {
        if let Some(budget) = planned.budget_accesses {
            // One access of a recorded stream can count twice: it reads a line and pushes out a
            // dirty one. The bounds do not rest on the other cores' budgets (analysis::stall), so
            // one more is not a danger to them.
            assert!(
                seen.max_accesses_per_period <= budget + 1,
                "case {case}: {planned:?} {seen:?}"
            );
        }
    }
    found
}

#[test]
fn no_simulated_job_breaks_its_bound() {
    let seen = attack_many(system, 160);
    assert!(seen.cases < 160 || seen.locked > 80, "hardly a page was locked");
}

#[test]
fn no_simulated_job_breaks_its_bound_beside_the_lock() {
    let seen = attack_many(held_system, 60);
    assert!(seen.cases < 60 || seen.uneven > 0, "no core had more ways than others");
}

#[test]
fn no_simulated_job_breaks_its_bound_under_dynamic_budgets() {
    attack_many(dynamic_system, 60);
}

#[test]
fn no_simulated_job_breaks_its_bound_with_optimal_shares() {
    let seen = attack_many(optimal_system, 80);
    assert!(seen.cases < 80 || seen.uneven > 0, "no core had more ways than others");
}

#[test]
fn no_simulated_job_breaks_its_bound_with_pages_anywhere() {
    let seen = attack_many(anywhere_system, 60);
    assert_eq!(seen.locked, 0);
}

fn attack_many(make: Make, usual: u64) -> Seen {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let cases = number("BOUNDS_CASES").or(number("PROPTEST_CASES")).unwrap_or(usual);
    let mut all = Seen::default();
    // FIRST_CASE selects the first case, to run a single one again.
    let first = number("FIRST_CASE").unwrap_or(0);
    for case in first..cases {
        let seen = attack(case, make);
        all.cases += 1;
        all.jobs += seen.jobs;
        all.tightest = all.tightest.max(seen.tightest);
        all.locked += seen.locked;
        all.uneven += seen.uneven;
    }
    println!(
        "{cases} systems, {} jobs, {} tasks with locked pages, {} of them on cores with more ways; \
            the closest response came to {:.1} % of its bound",
        all.jobs,
        all.locked,
        all.uneven,
        100.0 * all.tightest
    );
    assert!(all.jobs > cases.saturating_sub(first), "the attack ran hardly anything");
    all
}
