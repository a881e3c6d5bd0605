//! Supply bound functions: the least time of a core that tasks get in a window, wherever it begins.
//!
//! # Problem
//! Tasks of a server or a partition do not have the core to themselves. Their analysis needs the
//! least time that a window of a given length supplies, wherever it lies ([`Supply::supplied`]),
//! and the reverse ([`Supply::window_for`]).
//!
//! # Rules
//! * [`Dedicated`]: the whole core.
//! * [`Rounds`]: nothing for a first gap, then rounds of a budget and a gap.
//!   * Periodic resource (Shin and Lee, RTSS 2003, section 4): `budget` in each `period`, anywhere
//!     in it. First gap `2*(period - budget)`, then `period - budget`.
//!   * With a deadline (Easwaran, Anand, Lee, RTSS 2007): the budget of each period within
//!     `deadline` of its start. First gap `period + deadline - 2*budget`.
//!   * Sporadic server: below.
//! * [`TimeTable`]: the windows of a partition in a cyclic table (ARINC 653). Exact: a worst window
//!   begins where one of the partition's windows ends. (Move the beginning right while it lies in
//!   one of the partition's windows, left while it lies outside: neither adds supply.)
//!
//! # The sporadic server of policy/include/solocore/sporadic_server.h, under the VCPU scheduler of vcpu.h
//! Server `(C, T)`; `R` is the response time of a sporadic task `(C, T)` in its place, interference
//! counted as `I(w) = sum over servers above of ceil(w/T_j)*C_j`, and `R <= T`. `I` is subadditive,
//! and `I(R) = R - C`.
//!
//! Take a window in which the server always has work, and number the units of budget that it gets.
//! Each of the last `C` units used before the window began was used at `-x` or before, with its own
//! `x` of `(0, C]`, and is back at `T - x` at the latest. Claim: let unit `y` be there at `A(y)` at
//! the latest. Let `A` have slope 1 within each round of `C` units and jump by at least `T - C`
//! between rounds. Then the unit is used by `A(y) + (R - C)`. Proof: look at the busy period of
//! this level in which it is used, from its begin `s`, and the first own unit `y0` used in it,
//! `s <= A(y0)`. Say `(n-1)*C < y - y0 <= n*C`. The work up to `y` is done within
//! `w = (y - y0) + n*(R - C) <= n*R`, as `I(w) <= I(n*R) <= n*(R - C)`. And `A(y) - A(y0)` is at
//! least `(y - y0) + (n-1)*(T - C)`, so that `s + w <= A(y) + (R - C)`.
//! * A server that wakes only when it unblocks returns each unit `T` after the time when it was
//!   due, not when it was used: unit `x` of round `k` is due at `k*T - x`. So: first gap
//!   `(T - C) + (R - C)`, then `T - C`: with `R = T` the periodic resource.
//! * A strict server (`SC_SERVER_STRICT`, woken at each dispatch) returns it `T` after it was used:
//!   each round is put off by another `R - C`. So: every gap is `(T - C) + (R - C)`.
//! * A server that used at most `u < C` in the last `T` before the window has `C - u` as it begins:
//!   `A(y) = y` for these, then `A(y) = T - C + y` for the `u` that were used and for the next
//!   `C - u`, and so on: jumps of `T - C`, `C` units apart. So: a first gap of `R - C`, `C - u`,
//!   then gaps as above. Of a strict server the rest of the first `C` units is put off as well, so
//!   the bound for `u = C` may be the better one.
//!
//! This needs a list that is never full (its last entry waits for the newest, and budget comes
//! late), and ticks that are not late (an overrun takes later budget). It also needs no time with
//! interrupts or preemption off, and only servers on the core. Background time comes on top and is
//! not counted.
//!
//! # Not covered
//! Several cores; supplies that adapt.

use serde::{Deserialize, Serialize};

/// A supply of CPU time.
pub trait Supply {
    /// Least time supplied in any window of length `window`, in the same unit. Monotone, and at
    /// most `window`.
    fn supplied(&self, window: u64) -> u64;

    /// Shortest window that supplies `demand` wherever it begins. `None` if it does not fit in 64
    /// bits, or there is none.
    fn window_for(&self, demand: u64) -> Option<u64>;

    /// Long-term rate as a fraction, at most 1, its denominator not zero, and a period of the
    /// supply: a window from `delay` on that is longer by the denominator supplies the numerator
    /// more.
    fn rate(&self) -> (u64, u64);

    /// Some `d` such that every window of length `t >= d` supplies at least `rate*(t - d)`.
    fn delay(&self) -> u64;
}

impl<S: Supply + ?Sized> Supply for &S {
    fn supplied(&self, window: u64) -> u64 {
        (**self).supplied(window)
    }

