//! The paper's examples, and a discrete memory under the policy that runs, against the bounds of
//! dynamic budgeting.
//!
//! The simulation: in each tick one access occupies the memory (`L` is one tick) and holds up every
//! hard core but its own. An adversary chooses the access: of a soft core, while the policy lets it
//! go on, of a hard core, while its job has accesses left, or none. The soft cores' budgets are
//! kept by `solocore-policy`, not by code of this test.

use solocore_analysis::interference::Refresh;
use solocore_analysis::memory::dynamic_budget::{
    HardTask, Memory, Objective, analyse, bandwidth_limit, explain, explain_largest,
    largest_budget, largest_budgets, response_paper, shares,
};
use solocore_dram::random::Random;
use solocore_policy::dynamic_budget::DynamicBudget;

const TICK: Memory = Memory {
    latency_ps: 1,
    switch_accesses: 0,
    refresh: Refresh { each_ps: 0, every_ps: 0, ranks: 0 },
};

fn task(core: u32, wcet: u64, period: u64, deadline: u64, misses: u64, budget: u64) -> HardTask {
    HardTask {
        wcet_ps: wcet,
        period_ps: period,
        deadline_ps: deadline,
        misses,
        core,
        budget,
        reload_ps: 0,
    }
}

/// A row of Table II; times in hundredths of the paper's unit, and `L` one of them, so that `H` is
/// `H*L`.
fn table_two(row: usize) -> [HardTask; 2] {
    let rows = [
        [(1, 2, 37), (1, 2, 47)],
        [(1, 2, 57), (1, 3, 46)],
        [(1, 2, 75), (1, 4, 41)],
        [(1, 3, 48), (2, 4, 65)],
        [(1, 3, 46), (2, 5, 95)],
    ];
    let [(c1, p1, h1), (c2, p2, h2)] = rows[row - 1];
    [task(0, c1 * 100, p1 * 100, p1 * 100, h1, 0), task(1, c2 * 100, p2 * 100, p2 * 100, h2, 0)]
}

/// "We know the number of cache misses and use these together with L to find the highest possible
/// values for B_1 and B_2": all five rows have room for budgets with `ceil(t/P) + 1` carried-in
/// jobs. The paper prints no budgets; these are worked by hand:
/// `B_1 L = D_1 - C_1 - (ceil(D_1/P_2) + 1) H_2 L`, and the other way round.
#[test]
fn table_two_has_budgets() {
    for (row, expected) in
        [(1, [6, 26]), (2, [8, 29]), (3, [18, 75]), (4, [70, 56]), (5, [10, 162])]
    {
        let mut tasks = table_two(row);
        for objective in [Objective::MaxMin, Objective::TotalBandwidth] {
            let budgets = largest_budgets(&tasks, &TICK, objective).unwrap().unwrap();
            assert_eq!(budgets, expected, "T_{row} {objective:?}");
        }
        tasks.iter_mut().zip(expected).for_each(|(t, b)| t.budget = b);
        let bounds = analyse(&tasks, &TICK).unwrap().unwrap();
        for (i, (t, b)) in tasks.iter().zip(bounds).enumerate() {
            // The budgets are chosen such that R = D, and with one task a core the time in force is
            // the response.
            assert_eq!(
                (b.response_ps, b.length_ps),
                (t.deadline_ps, t.deadline_ps),
                "T_{row} task {i}"
            );
            assert_eq!(response_paper(&tasks, i, &TICK).unwrap(), Some(t.deadline_ps));
            let mut more = tasks;
            more[i].budget += 1;
            assert_eq!(analyse(&more, &TICK).unwrap(), Err(i), "one access more is too much");
        }
    }
}

