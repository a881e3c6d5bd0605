//! Supply bound functions against brute force over all alignments, against the servers of
//! `solocore-policy`, and the analyses based on them against simulation.

mod support {
    pub mod uniprocessor;
}

use proptest::prelude::*;
use solocore_analysis::SporadicTask;
use solocore_analysis::uniprocessor::fixed_priority::{self, FixedPriorityTask};
use solocore_analysis::uniprocessor::hierarchical::{self, Local};
use solocore_analysis::uniprocessor::supply::{Dedicated, Rounds, Supply, SupplyError, TimeTable};
use solocore_analysis::uniprocessor::{edf, plain};
use solocore_policy::sporadic_server::Config;
use solocore_policy::vcpu::{Background, Mode, VcpuCore};
use support::uniprocessor::{Job, Policy, Random, random_set, simulate};

/// The least supply of any window of each length up to `most`, in a pattern that lasts longer.
fn least(pattern: &[bool], most: usize) -> Vec<u64> {
    let sums: Vec<u64> = std::iter::once(0)
        .chain(pattern.iter().scan(0, |sum, on| {
            *sum += u64::from(*on);
            Some(*sum)
        }))
        .collect();
    (0..=most)
        .map(|w| (0..=pattern.len() - w).map(|a| sums[a + w] - sums[a]).min().unwrap())
        .collect()
}

/// The bound is `least`, and its inverse, rate and delay fit.
fn check_bound(supply: &impl Supply, least: &[u64]) {
    for (window, expected) in least.iter().enumerate() {
        assert_eq!(supply.supplied(window as u64), *expected, "window {window}");
    }
    check_inverse(supply, least.len() as u64);
}

fn check_inverse(supply: &impl Supply, most: u64) {
    let (rate, out_of) = supply.rate();
    for window in 0..most {
        let (supplied, before) = (supply.supplied(window), window.saturating_sub(supply.delay()));
        assert!(supplied * out_of >= rate * before, "window {window}");
        let inverse = supply.window_for(supplied).unwrap();
        assert!(inverse <= window && supply.supplied(inverse) == supplied, "window {window}");
        assert!(inverse == 0 || supply.supplied(inverse - 1) < supplied, "window {window}");
    }
}

#[test]
fn time_tables_are_exact() {
    let mut random = Random(1);
    for _ in 0..2000 {
        let cycle = 1 + random.below(16);
        let density = 1 + random.below(4);
        let on: Vec<bool> = (0..cycle).map(|_| random.below(4) < density).collect();
        // Neighbouring windows may touch.
        let (mut windows, mut open) = (Vec::<(u64, u64)>::new(), false);
        for (begin, _) in (0..cycle).zip(&on).filter(|(_, on)| **on) {
            match windows.last_mut() {
                Some((b, length)) if open && *b + *length == begin => *length += 1,
                _ => windows.push((begin, 1)),
            }
            open = random.below(4) > 0;
        }
        if windows.is_empty() {
            assert_eq!(TimeTable::new(cycle, &windows), Err(SupplyError::NoWindows));
            continue;
        }
        let table = TimeTable::new(cycle, &windows).unwrap();
        let span = usize::try_from(4 * cycle).unwrap();
        let pattern: Vec<bool> = on.iter().copied().cycle().take(2 * span).collect();
        check_bound(&table, &least(&pattern, span));
    }
}

/// All ways to place the budget, over four periods.
#[test]
fn periodic_resources_are_exact() {
    for period in 1..=5u32 {
        for deadline in 1..=period {
            for budget in 1..=deadline {
                let places: Vec<u32> =
                    (0u32..1 << deadline).filter(|mask| mask.count_ones() == budget).collect();
                let (mut worst, most) =
                    (vec![u64::MAX; 2 * period as usize + 1], 2 * period as usize);
                for choice in 0..places.len().pow(4) {
                    let place = |k: u32| places[choice / places.len().pow(k) % places.len()];
                    let pattern: Vec<bool> = (0..4)
                        .flat_map(|k| (0..period).map(move |bit| (k, bit)))
                        .map(|(k, bit)| place(k) >> bit & 1 == 1)
                        .collect();
                    for (w, now) in worst.iter_mut().zip(least(&pattern, most)) {
                        *w = now.min(*w);
                    }
                }
                let resource =
                    Rounds::with_deadline(budget.into(), period.into(), deadline.into()).unwrap();
                check_bound(&resource, &worst);
                check_inverse(&resource, 40);
            }
        }
    }
    check_inverse(&Dedicated, 40);
}

/// Shin and Lee, figure 3: budget 3 of 5.
#[test]
fn shin_and_lee_example() {
    let resource = Rounds::periodic_resource(3, 5).unwrap();
    let supplied: Vec<u64> = (0..16).map(|t| resource.supplied(t)).collect();
    assert_eq!(supplied, [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7]);
}

