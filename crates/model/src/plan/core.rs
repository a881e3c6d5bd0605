//! A core in a plan, with its share of the machine, and the regulation of all of them.

use crate::system::{Pages, Policy, Share, Sharing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The factor by which all analysed tasks of a core may grow together, in thousandths, rounded
/// down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreMargin {
    /// Factor, in thousandths, by which all execution times may grow, misses kept.
    pub wcets_permille: u64,
    /// Factor, in thousandths, by which all miss counts may grow, execution times kept; `null` if
    /// there are none or nothing bounds them.
    pub misses_permille: Option<u64>,
    /// Least budget with which every deadline is still met, the other cores' budgets kept; `null`
    /// without regulation.
    pub least_budget_accesses: Option<u64>,
    /// The task whose execution time may grow least, relative to its present value.
    pub critical_task: String,
}

/// A core in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCore {
    /// Number of the core.
    pub id: u32,
    /// Its share of the shared cache in ways, or in colours the equivalent of that number of ways;
    /// 0 where all cores share it.
    pub ways: u32,
    /// `Q`: DRAM accesses per regulation period; `null` without regulation.
    pub budget_accesses: Option<u64>,
    /// The part of the budget that is for writes only; reads have the rest. `null`: one budget for
    /// both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget_accesses: Option<u64>,
    /// The budget as bandwidth, bytes per second; `null` without regulation.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Most pages that its share can hold locked.
    pub lock_capacity_pages: u64,
    /// Pages that the plan locks in its share.
    pub locked_pages: u64,
    /// Sum of `C_sce / T` over its analysed tasks.
    pub utilization: f64,
    /// DRAM banks of its own, first and count; `null` where cores share them.
    pub banks: Option<(u32, u32)>,
    /// Colours of the shared cache of its own, first and count, where the board divides its cache
    /// by them. They stand for `ways`: whole colours only, so they may hold less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colours: Option<(u32, u32)>,
    /// With policy `dynamic`: the core has no analysed task, and is limited while analysed tasks of
    /// other cores run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub soft: bool,
    /// With `reclaim` of the regulation: it gives away the part of its budget that it is not
    /// expected to use. A core with analysed tasks never does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gives: bool,
    /// Largest growth of its tasks; `null` where a deadline is missed or none is promised.
    #[serde(default)]
    pub margin: Option<CoreMargin>,
}

impl PlanCore {
    /// The colours that stand for `ways` of a cache, from the way `first` on, of a cache of `all`
    /// ways and `colours` colours: first and count.
    #[must_use]
    pub fn colours_for(first: u32, ways: u32, all: u32, colours: u32) -> (u32, u32) {
        let all = u64::from(all.max(1));
        let share = |ways: u32| {
            u32::try_from(u64::from(ways).min(all) * u64::from(colours) / all).unwrap_or(0)
        };
        let from = share(first);
        (from, share(first.saturating_add(ways)) - from)
    }

    /// Of a core's colours, the number that may be for locked pages alone: one is left for its
    /// other pages.
    #[must_use]
    pub fn colours_to_lock(colours: u32) -> u32 {
        colours.saturating_sub(1)
    }
}

/// Regulation as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRegulation {
    /// The policy that regulates memory traffic.
    pub policy: Policy,
    /// `P`: the regulation period.
    pub period_ns: u64,
    /// Way in which the guaranteed bandwidth is shared out.
    pub share: Share,
    /// The bounds charge the budget that an earlier task may have drained.
    pub carry_in: bool,
    /// `m`: cores that may access memory.
    pub active_cores: u32,
    /// Rule for the places of the tasks' pages.
    #[serde(default, skip_serializing_if = "Pages::is_own")]
    pub pages: Pages,
    /// Programs outside of the plan run on its cores, within the budgets.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_programs: bool,
    /// With policy `memguard`: cores may use budget that others give away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reclaim: bool,
    /// With policy `memguard`: use of the rest of a period in which every core has used its budget
    /// up.
    #[serde(default, skip_serializing_if = "Sharing::is_none")]
    pub sharing: Sharing,
    /// With policy `bwlock`: accesses per period that each core may make for tasks that are not
    /// real-time while a program holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_budget_accesses: Option<u64>,
    /// With policy `bwlock` and `lock = "jobs"`, where each analysed task holds the lock while it
    /// runs: longest time from the beginning of a job until the other cores keep to
    /// `lock_budget_accesses`. Response times rest on both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_reaction_ns: Option<u64>,
    /// With policy `memguard`: accesses that a core makes at most beyond its budget until it is
    /// stopped. It is never stopped before its budget is used up. 0: not bounded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skid: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}
