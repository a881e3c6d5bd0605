//! Response times under fixed priorities: arbitrary deadlines, release jitter, blocking, preemptive
//! or not, any supply.
//!
//! # Problem
//! The longest time of a job from its arrival to its end is needed. Tasks above it interfere, a
//! task below it may hold a resource (or the core) for a while, and jobs are released up to `J`
//! after they arrive.
//!
//! # Rule
//! Tindell, Burns, Wellings, "An extendible approach for analyzing fixed priority hard real-time
//! tasks", 1994, section 3 (after Lehoczky, RTSS 1990): for the jobs `q = 0, 1, ...` of a busy
//! window, with `sbf` the supply bound function,
//!
//! `w_q = least t > 0 with sbf(t) >= B + (q+1)*C_i + sum over j above of ceil((t + J_j)/T_j)*C_j`
//!
//! and `R = max over q of w_q + J_i - q*T_i`, until a job ends by the release of the next,
//! `w_q <= (q+1)*T_i - J_i`.
//!
//! Without preemption, after George, Rivierre, Spuri, INRIA RR-2966, 1996, section 4.1. Davis,
//! Burns, Bril, Lukkien showed that a window does not end with the job that ends before the next
//! release. ("Controller Area Network (CAN) schedulability analysis: refuted, revisited and
//! revised", 2007, section 3.) A job that has begun cannot be preempted, so
//!
//! `a_q = least t with t >= B + q*C_i + 1 + sum over j above of ceil((t + J_j)/T_j)*C_j`,
//! `w_q = a_q - 1 + C_i`
//!
//! for all `q < ceil((L + J_i)/T_i)`, `L` the longest busy window. `B` is the longest execution
//! time below, because a job below may have begun just before. If everything happens at whole units
//! of time ([`Clock::Discrete`]), it has begun a unit before, and `B` is one less.
//!
//! # Not covered
//! Offsets (all tasks may be released together), self-suspension. Under a supply, non-preemptive
//! sections.

use super::supply::{Dedicated, Supply};
use super::{MAX_STEPS, fits_supply};
use crate::derivation::Derivation;
use crate::task_set::SporadicTask;
use serde::{Deserialize, Serialize};

/// Steps after which the utilisation is tested.
const SUSPICION: u64 = 1 << 10;

/// A task under fixed priorities; times in the unit of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedPriorityTask {
    /// Worst-case execution time `C`.
    pub wcet: u64,
    /// Least time between arrivals `T`.
    pub period: u64,
    /// Relative deadline `D`, from the arrival; may exceed the period.
    pub deadline: u64,
    /// Most time from the arrival to the release, `J`.
    #[serde(default)]
    pub jitter: u64,
    /// Longest time for which tasks below can delay a busy window of this one, `B`.
    #[serde(default)]
    pub blocking: u64,
}

impl From<&SporadicTask> for FixedPriorityTask {
    fn from(task: &SporadicTask) -> Self {
        let SporadicTask { wcet, period, deadline } = *task;
        Self { wcet, period, deadline, jitter: 0, blocking: 0 }
    }
}

/// Instants at which releases and ends can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// At any instant. Safe also for the other kind.
    Continuous,
    /// At whole units of time only: releases, and execution times.
    Discrete,
}

/// Jobs that can be released in a window of length `window`.
fn jobs(window: u64, task: &FixedPriorityTask) -> u128 {
    (u128::from(window) + u128::from(task.jitter)).div_ceil(u128::from(task.period))
}

/// Work of `tasks` released in a window; `None` if it does not fit in 64 bits.
fn work(window: u64, tasks: &[FixedPriorityTask]) -> Option<u64> {
    tasks.iter().try_fold(0u64, |sum, task| {
        let work = jobs(window, task).checked_mul(u128::from(task.wcet))?;
        sum.checked_add(u64::try_from(work).ok()?)
    })
}

/// Counts the steps of a recurrence over a level, and gives up where it does not end.
struct Steps<'a, S> {
    supply: &'a S,
    level: &'a [FixedPriorityTask],
    taken: u64,
}

impl<'a, S: Supply> Steps<'a, S> {
    fn new(supply: &'a S, level: &'a [FixedPriorityTask]) -> Self {
        Self { supply, level, taken: 0 }
    }

    /// Counts one more step; `None` if further steps are useless.
    fn step(&mut self) -> Option<()> {
        self.taken += 1;
        // Most recurrences end long before; only for one that does not, the utilisation is tested.
        let endless = self.taken == SUSPICION && {
            let tasks = self.level.iter().map(|t| SporadicTask {
                wcet: t.wcet,
                period: t.period,
                deadline: t.deadline,
            });
            !fits_supply(self.supply, &tasks.collect::<Vec<_>>())
        };
        (self.taken <= MAX_STEPS && !endless).then_some(())
    }

    /// Least window that supplies `base` and the work of `tasks` released in it, and is not shorter
    /// than `from`.
    fn window(&mut self, base: u64, tasks: &[FixedPriorityTask], from: u64) -> Option<u64> {
        let mut window = from.max(1);
        loop {
            self.step()?;
            let end = self.supply.window_for(base.checked_add(work(window, tasks)?)?)?;
            if end <= window {
                return Some(window);
            }
            window = end;
        }
    }
}