/// Section IV-B has tau_2 = (2, 3, 3, H_2), where row T_2 of Table II, "like the ones in the
/// example", has C_2 = 1. With C_2 = 2 the two need two cores, as the paper says (1/2 + 2/3 > 1),
/// but H_1*L = 0.57 leaves tau_2 no time: 2 + 3*0.57 > 3. The example says "suppose that H_1 and
/// H_2 are small enough"; below a third of a unit, they are.
#[test]
fn tau_1_and_tau_2_of_section_iv_b() {
    let mut tasks = table_two(2);
    tasks[1].wcet_ps = 200;
    assert_eq!(largest_budgets(&tasks, &TICK, Objective::MaxMin).unwrap(), None);
    let one_core: Vec<HardTask> = tasks.iter().map(|t| HardTask { core: 0, ..*t }).collect();
    assert_eq!(analyse(&one_core, &TICK).unwrap(), Err(1));
    (tasks[0].misses, tasks[1].misses) = (33, 46);
    assert_eq!(largest_budgets(&tasks, &TICK, Objective::MaxMin).unwrap(), Some(vec![8, 1]));
    tasks[0].misses = 34;
    assert_eq!(largest_budgets(&tasks, &TICK, Objective::MaxMin).unwrap(), None);
}

#[derive(Clone, Copy)]
struct Job {
    release: u64,
    left: u64,
    accesses: u64,
    started: bool,
    /// It ran in the last tick.
    ran: bool,
}

/// Habits of the adversary.
#[derive(Clone, Copy)]
struct Adversary {
    /// Chance, in eighths, that it takes a soft access when it may.
    soft: u64,
    /// Chance, in eighths, that it takes a hard core's access.
    hard: u64,
    /// Chance, in eighths, that a job needs all of its execution time.
    full: u64,
    /// Longest extra time between releases.
    sporadic: u64,
}

struct World<'a> {
    tasks: &'a [HardTask],
    soft: Vec<DynamicBudget>,
    jobs: Vec<Option<Job>>,
    next: Vec<u64>,
    worst: Vec<u64>,
    /// Ticks that a soft core's access occupies the memory; a hard core's takes one.
    latency: u64,
}

impl<'a> World<'a> {
    fn new(tasks: &'a [HardTask], lengths: &[u64], soft_cores: u32, offsets: Vec<u64>) -> Self {
        let policy = |core: usize| {
            let mut d = DynamicBudget::new(0);
            for (i, (t, &length)) in tasks.iter().zip(lengths).enumerate() {
                let share = shares(t.budget, soft_cores)[core];
                assert!(d.define(u32::try_from(i).unwrap(), t.core, share, length));
            }
            d
        };
        let soft = (0..soft_cores as usize).map(policy).collect();
        Self {
            tasks,
            soft,
            jobs: vec![None; tasks.len()],
            next: offsets,
            worst: vec![0; tasks.len()],
            latency: 1,
        }
    }

    fn finish(&mut self, now: u64) {
        for i in 0..self.tasks.len() {
            let Some(job) = self.jobs[i].filter(|j| j.left == 0) else { continue };
            self.worst[i] = self.worst[i].max(now - job.release);
            self.jobs[i] = None;
            for s in &mut self.soft {
                s.finished(u32::try_from(i).unwrap(), now, 0).unwrap();
            }
        }
    }

    fn release(&mut self, now: u64, random: &mut Random, a: Adversary) {
        for (i, t) in self.tasks.iter().enumerate() {
            if self.next[i] > now || self.jobs[i].is_some() {
                continue;
            }
            let left =
                if random.below(8) < a.full { t.wcet_ps } else { 1 + random.below(t.wcet_ps) };
            self.jobs[i] = Some(Job {
                release: self.next[i],
                left,
                accesses: t.misses,
                started: false,
                ran: false,
            });
            self.next[i] += t.period_ps + random.below(a.sporadic + 1);
        }
    }

    /// The job of highest priority of each hard core; starts it if it has not started.
    fn dispatch(&mut self, now: u64) -> Vec<usize> {
        let mut running: Vec<usize> = Vec::new();
        for i in 0..self.tasks.len() {
            let free = running.iter().all(|&r| self.tasks[r].core != self.tasks[i].core);
            let Some(job) = self.jobs[i].as_mut().filter(|_| free) else { continue };
            running.push(i);
            if !job.started {
                job.started = true;
                for s in &mut self.soft {
                    s.started(u32::try_from(i).unwrap(), now, 0).unwrap();
                }
            } else if !job.ran {
                // Back from a preemption: the private caches have to be filled again.
                job.left += self.tasks[i].reload_ps;
            }
        }
        for (i, job) in self.jobs.iter_mut().enumerate() {
            job.iter_mut().for_each(|j| j.ran = running.contains(&i));
        }
        running
    }

