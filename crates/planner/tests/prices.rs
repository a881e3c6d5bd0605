//! Prices of the choices of optimal shares. Those of cores are compared with plans in which each
//! task has its stated core, and those of budgets with the judge of shares that others chose.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use solocore_model::plan::{Choice, Plan};
use solocore_model::system::{System, SystemTask};
use solocore_planner::{Allotment, Demand, Patience, judge, plan_until};
use std::path::Path;

/// Tasks of several sizes with curves, and best effort; `cores` are stated where they are given.
fn text(seed: u64, cores: &[Option<u32>]) -> String {
    with(seed, cores, "", 2)
}

/// The same with further keys of the regulation, and this number of best-effort programs.
fn with(seed: u64, cores: &[Option<u32>], keys: &str, programs: usize) -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut out = format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\nshare = \"optimal\"\n{keys}\n"
    );
    let stated = |at: usize| {
        let core = cores.get(at).copied().flatten();
        core.map_or_else(String::new, |core| format!("core = {core}\n"))
    };
    for i in 0..5 {
        let period = rng.random_range(10..100u64);
        let work = period as f64 * f64::from(rng.random_range(2..14u32)) / 100.0;
        let (pages, misses) =
            (rng.random_range(20..400u64), work * f64::from(rng.random_range(300..3000u32)));
        let point = |k: u64| {
            let misses = (misses * (pages - k) as f64 / pages as f64) as u64;
            format!("{{ wcet = \"{:.6} ms\", misses = {misses} }}", work + misses as f64 * 2e-4)
        };
        let curve = (0..=pages).map(point).collect::<Vec<_>>().join(", ");
        out += &format!(
            "[[task]]\nname = \"t{i}\"\nperiod = \"{period} ms\"\n{}curve = [{curve}]\n",
            stated(i)
        );
    }
    for i in 0..programs {
        let misses = rng.random_range(20_000..100_000u32);
        out += &format!(
            "[[task]]\nname = \"d{i}\"\ncriticality = \"D\"\n{}wcet = \"20 ms\"\nmisses = {misses}\n",
            stated(5 + i)
        );
    }
    out
}

fn parsed(text: &str) -> (System, Vec<Demand>) {
    let system = System::parse(Path::new("system.toml"), text).expect("a system");
    let demand = |t: &SystemTask| Demand::stated(&t.demand).expect("no profiles in these tests");
    let demands = system.tasks.iter().map(demand).collect();
    (system, demands)
}

const GOES_ON: fn() -> bool = || false;

fn plan(text: &str, prices: bool) -> Plan {
    let (system, demands) = parsed(text);
    let patience = Patience {
        stop: &|| false,
        share: &|_| {},
        endless: false,
        prices: prices.then_some(&GOES_ON),
    };
    plan_until(&system, &demands, patience).expect("shares can be had")
}

/// The number before "% of the speed alone".
fn percent(words: &str) -> Option<f64> {
    words.split(" % of the speed alone").next()?.rsplit(' ').next()?.parse().ok()
}

