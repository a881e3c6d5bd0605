//! Attack on plans with criticality levels: random systems on the simulated board under the levels'
//! scheduler. Levels A and B never miss and keep their response bounds, no job of any level exceeds
//! its PET, and level C stays within its bound on tardiness. Half of the systems have recorded
//! programs, whose misses by ways are counted here by a cache of its own.

use crate::recorded;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_cache::trace::{Access, Kind};
use solocore_model::plan::{Plan, Subject};
use solocore_model::platform::Replacement;
use solocore_model::profile::Profile;
use solocore_model::results::{Mode, SimResult};
use solocore_model::system::{self, Criticality};
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use solocore_sim::Options;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// DRAM accesses of the accesses with this number of ways: fetches, and dirty lines pushed out
/// or left.
fn transactions(accesses: &[Access], platform: &Platform, ways: usize) -> u64 {
    let sets = u64::from(platform.llc_sets());
    let mut cache: Vec<Vec<(u64, bool)>> = vec![Vec::new(); usize::try_from(sets).unwrap()];
    let mut count = 0;
    for a in accesses {
        let set = &mut cache[usize::try_from(a.line % sets).unwrap()];
        let dirty = match set.iter().position(|(line, _)| *line == a.line) {
            Some(at) => set.remove(at).1,
            None => {
                count += 1;
                if set.len() == ways {
                    count += u64::from(set.remove(0).1);
                }
                false
            }
        };
        set.push((a.line, dirty || a.kind == Kind::Write));
    }
    count + cache.iter().flatten().map(|(_, dirty)| u64::from(*dirty)).sum::<u64>()
}

/// A made-up program: loops over a few pages, with jumps and write-backs.
fn program(
    rng: &mut ChaCha8Rng,
    platform: &Platform,
    dir: &Path,
    name: &str,
) -> (PathBuf, Profile) {
    let pages = rng.random_range(1..8u32);
    let lines = u64::from(pages) * u64::from(platform.lines_per_page());
    let (mut at, mut accesses) = (0u64, Vec::new());
    for i in 0..rng.random_range(100..2000u64) {
        at += rng.random_range(0..3000);
        let line = if rng.random_bool(0.7) { i % lines } else { rng.random_range(0..lines) };
        let kind = if rng.random_bool(0.2) { Kind::Write } else { Kind::Read };
        accesses.push(Access { at_cycles: at, line, kind });
    }
    counted(&accesses, pages, rng.random_range(0..100_000), platform, dir, name)
}

/// The program that makes these accesses, with its misses by ways.
fn counted(
    accesses: &[Access],
    pages: u32,
    rest: u64,
    platform: &Platform,
    dir: &Path,
    name: &str,
) -> (PathBuf, Profile) {
    let (path, profile) = recorded::write(accesses, pages, rest, platform, dir, name);
    let by_ways =
        (1..=platform.llc.ways as usize).map(|w| transactions(accesses, platform, w)).collect();
    let profile = Profile { by_ways, ..profile };
    solocore_model::files::write_json(&path, &profile).unwrap();
    (path, profile)
}

/// Stated numbers, with or without ways. A miss beside cores that post writes costs some tens of
/// `L_max`, so misses are rare.
fn stated(rng: &mut ChaCha8Rng, level: &str, share_us: u64, latency_ps: u64, full: bool) -> String {
    let entries =
        if level == "C" || rng.random_bool(0.3) { 1 } else { rng.random_range(1..6usize) };
    let mut misses =
        rng.random_range(0..=share_us * 1_000_000 / latency_ps / if full { 4000 } else { 400 });
    let most = if full { share_us } else { share_us / 2 + 1 };
    let least = if full { share_us * 3 / 4 } else { 1 };
    let compute = rng.random_range(least..=most) * 1_000_000;
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..entries {
        times.push(format!("\"{} ps\"", compute + misses * latency_ps));
        counts.push(misses.to_string());
        misses = misses * rng.random_range(50..=100) / 100;
    }
    if entries == 1 {
        return format!("wcet = {}\nmisses = {}\n", times[0], counts[0]);
    }
    format!("wcet_by_ways = [{}]\nmisses_by_ways = [{}]\n", times.join(", "), counts.join(", "))
}