    fn run(&mut self, ticks: u64, random: &mut Random, a: Adversary) {
        let (mut made, mut busy): (Option<usize>, u64) = (None, 0);
        for now in 0..ticks {
            for (s, policy) in self.soft.iter_mut().enumerate() {
                policy.event(now, u64::from(made == Some(s)));
            }
            self.finish(now);
            self.release(now, random, a);
            let running = self.dispatch(now);
            let may = |s: &usize| busy == 0 && self.soft[*s].decide().go;
            made = (0..self.soft.len()).find(|s| may(s) && random.below(8) < a.soft);
            busy = if made.is_some() { self.latency } else { busy };
            let has_access =
                |i: &&usize| self.jobs[**i].is_some_and(|j| j.accesses > 0 && j.left > 0);
            let hard = running
                .iter()
                .find(has_access)
                .copied()
                .filter(|_| busy == 0 && random.below(8) < a.hard);
            for i in running {
                let Some(job) = self.jobs[i].as_mut() else { continue };
                if busy == 0 && hard.is_none_or(|h| h == i) {
                    job.left -= 1;
                    job.accesses -= u64::from(hard == Some(i));
                }
            }
            busy = busy.saturating_sub(1);
        }
    }
}

/// Task 0 ends after one tick. With the time in force of eq. (1), the soft core floods the memory
/// with the accesses that task 1 could have made to delay task 0. Task 1 then does the same to task
/// 2.
#[test]
fn eq_1_is_exceeded_where_a_donor_shares_its_core() {
    let tasks =
        [task(0, 1, 50, 50, 0, 1), task(1, 40, 100, 100, 5, 1), task(0, 10, 200, 200, 0, 1)];
    let paper: Vec<u64> =
        (0..3).map(|i| response_paper(&tasks, i, &TICK).unwrap().unwrap()).collect();
    assert_eq!((paper[0], paper[2]), (12, 23));
    let safe = analyse(&tasks, &TICK).unwrap().unwrap();
    assert_eq!((safe[0].length_ps, safe[2].response_ps), (12, 33));
    let lengths: Vec<u64> = safe.iter().map(|b| b.length_ps).collect();
    let mut world = World::new(&tasks, &lengths, 1, vec![0, 12, 0]);
    let all = Adversary { soft: 8, hard: 8, full: 8, sporadic: 0 };
    world.run(150, &mut Random::new(1), all);
    assert!(world.worst[2] > paper[2], "{:?}", world.worst);
    assert!(world.worst[2] <= safe[2].response_ps, "{:?}", world.worst);
    assert!(explain(&tasks, 2, &TICK).unwrap().to_string().ends_with("result: 33\n"));
}

/// Task 0 takes one tick of the 11 that its budget is in force for, and the soft core has no limit
/// for the other ten. A refill of five ticks after the preemption makes no progress in them.
/// Charged to task 0, the five would have been lost with them.
#[test]
fn a_refill_belongs_to_the_task_that_was_preempted() {
    let charged = |reload_ps: u64, wcet: u64| {
        [task(0, wcet, 100, 100, 0, 5), HardTask { reload_ps, ..task(0, 20, 200, 200, 0, 5) }]
    };
    let lengths = |tasks: &[HardTask]| -> Vec<u64> {
        analyse(tasks, &TICK).unwrap().unwrap().iter().map(|b| b.length_ps).collect()
    };
    let response = |tasks: &[HardTask]| analyse(tasks, &TICK).unwrap().unwrap()[1].response_ps;
    let (wrong, right) = (charged(0, 6), charged(5, 1));
    let all = Adversary { soft: 8, hard: 0, full: 8, sporadic: 0 };
    let run = |by: &[HardTask], offset: u64| {
        let tasks = charged(5, 1);
        let mut world = World::new(&tasks, &lengths(by), 1, vec![offset, 0]);
        world.run(150, &mut Random::new(1), all);
        // Once its budget has expired, the soft core never lets it finish.
        if world.jobs[1].is_some() { 150 } else { world.worst[1] }
    };
    let worst = |by: &[HardTask]| (1..20).map(|offset| run(by, offset)).max().unwrap();
    assert!(worst(&wrong) > response(&wrong), "{} {}", worst(&wrong), response(&wrong));
    assert!(worst(&right) <= response(&right), "{} {}", worst(&right), response(&right));
}

