//! The position of a program in its phases, and its counts.
//!
//! Rule. A position within a phase is a 48-bit fraction. It moves from an anchor at a constant
//! speed until the rates change, so the state at any time does not depend on the number of queries.
//! Counts that a phase fixes are the floor of their part; DRAM lines and misses, whose rates change
//! with the share of the cache, are summed in units of 2^-64 without rounding. Reads are the
//! integer part of their share of the lines, so reads and writes both only grow.

use crate::hardware::Counters;

/// Positions of a phase.
pub(super) const WHOLE: u64 = 1 << 48;

/// Counts of a phase at one share of the cache, in units of 2^-16.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub compute_cycles: u64,
    pub accesses: u64,
    pub llc_accesses: u64,
    /// DRAM lines, in units of 2^-16.
    pub lines: u64,
    /// Misses, in units of 2^-16.
    pub misses: u64,
    /// Reads over lines, in units of 2^-64.
    pub reads: u128,
}

/// A program's state.
#[derive(Clone, Debug, Default)]
pub(super) struct FluidTask {
    pub phase: usize,
    /// Phase and position at which it goes on after it has read its private caches again.
    pub resume: Option<(usize, u64)>,
    position: u64,
    anchor_ps: u64,
    /// Positions per ps, in units of 2^-16; 0 while it does not run.
    speed: u64,
    /// Read latency, ps.
    latency_ps: u64,
    counts: Counts,
    /// Compute cycles, accesses and shared-cache accesses at the start of the phase.
    start: Counters,
    /// DRAM lines at the anchor, in units of 2^-64.
    lines: u128,
    /// Misses at the anchor, in units of 2^-64.
    misses: u128,
    reads: u64,
    /// Part of the next read, in units of 2^-64.
    reads_part: u128,
    busy_ps: u64,
    occupancy_ps: u64,
}

fn part(count: u64, position: u64) -> u64 {
    ((u128::from(count) * u128::from(position)) >> 48) as u64
}

impl FluidTask {
    /// The position at a time not before the anchor.
    pub fn position(&self, at_ps: u64) -> u64 {
        let moved = (u128::from(at_ps - self.anchor_ps) * u128::from(self.speed)) >> 16;
        WHOLE.min(u64::try_from(moved).unwrap_or(WHOLE).saturating_add(self.position))
    }

    /// Is it running?
    pub fn runs(&self) -> bool {
        self.speed > 0
    }

    /// DRAM lines at a time.
    pub fn lines(&self, at_ps: u64) -> u64 {
        (self.lines_at(self.position(at_ps)) >> 64) as u64
    }

    fn lines_at(&self, position: u64) -> u128 {
        self.lines + u128::from(position - self.position) * u128::from(self.counts.lines)
    }

    /// Reads at a number of lines: their integer part and the rest.
    fn reads_at(&self, lines: u128) -> (u64, u128) {
        let new = (lines >> 64) - (self.lines >> 64);
        let reads = new * self.counts.reads + self.reads_part;
        (self.reads + (reads >> 64) as u64, reads & u128::from(u64::MAX))
    }

    /// Counters at a time not before the anchor.
    pub fn counters(&self, at_ps: u64) -> Counters {
        let position = self.position(at_ps);
        let lines = self.lines_at(position);
        let (dram_reads, _) = self.reads_at(lines);
        let misses =
            self.misses + u128::from(position - self.position) * u128::from(self.counts.misses);
        Counters {
            compute_cycles: self.start.compute_cycles + part(self.counts.compute_cycles, position),
            busy_ps: self.busy_ps + if self.runs() { at_ps - self.anchor_ps } else { 0 },
            accesses: self.start.accesses + part(self.counts.accesses, position),
            llc_accesses: self.start.llc_accesses + part(self.counts.llc_accesses, position),
            llc_misses: (misses >> 64) as u64,
            dram_reads,
            dram_writes: (lines >> 64) as u64 - dram_reads,
        }
    }

