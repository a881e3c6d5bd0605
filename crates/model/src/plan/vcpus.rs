//! The part of a plan for a system with VCPUs: their cores, their admission, and the rules of their
//! scheduling.
//!
//! Problem: a run of such a plan must create exactly the VCPUs that were admitted, under the same
//! rules. Rule: VCPUs in the order of the system file; the best-effort VCPU of each core is that of
//! [`VcpuScheduling::best_effort_ns`].

use super::task::PlanTask;
use crate::derivation::Derivation;
use crate::vcpus::{Background, CoreColours, Migration, Settings, Throttle, check_times};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rules of the VCPUs' scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VcpuScheduling {
    /// The VCPU that gets background time.
    pub background: Background,
    /// No window of T has more than C.
    pub strict: bool,
    /// Most waiting replenishments of a VCPU.
    pub replenishments: u32,
    /// C and T of the best-effort VCPU of each core.
    pub best_effort_ns: (u64, u64),
    /// Largest cost of a switch and a late timer, as admission counts it.
    pub overhead_ns: u64,
    /// Time from a change to the balancing of VCPUs; `null`: they stay on their cores.
    pub balance_ns: Option<u64>,
    /// Page colours of each core: a number, or one for each core. With `migration`, they are shared
    /// out from core 0 on.
    pub core_colours: Option<CoreColours>,
    /// Pages of a VCPU's programs go with it to the colours of its core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<Migration>,
    /// Throttling of background time.
    pub throttle: Option<Throttle>,
}

impl Default for VcpuScheduling {
    /// The rules of a system file that states none.
    fn default() -> Self {
        let s = Settings::default();
        Self {
            background: s.background,
            strict: s.strict,
            replenishments: s.replenishments,
            best_effort_ns: (s.best_effort.capacity.ns_ceil(), s.best_effort.period.ns_ceil()),
            overhead_ns: s.overhead.ns_ceil(),
            balance_ns: None,
            core_colours: None,
            migration: None,
            throttle: None,
        }
    }
}

/// A VCPU in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanVcpu {
    /// Unique name.
    pub name: String,
    /// Core it is placed on.
    pub core: u32,
    /// C: time on its core in each period.
    pub capacity_ns: u64,
    /// T: period of the capacity.
    pub period_ns: u64,
    /// Longest time that the VCPU needs for its capacity, counted from the time when it has its
    /// whole capacity; `null`: not bounded.
    pub response_ns: Option<u64>,
    /// Does the VCPU have its capacity within its period in the worst case?
    pub admitted: bool,
    /// Balancing leaves it where it is.
    pub fixed: bool,
    /// Page colours it needs.
    pub colours: u64,
    /// Names of its tasks.
    pub tasks: Vec<String>,
    /// Derivation of `response_ns`.
    #[serde(default)]
    pub derivation: Option<Derivation>,
}

/// VCPUs and the rules of their scheduling.
#[derive(Clone, Debug, PartialEq)]
pub struct VcpusPlan {
    /// The rules.
    pub scheduling: VcpuScheduling,
    /// VCPUs in the order of the system file, then those of solocore's own: of the memory's monitor,
    /// where background time is throttled, and of the moving of pages.
    pub vcpus: Vec<PlanVcpu>,
}

impl VcpusPlan {
    /// Checks that no value in them is impossible.
    pub(crate) fn check(&self, tasks: &[PlanTask], cores: usize) -> Result<(), String> {
        let scheduling = &self.scheduling;
        let (capacity, period) = scheduling.best_effort_ns;
        check_times(capacity, period).map_err(|what| format!("maracas.best_effort_ns: {what}"))?;
        if scheduling.replenishments == 0
            || scheduling.replenishments > 16
            || scheduling.balance_ns == Some(0)
        {
            return Err("maracas.replenishments or maracas.balance_ns is out of range".to_owned());
        }
        if scheduling.throttle.is_some_and(|t| {
            t.max_latency.is_some() == t.max_rate.is_some() || t.idle_per_mille > 1000
        }) {
            return Err(
                "maracas.throttle has no rule, or two, or an idle share above 1000".to_owned()
            );
        }
        if scheduling.migration.is_some() && scheduling.core_colours.is_none() {
            return Err("maracas.migration is there without maracas.core_colours".to_owned());
        }
        let mut bound: Vec<&str> = Vec::new();
        for (at, v) in self.vcpus.iter().enumerate() {
            let name = &v.name;
            check_times(v.capacity_ns, v.period_ns)
                .map_err(|what| format!("VCPU `{name}`: {what}"))?;
            if self.vcpus[..at].iter().any(|other| &other.name == name) {
                return Err(format!("VCPU `{name}` is there twice"));
            }
            if v.core as usize >= cores {
                return Err(format!(
                    "VCPU `{name}` is on core {}, but there are {} cores",
                    v.core, cores
                ));
            }
            for task in &v.tasks {
                let found = tasks.iter().find(|t| &t.name == task);
                if found.is_none_or(|t| t.core != v.core) || bound.contains(&task.as_str()) {
                    return Err(format!(
                        "task `{task}` of VCPU `{name}` is not there, on another core, or in two \
                            VCPUs"
                    ));
                }
                bound.push(task);
            }
        }
        Ok(())
    }
}
