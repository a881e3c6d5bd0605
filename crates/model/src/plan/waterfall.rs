//! From a task's time alone to its bound: the addition of each step of the analysis.
//!
//! Problem: a profile counts 8,954 misses and a plan 204,878, and the source of the difference
//! cannot be seen. Rule: the bound on a response time is a sum of terms, in the order of [`Cause`];
//! each scheme has its own terms. They sum exactly to the bound as the plan has it, in whole
//! nanoseconds. Where nothing bounds the response time, they sum exactly to `C_sce`. Does not
//! cover: best effort, and tasks whose `C_sce` has no bound either.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Terms of a bound, in the order in which they are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The time alone: with the whole shared cache and row hits in DRAM, or the stated time.
    Alone,
    /// Level C of `[levels]` on core types with different private caches: a job that moves counts once
    /// for each distinct set of private caches.
    Moves,
    /// Only locked pages count as cached, and with `[levels]` only the task's ways. The term is
    /// negative where they save more than the whole cache does.
    Cache,
    /// A DRAM access takes `L_max`, not the time of a row hit.
    Latency,
    /// With `[levels]`: messages whose buffers are in DRAM, outside the core's ways and bank.
    Buffers,
    /// Level C of `[levels]`: a job counts with the stated `average` of its longest time. The term is
    /// never positive.
    Average,
    /// Other cores' accesses, refreshes, and the core's own budget hold the job up. With `[levels]`
    /// also devices, interrupts, and the reloads of preemptions.
    Others,
    /// Accesses under way, and the budget used up before, or the time until the other cores have
    /// seen the lock of a job: once per busy window.
    Once,
    /// Level A of `[levels]`: the time table has room for `pet_scale` of the level-B PET.
    Scale,
    /// The VCPU waits for its budget or for its core, and for accesses under way when it starts to
    /// run.
    Supply,
    /// Level B of `[levels]`: jobs of level A on its core.
    Above,
    /// Other tasks of the core, earlier jobs of the task itself, and the lines that it loads again
    /// after preemptions, with the time until a job's lock is seen. In a VCPU: other tasks of the
    /// VCPU. At level C: tasks of all levels on all cores.
    Preemption,
}

impl Cause {
    /// Its word in a plan's file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Moves => "moves",
            Self::Cache => "cache",
            Self::Latency => "latency",
            Self::Buffers => "buffers",
            Self::Average => "average",
            Self::Others => "others",
            Self::Once => "once",
            Self::Scale => "scale",
            Self::Supply => "supply",
            Self::Above => "above",
            Self::Preemption => "preemption",
        }
    }

    /// Its name in a few words, for a table.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Alone => "time alone",
            Self::Moves => "moves between private caches of level C",
            Self::Cache => "only locked pages or own ways are cached",
            Self::Latency => "L_max for each access, not a row hit",
            Self::Buffers => "message buffers in DRAM",
            Self::Average => "the stated average of level C",
            Self::Others => "other cores and the budget",
            Self::Once => "once per busy window",
            Self::Scale => "pet_scale of level A",
            Self::Supply => "the VCPU waits for budget and core",
            Self::Above => "jobs of level A",
            Self::Preemption => "other tasks and earlier jobs",
        }
    }
}

/// One term of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The term.
    pub term: Cause,
    /// Part of the bound that this term adds; it may be negative.
    pub ns: i64,
    /// DRAM accesses of a job up to this term. Absent where the term changes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
}

/// Terms in whole nanoseconds of terms in picoseconds. They sum to the sum of `terms_ps`, rounded
/// up; each differs from its own by less than one nanosecond.
#[must_use]
pub fn whole_ns(terms_ps: &[i128]) -> Vec<i64> {
    let (mut sum, mut before) = (0, 0);
    let mut out = Vec::new();
    for term in terms_ps {
        sum += term;
        let now = -(-sum).div_euclid(1000);
        out.push(i64::try_from(now - before).unwrap_or(i64::MAX));
        before = now;
    }
    out
}