/// A system around the edge of schedulability. The seed fixes it.
fn system(rng: &mut ChaCha8Rng, dir: &Path, recorded: bool) -> (System, Vec<Demand>) {
    let board = ["imx6q", "imx6q", "p4080"][rng.random_range(0..3usize)];
    let platform = Platform::find(board, dir).unwrap();
    let scheme = ["O|opt", "O|C+A/B-All", "C|C", "O|C"][rng.random_range(0..4usize)];
    // Few cores leave the least slack.
    let cores =
        if rng.random_bool(0.5) { platform.cores } else { rng.random_range(1..=platform.cores) };
    let mut text = format!(
        "platform = \"{board}\"\n[regulation]\npolicy = \"none\"\nactive_cores = \
            {cores}\n[levels]\nscheme = \"{scheme}\"\n"
    );
    // Recorded jobs take milliseconds, with the reloads that they are charged.
    let base = if recorded { rng.random_range(40..120u64) } else { rng.random_range(2..6) };
    // Some are full of level C that hardly misses: its jobs are late.
    let global = !recorded && rng.random_bool(0.3);
    let heavy = if global { rng.random_range(600..900u64) } else { rng.random_range(10..300) };
    let mut levels = Vec::new();
    for (level, most) in [("A", 4), ("B", 5), ("C", 9), ("D", 3)] {
        let count = match (global, level) {
            (false, _) => rng.random_range(0..=most),
            (true, "C") => cores,
            (true, _) => 0,
        };
        for _ in 0..count {
            levels.push(level);
        }
    }
    levels.push(if global { "C" } else { "B" });
    for (i, level) in levels.iter().enumerate() {
        let period_ms = match *level {
            "A" => base << rng.random_range(0..2u32),
            "B" => base << rng.random_range(1..4u32),
            _ if global => rng.random_range(2 * base..3 * base),
            _ => rng.random_range(base..10 * base),
        };
        write!(
            text,
            "[[task]]\nname = \"t{i}\"\ncriticality = \"{level}\"\nperiod = \"{period_ms} ms\"\n"
        )
        .unwrap();
        if recorded {
            writeln!(text, "command = [\"t{i}\"]").unwrap();
        } else {
            let latency = platform.dram.latency_max.ps();
            text += &stated(rng, level, (period_ms * heavy).max(2), latency, global);
        }
    }
    let of = |wanted: &dyn Fn(&str) -> bool| {
        (0..levels.len()).filter(|&i| wanted(levels[i])).collect::<Vec<_>>()
    };
    let (bound, global) = (of(&|l| l == "A" || l == "B"), of(&|l| l == "C"));
    for tasks in [bound.clone(), global] {
        for pair in tasks.chunks_exact(2) {
            if rng.random_bool(0.4) {
                continue;
            }
            let bytes = rng.random_range(64..2_000u32);
            write!(
                text,
                "[[ipc]]\nfrom = \"t{}\"\nto = \"t{}\"\nsize = \"{bytes} B\"\n",
                pair[0], pair[1]
            )
            .unwrap();
        }
    }
    for &i in &bound {
        if rng.random_bool(0.7) {
            continue;
        }
        let (rate, direct) = (rng.random_range(1..20u32), rng.random_bool(0.7));
        write!(
            text,
            "[[io]]\ntask = \"t{i}\"\ndevice = \"d{i}\"\nbandwidth = \"{rate} \
            MB/s\"\nsize = \"32 KiB\"\ndirect = {direct}\n"
        )
        .unwrap();
    }
    let system =
        System::parse(&dir.join("system.toml"), &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let demands = system
        .tasks
        .iter()
        .map(|task| match &task.demand {
            system::Demand::Given { wcet, misses } => {
                Demand::Given { wcet_ps: wcet.ps(), misses: *misses }
            }
            _ => {
                let (path, profile) = program(rng, &platform, dir, &task.name);
                Demand::Profiled { path, profile: Box::new(profile) }
            }
        })
        .collect();
    (system, demands)
}

fn run(plan: &Plan, mode: Mode, seed: u64) -> SimResult {
    let options = Options {
        mode,
        duration_ns: if plan.tasks.iter().any(|t| t.profile.is_some()) {
            800_000_000
        } else {
            60_000_000
        },
        seed,
        timeline_ns: 0,
    };
    solocore_sim::simulate(plan, &options, &|_| true).unwrap()
}

/// Promises of a plan that a run breaks.
fn broken(plan: &Plan, result: &SimResult) -> Vec<String> {
    let mut out = Vec::new();
    for (planned, seen) in plan.tasks.iter().zip(&result.tasks) {
        if planned.best_effort() || seen.jobs == 0 && seen.misses_deadline == 0 {
            continue;
        }
        let late = planned.wcrt_ns.is_some_and(|bound| seen.max_response_ns > bound);
        if planned.broken_by(seen) || late || seen.moet_ns > planned.c_sce_ns {
            out.push(format!("{planned:?} against {seen:?}"));
        }
    }
    out
}

/// At most a thousand: a case takes up to a second.
fn cases(usual: u64) -> u64 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|n| n.parse::<u64>().ok())
        .map_or(usual, |n| n.min(1000))
}