/// The level of task `i`, if its numbers can be analysed.
fn level(
    tasks: &[FixedPriorityTask],
    i: usize,
) -> Option<(&[FixedPriorityTask], &FixedPriorityTask)> {
    let level = tasks.get(..=i)?;
    if level.iter().any(|task| task.period == 0) {
        return None;
    }
    let (task, above) = level.split_last()?;
    Some((above, task))
}

/// Worst-case response time of the preemptive task `i` on `supply`, from its arrival, in the unit
/// of the tasks.
///
/// `None` if its busy window is not found to end within [`MAX_STEPS`], or does not fit in 64 bits,
/// if a period up to `i` is zero, or if there is no task `i`. A response beyond the deadline is
/// reported.
#[must_use]
pub fn response_time<S: Supply>(supply: &S, tasks: &[FixedPriorityTask], i: usize) -> Option<u64> {
    let (above, task) = level(tasks, i)?;
    let (mut worst, mut end, mut steps) = (0u64, 0u64, Steps::new(supply, &tasks[..=i]));
    for q in 0u64.. {
        let own = task.wcet.checked_mul(q + 1)?.checked_add(task.blocking)?;
        end = steps.window(own, above, end)?;
        let arrival = u128::from(q) * u128::from(task.period);
        let next = arrival + u128::from(task.period);
        // The window is not over before the arrival of its job: no underflow.
        let response = (u128::from(end) + u128::from(task.jitter)).checked_sub(arrival)?;
        worst = worst.max(u64::try_from(response).ok()?);
        if u128::from(end) + u128::from(task.jitter) <= next {
            return Some(worst);
        }
    }
    None
}

/// Worst-case response time of task `i` on a whole core, if no job is ever preempted. As
/// [`response_time`].
///
/// `blocking` of the task is ignored: it follows from the tasks below.
#[must_use]
pub fn response_time_nonpreemptive(
    tasks: &[FixedPriorityTask],
    i: usize,
    clock: Clock,
) -> Option<u64> {
    let (above, task) = level(tasks, i)?;
    if task.wcet == 0 {
        return None;
    }
    let longest = tasks[i + 1..].iter().map(|t| t.wcet).max().unwrap_or(0);
    let blocking = if clock == Clock::Discrete { longest.saturating_sub(1) } else { longest };
    let mut steps = Steps::new(&Dedicated, &tasks[..=i]);
    let busy = steps.window(blocking, &tasks[..=i], 0)?;
    let (mut worst, mut begun) = (0u64, 0u64);
    for q in 0..u64::try_from(jobs(busy, task)).ok()? {
        let before = task.wcet.checked_mul(q)?.checked_add(blocking)?.checked_add(1)?;
        begun = steps.window(before, above, begun)?;
        let end = u128::from(begun - 1) + u128::from(task.wcet) + u128::from(task.jitter);
        let response = end.saturating_sub(u128::from(q) * u128::from(task.period));
        worst = worst.max(u64::try_from(response).ok()?);
    }
    Some(worst)
}

/// Response times of all tasks on `supply`, highest priority first: see [`response_time`].
#[must_use]
pub fn response_times<S: Supply>(supply: &S, tasks: &[FixedPriorityTask]) -> Vec<Option<u64>> {
    (0..tasks.len()).map(|i| response_time(supply, tasks, i)).collect()
}

/// Does every task meet its deadline on `supply`, preemptively? False also if a response time is
/// not found.
#[must_use]
pub fn schedulable<S: Supply>(supply: &S, tasks: &[FixedPriorityTask]) -> bool {
    !tasks.is_empty()
        && (0..tasks.len())
            .all(|i| response_time(supply, tasks, i).is_some_and(|r| r <= tasks[i].deadline))
}

/// Derivation of this response of the last task of `level` on a whole core: the equation, with the
/// parts of the tasks above.
#[must_use]
pub fn explain(level: &[SporadicTask], response: Option<u64>) -> Derivation {
    let rule = "R_i = max over q of w_q - q*T_i, w_q = least t with t = (q+1)*C_i + sum over j < i \
        of ceil(t/T_j)*C_j";
    let mut d = Derivation::new(
        rule,
        "Lehoczky, RTSS 1990, section 3; crates/analysis/src/uniprocessor/plain.rs",
    );
    let Some((task, above)) = level.split_last() else { return d };
    d = d
        .input("i", above.len() as u64)
        .input("C_i", task.wcet)
        .input("T_i", task.period)
        .input("D_i", task.deadline);
    let general: Vec<FixedPriorityTask> = level.iter().map(FixedPriorityTask::from).collect();
    let first = Steps::new(&Dedicated, &general).window(task.wcet, &general[..above.len()], 0);
    if let Some(first) = first {
        for (j, t) in above.iter().enumerate() {
            d = d.step(
                format!("ceil(w_0/T_{j})*C_{j}"),
                first.div_ceil(t.period).saturating_mul(t.wcet),
            );
        }
        d = d.step("w_0", first);
    }
    d.step("R_i <= D_i", response.is_some_and(|r| r <= task.deadline)).result(response)
}
