//! The time table of level A on one core.
//!
//! Rule: the jobs of one hyperperiod, released at multiples of their periods, get slots of their
//! level-A PET in all, by earliest deadline first (ties by number). With `sum C/T <= 1` each ends
//! by its deadline (Liu and Layland 1973); slots are cut only where a job with an earlier deadline
//! is released. Times are whole nanoseconds, PETs rounded up.
//!
//! Not covered: tables that must not cut a job.

use solocore_model::plan::levels::{LevelsTable, Slot};

/// Slots that the run-time policy can hold (`SC_MAX_TASKS`).
const MOST_SLOTS: usize = 4096;

/// A task of level A.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Index in the plan.
    pub task: usize,
    /// Period.
    pub period_ns: u64,
    /// Level-A PET.
    pub pet_ns: u64,
}

/// Reason why a core has no time table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A job of this task does not end within its period.
    NoRoom(usize),
    /// The table would have more than [`MOST_SLOTS`] slots.
    Slots,
}

impl Fault {
    /// The fault and its remedy, for people. `name` is that of a task.
    pub fn text<'a>(self, core: usize, name: impl Fn(usize) -> &'a str) -> String {
        match self {
            Self::NoRoom(task) => format!(
                "the time table of core {core} has no room for task `{}`; lower the demand of \
                    level A there",
                name(task)
            ),
            Self::Slots => format!(
                "the time table of core {core} needs more than {MOST_SLOTS} slots; choose periods \
                    of level A that are nearer to each other"
            ),
        }
    }
}

/// A table and the longest response of each task, or the reason why there is none.
pub fn build(core: u32, jobs: &[Job]) -> Result<(LevelsTable, Vec<u64>), Fault> {
    let frame_ns = jobs.iter().map(|j| j.period_ns).max().unwrap_or(0);
    let mut left: Vec<u64> = vec![0; jobs.len()];
    let mut release: Vec<u64> = vec![0; jobs.len()];
    let mut response = vec![0; jobs.len()];
    let mut slots: Vec<Slot> = Vec::new();
    let mut now = 0;
    while now < frame_ns {
        for (i, job) in jobs.iter().enumerate() {
            if now.is_multiple_of(job.period_ns) && (now == 0 || release[i] != now) {
                if left[i] > 0 {
                    return Err(Fault::NoRoom(job.task));
                }
                (release[i], left[i]) = (now, job.pet_ns);
            }
        }
        let next =
            jobs.iter().map(|j| (now / j.period_ns + 1) * j.period_ns).min().unwrap_or(frame_ns);
        let ready = (0..jobs.len())
            .filter(|&i| left[i] > 0)
            .min_by_key(|&i| (release[i] + jobs[i].period_ns, i));
        let Some(i) = ready else {
            now = next;
            continue;
        };
        let end = (now + left[i]).min(next);
        left[i] -= end - now;
        let task = u32::try_from(jobs[i].task).unwrap_or(u32::MAX);
        match slots.last_mut() {
            Some(last)
                if last.task == task && last.end_ns == now && release[i] <= last.start_ns =>
            {
                last.end_ns = end
            }
            _ => slots.push(Slot { start_ns: now, end_ns: end, task }),
        }
        if slots.len() > MOST_SLOTS {
            return Err(Fault::Slots);
        }
        if left[i] == 0 {
            response[i] = response[i].max(end - release[i]);
        }
        now = end;
    }
    match left.iter().position(|&l| l > 0) {
        Some(i) => Err(Fault::NoRoom(jobs[i].task)),
        None => Ok((LevelsTable { core, frame_ns, slots }, response)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(task: usize, period_ns: u64, pet_ns: u64) -> Job {
        Job { task, period_ns, pet_ns }
    }

    #[test]
    fn jobs_are_cut_at_releases_only_and_full_tables_are_built() {
        let (table, response) = build(0, &[job(7, 20, 12), job(3, 10, 4)]).unwrap();
        let slots: Vec<_> = table.slots.iter().map(|s| (s.start_ns, s.end_ns, s.task)).collect();
        // At 10 both have the deadline 20, and the first goes on.
        assert_eq!((table.frame_ns, slots), (20, vec![(0, 4, 3), (4, 16, 7), (16, 20, 3)]));
        assert_eq!(response, [16, 10]);
        assert!(build(0, &[job(0, 20, 13), job(1, 10, 4)]).is_err());
        assert!(build(0, &[job(0, 10_000, 1), job(1, 1, 1)]).is_err());
        assert!(build(0, &[job(0, 4, 1), job(1, 40_000, 1)]).unwrap_err() == Fault::Slots);
    }

    #[test]
    fn every_job_has_its_pet_between_release_and_deadline() {
        let mut state = 1u64;
        let mut next = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut built = 0;
        for _ in 0..2000 {
            let mut period = 4 + next(8);
            let jobs: Vec<Job> = (0..1 + usize::try_from(next(4)).unwrap())
                .map(|task| {
                    period *= 1 + next(3);
                    job(task, period, 1 + next(period / 2))
                })
                .collect();
            let frame = jobs.iter().map(|j| j.period_ns).max().unwrap();
            let demand: u64 = jobs.iter().map(|j| j.pet_ns * (frame / j.period_ns)).sum();
            let Ok((table, response)) = build(1, &jobs) else {
                assert!(demand > frame, "{jobs:?}");
                continue;
            };
            built += 1;
            assert!(table.slots.windows(2).all(|w| w[0].end_ns <= w[1].start_ns));
            for (i, job) in jobs.iter().enumerate() {
                for k in 0..frame / job.period_ns {
                    let (from, to) = (k * job.period_ns, (k + 1) * job.period_ns);
                    let own = table
                        .slots
                        .iter()
                        .filter(|s| s.task as usize == i && s.start_ns < to && s.end_ns > from);
                    let inside = own.clone().all(|s| s.start_ns >= from && s.end_ns <= to);
                    assert!(
                        inside
                            && own.clone().map(|s| s.end_ns - s.start_ns).sum::<u64>()
                                == job.pet_ns
                    );
                    assert!(own.map(|s| s.end_ns - from).max().unwrap() <= response[i]);
                }
            }
        }
        assert!(built > 200, "{built}");
    }
}
