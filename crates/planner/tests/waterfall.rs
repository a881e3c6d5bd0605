//! The terms of bounds: they sum to the bound, and each has the value that its name says.

mod support;

use proptest::prelude::*;
use solocore_model::plan::waterfall::{Cause, whole_ns};
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::profile::{PageName, PageProfile, Profile, WorkingSet};
use solocore_model::system::{Demand as Stated, System};
use solocore_planner::Demand;
use std::path::{Path, PathBuf};
use support::computing;

/// A profile of `pages` pages that are read `each` times by a job; with the whole cache each of
/// their lines misses once.
fn profile(pages: u64, each: u64, system: &System) -> Profile {
    let p = &system.platform;
    let page = |offset| PageProfile {
        name: PageName { region: "heap".to_owned(), offset },
        references: each,
        llc_reads: each,
        llc_writes: 0,
        lines: 64,
        frame: u32::try_from(offset).unwrap(),
    };
    Profile {
        working_set: WorkingSet { pages, lines: pages * 64, bytes: pages * 4096 },
        lockdown: (0..=pages).map(|k| (pages - k) * each).collect(),
        by_ways: vec![pages * each, pages * 64],
        pages: (0..pages).map(page).collect(),
        ..computing(10_000_000, p)
    }
}

fn plan(text: &str) -> (System, Plan) {
    let system =
        System::parse(Path::new("system.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let demand = |stated: &Stated| match stated {
        // `command = ["PAGES", "EACH"]` stands for a profile.
        Stated::Command(words) => {
            let profile = profile(words[0].parse().unwrap(), words[1].parse().unwrap(), &system);
            Demand::Profiled { path: PathBuf::from("a.json"), profile: Box::new(profile) }
        }
        stated => Demand::stated(stated).expect("no other profiles in these tests"),
    };
    let demands: Vec<Demand> = system.tasks.iter().map(|t| demand(&t.demand)).collect();
    let plan = solocore_planner::plan(&system, &demands).expect("shares can be had");
    (system, plan)
}

fn term(task: &PlanTask, cause: Cause) -> i64 {
    task.waterfall
        .iter()
        .find(|t| t.term == cause)
        .unwrap_or_else(|| panic!("{cause:?} of {}", task.name))
        .ns
}

/// The sum of these terms; a term that the bound does not have is 0.
fn sum(task: &PlanTask, causes: &[Cause]) -> i64 {
    task.waterfall.iter().filter(|t| causes.contains(&t.term)).map(|t| t.ns).sum()
}

/// Terms of `C`, terms up to `C_sce`, and those that only a bound on the response has.
const C: [Cause; 5] = [Cause::Alone, Cause::Moves, Cause::Cache, Cause::Latency, Cause::Buffers];
const STALL: [Cause; 3] = [Cause::Average, Cause::Others, Cause::Once];
const REST: [Cause; 4] = [Cause::Scale, Cause::Supply, Cause::Above, Cause::Preemption];

/// Properties of every task of every plan.
fn check(plan: &Plan) {
    for task in &plan.tasks {
        let c_sce = Some(task.c_sce_ns).filter(|&ns| ns != u64::MAX);
        let Some(end) = task.wcrt_ns.or(c_sce).filter(|_| !task.best_effort()) else {
            assert!(task.waterfall.is_empty(), "{}", task.name);
            continue;
        };
        let all: i64 = task.waterfall.iter().map(|t| t.ns).sum();
        assert_eq!(u64::try_from(all).unwrap(), end, "{task:?}");
        let near = |a: i64, b: u64| (a - i64::try_from(b).unwrap()).abs() <= 3;
        assert!(near(sum(task, &C), task.wcet_ns), "C of {task:?}");
        assert!(near(sum(task, &C) + sum(task, &STALL), task.c_sce_ns), "C_sce of {task:?}");
        if task.wcrt_ns.is_none() {
            assert!(task.waterfall.iter().all(|t| !REST.contains(&t.term)), "{task:?}");
        }
        for cause in [Cause::Alone, Cause::Latency, Cause::Buffers, Cause::Others, Cause::Once] {
            assert!(sum(task, &[cause]) >= -1, "{cause:?} of {task:?}");
        }
        for cause in REST {
            assert!(sum(task, &[cause]) >= -1, "{cause:?} of {task:?}");
        }
        assert!(sum(task, &[Cause::Average]) <= 0, "{task:?}");
        let places: Vec<u8> = task.waterfall.iter().map(|t| t.term as u8).collect();
        assert!(places.is_sorted_by(|a, b| a < b), "each term once and in its place: {task:?}");
        let misses: Vec<u64> = task.waterfall.iter().filter_map(|t| t.misses).collect();
        assert_eq!(misses.last(), Some(&task.misses));
    }
}

const PROFILED: &str = "platform = \"core-i5-2500k\"\n[regulation]\nshare = \
    \"even\"\n[[task]]\nname = \"a\"\ncore = 0\nperiod = \"500 ms\"\ncommand = [\"3000\", \"100\"]\n";

/// 3000 pages with 64 lines each miss once with the whole cache; a share that holds fewer pages
/// leaves the others' accesses, 100 each.
#[test]
fn each_step_is_what_its_name_says() {
    let (system, plan) = plan(PROFILED);
    let (task, p) = (&plan.tasks[0], &plan.platform);
    let locked = task.locked_pages.len() as u64;
    assert!(locked > 100 && locked < 3000, "{locked}");
    assert_eq!(task.misses, (3000 - locked) * 100);
    assert_eq!(task.waterfall[0].misses, Some(3000 * 64));
    let ns = |ps: u64| i64::try_from(ps / 1000).unwrap();
    let near = |a: i64, b: i64| assert!((a - b).abs() <= 1, "{a} {b}");
    let hit = p.row_hit().ps();
    let inside = p.cycles_to_ps(10_000_000) + 300_000 * p.cycles_to_ps(p.llc.latency.0);
    near(term(task, Cause::Alone), ns(inside + 3000 * 64 * hit));
    near(term(task, Cause::Cache), ns((task.misses - 3000 * 64) * hit));
    near(term(task, Cause::Latency), ns(task.misses * (p.dram.latency_max.ps() - hit)));
    assert!(term(task, Cause::Others) > 0);
    assert!(
        term(task, Cause::Once) >= ns(system.regulation.period.ps()),
        "a period that somebody drained"
    );
    assert_eq!(term(task, Cause::Preemption), 0, "it is alone on its core");
    check(&plan);
}

/// With all pages locked nothing misses, which is less than the whole cache gives under LRU.
#[test]
fn locked_pages_can_do_more_than_the_whole_cache() {
    let (_, plan) = plan(&PROFILED.replace("3000", "10"));
    assert_eq!(plan.tasks[0].misses, 0);
    assert!(term(&plan.tasks[0], Cause::Cache) < 0);
    check(&plan);
}

#[test]
fn company_on_the_core_is_a_term_of_its_own() {
    let both = format!(
        "{PROFILED}{}",
        PROFILED.lines().skip(3).map(|l| format!("{l}\n")).collect::<String>()
    )
    .replacen("\"a\"", "\"b\"", 1)
    .replacen("500 ms", "400 ms", 1);
    let (_, plan) = plan(&both);
    let [high, low] = &plan.tasks[..] else { panic!("two tasks") };
    assert!(term(low, Cause::Preemption) >= i64::try_from(high.wcet_ns).unwrap(), "{low:?}");
    check(&plan);
}

#[test]
fn the_examples_plans_sum_up() {
    for text in [
        include_str!("../../../examples/sce-table2/system.toml"),
        include_str!("../../../examples/ima-sce/system.toml"),
        include_str!("../../../examples/vcpus/system.toml"),
        LEVELS,
    ] {
        check(&plan(text).1);
    }
}

#[test]
fn without_a_bound_the_terms_end_at_c_sce() {
    let (_, plan) = plan(&PROFILED.replace("500 ms", "10 ms"));
    let [task] = &plan.tasks[..] else { panic!("one task") };
    assert!(!task.schedulable && task.wcrt_ns.is_none() && task.c_sce_ns != u64::MAX, "{task:?}");
    assert!(term(task, Cause::Others) > 0 && task.waterfall.len() == 5, "{task:?}");
    check(&plan);
}

/// No stall is known, and `C_sce` is `C`.
#[test]
fn without_a_dynamic_budget_the_terms_end_at_c() {
    let text = PROFILED.replace("share = \"even\"", "policy = \"dynamic\"");
    let (_, plan) = plan(&text.replace("500 ms", "10 ms"));
    let [task] = &plan.tasks[..] else { panic!("one task") };
    assert!(task.wcrt_ns.is_none() && task.c_sce_ns == task.wcet_ns, "{task:?}");
    assert_eq!(task.waterfall.len(), 3);
    check(&plan);
}

/// A job waits for its VCPU, and for the other task of the VCPU.
#[test]
fn a_vcpus_budget_is_a_term_of_its_own() {
    let (_, plan) = plan(include_str!("../../../examples/vcpus/system.toml"));
    let of = |name: &str| plan.tasks.iter().find(|t| t.name == name).expect(name);
    let (audio, decode) = (of("audio"), of("decode"));
    assert!(term(audio, Cause::Supply) > 0 && term(audio, Cause::Preemption) == 0, "{audio:?}");
    let other = i64::try_from(of("scale").c_sce_ns).unwrap();
    assert_eq!(term(decode, Cause::Preemption), other, "{decode:?}");
}

/// On one core, level A takes its part of a response at level B; its own slots are longer than its
/// jobs.
#[test]
fn levels_have_their_terms() {
    let (_, plan) = plan(&on_one_core());
    let of = |name: &str| plan.tasks.iter().find(|t| t.name == name).expect(name);
    let (a, b, c) = (of("attitude"), of("gps"), of("log"));
    // `pet_scale = 1.5`; slots are whole nanoseconds.
    let half = i64::try_from(a.c_sce_ns / 2).unwrap();
    assert!((term(a, Cause::Scale) - half).abs() <= 2, "{a:?}");
    // One job of A can end as the window begins, so that two meet within a period.
    let once = i64::try_from(a.c_sce_ns).unwrap();
    let jobs = (term(b, Cause::Above) + once / 2) / once;
    assert!(jobs >= 2 && (term(b, Cause::Above) - jobs * once).abs() <= jobs, "{b:?}");
    // Its job counts as half of its longest time.
    assert_eq!(term(c, Cause::Average), -4_000_000, "{c:?}");
    check(&plan);
}

const LEVELS: &str = include_str!("../../../examples/mc2/system.toml");

/// Tasks of all levels of the example, on one core.
fn on_one_core() -> String {
    let level = |name: &str, keys: &str| format!("[[task]]\nname = \"{name}\"\n{keys}\n");
    "platform = \"imx6q\"\n[regulation]\npolicy = \"none\"\nmodel = \"sce\"\nactive_cores = \
        1\n[levels]\npet_scale = 1.5\n"
        .to_owned()
        + &level(
            "attitude",
            "criticality = \"A\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\nmisses = 300",
        )
        + &level("gps", "criticality = \"B\"\nperiod = \"40 ms\"\nwcet = \"4 ms\"\nmisses = 2200")
        + &level(
            "log",
            "criticality = \"C\"\nperiod = \"50 ms\"\nwcet = \"8 ms\"\nmisses = 12000\naverage = \
                0.5",
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any VCPUs, the terms sum to the bound, or to `C_sce`.
    #[test]
    fn terms_in_vcpus_sum_to_the_bound(
        vcpus in prop::collection::vec((1..8u64, 10..40u64, 1..3usize), 1..4),
        tasks in prop::collection::vec((20..200u64, 100..9000u64, 0..2000u64), 6),
    ) {
        let mut text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \
            \"maracas\"\nactive_cores = 2\n".to_owned();
        let mut used = 0;
        for (v, (capacity, period, count)) in vcpus.iter().enumerate() {
            let names: Vec<String> = (used..used + count).map(|t| format!("t{t}")).collect();
            used += count;
            text += &format!("[[vcpu]]\nname = \"v{v}\"\ncapacity = \"{capacity} ms\"\nperiod = \
                \"{period} ms\"\ntasks = {names:?}\n");
        }
        for (t, (period, wcet, misses)) in tasks[..used].iter().enumerate() {
            text += &format!("[[task]]\nname = \"t{t}\"\nperiod = \"{period} ms\"\nwcet = \
                \"{wcet} us\"\nmisses = {misses}\n");
        }
        check(&plan(&text).1);
    }

    /// The same for any levels, with messages between tasks of levels A and B.
    #[test]
    fn terms_with_levels_sum_to_the_bound(
        tasks in prop::collection::vec((0..3usize, 0..2u32, 100..9000u64, 0..6000u64), 2..6),
        cores in 1..4u32,
        scheme in prop::sample::select(vec!["O|opt", "C|C"]),
    ) {
        let mut text = format!("platform = \"imx6q\"\n[regulation]\npolicy = \"none\"\nmodel = \
            \"sce\"\nactive_cores = {cores}\n[levels]\nscheme = \"{scheme}\"\n");
        for (t, (level, doubled, wcet, misses)) in tasks.iter().enumerate() {
            let demand = if *level == 2 {
                format!("wcet = \"{wcet} us\"\nmisses = {misses}\naverage = 0.6")
            } else {
                format!("wcet_by_ways = [\"{} us\", \"{wcet} us\"]\nmisses_by_ways = [{}, {misses}]",
                    2 * wcet, 2 * misses)
            };
            text += &format!("[[task]]\nname = \"t{t}\"\ncriticality = \"{}\"\nperiod = \"{} \
                ms\"\n{demand}\n", ["A", "B", "C"][*level], [10u32, 40, 20][*level] << doubled);
        }
        let bound: Vec<usize> = (0..tasks.len()).filter(|&t| tasks[t].0 < 2).collect();
        if let [first, .., last] = bound[..] {
            text += &format!("[[ipc]]\nfrom = \"t{first}\"\nto = \"t{last}\"\nsize = \"4 KiB\"\n");
        }
        check(&plan(&text).1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any tasks, shares and models, the terms sum to the bound, and the first to `C` and the
    /// stall.
    #[test]
    fn terms_sum_to_the_bound(
        tasks in prop::collection::vec((0..3u8, 1..400u64, 1..200u64, 5..200u64, prop::option::of(0..4u32)), 1..6),
        regulation in prop::sample::select(vec![
            "policy = \"memguard\"", "model = \"sce\"", "carry_in = false", "policy = \"none\"", "policy = \"dynamic\"",
            "policy = \"memguard\"\nperiod = \"200 us\"",
            "share = \"explicit\"\n[[core]]\nid = 0\nbandwidth = \"100 MB/s\"", "active_cores = \
                4\npolicy = \"bwlock\"",
        ]),
        best_effort in any::<bool>(),
    ) {
        let mut text = format!("platform = \"core-i5-2500k\"\n[regulation]\n{regulation}\n");
        for (i, (kind, pages, each, period, core)) in tasks.iter().enumerate() {
            let core = core.map_or(String::new(), |c| format!("core = {c}\n"));
            let demand = match kind {
                0 => format!("command = [\"{pages}\", \"{each}\"]"),
                1 => format!("wcet = \"{} us\"\nmisses = {}", period * 100, pages * each / 10),
                _ => format!(
                    "curve = [{{ wcet = \"{} us\", misses = {pages} }}, {{ wcet = \
                        \"{} us\", misses = {} }}]",
                    period * 100, period * 70, pages / 2
                ),
            };
            text += &format!("[[task]]\nname = \"t{i}\"\nperiod = \"{period} \
                ms\"\n{core}{demand}\n");
        }
        if best_effort {
            text += "[[task]]\nname = \"d\"\ncriticality = \"D\"\ncore = 3\nwcet = \"20 \
                ms\"\nmisses = 50000\n";
            prop_assume!(tasks.iter().all(|t| t.4 != Some(3)));
        }
        check(&plan(&text).1);
    }

    #[test]
    fn whole_nanoseconds_keep_the_sum(terms in prop::collection::vec(-5_000i64..1_000_000_000_000_000, 0..8)) {
        let ps: Vec<i128> = terms.iter().map(|&t| i128::from(t)).collect();
        let ns = whole_ns(&ps);
        let sum: i128 = ps.iter().sum();
        prop_assert_eq!(ns.iter().map(|&n| i128::from(n)).sum::<i128>(), -(-sum).div_euclid(1000));
        for (ns, ps) in ns.iter().zip(&ps) {
            prop_assert!((i128::from(*ns) * 1000 - ps).abs() < 1000);
        }
    }
}
