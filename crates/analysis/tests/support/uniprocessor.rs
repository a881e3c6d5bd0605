//! Random task sets, and one core simulated unit by unit.

#![allow(dead_code, reason = "each test file uses its part")]

use solocore_analysis::SporadicTask;

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `end`, without `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// In 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Up to `most` tasks with periods up to `longest`, in any order, of a utilisation mostly below 1.
pub fn random_set(random: &mut Random, most: u64, longest: u64) -> Vec<SporadicTask> {
    let count = 1 + random.below(most);
    let task = |_| {
        let period = 1 + random.below(longest);
        let share = 1 + 2 * period / count;
        let wcet = (1 + random.below(share)).min(period);
        SporadicTask { wcet, period, deadline: period }
    };
    (0..count).map(task).collect()
}

/// Rate-monotonic, utilisation 0.7 to 0.95, periods log-uniform in 10 ms to 1 s, in ns.
pub fn nanosecond_set(random: &mut Random, count: usize) -> Vec<SporadicTask> {
    let mut rest = 0.7 + 0.25 * random.unit();
    let mut tasks = Vec::new();
    for left in (0..count).rev() {
        let next = if left == 0 { 0.0 } else { rest * random.unit().powf(1.0 / left as f64) };
        let period = (1e7 * 100f64.powf(random.unit())) as u64;
        tasks.push(SporadicTask {
            wcet: (((rest - next) * period as f64) as u64).max(1),
            period,
            deadline: period,
        });
        rest = next;
    }
    tasks.sort_by_key(|t| t.period);
    tasks
}

/// A job to be simulated.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub task: usize,
    pub arrival: u64,
    pub release: u64,
    pub wcet: u64,
    /// Priority: the least first; then the earliest arrival.
    pub key: u64,
}

/// Rule by which jobs share the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Preemptive,
    NonPreemptive,
}

/// End of each job. `supplied` decides whether the jobs get the core in the unit of time that
/// begins then.
pub fn simulate(jobs: &[Job], policy: Policy, supplied: impl Fn(u64) -> bool) -> Vec<u64> {
    let mut left: Vec<u64> = jobs.iter().map(|job| job.wcet).collect();
    let mut finished = vec![0; jobs.len()];
    // By priority, so that the first that is ready runs.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|j| (jobs[*j].key, jobs[*j].arrival));
    let (mut now, mut running) = (0, None);
    while !order.is_empty() {
        if supplied(now) {
            let ready = order.iter().copied().find(|j| jobs[*j].release <= now);
            let held = running.filter(|_| policy == Policy::NonPreemptive);
            if let Some(j) = held.or(ready) {
                left[j] -= 1;
                running = Some(j);
                if left[j] == 0 {
                    finished[j] = now + 1;
                    order.retain(|other| *other != j);
                    running = None;
                }
            }
        }
        now += 1;
        assert!(now < 1_000_000, "the simulation does not end");
    }
    finished
}
