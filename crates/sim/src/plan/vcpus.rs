//! Runs a plan with VCPUs.
//!
//! Rule: the VCPU scheduler (`vcpu.h`) with the plan's VCPUs on the plan's cores, numbered as on
//! Linux: the best-effort VCPU of each core first, by core, then the plan's in its order. Tasks
//! without a VCPU run in the best-effort VCPU of their core. Switches and timers cost nothing here,
//! so the plan's allowance for them is slack.

use super::options::PS;
use crate::kernel::config::{Balancing, ThrottleSpec, VcpuConfig, VcpuSpec, background};
use solocore_model::plan::{Plan, VcpusPlan};

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
        background: background(rules.background),
        strict: rules.strict,
        throttle: rules
            .throttle
            .and_then(|t| ThrottleSpec::of(&plan.platform, &t))
            .map(|t| ThrottleSpec { threshold: t.threshold.max(1), ..t }),
        balancing: if rules.balance_ns.is_some() {
            Balancing::Full { limit: 1 }
        } else {
            Balancing::Static
        },
        fixed: (0..cores + vcpus.len()).filter(stays).collect(),
        replenishments: Some(rules.replenishments),
        // Cores of the board beyond the plan's run nothing.
        colours: rules
            .core_colours
            .as_ref()
            .map(|have| (0..plan.platform.cores).map(|core| have.of(core)).collect()),
        // The plan decides whether they fit.
        admission: false,
    }
}
