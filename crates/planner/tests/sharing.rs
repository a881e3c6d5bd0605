//! Conditions that a plan may leave to others: the places of pages (`pages`), and programs outside
//! of the plan (`other_programs`).

use solocore_model::plan::{Plan, Subject};
use solocore_model::{Platform, System};
use solocore_planner::Demand;
use std::path::Path;

/// Two analysed tasks on cores 0 and 1 of four, with stated budgets.
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
    out
}

fn planned(text: &str) -> Plan {
    let system = System::parse(Path::new("system.toml"), text).unwrap();
    let demands: Vec<Demand> =
        system.tasks.iter().map(|t| Demand::stated(&t.demand).unwrap()).collect();
    let plan = solocore_planner::plan(&system, &demands).unwrap();
    plan.check().unwrap();
    plan
}

fn bounds(plan: &Plan) -> Vec<u64> {
    let analysed = plan.tasks.iter().filter(|t| !t.best_effort());
    analysed.map(|t| t.wcrt_ns.unwrap()).collect()
}

fn promised(plan: &Plan, subject: Subject) -> bool {
    plan.promises.iter().any(|p| p.subject == subject)
}

#[test]
fn other_programs_count_as_best_effort_on_each_core() {
    let without = planned(&text(""));
    let with = planned(&text("other_programs = true\n"));
    let mut stated = text("");
    for core in 0..4 {
        stated += &format!(
            "[[task]]\nname = \"d{core}\"\ncore = {core}\ncriticality = \"D\"\nwcet = \"1 \
                ms\"\nmisses = 10\n"
        );
    }
    let best_effort = planned(&stated);
    assert_eq!(bounds(&with), bounds(&best_effort));
    for (with, without) in bounds(&with).into_iter().zip(bounds(&without)) {
        assert!(with > without, "{with} {without}");
    }
    assert!(promised(&without, Subject::Others));
    assert!(!promised(&with, Subject::Others));
    assert!(with.regulation.other_programs);
}

#[test]
fn nobody_has_to_keep_pages_that_lie_anywhere() {
    let (own, anywhere) = (planned(&text("")), planned(&text("pages = \"anywhere\"\n")));
    for subject in [Subject::Ways, Subject::Banks] {
        assert!(promised(&own, subject), "{subject:?}");
        assert!(!promised(&anywhere, subject), "{subject:?}");
    }
    assert!(anywhere.cores.iter().all(|c| c.ways == 0 && c.banks.is_none()));
    for (own, anywhere) in own.tasks.iter().zip(&anywhere.tasks) {
        assert_eq!(anywhere.misses, 2 * own.misses, "each access may push out a dirty line");
        let latency =
            Platform::find("core-i5-2500k", Path::new(".")).unwrap().dram.latency_max.ps();
        let added = own.misses * latency / 1000;
        assert!(anywhere.wcet_ns.abs_diff(own.wcet_ns + added) <= 1);
        assert!(anywhere.wcrt_ns > own.wcrt_ns);
        assert_eq!(anywhere.unlocked.unwrap().misses, own.misses, "alone it makes what is stated");
    }
    let mut wrong = anywhere;
    wrong.cores[0].ways = 1;
    assert!(wrong.check().unwrap_err().contains("anywhere"));
}

#[test]
fn plans_that_place_pages_are_not_for_pages_anywhere() {
    let (memguard, none) = ("memguard", "none");
    let levels = ("[levels]\nscheme = \"C|C\"\n", "");
    let windows =
        ("[[partition]]\nname = \"p\"\ncore = 0\nperiod = \"10 ms\"\n", "partition = \"p\"\n");
    for (policy, key, (scheme, place)) in [
        (none, "pages = \"anywhere\"", levels),
        (memguard, "pages = \"anywhere\"", windows),
        (memguard, "other_programs = true", windows),
    ] {
        let text = format!(
            "platform = \"imx6q\"\n[regulation]\npolicy = \"{policy}\"\n{key}\n{scheme}[[task]]\nname \
                = \"a\"\n{place}period = \"10 ms\"\nwcet = \"1 ms\"\nmisses = 10\n"
        );
        let parse = |text: &str| System::parse(Path::new("system.toml"), text);
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
        parse(&text.replace(&format!("{key}\n"), "")).unwrap();
    }
    let text = "platform = \"imx6q\"\n[regulation]\npolicy = \"dynamic\"\nother_programs = true\n\
        [[task]]\nname = \"a\"\nperiod = \"10 ms\"\nwcet = \"1 ms\"\nmisses = 10\n";
    let error = System::parse(Path::new("system.toml"), text).unwrap_err().to_string();
    assert!(error.contains("memguard"), "{error}");
}
