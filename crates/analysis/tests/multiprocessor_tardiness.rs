//! Attacks on the tardiness bounds: no simulated response exceeds its bound, on whole cores and on
//! cores with a part taken by higher levels; known relations between the bounds; extreme numbers.

#[path = "support/gedf.rs"]
mod gedf;

use gedf::{Deadlines, Draw, Releases, attack, random_set, set};
use solocore_analysis::multiprocessor::restricted::{self, CoreSupply};
use solocore_analysis::multiprocessor::tardiness::{self, Bounds, PriorityPoint};
use solocore_analysis::{SporadicTask, TaskSet, TaskSetError};

fn bounds(set: &TaskSet, point: PriorityPoint) -> Option<Bounds> {
    tardiness::bounds(set, point).ok().flatten()
}

/// Raises execution times until the cores are nearly full: tardiness shows only there.
fn fill(draw: &mut Draw, set: &mut TaskSet, percent: u64) {
    for _ in 0..200 {
        let i = draw.below(set.tasks.len() as u64) as usize;
        let t = &mut set.tasks[i];
        if t.wcet < t.period.min(t.deadline) {
            t.wcet += 1;
            let used: f64 = set.tasks.iter().map(SporadicTask::utilization).sum();
            if used > f64::from(set.cores) * percent as f64 / 100.0 {
                set.tasks[i].wcet -= 1;
            }
        }
    }
}

/// A set with times multiplied by the number of cores, so that G-FL's priority points are integers.
fn draw_set(draw: &mut Draw, round: u64) -> TaskSet {
    let cores = 1 + draw.below(4) as u32;
    let tasks = cores as usize + 1 + draw.below(4) as usize;
    let deadlines =
        [Deadlines::Implicit, Deadlines::Implicit, Deadlines::Constrained, Deadlines::Arbitrary]
            [(round % 4) as usize];
    let longest = [3, 6, 15][draw.below(3) as usize];
    let mut set = random_set(draw, cores, tasks, longest, deadlines);
    fill(draw, &mut set, 100);
    gedf::finer(&set, u64::from(cores))
}

/// Priority points relative to releases; `C` is a multiple of `m`. G-FL's are shifted by a constant
/// to stay positive.
fn points(set: &TaskSet, point: PriorityPoint) -> Vec<u64> {
    let m = u64::from(set.cores);
    let shift = set.tasks.iter().map(|t| t.wcet).max().unwrap_or(0);
    let relative = |t: &SporadicTask| match point {
        PriorityPoint::Deadline => t.deadline,
        PriorityPoint::FairLateness => t.deadline + shift - (m - 1) * (t.wcet / m),
    };
    set.tasks.iter().map(relative).collect()
}

#[test]
fn no_response_exceeds_its_bound() {
    let mut draw = Draw(11);
    let (mut judged, mut tight) = (0u32, 0u32);
    for round in 0..6000u64 {
        let set = draw_set(&mut draw, round);
        let closed = tardiness::devi_anderson(&set).ok().flatten();
        for point in [PriorityPoint::Deadline, PriorityPoint::FairLateness] {
            let Some(bounds) = bounds(&set, point) else { continue };
            judged += 1;
            let order = points(&set, point);
            let mut met = false;
            attack(&mut draw, &set, 16, |releases: &Releases| {
                let seen = gedf::responses(&set, &order, releases, &|_| set.cores);
                for (i, worst) in seen.iter().enumerate() {
                    assert!(
                        *worst <= bounds.response[i],
                        "{point:?} task {i}: {worst} > {bounds:?} in {set:?}"
                    );
                    met |= *worst == bounds.response[i];
                    if let (Some(closed), PriorityPoint::Deadline) = (&closed, point) {
                        assert!(
                            *worst <= closed.response[i],
                            "closed form, task {i}: {worst} > {closed:?} in {set:?}"
                        );
                    }
                }
            });
            tight += u32::from(met);
        }
    }
    assert!(judged > 5000 && tight > 50, "{judged} {tight}");
}

