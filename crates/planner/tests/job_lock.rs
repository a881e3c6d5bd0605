//! Jobs that hold the bandwidth lock (`lock = "jobs"`): the budget beside them is the largest with
//! which every deadline is met, bounds charge the time until the others have seen the lock, and
//! systems without such a bound are refused.

#[path = "support/stated.rs"]
mod stated;

use solocore_model::plan::{Plan, Subject};
use stated::{best_effort, made};

const LOCK: &str = "lock = \"jobs\"\n";

/// Two analysed tasks, and best effort on cores 2 and 3.
fn text(keys: &str) -> String {
    let mut out =
        format!("platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"bwlock\"\n{keys}");
    for (name, period, wcet, misses) in [("video", 40, 6, 20_000), ("control", 10, 1, 2000)] {
        out += &format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period} ms\"\nwcet = \"{wcet} ms\"\nmisses = \
                {misses}\n"
        );
    }
    out + &best_effort([2, 3])
}

fn budget(plan: &Plan) -> u64 {
    plan.regulation.lock_budget_accesses.unwrap()
}

fn responses(plan: &Plan) -> Vec<u64> {
    plan.tasks.iter().filter_map(|t| t.wcrt_ns).collect()
}

fn with_stated(budget: u64) -> String {
    // Lines of 64 bytes in a period of 1 ms.
    format!("{LOCK}lock_bandwidth = \"{} kB/s\"\n", budget * 64)
}

#[test]
fn the_budget_is_the_largest_that_keeps_every_deadline() {
    let plan = made(&text(LOCK)).unwrap();
    assert!(plan.schedulable && responses(&plan).len() == 2, "{:#?}", plan.reasons);
    let largest = budget(&plan);
    let same = made(&text(&with_stated(largest))).unwrap();
    assert_eq!((budget(&same), responses(&same)), (largest, responses(&plan)));
    // The file's tasks have no cores: with one access more, no number of cores will do.
    let more = made(&text(&with_stated(largest + 1))).unwrap();
    assert!(!more.schedulable && more.regulation.lock_reaction_ns.is_none());
    assert!(more.reasons.iter().any(|r| r.contains("do not count on the lock")));
    assert!(!more.promises.iter().any(|p| p.subject == Subject::Holds));
    // Fewer accesses beside it, lower bounds.
    let less = made(&text(&with_stated(largest / 4))).unwrap();
    assert!(responses(&less).iter().zip(responses(&plan)).all(|(&l, p)| l < p), "{less:#?}");
}

/// The largest bound on an execution beside the other cores, as a multiple of the time alone.
fn slowdown(plan: &Plan) -> f64 {
    let hard = plan.tasks.iter().filter(|t| !t.best_effort());
    hard.map(|t| t.c_sce_ns as f64 / t.wcet_ns as f64).fold(0.0, f64::max)
}

#[test]
fn the_budget_keeps_the_wanted_slowdown() {
    let free = made(&text(LOCK)).unwrap();
    let wish = 1.0 + (slowdown(&free) - 1.0) / 2.0;
    let wished = |wish: f64| format!("{LOCK}slowdown = {wish:.2}\n");
    let plan = made(&text(&wished(wish))).unwrap();
    assert!(plan.schedulable && slowdown(&plan) <= wish + 0.005 && budget(&plan) < budget(&free));
    assert!(plan.reasons.iter().any(|r| r.contains("and the wanted slowdown kept")));
    // With one access more, no number of cores will do.
    let more = made(&text(&with_stated(budget(&plan) + 1))).unwrap();
    assert!(slowdown(&more) > wish - 0.005, "{} and {wish}", slowdown(&more));
    let none = made(&text(&wished(1.0))).unwrap();
    assert_eq!((none.schedulable, budget(&none)), (true, budget(&free)));
    assert!(none.reasons.iter().any(|r| r.contains("slowdown: no lock_bandwidth")));
}

/// A task whose pages do not fit into an even share of the ways, and best effort that needs none.
fn large(keys: &str) -> String {
    let point = |k: u64| {
        let misses = 40_000 * (1200 - k) / 1200;
        format!("{{ wcet = \"{} us\", misses = {misses} }}", 10_000 + misses / 5)
    };
    let curve = (0..=1200).map(point).collect::<Vec<_>>().join(", ");
    format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"bwlock\"\n{LOCK}[[task]]\nname = \
            \"large\"\nperiod = \"40 ms\"\n{keys}curve = [{curve}]\n{}",
        best_effort([2, 3])
    )
}

