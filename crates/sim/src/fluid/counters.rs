//! Counters added and subtracted, field by field.

use crate::hardware::Counters;

fn merge(a: Counters, b: Counters, f: impl Fn(u64, u64) -> u64) -> Counters {
    Counters {
        compute_cycles: f(a.compute_cycles, b.compute_cycles),
        busy_ps: f(a.busy_ps, b.busy_ps),
        accesses: f(a.accesses, b.accesses),
        llc_accesses: f(a.llc_accesses, b.llc_accesses),
        llc_misses: f(a.llc_misses, b.llc_misses),
        dram_reads: f(a.dram_reads, b.dram_reads),
        dram_writes: f(a.dram_writes, b.dram_writes),
    }
}

pub(super) fn sum(a: Counters, b: Counters) -> Counters {
    merge(a, b, |a, b| a + b)
}

pub(super) fn minus(a: Counters, b: Counters) -> Counters {
    merge(a, b, u64::saturating_sub)
}