#[test]
fn a_single_core_and_few_tasks() {
    // On one core, implicit deadlines: EDF meets them all.
    let one = set(1, &[(1, 2, 2), (1, 3, 3), (1, 6, 6)]);
    assert_eq!(bounds(&one, PriorityPoint::Deadline).map(|b| b.tardiness), Some(vec![0, 0, 0]));
    assert_eq!(
        tardiness::devi_anderson(&one).ok().flatten().map(|b| b.tardiness),
        Some(vec![0, 0, 0])
    );
    let alone = set(4, &[(5, 5, 5)]);
    assert_eq!(bounds(&alone, PriorityPoint::Deadline).map(|b| b.response), Some(vec![5]));
}

#[test]
fn preconditions_are_exact() {
    let over = set(2, &[(2, 3, 3), (2, 3, 3), (2, 3, 3), (1, u64::MAX, u64::MAX)]);
    assert_eq!(
        tardiness::bounds(&over, PriorityPoint::Deadline),
        Err(TaskSetError::Utilization { cores: 2 })
    );
    let full = set(2, &[(2, 3, 3), (2, 3, 3), (2, 3, 3)]);
    assert_eq!(bounds(&full, PriorityPoint::Deadline).map(|b| b.tardiness), Some(vec![2, 2, 2]));
    assert_eq!(
        tardiness::bounds(&set(2, &[(4, 3, 3)]), PriorityPoint::Deadline),
        Err(TaskSetError::Overload { task: 0, wcet: 4, period: 3 })
    );
}

#[test]
fn fair_lateness_lowers_the_largest_lateness() {
    let mut draw = Draw(12);
    for _ in 0..3000 {
        let mut set = random_set(&mut draw, 3, 6, 40, Deadlines::Implicit);
        fill(&mut draw, &mut set, 100);
        let (Some(edf), Some(fair)) =
            (bounds(&set, PriorityPoint::Deadline), bounds(&set, PriorityPoint::FairLateness))
        else {
            continue;
        };
        let lateness = |b: &Bounds| {
            b.response
                .iter()
                .zip(&set.tasks)
                .map(|(r, t)| i128::from(*r) - i128::from(t.deadline))
                .max()
        };
        assert!(lateness(&fair) <= lateness(&edf), "{set:?}");
    }
}

/// Higher levels as periodic tasks of highest priority, one per core at most, each with its own
/// phase.
struct Higher {
    tasks: Vec<Option<SporadicTask>>,
    phases: Vec<u64>,
}

impl Higher {
    fn draw(draw: &mut Draw, cores: u32) -> Self {
        let task = |draw: &mut Draw| {
            let period = draw.within(2, 12);
            let wcet = draw.within(1, period / 2);
            (draw.below(3) > 0).then_some(SporadicTask { wcet, period, deadline: period })
        };
        let tasks: Vec<_> = (0..cores).map(|_| task(draw)).collect();
        let phases = tasks.iter().map(|_| draw.below(12)).collect();
        Self { tasks, phases }
    }

    fn supplies(&self) -> Vec<CoreSupply> {
        self.tasks
            .iter()
            .map(|t| {
                t.map_or(CoreSupply::full(), |t| {
                    CoreSupply::left_by(&[t]).unwrap_or(CoreSupply { rate: 0, late: 0 })
                })
            })
            .collect()
    }

    /// Cores left at `time`: jobs run at the start of even periods and at the end of odd ones, two
    /// in a row.
    fn available(&self, time: u64) -> u32 {
        let busy = |(task, phase): (&Option<SporadicTask>, &u64)| {
            task.is_some_and(|t| {
                let (round, within) = ((time + phase) / t.period, (time + phase) % t.period);
                if round % 2 == 0 { within < t.wcet } else { within >= t.period - t.wcet }
            })
        };
        self.tasks.iter().zip(&self.phases).map(|x| u32::from(!busy(x))).sum()
    }
}

