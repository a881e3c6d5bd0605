//! Level C against a simulation: global EDF in unit steps on cores that levels A and B take away at
//! times of their choosing. Tardiness never exceeds the bound; the sharp form admits more than the
//! coarse one; extremes never pass by overflow.

#[path = "support/gedf.rs"]
mod gedf;

use gedf::Draw as Random;
use solocore_analysis::levels::{
    AnalysedCore, CoreVerdict, Form, Interrupt, LevelCVerdict, LevelsTask, Noise, Overheads, Pets,
    Verdict, explain, level_b, level_c, overheads::PreemptionCentric, tardiness, verdict,
};

fn task(period: u64, cost: u64) -> LevelsTask {
    LevelsTask { period, pets: Pets { a: cost, b: cost, c: cost } }
}

fn index(time: u64) -> usize {
    usize::try_from(time).unwrap()
}

/// Times at which A and B take a core, over `length`. Each job lies in its period: early, late, or
/// by turns late and early.
fn taken(random: &mut Random, tasks: &[LevelsTask], length: u64) -> Vec<bool> {
    let mut busy = vec![false; index(length)];
    let style = random.below(4);
    for task in tasks {
        for k in 0..length / task.period {
            let mut free: Vec<usize> = (index(k * task.period)..index((k + 1) * task.period))
                .filter(|&at| !busy[at])
                .collect();
            if style == 1 || (style == 2 && k % 2 == 0) || (style == 3 && random.below(2) == 0) {
                free.reverse();
            }
            free.iter().take(index(task.pets.c)).for_each(|&at| busy[at] = true);
        }
    }
    busy
}

/// Largest tardiness of each task of level C under global EDF, ties by index.
fn simulate(
    random: &mut Random,
    taken: &[Vec<bool>],
    c: &[LevelsTask],
    sporadic: bool,
    length: u64,
) -> Vec<u64> {
    // Per task: pending jobs as (deadline, time left).
    let mut pending: Vec<std::collections::VecDeque<(u64, u64)>> =
        vec![Default::default(); c.len()];
    let mut next: Vec<u64> =
        c.iter().map(|t| if sporadic { random.below(t.period) } else { 0 }).collect();
    let mut worst = vec![0; c.len()];
    for now in 0..length {
        for (i, task) in c.iter().enumerate() {
            if next[i] == now {
                let cost = if sporadic && random.below(3) == 0 {
                    random.below(task.pets.c) + 1
                } else {
                    task.pets.c
                };
                pending[i].push_back((now + task.period, cost));
                next[i] = now
                    + task.period
                    + if sporadic { random.below(4) / 3 * random.below(5) } else { 0 };
            }
        }
        let available = taken.iter().filter(|core| !core[index(now)]).count();
        let mut order: Vec<usize> = (0..c.len()).filter(|&i| !pending[i].is_empty()).collect();
        order.sort_by_key(|&i| (pending[i][0].0, i));
        for &i in order.iter().take(available) {
            pending[i][0].1 -= 1;
            if pending[i][0].1 == 0 {
                let deadline = pending[i][0].0;
                worst[i] = worst[i].max((now + 1).saturating_sub(deadline));
                pending[i].pop_front();
            }
        }
        // A job that is still late counts as it is.
        for (i, jobs) in pending.iter().enumerate() {
            if let Some(job) = jobs.front() {
                worst[i] = worst[i].max((now + 1).saturating_sub(job.0));
            }
        }
    }
    worst
}

struct Drawn {
    cores: Vec<Vec<LevelsTask>>,
    c: Vec<LevelsTask>,
}

/// Two to four cores, some with tasks of A and B, and tasks of level C up to all of the remaining
/// time.
fn draw(random: &mut Random) -> Drawn {
    let m = random.below(3) + 2;
    let cores: Vec<Vec<LevelsTask>> = (0..m)
        .map(|_| {
            let period = 1 << (random.below(4) + 2);
            match random.below(4) {
                0 | 1 => vec![],
                2 => vec![task(period, random.below(period) + 1)],
                _ => vec![
                    task(period, random.below(period / 2) + 1),
                    task(2 * period, random.below(period) + 1),
                ],
            }
        })
        .collect();
    let n = random.below(8) + 1;
    let mut c = Vec::new();
    let left = |c: &[LevelsTask]| {
        let used = |tasks: &[LevelsTask]| {
            tasks.iter().map(|t| t.pets.c as f64 / t.period as f64).sum::<f64>()
        };
        m as f64 - cores.iter().map(|tasks| used(tasks)).sum::<f64>() - used(c)
    };
    for _ in 0..n {
        let period = [4, 5, 6, 8, 10, 12, 15, 20][index(random.below(8))];
        let most = (left(&c).min(1.0) * period as f64 + 1e-9) as u64;
        if most > 0 {
            let cost = if random.below(3) == 0 { most } else { random.below(most) + 1 };
            c.push(task(period, cost));
        }
    }
    Drawn { cores, c }
}

