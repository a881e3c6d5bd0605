//! Stall under the memory bandwidth lock: of the section that holds it, and of those it throttles.
//!
//! # Problem
//! While a real-time task is in a memory-performance critical section it holds the lock, and each core that runs
//! something not real-time may make only `b` accesses (`min_budget`) per period `P`. Real-time tasks are never throttled.
//! The paper measures; how long can a section take at worst, and what does it cost the others?
//!
//! # Rule
//! The protocol is that of "BWLOCK", sections 3 to 3.3 and Algorithm 1, as policy/include/solocore/bwlock.h runs it. The bounds
//! are derived here, for round-robin memory with one outstanding access per core and `L` per access.
//!
//! The holder, with `mu` accesses and execution time `C` alone, beside `n` throttled cores and `r` other real-time cores:
//! the section is run in `e` stretches (a preempted holder releases the lock and takes it again when it next runs).
//! `d` is how long a change of the lock takes to reach every core: a period where cores look at their ticks
//! (Algorithm 1), the time of an interrupt where they are told (`sc_bwlock_update`).
//! * Any access waits for one of each other core: real-time cores cost `r*mu*L`, and the others never more than `n*mu*L`.
//! * In a stretch, the first `d` are lost at worst, and then what is under way, `n*L`.
//! * From then on each core stops as soon as it has made `b` in its period, whatever it made before, so it makes at most
//!   `b + skid` in each period it meets. Stretches of total length `t` meet at most `floor(t/P) + 2*e` periods.
//!
//! `W = C + r*mu*L + min(n*mu*L, e*(d + n*L) + n*L*(b + skid)*(floor(W/P) + 2*e))`, the least solution, time
//! preempted excluded.
//!
//! A throttled core, with `mu` accesses, of `m` cores in all, in a window in which the lock is held for `h` in `e` stretches:
//! * it is stopped only in periods in which it made at least `b` accesses, so the bound of [`mod@crate::stall`] holds with
//!   `Q = b`, however often the lock is taken: `stall(b, mu) + (P - b*L)`;
//! * if `max_budget` is unlimited it is stopped only while the lock is held, and until the release has reached it:
//!   `(m-1)*L*mu + h + e*d`.
//!
//! The lesser of the two holds.
//!
//! # Not covered
//! The real-time tasks' own scheduling (put `W` in the place of the execution time), switches and interrupts.

use crate::Derivation;
use crate::stall::{self, Regulation};
use serde::{Deserialize, Serialize};

/// Steps of the recurrence, after which there is no bound.
const MAX_STEPS: u32 = 1 << 20;

/// The lock's settings and the cores beside the one under analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BwLock {
    /// Regulation period `P`, in picoseconds.
    pub period_ps: u64,
    /// Longest service `L` of one access, in picoseconds.
    pub latency_ps: u64,
    /// `b`: accesses per period of a throttled core while the lock is held.
    pub min_budget: u64,
    /// Accesses a core can make between its last allowed one and its stop.
    #[serde(default)]
    pub skid: u64,
    /// `d`: how long a change of the lock takes to reach every core, in picoseconds.
    pub reaction_ps: u64,
    /// `n`: other cores that run what is not real-time.
    pub throttled_cores: u32,
    /// `r`: other cores that run real-time tasks.
    pub realtime_cores: u32,
}

/// What a core does in a critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Execution time alone, in picoseconds, with the service of all its accesses.
    pub wcet_ps: u64,
    /// Most memory accesses.
    pub misses: u64,
    /// Stretches in which it runs: 1 and the number of its preemptions. 0 counts as 1.
    pub stretches: u64,
}

impl BwLock {
    fn holder_delay(&self, section: &Section, window_ps: u64) -> Option<u128> {
        let latency = u128::from(self.latency_ps);
        let (n, e) = (u128::from(self.throttled_cores), u128::from(section.stretches.max(1)));
        let per_core = u128::from(section.misses).checked_mul(latency)?;
        let realtime = per_core.checked_mul(self.realtime_cores.into())?;
        let periods = u128::from(window_ps.checked_div(self.period_ps)?).checked_add(e.checked_mul(2)?)?;
        let allowed = periods.checked_mul(u128::from(self.min_budget) + u128::from(self.skid))?;
        let change = e.checked_mul(u128::from(self.reaction_ps).checked_add(n.checked_mul(latency)?)?)?;
        let throttled = allowed.checked_mul(latency)?.checked_mul(n)?.checked_add(change)?;
        realtime.checked_add(throttled.min(per_core.checked_mul(n)?))
    }

    /// Worst-case length of a section that holds the lock, in picoseconds, without the time in which it is preempted.
    ///
    /// `None` above `limit_ps`, if it does not fit, or if the period is zero.
    #[must_use]
    pub fn section_time(&self, section: &Section, limit_ps: u64) -> Option<u64> {
        let mut window_ps = section.wcet_ps;
        for _ in 0..MAX_STEPS {
            let delay = self.holder_delay(section, window_ps)?;
            let end_ps = u64::try_from(delay.checked_add(section.wcet_ps.into())?).ok()?;
            if end_ps > limit_ps {
                return None;
            }
            if end_ps <= window_ps {
                return Some(end_ps);
            }
            window_ps = end_ps;
        }
        None
    }

