//! Sensitivity: at the value found the test passes, at the next it fails, and a scan over all values agrees.

use proptest::prelude::*;
use solocore_analysis::sensitivity::{
    Edge, RegulatedCore, fixed_priority, largest_passing, least_passing, scale_edge, wcet_edge, wcet_slacks,
};
use solocore_analysis::{Regulation, SporadicTask, Task};

fn seeded(cases: u32, seed: u64) -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(seed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// EDF on one core by its definition: demand in every interval that ends at a deadline of a synchronous busy period.
fn edf(tasks: &[SporadicTask]) -> bool {
    if tasks.iter().map(|t| t.wcet as f64 / t.period as f64).sum::<f64>() > 1.0 + 1e-12 {
        return false;
    }
    let horizon = 2 * tasks.iter().fold(1, |all, t| all * t.period / gcd(all, t.period)) + 50;
    (1..=horizon).all(|end| {
        let jobs = |t: &SporadicTask| (end + t.period).checked_sub(t.deadline).map_or(0, |span| span / t.period);
        tasks.iter().map(|t| jobs(t) * t.wcet).sum::<u64>() <= end
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn sets() -> impl Strategy<Value = Vec<SporadicTask>> {
    let task = (1u64..9, prop::sample::select(vec![4u64, 5, 6, 8, 10, 12]), 0u64..12);
    let task = task.prop_map(|(wcet, period, later)| SporadicTask {
        wcet: wcet.min(period),
        period,
        deadline: (period + later).saturating_sub(4).max(1),
    });
    prop::collection::vec(task, 1..4)
}

fn cores() -> impl Strategy<Value = RegulatedCore> {
    let task = (1u64..30, 0u64..8, 20u64..200, 0u64..3).prop_map(|(wcet_ps, misses, period_ps, preemption_ps)| Task {
        wcet_ps,
        misses,
        period_ps,
        deadline_ps: period_ps,
        preemption_ps,
    });
    let regulation = (10u64..60, 1u64..5, 1u32..5).prop_map(|(period_ps, latency_ps, cores)| Regulation {
        period_ps,
        latency_ps,
        cores,
    });
    (prop::collection::vec(task, 1..4), regulation, 1u64..12).prop_map(|(tasks, regulation, budget)| RegulatedCore {
        tasks,
        regulation,
        budget,
    })
}

/// The largest of `values` up to which all pass; and no value passes after one has failed.
fn scan(values: impl Iterator<Item = u64>, mut passes: impl FnMut(u64) -> bool) -> Option<u64> {
    let (mut last, mut failed) = (None, false);
    for value in values {
        let passed = passes(value);
        assert!(!(passed && failed), "not monotone at {value}");
        failed |= !passed;
        last = if passed { Some(value) } else { last };
    }
    last
}

fn exact(edge: &Edge, passes: impl Fn(u64) -> bool) {
    assert!(edge.passes.is_none_or(&passes), "{edge:?}");
    assert!(edge.fails.is_none_or(|value| !passes(value)), "{edge:?}");
    if let (Some(passing), Some(failing)) = (edge.passes, edge.fails) {
        assert_eq!(passing.abs_diff(failing), 1);
    }
}

fn with_wcet(tasks: &[SporadicTask], i: usize, wcet: u64) -> Vec<SporadicTask> {
    let mut tasks = tasks.to_vec();
    tasks[i].wcet = wcet;
    tasks
}

proptest! {
    #![proptest_config(seeded(200, 6))]

    #[test]
    fn searches_find_every_edge(low in 0u64..50, length in 0u64..50, near in 0u64..120, at in 0u64..120) {
        let high = low + length;
        let found = largest_passing(low, high, near, |x| x <= at);
        prop_assert_eq!(found.passes, (low <= at).then_some(at.min(high)));
        prop_assert_eq!(found.fails, (at < high).then_some((at + 1).max(low)));
        let found = least_passing(low, high, near, |x| x >= at);
        prop_assert_eq!(found.passes, (high >= at).then_some(at.max(low)));
        prop_assert_eq!(found.fails, (at > low).then_some((at.saturating_sub(1)).min(high)));
    }

    #[test]
    fn wcets_of_plain_sets_agree_with_a_scan(tasks in sets()) {
        for test in [fixed_priority as fn(&[SporadicTask]) -> bool, edf] {
            for (i, task) in tasks.iter().enumerate() {
                let edge = wcet_edge(&tasks, i, test).unwrap();
                prop_assert_eq!(edge.passes, scan(1..=task.period, |c| test(&with_wcet(&tasks, i, c))));
                exact(&edge, |c| test(&with_wcet(&tasks, i, c)));
            }
        }
    }

    #[test]
    fn factors_agree_with_a_scan(tasks in sets(), resolution in 1u64..20) {
        for test in [fixed_priority as fn(&[SporadicTask]) -> bool, edf] {
            let edge = scale_edge(&tasks, resolution, test).unwrap();
            let by = |k: u64| -> Vec<SporadicTask> {
                tasks.iter().map(|t| SporadicTask { wcet: (t.wcet * k).div_ceil(resolution), ..*t }).collect()
            };
            let possible = |k: u64| by(k).iter().all(|t| t.wcet <= t.period);
            prop_assert_eq!(edge.passes, scan(1..=13 * resolution, |k| possible(k) && test(&by(k))));
            exact(&edge, |k| possible(k) && test(&by(k)));
        }
    }

    #[test]
    fn regulated_cores_agree_with_a_scan(core in cores(), resolution in 1u64..9) {
        for i in 0..core.tasks.len() {
            let varied = |set: &dyn Fn(&mut RegulatedCore)| {
                let mut core = core.clone();
                set(&mut core);
                core.schedulable()
            };
            let wcet = |c: u64| varied(&|core| core.tasks[i].wcet_ps = c);
            let edge = core.wcet_edge(i).unwrap();
            prop_assert_eq!(edge.passes, scan(0..=core.tasks[i].deadline_ps, wcet));
            exact(&edge, wcet);
            let misses = |n: u64| varied(&|core| core.tasks[i].misses = n);
            let edge = core.misses_edge(i).unwrap();
            exact(&edge, misses);
            prop_assert_eq!(edge.passes.map(|n| n.min(300)), scan(0..=300, misses));
            let budget = |q: u64| varied(&|core| core.budget = q);
            let edge = core.budget_edge();
            exact(&edge, budget);
            let high = core.budget.max(core.regulation.period_ps / core.regulation.latency_ps);
            prop_assert_eq!(edge.passes, scan((0..=high).rev(), budget));
            let share = |m: u64| varied(&|core| core.regulation.cores = u32::try_from(m).unwrap());
            let edge = core.cores_edge();
            exact(&edge, share);
            prop_assert_eq!(edge.passes.map(|m| m.min(20)), scan(1..=20, share));
        }
        let scaled = |field: fn(&mut Task) -> &mut u64, k: u64| {
            let mut core = core.clone();
            let fits = core.tasks.iter_mut().all(|task| {
                let value = field(task);
                let scaled = (u128::from(*value) * u128::from(k)).div_ceil(u128::from(resolution));
                u64::try_from(scaled).map(|scaled| *value = scaled).is_ok()
            });
            fits && core.schedulable()
        };
        let wcets = |k: u64| scaled(|task| &mut task.wcet_ps, k);
        let edge = core.wcets_edge(resolution).unwrap();
        exact(&edge, wcets);
        prop_assert_eq!(edge.passes, scan(1..=200 * resolution, wcets));
        if let Some(edge) = core.all_misses_edge(resolution) {
            let misses = |k: u64| scaled(|task| &mut task.misses, k);
            exact(&edge, misses);
            prop_assert_eq!(edge.passes.map(|k| k.min(200)), scan(1..=200, misses));
        }
    }

}

proptest! {
    // Few: a test may take its 2^20 steps before it gives up.
    #![proptest_config(seeded(40, 7))]

    #[test]
    fn extremes_neither_panic_nor_wrap(
        values in prop::collection::vec(prop::sample::select(vec![0u64, 1, 2, 1 << 32, u64::MAX - 1, u64::MAX]), 12)
    ) {
        let task = |v: &[u64]| {
            let (wcet_ps, misses, period_ps, deadline_ps) = (v[0], v[1], v[2], v[3]);
            Task { wcet_ps, misses, period_ps, deadline_ps, preemption_ps: wcet_ps }
        };
        let cores = u32::try_from(values[10] >> 32).unwrap();
        let regulation = Regulation { period_ps: values[8], latency_ps: values[9], cores };
        let tasks = vec![task(&values), task(&values[4..])];
        let core = RegulatedCore { tasks, regulation, budget: values[11] };
        let mut edges = vec![core.budget_edge(), core.cores_edge()];
        edges.extend([core.wcet_edge(0), core.misses_edge(1)].into_iter().flatten());
        let factors = [core.wcets_edge(values[7]), core.all_misses_edge(values[6]), core.wcets_edge(u64::MAX)];
        edges.extend(factors.into_iter().flatten());
        for edge in edges {
            prop_assert!(edge.evaluations < 200, "{:?}", edge);
            let _ = edge.derivation().to_string();
        }
        let plain: Vec<SporadicTask> =
            values.chunks(3).map(|v| SporadicTask { wcet: v[0], period: v[1], deadline: v[2] }).collect();
        for i in 0..5 {
            let _ = wcet_edge(&plain, i, fixed_priority);
        }
        let _ = (scale_edge(&plain, values[0], fixed_priority), wcet_slacks(&plain, fixed_priority));
    }
}

#[test]
fn the_critical_task_and_its_slack() {
    let task = |wcet, period| SporadicTask { wcet, period, deadline: period };
    let tasks = [task(3, 7), task(3, 12), task(5, 20)];
    let slacks = wcet_slacks(&tasks, fixed_priority).unwrap();
    // The last responds at 20 of 20, so nothing may grow.
    assert_eq!(slacks.edges.iter().map(Edge::slack).collect::<Vec<_>>(), [Some(0), Some(0), Some(0)]);
    let tasks = [task(3, 7), task(3, 12), task(4, 20)];
    let slacks = wcet_slacks(&tasks, fixed_priority).unwrap();
    let passes: Vec<_> = slacks.edges.iter().map(|edge| edge.passes.unwrap()).collect();
    assert_eq!(passes, [3, 3, 5]);
    assert_eq!(slacks.critical, Some(0));
    assert!(slacks.derivation().to_string().contains("result: 0"));
    // Under EDF there is more room: 3/7 + 3/12 + 6/20 < 1.
    assert_eq!(wcet_edge(&tasks, 2, edf).unwrap().passes, Some(6));
    let too_much = [task(5, 7), task(6, 12)];
    let edge = wcet_edge(&too_much, 1, fixed_priority).unwrap();
    assert_eq!((edge.slack(), edge.passes), (None, Some(2)));
    assert_eq!(scale_edge(&too_much, 1000, edf).unwrap().slack(), None);
}
