//! Plans whose cores use budgets that others leave unused (`reclaim`, `sharing`): the bounds hardly
//! grow, cores with analysed tasks give nothing away, and a system that no bound covers is refused.

#[path = "support/stated.rs"]
mod stated;

use solocore_model::plan::{Plan, Subject};
use stated::{best_effort, made};

/// Analysed tasks on cores 0 and 1 of four, best effort on cores 0 and 2.
fn text(keys: &str) -> String {
    let mut out = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
            \"explicit\"\n{keys}"
    );
    for core in 0..4 {
        out += &format!("[[core]]\nid = {core}\nbandwidth = \"150 MB/s\"\n");
    }
    for (core, period) in [(0, 50), (1, 80)] {
        out += &format!(
            "[[task]]\nname = \"t{core}\"\ncore = {core}\nperiod = \"{period} ms\"\nwcet = \"5 \
                ms\"\nmisses = 4000\n"
        );
    }
    out + &best_effort([0, 2])
}

const BOTH: &str = "reclaim = true\nsharing = \"spare\"\n";

#[test]
fn only_cores_without_analysed_tasks_give() {
    let (with, without) = (made(&text(BOTH)).unwrap(), made(&text("")).unwrap());
    let gives = |plan: &Plan| plan.cores.iter().map(|c| c.gives).collect::<Vec<_>>();
    assert_eq!(gives(&with), [false, false, true, true]);
    assert_eq!(gives(&without), [false; 4]);
    let budgets = |plan: &Plan| {
        let kept = plan.promises.iter().filter(|p| p.subject == Subject::Budget);
        kept.map(|p| p.what.clone()).collect::<Vec<_>>()
    };
    assert!(budgets(&with).iter().all(|what| what.contains("give away, or once")), "{with:#?}");
    assert!(budgets(&without).iter().all(|what| !what.contains("more only")));
    assert!(with.tasks[0].assumes.iter().any(|a| a.contains("give away, or once")));
    let said = |plan: &Plan| plan.reasons.iter().any(|r| r.contains("cores 2, 3 give away"));
    assert!(said(&with) && !said(&without), "{:#?}", with.reasons);
    // The last reason is the verdict's.
    assert!(with.reasons.last().unwrap().starts_with("verdict: "), "{:#?}", with.reasons);
    let mut wrong = with;
    wrong.cores[1].gives = true;
    assert!(wrong.check().unwrap_err().contains("analysed task `t1`"));
}

/// A shared round holds up the accesses of the core that are under way, in each period that uses
/// its budget up. Of 4,000 accesses with a budget of 2,343, one period does.
#[test]
fn reclaiming_changes_no_bound_and_sharing_hardly_one() {
    let bounds = |keys: &str| -> Vec<u64> {
        made(&text(keys)).unwrap().tasks.iter().filter_map(|t| t.wcrt_ns).collect()
    };
    let without = bounds("");
    assert_eq!(without.len(), 2);
    assert_eq!(bounds("reclaim = true\n"), without);
    let shared = bounds(BOTH);
    for (shared, without) in shared.iter().zip(&without) {
        assert!(shared > without && *shared < without + 1_000_000, "{shared} {without}");
    }
    for sharing in ["spare", "proportional"] {
        assert_eq!(bounds(&format!("sharing = \"{sharing}\"\n")), shared);
    }
}

/// Optimal shares leave `t0` the least budget that suffices. They must count with shared rounds, or
/// it is late under the plan, and on time with even shares.
#[test]
fn optimal_shares_count_with_shared_rounds() {
    let of = |share: &str| {
        format!(
            "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \
                \"{share}\"\n{BOTH}\
             [[task]]\nname = \"t0\"\nperiod = \"9 ms\"\nwcet = \"1 ms\"\nmisses = 2000\n\
             [[task]]\nname = \"t1\"\nperiod = \"20 ms\"\nwcet = \"3 ms\"\nmisses = 9000\n\
             [[task]]\nname = \"d\"\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = 10000\n"
        )
    };
    for share in ["even", "optimal"] {
        let plan = made(&of(share)).unwrap();
        assert!(plan.schedulable, "{share}: {:#?}", plan.reasons);
    }
}

#[test]
fn systems_that_no_bound_covers_are_refused() {
    for keys in ["reclaim = true\n", "sharing = \"spare\"\n", BOTH] {
        let key = keys.split(' ').next().unwrap();
        let refused = |text: &str, why: &str| {
            let error = made(text).unwrap_err();
            assert!(error.contains(key) && error.contains(why), "{error}");
        };
        let all = text(keys);
        refused(
            &all.replace("memguard\"\nshare = \"explicit", "dynamic\"\nshare = \"even"),
            "memguard",
        );
        refused(&all.replace("share =", "model = \"sce\"\nshare ="), "eq. (1)");
        let hard = all.replace("criticality = \"D\"", "period = \"1 s\"");
        refused(&hard, "level D");
        made(&hard.replace("share =", "other_programs = true\nshare =")).unwrap();
    }
    let some =
        text(BOTH).replacen("\"150 MB/s\"", "\"150 MB/s\"\nwrite_bandwidth = \"50 MB/s\"", 1);
    let error = made(&some).unwrap_err();
    assert!(error.contains("write_bandwidth") && error.contains("1 of 4"), "{error}");
    let every = text(BOTH).replace("\"150 MB/s\"", "\"150 MB/s\"\nwrite_bandwidth = \"50 MB/s\"");
    made(&every).unwrap();
}
