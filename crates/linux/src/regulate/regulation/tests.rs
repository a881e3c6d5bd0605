//! Budgets of plans that can be enforced, and refusals of those that cannot.

use super::super::budget::choose_sample;
use super::*;

fn options(name: &str) -> Options {
    Options::of(Event::find(name, "").unwrap())
}

/// A plan with budgets of 200 for all cores; `writes` of core 1's budget are for writes.
fn plan(writes: Option<u64>) -> Plan {
    let mut plan: Plan = serde_json::from_str(include_str!("../../../tests/plan.json")).unwrap();
    for core in &mut plan.cores {
        core.budget_accesses = Some(200);
    }
    plan.cores[1].write_budget_accesses = writes;
    plan.check().unwrap();
    plan
}

fn regulation(plan: &Plan, options: &Options) -> Result<Regulation, LinuxError> {
    let online: Vec<u32> = (0..plan.platform.cores).collect();
    Regulation::new(plan, options, &online)
}

#[test]
fn policies_without_budgets_are_refused() {
    for (policy, why) in [(Policy::None, "nothing to regulate"), (Policy::Maracas, "plan again")] {
        let mut plan = plan(None);
        plan.regulation.policy = policy;
        let refused = check_policy(&plan).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn writes_have_a_part_of_the_budget() {
    let (with, without) = (plan(Some(40)), plan(None));
    if std::env::consts::ARCH != "x86_64" {
        // The plan is for another architecture.
        return;
    }
    let apart = Options {
        write_event: Some(Event::find("minor-faults", "").unwrap()),
        ..options("page-faults")
    };
    let regulated = regulation(&with, &apart).unwrap();
    assert_eq!(regulated.write_event.as_ref().map(Event::name), Some("minor-faults"));
    let writes = regulated.cores[1].writes.unwrap();
    assert_eq!(
        (regulated.cores[1].planned, regulated.cores[1].budget),
        (160, 160),
        "reads have the others"
    );
    assert_eq!((writes.write_planned, writes.write_budget, writes.write_sample), (40, 40, 5));
    let other = regulated.cores[0];
    assert_eq!(
        (other.budget, other.writes.unwrap().write_budget),
        (200, UNLIMITED),
        "counted, not limited"
    );
    // A plan without them is regulated as ever, unless it is asked for.
    let plain = regulation(&without, &apart).unwrap();
    assert!(plain.write_event.is_none() && plain.cores.iter().all(|c| c.writes.is_none()));
    let counted = regulation(&without, &Options { count_writes: true, ..apart.clone() }).unwrap();
    assert!(
        counted
            .cores
            .iter()
            .all(|c| c.budget == 200 && c.writes.unwrap().write_budget == UNLIMITED)
    );
}

#[test]
fn only_cores_without_analysed_tasks_give_budget_away() {
    let mut plan = plan(None);
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let plain = options("page-faults");
    let asked = Options { reclaim: true, sharing: Sharing::Spare, ..plain.clone() };
    // No bound covers these options: every core gives.
    let run = regulation(&plan, &asked).unwrap();
    assert_eq!((run.flags(0), run.flags(1), run.beyond_plan), (2 | 4, 2 | 4, true));
    plan.regulation.reclaim = true;
    plan.regulation.sharing = solocore_model::system::Sharing::Proportional;
    plan.cores[1].gives = true;
    // SC_HARD and SC_RECLAIM, SC_PREDICT and SC_RECLAIM (memguard.h).
    let run = regulation(&plan, &plain).unwrap();
    assert_eq!((run.flags(0), run.flags(1), run.beyond_plan), (1 | 4, 2 | 4, false));
    assert_eq!(run.sharing, Sharing::Proportional);
    let run = regulation(&plan, &asked).unwrap();
    assert_eq!((run.flags(0), run.sharing, run.beyond_plan), (1 | 4, Sharing::Spare, false));
}

#[test]
fn write_budgets_that_cannot_be() {
    let with = plan(Some(40));
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let error = regulation(&with, &options("page-faults")).unwrap_err();
    assert!(
        matches!(&error, LinuxError::Machine(t) if t.contains("--no-write-budgets")),
        "{error}"
    );
    let left_out = Options { write_budgets: false, ..options("page-faults") };
    let regulated = regulation(&with, &left_out).unwrap();
    assert!(regulated.cores[1].budget == 200 && regulated.cores[1].writes.is_none());
    assert!(
        regulated.notes.iter().any(|n| n.contains("--no-write-budgets")),
        "{:?}",
        regulated.notes
    );
    // Hardware needs samples of a hundred.
    let raw =
        Options { write_event: Some(Event::find("r18", "").unwrap()), ..options("page-faults") };
    let error = regulation(&with, &raw).unwrap_err();
    assert!(matches!(&error, LinuxError::Input(t) if t.starts_with("writes: core 1")), "{error}");
    let mut lock = plan(None);
    lock.regulation.policy = Policy::Bwlock;
    lock.regulation.lock_budget_accesses = Some(50);
    let asked = Options { count_writes: true, ..raw };
    assert!(
        matches!(regulation(&lock, &asked), Err(LinuxError::Input(t)) if t.contains("memguard"))
    );
}

/// Fails when the kernel may switch off the counter of a CPU that a lock does not limit yet: a lock
/// then had no effect until the kernel's next tick, 4 ms later at most.
#[test]
fn a_free_cpu_interrupts_as_often_as_memory_allows() {
    let mut lock = plan(None);
    lock.regulation.policy = Policy::Bwlock;
    lock.regulation.lock_budget_accesses = Some(203);
    let regulated = regulation(&lock, &options("r412e")).unwrap();
    let sample = regulated.cores[0].sample;
    assert!((1..=203).contains(&sample), "{sample}");
    // 25 lines a microsecond, as on the virtual board, is well below.
    assert!(regulated.interrupts_per_period() * sample >= 25 * regulated.period_ns / 1000);
    // A software event is not switched off: the ticks decide.
    let software = regulation(&lock, &options("page-faults")).unwrap();
    assert!(software.interrupts_per_period() < 100);
}

/// Fails when a small sample asks the kernel for more interrupts than a CPU can take: beside a
/// lock, or of a budget that no memory can use up.
#[test]
fn no_more_interrupts_are_asked_for_than_a_cpu_can_take() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let of = |planned, sample| {
        let mut lock = plan(None);
        lock.regulation.policy = Policy::Bwlock;
        lock.regulation.lock_budget_accesses = Some(planned);
        regulation(&lock, &Options { sample, ..options("r412e") })
    };
    let most = |r: &Regulation| r.period_ns / 500 + 1;
    let small = of(203, None).unwrap();
    assert!(small.interrupts_per_period() <= most(&small));
    let said = |r: &Regulation| r.notes.iter().any(|n| n.contains("has no time for programs"));
    assert!(said(&small) && !said(&of(2000, None).unwrap()), "{:?}", small.notes);
    let mut large = plan(None);
    large.cores.iter_mut().for_each(|core| core.budget_accesses = Some(4_000_000_000));
    let chosen = Options { sample: Some(100), ..options("r412e") };
    let large = regulation(&large, &chosen).unwrap();
    assert!(large.interrupts_per_period() <= most(&large) && !said(&large));
    for (planned, least) in [(203, 100), (800, 200), (1000, 250), (100_000, 250)] {
        assert!(of(planned, Some(least)).is_ok(), "{planned}");
        let refused = of(planned, Some(least - 1)).unwrap_err();
        let remedy = format!("give {least} or more");
        assert!(matches!(&refused, LinuxError::Input(t) if t.ends_with(&remedy)), "{refused}");
    }
}

#[test]
fn samples_are_about_an_eighth_and_lose_little() {
    for (budget, sample) in
        [(1, 1), (5, 1), (8, 1), (16, 2), (20, 2), (50, 5), (200, 25), (1_000_000, 125_000)]
    {
        assert_eq!(choose_sample(budget), sample, "budget {budget}");
    }
    for budget in 1..20_000 {
        let sample = choose_sample(budget);
        let kept = budget / sample * sample;
        assert!(sample >= 1 && kept <= budget);
        assert!(kept * 16 >= budget * 15, "{budget} becomes {kept}");
        assert!(
            budget < 16 || (sample * 6 <= budget && sample * 16 >= budget),
            "{budget}: {sample}"
        );
    }
}

#[test]
fn a_budget_below_one_sample_is_refused() {
    let error = core_budget(3, 99, &options("r412e")).unwrap_err();
    assert!(
        matches!(&error, LinuxError::Input(t) if t.contains("core 3") && t.contains("below one sample (100)"))
    );
    let mut chosen = options("page-faults");
    chosen.sample = Some(7);
    assert_eq!(core_budget(0, 20, &chosen).unwrap().budget, 14);
    chosen.sample = Some(21);
    assert!(core_budget(0, 20, &chosen).is_err());
    chosen.sample = Some(0);
    assert!(core_budget(0, 20, &chosen).is_err());
}

#[test]
fn a_budget_beyond_what_is_countable_is_no_limit() {
    assert_eq!(core_budget(0, 1 << 40, &options("page-faults")).unwrap().budget, UNLIMITED);
    let of = |bytes_per_s| {
        Regulation::of_program(Some(0), bytes_per_s, 64, &options("page-faults"), &[0]).unwrap()
    };
    assert_eq!(of(u64::MAX).cores[0].budget, UNLIMITED);
    assert_eq!(of(640_000_000).cores[0].planned, 10_000);
    // With a skid no core is stopped before its budget, nor later than the plan bears.
    for (planned, skid) in [(1000, 500), (1000, 400), (14_000, 500), (437, 600), (100_000, 9000)] {
        let b = core_budget(0, planned, &Options { skid, ..options("r412e") }).unwrap();
        assert!(b.budget - b.sample >= planned, "{b:?}");
        assert_eq!(b.budget + b.tolerance, planned + skid, "{b:?}");
    }
    let error = core_budget(0, 1000, &Options { skid: 80, ..options("r412e") }).unwrap_err();
    assert!(matches!(&error, LinuxError::Input(t) if t.contains("skid = 400")), "{error:?}");
}

/// The regulation of a plan with these budgets, in place of one with 200 for each core.
fn replaced(budgets: &[u64], options: &Options) -> Result<Regulation, LinuxError> {
    let mut new = plan(None);
    for (core, &budget) in new.cores.iter_mut().zip(budgets) {
        core.budget_accesses = Some(budget);
    }
    regulation(&plan(None), options)?.replaced_by(&new)
}

#[test]
fn another_plan_gets_the_samples_of_a_start_where_budgets_differ_enough() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let chosen = options("page-faults");
    let old = regulation(&plan(None), &chosen).unwrap().cores[0];
    assert_eq!((old.budget, old.sample), (200, 25));
    let of = |planned| replaced(&[planned], &chosen).unwrap().cores[0];
    for planned in 1..500 {
        let (new, fresh) = (of(planned), core_budget(0, planned, &chosen).unwrap());
        let both = old.sample + fresh.sample;
        if fresh.budget.abs_diff(old.budget) >= both {
            assert_eq!(new, fresh);
        } else {
            assert_eq!((new.sample, new.budget), (old.sample, planned / 25 * 25));
        }
        // About a half was lost just below two of the present samples.
        assert!(new.budget <= planned && new.budget * 5 >= planned * 4, "{new:?}");
    }
    // Cores that take chunks of other budgets keep their samples.
    let reclaims = Options { reclaim: true, ..chosen.clone() };
    let new = replaced(&[430, 100], &reclaims).unwrap();
    assert_eq!([0, 1].map(|cpu| new.cores[cpu].sample), [25, 25]);
    assert_eq!(new.cores[0].budget, 425);
    let refused = replaced(&[49], &reclaims).unwrap_err().to_string();
    assert!(refused.contains("core 0: the present sample of 25 accesses would round"), "{refused}");
    let refused = replaced(&[24], &reclaims).unwrap_err().to_string();
    assert!(refused.contains("below one sample"), "{refused}");
    let refused = replaced(&[u64::MAX], &chosen).unwrap_err().to_string();
    assert!(refused.contains("core 0: a limit of the core comes or goes"), "{refused}");
}

