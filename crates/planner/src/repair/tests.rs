//! Each named change suffices, the one before it does not, and no smaller one does.

use super::kinds;
use super::trials::Trials;
use super::{Answer, repair};
use crate::demand::Demand;
use crate::planning::{plan, verdict};
use proptest::prelude::*;
use solocore_model::plan::advice::Repair;
use solocore_model::system::Share;
use solocore_model::system::text::SystemText;
use solocore_model::{Plan, System};
use std::path::Path;

struct Case {
    text: SystemText,
    system: System,
    demands: Vec<Demand>,
    plan: Plan,
}

impl Case {
    fn of(text: &SystemText) -> Option<Self> {
        let system = text.system().ok()?;
        let demands: Vec<Demand> =
            system.tasks.iter().filter_map(|t| Demand::stated(&t.demand)).collect();
        let plan = plan(&system, &demands).ok()?;
        Some(Self { text: text.clone(), system, demands, plan })
    }

    fn new(text: &str) -> Self {
        Self::of(&SystemText::new(Path::new("s.toml"), text.to_owned())).expect("it can be planned")
    }

    fn repairs(&self) -> Vec<Repair> {
        repair(&self.text, &self.system, &self.demands, &self.plan, &|| false).repairs
    }

    /// Is the system schedulable with this change? By a complete planning, other than that of the
    /// search.
    fn with(&self, key: &str, value: &str) -> bool {
        let text = self.text.with(&format!("{key}={value}")).unwrap();
        Self::of(&text).is_some_and(|case| case.plan.schedulable)
    }
}

fn task(name: &str, core: u32, period_ms: u32, wcet_us: u32, misses: u32) -> String {
    format!(
        "[[task]]\nname = \"{name}\"\ncore = {core}\nperiod = \"{period_ms} ms\"\nwcet = \
            \"{wcet_us} us\"\nmisses = {misses}\n"
    )
}

const BOARD: &str = "platform = \"core-i5-2500k\"\n";
const EVEN: &str = "[regulation]\nshare = \"even\"\n";
const SOFT: &str =
    "[[task]]\nname = \"soft\"\ncore = 3\ncriticality = \"D\"\nwcet = \"20 ms\"\nmisses = 100000\n";

/// Two tasks on one core that is too slow for both.
fn overloaded() -> String {
    format!(
        "{BOARD}{EVEN}{}{}{SOFT}",
        task("hi", 0, 50, 10_000, 20_000),
        task("lo", 0, 100, 30_000, 60_000)
    )
}

/// The least change by trying all values in order.
fn by_scan(case: &Case, key: &str) -> Option<String> {
    let kind = kinds::of(&case.system, &case.plan).into_iter().find(|k| k.key == key)?;
    (0..kind.values.count()).map(|at| kind.values.at(at)).find(|value| case.with(key, value))
}

#[test]
fn the_least_is_that_of_a_scan() {
    let case = Case::new(&overloaded());
    assert!(!case.plan.schedulable);
    let repairs = case.repairs();
    let steps: Vec<&Repair> = repairs.iter().filter(|r| r.step.is_some()).collect();
    for key in
        ["task.lo.deadline", "task.lo.period", "task.lo.wcet", "task.lo.misses", "task.hi.period"]
    {
        let found = steps.iter().find(|r| r.change == key).map(|r| r.value.clone());
        assert_eq!(found, by_scan(&case, key), "{key}");
    }
    assert!(steps.len() >= 3, "{repairs:?}");
    for listed in ["task.lo.core", "regulation.share"] {
        assert!(
            repairs.iter().any(|r| r.change == listed && r.step.is_none()),
            "{listed} of {repairs:?}"
        );
    }
    // Core 1 is the first that suffices; the lists are in order.
    assert!(repairs.iter().any(|r| r.change == "task.lo.core" && r.value == "1"));
    assert!(repairs.iter().all(|r| r.verified && !r.meaning.contains("{}")));
}