    fn window_for(&self, demand: u64) -> Option<u64> {
        (**self).window_for(demand)
    }

    fn rate(&self) -> (u64, u64) {
        (**self).rate()
    }

    fn delay(&self) -> u64 {
        (**self).delay()
    }
}

/// Faults of a supply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SupplyError {
    /// Budget of zero, or beyond its deadline.
    #[error("budget is {budget}, but must be 1 to {most}")]
    Budget {
        /// Budget given.
        budget: u64,
        /// Largest possible budget.
        most: u64,
    },
    /// Deadline beyond the period, or response time below the capacity or beyond the period.
    #[error("{what} is {value}, but must be {least} to {most}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// Value given.
        value: u64,
        /// Least allowed.
        least: u64,
        /// Most allowed.
        most: u64,
    },
    /// A gap that does not fit in 64 bits.
    #[error("a period of {period} is too long; give times in a coarser unit")]
    Long {
        /// Period given.
        period: u64,
    },
    /// A window of a table that is empty, overlaps the one before it, or ends after the cycle.
    #[error(
        "window {window} is empty, begins before the previous one has ended, or ends after the \
            cycle of {cycle}; sort them"
    )]
    Window {
        /// Index of the window.
        window: usize,
        /// Length of the cycle.
        cycle: u64,
    },
    /// A table without windows.
    #[error("the table has no windows; give at least one")]
    NoWindows,
}

/// The whole core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dedicated;

impl Supply for Dedicated {
    fn supplied(&self, window: u64) -> u64 {
        window
    }

    fn window_for(&self, demand: u64) -> Option<u64> {
        Some(demand)
    }

    fn rate(&self) -> (u64, u64) {
        (1, 1)
    }

    fn delay(&self) -> u64 {
        0
    }
}

/// Nothing for a first gap, a first budget, then repeatedly a gap and a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rounds {
    first_gap: u64,
    /// 1 to `budget`.
    first_budget: u64,
    budget: u64,
    gap: u64,
}

impl Rounds {
    /// `budget` in each `period`, anywhere in it.
    ///
    /// # Errors
    /// A budget that is zero or beyond the period, or a period that is too long.
    pub fn periodic_resource(budget: u64, period: u64) -> Result<Self, SupplyError> {
        Self::with_deadline(budget, period, period)
    }

    /// `budget` in each `period`, within `deadline` of its start.
    ///
    /// # Errors
    /// A deadline beyond the period, a budget that is zero or beyond the deadline, or a period that
    /// is too long.
    pub fn with_deadline(budget: u64, period: u64, deadline: u64) -> Result<Self, SupplyError> {
        if deadline > period {
            return Err(SupplyError::Range {
                what: "deadline",
                value: deadline,
                least: 1,
                most: period,
            });
        }
        if budget == 0 || budget > deadline {
            return Err(SupplyError::Budget { budget, most: deadline });
        }
        let gap = period - budget;
        let first_gap = gap.checked_add(deadline - budget).ok_or(SupplyError::Long { period })?;
        Self { first_gap, first_budget: budget, budget, gap }.checked(period)
    }

    /// The sporadic server described above: `capacity` and `period` of its configuration,
    /// `response` the response time of a sporadic task `(capacity, period)` in its place.
    ///
    /// # Errors
    /// A capacity that is zero or beyond the period, a response not within capacity and period, or
    /// a period that is too long.
    pub fn sporadic_server(
        capacity: u64,
        period: u64,
        response: u64,
        strict: bool,
    ) -> Result<Self, SupplyError> {
        if capacity == 0 || capacity > period {
            return Err(SupplyError::Budget { budget: capacity, most: period });
        }
        if response < capacity || response > period {
            return Err(SupplyError::Range {
                what: "response",
                value: response,
                least: capacity,
                most: period,
            });
        }
        let late = response - capacity;
        let first_gap =
            (period - capacity).checked_add(late).ok_or(SupplyError::Long { period })?;
        let gap = if strict { first_gap } else { period - capacity };
        Self { first_gap, first_budget: capacity, budget: capacity, gap }.checked(period)
    }

    /// The same in windows before which the server used at most `used` of its budget in a time
    /// `period`. Not always better than [`Self::sporadic_server`]: both hold.
    ///
    /// # Errors
    /// As of [`Self::sporadic_server`].
    pub fn sporadic_server_after(
        capacity: u64,
        period: u64,
        response: u64,
        strict: bool,
        used: u64,
    ) -> Result<Self, SupplyError> {
        let all = Self::sporadic_server(capacity, period, response, strict)?;
        if used >= capacity {
            return Ok(all);
        }
        Ok(Self { first_gap: response - capacity, first_budget: capacity - used, ..all })
    }

    /// The round must fit in 64 bits as well.
    fn checked(self, period: u64) -> Result<Self, SupplyError> {
        self.budget.checked_add(self.gap).map(|_| self).ok_or(SupplyError::Long { period })
    }

