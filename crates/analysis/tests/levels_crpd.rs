//! Cache-related preemption delays against a simulation with a direct-mapped cache: a resumed job
//! loads its evicted useful sets again. No response exceeds any of the bounds.

#[path = "support/gedf.rs"]
mod gedf;

use gedf::Draw as Random;
use solocore_analysis::SporadicTask;
use solocore_analysis::levels::crpd::{
    Approach, Footprint, caused, response_time, response_time_by,
};

#[derive(Clone, Copy, Default)]
struct Job {
    left: u64,
    release: u64,
    started: bool,
    /// Sets used by others since it last ran.
    evicted: u64,
}

/// Longest responses; one job per task at a time, as deadlines are constrained and met. None when
/// one is missed.
fn simulate(
    random: &mut Random,
    tasks: &[SporadicTask],
    prints: &[Footprint],
    block: u64,
    together: bool,
) -> Option<Vec<u64>> {
    let mut jobs = vec![Job::default(); tasks.len()];
    let mut next: Vec<u64> =
        tasks.iter().map(|t| if together { 0 } else { random.below(t.period) }).collect();
    let mut worst = vec![0; tasks.len()];
    let mut running = None;
    for now in 0..1_500 {
        for (i, task) in tasks.iter().enumerate() {
            if next[i] == now {
                if jobs[i].left > 0 {
                    return None;
                }
                jobs[i] = Job { left: task.wcet, release: now, ..Job::default() };
                next[i] = now + task.period + if together { 0 } else { random.below(3) };
            }
        }
        let chosen = jobs.iter().position(|job| job.left > 0);
        let Some(i) = chosen else { continue };
        if running != chosen {
            running = chosen;
            if jobs[i].started {
                let lost = (jobs[i].evicted & prints[i].useful[0]).count_ones();
                jobs[i].left += u64::from(lost) * block;
                jobs[i].evicted = 0;
            }
        }
        for (j, job) in jobs.iter_mut().enumerate() {
            if j != i {
                job.evicted |= prints[i].evicting[0];
            }
        }
        jobs[i].started = true;
        jobs[i].left -= 1;
        if jobs[i].left == 0 {
            worst[i] = worst[i].max(now + 1 - jobs[i].release);
        }
    }
    Some(worst)
}

#[test]
fn no_response_exceeds_a_bound() {
    let mut random = Random(21);
    let mut checked = [0; 5];
    let mut reached = [0; 5];
    for _ in 0..8_000 {
        let n = usize::try_from(random.below(3) + 2).unwrap();
        let mut tasks: Vec<SporadicTask> = (0..n)
            .map(|_| {
                let period = random.below(70) + 10;
                SporadicTask { wcet: random.below(period / 4) + 1, period, deadline: period }
            })
            .collect();
        tasks.sort_by_key(|t| t.period);
        let prints: Vec<Footprint> = (0..n)
            .map(|_| {
                let evicting =
                    random.below(256) & if random.below(2) == 0 { 255 } else { random.below(256) };
                Footprint { useful: vec![evicting & random.below(256)], evicting: vec![evicting] }
            })
            .collect();
        let block = random.below(3);
        let bounds = |i: usize| {
            let mut all: Vec<Option<u64>> = Approach::ALL
                .iter()
                .map(|&a| response_time_by(&tasks, &prints, i, block, a))
                .collect();
            all.push(response_time(&tasks, &prints, i, block));
            all
        };
        let all: Vec<_> = (0..n).map(bounds).collect();
        for together in [true, false] {
            let Some(worst) = simulate(&mut random, &tasks, &prints, block, together) else {
                assert!(
                    all.iter().any(|bounds| bounds[4].is_none()),
                    "missed: {tasks:?} {prints:?}"
                );
                continue;
            };
            for (i, bounds) in all.iter().enumerate() {
                // Bounds of a task hold if those above it meet their deadlines, as the simulation
                // checked.
                for (k, bound) in bounds.iter().enumerate() {
                    if let Some(bound) = bound {
                        assert!(
                            worst[i] <= *bound,
                            "{k}: {} > {bound} for {i}: {tasks:?} {prints:?}",
                            worst[i]
                        );
                        checked[k] += 1;
                        reached[k] += u32::from(worst[i] == *bound && i > 1 && block > 0);
                    }
                }
            }
        }
    }
    assert!(
        checked.iter().all(|&n| n > 5_000) && reached[2..].iter().all(|&n| n > 20),
        "{checked:?} {reached:?}"
    );
}

/// The plain reload time of Table 3 is never less than the cost by sets.
#[test]
fn a_reload_time_per_task_covers_its_sets() {
    let mut random = Random(22);
    for _ in 0..20_000 {
        let prints: Vec<Footprint> = (0..4)
            .map(|_| {
                let evicting = random.below(1 << 16);
                Footprint {
                    useful: vec![evicting & random.below(1 << 16)],
                    evicting: vec![evicting],
                }
            })
            .collect();
        let reload: Vec<u64> = prints.iter().map(|p| u64::from(p.useful[0].count_ones())).collect();
        for i in 1..4 {
            for j in 0..i {
                let simple = caused(reload[j + 1..=i].iter().copied());
                let sets =
                    |a| solocore_analysis::levels::crpd::lost_sets(&prints, i, j, a).unwrap();
                assert_eq!(sets(Approach::Useful), simple);
                assert!(
                    sets(Approach::EvictingUnion) <= simple
                        && sets(Approach::UsefulUnion) <= sets(Approach::Evicting)
                );
            }
        }
    }
}