/// A task with 1200 pages: an even share of the ways holds a third of them.
fn large(regulation: &str, period_ms: u32) -> String {
    let point = |k: u32| {
        let misses = 40_000 * (1200 - k) / 1200;
        format!("{{ wcet = \"{} us\", misses = {misses} }}", 10_000 + misses / 5)
    };
    let curve = (0..=1200).map(point).collect::<Vec<_>>().join(", ");
    format!(
        "{BOARD}[regulation]\n{regulation}[[task]]\nname = \"large\"\ncore = 0\nperiod = \
            \"{period_ms} ms\"\ncurve = [{curve}]\n{SOFT}"
    )
}

/// More ways of the cache hold more locked pages; the least number that suffices is named.
#[test]
fn more_locked_pages_are_named() {
    let case = Case::new(&large("share = \"even\"\n", 28));
    assert!(!case.plan.schedulable);
    let all = case.repairs();
    let found = all.iter().find(|r| r.change == "core.0.ways").expect("more ways would do");
    assert_eq!(Some(&found.value), by_scan(&case, "core.0.ways").as_ref());
    assert!(
        found.value.parse::<u32>().unwrap() > 3 && found.meaning.ends_with("more locked pages")
    );
    // The plan has them, and the pages in them.
    let text = case.text.with(&format!("core.0.ways={}", found.value)).unwrap();
    let more = Case::of(&text).unwrap().plan;
    assert_eq!(more.cores[0].ways.to_string(), found.value);
    assert!(more.tasks[0].locked_pages.len() > case.plan.tasks[0].locked_pages.len());
    // Optimal shares choose the ways themselves.
    let chosen = Case::new(&large("share = \"optimal\"\n", 11));
    assert!(!chosen.plan.schedulable);
    assert!(chosen.repairs().iter().all(|r| r.change != "core.0.ways"));
}

#[test]
fn explicit_budgets_are_moved_by_the_least_amount() {
    let head = format!(
        "{BOARD}[regulation]\nshare = \"explicit\"\n[[core]]\nid = 0\nbandwidth = \"60 MB/s\"\n"
    );
    let case = Case::new(&format!("{head}{}{SOFT}", task("a", 0, 100, 30_000, 80_000)));
    assert!(!case.plan.schedulable);
    let found = case
        .repairs()
        .into_iter()
        .find(|r| r.change == "core.0.bandwidth")
        .expect("more bandwidth would do");
    assert_eq!(Some(&found.value), by_scan(&case, "core.0.bandwidth").as_ref());
    assert!(found.value.ends_with(" MB/s") && found.meaning.ends_with("on core 0"), "{found:?}");
}

#[test]
fn a_schedulable_plan_has_none_and_a_hopeless_one_says_so() {
    let fine = Case::new(&format!("{BOARD}{}", task("a", 0, 100, 1000, 10)));
    let advice = repair(&fine.text, &fine.system, &fine.demands, &fine.plan, &|| false);
    assert!(advice.repairs.is_empty() && advice.note.is_none());
    let tasks: String = (0..9).map(|i| task(&format!("t{i}"), i % 4, 100, 90_000, 1000)).collect();
    let hopeless = Case::new(&format!("{BOARD}{EVEN}{tasks}"));
    let advice =
        repair(&hopeless.text, &hopeless.system, &hopeless.demands, &hopeless.plan, &|| false);
    assert!(advice.repairs.is_empty(), "{advice:?}");
    assert!(advice.note.is_some_and(|n| n.starts_with("repair: no tried change of a single key")));
}

#[test]
fn a_cut_search_says_so() {
    let case = Case::new(&overloaded());
    let stopped = std::cell::Cell::new(0);
    let stop = || {
        stopped.set(stopped.get() + 1);
        stopped.get() > 5
    };
    let advice = repair(&case.text, &case.system, &case.demands, &case.plan, &stop);
    assert!(advice.note.is_some_and(|n| n.contains("ended after 5 plannings")));
}

