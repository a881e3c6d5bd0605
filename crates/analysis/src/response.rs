//! Response times of fixed-priority preemptive tasks on one core, arbitrary deadlines, with memory
//! stall.
//!
//! # Problem
//! Under single-core equivalence a core is analysed as a single-core chip. Stall does not add up
//! job by job: the regulator acts on the accesses of all jobs in a row, and a budget used up by one
//! job delays the next.
//!
//! # Rule
//! Lehoczky, "Fixed priority scheduling of periodic task sets with arbitrary deadlines", RTSS 1990:
//! look at all jobs `q = 0, 1, ...` of task `i` in a level-`i` busy window. Here with the stall
//! charged on the total of the window:
//!
//! `W_q = once + (q+1)*C_i + sum over j < i of n_j*(C_j + preemption_j) + stall(the same work,
//! (q+1)*mu_i + sum over j < i of n_j*mu_j)`
//!
//! with `n_j = max(1, ceil(W_q/T_j))`, the least solution; `R_i = max over q of W_q - q*T_i`, up to
//! the first `q` with `W_q <= (q+1)*T_i`.
//!
//! # Why it holds
//! Let the window open at 0 and suppose job `q` is not done at `W_q`. Until then the core had
//! pending work of level `i` or higher all the time, so each instant was spent on that work or in
//! stall. The work done is less than the sum of the `C` terms, as job `q` is not done. The accesses
//! issued so far belong to jobs released before `W_q`, or to the first `q+1` jobs of task `i`: at
//! most the number given to `stall`. `stall` is monotone, hence it and `once` bound the stall of
//! this prefix. The two make less than `W_q`, a contradiction. The argument uses no property of the
//! prefix but its number of accesses, hence needs neither sub- nor superadditivity of `stall`, and
//! it holds for sporadic releases. At the first `q` with `W_q <= (q+1)*T_i` all work released
//! before `W_q` is done, so the window has ended; the next one pays `once` again.
//!
//! # Not covered
//! Release jitter, blocking, tick and interrupt overhead (add them to `once_ps` or to the execution
//! times). Misses that a preemption causes are not derived from `preemption_ps`: they belong in
//! `misses` of the preempting task.

use crate::Derivation;
use serde::{Deserialize, Serialize};

/// Steps of the recurrence, over all jobs of a window, after which the window counts as endless. A
/// step adds at least one job; realistic task sets need some tens.
pub(crate) const MAX_STEPS: u32 = 1 << 20;

/// A sporadic task, as seen by the analysis of its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtaTask {
    /// Solo worst-case execution time, in picoseconds, with the service of all its DRAM
    /// accesses.
    pub wcet_ps: u64,
    /// Most DRAM accesses of one job, including the reloads that it causes by preempting.
    pub misses: u64,
    /// Most writes among these; all of them, if unknown.
    pub writes: u64,
    /// Most reads among these; all of them, if unknown.
    pub reads: u64,
    /// Least time between releases, in picoseconds. Not zero.
    pub period_ps: u64,
    /// Relative deadline in picoseconds; it may exceed the period.
    pub deadline_ps: u64,
    /// Cost of preemption by one job of this task (cache-related delay), in picoseconds: charged
    /// with each of its jobs to tasks of lower priority, not to the task itself.
    pub preemption_ps: u64,
}

impl RtaTask {
    /// A task whose accesses may be of either kind, and whose preemptions cost nothing.
    #[must_use]
    pub const fn new(wcet_ps: u64, misses: u64, period_ps: u64, deadline_ps: u64) -> Self {
        Self {
            wcet_ps,
            misses,
            writes: misses,
            reads: misses,
            period_ps,
            deadline_ps,
            preemption_ps: 0,
        }
    }

    /// The same task with other accesses, in the same proportion of kinds to `before`, each rounded
    /// up; `None` if that does not fit.
    #[must_use]
    pub fn with_misses(&self, before: u64, misses: u64) -> Option<Self> {
        let part = |kind: u64| match u128::from(before) {
            0 => Some(misses),
            before => u64::try_from((u128::from(kind) * u128::from(misses)).div_ceil(before)).ok(),
        };
        Some(Self { misses, writes: part(self.writes)?, reads: part(self.reads)?, ..*self })
    }
}

/// Demand of the jobs of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// Execution time alone, in picoseconds, with the service of all DRAM accesses.
    pub work_ps: u64,
    /// DRAM accesses.
    pub misses: u64,
    /// Most writes among them.
    pub writes: u64,
    /// Most reads among them.
    pub reads: u64,
}

impl Demand {
    /// Demand of one job, without the cost of its preemptions.
    #[must_use]
    pub fn of(task: &RtaTask) -> Self {
        Self { work_ps: task.wcet_ps, misses: task.misses, writes: task.writes, reads: task.reads }
    }

