//! Runs a plan with VCPUs.
//!
//! Rule: the VCPU scheduler (`vcpu.h`) with the plan's VCPUs on the plan's cores, numbered as on
//! Linux: the best-effort VCPU of each core first, by core, then the plan's in its order. Tasks
//! that are bound to none run in the best-effort VCPU of their core. Switches and timers cost
//! nothing here, so that what the plan allows for them is slack.

use super::options::PS;
use crate::kernel::config::{Background, Balancing, Rule, ThrottleSpec, VcpuConfig, VcpuSpec};
use solocore_model::plan::{Plan, VcpusPlan};
use solocore_model::vcpus::{self, Throttle};

/// Number of a task's VCPU.
pub fn of_task(plan: &Plan, task: usize) -> usize {
    let Some(task) = plan.tasks.get(task) else { return 0 };
    let bound =
        plan.vcpus().and_then(|p| p.vcpus.iter().position(|v| v.tasks.contains(&task.name)));
    bound.map_or(task.core as usize, |v| plan.cores.len() + v)
}

/// The scheduler.
pub fn config(plan: &Plan, vcpus: &VcpusPlan) -> VcpuConfig {
    let (rules, vcpus) = (&vcpus.scheduling, &vcpus.vcpus);
    let cores = plan.cores.len();
    let spec = |core: usize, (capacity_ns, period_ns): (u64, u64), colours| VcpuSpec {
        capacity_ps: capacity_ns * PS,
        period_ps: period_ns * PS,
        core: Some(core),
        colours,
    };
    let best_effort = (0..cores).map(|core| spec(core, rules.best_effort_ns, 0));
    let planned =
        vcpus.iter().map(|v| spec(v.core as usize, (v.capacity_ns, v.period_ns), v.colours));
    let stays =
        |at: &usize| at.checked_sub(cores).is_none_or(|v| vcpus.get(v).is_some_and(|v| v.fixed));
    VcpuConfig {
        vcpus: best_effort.chain(planned).collect(),
        background: match rules.background {
            vcpus::Background::LeastTime => Some(Background::LeastTime),
            vcpus::Background::Keep => Some(Background::Keep),
            vcpus::Background::LeastMemory => Some(Background::LeastMemory),
            vcpus::Background::None => None,
        },
        strict: rules.strict,
        throttle: rules.throttle.map(|t| throttle(plan, &t)),
        balancing: if rules.balance_ns.is_some() {
            Balancing::Full { limit: 1 }
        } else {
            Balancing::Static
        },
        fixed: (0..cores + vcpus.len()).filter(stays).collect(),
        replenishments: Some(rules.replenishments),
        // Cores of the board beyond the plan's run nothing.
        colours: rules.core_colours.map(|each| vec![each; plan.platform.cores as usize]),
        // The plan says whether they fit.
        admission: false,
    }
}

fn throttle(plan: &Plan, t: &Throttle) -> ThrottleSpec {
    let (rule, threshold) = match (t.max_latency, t.max_rate) {
        (Some(latency), _) => (Rule::Latency, latency.ps()),
        (None, rate) => {
            let bytes =
                u128::from(rate.map_or(0, |r| r.0)) * u128::from(t.period.ps()) / 1_000_000_000_000;
            (
                Rule::Rate,
                u64::try_from(bytes / u128::from(plan.platform.llc.line.0)).unwrap_or(u64::MAX),
            )
        }
    };
    ThrottleSpec {
        rule,
        threshold: threshold.max(1),
        idle_per_mille: t.idle_per_mille,
        period_ps: t.period.ps(),
        check_ps: t.check.ps(),
    }
}