/// VCPUs that wake and block at random under the scheduler of the policies. A VCPU with work
/// throughout a window gets at least the bound, and at least the bound that knows the earlier use.
/// Returns the number of windows that got exactly each bound; of the second only where it is
/// larger.
fn servers(random: &mut Random, strict: bool) -> [u64; 2] {
    let count = 1 + random.below(3) as usize;
    let mut tasks: Vec<SporadicTask> = (0..count)
        .map(|_| {
            let period = 2 + random.below(11);
            SporadicTask { wcet: 1 + random.below(period / 2), period, deadline: period }
        })
        .collect();
    tasks.sort_by_key(|t| t.period);
    let responses = plain::response_times(&tasks);
    if !plain::deadlines_met(&tasks, &responses) {
        return [0, 0];
    }
    let mut core = VcpuCore::new(Background::LeastTime, 0);
    core.allow_background(false, 0);
    for (id, t) in (0..).zip(&tasks) {
        assert!(core.add(
            id,
            Config { capacity_ns: t.wcet, period_ns: t.period, strict, limit: 16 },
            0
        ));
    }
    let span = 300;
    let (mut served, mut busy) = (vec![vec![0u64]; count], vec![vec![false; span]; count]);
    let mut awake = vec![false; count];
    // Calm and restless times: servers that work long, and servers that often stop and start.
    let mut change = 2;
    for now in 0..span {
        if now % 40 == 0 {
            change = [2, 4, 10, 60][random.below(4) as usize];
        }
        for id in 0..count {
            if random.below(change) == 0 {
                awake[id] = !awake[id];
                let (id, now) = (u32::try_from(id).unwrap(), now as u64);
                if awake[id as usize] {
                    core.wake(id, now)
                } else {
                    core.block(id, now)
                };
            }
        }
        if core.until_ns() <= now as u64 {
            core.tick(now as u64);
        }
        for id in 0..count {
            busy[id][now] = awake[id];
            let runs = matches!(core.mode(), Mode::Foreground(v) if v as usize == id);
            let sum = served[id][now] + u64::from(runs);
            served[id].push(sum);
        }
    }
    let mut exact = [0, 0];
    for id in 0..count {
        let t = &tasks[id];
        let response = responses[id].unwrap();
        let supply = Rounds::sporadic_server(t.wcet, t.period, response, strict).unwrap();
        for begin in 0..span {
            let used = served[id][begin] - served[id][begin.saturating_sub(t.period as usize)];
            let after =
                Rounds::sporadic_server_after(t.wcet, t.period, response, strict, used).unwrap();
            for end in begin + 1..=span {
                if !busy[id][end - 1] {
                    break;
                }
                let (got, bound) =
                    (served[id][end] - served[id][begin], supply.supplied((end - begin) as u64));
                assert!(
                    got >= bound,
                    "server {id} of {tasks:?} got {got} < {bound} in {begin}..{end}, strict \
                        {strict}"
                );
                exact[0] += u64::from(bound > 0 && got == bound);
                let better = after.supplied((end - begin) as u64);
                assert!(
                    got >= better,
                    "server {id} of {tasks:?} used {used} before and got {got} < {better} in \
                        {begin}..{end}, strict {strict}"
                );
                exact[1] += u64::from(better > bound && got == better);
            }
        }
    }
    exact
}

#[test]
fn sporadic_servers_supply_what_is_promised() {
    let mut random = Random(2);
    for strict in [false, true] {
        let exact: Vec<[u64; 2]> = (0..4000).map(|_| servers(&mut random, strict)).collect();
        for bound in 0..2 {
            let exact: u64 = exact.iter().map(|e| e[bound]).sum();
            assert!(exact > 1000, "{bound}: {exact}");
        }
    }
}

/// A pattern of a supply: a table at some phase, or a resource that gives its budget at any place.
fn pattern(random: &mut Random, budget: u64, period: u64, span: u64) -> Vec<bool> {
    let (phase, kind) = (random.below(period), random.below(4));
    let mut on = vec![false; usize::try_from(span + period).unwrap()];
    for (round, begin) in (0..span).step_by(usize::try_from(period).unwrap()).enumerate() {
        let late = if kind == 0 { round > 0 } else { kind == 1 || random.below(2) == 0 };
        let first = if late { begin + period - budget } else { begin };
        for t in first..first + budget {
            on[usize::try_from(t).unwrap()] = true;
        }
    }
    on.drain(..usize::try_from(phase).unwrap());
    on
}