/// Optimal shares for many tasks are tried beside the other kinds.
#[test]
fn a_kind_that_takes_long_does_not_keep_the_others_back() {
    let many: String = (0..36).map(|i| task(&format!("m{i}"), 1 + i % 2, 200, 100, 10)).collect();
    let case = Case::new(&format!("{}{many}", overloaded()));
    let repairs = case.repairs();
    for key in ["regulation.share", "task.lo.period"] {
        assert!(repairs.iter().any(|r| r.change == key), "{key} of {repairs:?}");
    }
}

/// Sixteen tasks under the default shares, slightly too much for four cores: changes of three kinds
/// suffice, each by a complete planning.
#[test]
fn optimal_shares_have_changes_that_would_do() {
    let mut kinds = Vec::new();
    for seed in [0u32, 1, 3] {
        let tasks: String = (0..16u32)
            .map(|i| {
                let (period, part) = (20 + (i * 37 + seed * 11) % 90, 11 + (i * 7 + seed * 5) % 12);
                task(&format!("t{i}"), 0, period, period * part * 10, period * part * 8)
                    .replace("core = 0\n", "")
            })
            .collect();
        let case = Case::new(&format!("{BOARD}{tasks}"));
        assert!(!case.plan.schedulable && case.plan.certificate.is_some(), "seed {seed}\n{tasks}");
        let repairs = case.repairs();
        assert!(repairs.len() >= 2, "seed {seed}: {repairs:?}");
        for r in &repairs {
            assert!(case.with(&r.change, &r.value), "seed {seed}: {r:?}");
            kinds.extend(r.change.rsplit('.').next().map(str::to_owned));
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() >= 3, "{kinds:?}");
}

#[test]
fn refusals_are_answers() {
    let case = Case::new(&overloaded());
    let never = || false;
    let mut trials = Trials::new(&case.text, &case.demands, &never);
    assert_eq!(trials.ask("task.lo.core", "7"), Ok(Answer::Refused));
    assert_eq!(trials.ask("regulation.period", "1 s"), Ok(Answer::Misses));
    assert_eq!(trials.ask("task.lo.core", "1"), Ok(Answer::Meets));
    assert_eq!(
        (trials.ask("task.lo.core", "1"), trials.made()),
        (Ok(Answer::Meets), 3),
        "the same again is not a planning"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The verdict of the search is the plan's. Each change suffices, and the value a step nearer
    /// to the file's does not.
    #[test]
    fn every_repair_does_and_a_step_less_does_not(
        tasks in prop::collection::vec((0u32..3, 20u32..120, 2u32..60, 0u32..60), 2..5),
        regulation in prop::sample::select(vec![
            "policy = \"memguard\"", "share = \"even\"", "model = \"sce\"", "policy = \"none\"",
            "share = \"explicit\"\n[[core]]\nid = 3\nbandwidth = \"60 MB/s\"", "policy = \"dynamic\"",
            "policy = \"memguard\"\nperiod = \"300 us\"",
        ]),
    ) {
        let mut text = format!("{BOARD}[regulation]\n{regulation}\n{SOFT}");
        for (i, (core, period, load, misses)) in tasks.iter().enumerate() {
            text += &task(&format!("t{i}"), *core, *period, period * load * 10, period * misses * 10);
        }
        let case = Case::new(&text);
        // Optimal shares of a plan are found by another search.
        let same = case.system.regulation.share() != Share::Optimal;
        let meets = verdict(&case.system, &case.demands).unwrap().meets;
        prop_assert!(!same || meets == case.plan.schedulable);
        let kinds = kinds::of(&case.system, &case.plan);
        for r in case.repairs() {
            prop_assert!(case.with(&r.change, &r.value), "{r:?}\n{text}");
            // Cores may be more or fewer, each in a list of its own.
            let has = |k: &&kinds::Kind| k.key == r.change && (0..k.values.count()).any(|at| k.values.at(at) == r.value);
            let values = &kinds.iter().find(has).expect("it is of a kind").values;
            let at = (0..values.count()).find(|&at| values.at(at) == r.value).unwrap();
            let less = at.checked_sub(1).map(|at| values.at(at));
            prop_assert!(!same || less.is_none_or(|less| !case.with(&r.change, &less)), "{r:?}\n{text}");
        }
    }
}