fn names(plan: &Plan, core: u32, but: &str) -> String {
    let on = plan.tasks.iter().filter(|t| t.core == core && t.name != but);
    on.map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// A plan with every task on its core, but for this one on another, is at least as fast as the
/// price says: it shares the ways out again.
fn check_core(seed: u64, plan: &Plan, at: usize, choice: &Choice) -> Option<f64> {
    let task = &plan.tasks[at];
    assert_eq!((&choice.of, &choice.chosen), (&task.name, &format!("core {}", task.core)));
    let with = names(plan, task.core, &task.name);
    assert_eq!(
        choice.why,
        if with.is_empty() { "alone".to_owned() } else { format!("with {with}") }
    );
    let to = choice.next_best.strip_prefix("core ").and_then(|rest| rest.split(' ').next());
    let to: u32 = to.and_then(|core| core.parse().ok()).expect("a core");
    assert_ne!(to, task.core);
    let beside = names(plan, to, &task.name);
    let beside = if beside.is_empty() { "empty now" } else { &beside };
    assert!(choice.next_best.starts_with(&format!("core {to} ({beside}): ")), "{choice:?}");
    let price = percent(&choice.next_best);
    let cores: Vec<_> = plan.tasks.iter().map(|t| Some(t.core)).collect();
    let moved = |core| {
        let mut cores = cores.clone();
        cores[at] = Some(core);
        let plan = self::plan(&text(seed, &cores), false);
        percent(&plan.reasons[0]).filter(|_| plan.schedulable)
    };
    if let Some(price) = price {
        let there = moved(to).expect("it meets its deadlines");
        assert!(there >= price - 0.15, "seed {seed}: {there} on core {to}, {choice:?}");
    }
    price
}

/// A budget of which the price says that a task misses its deadline is refused by the judge of
/// shares that others chose, and no other.
fn check_budget(text: &str, plan: &Plan, core: usize, choice: &Choice) -> [bool; 2] {
    let budgets: Vec<u64> =
        plan.cores.iter().map(|c| c.budget_accesses.expect("a budget")).collect();
    assert_eq!(choice.of, format!("budget of core {core}"));
    assert_eq!(choice.chosen, format!("{} accesses a period", budgets[core]));
    let (system, demands) = parsed(text);
    let meets = |budget: u64| {
        let mut budgets = budgets.clone();
        budgets[core] = budget;
        let allotment = Allotment {
            placement: plan.tasks.iter().map(|t| t.core).collect(),
            ways: plan.cores.iter().map(|c| c.ways).collect(),
            budgets,
            pages: Some(plan.tasks.iter().map(|t| t.locked_pages.len()).collect()),
        };
        judge(&system, &demands, |judge| judge.meets(&allotment).expect("it fits")).expect("judged")
    };
    let step = (budgets[core] / 20).max(1);
    let mut seen = [false; 2];
    for words in choice.next_best.split("; ") {
        let (less, words) = (words.starts_with("5 % less: "), words.split(": ").nth(1));
        let changed = if less { budgets[core] - step } else { budgets[core] + step };
        let misses = words.is_some_and(|words| words.contains("would miss its deadline"));
        assert_eq!(meets(changed), !misses, "{changed}: {choice:?} of\n{text}");
        seen[usize::from(misses)] = true;
    }
    seen
}

/// With the pages that the price says, the judge of shares that others chose finds every deadline
/// met, unless the price says that one is missed.
fn check_pages(text: &str, plan: &Plan, choice: &Choice) -> Option<f64> {
    let at = |name: &str| plan.tasks.iter().position(|t| t.name == name).expect("a task");
    let from = at(choice.of.strip_prefix("locked pages of ").expect("pages"));
    let mut pages: Vec<usize> = plan.tasks.iter().map(|t| t.locked_pages.len()).collect();
    assert_eq!(choice.chosen, pages[from].to_string());
    let step = (pages[from] / 20).max(1);
    assert!(choice.next_best.starts_with(&format!("{step} fewer")), "{choice:?}");
    pages[from] -= step;
    if let Some(name) =
        choice.next_best.split('`').nth(1).filter(|_| choice.next_best.contains("for `"))
    {
        let to = at(name);
        assert_eq!(plan.tasks[to].core, plan.tasks[from].core);
        pages[to] += step;
    }
    let (system, demands) = parsed(text);
    let allotment = Allotment {
        placement: plan.tasks.iter().map(|t| t.core).collect(),
        ways: plan.cores.iter().map(|c| c.ways).collect(),
        budgets: plan.cores.iter().map(|c| c.budget_accesses.expect("a budget")).collect(),
        pages: Some(pages),
    };
    let meets = judge(&system, &demands, |judge| judge.meets(&allotment).expect("it fits"));
    let price = percent(&choice.next_best);
    assert!(price.is_none() || meets.expect("judged"), "{choice:?}");
    price
}

/// The plan for one active core less, which the file then states, is about as good as the price.
fn check_active(seed: u64, programs: usize) -> Option<[f64; 2]> {
    let plan = plan(&with(seed, &[], "", programs), true);
    let choice = plan.choices.last()?;
    let cores = plan.cores.len();
    assert_eq!((choice.of.as_str(), &choice.chosen), ("active cores", &cores.to_string()));
    let less = cores - 1;
    let keys = format!("active_cores = {less}");
    let stated = self::plan(&with(seed, &[], &keys, programs), false);
    let price = percent(choice.next_best.strip_prefix(&format!("{less}: ")).expect("one less"));
    assert_eq!(price.is_some(), stated.schedulable, "{choice:?}");
    let there = percent(&stated.reasons[0]).filter(|_| stated.schedulable)?;
    assert!((there - price?).abs() < 2.0, "{there} {choice:?}");
    Some([percent(&plan.reasons[0])?, price?])
}

/// Programs that share fewer cores have less time; the price says so.
#[test]
fn a_core_less_has_its_price() {
    let (mut dearer, mut priced) = (0, 0);
    for [own, less] in (0..10).filter_map(|seed| check_active(seed, 4)) {
        dearer += u32::from(less < own - 1.0);
        priced += 1;
    }
    assert!(priced > 4 && dearer > 3, "{dearer} of {priced}");
    // Where all tasks have stated cores, there is no other number.
    let cores: Vec<Option<u32>> = (0..7).map(|at| Some(at % 4)).collect();
    let plan = plan(&text(0, &cores), true);
    assert!(!plan.choices.is_empty() && plan.choices.iter().all(|c| c.of != "active cores"));
}

#[test]
fn prices_are_those_of_the_changed_choice() {
    let (mut priced, mut dearer, mut late, mut seen, mut plans) = (0, 0, 0, [false; 2], 0);
    let mut pages = 0;
    for seed in 0..12 {
        let text = text(seed, &[]);
        let plan = plan(&text, true);
        if !plan.schedulable {
            assert!(plan.choices.is_empty());
            continue;
        }
        plans += 1;
        let value = percent(&plan.reasons[0]).expect("a value");
        let (tasks, cores) = (plan.tasks.len(), plan.cores.len());
        let locked = plan.tasks.iter().filter(|t| !t.locked_pages.is_empty()).count();
        assert_eq!(plan.choices.len(), tasks + 2 * cores + locked + 1);
        for (at, choice) in plan.choices[..tasks].iter().enumerate() {
            match check_core(seed, &plan, at, choice) {
                Some(price) => {
                    priced += 1;
                    dearer += u32::from(price < value - 0.5);
                }
                None => late += 1,
            }
        }
        for (core, choice) in plan.choices[tasks..tasks + cores].iter().enumerate() {
            assert_eq!(choice.of, format!("ways of core {core}"));
            assert_eq!(choice.chosen, plan.cores[core].ways.to_string());
        }
        let (rest, last) = plan.choices[tasks + cores..].split_at(locked + cores);
        for choice in &rest[..locked] {
            pages += u32::from(check_pages(&text, &plan, choice).is_some());
        }
        assert_eq!(last[0].of, "active cores");
        for (core, choice) in rest[locked..].iter().enumerate() {
            let found = check_budget(&text, &plan, core, choice);
            seen = [seen[0] || found[0], seen[1] || found[1]];
        }
        for choice in &plan.choices {
            assert!(plan.reasons.contains(&choice.line()));
        }
    }
    let all = format!("{plans} {priced} {dearer} {late} {seen:?} {pages}");
    assert!(pages > 5, "{all}");
    assert!(plans > 5 && priced > 2 * late && dearer > 10 && seen == [true; 2], "{all}");
}

/// Other objectives, a wanted slowdown, and systems whose jobs are all known.
#[test]
fn prices_of_budgets_hold_for_each_objective() {
    let keys = ["objective = \"margin\"", "objective = \"bounds\"", "slowdown = 1.8"];
    let mut seen = [false; 2];
    let mut slow = 0;
    for (keys, programs) in keys.into_iter().flat_map(|keys| [(keys, 2), (keys, 0)]) {
        let mut plans = 0;
        for seed in 0..8 {
            let text = with(seed, &[], keys, programs);
            let plan = plan(&text, true);
            plans += u32::from(!plan.choices.is_empty());
            let budgets = plan.choices.iter().filter(|c| c.of.starts_with("budget"));
            for (core, choice) in budgets.enumerate() {
                let found = check_budget(&text, &plan, core, choice);
                seen = [seen[0] || found[0], seen[1] || found[1]];
                slow += u32::from(choice.next_best.contains("would miss the wanted slowdown"));
            }
        }
        assert!(plans > 3, "{keys}, {programs} programs: {plans}");
    }
    assert!(seen[0] && slow > 0, "{seen:?} {slow}");
}

/// Above 64 tasks the plan says that there are none; with all of them ended, it has none.
#[test]
fn many_tasks_have_no_prices() {
    let many = (0..65).map(|i| {
        format!("[[task]]\nname = \"t{i}\"\nperiod = \"100 ms\"\nwcet = \"1 ms\"\nmisses = 10\n")
    });
    let head = "platform = \"core-i5-2500k\"\n[regulation]\nshare = \"optimal\"\n";
    let text = head.to_owned() + &many.collect::<String>();
    let plan = plan(&text, true);
    assert!(plan.schedulable && plan.choices.is_empty());
    assert!(plan.reasons.iter().any(|r| r.starts_with("prices: the system has 65 tasks")));
}

/// They are no part of a plan that was not asked for them, and nothing else differs.
#[test]
fn a_plan_with_prices_is_the_same_plan() {
    let text = text(1, &[]);
    let (plain, mut priced) = (plan(&text, false), plan(&text, true));
    assert!(plain.choices.is_empty() && !priced.choices.is_empty());
    let lines: Vec<String> = priced.choices.iter().map(Choice::line).collect();
    priced.reasons.retain(|reason| !lines.contains(reason));
    priced.choices.clear();
    assert!(plain == priced);
}
