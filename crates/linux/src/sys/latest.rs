//! The latest jobs of a task, in memory that does not grow.
//!
//! Problem: a run may last for weeks, and the record of a job takes 24 bytes. Rule: a task has a
//! fixed number of places, and a new job takes the place of the oldest one. All places are written
//! before the first job, so their pages are there from the start of the run. The tasks of a run
//! share [`ALL`] places; each has at most [`MOST`] and at least [`SHOWN`]. A task that is measured
//! has places of its own (`schedule/jobs`). Does not cover: the number of all jobs and their
//! longest times, which the owner counts.

use solocore_model::run::RunJob;

/// Most jobs of a task that are kept.
pub(crate) const MOST: usize = 20_000;
/// Jobs of all tasks together that are kept, 3.84 MB, while no task has fewer than [`SHOWN`].
const ALL: usize = 8 * MOST;
/// Number of jobs that a look at the run shows. All of them in each look would be some MiB a task.
pub(crate) const SHOWN: usize = 100;

/// A place without a job. It is not zero, because the allocator gives zeros without writing them.
const FREE: RunJob = RunJob { release_ns: u64::MAX, start_ns: u64::MAX, end_ns: u64::MAX };

/// Number of places of a task that shares the memory with this number of tasks, itself included.
pub(crate) fn share(tasks: usize) -> usize {
    (ALL / tasks.max(1)).clamp(SHOWN, MOST)
}

/// The latest jobs of a task.
#[derive(Debug)]
pub(crate) struct Latest {
    places: Vec<RunJob>,
    /// The place of the next job.
    next: usize,
    /// Each place has a job.
    full: bool,
}

impl Latest {
    /// Room for this number of jobs, at least one.
    pub fn of(places: usize) -> Self {
        Self { places: vec![FREE; places.max(1)], next: 0, full: false }
    }

    /// Adds a job; the oldest one is forgotten if there is no room for both.
    pub fn add(&mut self, job: RunJob) {
        self.places[self.next] = job;
        self.next += 1;
        if self.next == self.places.len() {
            (self.next, self.full) = (0, true);
        }
    }

    /// Number of jobs that are kept.
    pub fn kept(&self) -> usize {
        if self.full { self.places.len() } else { self.next }
    }

    /// The last `most` jobs, the oldest first.
    pub fn last(&self, most: usize) -> Vec<RunJob> {
        self.in_order().skip(self.kept().saturating_sub(most)).copied().collect()
    }

    /// All jobs but the last `later`, the oldest first.
    pub fn before_the_last(&self, later: usize) -> Vec<RunJob> {
        self.in_order().take(self.kept().saturating_sub(later)).copied().collect()
    }

    fn in_order(&self) -> impl Iterator<Item = &RunJob> {
        let (newer, older) = self.places.split_at(self.next);
        let older = if self.full { older } else { &[] };
        older.iter().chain(newer)
    }
}

impl Default for Latest {
    fn default() -> Self {
        Self::of(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> RunJob {
        RunJob { release_ns: number, start_ns: number, end_ns: number + 1 }
    }

    fn numbers(jobs: &[RunJob]) -> Vec<u64> {
        jobs.iter().map(|job| job.release_ns).collect()
    }

    /// Fails where the record of a task grows with its jobs, or is not written before the first.
    #[test]
    fn a_million_jobs_take_the_memory_of_none() {
        let mut latest = Latest::of(share(1));
        assert!(latest.places.len() == MOST && latest.places.iter().all(|place| *place == FREE));
        let before = (latest.places.as_ptr(), latest.places.capacity());
        (0..1_000_000).for_each(|number| latest.add(job(number)));
        assert_eq!((latest.places.as_ptr(), latest.places.capacity()), before);
        let all = numbers(&latest.last(usize::MAX));
        assert_eq!(all, (980_000..1_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn jobs_come_in_their_order() {
        let mut latest = Latest::of(3);
        assert!(latest.kept() == 0 && latest.last(2).is_empty());
        for (number, last, before) in [
            (1, &[1][..], &[][..]),
            (2, &[1, 2], &[1]),
            (3, &[2, 3], &[1, 2]),
            (4, &[3, 4], &[2, 3]),
            (5, &[4, 5], &[3, 4]),
            (6, &[5, 6], &[4, 5]),
            (7, &[6, 7], &[5, 6]),
        ] {
            latest.add(job(number));
            assert_eq!(numbers(&latest.last(2)), last, "after job {number}");
            assert_eq!(numbers(&latest.before_the_last(1)), before, "after job {number}");
        }
        assert_eq!(numbers(&latest.before_the_last(0)), [5, 6, 7]);
        assert!(latest.before_the_last(4).is_empty() && Latest::of(0).kept() == 0);
    }

    /// Fails where many tasks together take more memory than few.
    #[test]
    fn many_tasks_share_the_places() {
        assert_eq!([0, 1, 8, 16, 1600, 100_000].map(share), [MOST, MOST, MOST, 10_000, 100, 100]);
    }
}
