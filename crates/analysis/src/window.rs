//! Response times of tasks inside the windows of an IMA partition, with memory stall, and the least
//! sufficient window.
//!
//! # Problem
//! A partition has its core for `W` in every period `T_p`, at a fixed place, and other partitions
//! use the core between. Their rest (a used-up budget, foreign lines in the private caches, other
//! pages in the locked part of the shared cache) has a cost at the start of every window, not once
//! per busy window.
//!
//! # Rule
//! Single-core-equivalence, sections 3.1 (step 5) and 5.0: rate monotonic (any fixed priorities)
//! inside the partition, prefetch and lock as each window begins. As in [`crate::response`], with
//! job `q` of task `i` in a level-`i` busy window:
//!
//! `need(n) = n*each + (q+1)*C_i + sum over j < i of n_j*(C_j + preemption_j)
//!          + stall(the same work, n*each_misses + (q+1)*mu_i + sum over j < i of n_j*mu_j)`
//!
//! `n` is the least number of windows with `need(n) <= n*W`, and the job ends by
//! `W_q = (n-1)*T_p + need(n) - (n-1)*W + late`, with `n_j = max(1, ceil(W_q/T_j))`, the least
//! solution; `R_i = max over q of W_q - q*T_i`, up to the first `q` with `W_q <= (q+1)*T_i`.
//!
//! # Why it holds
//! Let every period up to task `i` be a multiple of `T_p`, and jobs of such tasks arrive as a
//! window begins by the table. A window may begin up to `late` after that, and still lasts `W`.
//! Then a level-`i` busy window opens at a window's nominal start. Until job `q` is done, all time
//! of the partition's windows goes to level-`i` work, to the stall of its accesses, or to the costs
//! in `each`. Those are the costs of a window that the core's former user left with a used-up
//! budget, with an access under way, with foreign lines. The regulation period in which a window
//! begins is charged in `each`. In the others only accesses of this partition count, so the
//! charging argument of [`crate::stall`] holds window by window, and stall is superadditive: the
//! sum over windows is at most the stall of the sum. Work done and accesses issued before the end
//! belong to jobs that arrived before `W_q`. So `need(n)` of window time suffices, and `n - 1`
//! whole windows and the rest of one have passed `W_q` after the start.
//!
//! If a period is not a multiple of `T_p`, a busy window may open anywhere. It is served latest if
//! it opens as a window ends, which costs `T_p - W` more. If it opens within a window, that
//! window's lower levels may have used up the budget, which costs one `each` more. Both are
//! charged.
//!
//! # Not covered
//! Windows that are not strictly periodic, blocking by resources, several windows in a period.

use crate::Derivation;
use crate::response::{Demand, RtaTask};

/// Steps after which a busy window counts as endless.
const MAX_STEPS: u32 = 1 << 20;

/// A partition's windows, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Time from one window to the next.
    pub period_ps: u64,
    /// Length of each window.
    pub duration_ps: u64,
    /// Largest delay of each begin beyond the plan.
    pub late_ps: u64,
    /// Cost charged in each: the rest of the core's former user, prefetch and lock.
    pub each_ps: u64,
    /// DRAM accesses of that cost.
    pub each_misses: u64,
}

impl Windows {
    /// Are all arrivals at the start of windows?
    pub fn aligned(&self, tasks: &[RtaTask]) -> bool {
        self.period_ps > 0 && tasks.iter().all(|t| t.period_ps.is_multiple_of(self.period_ps))
    }
}

/// A busy window under analysis.
struct Level<'a> {
    tasks: &'a [RtaTask],
    windows: &'a Windows,
    stall: &'a dyn Fn(Demand) -> u64,
    aligned: bool,
    steps: u32,
}

/// The end of a job, and its parts.
#[derive(Clone, Copy)]
struct End {
    windows: u64,
    need_ps: u64,
    end_ps: u64,
}

