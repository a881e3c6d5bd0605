//! The terms of bounds: they sum to the bound, and each has the value that its name says.

use proptest::prelude::*;
use solocore_model::plan::waterfall::{Cause, whole_ns};
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::profile::{
    BandwidthSeries, FORMAT, Origin, PageName, PageProfile, Profile, WorkingSet,
};
use solocore_model::system::{Demand as Stated, System};
use solocore_planner::Demand;
use std::path::{Path, PathBuf};

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
        format: FORMAT.to_owned(),
        command: vec!["a".to_owned()],
        isa: p.isa,
        engine: "qemu".to_owned(),
        platform: p.name.clone(),
        geometry: p.geometry(),
        exit_code: 0,
        instructions: 1,
        loads: 1,
        stores: 1,
        references: 2,
        threads: 1,
        children: 0,
        exec: None,
        levels: Vec::new(),
        private_cycles: 10_000_000,
        working_set: WorkingSet { pages, lines: pages * 64, bytes: pages * 4096 },
        lockdown: (0..=pages).map(|k| (pages - k) * each).collect(),
        by_ways: vec![pages * each, pages * 64],
        pages: (0..pages).map(page).collect(),
        functions: Vec::new(),
        bandwidth: BandwidthSeries::default(),
        trace: None,
        origin: Origin::default(),
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

/// Properties of every task of every plan.
fn check(plan: &Plan) {
    for task in &plan.tasks {
        let Some(bound) = task.wcrt_ns.filter(|_| !task.best_effort()) else {
            assert!(task.waterfall.is_empty(), "{}", task.name);
            continue;
        };
        let sum: i64 = task.waterfall.iter().map(|t| t.ns).sum();
        assert_eq!(u64::try_from(sum).unwrap(), bound, "{task:?}");
        let of = |causes: &[Cause]| causes.iter().map(|&c| term(task, c)).sum::<i64>();
        let near = |a: i64, b: u64| (a - i64::try_from(b).unwrap()).abs() <= 3;
        assert!(
            near(of(&[Cause::Alone, Cause::Cache, Cause::Latency]), task.wcet_ns),
            "C of {task:?}"
        );
        assert!(near(of(&[Cause::Others, Cause::Once]), task.stall_ns), "stall of {task:?}");
        for cause in [Cause::Alone, Cause::Latency, Cause::Others, Cause::Once, Cause::Preemption] {
            assert!(term(task, cause) >= -1, "{cause:?} of {task:?}");
        }
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
    ] {
        check(&plan(text).1);
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
            "policy = \"memguard\"\nperiod = \"200 us\"", "share = \"explicit\"", "active_cores = \
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
