//! The analyses of one core against the crate `response-time-analysis`, against brute force, and
//! against a simulator.
//!
//! Seeds are fixed. `UNIPROCESSOR_SETS` sets the number of sets that are compared with the peer
//! (default 100,000).

mod support {
    pub mod uniprocessor;
}

use proptest::prelude::*;
use response_time_analysis::{
    arrival, demand, edf as peer_edf, fixed_priority as peer, time, wcet,
};
use solocore_analysis::uniprocessor::fixed_priority::{
    Clock, FixedPriorityTask, response_time, response_time_nonpreemptive,
};
use solocore_analysis::uniprocessor::supply::Dedicated;
use solocore_analysis::uniprocessor::utilization::{self, Bound};
use solocore_analysis::uniprocessor::{edf, fits, plain};
use solocore_analysis::{SporadicTask, TaskSet, TaskSetError};
use support::uniprocessor::{Job, Policy, Random, random_set, simulate};

type Rbf = demand::RBF<arrival::Sporadic, wcet::Scalar>;

/// A time beyond every response here, and above the limit up to which the peer checks itself by
/// trying all times.
const LIMIT: u64 = 1 << 40;

fn rbf(t: &FixedPriorityTask) -> Rbf {
    let (period, jitter) = (time::Duration::from(t.period), time::Duration::from(t.jitter));
    demand::RBF::new(
        arrival::Sporadic::new(period, jitter),
        wcet::Scalar::new(time::Service::from(t.wcet)),
    )
}

fn peer_preemptive(tasks: &[FixedPriorityTask], i: usize) -> Option<u64> {
    let above: Vec<Rbf> = tasks[..i].iter().map(rbf).collect();
    let found = peer::fully_preemptive::dedicated_uniproc_rta(
        &rbf(&tasks[i]),
        &above,
        time::Duration::from(LIMIT),
    );
    found.ok().map(u64::from)
}

