//! Response times against textbook figures and a discrete-event simulation.

use proptest::prelude::*;
use solocore_analysis::{BusyWindow, RtaTask, Window, response_time, response_times};

const NO_STALL: Window<'static> = Window { once_ps: 0, stall: &|_| 0 };

fn task(wcet_ps: u64, period_ps: u64) -> RtaTask {
    RtaTask::new(wcet_ps, 0, period_ps, period_ps)
}

fn tasks(set: &[(u64, u64)]) -> Vec<RtaTask> {
    set.iter().map(|&(c, t)| task(c, t)).collect()
}

fn lcm(a: u64, b: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    a / gcd(a, b) * b
}

/// Longest response of each task when all are released at 0 and then with their periods, over a
/// hyperperiod, which must be enough to do all the work in it. Time moves from release to release.
fn simulate(set: &[(u64, u64)]) -> Vec<u64> {
    let end = set.iter().fold(1, |all, &(_, t)| lcm(all, t));
    let mut queues: Vec<Vec<(u64, u64)>> =
        set.iter().map(|&(c, t)| (0..end / t).rev().map(|k| (k * t, c)).collect()).collect();
    let mut worst = vec![0; set.len()];
    let mut now = 0;
    while queues.iter().any(|jobs| !jobs.is_empty()) {
        let next_release =
            queues.iter().flatten().map(|job| job.0).filter(|&release| release > now).min();
        let ready = queues.iter().position(|jobs| jobs.last().is_some_and(|job| job.0 <= now));
        let Some(i) = ready else {
            now = next_release.expect("a job is left");
            continue;
        };
        let (release, left) = queues[i].pop().expect("the job is ready");
        let run = next_release.map_or(left, |next| left.min(next - now));
        now += run;
        if run < left {
            queues[i].push((release, left - run));
        } else {
            worst[i] = worst[i].max(now - release);
        }
    }
    worst
}

#[test]
fn textbook_constrained_deadlines() {
    let burns = tasks(&[(3, 7), (3, 12), (5, 20)]);
    assert_eq!(response_times(&burns, &NO_STALL), [Some(3), Some(6), Some(20)]);
    let lehoczky_sha_ding = tasks(&[(40, 100), (40, 150), (100, 350)]);
    assert_eq!(response_times(&lehoczky_sha_ding, &NO_STALL), [Some(40), Some(80), Some(300)]);
}

#[test]
fn textbook_arbitrary_deadlines() {
    // Lehoczky 1990: the responses in the window are 114, 102, 116, 104, 118, 106, 94: the fifth is
    // the worst.
    let set = tasks(&[(26, 70), (62, 100)]);
    assert_eq!(response_times(&set, &NO_STALL), [Some(26), Some(118)]);
    assert_eq!(response_time(&set, 1, &NO_STALL, 118), Some(118));
    assert_eq!(response_time(&set, 1, &NO_STALL, 117), None);
}

#[test]
fn preemption_cost_is_charged_to_lower_priorities_only() {
    let mut set = tasks(&[(2, 10), (3, 20), (5, 40)]);
    set[0].preemption_ps = 1;
    // Third: 2+1 twice, 3 and 5 make 14. Without the cost it would end at 10, before the second
    // preemption.
    assert_eq!(response_times(&set, &NO_STALL), [Some(2), Some(6), Some(14)]);
}

#[test]
fn stall_is_charged_on_the_window_total_and_carry_in_once() {
    // Four misses per throttling of 10. Two jobs of 2 misses each make one throttling that neither
    // causes alone.
    let window = Window { once_ps: 5, stall: &|all| all.misses / 4 * 10 };
    let mut set = tasks(&[(3, 100), (4, 200)]);
    set[0].misses = 2;
    set[1].misses = 2;
    assert_eq!(response_times(&set, &window), [Some(8), Some(22)]);
}

#[test]
fn overload_and_nonsense_have_no_response_time() {
    assert_eq!(
        response_times(&tasks(&[(6, 10), (5, 10), (0, 10)]), &NO_STALL),
        [Some(6), None, None]
    );
    // Full utilisation and a carry-in: the backlog of the carry-in never goes away.
    assert_eq!(response_times(&tasks(&[(10, 10)]), &Window { once_ps: 1, ..NO_STALL }), [None]);
    assert_eq!(response_times(&tasks(&[(1, 10), (1, 0)]), &NO_STALL), [Some(1), None]);
    assert_eq!(response_time(&tasks(&[(1, 10)]), 1, &NO_STALL, 100), None);
    assert_eq!(response_time(&tasks(&[(1, 10)]), usize::MAX, &NO_STALL, 100), None);
    let no_bound = Window { once_ps: 0, stall: &|_| u64::MAX };
    assert_eq!(response_times(&tasks(&[(0, u64::MAX)]), &no_bound), [None]);
    assert_eq!(
        response_times(&tasks(&[(u64::MAX - 1, u64::MAX), (2, u64::MAX)]), &NO_STALL)[1],
        None
    );
}