/// Jobs released together at 0 and then as often as possible, or at random.
fn jobs(tasks: &[SporadicTask], by_deadline: bool, random: &mut Random, span: u64) -> Vec<Job> {
    let together = random.below(2) == 0;
    let mut jobs = Vec::new();
    for (task, t) in tasks.iter().enumerate() {
        let mut arrival = if together { 0 } else { random.below(t.period) };
        while arrival < span {
            let key = if by_deadline { arrival + t.deadline } else { task as u64 };
            jobs.push(Job { task, arrival, release: arrival, wcet: t.wcet, key });
            arrival += t.period + if together { 0 } else { random.below(3) };
        }
    }
    jobs
}

/// Tasks on a periodic resource: simulated responses stay within the bounds, sets deemed
/// schedulable by EDF meet their deadlines, and the least budget is the least.
#[test]
fn tasks_on_periodic_resources() {
    let mut random = Random(3);
    let (mut yes, mut exact) = ([0, 0], 0);
    for _ in 0..4000 {
        let period = 1 + random.below(8);
        let budget = 1 + random.below(period);
        let mut tasks = random_set(&mut random, 3, 24);
        for t in &mut tasks {
            t.wcet = (t.wcet * budget / period).max(1);
            t.deadline = t.wcet + random.below(2 * t.period);
        }
        let supply = Rounds::periodic_resource(budget, period).unwrap();
        let fixed =
            hierarchical::schedulable(&tasks, Local::FixedPriority, budget, period).unwrap();
        let dynamic = hierarchical::schedulable(&tasks, Local::Edf, budget, period).unwrap();
        assert!(dynamic || !fixed, "EDF is optimal on any supply: {tasks:?} {budget}/{period}");
        yes = [yes[0] + u64::from(fixed), yes[1] + u64::from(dynamic)];
        let general: Vec<FixedPriorityTask> = tasks.iter().map(FixedPriorityTask::from).collect();
        let bounds: Vec<_> =
            if fixed { fixed_priority::response_times(&supply, &general) } else { Vec::new() };
        for _ in 0..6 {
            let on = pattern(&mut random, budget, period, 2000);
            let supplied =
                |t: u64| usize::try_from(t).ok().and_then(|t| on.get(t)).is_none_or(|on| *on);
            if fixed {
                let jobs = jobs(&tasks, false, &mut random, 100);
                for (job, end) in jobs.iter().zip(simulate(&jobs, Policy::Preemptive, supplied)) {
                    let bound = bounds[job.task].unwrap();
                    assert!(end - job.arrival <= bound, "{tasks:?} on {budget}/{period}");
                    exact += u64::from(end - job.arrival == bound);
                }
            }
            if dynamic {
                let jobs = jobs(&tasks, true, &mut random, 100);
                for (job, end) in jobs.iter().zip(simulate(&jobs, Policy::Preemptive, supplied)) {
                    assert!(end <= job.key, "{tasks:?} on {budget}/{period}");
                }
            }
        }
        for local in [Local::FixedPriority, Local::Edf] {
            let first = (1..=period)
                .find(|b| hierarchical::schedulable(&tasks, local, *b, period).unwrap());
            assert_eq!(
                hierarchical::least_budget(&tasks, local, period).unwrap(),
                first,
                "{tasks:?} {period}"
            );
        }
    }
    assert!(yes.iter().all(|y| *y > 500) && exact > 1000, "{yes:?} {exact}");
}

/// EDF on a supply against all windows.
#[test]
fn edf_on_a_supply_equals_the_demand_of_all_windows() {
    let mut random = Random(4);
    let mut counts = [0, 0];
    for _ in 0..10_000 {
        let period = 1 + random.below(6);
        let budget = 1 + random.below(period);
        let tasks: Vec<SporadicTask> = (0..1 + random.below(3))
            .map(|_| {
                let t = [2, 3, 4, 6, 12][random.below(5) as usize];
                SporadicTask {
                    wcet: 1 + random.below(t / 2),
                    period: t,
                    deadline: 1 + random.below(3 * t),
                }
            })
            .collect();
        let supply = Rounds::periodic_resource(budget, period).unwrap();
        let Ok(outcome) = edf::test(&supply, &tasks) else { panic!("undecided: {tasks:?}") };
        // Both sides repeat with the hyperperiod, 60 at most, from 36 on; overload shows by then as
        // well.
        let brute = (1..2000).all(|t| edf::demand(&tasks, t) <= u128::from(supply.supplied(t)));
        assert_eq!(outcome.schedulable, brute, "{tasks:?} on {budget}/{period}");
        counts[usize::from(brute)] += 1;
    }
    assert!(counts.iter().all(|c| *c > 1000), "{counts:?}");
}