    /// The demand with `jobs` further jobs of `task`, each with the cost of its preemptions if
    /// `preempts`. `None` if it does not fit in 64 bits.
    #[must_use]
    pub fn plus(self, task: &RtaTask, jobs: u64, preempts: bool) -> Option<Self> {
        let job_ps = task.wcet_ps.checked_add(if preempts { task.preemption_ps } else { 0 })?;
        Some(Self {
            work_ps: self.work_ps.checked_add(job_ps.checked_mul(jobs)?)?,
            misses: self.misses.checked_add(task.misses.checked_mul(jobs)?)?,
            writes: self.writes.checked_add(task.writes.checked_mul(jobs)?)?,
            reads: self.reads.checked_add(task.reads.checked_mul(jobs)?)?,
        })
    }

    /// The demand without `jobs` jobs of `task` that are part of it and preempt. `None` if they are
    /// not.
    pub(crate) fn less(self, task: &RtaTask, jobs: u64) -> Option<Self> {
        let job_ps = task.wcet_ps.checked_add(task.preemption_ps)?;
        Some(Self {
            work_ps: self.work_ps.checked_sub(job_ps.checked_mul(jobs)?)?,
            misses: self.misses.checked_sub(task.misses.checked_mul(jobs)?)?,
            writes: self.writes.checked_sub(task.writes.checked_mul(jobs)?)?,
            reads: self.reads.checked_sub(task.reads.checked_mul(jobs)?)?,
        })
    }

    /// Accesses of unknown kind, without work.
    #[must_use]
    pub const fn accesses(misses: u64) -> Self {
        Self { work_ps: 0, misses, writes: misses, reads: misses }
    }

    /// The sum of both; `None` if it does not fit in 64 bits.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        Some(Self {
            work_ps: self.work_ps.checked_add(other.work_ps)?,
            misses: self.misses.checked_add(other.misses)?,
            writes: self.writes.checked_add(other.writes)?,
            reads: self.reads.checked_add(other.reads)?,
        })
    }
}

/// The stall of a busy window.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// Charged once per busy window, in picoseconds: see [`crate::stall::carry_in`].
    pub once_ps: u64,
    /// The stall in picoseconds as a function of the demand of all jobs of the window. Must be
    /// monotone; [`u64::MAX`] stands for "no bound".
    pub stall: &'a dyn Fn(Demand) -> u64,
}

impl std::fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window").field("once_ps", &self.once_ps).finish_non_exhaustive()
    }
}

/// Demand of the higher-priority tasks in a busy window that only grows.
#[derive(Default)]
struct Interference<'a> {
    tasks: &'a [RtaTask],
    /// Per task, the jobs counted so far times the period: they are all that can be released before
    /// this instant.
    covered_ps: Vec<u64>,
    demand: Demand,
}

impl<'a> Interference<'a> {
    /// Counts `jobs` more jobs of `task`. None if the demand does not fit in 64 bits.
    fn count(&mut self, task: &RtaTask, jobs: u64) -> Option<()> {
        self.demand = self.demand.plus(task, jobs, true)?;
        Some(())
    }

    /// Adds the new tasks of `tasks`, each with the one job that is released as the window opens.
    fn admit(&mut self, tasks: &'a [RtaTask]) -> Option<()> {
        for task in tasks.get(self.covered_ps.len()..)? {
            self.count(task, 1)?;
            self.covered_ps.push(task.period_ps);
        }
        self.tasks = tasks;
        Some(())
    }

    /// Counts every job released before `window_ps`; true if a new one was counted.
    fn cover(&mut self, window_ps: u64) -> Option<bool> {
        let mut grew = false;
        for (index, task) in self.tasks.iter().enumerate() {
            let covered_ps = self.covered_ps[index];
            if covered_ps < window_ps {
                let jobs = (window_ps - covered_ps).div_ceil(task.period_ps);
                self.covered_ps[index] =
                    covered_ps.checked_add(jobs.checked_mul(task.period_ps)?)?;
                self.count(task, jobs)?;
                grew = true;
            }
        }
        Some(grew)
    }

    /// Response time of `task` below the admitted tasks, ps. The jobs counted before must be in its
    /// window for sure.
    fn response(&mut self, task: &RtaTask, window: &Window, limit_ps: u64) -> Option<u64> {
        let (mut worst_ps, mut release_ps) = (0, 0u64);
        let mut own = Demand::default();
        let mut steps = 0;
        loop {
            own = own.plus(task, 1, false)?;
            let window_ps = loop {
                steps += 1;
                let all = self.demand.and(own)?;
                let stall_ps = (window.stall)(all);
                let end_ps = all.work_ps.checked_add(window.once_ps)?.checked_add(stall_ps)?;
                let endless = end_ps == u64::MAX || steps > MAX_STEPS;
                if endless || end_ps.saturating_sub(release_ps) > limit_ps {
                    return None;
                }
                if !self.cover(end_ps)? {
                    break end_ps;
                }
            };
            worst_ps = worst_ps.max(window_ps.saturating_sub(release_ps));
            release_ps = release_ps.checked_add(task.period_ps)?;
            if window_ps <= release_ps {
                return Some(worst_ps);
            }
        }
    }
}

