//! The single-core-equivalence method: the paper's worked example, stated windows that are too
//! short, and repeated rounds.

use solocore_model::plan::windows::{Has, WindowsPlan};
use solocore_model::plan::{Plan, Scheme};
use solocore_model::system::{System, SystemTask};
use solocore_model::windows::table::{Row, Stage};
use solocore_planner::Demand;
use std::path::Path;

fn plan(text: &str) -> Plan {
    let system =
        System::parse(Path::new("system.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let demand = |t: &SystemTask| Demand::stated(&t.demand).expect("no profiles in these tests");
    let demands: Vec<Demand> = system.tasks.iter().map(demand).collect();
    solocore_planner::plan(&system, &demands).expect("shares can be had")
}

fn windows_of(plan: &Plan) -> &WindowsPlan {
    plan.windows().expect("a plan of the method")
}

/// Order along chains and exclusion over two hyperperiods of 36 ms, unrolled.
fn holds(rows: &[Row]) {
    let instances = |r: &Row| (0..8u64).map(|n| r.offset_ns + n * r.period_ns).collect::<Vec<_>>();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[..i] {
            if a.resource == b.resource {
                for s in instances(a) {
                    for t in instances(b) {
                        assert!(
                            s + a.duration_ns <= t || t + b.duration_ns <= s,
                            "{a:?} and {b:?} overlap"
                        );
                    }
                }
            }
        }
    }
    for a in rows.iter().filter(|r| r.chain.is_some()) {
        for b in rows
            .iter()
            .filter(|b| b.partition == a.partition && (b.chain == a.chain || b.chain.is_none()))
        {
            assert!(
                a.stage >= b.stage || a.offset_ns + a.duration_ns <= b.offset_ns,
                "{b:?} before {a:?}"
            );
            assert!(
                a.stage <= b.stage || b.offset_ns + b.duration_ns <= a.offset_ns,
                "{a:?} before {b:?}"
            );
        }
    }
}

const EXAMPLE: &str = include_str!("../../../examples/ima-sce/system.toml");

/// Section 5: Task 1 of 36 takes 13 unlocked, 7 alone with three pages, 8 with the stall; 18/3,
/// 36/3 in 18/6; 36/8, 72/3 in 36/12.
#[test]
fn the_worked_example_has_the_papers_numbers() {
    let plan = plan(EXAMPLE);
    assert!(plan.schedulable, "{:?}", plan.reasons);
    // Within a thousandth of the paper's units of 1 ms, never above.
    let unit = |ns: u64| ns.div_ceil(1_000_000) * 1_000_000 - ns < 1000;
    let numbers: Vec<(u64, u64)> = plan
        .tasks
        .iter()
        .map(|t| (t.period_ns.unwrap() / 1_000_000, t.c_sce_ns.div_ceil(1_000_000)))
        .collect();
    assert_eq!(numbers[..4], [(36, 8), (72, 3), (18, 3), (36, 3)]);
    assert!(plan.tasks.iter().all(|t| unit(t.c_sce_ns)), "{:?}", plan.tasks);
    let one = &plan.tasks[0];
    assert_eq!(
        (one.unlocked.unwrap().wcet_ns, one.wcet_ns, one.locked_pages.len()),
        (13_000_000, 7_000_000, 3)
    );
    let planned = windows_of(&plan);
    let windows: Vec<(u64, u64)> =
        planned.partitions.iter().take(2).map(|p| (p.period_ns, p.duration_ns)).collect();
    assert_eq!(windows, [(18_000_000, 6_000_000), (36_000_000, 12_000_000)]);
    assert_eq!((planned.cores, planned.io_core, planned.table.len()), (2, Some(2), 20));
    // 3 pages of 64 lines; no other partition has locked pages.
    assert_eq!(planned.partitions[1].prefetch_accesses, 192);
    assert!(planned.hardware.iter().all(|i| i.has == Has::Yes), "{:?}", planned.hardware);
    holds(&planned.table);
}

/// Without locking, Task 1's 13 units do not fit; the plan names the partition and the excess.
#[test]
fn a_stated_window_that_is_too_short_is_named() {
    let start = EXAMPLE.find("    { wcet = \"10 ms\"").unwrap();
    let end = EXAMPLE[start..].find(']').unwrap() + start;
    let unlocked = format!("{}{}", &EXAMPLE[..start], &EXAMPLE[end..]);
    let plan = plan(&unlocked);
    assert!(!plan.schedulable);
    let rounds = &windows_of(&plan).rounds;
    assert_eq!((rounds.len(), rounds[0].step, rounds[0].found), (1, 5, false), "{rounds:?}");
    for word in
        ["partition `partition 2`", "`task 1` may miss its deadline in windows of 12 ms", "more"]
    {
        assert!(rounds[0].outcome.contains(word), "{:?} lacks {word}", rounds[0]);
    }
    let needed = windows_of(&plan).partitions[1].least_duration_ns.unwrap();
    assert!(needed > 12_000_000, "{needed}");
    let enough =
        unlocked.replacen("duration = \"12 ms\"", &format!("duration = \"{needed} ns\""), 1);
    let less = unlocked.replacen(
        "duration = \"12 ms\"",
        &format!("duration = \"{} ns\"", needed - 1000),
        1,
    );
    let short = self::plan(&less);
    assert!(!short.windows().unwrap().partitions[1].schedulable, "{:?}", short.reasons);
    let with = self::plan(&enough);
    assert!(windows_of(&with).partitions[1].schedulable, "{:?}", with.reasons);
}

fn many(count: usize, duration: &str, cores: u32) -> String {
    let mut text = format!("platform = \"p4080\"\n[regulation]\nactive_cores = {cores}\n");
    for i in 0..count {
        text += &format!("[[partition]]\nname = \"p{i}\"\nperiod = \"10 ms\"\n{duration}\n");
        text += &format!(
            "[[task]]\nname = \"t{i}\"\npartition = \"p{i}\"\nperiod = \"10 ms\"\nwcet = \"3200 \
                us\"\nmisses = 100\n"
        );
    }
    text
}

/// Windows of about 4 ms: with 30 percent of slack one fits a core's 10 ms, without slack two do.
#[test]
fn slack_is_given_up_where_nothing_fits_with_it() {
    let tight = plan(&many(4, "", 2));
    assert!(tight.schedulable, "{:?}", tight.reasons);
    let planned = windows_of(&tight);
    let slacks: Vec<(u32, bool)> =
        planned.rounds.iter().map(|r| (r.slack_percent, r.found)).collect();
    assert_eq!(slacks.first().unwrap(), &(30, false), "{slacks:?}");
    assert!(slacks.last().unwrap().0 < 30 && slacks.last().unwrap().1, "{slacks:?}");
    for core in 0..2 {
        assert_eq!(planned.partitions.iter().filter(|p| p.core == Some(core)).count(), 2);
    }
    let roomy = plan(&many(2, "", 2));
    assert_eq!(roomy.windows().unwrap().rounds.len(), 1);
    for p in &roomy.windows().unwrap().partitions {
        let least = p.least_duration_ns.unwrap();
        assert!(p.duration_ns >= least * 130 / 100, "{p:?}");
    }
}

#[test]
fn too_many_partitions_are_refused_with_a_log() {
    let plan = plan(&many(5, "", 2));
    assert!(!plan.schedulable && plan.tasks.iter().all(|t| !t.schedulable));
    let planned = windows_of(&plan);
    assert!(planned.table.is_empty() && planned.rounds.len() == 6, "{:?}", planned.rounds);
    assert!(
        planned.rounds.iter().all(|r| !r.found && r.step < 5 && !r.outcome.is_empty()),
        "{:?}",
        planned.rounds
    );
    assert!(plan.reasons.last().unwrap().contains("use more cores or a faster board"));
}

/// The least window is the edge: a little less, stated, fails.
#[test]
fn least_windows_are_least() {
    let least = plan(&many(1, "", 1)).windows().unwrap().partitions[0].least_duration_ns.unwrap();
    let stated = |ns: u64| plan(&many(1, &format!("duration = \"{ns} ns\""), 1)).schedulable;
    assert!(stated(least) && !stated(least - 1000));
}

/// Pages are locked where they save more than their prefetch in every window costs.
#[test]
fn pages_are_locked_where_it_pays() {
    let with = |misses: u32| {
        let text = many(1, "", 2).replace(
            "wcet = \"3200 us\"\nmisses = 100",
            &format!(
                "curve = [{{ wcet = \"3 ms\", misses = 10000 }}, \
                {{ wcet = \"2985 us\", misses = {misses} }}]"
            ),
        );
        plan(&text).windows().unwrap().partitions[0].locked_pages
    };
    // A page is 64 lines, read in every window, which takes 9 us; it saves 15 us.
    assert_eq!((with(9950), with(9900)), (0, 1));
}

#[test]
fn the_same_system_gives_the_same_plan() {
    let bytes = || solocore_model::files::to_json(&plan(EXAMPLE));
    assert_eq!(bytes(), bytes());
}

#[test]
fn tables_of_plans_are_checked_when_read() {
    let mut plan = plan(EXAMPLE);
    assert_eq!(plan.check(), Ok(()));
    let edit = |change: &dyn Fn(&mut WindowsPlan)| {
        let mut edited = plan.clone();
        let Scheme::Windows(windows) = &mut edited.scheme else { panic!("windows") };
        change(windows);
        edited.check().unwrap_err()
    };
    assert!(edit(&|s| s.table[0].partition = "nobody".to_owned()).contains("nobody"));
    assert!(edit(&|s| s.table[0].period_ns = 0).contains("impossible time"));
    let window =
        |s: &mut WindowsPlan| s.table.iter().position(|r| r.stage == Stage::Processing).unwrap();
    assert!(
        edit(&|s| {
            let w = window(s);
            s.table[w].resource = "core 1".to_owned();
        })
        .contains("does not fit")
    );
    assert!(
        edit(&|s| {
            let w = window(s);
            s.table.remove(w);
        })
        .contains("no window")
    );
    assert!(edit(&|s| s.partitions[0].duration_ns = 0).contains("duration"));
    plan.tasks[0].partition = None;
    assert!(plan.check().unwrap_err().contains("task 1"));
}