fn views(cores: &[Vec<LevelsTask>]) -> Vec<AnalysedCore<'_>> {
    cores.iter().map(|b| AnalysedCore { b, ..AnalysedCore::default() }).collect()
}

#[test]
fn tardiness_is_never_above_its_bound() {
    let mut random = Random(7);
    let (mut bounded, mut late, mut nearest) = (0, 0, 0.0f64);
    for _ in 0..6_000 {
        let drawn = draw(&mut random);
        let cores = views(&drawn.cores);
        let Some(bound) = tardiness(&cores, &drawn.c) else { continue };
        assert!(
            cores
                .iter()
                .all(|core| level_b(core.a, core.b, &core.noise) == CoreVerdict::Schedulable)
        );
        bounded += 1;
        for sporadic in [false, true] {
            let length = 600;
            let busy: Vec<Vec<bool>> =
                drawn.cores.iter().map(|tasks| taken(&mut random, tasks, length)).collect();
            // The last period of a core that does not end with `length` is left free.
            let worst = simulate(&mut random, &busy, &drawn.c, sporadic, length);
            for (task, worst) in drawn.c.iter().zip(&worst) {
                let bound = bound.of(task).unwrap();
                assert!(
                    *worst <= bound,
                    "{worst} > {bound} for {task:?}: {:?} {:?}",
                    drawn.cores,
                    drawn.c
                );
                late += u32::from(*worst > 0);
                nearest = nearest.max(*worst as f64 / bound as f64);
            }
        }
    }
    println!("{bounded} systems, {late} late tasks, nearest {nearest:.3} of the bound");
    assert!(bounded > 1_000 && late > 1_000);
}

/// Global EDF with a kernel that costs: a section before a job runs on another core or again, one
/// after it, the reload of the preempted job, and interrupts on core 0, which delay the job there
/// without moving it.
struct Kernel<'a> {
    overheads: Overheads,
    devices: &'a [Interrupt],
    reload: u64,
}

impl Kernel<'_> {
    /// Largest tardiness of each task, all jobs with their full costs. `taken` as in [`simulate`];
    /// core 0 is never taken.
    fn simulate(
        &self,
        random: &mut Random,
        taken: &[Vec<bool>],
        c: &[LevelsTask],
        length: u64,
    ) -> Vec<u64> {
        let section = self.overheads.schedule + self.overheads.switch;
        let mut pending: Vec<std::collections::VecDeque<(u64, u64)>> =
            vec![Default::default(); c.len()];
        let mut next: Vec<u64> =
            c.iter().map(|t| random.below(2) * random.below(t.period)).collect();
        let mut core_of: Vec<Option<usize>> = vec![None; c.len()];
        let mut begun = vec![false; c.len()];
        let mut arrival: Vec<u64> = self.devices.iter().map(|d| random.below(d.period)).collect();
        let (mut worst, mut backlog) = (vec![0; c.len()], 0);
        for now in 0..length {
            for ((task, at), jobs) in
                c.iter().zip(&mut next).zip(&mut pending).filter(|((_, at), _)| **at == now)
            {
                jobs.push_back((now + task.period, task.pets.c + section));
                *at += task.period + random.below(4) / 3;
            }
            for (device, at) in self.devices.iter().zip(&mut arrival).filter(|(_, at)| **at == now)
            {
                backlog += device.cost;
                *at += device.period;
            }
            let free = |core: usize| !taken[core][index(now)];
            let mut order: Vec<usize> = (0..c.len()).filter(|&i| !pending[i].is_empty()).collect();
            order.sort_by_key(|&i| (pending[i][0].0, i));
            order.truncate((0..taken.len()).filter(|&core| free(core)).count());
            // A job that is no longer chosen, or that loses its core, is preempted.
            for (i, core) in core_of.iter_mut().enumerate() {
                *core = core.filter(|&core| order.contains(&i) && free(core));
            }
            for &i in &order {
                if core_of[i].is_none() {
                    core_of[i] =
                        (0..taken.len()).find(|&core| free(core) && !core_of.contains(&Some(core)));
                    pending[i][0].1 += section + if begun[i] { self.reload } else { 0 };
                    begun[i] = true;
                }
                if core_of[i] == Some(0) && backlog > 0 {
                    continue;
                }
                pending[i][0].1 -= 1;
                // A job that ends in this unit is as late as at its end.
                worst[i] = worst[i].max((now + 1).saturating_sub(pending[i][0].0));
                if pending[i][0].1 == 0 {
                    pending[i].pop_front();
                    (begun[i], core_of[i]) = (false, None);
                }
            }
            backlog = u64::saturating_sub(backlog, 1);
            for (i, jobs) in pending.iter().enumerate() {
                worst[i] =
                    worst[i].max(jobs.front().map_or(0, |job| (now + 1).saturating_sub(job.0)));
            }
        }
        worst
    }
}

