//! A real-time core that is not regulated, beside best-effort cores that are throttled at so many accesses a period.
//!
//! # Problem
//! One core runs hard real-time tasks at full speed. Each of the others may make `b_j` accesses per period `P` and is then
//! stopped until the next (explicit, uneven thresholds). How late do the real-time tasks end, and which thresholds
//! are safe?
//!
//! # Rule
//! After Yun, Yao, Pellizzoni, Caccamo, Sha, "Memory access control in multiprocessor for real-time systems with mixed
//! criticality", ECRTS 2012 (summarised in dynamic-budgeting, section II), with the carry-in made explicit; derived here.
//! A window of length `t`, wherever it starts, meets `ceil(t/P) + 1` periods, so core `j` issues at most
//! `A_j(t) = (ceil(t/P) + 1) * (b_j + skid)` accesses in it, and `o` issued earlier may still be under way. An access of
//! another core delays the real-time core by at most `L`. If the memory serves cores in turn (round robin), an access of
//! the real-time core waits for at most `o` of each other core, so
//!
//! `W = sum of C + L * sum over j of min(o * mu, A_j(W) + o)`
//!
//! with `mu` the accesses of the window; without round robin the minimum is its second part. Fixed-priority tasks with
//! `D <= P`: the window from a synchronous release, `sum of C = C_i + sum over hp of ceil(W/T_j) * (C_j + preemption_j)`,
//! `mu` counted alike. The right-hand side is monotone in `W`, so the least solution is reached from below.
//!
//! With the thresholds replenished at the release of the window (dynamic-budgeting, section V-A) the `+ 1` is not needed:
//! a window then meets `ceil(t/P)` periods. Set `synchronised`.
//!
//! # Not covered
//! Deadlines beyond periods, a load of a lower-priority task under way at the release (`L` per core and one of its own),
//! write-backs unless they are in the counts.

use crate::Derivation;
use crate::response::Task;
use serde::{Deserialize, Serialize};

/// Steps of one recurrence, after which there is no bound.
const MAX_STEPS: u32 = 1 << 20;

/// Throttled cores beside one real-time core.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BestEffort {
    /// Regulation period `P`, in picoseconds.
    pub period_ps: u64,
    /// Longest delay `L` that one access of another core causes, in picoseconds.
    pub latency_ps: u64,
    /// Thresholds `b_j`, accesses per period, one for each best-effort core.
    pub thresholds: Vec<u64>,
    /// Accesses a core can make between its last allowed one and its stop.
    #[serde(default)]
    pub skid: u64,
    /// Accesses `o` that a core can have outstanding.
    pub outstanding: u64,
    /// Does the memory serve the cores in turn?
    pub round_robin: bool,
    /// Does a period start with each release of the real-time task?
    #[serde(default)]
    pub synchronised: bool,
}

impl BestEffort {
    /// Most accesses of a core with this threshold that fall into any window, those already under way included.
    fn accesses(&self, threshold: u64, window_ps: u64) -> Option<u128> {
        let touched = u128::from(window_ps.div_ceil(self.period_ps)) + u128::from(!self.synchronised);
        let issued = touched.checked_mul(u128::from(threshold) + u128::from(self.skid))?;
        issued.checked_add(self.outstanding.into())
    }

    fn delay(&self, window_ps: u64, misses: u128) -> Option<u128> {
        let waits = misses.checked_mul(self.outstanding.into())?;
        let mut accesses = 0u128;
        for &threshold in &self.thresholds {
            let most = self.accesses(threshold, window_ps)?;
            accesses = accesses.checked_add(if self.round_robin { most.min(waits) } else { most })?;
        }
        accesses.checked_mul(self.latency_ps.into())
    }

    /// Longest delay of the real-time core in any window of `window_ps` in which it makes `misses` accesses, in picoseconds.
    /// `None` if it does not fit, or the period is zero.
    #[must_use]
    pub fn interference(&self, window_ps: u64, misses: u64) -> Option<u64> {
        if self.period_ps == 0 {
            return None;
        }
        u64::try_from(self.delay(window_ps, misses.into())?).ok()
    }

    /// Worst-case response time of `tasks[i]` of the real-time core, index 0 with the highest priority, in picoseconds.
    ///
    /// `None` beyond its deadline, if a deadline up to `i` exceeds its period (not covered), if a period is zero, or if
    /// there is no task `i`.
    #[must_use]
    pub fn response_time(&self, tasks: &[Task], i: usize) -> Option<u64> {
        let level = tasks.get(..=i)?;
        let (task, higher) = level.split_last()?;
        if self.period_ps == 0 || level.iter().any(|t| t.period_ps == 0 || t.deadline_ps > t.period_ps) {
            return None;
        }
        let mut window_ps = 1u64;
        for _ in 0..MAX_STEPS {
            let (mut work, mut misses) = (u128::from(task.wcet_ps), u128::from(task.misses));
            for t in higher {
                let jobs = u128::from(window_ps.div_ceil(t.period_ps));
                let job = u128::from(t.wcet_ps) + u128::from(t.preemption_ps);
                work = work.checked_add(jobs.checked_mul(job)?)?;
                misses = misses.checked_add(jobs.checked_mul(t.misses.into())?)?;
            }
            let end_ps = u64::try_from(work.checked_add(self.delay(window_ps, misses)?)?).ok()?;
            if end_ps > task.deadline_ps {
                return None;
            }
            if end_ps <= window_ps {
                return Some(end_ps);
            }
            window_ps = end_ps;
        }
        None
    }