    /// Reads under way, integrated over time, ps.
    pub fn occupancy_ps(&self, at_ps: u64) -> u64 {
        let (reads, _) = self.reads_at(self.lines_at(self.position(at_ps)));
        self.occupancy_ps.saturating_add((reads - self.reads).saturating_mul(self.latency_ps))
    }

    /// Moves the anchor to `now_ps`.
    fn sync(&mut self, now_ps: u64) {
        let counters = self.counters(now_ps);
        self.occupancy_ps = self.occupancy_ps(now_ps);
        let position = self.position(now_ps);
        let lines = self.lines_at(position);
        (self.reads, self.reads_part) = self.reads_at(lines);
        self.misses += u128::from(position - self.position) * u128::from(self.counts.misses);
        self.lines = lines;
        self.busy_ps = counters.busy_ps;
        (self.position, self.anchor_ps) = (position, now_ps);
    }

    /// Goes on at another speed: `period_ps` for the whole phase. Nothing happens if the speed and
    /// the latency are as before.
    pub fn run(
        &mut self,
        now_ps: u64,
        period_ps: u64,
        latency_ps: u64,
        lines: u64,
        misses: u64,
        reads: u128,
    ) {
        let speed =
            u64::try_from((1u128 << 64) / u128::from(period_ps.max(2))).unwrap_or(u64::MAX).max(1);
        let same =
            (self.speed, self.latency_ps, self.counts.lines, self.counts.misses, self.counts.reads);
        if same == (speed, latency_ps, lines, misses, reads) {
            return;
        }
        self.sync(now_ps);
        (self.speed, self.latency_ps) = (speed, latency_ps);
        (self.counts.lines, self.counts.misses, self.counts.reads) = (lines, misses, reads);
    }

    /// Stops.
    pub fn stop(&mut self, now_ps: u64) {
        self.sync(now_ps);
        self.speed = 0;
    }

    /// Goes to a phase, at a position, with the counts of that phase; it runs on from there if it
    /// ran.
    pub fn enter(&mut self, now_ps: u64, phase: usize, position: u64, counts: Counts) {
        self.sync(now_ps);
        let done = self.counters(now_ps);
        // The start of the phase, so that the part up to `position` counts as done.
        self.start = Counters {
            compute_cycles: done.compute_cycles.wrapping_sub(part(counts.compute_cycles, position)),
            accesses: done.accesses.wrapping_sub(part(counts.accesses, position)),
            llc_accesses: done.llc_accesses.wrapping_sub(part(counts.llc_accesses, position)),
            ..Counters::default()
        };
        (self.phase, self.position) = (phase, position);
        self.counts.compute_cycles = counts.compute_cycles;
        self.counts.accesses = counts.accesses;
        self.counts.llc_accesses = counts.llc_accesses;
        (self.counts.lines, self.counts.misses, self.counts.reads) =
            (counts.lines, counts.misses, counts.reads);
        if self.speed > 0 {
            self.speed = 1;
        }
    }

    /// The first time at which it is at a position, from the anchor on.
    fn time_of(&self, position: u64) -> u64 {
        let distance = u128::from(position.saturating_sub(self.position)) << 16;
        let wait = distance.div_ceil(u128::from(self.speed.max(1)));
        self.anchor_ps.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Time at which the phase ends, ps.
    pub fn end_ps(&self) -> u64 {
        self.time_of(WHOLE)
    }

    /// Time at which it has moved this number of DRAM lines in all, ps, if that is in this phase at
    /// these rates.
    pub fn lines_ps(&self, lines: u64) -> Option<u64> {
        let missing = (u128::from(lines) << 64).saturating_sub(self.lines);
        if missing == 0 {
            return Some(self.anchor_ps);
        }
        if self.counts.lines == 0 {
            return None;
        }
        let distance = missing.div_ceil(u128::from(self.counts.lines));
        let left = u128::from(WHOLE - self.position);
        (distance <= left).then(|| self.time_of(self.position + distance as u64))
    }
}