fn sets() -> u64 {
    std::env::var("UNIPROCESSOR_SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

fn general(tasks: &[SporadicTask]) -> Vec<FixedPriorityTask> {
    tasks.iter().map(FixedPriorityTask::from).collect()
}

/// Both paths of ours and the peer give the same response times: small numbers, where ties and
/// exact fits abound.
#[test]
fn responses_equal_the_peer() {
    let mut random = Random(1);
    let mut known = 0;
    for _ in 0..sets() {
        let tasks = random_set(&mut random, 8, 60);
        let responses = plain::response_times(&tasks);
        let tasks = general(&tasks);
        for (i, response) in responses.iter().enumerate() {
            if !fits_all(&tasks[..=i]) {
                assert!(response.is_none());
                break;
            }
            assert_eq!(*response, response_time(&Dedicated, &tasks, i), "task {i} of {tasks:?}");
            assert_eq!(*response, peer_preemptive(&tasks, i), "task {i} of {tasks:?}");
            known += 1;
        }
    }
    assert!(known > sets());
}

/// The same for twenty tasks with periods of 10 ms to 1 s in ns, and beyond doubles.
#[test]
fn responses_equal_the_peer_in_nanoseconds() {
    let mut random = Random(2);
    for round in 0..3000 {
        let scale = if round % 3 == 0 { 1 << 22 } else { 1 };
        let tasks: Vec<SporadicTask> = support::uniprocessor::nanosecond_set(&mut random, 20)
            .iter()
            .map(|t| SporadicTask {
                wcet: t.wcet * scale,
                period: t.period * scale,
                deadline: t.deadline * scale,
            })
            .collect();
        let responses = plain::response_times(&tasks);
        let tasks = general(&tasks);
        for (i, response) in responses.iter().enumerate() {
            assert_eq!(*response, response_time(&Dedicated, &tasks, i));
            if scale == 1 {
                assert_eq!(*response, peer_preemptive(&tasks, i));
            }
        }
    }
}

/// Jitter of the tasks above, and non-preemptive responses in whole units of time.
#[test]
fn jitter_and_nonpreemptive_responses_equal_the_peer() {
    let mut random = Random(3);
    for _ in 0..20_000 {
        let mut tasks = general(&random_set(&mut random, 6, 40));
        for i in 0..tasks.len() {
            let above: Vec<Rbf> = tasks[..i].iter().map(rbf).collect();
            let arrivals =
                arrival::Sporadic::new_zero_jitter(time::Duration::from(tasks[i].period));
            let longest = tasks[i + 1..].iter().map(|t| t.wcet).max().unwrap_or(0);
            let tua = peer::fully_nonpreemptive::TaskUnderAnalysis {
                wcet: wcet::Scalar::new(time::Service::from(tasks[i].wcet)),
                arrivals: &arrivals,
                blocking_bound: time::Service::from(longest.saturating_sub(1)),
            };
            if full(&tasks[..=i]) {
                break;
            }
            let ours = response_time_nonpreemptive(&tasks, i, Clock::Discrete);
            let theirs = peer::fully_nonpreemptive::dedicated_uniproc_rta(
                &tua,
                &above,
                time::Duration::from(LIMIT),
            );
            assert_eq!(ours, theirs.ok().map(u64::from), "task {i} of {tasks:?}");
            let safe = response_time_nonpreemptive(&tasks, i, Clock::Continuous);
            assert!(safe >= ours || safe.is_none());
        }
        for task in &mut tasks {
            task.jitter = random.below(task.period);
        }
        for i in (0..tasks.len()).take_while(|i| !full(&tasks[..=*i])) {
            let mut own = tasks.clone();
            own[i].jitter = 0;
            assert_eq!(
                response_time(&Dedicated, &own, i),
                peer_preemptive(&own, i),
                "task {i} of {own:?}"
            );
        }
    }
}

fn fits_all(tasks: &[FixedPriorityTask]) -> bool {
    fits(
        &tasks
            .iter()
            .map(|t| SporadicTask { wcet: t.wcet, period: t.period, deadline: 1 })
            .collect::<Vec<_>>(),
    )
}

/// Is no time left over? Then a busy window that begins with blocking or jitter never ends.
fn full(tasks: &[FixedPriorityTask]) -> bool {
    tasks.iter().map(|t| t.wcet as f64 / t.period as f64).sum::<f64>() > 0.999
}

/// The EDF verdict is the peer's: all its response bounds are within the deadlines.
#[test]
fn edf_verdicts_equal_the_peer() {
    let mut random = Random(4);
    let mut counts = [0, 0];
    for _ in 0..60_000 {
        let mut tasks = random_set(&mut random, 5, 30);
        for t in &mut tasks {
            let part = 1 + random.below(5);
            t.deadline = t.wcet + random.below(t.wcet + t.period * part / 4);
        }
        let Ok(ours) = edf::schedulable(&TaskSet { cores: 1, tasks: tasks.clone() }) else {
            continue;
        };
        let rbfs: Vec<Rbf> = general(&tasks).iter().map(rbf).collect();
        let of = |i: usize| peer_edf::fully_preemptive::Task {
            rbf: &rbfs[i],
            deadline: tasks[i].deadline.into(),
        };
        let theirs = (0..tasks.len()).all(|i| {
            let others: Vec<_> = (0..tasks.len()).filter(|j| *j != i).map(of).collect();
            let found =
                peer_edf::fully_preemptive::dedicated_uniproc_rta(&of(i), &others, LIMIT.into());
            found.is_ok_and(|r| u64::from(r) <= tasks[i].deadline)
        });
        assert_eq!(ours, theirs, "{tasks:?}");
        counts[usize::from(ours)] += 1;
    }
    assert!(counts.iter().all(|c| *c > 2000), "{counts:?}");
}

/// EDF against the demand of every window up to two hyperperiods and the longest deadline, at U = 1
/// too.
#[test]
fn edf_equals_the_demand_of_all_windows() {
    let mut random = Random(5);
    let mut full = 0;
    for _ in 0..20_000 {
        let mut tasks: Vec<SporadicTask> = (0..1 + random.below(4))
            .map(|_| {
                let period = [1, 2, 3, 4, 6, 8, 12][random.below(7) as usize];
                SporadicTask {
                    wcet: 1 + random.below(period),
                    period,
                    deadline: 1 + random.below(2 * period + 4),
                }
            })
            .collect();
        while !fits(&tasks) && tasks.len() > 1 {
            tasks.pop();
        }
        let ours = edf::test(&Dedicated, &tasks).unwrap();
        let brute = (1..60).all(|t| edf::demand(&tasks, t) <= u128::from(t));
        assert_eq!(ours.schedulable, brute, "{tasks:?}");
        full += u64::from(tasks.iter().map(|t| 24 / t.period * t.wcet).sum::<u64>() == 24);
    }
    assert!(full > 1000, "{full}");
}

/// Every job of a random legal pattern stays within the bound, and some pattern attains it:
/// released together, as often as possible, at the end of the jitter first.
#[test]
fn simulated_responses_are_bounded_and_bounds_attained() {
    let mut random = Random(6);
    for round in 0..3000 {
        let mut tasks = general(&random_set(&mut random, 4, 12));
        if round % 2 == 1 {
            for t in &mut tasks {
                t.jitter = random.below(t.period + 3);
            }
        }
        let endless = round % 2 == 1 && full(&tasks);
        let bound = |i| if endless { None } else { response_time(&Dedicated, &tasks, i) };
        let bounds: Vec<_> = (0..tasks.len()).map(bound).collect();
        for pattern in 0..6 {
            let jobs = if pattern == 0 { critical(&tasks) } else { sporadic(&tasks, &mut random) };
            let worst = worst(&tasks, &jobs, &simulate(&jobs, Policy::Preemptive, |_| true));
            for i in 0..tasks.len() {
                let Some(bound) = bounds[i] else { continue };
                assert!(worst[i] <= bound, "task {i} of {tasks:?}: {} > {bound}", worst[i]);
                if pattern == 0 && bound < 60 {
                    assert_eq!(worst[i], bound, "task {i} of {tasks:?}");
                }
            }
        }
    }
}

/// Without preemption: random patterns, and every phase of the task that blocks.
#[test]
fn simulated_nonpreemptive_responses_are_bounded_and_bounds_attained() {
    let mut random = Random(7);
    let (mut attained, mut all) = (0, 0);
    for _ in 0..3000 {
        let tasks = general(&random_set(&mut random, 4, 12));
        let bound = |i| {
            if full(&tasks) {
                None
            } else {
                response_time_nonpreemptive(&tasks, i, Clock::Discrete)
            }
        };
        let bounds: Vec<_> = (0..tasks.len()).map(bound).collect();
        let mut seen = vec![0; tasks.len()];
        for blocker in 0..tasks.len() + 4 {
            let mut jobs = if blocker < tasks.len() {
                critical(&tasks)
            } else {
                sporadic(&tasks, &mut random)
            };
            if blocker < tasks.len() {
                // The blocker came one unit before all others.
                for job in jobs.iter_mut().filter(|job| job.task != blocker) {
                    (job.arrival, job.release) = (job.arrival + 1, job.release + 1);
                }
            }
            let finished = simulate(&jobs, Policy::NonPreemptive, |_| true);
            for (most, now) in seen.iter_mut().zip(worst(&tasks, &jobs, &finished)) {
                *most = now.max(*most);
            }
        }
        for i in 0..tasks.len() {
            let Some(bound) = bounds[i] else { continue };
            assert!(seen[i] <= bound, "task {i} of {tasks:?}: {} > {bound}", seen[i]);
            all += 1;
            attained += usize::from(seen[i] == bound);
        }
    }
    assert!(attained * 10 > all * 8, "only {attained} of {all} bounds attained");
}

/// Blocking: a job below that holds a resource keeps all others off the core for up to `B`, once
/// per busy window.
#[test]
fn blocking_is_charged_once() {
    let mut tasks = general(&[
        SporadicTask { wcet: 2, period: 10, deadline: 10 },
        SporadicTask { wcet: 3, period: 15, deadline: 15 },
        SporadicTask { wcet: 4, period: 40, deadline: 40 },
    ]);
    (tasks[0].blocking, tasks[1].blocking) = (4, 4);
    let responses: Vec<_> = (0..3).map(|i| response_time(&Dedicated, &tasks, i)).collect();
    assert_eq!(responses, [Some(6), Some(9), Some(9)]);
}

/// Joseph and Pandya's kind of example, and Lehoczky's of 1990 (table 1), whose worst job is not
/// the first.
#[test]
fn examples_of_the_literature() {
    let task = |wcet, period| SporadicTask { wcet, period, deadline: period };
    assert_eq!(
        plain::response_times(&[task(3, 7), task(3, 12), task(5, 20)]),
        [Some(3), Some(6), Some(20)]
    );
    assert_eq!(plain::response_times(&[task(26, 70), task(62, 100)]), [Some(26), Some(118)]);
    assert_eq!(plain::response_times(&[task(1, 2), task(1, 2)]), [Some(1), Some(2)]);
    assert_eq!(plain::response_times(&[task(1, 2), task(2, 3), task(1, 9)]), [Some(1), None, None]);
}

/// The utilisation tests are sound, and never weaker than those they include.
#[test]
fn utilization_tests_are_sound() {
    let mut random = Random(8);
    let mut yes = [0; 3];
    for round in 0..40_000 {
        let mut tasks = random_set(&mut random, 6, if round % 2 == 0 { 16 } else { 64 });
        if round % 3 == 0 {
            tasks.iter_mut().for_each(|t| t.period = t.period.next_power_of_two());
        }
        for t in &mut tasks {
            t.deadline =
                if random.below(2) == 0 { t.period } else { t.wcet + random.below(t.period) };
        }
        tasks.sort_by_key(SporadicTask::constrained_deadline);
        let set = TaskSet { cores: 1, tasks };
        if set.tasks.iter().any(|t| t.wcet > t.deadline) {
            continue;
        }
        let Ok(exact) = plain::schedulable(&set) else { continue };
        let answers = [Bound::LiuLayland, Bound::Hyperbolic, Bound::Harmonic]
            .map(|b| utilization::schedulable(&set, b).unwrap());
        for (count, answer) in yes.iter_mut().zip(answers) {
            *count += usize::from(answer);
            assert!(!answer || exact, "{set:?}: {answers:?}");
        }
        assert!(!answers[0] || (answers[1] && answers[2]), "{set:?}: {answers:?}");
    }
    assert!(yes[0] > 1000 && yes[1] > yes[0] && yes[2] > yes[0], "{yes:?}");
}

#[test]
fn harmonic_chains_are_fewest() {
    let mut random = Random(9);
    assert_eq!(utilization::harmonic_chains(&[2, 4, 8, 16]), 1);
    assert_eq!(utilization::harmonic_chains(&[2, 3, 6, 12]), 2);
    for _ in 0..2000 {
        let periods: Vec<u64> = (0..1 + random.below(7)).map(|_| 1 + random.below(24)).collect();
        // By Dilworth, the largest set of periods that do not divide each other.
        let free = |set: &u32| {
            let chosen: Vec<u64> =
                (0..periods.len()).filter(|i| set >> i & 1 == 1).map(|i| periods[i]).collect();
            (0..chosen.len()).all(|i| {
                (0..i).all(|j| {
                    !chosen[i].is_multiple_of(chosen[j]) && !chosen[j].is_multiple_of(chosen[i])
                })
            })
        };
        let widest = (0..1u32 << periods.len()).filter(free).map(u32::count_ones).max().unwrap();
        assert_eq!(utilization::harmonic_chains(&periods), widest as usize, "{periods:?}");
    }
}

#[test]
fn impossible_sets_are_refused() {
    let set = |cores, tasks: &[(u64, u64, u64)]| TaskSet {
        cores,
        tasks: tasks
            .iter()
            .map(|&(wcet, period, deadline)| SporadicTask { wcet, period, deadline })
            .collect(),
    };
    for test in [plain::schedulable, edf::schedulable] {
        assert_eq!(test(&set(0, &[(1, 2, 2)])), Err(TaskSetError::NoCores));
        assert_eq!(test(&set(2, &[(1, 2, 2)])), Err(TaskSetError::Uniprocessor { cores: 2 }));
        assert_eq!(test(&set(1, &[])), Err(TaskSetError::NoTasks));
        assert_eq!(
            test(&set(1, &[(1, 0, 2)])),
            Err(TaskSetError::Zero { task: 0, what: "period" })
        );
        assert_eq!(
            test(&set(1, &[(3, 2, 2)])),
            Err(TaskSetError::Overload { task: 0, wcet: 3, period: 2 })
        );
        assert_eq!(
            test(&set(1, &[(2, 3, 3), (1, 3, 3), (1, 1000, 9)])),
            Err(TaskSetError::Utilization { cores: 1 })
        );
        assert_eq!(test(&set(1, &[(1, 1, 1)])), Ok(true));
    }
}

/// Numbers of any size, often near the ends of the range.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        1..10u64,
        (0..64u32).prop_map(|k| 1 << k),
        (0..1000u64).prop_map(|k| u64::MAX - k)
    ]
}

