//! Costs of an access of another core, of a refresh, and of the rest of the last period.

use super::latency::{Contention, Controller, Dram};
use crate::memory::latency;
use serde::{Deserialize, Serialize};

/// The controller's write queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Writes that it holds.
    pub writes: u64,
    /// Writes of one drain after which the reads that wait are served.
    pub drain_most: u64,
    /// Reads that each bank's queue holds, and those that wait behind all of them.
    pub bank_reads: u64,
    /// See `bank_reads`.
    pub reads: u64,
}

/// A channel and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Timing.
    pub dram: Dram,
    /// Order of reads.
    pub controller: Controller,
    /// Queues.
    pub queue: Queue,
    /// From a core to the controller and back, in picoseconds.
    pub overhead_ps: u64,
    /// Clock period of the cores, in picoseconds.
    pub cycle_ps: u64,
}

/// Accesses that a core or a device can have under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requester {
    /// Reads: its miss registers.
    pub reads: u64,
    /// Posted writes that the controller has not taken.
    pub writes: u64,
}

/// The cores that share a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharing {
    /// The core under analysis.
    pub own: Requester,
    /// The others.
    pub others: Vec<Requester>,
    /// Has each core banks of its own?
    pub private: bool,
    /// Misses that the shared cache can have under way for all cores; `None`: as many as the cores
    /// can have.
    pub cache_mshrs: Option<u64>,
}

/// Costs of accesses, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// `L_max`: one read by itself, right after a write to its bank, refresh apart.
    pub latency_ps: u64,
    /// One of many own accesses, alone.
    pub service_ps: u64,
    /// A read of another core.
    pub read_ps: u64,
    /// A write of another core.
    pub write_ps: u64,
    /// Largest cost of an access of another core of unknown kind.
    pub any_ps: u64,
    /// Largest delay by others for one own access; `None`: there is no bound.
    pub request_ps: Option<u64>,
    /// Accesses under way as a window or a period opens.
    pub left_ps: u64,
    /// For each `drain_most` writes: reads of one core in one bank, beyond `read_ps` each.
    pub phase_ps: u64,
    /// Writes to one phase.
    pub phase_writes: u64,
    /// Own accesses that can be under way as a shared round begins; 0 without shared rounds.
    pub unfinished: u64,
    /// Refreshes.
    pub refresh: Refresh,
}

/// Refreshes of a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Longest delay of a core by one refresh.
    pub each_ps: u64,
    /// Time from one refresh to the next, of a rank.
    pub every_ps: u64,
    /// Ranks.
    pub ranks: u64,
}

impl Refresh {
    /// Time of the refreshes of all ranks in a window of `window_ps`.
    #[must_use]
    pub fn within(&self, window_ps: u64) -> u64 {
        if self.every_ps == 0 {
            return 0;
        }
        // Saturating: a time that does not fit becomes the largest one.
        let Some(window_ps) = window_ps.checked_add(self.each_ps) else { return u64::MAX };
        let number = (window_ps / self.every_ps).saturating_add(1);
        number.saturating_mul(self.ranks).saturating_mul(self.each_ps)
    }

    /// The part of all time that refreshes take: a window meets at least one of each rank per
    /// interval.
    pub(crate) fn part(&self) -> f64 {
        if self.every_ps == 0 {
            return 0.0;
        }
        self.ranks as f64 * self.each_ps as f64 / self.every_ps as f64
    }

    /// A lower limit of `time_ps` with its refreshes, which starts the search closer.
    fn at_least(&self, time_ps: u64) -> u64 {
        let part = self.part();
        // Less than the possible rounding. Not a number where refreshes take all time, which is
        // cast to 0.
        let least = time_ps as f64 / (1.0 - part) * (1.0 - 1e-12);
        if part < 1.0 { time_ps.max(least as u64) } else { time_ps }
    }

    /// `time_ps` and the refreshes that it meets; [`u64::MAX`] if they take all the time.
    #[must_use]
    pub fn lengthen(&self, time_ps: u64) -> u64 {
        let mut total = self.at_least(time_ps);
        for _ in 0..STEPS {
            let next = time_ps.saturating_add(self.within(total));
            if next <= total || next == u64::MAX {
                return next.max(total);
            }
            total = next;
        }
        u64::MAX
    }
}

/// Accesses by which a core can exceed its budget in a period: one instruction reads a line,
/// and each cache level may evict a dirty one, before the interrupt comes.
pub(crate) const OVERSHOOT: u64 = 4;
/// Steps of a recurrence, after which there is no bound.
pub(crate) const STEPS: u32 = 1 << 16;

/// The part of a time beyond the work; [`u64::MAX`] stays.
pub(crate) fn beyond(total_ps: u64, work_ps: u64) -> u64 {
    if total_ps == u64::MAX { u64::MAX } else { total_ps.saturating_sub(work_ps) }
}

impl Memory {
    /// `write-to-precharge + rp + rcd`: a write's hold on its bank. A command in a drain waits for
    /// a chain of commands, each at most its gap after the one before. A chain has each command
    /// once, so that a conflict on the command bus takes the place of a gap.
    fn write_cycles(&self) -> u64 {
        let d = &self.dram;
        d.write_to_pre() + d.rp.max(d.ppd) + d.rcd.max(d.command)
    }

    /// A row cycle of reads.
    fn row_cycles(&self) -> u64 {
        let d = &self.dram;
        d.ras.max(d.rcd + d.rtp) + d.rp.max(d.ppd)
    }

    /// Time from the arrival of a read at an idle controller to its answer, with the row closed.
    /// The arrival waits for an edge of the clock.
    fn read_cycles(&self) -> u64 {
        let (d, c) = (&self.dram, &self.controller);
        let bus = 3 * (d.command - 1) + 2 * d.ppd.saturating_sub(1);
        1 + c.way_in + d.rp + d.rcd + d.cl + d.burst + c.way_out + bus
    }

