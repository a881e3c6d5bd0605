//! Sensitivity: at the value found the test passes, at the next it fails, and a scan over all
//! values agrees.

use proptest::prelude::*;
use solocore_analysis::SporadicTask;
use solocore_analysis::sensitivity::{
    Edge, fixed_priority, largest_passing, least_passing, scale_edge, wcet_edge, wcet_slacks,
};

fn seeded(cases: u32, seed: u64) -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(seed);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// EDF on one core by its definition: demand in every interval that ends at a deadline of a
/// synchronous busy period.
fn edf(tasks: &[SporadicTask]) -> bool {
    if tasks.iter().map(|t| t.wcet as f64 / t.period as f64).sum::<f64>() > 1.0 + 1e-12 {
        return false;
    }
    let horizon = 2 * tasks.iter().fold(1, |all, t| all * t.period / gcd(all, t.period)) + 50;
    (1..=horizon).all(|end| {
        let jobs = |t: &SporadicTask| {
            (end + t.period).checked_sub(t.deadline).map_or(0, |span| span / t.period)
        };
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
}

proptest! {
    // Few: a test may take its 2^20 steps before it gives up.
    #![proptest_config(seeded(40, 7))]

    #[test]
    fn extremes_neither_panic_nor_wrap(
        values in prop::collection::vec(prop::sample::select(vec![0u64, 1, 2, 1 << 32, u64::MAX - 1, u64::MAX]), 12)
    ) {
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
    assert_eq!(
        slacks.edges.iter().map(Edge::slack).collect::<Vec<_>>(),
        [Some(0), Some(0), Some(0)]
    );
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