    /// Do all tasks meet their deadlines?
    #[must_use]
    pub fn schedulable(&self, tasks: &[Task]) -> bool {
        (0..tasks.len()).all(|i| self.response_time(tasks, i).is_some())
    }

    /// The largest common threshold of all best-effort cores with which every task meets its deadline; `None` if even 0
    /// is too much. [`u64::MAX`] if no threshold is needed.
    ///
    /// The delay grows with the threshold, so the safe ones lie below the others.
    #[must_use]
    pub fn largest_threshold(&self, tasks: &[Task]) -> Option<u64> {
        let safe = |b: u64| Self { thresholds: vec![b; self.thresholds.len()], ..self.clone() }.schedulable(tasks);
        if !safe(0) {
            return None;
        }
        let (mut low, mut high) = (0u64, 1u64);
        while safe(high) {
            low = high;
            let Some(next) = high.checked_mul(2) else { return Some(if safe(u64::MAX) { u64::MAX } else { low }) };
            high = next;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if safe(middle) { low = middle } else { high = middle }
        }
        // Round robin bounds the delay whatever the threshold: then the search above meets the end of the range.
        Some(low)
    }

    /// How the response of `tasks[i]` comes about.
    #[must_use]
    pub fn explain(&self, tasks: &[Task], i: usize) -> Derivation {
        let response = self.response_time(tasks, i);
        let mut d = Derivation::new(
            "W = sum of C + L * sum over j of min(o*mu, (ceil(W/P) + 1)*(b_j + skid) + o)",
            "memory/best_effort.rs, after Yun et al., ECRTS 2012",
        )
        .input("P", self.period_ps)
        .input("L", self.latency_ps)
        .input("o", self.outstanding)
        .input("skid", self.skid)
        .input("round robin", self.round_robin)
        .input("synchronised", self.synchronised);
        for (j, &b) in self.thresholds.iter().enumerate() {
            d = d.input(format!("b_{j}"), b);
        }
        if let (Some(task), Some(window)) = (tasks.get(i), response) {
            let jobs = |t: &Task| window.div_ceil(t.period_ps);
            let misses =
                tasks[..i].iter().fold(task.misses, |sum, t| sum.saturating_add(jobs(t).saturating_mul(t.misses)));
            d = d.step("mu", misses).step("delay", self.interference(window, misses));
        }
        d.result(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(wcet_ps: u64, misses: u64, deadline_ps: u64) -> Vec<Task> {
        vec![Task { wcet_ps, misses, period_ps: deadline_ps, deadline_ps, preemption_ps: 0 }]
    }

    #[test]
    fn worked_values() {
        let mut cores = BestEffort {
            period_ps: 100,
            latency_ps: 1,
            thresholds: vec![10, 5],
            skid: 0,
            outstanding: 1,
            round_robin: true,
            synchronised: false,
        };
        // 4 accesses wait for at most 4 of each core.
        assert_eq!(cores.response_time(&alone(50, 4, 1000), 0), Some(58));
        // Two periods: 20 + 1 and 10 + 1.
        assert_eq!(cores.response_time(&alone(50, 40, 1000), 0), Some(50 + 21 + 11));
        cores.synchronised = true;
        assert_eq!(cores.response_time(&alone(50, 40, 1000), 0), Some(50 + 11 + 6));
        assert_eq!(cores.response_time(&alone(50, 40, 66), 0), None);
        assert_eq!(cores.largest_threshold(&alone(50, 40, 150)), Some(u64::MAX));
        assert_eq!(cores.largest_threshold(&alone(50, 40, 110)), Some(24));
        assert!(cores.explain(&alone(50, 40, 1000), 0).to_string().ends_with("result: 67\n"));
    }

    #[test]
    fn extremes_give_no_bound() {
        let cores = BestEffort {
            period_ps: 1,
            latency_ps: u64::MAX,
            thresholds: vec![u64::MAX; 3],
            skid: u64::MAX,
            outstanding: u64::MAX,
            round_robin: false,
            synchronised: false,
        };
        assert_eq!(cores.interference(u64::MAX, u64::MAX), None);
        assert_eq!(cores.response_time(&alone(u64::MAX, u64::MAX, u64::MAX), 0), None);
        assert_eq!(cores.largest_threshold(&alone(1, 1, u64::MAX)), None);
        assert_eq!(BestEffort { period_ps: 0, ..cores }.interference(1, 1), None);
    }
}