/// Dynamic budgets have even ways.
#[test]
fn ways_go_where_they_save_most() {
    let plan = made(&large("")).unwrap();
    let dynamic = large("").replace("bwlock", "dynamic").replace(LOCK, "");
    let even = made(&dynamic).unwrap();
    let ways = |plan: &Plan| plan.cores.iter().map(|c| c.ways).collect::<Vec<_>>();
    assert_eq!(ways(&even), [3; 4]);
    let (own, on) = (&plan.tasks[0], plan.tasks[0].core as usize);
    assert!(plan.schedulable && ways(&plan)[on] >= 6, "{:?}", ways(&plan));
    assert!(own.locked_pages.len() > even.tasks[0].locked_pages.len(), "{own:#?}");
    // This deadline cannot be met with the pages of an even share, whatever the others do.
    let (deadline, least) = (15_000_000, even.tasks[0].wcet_ns);
    assert!(least > deadline, "{least}");
    let late = made(&large(&format!("deadline = \"{deadline} ns\"\n"))).unwrap();
    assert!(late.schedulable && late.regulation.lock_reaction_ns.is_some(), "{:#?}", late.reasons);
}

#[test]
fn a_bound_charges_the_time_until_the_lock_is_seen() {
    // Of a core of its own, and beside one access a period.
    let alone = |period: &str| {
        let keys = format!("{LOCK}period = \"{period}\"\nlock_bandwidth = \"640 kB/s\"\n");
        let one = text(&keys).replace("name = \"control\"", "core = 1\nname = \"control\"");
        let plan = made(&one.replace("name = \"video\"", "core = 0\nname = \"video\"")).unwrap();
        assert!(plan.schedulable, "{:#?}", plan.reasons);
        (plan.regulation.lock_reaction_ns.unwrap(), responses(&plan)[1])
    };
    let ((early, quick), (late, slow)) = (alone("1 ms"), alone("4 ms"));
    assert_eq!((early, late), (200_000, 800_000));
    assert!(slow >= quick + 590_000, "{slow} and {quick}");
}

/// A job that preempts costs the time twice: as it begins, and as the other goes on.
#[test]
fn each_preemption_is_charged() {
    let on = |core: u32, keys: &str| {
        let one = text(&format!("{LOCK}lock_bandwidth = \"640 kB/s\"\n{keys}"));
        let one = one.replace("name = \"control\"", &format!("core = {core}\nname = \"control\""));
        made(&one.replace("name = \"video\"", "core = 0\nname = \"video\"")).unwrap()
    };
    let of = |period: &str| {
        let keys = format!("period = \"{period}\"\n");
        let (apart, together) = (on(1, &keys), on(0, &keys));
        assert!(apart.schedulable && together.schedulable, "{:#?}", together.reasons);
        responses(&together)[0] - responses(&apart)[0]
    };
    // Budgets of 10 and of 40 accesses cost the same time; the lock is seen 600 us later.
    assert!(of("4 ms") >= of("1 ms") + 2 * 590_000);
}

#[test]
fn what_the_bounds_rest_on_is_promised() {
    let plan = made(&text(&format!("{LOCK}skid = 40\n"))).unwrap();
    let of = |subject: Subject| plan.promises.iter().filter(move |p| p.subject == subject);
    assert_eq!(of(Subject::Holds).map(|p| p.name()).collect::<Vec<_>>(), ["video", "control"]);
    assert_eq!(of(Subject::BesideJobs).filter_map(|p| p.core()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(of(Subject::BesideJobs).all(|p| p.bound_of == ["video", "control"]));
    assert!(of(Subject::BesideJobs).all(|p| p.what.contains("and 40 beyond it")));
    assert_eq!(of(Subject::LockBudget).chain(of(Subject::Others)).count(), 0);
    assert!(budget(&plan) + 40 <= budget(&made(&text(LOCK)).unwrap()) + 1, "the skid is charged");
}

#[test]
fn what_has_no_such_bound_is_refused() {
    let says = |text: &str| made(text).unwrap_err();
    let late = text(LOCK).replace("period = \"10 ms\"", "period = \"10 ms\"\ndeadline = \"11 ms\"");
    assert!(says(&late).contains("task `control`: its deadline is after its period's end"));
    let both =
        text(LOCK).replace("name = \"control\"", "lock = [\"function:f\"]\nname = \"control\"");
    assert!(says(&both).contains("task `control`: its lock holds sections"));
    let memguard = text(LOCK).replace("bwlock", "memguard");
    assert!(says(&memguard).contains("needs policy = \"bwlock\""));
    assert!(says(&text(&format!("{LOCK}model = \"sce\"\n"))).contains("needs model = \"sound\""));
}