fn extreme_set() -> impl Strategy<Value = Vec<SporadicTask>> {
    let task = (number(), number(), number()).prop_map(|(a, b, deadline)| SporadicTask {
        wcet: a.min(b),
        period: a.max(b),
        deadline,
    });
    prop::collection::vec(task, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A response that is reported solves its equation in 128 bits: no overflow made it small.
    #[test]
    fn extreme_responses_are_solutions(tasks in extreme_set()) {
        let responses = plain::response_times(&tasks);
        for (i, response) in responses.iter().enumerate() {
            let Some(r) = *response else { continue };
            let above = tasks[..i].iter().map(|t| u128::from(r.div_ceil(t.period)) * u128::from(t.wcet));
            let work = above.fold(u128::from(tasks[i].wcet), u128::saturating_add);
            prop_assert!(r >= tasks[i].wcet);
            if r <= tasks[i].period {
                prop_assert_eq!(u128::from(r), work);
            }
            let general = general(&tasks);
            // The general one counts its steps otherwise: with hundreds of thousands of jobs it may
            // give up first.
            if let Some(other) = response_time(&Dedicated, &general, i) {
                prop_assert_eq!(other, r);
            }
            let _ = response_time_nonpreemptive(&general, i, Clock::Continuous);
        }
    }

    /// A yes of EDF holds for windows of all kinds in 128 bits.
    #[test]
    fn extreme_edf_is_sound(tasks in extreme_set(), windows in prop::collection::vec(number(), 40)) {
        let Ok(outcome) = edf::test(&Dedicated, &tasks) else { return Ok(()) };
        if outcome.schedulable {
            let deadlines = tasks.iter().map(|t| t.deadline);
            for window in windows.into_iter().chain(deadlines) {
                prop_assert!(edf::demand(&tasks, window) <= u128::from(window));
            }
        }
        let set = TaskSet { cores: 1, tasks };
        for bound in [Bound::LiuLayland, Bound::Hyperbolic, Bound::Harmonic] {
            let _ = utilization::schedulable(&set, bound);
        }
    }
}

/// Time for which jobs are released in simulations.
const SPAN: u64 = 100;

/// All tasks arrive so that their first jobs, delayed by the jitter, are released together; then as
/// often as possible.
fn critical(tasks: &[FixedPriorityTask]) -> Vec<Job> {
    let start = tasks.iter().map(|t| t.jitter).max().unwrap_or(0);
    let mut jobs = Vec::new();
    for (task, t) in tasks.iter().enumerate() {
        let mut arrival = start - t.jitter;
        while arrival < SPAN {
            jobs.push(Job {
                task,
                arrival,
                release: arrival.max(start),
                wcet: t.wcet,
                key: task as u64,
            });
            arrival += t.period;
        }
    }
    jobs
}

/// Random arrivals, jitter and execution times.
fn sporadic(tasks: &[FixedPriorityTask], random: &mut Random) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (task, t) in tasks.iter().enumerate() {
        let (mut arrival, mut released) = (random.below(t.period), 0);
        while arrival < SPAN {
            // Jobs of a task are served in order.
            released = released.max(arrival + random.below(t.jitter + 1));
            let wcet = if random.below(3) == 0 { 1 + random.below(t.wcet) } else { t.wcet };
            jobs.push(Job { task, arrival, release: released, wcet, key: task as u64 });
            arrival += t.period + if random.below(2) == 0 { 0 } else { random.below(4) };
        }
    }
    jobs
}

/// Longest response of each task, from the arrival.
fn worst(tasks: &[FixedPriorityTask], jobs: &[Job], finished: &[u64]) -> Vec<u64> {
    let mut worst = vec![0; tasks.len()];
    for (job, end) in jobs.iter().zip(finished) {
        worst[job.task] = worst[job.task].max(end - job.arrival);
    }
    worst
}