const PERIODS: [u64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];

/// Sets whose work fits in their hyperperiod of at most 120.
fn feasible_set() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let one = (1u64..9, prop::sample::select(PERIODS.to_vec()));
    prop::collection::vec(one, 1..5).prop_filter("utilisation above 1", |set| {
        set.iter().map(|&(c, t)| c * (120 / t)).sum::<u64>() <= 120
    })
}

fn stalled_set() -> impl Strategy<Value = Vec<RtaTask>> {
    let one = (1u64..60, 0u64..6, 40u64..400, 0u64..5).prop_map(
        |(wcet_ps, misses, period_ps, preemption_ps)| RtaTask {
            preemption_ps,
            ..RtaTask::new(wcet_ps, misses, period_ps, period_ps)
        },
    );
    prop::collection::vec(one, 1..5)
}

/// `None` counts as infinite.
fn not_below(larger: &[Option<u64>], smaller: &[Option<u64>]) -> bool {
    larger.iter().zip(smaller).all(|(l, s)| l.unwrap_or(u64::MAX) >= s.unwrap_or(u64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_simulated_worst_response(set in feasible_set()) {
        let analysed: Vec<_> = response_times(&tasks(&set), &NO_STALL);
        let simulated: Vec<_> = simulate(&set).into_iter().map(Some).collect();
        prop_assert_eq!(analysed, simulated);
    }

    #[test]
    fn warm_start_changes_nothing(set in stalled_set(), once_ps in 0u64..30) {
        let window = Window { once_ps, stall: &|all| all.misses * 2 + all.misses / 4 * 10 };
        let limit_ps = set.iter().map(|task| task.period_ps).max().unwrap() * 1000;
        let cold: Vec<_> = (0..set.len()).map(|i| response_time(&set, i, &window, limit_ps)).collect();
        prop_assert_eq!(response_times(&set, &window), cold);
    }

    /// Level by level as each by itself: limits that cut, overload, reloads that grow downwards,
    /// and numbers that do not fit.
    #[test]
    fn a_growing_window_changes_nothing(
        set in prop::collection::vec((1u64..60, 0u64..6, 20u64..400, 0u64..5, 0u32..40), 1..12),
        once_ps in 0u64..30,
        limit in 1u64..3000,
        company_ps in 0u64..20,
    ) {
        let of = |index: usize, reload: u64| {
            let (wcet_ps, misses, period_ps, _, huge) = set[index];
            let wcet_ps = if huge == 0 { u64::MAX / 3 } else { wcet_ps };
            let misses = misses + reload;
            RtaTask {
                preemption_ps: 3 * reload,
                ..RtaTask::new(wcet_ps, misses, period_ps, period_ps)
            }
        };
        let stall = |all: solocore_analysis::Demand| all.misses * 2 + all.misses / 4 * 10;
        let mut growing = BusyWindow::default();
        for level in 0..set.len() {
            let tasks: Vec<RtaTask> = (0..=level)
                .map(|i| of(i, set[i + 1..=level].iter().map(|t| t.3).max().unwrap_or(0)))
                .collect();
            // A sum that is charged once may grow downwards, but not fall.
            let last = level + 1 == set.len();
            let once_ps = once_ps + if last { company_ps } else { 0 };
            let window = Window { once_ps, stall: &stall };
            let limit_ps = limit + 10 * level as u64;
            let found = growing.next(set[level].3, &|i, r| Some(of(i, r)), &window, limit_ps);
            prop_assert_eq!(found, response_time(&tasks, level, &window, limit_ps), "{}", level);
        }
    }

    #[test]
    fn monotone(set in stalled_set(), at in any::<prop::sample::Index>(), once_ps in 0u64..30) {
        let window = Window { once_ps, stall: &|all| all.misses * 2 + all.misses / 4 * 10 };
        let base = response_times(&set, &window);
        let at = at.index(set.len());
        let changed = |change: &dyn Fn(&mut RtaTask)| {
            let mut set = set.clone();
            change(&mut set[at]);
            response_times(&set, &window)
        };
        prop_assert!(not_below(&changed(&|task| task.wcet_ps += 1), &base));
        prop_assert!(not_below(&changed(&|task| task.misses += 1), &base));
        prop_assert!(not_below(&changed(&|task| task.preemption_ps += 1), &base));
        prop_assert!(not_below(&base, &changed(&|task| task.period_ps += 1)));
        let later = Window { once_ps: once_ps + 1, ..window };
        prop_assert!(not_below(&response_times(&set, &later), &base));
        prop_assert!(not_below(&base, &response_times(&set, &NO_STALL)));
    }
}