impl Level<'_> {
    /// Work and accesses of jobs: `own` jobs of the last task, and of the others all that arrive
    /// before `end_ps`.
    fn demand(&self, own: u64, end_ps: u64) -> Option<Demand> {
        let (last, higher) = self.tasks.split_last()?;
        let own = Demand::default().plus(last, own, false)?;
        higher.iter().try_fold(own, |sum, t| sum.plus(t, end_ps.div_ceil(t.period_ps).max(1), true))
    }

    /// The same with the cost of the starts of `n` windows.
    fn charged(&self, demand: Demand, n: u64) -> Option<Demand> {
        let w = self.windows;
        // A busy window that opens inside a window is past the start of that window, but still has
        // the costs of the start.
        let charged = if self.aligned { n } else { n.checked_add(1)? };
        let starts = Demand {
            work_ps: charged.checked_mul(w.each_ps)?,
            ..Demand::accesses(charged.checked_mul(w.each_misses)?)
        };
        demand.and(starts)
    }

    /// Fewest windows that hold this time, and the time that they must hold.
    fn windows(&mut self, demand: Demand, from: u64, limit_ps: u64) -> Option<(u64, u64)> {
        let w = self.windows;
        let mut n = from.max(1);
        loop {
            self.steps += 1;
            let all = self.charged(demand, n)?;
            let stall = (self.stall)(all);
            let need = all.work_ps.checked_add(stall)?;
            if stall == u64::MAX
                || self.steps > MAX_STEPS
                || n.checked_mul(w.period_ps)? > limit_ps.checked_add(w.period_ps)?
            {
                return None;
            }
            if need <= n.checked_mul(w.duration_ps)? {
                return Some((n, need));
            }
            // Every sufficient number of windows holds at least this need.
            n = need.div_ceil(w.duration_ps).max(n + 1);
        }
    }

    /// End of the first `own` jobs of the last task.
    fn end(&mut self, own: u64, from: End, limit_ps: u64) -> Option<End> {
        let w = self.windows;
        let gap = if self.aligned { 0 } else { w.period_ps - w.duration_ps };
        let mut at = from;
        loop {
            let demand = self.demand(own, at.end_ps)?;
            let (windows, need_ps) = self.windows(demand, at.windows, limit_ps)?;
            let last = need_ps - (windows - 1) * w.duration_ps;
            let end_ps = ((windows - 1) * w.period_ps)
                .checked_add(gap)?
                .checked_add(last)?
                .checked_add(w.late_ps)?;
            if end_ps > limit_ps {
                return None;
            }
            let settled = end_ps <= at.end_ps;
            at = End { windows, need_ps, end_ps: end_ps.max(at.end_ps) };
            if settled {
                return Some(at);
            }
        }
    }
}

fn level<'a>(
    tasks: &'a [RtaTask],
    i: usize,
    windows: &'a Windows,
    stall: &'a dyn Fn(Demand) -> u64,
) -> Option<Level<'a>> {
    let tasks = tasks.get(..=i)?;
    let possible = windows.duration_ps > 0 && windows.duration_ps <= windows.period_ps;
    if !possible || tasks.iter().any(|t| t.period_ps == 0) {
        return None;
    }
    Some(Level { tasks, windows, stall, aligned: windows.aligned(tasks), steps: 0 })
}

const START: End = End { windows: 1, need_ps: 0, end_ps: 1 };

/// Worst-case response time of `tasks[i]` in picoseconds, from the planned start of the window in
/// which it arrives; index 0 has the highest priority. `stall` gives the stall of a number of
/// accesses; it is monotone and superadditive, [`u64::MAX`] for "no bound".
///
/// `None` if it is not found to be at most `limit_ps`, or the windows are impossible.
#[must_use]
pub fn response_time(
    tasks: &[RtaTask],
    i: usize,
    windows: &Windows,
    stall: &dyn Fn(Demand) -> u64,
    limit_ps: u64,
) -> Option<u64> {
    let mut level = level(tasks, i, windows, stall)?;
    let period = tasks[i].period_ps;
    let (mut worst, mut at) = (0, START);
    for q in 0u64.. {
        let released = q.checked_mul(period)?;
        at = level.end(q + 1, at, limit_ps.checked_add(released)?)?;
        worst = worst.max(at.end_ps.saturating_sub(released));
        if at.end_ps <= released.checked_add(period)? {
            return Some(worst);
        }
    }
    None
}