fn random_tasks(random: &mut Random, cores: u64) -> Vec<HardTask> {
    let one = |random: &mut Random| {
        let period = 8 + random.below(40);
        let deadline = period - random.below(period / 3);
        let core = u32::try_from(random.below(cores)).unwrap();
        let wcet = 1 + random.below(period / 4);
        let reload_ps = random.below(6).saturating_sub(3);
        HardTask {
            reload_ps,
            ..task(core, wcet, period, deadline, random.below(3), 2 + random.below(4))
        }
    };
    (0..2 + random.below(3)).map(|_| one(random)).collect()
}

/// Many sets and schedules; returns the number of tasks that exceeded their bound, and that
/// exceeded their bound with `counted`.
fn attack(memory: &Memory, sets: u64, counted: &Memory) -> [u32; 2] {
    let mut random = Random::new(7);
    let (mut done, mut tight, mut seen_tasks, mut ratios, mut beyond) =
        (0, 0u32, 0u32, 0.0, [0; 2]);
    while done < sets {
        let tasks = random_tasks(&mut random, 1 + done % 3);
        let (Ok(bounds), Ok(more)) =
            (analyse(&tasks, memory).unwrap(), analyse(&tasks, counted).unwrap())
        else {
            continue;
        };
        done += 1;
        let lengths: Vec<u64> = bounds.iter().map(|b| b.length_ps).collect();
        let mut worst = vec![0; tasks.len()];
        for round in 0..12 {
            let synchronous = round < 3;
            let offsets =
                tasks.iter().map(|_| if synchronous { 0 } else { random.below(40) }).collect();
            let a = Adversary {
                soft: if round % 2 == 0 { 8 } else { random.below(9) },
                hard: if round % 3 == 0 { 8 } else { random.below(9) },
                full: if synchronous { 8 } else { random.below(9) },
                sporadic: if round % 4 == 3 { 10 } else { 0 },
            };
            let mut world = World::new(&tasks, &lengths, 2, offsets);
            world.latency = memory.latency_ps;
            world.run(400, &mut random, a);
            worst.iter_mut().zip(&world.worst).for_each(|(w, &seen)| *w = seen.max(*w));
        }
        for ((b, m), seen) in bounds.iter().zip(&more).zip(worst) {
            beyond[0] += u32::from(seen > b.response_ps);
            beyond[1] += u32::from(seen > m.response_ps);
            tight += u32::from(seen == b.response_ps);
            seen_tasks += 1;
            ratios += b.response_ps as f64 / seen.max(1) as f64;
        }
    }
    let mean = ratios / f64::from(seen_tasks);
    println!(
        "{memory:?}: {seen_tasks} tasks, bound reached by {tight}, exceeded by {beyond:?}, mean \
            ratio {mean:.3}"
    );
    beyond
}

#[test]
fn no_schedule_exceeds_the_bounds() {
    assert_eq!(attack(&TICK, 1000, &TICK), [0, 0]);
}

/// Accesses of three ticks, of which one may be under way when a budget comes into force: the paper
/// counts none.
#[test]
fn accesses_under_way_at_a_switch_count() {
    let (paper, counted) =
        (Memory { latency_ps: 3, ..TICK }, Memory { latency_ps: 3, switch_accesses: 1, ..TICK });
    assert_eq!(attack(&counted, 600, &counted), [0, 0]);
    // By more than the uncounted accesses: a budget that expires before its job ends no longer
    // limits anything.
    let [beyond, by_more] = attack(&paper, 600, &counted);
    assert!(beyond > 0 && by_more > beyond / 2, "{beyond} {by_more}");
}

/// Budgets of one task, against trying them all; and growing a budget never helps any task.
#[test]
fn the_largest_budget_is_the_largest_and_budgets_are_monotone() {
    let mut random = Random::new(11);
    for _ in 0..300 {
        let tasks = random_tasks(&mut random, 2);
        for i in 0..tasks.len() {
            let fits = |b: u64| {
                let mut with = tasks.clone();
                with[i].budget = b;
                analyse(&with, &TICK).unwrap().is_ok()
            };
            let right: Vec<bool> = (0..60).map(fits).collect();
            assert!(right.windows(2).all(|w| w[0] || !w[1]), "not monotone: {tasks:?}");
            let last = right.iter().rposition(|&r| r).map(|b| b as u64);
            assert_eq!(largest_budget(&tasks, i, &TICK).unwrap(), last, "{tasks:?} {i}");
        }
    }
}