#[test]
fn charged_costs_keep_the_bound() {
    let mut random = Random(10);
    let (mut bounded, mut late) = (0, 0);
    for _ in 0..12_000 {
        let m = random.below(2) + 2;
        let overheads = Overheads {
            schedule: random.below(2),
            switch: random.below(2),
            ..Overheads::default()
        };
        let devices: Vec<Interrupt> = (0..random.below(3))
            .map(|_| Interrupt {
                cost: random.below(4) + 1,
                period: random.below(30) + 12,
                jitter: 0,
            })
            .collect();
        let kernel = Kernel { overheads, devices: &devices, reload: random.below(3) };
        let accounting = PreemptionCentric::new(&devices).unwrap();
        let charge = |t: &LevelsTask| overheads.global(t, 1, kernel.reload, &accounting).unwrap();
        let plain: Vec<Vec<LevelsTask>> = (0..m)
            .map(|core| {
                if core == 0 || random.below(2) == 0 {
                    vec![]
                } else {
                    vec![task(40, random.below(16) + 1)]
                }
            })
            .collect();
        let mut c: Vec<LevelsTask> = Vec::new();
        let charged: Vec<Vec<LevelsTask>> =
            plain.iter().map(|tasks| tasks.iter().map(charge).collect()).collect();
        let bound = |c: &[LevelsTask]| {
            tardiness(&views(&charged), &c.iter().map(charge).collect::<Vec<_>>())
        };
        for _ in 0..random.below(8) + m {
            let period = [20, 24, 30, 40, 60][index(random.below(5))];
            c.push(task(period, random.below(period * 2 / 3) + 1));
            if bound(&c).is_none() {
                c.pop();
            }
        }
        let Some(bound) = bound(&c) else { continue };
        bounded += 1;
        let busy: Vec<Vec<bool>> =
            plain.iter().map(|tasks| taken(&mut random, tasks, 800)).collect();
        for (task, worst) in c.iter().zip(kernel.simulate(&mut random, &busy, &c, 800)) {
            let bound = bound.of(&charge(task)).unwrap();
            assert!(
                worst <= bound,
                "{worst} > {bound} for {task:?}: {plain:?} {c:?} {overheads:?} {devices:?}"
            );
            late += u32::from(worst > 0);
        }
    }
    assert!(bounded > 5_000 && late > 1_000, "{bounded} {late}");
}

#[test]
fn sharp_admits_whatever_coarse_admits() {
    let mut random = Random(8);
    let (mut coarse_only, mut sharp_only) = (0, 0);
    for _ in 0..20_000 {
        let drawn = draw(&mut random);
        let cores = views(&drawn.cores);
        let holds = |form| level_c(&cores, &drawn.c, form) == LevelCVerdict::Bounded;
        match (holds(Form::Coarse), holds(Form::Sharp)) {
            (true, false) => coarse_only += 1,
            (false, true) => sharp_only += 1,
            _ => {}
        }
    }
    assert_eq!(coarse_only, 0);
    assert!(sharp_only > 1_000, "{sharp_only}");
}

/// The condition in whole numbers over a common denominator, and `m - 1` by sorting.
#[test]
fn conditions_agree_with_common_denominators() {
    let mut random = Random(9);
    let scale = 1_u64 << 6;
    let scale = scale * 15;
    let units = |t: &LevelsTask| {
        assert!((t.pets.c * scale).is_multiple_of(t.period));
        t.pets.c * scale / t.period
    };
    for _ in 0..50_000 {
        let mut drawn = draw(&mut random);
        // Sometimes too much.
        if random.below(3) == 0 {
            let period = 4 << random.below(3);
            drawn.c.push(task(period, random.below(period) + 1));
        }
        drawn.c.iter_mut().for_each(|t| {
            if t.period == 0 {
                t.period = 1
            }
        });
        let m = drawn.cores.len();
        let limit = m as u64 * scale;
        let higher: u64 = drawn.cores.iter().flatten().map(units).sum();
        let mut shares: Vec<u64> = drawn.c.iter().map(units).collect();
        shares.sort_unstable_by(|x, y| y.cmp(x));
        let heavy: u64 = shares.iter().take(m - 1).sum();
        let partial = drawn.cores.iter().filter(|tasks| !tasks.is_empty()).count() as u64;
        let fits = drawn.cores.iter().all(|tasks| tasks.iter().map(units).sum::<u64>() <= scale);
        let cores = views(&drawn.cores);
        for (form, times) in
            [(Form::Coarse, m as u64 - 1), (Form::Sharp, partial.saturating_sub(1))]
        {
            let expected = if !fits || higher + shares.iter().sum::<u64>() > limit {
                LevelCVerdict::Overload
            } else if shares.is_empty() || higher + times * shares[0] + heavy < limit {
                LevelCVerdict::Bounded
            } else {
                LevelCVerdict::Unproved
            };
            assert_eq!(
                level_c(&cores, &drawn.c, form),
                expected,
                "{:?} {:?}",
                drawn.cores,
                drawn.c
            );
        }
    }
}