/// Worst-case response time of `tasks[i]` in picoseconds; index 0 has the highest priority.
///
/// `None` if the level-`i` busy window is not found to end (demand above the capacity of the core),
/// or if the response exceeds `limit_ps` or does not fit in 64 bits. Also if a period up to task
/// `i` is zero, or if there is no task `i`.
#[must_use]
pub fn response_time(tasks: &[RtaTask], i: usize, window: &Window, limit_ps: u64) -> Option<u64> {
    let level = tasks.get(..=i)?;
    let (task, higher) = level.split_last()?;
    if level.iter().any(|task| task.period_ps == 0) {
        return None;
    }
    let mut interference = Interference::default();
    interference.admit(higher)?;
    interference.response(task, window, limit_ps)
}

/// Derivation of this `response` of `tasks[i]` (in picoseconds): the recurrence, and its terms in
/// the window of the first job.
#[must_use]
pub fn explain(tasks: &[RtaTask], i: usize, window: &Window, response: Option<u64>) -> Derivation {
    let rule = "R_i = max over q of W_q - q*T_i, W_q = once + (q+1)*C_i + sum over j < i of \
        n_j*(C_j + preemption_j) + \
                stall(work, (q+1)*mu_i + sum over j < i of n_j*mu_j), n_j = max(1, ceil(W_q/T_j))";
    let mut d = Derivation::new(rule, "Lehoczky, RTSS 1990; crates/analysis/src/response.rs");
    let Some((task, higher)) = tasks.get(..=i).and_then(<[RtaTask]>::split_last) else { return d };
    d = d.input("C_i ps", task.wcet_ps).input("mu_i", task.misses).input("T_i ps", task.period_ps);
    d = d.input("D_i ps", task.deadline_ps).input("once ps", window.once_ps);
    if let Some(first) = first_window(tasks, i, window) {
        let mut all = Demand::of(task);
        for (j, t) in higher.iter().enumerate() {
            let jobs = first.div_ceil(t.period_ps).max(1);
            all = all.plus(t, jobs, true).unwrap_or(all);
            d = d.step(format!("n_{j}"), jobs);
            d = d.step(
                format!("n_{j}*(C_{j} + preemption_{j}) ps"),
                jobs.saturating_mul(t.wcet_ps.saturating_add(t.preemption_ps)),
            );
        }
        d = d.step("accesses of the window", all.misses).step("stall ps", (window.stall)(all));
        d = d.step("W_0 ps", first);
    }
    d.step("R_i <= D_i", response.is_some_and(|r| r <= task.deadline_ps)).result(response)
}

/// `W_0`: latest end of the first job of `tasks[i]` in a level-`i` busy window. `None` if that is
/// not bounded.
fn first_window(tasks: &[RtaTask], i: usize, window: &Window) -> Option<u64> {
    let (task, higher) = tasks.get(..=i)?.split_last()?;
    if tasks.iter().take(i + 1).any(|task| task.period_ps == 0) {
        return None;
    }
    // With a period that never ends, the window has one job.
    let alone = RtaTask { period_ps: u64::MAX, ..*task };
    let mut interference = Interference::default();
    interference.admit(higher)?;
    interference.response(&alone, window, u64::MAX - 1)
}

/// Worst-case response times of all tasks in picoseconds; index 0 has the highest priority.
///
/// As [`response_time`], with a limit of 1000 times the longest period or ten times the longest
/// deadline (the larger one), so that a response beyond its deadline is still reported. Compare
/// with the deadline for a verdict.
#[must_use]
pub fn response_times(tasks: &[RtaTask], window: &Window) -> Vec<Option<u64>> {
    let longest = |field: fn(&RtaTask) -> u64| tasks.iter().map(field).max().unwrap_or(0);
    let limit_ps = longest(|task| task.period_ps)
        .saturating_mul(1000)
        .max(longest(|task| task.deadline_ps).saturating_mul(10));
    let mut responses = vec![None; tasks.len()];
    let mut interference = Interference::default();
    for (i, task) in tasks.iter().enumerate() {
        // A job one level down ends only when the window of this level has ended, so the jobs
        // counted here stay counted. If this window has no end, no lower one has.
        let known = task.period_ps > 0 && interference.admit(&tasks[..i]).is_some();
        responses[i] = if known { interference.response(task, window, limit_ps) } else { None };
        if responses[i].is_none() {
            break;
        }
    }
    responses
}
