//! A task at run time: its job, the releases that wait, and the statistics of its past jobs.

use super::config::{Release, TaskSpec};
use super::scheduler::JobTimes;
use super::statistics::{TaskStatistics, add};
use super::timers::NEVER;
use crate::hardware::{Counters, Hardware};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;

/// Most releases that wait; further ones are dropped, and counted.
pub const MOST_WAITING: usize = 1024;

/// A job under way.
pub struct Job {
    pub arrival_ps: u64,
    /// Has it run?
    pub started: bool,
    pub execution_ps: u64,
    /// Has it come back from a preemption, with a part of the preemption's cost in every regulation
    /// period since?
    pub recovering: bool,
    /// The hardware's `recovered_ps` when the job began.
    pub recovered_ps: u64,
    /// The same at the end of the last period in which the job was recovering.
    pub recovered_seen_ps: u64,
}

impl Job {
    pub fn new(arrival_ps: u64) -> Self {
        Self {
            arrival_ps,
            started: false,
            execution_ps: 0,
            recovering: false,
            recovered_ps: 0,
            recovered_seen_ps: 0,
        }
    }
}

/// A task at run time.
pub struct KernelTask {
    pub spec: TaskSpec,
    pub job: Option<Job>,
    /// Arrivals that wait for the job.
    pub waiting: VecDeque<u64>,
    /// Is it in a timed wait?
    pub asleep: bool,
    /// Is the time past its `stop_ps`?
    pub stopped: bool,
    /// The core on which it is chosen.
    pub on: Option<usize>,
    pub last_core: Option<usize>,
    random: ChaCha8Rng,
    /// Number of the next arrival.
    arrivals: u64,
    /// The next arrival, and its release.
    pub next_arrival_ps: u64,
    pub next_release_ps: u64,
    /// Releases that were triggered and wait for their delay.
    pub triggered: VecDeque<u64>,
    /// Counters at the last separation by modes.
    pub counted: Counters,
    pub statistics: TaskStatistics,
}

impl KernelTask {
    pub fn new(spec: TaskSpec, seed: u64, index: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index as u64);
        let statistics = TaskStatistics { name: spec.name.clone(), ..TaskStatistics::default() };
        Self {
            spec,
            job: None,
            waiting: VecDeque::new(),
            asleep: false,
            stopped: false,
            on: None,
            last_core: None,
            random,
            arrivals: 0,
            next_arrival_ps: 0,
            next_release_ps: 0,
            triggered: VecDeque::new(),
            counted: Counters::default(),
            statistics,
        }
    }

    /// A uniform draw from 0 to `most`.
    fn draw(&mut self, most: u64) -> u64 {
        let draw = u128::from(self.random.next_u64()) * (u128::from(most) + 1);
        u64::try_from(draw >> 64).unwrap_or(most)
    }

    /// Sets the next arrival and its release; [`NEVER`] if there is none.
    pub fn plan_release(&mut self) {
        let k = self.arrivals;
        self.arrivals += 1;
        let start = self.spec.start_ps;
        let (arrival, jitter) = match &self.spec.release {
            Release::Background => (if k == 0 { start } else { NEVER }, 0),
            &Release::Periodic { period_ps, phase_ps, jitter_ps } => {
                let arrival = period_ps
                    .checked_mul(k)
                    .and_then(|t| t.checked_add(phase_ps))
                    .and_then(|t| t.checked_add(start));
                (arrival.unwrap_or(NEVER), jitter_ps)
            }
            &Release::Sporadic { min_ps, max_ps } => {
                let gap =
                    if k == 0 { 0 } else { min_ps.saturating_add(self.draw(max_ps - min_ps)) };
                (if k == 0 { start } else { self.next_arrival_ps.saturating_add(gap) }, 0)
            }
            Release::Triggered { .. } => (NEVER, 0),
            Release::At(times) => {
                let time = usize::try_from(k).ok().and_then(|k| times.get(k));
                (time.copied().unwrap_or(NEVER), 0)
            }
        };
        let ends = self.spec.stop_ps.is_some_and(|stop| arrival >= stop);
        self.next_arrival_ps = if ends { NEVER } else { arrival };
        let jitter = if jitter == 0 { 0 } else { self.draw(jitter) };
        // Jobs are released in the order of their arrivals.
        self.next_release_ps =
            self.next_arrival_ps.saturating_add(jitter).max(self.next_release_ps);
    }

    /// The times of a job with this arrival, for the scheduler.
    pub fn times(&self, arrival_ps: u64) -> JobTimes {
        let relative = self.spec.deadline_ps.or(self.spec.period_ps());
        JobTimes { deadline_ps: relative.map_or(NEVER, |d| arrival_ps.saturating_add(d)) }
    }

    /// Would a job of that arrival be past its deadline at this time?
    pub fn late(&self, arrival_ps: u64, now_ps: u64) -> bool {
        self.spec.deadline_ps.is_some_and(|d| now_ps.saturating_sub(arrival_ps) > d)
    }

    /// Queues an arrival behind the job; drops it if too many wait.
    pub fn queue(&mut self, arrival_ps: u64) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(arrival_ps);
        } else {
            self.statistics.dropped += 1;
            self.statistics.deadline_misses += u64::from(self.spec.deadline_ps.is_some());
        }
    }

    /// The statistics, with the open jobs that are past their deadline.
    pub fn finish(mut self, hardware: &impl Hardware, now_ps: u64, modes: bool) -> TaskStatistics {
        let open = self.job.iter().map(|j| j.arrival_ps).chain(self.waiting.iter().copied());
        let late = open.filter(|&arrival| self.late(arrival, now_ps)).count() as u64;
        self.statistics.deadline_misses += late;
        self.statistics.counters = hardware.program(self.spec.program);
        if !modes {
            add(&mut self.statistics.foreground, self.statistics.counters);
        }
        self.statistics
    }
}