#[test]
fn another_budget_keeps_the_skid() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let skid = Options { skid: 100, ..options("page-faults") };
    assert_eq!(regulation(&plan(None), &skid).unwrap().cores[0].sample, 25);
    for planned in [150, 190, 201, 300, 310, 5000] {
        let new = replaced(&[planned], &skid).unwrap().cores[0];
        assert!(new.budget - new.sample >= planned, "{new:?}");
        assert_eq!(new.budget + new.tolerance, planned + 100, "{new:?}");
    }
}

/// Budgets beside the lock get the samples of a start: no bound rests on the least budget.
#[test]
fn another_budget_beside_the_lock_has_a_sample_of_its_own() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let lock = |budget| {
        let mut lock = plan(None);
        lock.regulation.policy = Policy::Bwlock;
        lock.regulation.lock_budget_accesses = Some(budget);
        lock
    };
    let of = |now| regulation(&lock(now), &options("r412e")).unwrap();
    for (before, after) in
        [(800_000, 700_000), (700_000, 800_000), (900_000, 200_000), (200_000, 900_000)]
    {
        let new = of(before).replaced_by(&lock(after)).unwrap();
        assert_eq!(new.cores, of(after).cores, "{before} {after}");
        assert!(new.dips() && new.cores[0].sample * 2 == after);
    }
    // An engine raises the kernel's limit for a smaller sample as well: it cannot do so later.
    let (large, small) = (of(80_000), of(600));
    assert!(large.interrupts_of_any_plan() >= small.interrupts_per_period());
    assert!(large.interrupts_per_period() < small.interrupts_per_period());
}

#[test]
fn other_dynamic_budgets_are_those_of_a_start_and_the_hard_tasks_stay() {
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let dynamic = |budget, name: &str| {
        let mut plan = plan(None);
        plan.regulation.policy = Policy::Dynamic;
        for core in &mut plan.cores {
            (core.soft, core.budget_accesses) = (core.id == 0, None);
        }
        let video = plan.tasks.iter_mut().find(|t| !t.best_effort()).unwrap();
        video.name = name.to_owned();
        (video.soft_budget, video.soft_budget_length_ns) = (Some(budget), Some(9_000_000));
        plan
    };
    let old = regulation(&dynamic(3000, "video"), &options("page-faults")).unwrap();
    let new = old.replaced_by(&dynamic(1000, "video")).unwrap();
    let fresh = regulation(&dynamic(1000, "video"), &options("page-faults")).unwrap();
    assert_eq!((&new.cores, &new.dynamic), (&fresh.cores, &fresh.dynamic));
    assert_eq!(new.dynamic.unwrap().tasks[0].budget, 1000);
    let refused = old.replaced_by(&dynamic(1000, "camera")).unwrap_err().to_string();
    assert!(refused.contains("other hard tasks"), "{refused}");
}
