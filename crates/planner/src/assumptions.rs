//! The assumptions of verdicts and bounds about the machine and its programs, in words.
//!
//! Does not cover: conditions that must be kept while a plan runs; those are data (`promises`).

use crate::demand::Demand;
use crate::promises::spared;
use crate::work::Work;
use solocore_model::System;
use solocore_model::levels::Contention;
use solocore_model::plan::{Plan, Verdict};
use solocore_model::platform::{Pipeline, Platform};
use solocore_model::system::{Model, Policy};

/// The verdict on each analysed task, and the assumptions of its bound; in a brief plan, the first
/// one has those of all.
pub fn verdicts(system: &System, plan: &mut Plan) {
    let (mut assumes, brief) = (bound_assumptions(system, plan), plan.is_brief());
    for task in &mut plan.tasks {
        task.verdict = Verdict::of(task);
        if task.verdict.is_some() {
            task.assumes.clone_from(&assumes);
            if brief {
                assumes = Vec::new();
            }
        }
    }
}

/// Assumptions of the bounds about the machine.
fn bound_assumptions(system: &System, plan: &Plan) -> Vec<String> {
    let (p, r) = (&plan.platform, &plan.regulation);
    let measured = plan.levels().is_some()
        && system.levels().is_some_and(|m| m.settings.contention == Contention::Measured);
    if measured {
        return vec![
            "stated times were measured under the same contention as in the run".to_owned(),
        ];
    }
    let mut out = Vec::new();
    match plan.model {
        Model::Sce => {
            let m = p.most_mshrs();
            let contradicted =
                |yes: bool| if yes { " (the platform file contradicts this)" } else { "" };
            out.push(format!(
                "under eq. (1)'s assumptions: each core has one access under way{}, and the memory \
                    serves cores in turn{}",
                if m > 1 {
                    format!(" (the platform file says {m} miss registers)")
                } else {
                    String::new()
                },
                contradicted(p.dram.memory.is_some()),
            ));
            out.push(format!(
                "no write is posted, and none drained in batches{}",
                contradicted(p.dram.memory.is_some())
            ));
            out.push(format!(
                "L_max = {} includes refreshes{}",
                p.dram.latency_max,
                contradicted(p.dram.memory.is_some())
            ));
            if !r.carry_in {
                out.push(
                    "no earlier task has drained the budget of the period in which a job is \
                    released"
                        .to_owned(),
                );
            }
        }
        Model::Sound => {
            out.push(format!(
                "memory {}: timing, queues, drains and row-hit cap as docs/dram.md has them; L_max \
                    = {} by itself",
                p.dram.memory.as_deref().unwrap_or("unknown"),
                p.dram.latency_max
            ));
            out.push(format!(
                "a core has at most {} reads and {} posted writes under way",
                p.most_mshrs(),
                Pipeline::WRITE_BUFFER
            ));
            if !r.pages.is_own() {
                out.push(
                    "pages lie anywhere: the cores share the last-level cache and all DRAM banks, \
                    and the cache evicts no lines from the private caches"
                        .to_owned(),
                );
            }
            if plan.levels().is_none() && plan.cores.iter().all(|c| c.banks.is_some()) {
                out.push("each core's pages lie in its own DRAM banks".to_owned());
            }
            match r.policy {
                Policy::Memguard => {
                    let kept = "every core keeps to its budget in every period, including its analysed tasks";
                    out.push(format!("{kept}{}; periods begin together", spared(r)));
                }
                Policy::Dynamic => {
                    out.push("soft cores keep the budgets of the jobs that run".to_owned())
                }
                Policy::None | Policy::Bwlock | Policy::Maracas | Policy::Any => {}
            }
            out.push("no prefetcher and no device adds traffic that no budget counts".to_owned());
        }
    }
    if p.cores_differ() {
        out.push(
            "each core has the clock, the cycles per instruction and the private caches of its \
                core_type, and a stated wcet holds on each core that may run the task"
                .to_owned(),
        );
    }
    out
}

/// Those of its cores, the least first.
fn cycles_per_instruction(p: &Platform) -> String {
    let (least, most) = (p.least_cpi(), p.most_cpi());
    if least < most { format!("{least} to {most}") } else { least.to_string() }
}

/// Conditions under which the verdict holds.
pub fn assumptions(plan: &Plan, work: &[Work]) -> Vec<String> {
    let mut out = vec![format!(
        "L_max = {} bounds one DRAM access while no other core makes one (platform file)",
        plan.platform.dram.latency_max
    )];
    match plan.model {
        Model::Sce => {
            out.push(
                "each core has one memory request under way at a time, and the memory serves \
                the cores in turn (model = \"sce\")"
                    .to_owned(),
            );
            out.push("DMA and devices stay within the time that L_max leaves them".to_owned());
        }
        Model::Sound => {
            out.push(
                "the memory controller is like that of docs/dram.md: first ready, first come, \
                with a row-hit cap, a write queue and turns"
                    .to_owned(),
            );
            out.push(
                "every core's misses under way, posted writes and budgets are as the plan has \
                them; no prefetcher or device adds to them"
                    .to_owned(),
            );
        }
    }
    if work.iter().any(|w| matches!(w.demand, Demand::Profiled { .. })) {
        out.push(format!(
            "a job's C and mu are those of the profiled run: {} cycles per instruction, the \
                modelled caches, its input; other inputs can take longer",
            cycles_per_instruction(&plan.platform)
        ));
        out.push(if plan.regulation.pages.is_own() {
            "each access outside the locked pages misses the shared cache (safe), and write-backs \
            count as accesses (safe)"
                .to_owned()
        } else {
            "each access misses the shared cache (safe), and evicts a dirty line from it (safe)"
                .to_owned()
        });
    }
    if work.iter().any(|w| matches!(w.demand, Demand::Given { .. } | Demand::Curve(_))) {
        let share = if plan.regulation.pages.is_own() {
            "with the planned cache share"
        } else {
            "without hits in the shared cache"
        };
        out.push(format!(
            "stated wcet and misses hold {share}, count L_max for each miss, and include \
                preemption costs"
        ));
    }
    if plan.regulation.active_cores < plan.platform.cores {
        out.push(format!(
            "only {} of {} cores access memory; the others are off",
            plan.regulation.active_cores, plan.platform.cores
        ));
    }
    if plan.model == Model::Sce && !plan.regulation.carry_in {
        out.push(
            "carry_in = false: no earlier task on the core has used up the period's budget \
            when a job starts (not enforced)"
                .to_owned(),
        );
    }
    out.push("interrupts, timer ticks and context switches are not charged".to_owned());
    out
}
