//! Optimal shares: plans that are no worse than even ones, and the effect of the objectives.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::plan::{Plan, PlanTask, ProofResult};
use solocore_model::system::{Demand as Stated, System, SystemTask};
use solocore_planner::{Demand, Patience, plan_until};
use std::fmt::Write as _;
use std::path::Path;

fn plan(text: &str) -> Plan {
    until(text, false)
}

/// The plan; `endless` as with a time limit.
fn until(text: &str, endless: bool) -> Plan {
    let system =
        System::parse(Path::new("system.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let demand = |t: &SystemTask| Demand::stated(&t.demand).expect("no profiles in these tests");
    let demands: Vec<Demand> = system.tasks.iter().map(demand).collect();
    let patience = Patience { stop: &|| false, share: &|_| {}, endless, prices: None };
    let plan = plan_until(&system, &demands, patience).expect("shares can be had");
    plan.check().unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan
}

/// Tasks with curves of some hundred pages, on a board with colours, beside best effort.
fn tasks(rng: &mut ChaCha8Rng, load: f64) -> String {
    let mut text = String::new();
    let (hard, soft) = (rng.random_range(4..10u32), rng.random_range(1..5u32));
    for i in 0..hard {
        let period = f64::from(rng.random_range(10..200u32));
        let work =
            (period * load / f64::from(hard) * rng.random_range(0.3..1.7)).min(period * 0.55);
        let (pages, misses) = (rng.random_range(1..400u32), work * rng.random_range(100.0..3000.0));
        let point = |k: u32| {
            let misses = (misses * f64::from(pages - k) / f64::from(pages)) as u64;
            format!("{{ wcet = \"{:.6} ms\", misses = {misses} }}", work + misses as f64 * 2e-4)
        };
        let curve = (0..=pages).map(point).collect::<Vec<_>>().join(", ");
        writeln!(text, "[[task]]\nname = \"t{i}\"\nperiod = \"{period} ms\"\ncurve = [{curve}]")
            .unwrap();
    }
    for i in 0..soft {
        let misses = rng.random_range(1000..100_000u32);
        writeln!(
            text,
            "[[task]]\nname = \"d{i}\"\ncriticality = \"D\"\nwcet = \"20 ms\"\nmisses = {misses}"
        )
        .unwrap();
    }
    text
}

fn with(share: &str, tasks: &str) -> Plan {
    plan(&format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\n{share}\n{tasks}"
    ))
}

fn hard(plan: &Plan) -> impl Iterator<Item = &PlanTask> {
    plan.tasks.iter().filter(|t| !t.best_effort())
}

/// If even shares suffice, optimal ones do; and they suffice more often.
#[test]
fn no_worse_than_even_shares() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut even, mut optimal) = (0, 0);
    for case in 0..60 {
        let tasks = tasks(&mut rng, f64::from(case % 10 + 1) / 2.5);
        let (by_even, by_optimal) =
            (with("share = \"even\"", &tasks), with("share = \"optimal\"", &tasks));
        even += u32::from(by_even.schedulable);
        optimal += u32::from(by_optimal.schedulable);
        assert!(by_optimal.schedulable || !by_even.schedulable, "case {case}\n{tasks}");
    }
    println!("of 60 systems, even shares schedule {even}, optimal ones {optimal}");
    assert!(even > 10 && optimal * 4 > even * 5, "{even} {optimal}");
}

/// Each objective gives the best plan by its own measure.
#[test]
fn objectives_are_for_what_they_say() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut seen = 0;
    for _ in 0..12 {
        let tasks = tasks(&mut rng, 0.5);
        let of = |objective: &str| {
            with(&format!("share = \"optimal\"\nobjective = \"{objective}\""), &tasks)
        };
        let (speed, margin, bounds) = (of("best_effort"), of("margin"), of("bounds"));
        if ![&speed, &margin, &bounds].iter().all(|p| p.schedulable) {
            continue;
        }
        seen += 1;
        let part = |p: &Plan| {
            hard(p)
                .map(|t| t.wcrt_ns.unwrap() as f64 / t.deadline_ns.unwrap() as f64)
                .fold(0.0, f64::max)
        };
        let budgets = |p: &Plan| p.cores.iter().map(|c| c.budget_accesses.unwrap()).sum::<u64>();
        assert!(
            part(&margin) <= part(&speed) + 1e-3 && part(&margin) <= part(&bounds) * 1.05,
            "{tasks}"
        );
        assert!(
            budgets(&speed) > 0 && speed.certificate.is_some_and(|c| (0.0..=1.0).contains(&c.gap))
        );
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn the_wanted_slowdown_is_kept_or_said_to_be_missed() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut kept, mut missed) = (0, 0);
    for case in 0..30u32 {
        let tasks = tasks(&mut rng, 0.6);
        let factor = 1.1 + f64::from(case) / 10.0;
        let plan = with(&format!("share = \"optimal\"\nslowdown = {factor:.1}"), &tasks);
        let said = plan.reasons.iter().any(|r| r.starts_with("slowdown: no candidate"));
        let system =
            System::parse(Path::new("s.toml"), &format!("platform = \"core-i5-2500k\"\n{tasks}"))
                .unwrap();
        let alone = |name: &str| match &system.tasks.iter().find(|t| t.name == name).unwrap().demand
        {
            Stated::Curve(points) => points.last().unwrap().wcet.ps() as f64 / 1000.0,
            _ => panic!("a curve"),
        };
        let worst = hard(&plan).map(|t| t.c_sce_ns as f64 / alone(&t.name)).fold(0.0, f64::max);
        if plan.schedulable && !said {
            kept += 1;
            assert!(worst <= factor + 1e-3, "{worst} {factor}\n{tasks}");
        } else if said {
            missed += 1;
        }
    }
    assert!(kept > 5 && missed > 2, "{kept} kept, {missed} missed");
}