/// Tasks in a partition, at every phase of its table.
#[test]
fn tasks_in_a_partition() {
    let mut random = Random(5);
    let (mut attained, mut all) = (0, 0);
    for _ in 0..1500 {
        let (a, b, gap) = (1 + random.below(4), 1 + random.below(4), 1 + random.below(4));
        let cycle = a + b + gap + 1 + random.below(4);
        let table = TimeTable::new(cycle, &[(0, a), (a + gap, b)]).unwrap();
        let mut tasks = random_set(&mut random, 3, 30);
        tasks.iter_mut().for_each(|t| t.wcet = (t.wcet * (a + b) / cycle / 2).max(1));
        let general: Vec<FixedPriorityTask> = tasks.iter().map(FixedPriorityTask::from).collect();
        let bounds = fixed_priority::response_times(&table, &general);
        if bounds.iter().any(|b| b.is_none_or(|b| b > 100)) {
            continue;
        }
        let mut worst = vec![0; tasks.len()];
        for phase in 0..cycle {
            let supplied = |t: u64| {
                let at = (t + phase) % cycle;
                at < a || (a + gap..a + gap + b).contains(&at)
            };
            let mut list = Vec::new();
            for (task, t) in tasks.iter().enumerate() {
                for arrival in (0..150).step_by(usize::try_from(t.period).unwrap()) {
                    list.push(Job {
                        task,
                        arrival,
                        release: arrival,
                        wcet: t.wcet,
                        key: task as u64,
                    });
                }
            }
            for (job, end) in list.iter().zip(simulate(&list, Policy::Preemptive, supplied)) {
                worst[job.task] = worst[job.task].max(end - job.arrival);
            }
        }
        for (seen, bound) in worst.iter().zip(&bounds) {
            assert!(*seen <= bound.unwrap(), "{tasks:?} {a} {gap} {b} of {cycle}");
            attained += u64::from(*seen == bound.unwrap());
            all += 1;
        }
    }
    assert!(all > 500 && attained * 10 > all * 8, "{attained} of {all}");
}

#[test]
fn impossible_supplies_are_refused() {
    assert_eq!(Rounds::periodic_resource(0, 5), Err(SupplyError::Budget { budget: 0, most: 5 }));
    assert_eq!(Rounds::periodic_resource(6, 5), Err(SupplyError::Budget { budget: 6, most: 5 }));
    assert!(matches!(
        Rounds::with_deadline(1, 5, 6),
        Err(SupplyError::Range { what: "deadline", .. })
    ));
    assert!(matches!(
        Rounds::sporadic_server(2, 5, 1, true),
        Err(SupplyError::Range { what: "response", .. })
    ));
    assert_eq!(Rounds::periodic_resource(1, u64::MAX), Err(SupplyError::Long { period: u64::MAX }));
    for windows in [&[(0, 0)][..], &[(0, 3), (2, 1)], &[(3, 3)], &[(u64::MAX, 2)]] {
        assert!(
            matches!(TimeTable::new(5, windows), Err(SupplyError::Window { .. })),
            "{windows:?}"
        );
    }
    assert_eq!(TimeTable::new(u64::MAX, &[(0, 1)]), Err(SupplyError::Long { period: u64::MAX }));
    assert!(matches!(
        hierarchical::least_budget(&[], Local::Edf, 0),
        Err(SupplyError::Budget { .. })
    ));
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        1..10u64,
        (0..64u32).prop_map(|k| 1 << k),
        (0..1000u64).prop_map(|k| u64::MAX - k)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any numbers: a supply is refused, or it is monotone, at most the window, and its inverse
    /// fits.
    #[test]
    fn extreme_supplies(a in number(), b in number(), c in number(), strict: bool, windows in prop::collection::vec(number(), 8)) {
        let rounds = [
            Rounds::with_deadline(a, b, c),
            Rounds::sporadic_server(a, b, c, strict),
            Rounds::sporadic_server_after(a, b, c, strict, c / 3),
        ];
        let table = TimeTable::new(a, &[(b, c)]);
        let all: Vec<Box<dyn Supply>> = rounds.into_iter().flatten().map(|s| Box::new(s) as Box<dyn Supply>)
            .chain(table.into_iter().map(|s| Box::new(s) as Box<dyn Supply>)).collect();
        let mut windows = windows;
        windows.sort_unstable();
        for supply in all {
            let mut last = 0;
            for window in &windows {
                let supplied = supply.supplied(*window);
                prop_assert!(supplied <= *window && supplied >= last);
                last = supplied;
                if let Some(inverse) = supply.window_for(*window) {
                    prop_assert!(supply.supplied(inverse) >= *window);
                    prop_assert!(inverse == 0 || supply.supplied(inverse - 1) < *window);
                }
            }
            let tasks = [SporadicTask { wcet: a.min(b), period: b, deadline: c }, SporadicTask { wcet: 1, period: c, deadline: b }];
            let general: Vec<FixedPriorityTask> = tasks.iter().map(FixedPriorityTask::from).collect();
            let _ = edf::test(&&*supply, &tasks);
            let _ = fixed_priority::schedulable(&&*supply, &general[..1]);
        }
    }
}
