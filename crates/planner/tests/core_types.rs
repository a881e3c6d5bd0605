//! Plans for cores of several types: a task has the time of its core, or of the slowest where the
//! plan does not know its core.

mod support;

use solocore_model::plan::waterfall::Cause;
use solocore_model::plan::{Plan, PlanTask};
use solocore_model::platform::{CoreType, L1, Pace};
use solocore_model::profile::{Measured, Origin};
use solocore_model::random::Random;
use solocore_model::system::{Demand as Stated, System};
use solocore_model::units::{Bytes, Frequency};
use solocore_model::{Platform, Profile};
use solocore_planner::{Demand, Patience, plan_until};
use std::path::{Path, PathBuf};
use support::computing;

/// Cycles of a job of the profiled program: 10 ms on a slow core, 5 ms on a fast one.
const CYCLES: u64 = 33_000_000;

fn kind(name: &str, cores: [u32; 2], frequency: Frequency) -> CoreType {
    CoreType::of_clock(name, cores.to_vec(), frequency)
}

/// A plan on a changed platform, with a profile for it.
fn planned_for(
    text: &str,
    change: impl FnOnce(&mut Platform),
    profile: impl Fn(&Platform) -> Profile,
) -> Plan {
    let mut system = System::parse(Path::new("system.toml"), text).unwrap();
    change(&mut system.platform);
    system.platform.check().unwrap();
    let demand = |stated: &Stated| match stated {
        Stated::Command(_) => Demand::Profiled {
            path: PathBuf::from("a.json"),
            profile: Box::new(profile(&system.platform)),
        },
        stated => Demand::stated(stated).unwrap(),
    };
    let demands: Vec<Demand> = system.tasks.iter().map(|t| demand(&t.demand)).collect();
    let patience = Patience { stop: &|| false, share: &|_| {}, endless: false, prices: None };
    let plan = plan_until(&system, &demands, patience).unwrap();
    plan.check().unwrap();
    plan
}

/// A plan for cores 0 and 1 that are slow, and 2 and 3 that are fast. `command = ["profile"]`
/// stands for the program.
fn planned(text: &str, types: bool, endless: bool) -> Plan {
    planned_on(text, types.then_some([[0, 1], [2, 3]]), endless)
}