/// Both objectives against all vectors of budgets of small systems.
#[test]
fn largest_budgets_against_all_vectors() {
    let mut random = Random::new(13);
    let (mut cases, mut optimal, mut worst_share) = (0u32, 0u32, 1.0f64);
    while cases < 150 {
        let tasks: Vec<HardTask> = random_tasks(&mut random, 1).into_iter().take(3).collect();
        let Some(max_min) = largest_budgets(&tasks, &TICK, Objective::MaxMin).unwrap() else {
            continue;
        };
        let most = largest_budgets(&tasks, &TICK, Objective::TotalBandwidth).unwrap().unwrap();
        let with = |b: &[u64]| {
            let set: Vec<HardTask> =
                tasks.iter().zip(b).map(|(t, &budget)| HardTask { budget, ..*t }).collect();
            analyse(&set, &TICK).unwrap().is_ok()
        };
        let rate = |b: &[u64]| {
            tasks.iter().zip(b).map(|(t, &b)| b as f64 / t.period_ps as f64).sum::<f64>()
        };
        let (mut best_min, mut best_rate) = (0, 0.0f64);
        let side = 48u64;
        for code in 0..side.pow(u32::try_from(tasks.len()).unwrap()) {
            let b: Vec<u64> = (0..tasks.len())
                .map(|i| code / side.pow(u32::try_from(i).unwrap()) % side)
                .collect();
            let worth = b.iter().min().copied().unwrap_or(0) > best_min || rate(&b) > best_rate;
            if worth && with(&b) {
                best_min = best_min.max(b.iter().min().copied().unwrap_or(0));
                best_rate = best_rate.max(rate(&b));
            }
        }
        for found in [&max_min, &most] {
            assert!(with(found));
            for i in 0..found.len() {
                let mut more = found.clone();
                more[i] += 1;
                assert!(!with(&more), "{found:?} can grow at {i}: {tasks:?}");
            }
        }
        assert_eq!(max_min.iter().min().copied(), Some(best_min), "{tasks:?}");
        let limit = bandwidth_limit(&tasks, &TICK, 0).unwrap() / 1e12;
        assert!(best_rate <= limit + 1e-9, "{best_rate} {limit}");
        cases += 1;
        optimal += u32::from(rate(&most) >= best_rate - 1e-12);
        worst_share = worst_share.min((rate(&most) + 1e-12) / (best_rate + 1e-12));
    }
    println!(
        "total bandwidth: {optimal} of {cases} optimal, worst {worst_share:.3} of the optimum"
    );
    assert!(worst_share > 0.8);
}

#[test]
fn impossible_values_are_refused_and_extremes_have_no_bound() {
    let good = task(0, 1, 10, 10, 1, 1);
    assert!(analyse(&[], &TICK).is_err());
    assert!(analyse(&[good], &Memory { latency_ps: 0, ..TICK }).is_err());
    assert!(analyse(&[HardTask { period_ps: 0, ..good }], &TICK).is_err());
    assert!(analyse(&[HardTask { deadline_ps: 11, ..good }], &TICK).is_err());
    assert!(largest_budget(&[good], 1, &TICK).is_err());
    let huge = task(0, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    let memory = Memory { latency_ps: u64::MAX, switch_accesses: u64::MAX, ..TICK };
    assert_eq!(analyse(&[huge, huge], &memory).unwrap(), Err(0));
    assert_eq!(
        largest_budgets(&[huge, HardTask { core: 1, ..huge }], &memory, Objective::MaxMin).unwrap(),
        None
    );
    assert!(explain(&[huge], 0, &memory).unwrap().to_string().contains("no bound"));
    let all = explain_largest(&table_two(2), &TICK, Objective::MaxMin).unwrap().to_string();
    assert!(all.contains("B_0 = 8\n") && all.contains("B_1 = 29\n"), "{all}");
    assert_eq!(shares(7, 3), [3, 2, 2]);
    assert!(shares(7, 0).is_empty());
}