#[test]
fn no_response_exceeds_its_bound_with_reduced_supply() {
    let mut draw = Draw(13);
    let mut judged = 0u32;
    for round in 0..20_000u64 {
        let cores = 1 + draw.below(3) as u32;
        let tasks = 2 + draw.below(5) as usize;
        let deadlines = if round % 3 == 0 { Deadlines::Arbitrary } else { Deadlines::Implicit };
        let mut set = random_set(&mut draw, cores, tasks, 14, deadlines);
        let percent = 30 + draw.below(60);
        fill(&mut draw, &mut set, percent);
        let higher = Higher::draw(&mut draw, cores);
        let supplies = higher.supplies();
        let bounds = restricted::bounds(&set, &supplies, PriorityPoint::Deadline).ok().flatten();
        assert_eq!(bounds.is_some(), restricted::bounded(&set, &supplies) == Ok(true));
        let Some(bounds) = bounds else { continue };
        judged += 1;
        let order = points(&set, PriorityPoint::Deadline);
        attack(&mut draw, &set, 6, |releases| {
            let seen = gedf::responses(&set, &order, releases, &|time| higher.available(time));
            for (i, worst) in seen.iter().enumerate() {
                assert!(
                    *worst <= bounds.response[i],
                    "task {i}: {worst} > {bounds:?} in {set:?} on {supplies:?}"
                );
            }
        });
    }
    assert!(judged > 1000, "{judged}");
}

#[test]
fn supply_left_by_higher_levels_holds_in_every_interval() {
    for period in 1..=8u64 {
        for wcet in 1..=period {
            let task = SporadicTask { wcet, period, deadline: period };
            let Some(supply) = CoreSupply::left_by(&[task]) else { panic!("{task:?}") };
            // The densest pattern: a job at the very end of its period, the others as early as
            // possible.
            for length in 1..=5 * period {
                let early = length.saturating_sub(wcet);
                let taken = length.min(wcet) + early / period * wcet + (early % period).min(wcet);
                let promised =
                    (supply.rate as f64 / 2f64.powi(64)) * length as f64 - supply.late as f64;
                assert!((length - taken) as f64 >= promised, "{task:?} in {length}");
            }
        }
    }
}

#[test]
fn level_c_condition() {
    // Two cores, A and B take half of each: 1 + (m - 1)*h + H < 2 needs h < 1/2.
    let half = SporadicTask { wcet: 1, period: 2, deadline: 2 };
    let supply = CoreSupply::left_by(&[half]).map(|s| vec![s; 2]).unwrap_or_default();
    assert_eq!(restricted::bounded(&set(2, &[(9, 20, 20), (1, 2000, 2000)]), &supply), Ok(true));
    assert_eq!(restricted::bounded(&set(2, &[(10, 20, 20), (1, 2000, 2000)]), &supply), Ok(false));
    assert_eq!(
        restricted::bounded(&set(2, &[(1, 20, 20)]), &supply[..1]),
        Ok(false),
        "one supply per core"
    );
}

#[test]
fn extreme_numbers_do_not_panic_or_wrap() {
    let mut draw = Draw(14);
    for _ in 0..5000 {
        let cores = [1, 2, 3, 1 << 16, u32::MAX][draw.below(5) as usize];
        let tasks = (0..1 + draw.below(6)).map(|_| {
            let period = (u64::MAX >> draw.below(64)).max(1);
            let wcet = ((u64::MAX >> draw.below(64)) % period).max(1);
            SporadicTask { wcet, period, deadline: (u64::MAX >> draw.below(64)).max(1) }
        });
        let set = TaskSet { cores, tasks: tasks.collect() };
        for point in [PriorityPoint::Deadline, PriorityPoint::FairLateness] {
            if let Some(bounds) = bounds(&set, point) {
                assert!(
                    bounds.response.iter().zip(&set.tasks).all(|(r, t)| *r >= t.wcet),
                    "{set:?} {bounds:?}"
                );
            }
            let _ = tardiness::bounds_explained(&set, point);
        }
        let _ = tardiness::devi_anderson(&set);
        let supplies = vec![
            CoreSupply { rate: 1 << 63, late: u64::MAX >> draw.below(64) };
            set.cores.min(3) as usize
        ];
        let _ = restricted::bounds_explained(&set, &supplies, PriorityPoint::FairLateness);
    }
}
