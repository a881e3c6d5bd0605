//! Sporadic task sets in one integer unit of time, as the schedulability tests of the literature
//! take them.
//!
//! The unit is the caller's (nanoseconds in plans, anything in a corpus). Tasks are in priority
//! order, highest first, for tests of fixed priorities; the others ignore the order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sporadic task `(C, T, D)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SporadicTask {
    /// Worst-case execution time `C`.
    pub wcet: u64,
    /// Least time between releases `T`.
    pub period: u64,
    /// Relative deadline `D`; may exceed the period.
    pub deadline: u64,
}

/// Tasks on identical cores.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSet {
    /// Number of cores `m`.
    pub cores: u32,
    /// Tasks, highest priority first.
    pub tasks: Vec<SporadicTask>,
}

/// Faults of a task set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskSetError {
    /// No cores.
    #[error("cores is 0; give at least 1")]
    NoCores,
    /// No tasks.
    #[error("tasks is empty; give at least one task")]
    NoTasks,
    /// A period, deadline or execution time of zero.
    #[error("task {task}: {what} is 0; give more than zero")]
    Zero {
        /// Index of the task.
        task: usize,
        /// Name of the field.
        what: &'static str,
    },
    /// `C > T`: no core can run it.
    #[error("task {task}: wcet {wcet} is more than its period {period}")]
    Overload {
        /// Index of the task.
        task: usize,
        /// Its execution time.
        wcet: u64,
        /// Its period.
        period: u64,
    },
    /// A deadline beyond the period, in a test that forbids it.
    #[error(
        "task {task}: deadline {deadline} is beyond its period {period}, which this test does not \
            cover"
    )]
    Deadline {
        /// Index of the task.
        task: usize,
        /// Its deadline.
        deadline: u64,
        /// Its period.
        period: u64,
    },
    /// Several cores, in a test for one.
    #[error("cores is {cores}, but this test is for one core; give 1")]
    Uniprocessor {
        /// Number of cores.
        cores: u32,
    },
    /// An exact test that would take too long.
    #[error(
        "not decided within {steps} steps; give the times in a coarser unit, rounded to the safe \
            side"
    )]
    Undecided {
        /// Steps taken.
        steps: u64,
    },
    /// Total utilisation above the number of cores.
    #[error("total utilisation is above {cores} cores; there is no bound")]
    Utilization {
        /// Number of cores.
        cores: u32,
    },
}

impl SporadicTask {
    /// `C/T`, for reading and sorting only.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        self.wcet as f64 / self.period as f64
    }

    /// `min(D, T)`.
    #[must_use]
    pub fn constrained_deadline(&self) -> u64 {
        self.deadline.min(self.period)
    }
}

impl TaskSet {
    /// Checks that the numbers are possible.
    ///
    /// # Errors
    /// The first impossible value, by task.
    pub fn check(&self) -> Result<(), TaskSetError> {
        if self.cores == 0 {
            return Err(TaskSetError::NoCores);
        }
        if self.tasks.is_empty() {
            return Err(TaskSetError::NoTasks);
        }
        for (task, t) in self.tasks.iter().enumerate() {
            for (what, value) in [("wcet", t.wcet), ("period", t.period), ("deadline", t.deadline)]
            {
                if value == 0 {
                    return Err(TaskSetError::Zero { task, what });
                }
            }
            if t.wcet > t.period {
                return Err(TaskSetError::Overload { task, wcet: t.wcet, period: t.period });
            }
        }
        Ok(())
    }
}

/// Is the total utilisation at most `numerator/denominator`? Exact: no rounding can turn a yes into
/// a no or back.
///
/// Sums `C/T` in 2^-64 steps, rounded down and up; only when the two sums disagree does it compute
/// with fractions.
#[must_use]
pub fn utilization_at_most(tasks: &[SporadicTask], cores: u32) -> bool {
    let one = 1u128 << 64;
    let limit = u128::from(cores) * one;
    let (mut low, mut high) = (0u128, 0u128);
    for t in tasks {
        if t.period == 0 {
            return false;
        }
        // C < 2^64, so C * 2^64 fits in 128 bits.
        let scaled = u128::from(t.wcet) << 64;
        let share = scaled / u128::from(t.period);
        low = low.saturating_add(share);
        high =
            high.saturating_add(share + u128::from(!scaled.is_multiple_of(u128::from(t.period))));
    }
    if high <= limit {
        return true;
    }
    if low > limit {
        return false;
    }
    exact_at_most(tasks, cores)
}

/// Compares by continued remainders: the integer parts and the fractions' digits in base 2^64, more
/// of them than there are tasks.
fn exact_at_most(tasks: &[SporadicTask], cores: u32) -> bool {
    let mut whole: u128 = tasks.iter().map(|t| u128::from(t.wcet / t.period)).sum();
    let mut rest: Vec<(u128, u128)> =
        tasks.iter().map(|t| (u128::from(t.wcet % t.period), u128::from(t.period))).collect();
    let mut limit = i128::from(cores);
    // The sum has a denominator below 2^(64n), so a difference from the limit is at least 2^-(64n):
    // n+1 digits show it.
    for _ in 0..=tasks.len() + 1 {
        let Ok(have) = i128::try_from(whole) else { return false };
        let spare = limit - have;
        if spare < 0 {
            return false;
        }
        if rest.iter().all(|(r, _)| *r == 0) {
            return true;
        }
        // The rest of the fractions is below their number.
        if spare >= i128::try_from(rest.len()).unwrap_or(i128::MAX) {
            return true;
        }
        limit = spare << 64;
        whole = 0;
        for (r, t) in &mut rest {
            let scaled = *r << 64;
            whole += scaled / *t;
            *r = scaled % *t;
        }
    }
    // A difference would have shown by now: the sum is the limit.
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(wcet: u64, period: u64) -> SporadicTask {
        SporadicTask { wcet, period, deadline: period }
    }

    #[test]
    fn utilization_is_compared_exactly() {
        let thirds = vec![task(1, 3); 3];
        assert!(utilization_at_most(&thirds, 1));
        let mut above = vec![task(u64::MAX / 3, u64::MAX); 3];
        assert!(utilization_at_most(&above, 1));
        above[0].wcet += 1;
        assert!(!utilization_at_most(&above, 1));
        let primes = [task(1, 3), task(1, 7), task(11, 21)];
        assert!(utilization_at_most(&primes, 1));
        let more = [task(1, 3), task(1, 7), task(11, 21), task(1, u64::MAX)];
        assert!(!utilization_at_most(&more, 1));
    }
}