fn attack(usual: u64, recorded: bool) {
    let (mut schedulable, mut hard, mut soft, mut late, mut tightest) = (0, 0, 0, 0, 0.0f64);
    for case in 0..cases(usual) {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let dir = tempfile::tempdir().unwrap();
        let (system, demands) = system(&mut rng, dir.path(), recorded);
        let plan = solocore_planner::plan(&system, &demands).unwrap();
        plan.check().unwrap_or_else(|e| panic!("case {case}: {e}"));
        assert_eq!(plan.schedulable, plan.tasks.iter().all(|t| t.schedulable), "case {case}");
        if !plan.schedulable {
            continue;
        }
        schedulable += 1;
        let result = run(&plan, Mode::Managed, case);
        let faults = broken(&plan, &result);
        assert!(faults.is_empty(), "case {case} on {}: {faults:#?}", plan.platform.name);
        for (planned, seen) in plan.tasks.iter().zip(&result.tasks) {
            match planned.criticality {
                Criticality::A | Criticality::B => {
                    hard += seen.jobs;
                    let bound = planned.wcrt_ns.expect("levels A and B have one");
                    tightest = tightest.max(seen.max_response_ns as f64 / bound as f64);
                }
                Criticality::C => {
                    soft += seen.jobs;
                    late += seen.misses_deadline;
                }
                Criticality::D => {}
            }
        }
    }
    let all = cases(usual);
    println!(
        "{schedulable} of {all} schedulable, {hard} hard and {soft} soft jobs, {late} of these \
            late, tightest response {tightest:.3} of its bound"
    );
    assert!(schedulable > all / 4 && hard > 0 && soft > 0, "{schedulable} of {all}: too few");
    assert!(recorded || late > 0, "no job of level C was late");
    assert!(tightest > 0.3, "{tightest}: nothing came near its bound");
}

#[test]
fn stated_systems_keep_what_is_promised() {
    attack(30, false);
}

#[test]
fn recorded_systems_keep_what_is_promised() {
    attack(20, true);
}