    fn round(&self) -> u64 {
        self.budget + self.gap
    }

    /// From the begin of the first budget to that of the second.
    fn first_round(&self) -> u64 {
        self.first_budget + self.gap
    }
}

impl Supply for Rounds {
    fn supplied(&self, window: u64) -> u64 {
        let Some(rest) = window.checked_sub(self.first_gap) else { return 0 };
        let Some(rest) = rest.checked_sub(self.first_round()) else {
            return rest.min(self.first_budget);
        };
        // At most `rest`, as the budget is at most the round.
        self.first_budget
            + (rest / self.round()) * self.budget
            + (rest % self.round()).min(self.budget)
    }

    fn window_for(&self, demand: u64) -> Option<u64> {
        if demand <= self.first_budget {
            return if demand == 0 { Some(0) } else { self.first_gap.checked_add(demand) };
        }
        let later = demand - self.first_budget;
        let rounds = (later - 1) / self.budget;
        let rest = later - rounds * self.budget;
        self.first_gap
            .checked_add(self.first_round())?
            .checked_add(rounds.checked_mul(self.round())?)?
            .checked_add(rest)
    }

    fn rate(&self) -> (u64, u64) {
        (self.budget, self.round())
    }

    fn delay(&self) -> u64 {
        // The supply touches a line of its rate at the end of each gap but the first: the line is
        // later by the deficit of the first budget.
        let lacks = u128::from(self.budget - self.first_budget) * u128::from(self.gap);
        self.first_gap
            .saturating_add(lacks.div_ceil(u128::from(self.budget)).try_into().unwrap_or(u64::MAX))
    }
}

/// The windows of one partition in a cyclic time table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimeTable {
    cycle: u64,
    /// Begin and end of each window, over two cycles, and the supply up to its end.
    windows: Vec<(u64, u64, u64)>,
    total: u64,
}

impl TimeTable {
    /// Windows as (begin, length), sorted, within a cycle of length `cycle`.
    ///
    /// # Errors
    /// No window, a window that is empty, overlaps or ends after the cycle, or a cycle that is too
    /// long.
    pub fn new(cycle: u64, windows: &[(u64, u64)]) -> Result<Self, SupplyError> {
        if windows.is_empty() {
            return Err(SupplyError::NoWindows);
        }
        cycle.checked_mul(2).ok_or(SupplyError::Long { period: cycle })?;
        let (mut table, mut total, mut last) = (Vec::with_capacity(2 * windows.len()), 0, 0);
        for (window, &(begin, length)) in windows.iter().enumerate() {
            let end = begin
                .checked_add(length)
                .filter(|end| length > 0 && begin >= last && *end <= cycle);
            last = end.ok_or(SupplyError::Window { window, cycle })?;
            total += length;
            table.push((begin, last, total));
        }
        for i in 0..windows.len() {
            let (begin, end, sum) = table[i];
            table.push((begin + cycle, end + cycle, sum + total));
        }
        Ok(Self { cycle, windows: table, total })
    }

    /// Supply from 0 to `instant`, which lies in the first two cycles.
    fn until(&self, instant: u64) -> u64 {
        let next = self.windows.partition_point(|(_, end, _)| *end <= instant);
        let whole = if next == 0 { 0 } else { self.windows[next - 1].2 };
        whole + self.windows.get(next).map_or(0, |(begin, ..)| instant.saturating_sub(*begin))
    }

    /// The ends of the windows of the first cycle, with the supply up to them.
    fn ends(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.windows[..self.windows.len() / 2].iter().map(|(_, end, sum)| (*end, *sum))
    }
}

impl Supply for TimeTable {
    fn supplied(&self, window: u64) -> u64 {
        let rest = window % self.cycle;
        let least = self.ends().map(|(end, sum)| self.until(end + rest) - sum).min().unwrap_or(0);
        (window / self.cycle) * self.total + least
    }

    fn window_for(&self, demand: u64) -> Option<u64> {
        let Some(before) = demand.checked_sub(1) else { return Some(0) };
        let cycles = before / self.total;
        let rest = demand - cycles * self.total;
        let longest = self.ends().map(|(end, sum)| {
            // The window that supplies unit `sum + rest`.
            let at = self.windows.partition_point(|(.., until)| *until < sum + rest);
            let (_, last, until) = self.windows[at];
            last - (until - (sum + rest)) - end
        });
        longest.max()?.checked_add(cycles.checked_mul(self.cycle)?)
    }

    fn rate(&self) -> (u64, u64) {
        (self.total, self.cycle)
    }

    fn delay(&self) -> u64 {
        // floor(t/cycle)*total is at least rate*(t - cycle).
        self.cycle
    }
}