/// Do all tasks meet their deadlines? A level is a task, in the last place, after those that can
/// delay it, highest priority first.
#[must_use]
pub fn schedulable(
    levels: &[Vec<RtaTask>],
    windows: &Windows,
    stall: &dyn Fn(Demand) -> u64,
) -> bool {
    levels.iter().all(|tasks| {
        let deadline = tasks.last().map_or(0, |t| t.deadline_ps);
        response_time(tasks, tasks.len().wrapping_sub(1), windows, stall, deadline)
            .is_some_and(|r| r <= deadline)
    })
}

/// The least duration, a multiple of `unit_ps` and at most `most_ps`, with which all tasks meet
/// their deadlines.
///
/// A longer window needs no more windows and leaves smaller gaps, so that the verdict is monotone
/// and bisection finds the edge.
#[must_use]
pub fn least_duration(
    levels: &[Vec<RtaTask>],
    windows: &Windows,
    stall: &dyn Fn(Demand) -> u64,
    unit_ps: u64,
    most_ps: u64,
) -> Option<u64> {
    let enough = |units: u64| {
        let windows = Windows { duration_ps: units * unit_ps, ..*windows };
        schedulable(levels, &windows, stall)
    };
    let (mut no, mut yes) = (0, most_ps.checked_div(unit_ps)?);
    if yes == 0 || !enough(yes) {
        return None;
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if enough(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Some(yes * unit_ps)
}

/// Derivation of this response of `tasks[i]`: the rule and its terms for the first job.
#[must_use]
pub fn explain(
    tasks: &[RtaTask],
    i: usize,
    windows: &Windows,
    stall: &dyn Fn(Demand) -> u64,
    response: Option<u64>,
) -> Derivation {
    let rule = "R_i = max over q of W_q - q*T_i, W_q = (n-1)*T_p + need(n) - (n-1)*W + late, n \
        least with need(n) <= n*W, \
                need(n) = n*each + (q+1)*C_i + sum over j < i of n_j*(C_j + preemption_j) + \
                stall(accesses), \
                n_j = max(1, ceil(W_q/T_j))";
    let mut d = Derivation::new(
        rule,
        "single-core-equivalence sections 3.1 and 5.0; crates/analysis/src/window.rs",
    )
    .input("T_p ps", windows.period_ps)
    .input("W ps", windows.duration_ps)
    .input("late ps", windows.late_ps)
    .input("each ps", windows.each_ps)
    .input("each_misses", windows.each_misses);
    let Some(mut level) = level(tasks, i, windows, stall) else { return d };
    let task = &tasks[i];
    d = d.input("C_i ps", task.wcet_ps).input("mu_i", task.misses).input("T_i ps", task.period_ps);
    d = d.input("D_i ps", task.deadline_ps).input("arrivals when windows begin", level.aligned);
    if let Some(end) = level.end(1, START, u64::MAX / 2) {
        for (j, t) in tasks[..i].iter().enumerate() {
            d = d.step(format!("n_{j}"), end.end_ps.div_ceil(t.period_ps).max(1));
        }
        let all = level
            .demand(1, end.end_ps)
            .and_then(|d| level.charged(d, end.windows))
            .unwrap_or_default();
        d = d.step("n", end.windows).step("accesses", all.misses).step("stall ps", stall(all));
        d = d.step("need(n) ps", end.need_ps).step("W_0 ps", end.end_ps);
    }
    d.step("R_i <= D_i", response.is_some_and(|r| r <= task.deadline_ps)).result(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn task(wcet_ps: u64, period_ps: u64) -> RtaTask {
        RtaTask::new(wcet_ps, 0, period_ps, period_ps)
    }

    fn windows(period_ps: u64, duration_ps: u64) -> Windows {
        Windows { period_ps, duration_ps, late_ps: 0, each_ps: 0, each_misses: 0 }
    }

    fn none(_: Demand) -> u64 {
        0
    }

    /// Section 5.0: partitions 18/6 and 36/12 with tasks 18/3, 36/3 and 36/8, 72/3.
    #[test]
    fn the_papers_partitions() {
        let (one, two) = ([task(3, 18), task(3, 36)], [task(8, 36), task(3, 72)]);
        let responses = |tasks: &[RtaTask], w: &Windows| {
            [0, 1].map(|i| response_time(tasks, i, w, &none, 1000))
        };
        assert_eq!(responses(&one, &windows(18, 6)), [Some(3), Some(6)]);
        assert_eq!(responses(&two, &windows(36, 12)), [Some(8), Some(11)]);
        // 3 + 3 + 3 in two windows are 4.5 each; 8 + 8 + 3 are 9.5.
        let least = |tasks: &[RtaTask], period, most| {
            let levels: Vec<Vec<RtaTask>> =
                (1..=tasks.len()).map(|n| tasks[..n].to_vec()).collect();
            least_duration(&levels, &windows(period, 1), &none, 1, most)
        };
        assert_eq!(least(&one, 18, 18), Some(5));
        assert_eq!(least(&two, 36, 36), Some(10));
        // Without locked pages, task 1 takes 13.
        assert_eq!(least(&[task(13, 36), task(3, 72)], 36, 12), None);
    }

    /// Time by time: windows begin up to `late` after their place, `each` units of a window are
    /// lost first.
    fn simulate(
        tasks: &[RtaTask],
        w: &Windows,
        phases: &[u64],
        delays: &[u64],
        end: u64,
    ) -> Vec<u64> {
        let mut jobs: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks.len()];
        let mut worst = vec![0; tasks.len()];
        let mut lost = 0;
        for now in 0..end {
            for (i, t) in tasks.iter().enumerate() {
                if now >= phases[i] && (now - phases[i]).is_multiple_of(t.period_ps) {
                    jobs[i].push((now, t.wcet_ps));
                }
            }
            let n = now / w.period_ps;
            let delay = delays[usize::try_from(n).unwrap() % delays.len()];
            let at = now % w.period_ps;
            if at == delay {
                lost = w.each_ps;
            }
            if at < delay || at >= delay + w.duration_ps {
                continue;
            }
            if lost > 0 {
                lost -= 1;
                continue;
            }
            if let Some(i) = jobs.iter().position(|j| !j.is_empty()) {
                jobs[i][0].1 -= 1;
                if jobs[i][0].1 == 0 {
                    worst[i] = worst[i].max(now + 1 - jobs[i][0].0);
                    jobs[i].remove(0);
                }
            }
        }
        worst
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// The bound holds for any phases and delays. It is reached where all jobs arrive as a late
        /// window begins.
        #[test]
        fn no_simulated_response_is_later(
            period in 3u64..10,
            duration in 1u64..9,
            late in 0u64..3,
            each in 0u64..2,
            sets in prop::collection::vec((1u64..6, 1u64..5, 0u64..60), 1..4),
            aligned in any::<bool>(),
            delays in prop::collection::vec(0u64..3, 1..7),
        ) {
            let duration = duration.min(period - late.min(period - 1));
            let late = late.min(period - duration);
            let w = Windows { late_ps: late, each_ps: each, ..windows(period, duration) };
            let mut tasks: Vec<RtaTask> = sets.iter().map(|(c, k, odd)| {
                task(*c, if aligned { k * period } else { k * period + odd % period })
            }).collect();
            tasks.sort_by_key(|t| t.period_ps);
            let phases: Vec<u64> = tasks.iter().zip(&sets).map(|(t, s)| {
                let phase = s.2 % t.period_ps;
                // A task with a period that is a multiple of the partition's is released when a
                // window begins.
                if t.period_ps.is_multiple_of(period) { phase / period * period } else { phase }
            }).collect();
            let delays: Vec<u64> = delays.iter().map(|d| d.min(&late)).copied().collect();
            let bounds: Vec<Option<u64>> = (0..tasks.len()).map(|i| response_time(&tasks, i, &w, &none, 2000)).collect();
            let seen = simulate(&tasks, &w, &phases, &delays, 3000);
            for (bound, seen) in bounds.iter().zip(&seen) {
                if let Some(bound) = bound {
                    prop_assert!(seen <= bound, "{seen} above {bound}: {tasks:?} {w:?}");
                }
            }
            if aligned {
                // Only the first job's window matters where responses are below the periods.
                let seen = simulate(&tasks, &w, &vec![0; tasks.len()], &[late], 3000);
                for (i, bound) in bounds.iter().enumerate() {
                    if let Some(bound) = bound.filter(|b| *b <= tasks[i].period_ps) {
                        prop_assert_eq!(seen[i], bound, "not reached: {:?} {:?}", tasks, w);
                    }
                }
            }
        }
    }
}