    /// Worst-case stall of a throttled core in a window with `misses` accesses of its own, in which the lock is held for at
    /// most `held_ps` in `stretches`, in picoseconds; [`u64::MAX`] for "no bound".
    ///
    /// Here `throttled_cores + realtime_cores` are all cores but this one. `unlimited`: is `max_budget`?
    #[must_use]
    pub fn throttled_stall(&self, misses: u64, held_ps: u64, stretches: u64, unlimited: bool) -> u64 {
        let r = Regulation {
            period_ps: self.period_ps,
            latency_ps: self.latency_ps,
            cores: self.throttled_cores.saturating_add(self.realtime_cores).saturating_add(1),
        };
        let always = stall::stall(&r, self.min_budget, misses).saturating_add(stall::carry_in(&r, self.min_budget));
        if !unlimited {
            return always;
        }
        let late = self.reaction_ps.saturating_mul(stretches);
        always.min(stall::stall_unregulated(&r, misses).saturating_add(held_ps).saturating_add(late))
    }

    /// How the length of a section comes about.
    #[must_use]
    pub fn explain(&self, section: &Section, limit_ps: u64) -> Derivation {
        let time = self.section_time(section, limit_ps);
        let mut d = Derivation::new(
            "W = C + r*mu*L + min(n*mu*L, e*(d + n*L) + n*L*(b + skid)*(floor(W/P) + 2*e))",
            "memory/bwlock.rs, for the protocol of bwlock, sections 3 to 3.3",
        )
        .input("C", section.wcet_ps)
        .input("mu", section.misses)
        .input("e", section.stretches)
        .input("P", self.period_ps)
        .input("L", self.latency_ps)
        .input("b", self.min_budget)
        .input("skid", self.skid)
        .input("d", self.reaction_ps)
        .input("n", u64::from(self.throttled_cores))
        .input("r", u64::from(self.realtime_cores));
        if let Some(window) = time {
            d = d
                .step(
                    "periods met",
                    window
                        .checked_div(self.period_ps)
                        .map(|k| k.saturating_add(section.stretches.max(1).saturating_mul(2))),
                )
                .step("delay", window - section.wcet_ps);
        }
        d.result(time)
    }

    /// How the stall of a throttled core comes about.
    #[must_use]
    pub fn explain_throttled(&self, misses: u64, held_ps: u64, stretches: u64, unlimited: bool) -> Derivation {
        let stall = self.throttled_stall(misses, held_ps, stretches, unlimited);
        Derivation::new(
            "min(stall(b, mu) + P - b*L, (m-1)*L*mu + h + e*d), the second only if max_budget is unlimited",
            "memory/bwlock.rs, with stall.rs",
        )
        .input("mu", misses)
        .input("h", held_ps)
        .input("e", stretches)
        .input("max_budget is unlimited", unlimited)
        .input("P", self.period_ps)
        .input("L", self.latency_ps)
        .input("b", self.min_budget)
        .result((stall != u64::MAX).then_some(stall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: BwLock = BwLock {
        period_ps: 1_000_000_000,
        latency_ps: 50_000,
        min_budget: 1562,
        skid: 0,
        reaction_ps: 1_000_000_000,
        throttled_cores: 3,
        realtime_cores: 0,
    };

    /// 100 MB/s of 64-byte lines a millisecond, as in the paper's section 3.3, and a section of 10 ms with 100,000 misses.
    #[test]
    fn the_papers_setting() {
        let section = Section { wcet_ps: 10_000_000_000, misses: 100_000, stretches: 1 };
        let bound = LOCK.section_time(&section, u64::MAX).unwrap();
        // Without the lock: three accesses of others for each.
        let without = 10_000_000_000 + 3 * 100_000 * 50_000;
        assert!(bound < without, "{bound}");
        // Told at once instead of at the next tick, the section gains most of a period.
        let told = BwLock { reaction_ps: 5_000_000, ..LOCK }.section_time(&section, u64::MAX).unwrap();
        assert!(bound - told >= 995_000_000, "{told}");
        assert_eq!(LOCK.section_time(&section, bound - 1), None);
        assert!(LOCK.explain(&section, u64::MAX).to_string().contains("periods met"));
    }

    #[test]
    fn extremes_give_no_bound() {
        let huge = BwLock { latency_ps: u64::MAX, min_budget: u64::MAX, throttled_cores: u32::MAX, ..LOCK };
        let section = Section { wcet_ps: u64::MAX, misses: u64::MAX, stretches: u64::MAX };
        assert_eq!(huge.section_time(&section, u64::MAX), None);
        assert_eq!(BwLock { period_ps: 0, ..LOCK }.section_time(&section, u64::MAX), None);
        assert_eq!(huge.throttled_stall(u64::MAX, u64::MAX, u64::MAX, true), u64::MAX);
        let _ = huge.explain(&section, 1);
    }
}