/// The same for these slow and fast cores.
fn planned_on(text: &str, types: Option<[[u32; 2]; 2]>, endless: bool) -> Plan {
    let mut system =
        System::parse(Path::new("system.toml"), text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    if let Some([little, big]) = types {
        let slow = system.platform.frequency;
        let big = kind("big", big, Frequency(2 * slow.0));
        system.platform.core_types = vec![big, kind("little", little, slow)];
        system.platform.check().unwrap();
    }
    let demand = |stated: &Stated| match stated {
        Stated::Command(_) => Demand::Profiled {
            path: PathBuf::from("a.json"),
            profile: Box::new(computing(CYCLES, &system.platform)),
        },
        stated => Demand::stated(stated).unwrap(),
    };
    let demands: Vec<Demand> = system.tasks.iter().map(|t| demand(&t.demand)).collect();
    let patience = Patience { stop: &|| false, share: &|_| {}, endless, prices: None };
    let plan = plan_until(&system, &demands, patience).unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan.check().unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan
}

fn plan(text: &str) -> Plan {
    planned(text, true, false)
}

/// A system of the i5-2500K with these keys of `[regulation]`.
fn system(regulation: &str, tasks: &str) -> String {
    format!(
        "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"memguard\"\n{regulation}\n{tasks}"
    )
}

/// A task of the program, with further keys.
fn task(name: &str, period: &str, keys: &str) -> String {
    format!("[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\ncommand = [\"profile\"]\n{keys}\n")
}

const SHARES: [&str; 2] = ["share = \"even\"", "share = \"optimal\""];

#[test]
fn a_task_has_the_time_of_its_core() {
    for share in SHARES {
        let tasks = task("slow", "90 ms", "core = 0") + &task("fast", "90 ms", "core = 3");
        let plan = plan(&system(share, &tasks));
        assert!(plan.schedulable, "{share}");
        assert_eq!(plan.tasks[0].wcet_ns, 10_000_000, "{share}");
        assert_eq!(plan.tasks[1].wcet_ns, 5_000_000, "{share}");
        for task in &plan.tasks {
            let all: i64 = task.waterfall.iter().map(|term| term.ns).sum();
            assert_eq!(u64::try_from(all).ok(), task.wcrt_ns, "{share}: {task:?}");
            assert!(task.wcrt_ns.unwrap() >= task.wcet_ns);
            let first = u64::try_from(task.waterfall[0].ns).unwrap();
            assert_eq!(first, task.wcet_ns, "the time alone is that of its core");
        }
    }
}

/// No core is fast enough by the time of another one.
#[test]
fn a_deadline_that_only_a_fast_core_meets_is_not_met_on_a_slow_one() {
    for share in SHARES {
        let on_slow = plan(&system(share, &task("a", "9 ms", "core = 1")));
        assert!(!on_slow.schedulable, "{share}");
        assert_eq!(on_slow.tasks[0].wcet_ns, 10_000_000);
        let free = plan(&system(share, &task("a", "9 ms", "")));
        assert!(free.schedulable, "{share}: {:?}", free.reasons);
        assert!(free.tasks[0].core >= 2, "{share}");
        // Two such tasks have a fast core each; the third has none.
        let two = task("a", "9 ms", "") + &task("b", "9 ms", "");
        let both = plan(&system(share, &two));
        assert!(both.schedulable, "{share}: {:?}", both.reasons);
        let three = two + &task("c", "9 ms", "");
        assert!(!plan(&system(share, &three)).schedulable, "{share}");
    }
}

/// Each number of the plan is the one that the response of its core has.
#[test]
fn every_task_that_meets_its_deadline_has_the_time_of_its_core() {
    let tasks: String =
        (0..9).map(|i| task(&format!("t{i}"), &format!("{} ms", 30 + 7 * i), "")).collect();
    for share in SHARES {
        let plan = plan(&system(share, &tasks));
        let clock = |t: &PlanTask| plan.platform.clock_of(t.core);
        for task in &plan.tasks {
            let time = clock(task).cycles_to_ps(CYCLES).div_ceil(1000);
            assert_eq!(task.wcet_ns, time, "{share}: {} on core {}", task.name, task.core);
        }
        assert!(plan.tasks.iter().any(|t| clock(t) > plan.platform.frequency), "{share}");
    }
}

#[test]
fn a_stated_time_is_as_stated_on_every_core() {
    for core in [0, 3] {
        let stated = format!(
            "[[task]]\nname = \"a\"\ncore = {core}\nperiod = \"90 ms\"\nwcet = \"10 ms\"\nmisses = 5\n"
        );
        let plan = plan(&system("share = \"even\"", &stated));
        assert_eq!(plan.tasks[0].wcet_ns, 10_000_000);
        assert!(plan.tasks[0].assumes.iter().any(|a| a.contains("holds on each core")));
    }
}

/// Cores that differ are not covered by the proof, and the gap counts with the fastest core.
#[test]
fn nothing_is_proved_of_cores_that_differ() {
    let text = system(
        "share = \"optimal\"\nobjective = \"margin\"\nactive_cores = 4",
        &(task("a", "40 ms", "") + &task("b", "50 ms", "")),
    );
    let certificate = |types: bool| planned(&text, types, true).certificate.unwrap();
    assert!(certificate(false).proof.is_some());
    let with = certificate(true);
    assert!(with.proof.is_none());
    assert!((0.0..1.0).contains(&with.gap), "{}", with.gap);
}

/// A slow core would have more work than time. The short deadline needs a core beside which no
/// other is active.
#[test]
fn one_fast_core_is_tried_for_tasks_that_fill_a_slow_one() {
    let tasks =
        "[[task]]\nname = \"a\"\nperiod = \"8 ms\"\ndeadline = \"1.16 ms\"\nwcet = \"100 us\"\n\
        misses = 1000\n"
            .to_owned()
            + &task("c", "10 ms", "")
            + "[[task]]\nname = \"b\"\ncriticality = \"D\"\nwcet = \"1 ms\"\nmisses = 10000\n";
    let plan = planned_on(&system(SHARES[1], &tasks), Some([[2, 3], [0, 1]]), false);
    assert_eq!((plan.schedulable, plan.regulation.active_cores), (true, 1), "{:?}", plan.reasons);
}

/// Instructions of a job; a multiple of the parts, so that no cycle is rounded.
const INSTRUCTIONS: u64 = 35_000 * Pace::PARTS;

/// A job of these instructions at the least cpi, with a million cycles in the second level.
fn counting(p: &Platform) -> Profile {
    let cycles = (INSTRUCTIONS * Pace::parts(p.least_cpi())).div_ceil(Pace::PARTS) + 1_000_000;
    Profile { instructions: INSTRUCTIONS, ..computing(cycles, p) }
}

/// Breaks when a plan asks whether there are types, and not whether cores differ.
#[test]
fn a_type_with_the_platforms_own_numbers_changes_no_byte() {
    let tasks = task("a", "40 ms", "core = 1") + &task("b", "50 ms", "") + &task("c", "60 ms", "");
    let vcpu = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"maracas\"\n[[vcpu]]\nname = \
        \"v\"\ncore = 2\ncapacity = \"10 ms\"\nperiod = \"20 ms\"\ntasks = [\"a\"]\n";
    let levels =
        format!("platform = \"imx6q\"\n[levels]\n{}", task("a", "90 ms", "criticality = \"C\""));
    let vcpu = format!("{vcpu}{}", task("a", "90 ms", ""));
    let shares = SHARES.map(|share| system(share, &tasks));
    for text in shares.iter().chain([&vcpu, &levels]) {
        let own = |p: &mut Platform| {
            let mut kind = CoreType::of_clock("all", (0..p.cores).collect(), p.frequency);
            (kind.cpi, kind.pipeline) = (Some(p.cpi), Some(p.pipeline));
            (kind.l1i, kind.l1d, kind.l2) =
                (Some(p.l1i.clone()), Some(p.l1d.clone()), p.l2.clone());
            p.core_types = vec![kind];
        };
        let without = planned_for(text, |_| {}, counting);
        let mut with = planned_for(text, own, counting);
        assert_eq!(std::mem::take(&mut with.platform.core_types).len(), 1);
        let json = |plan: &Plan| serde_json::to_string(plan).unwrap();
        assert_eq!(json(&with), json(&without), "{text}");
    }
}

/// Breaks when a time is computed with the least cpi, or with that of another type.
#[test]
fn more_cycles_per_instruction_lower_no_bound() {
    let tasks = task("slow", "90 ms", "core = 0") + &task("fast", "90 ms", "core = 3");
    let text = system("share = \"even\"", &tasks);
    let plan = |cpis: [f64; 2]| {
        let typed = |p: &mut Platform| {
            let mut kinds = [("a", vec![0, 1]), ("b", vec![2, 3])]
                .map(|(name, cores)| CoreType::of_clock(name, cores, p.frequency));
            kinds.iter_mut().zip(cpis).for_each(|(kind, cpi)| kind.cpi = Some(cpi));
            p.core_types = kinds.to_vec();
        };
        planned_for(&text, typed, counting)
    };
    let mut random = Random::new(11);
    let mut draw = || (30 + random.below(200)) as f64 / 100.0;
    for _ in 0..40 {
        let few = [draw(), draw()];
        let many = [few[0] + draw(), few[1]];
        let (less, more) = (plan(few), plan(many));
        for (less, more) in less.tasks.iter().zip(&more.tasks) {
            assert!(less.wcet_ns <= more.wcet_ns && less.c_sce_ns <= more.c_sce_ns, "{few:?}");
            assert!(less.wcrt_ns <= more.wcrt_ns, "{few:?} {many:?}");
        }
        for (at, task) in less.tasks.iter().enumerate() {
            let cycles = INSTRUCTIONS * Pace::parts(few[at]) / Pace::PARTS + 1_000_000;
            let ns = less.platform.frequency.cycles_to_ps(cycles) / 1000;
            assert!((ns..ns + 3).contains(&task.wcet_ns), "{few:?}: {ns} and {task:?}");
        }
        let alike = less.tasks[1].wcet_ns.abs_diff(more.tasks[1].wcet_ns);
        assert!(alike <= 1, "the other type's cpi is no matter: {few:?} {many:?}");
    }
}

/// A job of level C may meet the caches of both types in turn. Breaks when the second count is told
/// as latency or as ways: a job of `counting` has no accesses.
#[test]
fn a_job_that_moves_between_caches_is_counted_behind_each() {
    let text =
        format!("platform = \"imx6q\"\n[levels]\n{}", task("a", "900 ms", "criticality = \"C\""));
    let task = |ways: u32| {
        let typed = |p: &mut Platform| {
            let mut kinds = [("a", vec![0, 1]), ("b", vec![2, 3])]
                .map(|(name, cores)| CoreType::of_clock(name, cores, p.frequency));
            let size = Bytes(p.l1d.size.0 / u64::from(p.l1d.ways) * u64::from(ways));
            kinds[1].l1d = Some(L1 { size, ways });
            p.core_types = kinds.to_vec();
        };
        planned_for(&text, typed, counting).tasks.remove(0)
    };
    let own = Platform::find("imx6q", Path::new(".")).unwrap().l1d.ways;
    let (one, two) = (task(own), task(2 * own));
    assert!(two.wcet_ns >= 2 * one.wcet_ns - 1);
    let ns = |task: &PlanTask, cause| {
        task.waterfall.iter().find(|term| term.term == cause).map(|term| term.ns)
    };
    assert_eq!((ns(&one, Cause::Moves), ns(&two, Cause::Alone)), (None, ns(&one, Cause::Alone)));
    let (alone, moves) = (ns(&two, Cause::Alone).unwrap(), ns(&two, Cause::Moves).unwrap());
    assert!((moves - alone).abs() <= 1, "{two:?}");
    assert_eq!((ns(&two, Cause::Cache), ns(&two, Cause::Latency)), (Some(0), Some(0)));
}

/// A VCPU has a core. Levels move tasks of level C, and plan all with the slowest core.
#[test]
fn vcpus_have_the_time_of_their_core_and_levels_that_of_the_slowest() {
    let vcpu = "platform = \"core-i5-2500k\"\n[regulation]\npolicy = \"maracas\"\n[[vcpu]]\nname = \
        \"v\"\ncore = 2\ncapacity = \"10 ms\"\nperiod = \"20 ms\"\ntasks = [\"a\"]\n";
    let on_vcpu = plan(&format!("{vcpu}{}", task("a", "90 ms", "")));
    assert_eq!((on_vcpu.tasks[0].core, on_vcpu.tasks[0].wcet_ns), (2, 5_000_000));
    let levels = "platform = \"imx6q\"\n[levels]\n";
    let text = format!("{levels}{}", task("a", "90 ms", "core = 2\ncriticality = \"B\""));
    let time = |types: bool| planned(&text, types, false).tasks[0].wcet_ns;
    assert_eq!(time(true), time(false));
    assert!(time(true) >= Frequency(800_000_000).cycles_to_ps(CYCLES) / 1000);
}

/// Breaks when a time of one type is charged on another, whose clock may be lower: types with equal
/// caches share the geometry of profiles.
#[test]
fn a_profile_measured_on_one_type_is_refused_on_another() {
    let mut p = Platform::find("core-i5-2500k", Path::new(".")).unwrap();
    let fast = Frequency(2 * p.frequency.0);
    p.core_types = vec![kind("little", [0, 1], p.frequency), kind("big", [2, 3], fast)];
    let measured = Measured { core_type: Some("big".to_owned()), ..Measured::default() };
    let origin = Origin { measured: Some(measured), ..Origin::default() };
    let text = serde_json::to_string(&Profile { origin, ..computing(CYCLES, &p) }).unwrap();
    let read = |core| Demand::of_text(Path::new("p.json"), &text, &p, core);
    for (core, fits) in [(Some(2), true), (Some(3), true), (Some(0), false), (None, false)] {
        match read(core) {
            Ok(_) => assert!(fits, "{core:?}"),
            Err(e) => assert!(!fits && e.to_string().contains("core_type `big`"), "{core:?}: {e}"),
        }
    }
}