/// Without deadlines or a slowdown that all choices keep, no choice is called the best one.
#[test]
fn a_missed_slowdown_is_no_proof() {
    // The program has its whole speed on a core of its own; the task cannot have its time alone.
    let text = "[[task]]\nname = \"a\"\nperiod = \"100 ms\"\nwcet = \"10 ms\"\nmisses = 1000\n\
        [[task]]\nname = \"d\"\ncriticality = \"D\"\nwcet = \"10 ms\"\nmisses = 0\n";
    let of = |slowdown: &str| with(&format!("share = \"optimal\"\n{slowdown}"), text);
    let kept = of("").certificate.expect("a certificate");
    assert!(kept.optimal && kept.gap == 0.0, "{kept:?}");
    let plan = of("slowdown = 1.0");
    assert!(plan.schedulable && plan.reasons.iter().any(|r| r.starts_with("slowdown: no")));
    let missed = plan.certificate.expect("a certificate");
    assert!(!missed.optimal && missed.gap == 1.0, "{missed:?}");
    assert!(plan.reasons[0].contains("; it is not proved that"), "{}", plan.reasons[0]);
}

/// Reasons name the ways and budgets that the plan has, not even ones.
#[test]
fn reasons_are_those_of_the_chosen_shares() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut uneven = 0;
    for _ in 0..8 {
        let tasks = tasks(&mut rng, 0.8);
        let plan = with("share = \"optimal\"\nobjective = \"bounds\"", &tasks);
        let list = |of: fn(&solocore_model::plan::PlanCore) -> u64| {
            plan.cores.iter().map(|c| of(c).to_string()).collect::<Vec<_>>().join(", ")
        };
        let ways = list(|c| u64::from(c.ways));
        let has = |words: &str| plan.reasons.iter().any(|r| r.contains(words));
        if plan.cores.iter().any(|c| c.ways != plan.cores[0].ways) {
            uneven += 1;
            assert!(has(&format!("the cores have {ways};")), "{ways}: {:?}", plan.reasons);
            assert!(has(&format!("in them {} pages", list(|c| c.lock_capacity_pages))));
            assert!(!has("give each 3 ways"), "{:?}", plan.reasons);
        }
        let even = has("which are even shares");
        for core in plan.cores.iter().take(if even { 1 } else { usize::MAX }) {
            let budget = core.budget_accesses.unwrap();
            assert!(has(&format!("core {} has Q = {budget} ", core.id)), "{:?}", plan.reasons);
        }
        assert!(even != has("chosen together with cores and cache"), "{:?}", plan.reasons);
        assert!(
            hard(&plan).all(|t| even == has(&format!("{}: core {} (worst fit)", t.name, t.core)))
        );
    }
    assert!(uneven > 2, "{uneven}");
}

/// What is proved of all cores is not a proof about a plan on fewer of them.
#[test]
fn a_plan_on_fewer_cores_has_no_proof() {
    let plan = |deadline: &str| {
        let text = format!(
            "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
                \"optimal\"\n[[task]]\nname = \"a\"\nperiod = \"20 ms\"\ndeadline = \
                \"{deadline}\"\nwcet = \"100 us\"\nmisses = 1000\n[[task]]\nname = \
                \"b\"\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = 10000\n"
        );
        let plan = until(&text, true);
        let proof = plan.certificate.expect("optimal shares").proof;
        (plan.schedulable, plan.regulation.active_cores, proof.map(|proof| proof.result))
    };
    assert_eq!(plan("1.6 ms"), (true, 4, Some(ProofResult::Best)));
    assert_eq!(plan("1.16 ms"), (true, 1, None));
    assert_eq!(plan("1 ms"), (false, 4, Some(ProofResult::Impossible)));
}

/// Best effort beside analysed tasks gets budgets by its speed: with one factor for all cores, it
/// had 32.7 % of its speed, and the search ended without a proof.
#[test]
fn budgets_beside_analysed_tasks_go_where_they_give_speed() {
    let task = |name: &str, core: u32, kind: &str, wcet: f64, misses: u32| {
        format!(
            "[[task]]\nname = \"{name}\"\ncore = {core}\n{kind}\nwcet = \"{wcet} ms\"\nmisses = \
                {misses}\n"
        )
    };
    let best_effort = "criticality = \"D\"";
    let text = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"optimal\"\nactive_cores = 3\n"
        .to_owned()
        + &task("t0", 0, "period = \"40 ms\"", 9.8, 26_300)
        + &task("t1", 1, "period = \"23 ms\"", 8.3, 2600)
        + &task("t2", 2, "period = \"56 ms\"", 11.4, 37_300)
        + &task("d1", 1, best_effort, 10.0, 334_600)
        + &task("d2", 2, best_effort, 10.0, 100_000);
    let (usual, proved) = (plan(&text), until(&text, true));
    assert!(usual.schedulable && usual.reasons[0].contains("37.7 % of"), "{}", usual.reasons[0]);
    assert_eq!(usual.cores, proved.cores);
    let proof = proved.certificate.and_then(|c| c.proof).expect("a search for a proof");
    assert_eq!(proof.result, ProofResult::Best);
}
