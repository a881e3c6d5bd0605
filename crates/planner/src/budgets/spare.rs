//! Plans whose cores use budgets that others leave unused (`reclaim`, `sharing`).
//!
//! Problem: best effort that has used its core's budget up waits, also while others use less than
//! theirs. With MemGuard's prediction a core may lack budget that it gave away, and in a shared
//! round no budget limits a core. Rule: cores with analysed tasks give nothing away, and no shared
//! round begins before every core has used its budget up. Reclaiming then changes no bound, and a
//! shared round holds up the accesses that a core has under way (`Costs::unfinished`, set in
//! `Resources::of`). The proof is at the head of `solocore_analysis::interference`. It counts the
//! budgets of all other cores as one sum. So these must meet on each channel, and an access must
//! cost the same under each of them ([`check`]).
//! Source: single-core-equivalence, section 2.2; Yun et al., RTAS 2013.
//! Does not cover: the budget of a core with analysed tasks while it has no job; bounds by the jobs
//! of other cores (`known`), because no plan has these beside best effort.

use crate::core_plan::CorePlan;
use crate::error::PlanError;
use crate::resources::Resources;
use crate::work::Work;
use solocore_analysis::interference::Budget;
use solocore_model::System;
use solocore_model::plan::Plan;
use solocore_model::system::Sharing;

/// Checks that the bounds cover the moves of budgets that the system asks for.
///
/// # Errors
/// When cores meet on some channels only, or a part of them has budgets of writes.
pub fn check(system: &System, resources: &Resources) -> Result<(), PlanError> {
    if !system.regulation.reclaim {
        // A shared round moves no budget from one core to another.
        return Ok(());
    }
    let others = (resources.cores as usize).saturating_sub(1);
    if let Some(core) = (0..resources.cores).find(|&core| resources.rivals(core).len() < others) {
        return Err(PlanError(format!(
            "[regulation] reclaim moves budgets between cores that use different channels of the \
                memory, as core {core} does, and no bound covers that; remove reclaim, or set pages \
                = \"anywhere\""
        )));
    }
    let apart = |core: &u32| matches!(resources.budget(*core), Budget::Apart { .. });
    let with = (0..resources.cores).filter(apart).count();
    if with > 0 && with <= others {
        return Err(PlanError(format!(
            "[regulation] reclaim moves budgets between cores, and a part of the cores ({with} of \
                {}) has budgets of writes; state write_bandwidth for every core or for none",
            resources.cores
        )));
    }
    Ok(())
}

/// The rules for unused budgets, for the user; `None` where there are none.
pub fn reason(plan: &Plan) -> Option<String> {
    let r = &plan.regulation;
    let given = r.reclaim.then(|| {
        let givers: Vec<String> =
            plan.cores.iter().filter(|c| c.gives).map(|c| c.id.to_string()).collect();
        match givers.as_slice() {
            [] => {
                "every core has analysed tasks, so none gives away a part of its budget".to_owned()
            }
            [one] => format!(
                "core {one} gives away the part of its budget that it is not expected to use"
            ),
            all => format!(
                "cores {} give away the part of their budgets that they are not expected to use",
                all.join(", ")
            ),
        }
    });
    let shared = match r.sharing {
        Sharing::None => None,
        Sharing::Spare => Some("once every core has used its budget up, the period has no limit"),
        Sharing::Proportional => Some("once every core has used its budget up, each has it again"),
    };
    let lost = "bounds count the accesses that a core then has under way as lost";
    let shared = shared.map(|rule| format!("{rule}, and {lost}"));
    let said: Vec<String> = given.into_iter().chain(shared).collect();
    (!said.is_empty()).then(|| format!("unused budgets: {}", said.join("; ")))
}

/// Does a core give away the part of its budget that it is not expected to use?
pub fn gives(system: &System, core: &CorePlan, work: &[Work]) -> bool {
    let analysed = |index: usize| work.get(index).is_none_or(Work::hard);
    system.regulation.reclaim && !core.tasks().iter().any(|task| analysed(task.index))
}