/// A job goes eight times through pages that fill three ways. Under LRU, with each page in its
/// colour, a line misses once. Slices give lines other sets: there, three ways do not hold them. So
/// plans for such a cache, or for another replacement, count on no hit.
#[test]
fn misses_by_ways_hold_under_lru_without_slices() {
    const ROUNDS: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let text = "platform = \"imx6q\"\n[regulation]\npolicy = \"none\"\nactive_cores = \
        1\n[levels]\nscheme = \"O|opt\"\n[[task]]\nname = \"loop\"\ncriticality = \"B\"\nperiod = \
        \"200 ms\"\ncommand = [\"loop\"]\n";
    let planned = |replacement: Replacement, slices: u32| {
        let mut system = System::parse(&dir.path().join("system.toml"), text).unwrap();
        (system.platform.llc.replacement, system.platform.llc.slices) = (replacement, slices);
        let platform = &system.platform;
        let pages = 3 * platform.pages_per_way();
        let lines = u64::from(pages) * u64::from(platform.lines_per_page());
        let access = |n: u64| Access { at_cycles: 10 * n, line: n % lines, kind: Kind::Read };
        let accesses: Vec<Access> = (0..ROUNDS * lines).map(access).collect();
        let (path, profile) = counted(&accesses, pages, 100, platform, dir.path(), "loop");
        let demand = Demand::Profiled { path, profile: Box::new(profile) };
        let plan = solocore_planner::plan(&system, &[demand]).unwrap();
        assert!(plan.schedulable, "{:#?}", plan.reasons);
        (plan, lines)
    };
    let promised = |plan: &Plan| plan.promises.iter().any(|p| p.subject == Subject::PageColours);
    let (mut plan, lines) = planned(Replacement::Lru, 1);
    assert_eq!((plan.tasks[0].misses, promised(&plan)), (lines, true));
    let seen = run(&plan, Mode::Managed, 1);
    assert!(broken(&plan, &seen).is_empty() && seen.tasks[0].jobs > 2, "{seen:#?}");
    assert!(seen.tasks[0].accesses <= (seen.tasks[0].jobs + 1) * lines, "{seen:#?}");
    // The same plan on a sliced cache: the job makes more accesses than were counted, and is late.
    plan.platform.llc.slices = 4;
    let sliced = run(&plan, Mode::Managed, 1);
    let made = sliced.tasks[0].accesses / (sliced.tasks[0].jobs + 1);
    assert!(made > 2 * lines, "{made} accesses for {lines} lines: the attack has no effect");
    assert!(!broken(&plan, &sliced).is_empty(), "{sliced:#?}");
    for (replacement, slices) in
        [(Replacement::Lru, 4), (Replacement::Plru, 1), (Replacement::Random, 1)]
    {
        let (plan, _) = planned(replacement, slices);
        let found = (plan.tasks[0].misses, promised(&plan));
        assert_eq!(found, (ROUNDS * lines, false), "{replacement:?}, {slices} slices");
        let faults = broken(&plan, &run(&plan, Mode::Managed, 1));
        assert!(faults.is_empty(), "{replacement:?}, {slices} slices: {faults:#?}");
    }
}

/// The attack can fail: tasks that take twice the planned time break promises.
#[test]
fn tasks_that_exceed_their_numbers_are_noticed() {
    let mut noticed = 0;
    for case in 0..6 {
        let mut rng = ChaCha8Rng::seed_from_u64(case);
        let dir = tempfile::tempdir().unwrap();
        let (system, demands) = system(&mut rng, dir.path(), false);
        let mut plan = solocore_planner::plan(&system, &demands).unwrap();
        if plan.schedulable {
            let promised = plan.clone();
            for task in &mut plan.tasks {
                (task.wcet_ns, task.misses) = (task.wcet_ns * 3, task.misses * 3);
            }
            noticed += usize::from(!broken(&promised, &run(&plan, Mode::Managed, case)).is_empty());
        }
    }
    assert!(noticed > 0);
}

/// Without the plan the same tasks run too, and the shared cache is shared.
#[test]
fn unmanaged_runs_share_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (system, demands) = system(&mut ChaCha8Rng::seed_from_u64(3), dir.path(), true);
    let plan = solocore_planner::plan(&system, &demands).unwrap();
    let (managed, unmanaged) = (run(&plan, Mode::Managed, 1), run(&plan, Mode::Unmanaged, 1));
    assert!(unmanaged.tasks.iter().any(|t| t.jobs > 0));
    let accesses = |r: &SimResult| r.tasks.iter().map(|t| t.accesses).sum::<u64>();
    assert_ne!(accesses(&managed), accesses(&unmanaged));
    assert_eq!(run(&plan, Mode::Unmanaged, 1).tasks, unmanaged.tasks, "same seed, same run");
    assert!(run(&plan, Mode::Solo, 1).tasks.iter().all(|t| t.misses_deadline == 0 || t.jobs > 0));
}