#[test]
fn full_supply_gives_devi_and_anderson_without_its_last_term() {
    let c = [task(3, 2), task(3, 2), task(3, 2)];
    let none: [Vec<LevelsTask>; 2] = [vec![], vec![]];
    // K / (m - H) = 2/(2 - 2/3) = 1.5, rounded up.
    assert_eq!(tardiness(&views(&none), &c).unwrap().x, 2);
    // U = m and still bounded; one unit more is an overload.
    assert_eq!(level_c(&views(&none), &c, Form::Sharp), LevelCVerdict::Bounded);
    let more = [c[0], c[1], c[2], task(u64::MAX, 1)];
    assert_eq!(level_c(&views(&none), &more, Form::Sharp), LevelCVerdict::Overload);
}

#[test]
fn equality_is_not_bounded() {
    // One core taken by half, one free: 1/2 + H = 1/2 + 1 < 2 holds; with both taken by half, 1 +
    // 1*h + H = 2 does not.
    let half = vec![task(4, 2)];
    let c = [task(4, 2), task(4, 2)];
    assert_eq!(level_c(&views(&[half.clone(), vec![]]), &c, Form::Sharp), LevelCVerdict::Bounded);
    assert_eq!(level_c(&views(&[half.clone(), half]), &c, Form::Sharp), LevelCVerdict::Unproved);
}

#[test]
fn extremes_never_pass_by_overflow() {
    let max = u64::MAX;
    let values = [0, 1, 2, max / 2, max - 1, max];
    let mut tasks = Vec::new();
    for period in values {
        for cost in values {
            tasks.push(task(period, cost));
        }
    }
    let mut random = Random(11);
    for _ in 0..20_000 {
        let mut pick = |n: u64| -> Vec<LevelsTask> {
            (0..random.below(n + 1))
                .map(|_| tasks[index(random.below(tasks.len() as u64))])
                .collect()
        };
        let (a, b, mut c) = (pick(2), pick(3), pick(4));
        let device = [Interrupt { cost: max, period: 1, jitter: max }];
        let noise =
            Noise { interrupts: &device[..usize::from(c.len() > 2)], blocking: c.len() as u64 };
        let cores = vec![AnalysedCore { a: &a, b: &b, noise }; c.len() % 3];
        let used = |tasks: &[LevelsTask]| {
            tasks.iter().map(|t| t.pets.c as f64 / t.period as f64).sum::<f64>()
        };
        let found = verdict(&cores, &c, Form::Sharp);
        let bound = tardiness(&cores, &c);
        let _ = explain(&cores, &c).to_string();
        if found == Verdict::Schedulable {
            assert!(used(&a) + used(&b) <= 1.0 + 1e-9, "{a:?} {b:?}");
            assert!(
                (used(&a) + used(&b)) * cores.len() as f64 + used(&c) <= cores.len() as f64 + 1e-9
            );
            // Large costs cannot have a small bound.
            c.sort_by_key(|t| t.pets.c);
            if let (Some(bound), true) = (bound, cores.len() > 1) {
                assert!(c.last().is_none_or(|t| bound.x >= t.pets.c / 4), "{bound:?} {c:?}");
            }
        }
    }
}

#[test]
fn explained_verdicts_name_every_level() {
    let (a, b, c) = ([task(10, 2)], [task(20, 8)], [task(15, 6), task(30, 10)]);
    let cores = [AnalysedCore { a: &a, b: &b, ..AnalysedCore::default() }, AnalysedCore::default()];
    assert_eq!(verdict(&cores, &c, Form::Coarse), Verdict::Schedulable);
    let text = explain(&cores, &c).to_string();
    for line in ["hyperperiod = 10", "sum U_k = 0.6", "f = 0", "K = 10", "result: yes"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
