//! Derivations of the bounds of one read and of a job, in words and numbers.

use super::latency::{
    by_count, delay_per_access, job_time, read_latency, service_gap, solo_latency, with_arrivals,
    worst,
};
use super::timing::{Contention, Controller, Dram};
use crate::Derivation;

/// Derivation of the latency of a read.
#[must_use]
pub fn explain(dram: &Dram, controller: &Controller, contention: &Contention) -> Derivation {
    let latency = read_latency(dram, controller, contention);
    let narrow = |v: u128| u64::try_from(v).ok();
    let mut d = Derivation::new(
        "(k+1) row cycles + (k+1)*cap hits + (others - k)*older + way in and out + refreshes, in \
            cycles, worst k",
        "memory/latency.rs, after H. Kim et al., RTAS 2014",
    )
    .input("others", contention.others)
    .input("same bank", contention.same_bank)
    .input("hit cap", controller.hit_cap)
    .input("clock in ps", dram.clock_ps);
    if let (Some(_), Some(t)) = (latency, dram.terms(controller, contention.others))
        && let Some((k, base)) = worst(dram, controller, contention, &t)
    {
        for (name, value) in ["first delay of PRE", "first delay of ACT", "first delay of RD"]
            .into_iter()
            .zip(t.first)
        {
            d = d.step(name, narrow(value));
        }
        d = d
            .step("delay by an older request", narrow(t.older))
            .step("delay of a hit by an older request", narrow(t.older_of_hit))
            .step("k", k)
            .step("without refreshes", narrow(base))
            .step("a refresh", narrow(t.block));
    }
    d.result(latency)
}

/// Derivation of the waiting time of a job ([`job_time`]).
#[must_use]
pub fn explain_job(
    dram: &Dram,
    controller: &Controller,
    contention: &Contention,
    own: u64,
    others: u64,
    span: u64,
) -> Derivation {
    let each = read_latency(dram, controller, contention);
    let same_bank = contention.same_bank > 0;
    let count = dram
        .is_possible()
        .then(|| by_count(dram, controller, same_bank, own, others, span))
        .flatten();
    Derivation::new(
        "min(own * R, own * solo + others * L + refreshes of the span), in cycles",
        "memory/latency.rs, after H. Kim et al., RTAS 2014: request-driven and job-driven",
    )
    .input("own", own)
    .input("others", others)
    .input("span", span)
    .step("solo", solo_latency(dram, controller))
    .step("delay per access L", delay_per_access(dram, same_bank))
    .step("by request, each", each)
    .step("by count", count)
    .result(job_time(dram, controller, contention, own, others, span))
    .because(explain(dram, controller, contention))
}

/// Derivation of the latency among regulated requests ([`with_arrivals`]).
#[must_use]
pub fn explain_arrivals(
    dram: &Dram,
    controller: &Controller,
    queued: u64,
    budget: u64,
    period: u64,
) -> Derivation {
    let gap = if dram.is_possible() { u64::try_from(service_gap(dram)).ok() } else { None };
    Derivation::new(
        "R = (queued + budget*(ceil(R/period) + 1) + 1) * gap + way in and out + refreshes, in \
            cycles",
        "memory/latency.rs",
    )
    .input("queued", queued)
    .input("budget", budget)
    .input("period", period)
    .step("gap", gap)
    .result(with_arrivals(dram, controller, queued, budget, period))
}
