//! The parts that plans of all schemes have in common: the entry of a core, and the plan around
//! tasks and cores.

use crate::core_plan::CorePlan;
use crate::demand::Demand;
use crate::resources::Resources;
use solocore_model::System;
use solocore_model::plan::{FORMAT, Plan, PlanCore, PlanRegulation, PlanTask, Scheme};

/// The plan's entry of a core, without margin.
pub fn plan_core(core: &CorePlan, tasks: &[PlanTask], resources: &Resources) -> PlanCore {
    let budget = resources.budgets.as_ref().map(|b| b[core.core as usize]);
    PlanCore {
        id: core.core,
        ways: resources.ways_of(core.core),
        budget_accesses: budget,
        write_budget_accesses: resources.write_budgets.get(core.core as usize).copied().flatten(),
        bandwidth_bytes_per_s: budget.map(|q| resources.bandwidth(q)),
        lock_capacity_pages: resources.lock_capacity_of(core.core),
        locked_pages: tasks
            .iter()
            .filter(|t| t.core == core.core)
            .map(|t| t.locked_pages.len() as u64)
            .sum(),
        utilization: core.utilization,
        banks: resources.banks(core.core),
        colours: None,
        soft: false,
        gives: false,
        margin: None,
    }
}

/// The plan, without its reasons.
pub fn whole(
    system: &System,
    tasks: Vec<PlanTask>,
    plan_cores: Vec<PlanCore>,
    resources: &Resources,
    schedulable: bool,
) -> Plan {
    Plan {
        format: FORMAT.to_owned(),
        schedulable,
        model: resources.model,
        tasks,
        cores: plan_cores,
        reasons: Vec::new(),
        assumptions: Vec::new(),
        promises: Vec::new(),
        regulation: PlanRegulation {
            period_ns: resources.regulation.period_ps.div_ceil(1000),
            active_cores: resources.cores,
            ..regulation(system)
        },
        lock: None,
        platform: resources.platform.clone(),
        best_effort_speed: None,
        certificate: None,
        repair: Vec::new(),
        what_if: None,
        inputs: Vec::new(),
        choices: Vec::new(),
        carried: std::collections::BTreeMap::new(),
        scheme: Scheme::Budgets,
    }
}

/// Puts reasons before the last one, the verdict's.
pub fn before_verdict(plan: &mut Plan, reasons: impl IntoIterator<Item = String>) {
    let last = plan.reasons.len().saturating_sub(1);
    plan.reasons.splice(last..last, reasons);
}

/// Regulation as the system states it.
pub fn regulation(system: &System) -> PlanRegulation {
    PlanRegulation {
        policy: system.regulation.policy,
        period_ns: system.regulation.period.ns_ceil(),
        share: system.regulation.share(),
        carry_in: system.regulation.carries_in(),
        active_cores: system.active_cores(),
        pages: system.regulation.pages,
        other_programs: system.regulation.other_programs,
        reclaim: system.regulation.reclaim,
        sharing: system.regulation.sharing,
        lock_budget_accesses: None,
        lock_reaction_ns: None,
        skid: system.regulation.skid,
    }
}

/// The colours of each core, where the board divides its shared cache by them.
pub fn colours(plan: &mut Plan) {
    let all = plan.platform.colours();
    for at in 0..plan.cores.len() {
        let of = plan.colours_of(plan.cores[at].id, all).filter(|&(_, count)| count > 0);
        plan.cores[at].colours = of.filter(|_| all > 1);
    }
}

/// The files that a profile's demand rests on, of each profiled task: its program and libraries;
/// and its pages. A run compares them with those that it starts, and with the frames that it has.
pub fn programs(plan: &mut Plan, demands: &[Demand]) {
    for (task, demand) in plan.tasks.iter_mut().zip(demands) {
        if let Demand::Profiled { profile, .. } = demand {
            task.program_files = profile.program_files();
            task.touched_pages = Some(profile.working_set.pages);
        }
    }
}
