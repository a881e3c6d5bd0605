//! Speed of the tests of global EDF and of exact tardiness: task sets per second, one thread.
//!
//! `cargo bench -p solocore-analysis --bench multiprocessor`. Sets: 20 tasks, 4 cores, U = 2.6
//! (UUniFast, redrawn while a share exceeds 1), periods log-uniform in 10 ms to 1 s in
//! microseconds, implicit deadlines; then the same with deadlines drawn between C and T.

use solocore_analysis::multiprocessor::tardiness::{PriorityPoint, bounds};
use solocore_analysis::multiprocessor::{bar, bcl, bcl_iterative, ffdbf, gedf, gfb, response};
use solocore_analysis::{SporadicTask, TaskSet};
use std::time::Instant;

const SETS: usize = 2000;

struct Draw(u64);

impl Draw {
    /// Uniform in 0..1.
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / 2f64.powi(53)
    }

    /// UUniFast: `count` shares that sum to `total`, none above 1.
    fn shares(&mut self, count: i32, total: f64) -> Vec<f64> {
        loop {
            let (mut left, mut shares) = (total, Vec::new());
            for rest in (1..count).rev() {
                let next = left * self.unit().powf(1.0 / f64::from(rest));
                shares.push(left - next);
                left = next;
            }
            shares.push(left);
            if shares.iter().all(|share| *share <= 1.0) {
                return shares;
            }
        }
    }
}

fn sets(total: f64, constrained: bool) -> Vec<TaskSet> {
    let mut draw = Draw(20);
    let mut set = || {
        let task = |(share, position, tightness): (f64, f64, f64)| {
            let period = (10_000.0 * 100f64.powf(position)) as u64;
            let wcet = ((period as f64 * share) as u64).max(1);
            let room = ((period - wcet) as f64 * tightness) as u64;
            SporadicTask { wcet, period, deadline: if constrained { wcet + room } else { period } }
        };
        let shares = draw.shares(20, total);
        let tasks =
            shares.into_iter().map(|share| task((share, draw.unit(), draw.unit()))).collect();
        TaskSet { cores: 4, tasks }
    };
    (0..SETS).map(|_| set()).collect()
}

/// Prints sets per second and the share of positive answers. Chunks are timed separately, each at
/// its best of several passes: on a shared machine a long pass is always interrupted.
fn time(name: &str, sets: &[TaskSet], judge: impl Fn(&TaskSet) -> bool) {
    let (mut total, mut positive) = (0.0, 0);
    for chunk in sets.chunks(50) {
        let (mut best, mut yes) = (f64::INFINITY, 0);
        for _ in 0..8 {
            let start = Instant::now();
            yes = chunk.iter().filter(|set| judge(std::hint::black_box(set))).count();
            best = best.min(start.elapsed().as_secs_f64());
        }
        total += best;
        positive += yes;
    }
    let share = positive as f64 * 100.0 / sets.len() as f64;
    println!("{name:<28} {:>12.0} sets/s   {share:>5.1} % yes", sets.len() as f64 / total);
}

fn main() {
    for (total, constrained) in [(2.6, false), (2.0, false), (2.6, true), (1.6, true)] {
        let sets = sets(total, constrained);
        println!(
            "20 tasks, 4 cores, U = {total}, {} deadlines",
            if constrained { "constrained" } else { "implicit" }
        );
        time("  gfb", &sets, |set| gfb::schedulable(set) == Ok(true));
        time("  bcl", &sets, |set| bcl::schedulable(set) == Ok(true));
        time("  bcl_iterative", &sets, |set| bcl_iterative::schedulable(set) == Ok(true));
        time("  response", &sets, |set| response::schedulable(set) == Ok(true));
        time("  bar", &sets, |set| bar::schedulable(set) == Ok(true));
        time("  ffdbf", &sets, |set| ffdbf::schedulable(set) == Ok(true));
        time("  gedf (all of them)", &sets, |set| gedf::schedulable(set) == Ok(true));
        time("  gedf with responses", &sets, |set| gedf::answer(set).is_ok_and(|a| a.by.is_some()));
        time("  tardiness, exact, GEDF", &sets, |set| {
            bounds(set, PriorityPoint::Deadline).is_ok_and(|b| b.is_some())
        });
        time("  tardiness, exact, G-FL", &sets, |set| {
            bounds(set, PriorityPoint::FairLateness).is_ok_and(|b| b.is_some())
        });
    }
}