    fn refresh_cycles(&self) -> u64 {
        let d = &self.dram;
        let close = d.banks * (d.ppd.max(1) + d.command - 1);
        d.rcd + d.write_to_pre().max(d.read_to_pre()) + close + d.rp + d.command + d.rfc
    }

    /// `L_max` in picoseconds: see the head of this file. `None` if a timing is impossible.
    #[must_use]
    pub fn latency_ps(&self) -> Option<u64> {
        let d = &self.dram;
        let cycles = d.is_possible().then(|| d.write_to_pre().max(d.ras) + self.read_cycles())?;
        d.to_ps(cycles)?.checked_add(self.overhead_ps)?.checked_add(self.cycle_ps)
    }

    /// Could the read queue fill, so that reads wait in front of it?
    fn fills(&self, sharing: &Sharing) -> bool {
        let all = sharing.others.iter().chain([&sharing.own]);
        let behind = if sharing.private {
            all.map(|r| r.reads.saturating_sub(self.queue.bank_reads)).sum()
        } else {
            all.map(|r| r.reads).sum::<u64>().saturating_sub(self.queue.bank_reads)
        };
        self.queue.reads < behind
    }

    /// Largest delay by others for one own access, in cycles.
    fn request_cycles(&self, sharing: &Sharing, others: u64) -> Option<u64> {
        let (d, c) = (&self.dram, &self.controller);
        c.hit_cap?;
        if others == 0 && sharing.others.iter().all(|r| r.writes == 0) {
            return Some(0);
        }
        let same_bank = if sharing.private { 0 } else { others };
        let reads = latency::read_delay(d, c, &Contention { others, same_bank })?;
        let again =
            latency::first_delay(d, c, others)?.checked_add(d.column_gap())?.checked_mul(2)?;
        let drains = (2 * self.queue.drain_most - 1).checked_mul(self.write_cycles())?;
        reads.checked_add(again)?.checked_add(drains)
    }

    /// Costs of accesses. `None` if a timing is impossible or does not fit in 64 bits.
    #[must_use]
    pub fn costs(&self, sharing: &Sharing) -> Option<Costs> {
        let d = &self.dram;
        let latency_ps = self.latency_ps()?;
        let read_alone = d
            .to_ps(self.read_cycles())?
            .checked_add(self.overhead_ps)?
            .checked_add(self.cycle_ps)?;
        let (write, row) = (self.write_cycles(), self.row_cycles());
        let moved = latency::delay_per_access(d, false)?;
        let all_reads = sharing.others.iter().chain([&sharing.own]).map(|r| r.reads).sum::<u64>();
        let held = sharing.cache_mshrs.is_some_and(|n| n < all_reads);
        let fills = self.fills(sharing);
        let mut read = if sharing.private { moved } else { latency::delay_per_access(d, true)? };
        if fills || held {
            read = read.max(row);
        }
        let write = if sharing.private { write } else { write.checked_add(moved)? };
        let others: u64 = sharing.others.iter().map(|r| r.reads).sum();
        let alone = sharing.others.is_empty();
        let request = if alone {
            Some(0)
        } else if fills || held {
            None
        } else {
            self.request_cycles(sharing, others)
        };
        let request_ps = request.and_then(|cycles| d.to_ps(cycles));
        let posted = sharing.others.iter().chain([&sharing.own]).map(|r| r.writes).sum::<u64>();
        let left = all_reads
            .checked_mul(read.max(row))?
            .checked_add((self.queue.writes + posted).checked_mul(write)?)?;
        let most_reads = sharing.others.iter().map(|r| r.reads).max().unwrap_or(0);
        Some(Costs {
            latency_ps,
            service_ps: read_alone.max(d.to_ps(self.write_cycles())?).max(d.to_ps(row)?),
            read_ps: d.to_ps(read)?,
            write_ps: d.to_ps(write)?,
            any_ps: d.to_ps(read.max(write).max(row))?,
            request_ps,
            left_ps: d.to_ps(left)?,
            phase_ps: d.to_ps(most_reads.checked_mul(row)?)?,
            phase_writes: self.queue.drain_most,
            unfinished: 0,
            refresh: Refresh {
                each_ps: d.to_ps(self.refresh_cycles())?,
                every_ps: d.to_ps(d.refi)?,
                ranks: d.ranks,
            },
        })
    }
}

#[cfg(test)]
impl Costs {
    /// Accesses of either kind that cost `any`, `left` of them under way; nothing else.
    pub(crate) fn plain(any: u64, left: u64) -> Self {
        Self {
            latency_ps: 1,
            service_ps: 1,
            read_ps: any,
            write_ps: any,
            any_ps: any,
            request_ps: None,
            left_ps: left,
            phase_ps: 0,
            phase_writes: 1,
            unfinished: 0,
            refresh: Refresh::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The least time that holds its own refreshes, as steps from below find it.
        #[test]
        fn lengthening_finds_the_least_time(
            each_ps in 0u64..2_000_000, every_ps in 0u64..10_000_000, ranks in 0u64..5, bits in 0u32..52, time in any::<u64>(),
        ) {
            let refresh = Refresh { each_ps, every_ps, ranks };
            let time_ps = time >> (63 - bits);
            let mut total = time_ps;
            let found = (0..20_000).find_map(|_| {
                let next = time_ps.saturating_add(refresh.within(total));
                let done = next <= total;
                total = next.max(total);
                done.then_some(total)
            });
            if let Some(found) = found {
                prop_assert_eq!(refresh.lengthen(time_ps), found);
            }
        }
    }
}
