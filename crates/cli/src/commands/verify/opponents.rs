//! Disturbances of a measured task: all that its bound allows.
//!
//! Rule: a bound that rests on the demand of another core's tasks holds beside these tasks, and
//! they run there as planned. Where it rests only on the core's budget, or on no promise of that
//! core, an enemy replaces all its programs. With --colors an enemy would break the colours that
//! the bound rests on, so the core's own programs run. Other tasks of the task's own core do not
//! run: `C_sce` is of a job that has its core to itself.

use crate::args::enemy::Enemy;
use crate::args::verify::VerifyArgs;
use crate::commands::enemies::Weapon;
use solocore_model::Plan;
use solocore_model::plan::{PlanTask, Promise, Subject};

/// Opponents of a measured task.
#[derive(Debug, PartialEq, Eq)]
pub struct Opponents {
    /// All other CPUs: the enemies' CPUs while nothing is enforced.
    pub everybody: Vec<u32>,
    /// CPUs of enemies while the plan is enforced.
    pub enemies: Vec<u32>,
    /// Tasks that run as planned beside it.
    pub beside: Vec<String>,
    /// Tasks that do not run.
    pub left_out: Vec<String>,
    /// Cases that are not tried because of that.
    pub untested: Vec<String>,
}

impl Opponents {
    /// The opponents of a task.
    pub fn of(plan: &Plan, task: &PlanTask, args: &VerifyArgs, online: &[u32]) -> Self {
        let mut all = Self {
            everybody: online.iter().copied().filter(|&cpu| cpu != task.core).collect(),
            enemies: Vec::new(),
            beside: Vec::new(),
            left_out: Vec::new(),
            untested: Vec::new(),
        };
        for core in plan.cores.iter().map(|c| c.id).filter(|&c| c != task.core) {
            let there = || plan.tasks.iter().filter(move |t| t.core == core);
            let counted =
                there().any(|t| counts_on(plan, task, t)) || is_kept_free(plan, task, core);
            if (args.everywhere || !counted) && !args.colors {
                all.enemies.extend(online.contains(&core).then_some(core));
                continue;
            }
            let (run, silent): (Vec<_>, Vec<_>) = there().partition(|t| has_command(args, t));
            let why = if counted {
                "the bound counts on the demand of that core's tasks, so these tasks ran there; \
                    --everywhere puts enemies there as well"
            } else {
                "with --colors an enemy would lie in any colours, so that core's own programs ran \
                    there"
            };
            all.untested.push(format!("enemies on core {core} beside {}: {why}", task.name));
            all.untested.extend(silent.iter().map(|t| {
                format!(
                    "task {} beside {}: it has no command, so it did not run",
                    t.name, task.name
                )
            }));
            all.beside.extend(run.iter().map(|t| t.name.clone()));
        }
        let runs = |t: &&PlanTask| t.name == task.name || all.beside.contains(&t.name);
        all.left_out = plan.tasks.iter().filter(|t| !runs(t)).map(|t| t.name.clone()).collect();
        all
    }
}

/// Whether the bound of a task requires that only the plan's tasks run on a core.
pub fn is_kept_free(plan: &Plan, task: &PlanTask, core: u32) -> bool {
    let here = |p: &&Promise| p.subject == Subject::Others && p.core() == Some(core);
    plan.promises.iter().filter(here).any(|p| rests_on(p, task))
}

/// Whether there is anything to start.
pub fn has_command(args: &VerifyArgs, task: &PlanTask) -> bool {
    let own = |c: &String| c.split_once('=').is_some_and(|(name, _)| name == task.name);
    task.command.is_some() || args.commands.iter().any(own)
}

/// An enemy of this kind with this memory.
pub fn weapon(args: &VerifyArgs, enemy: Enemy, bytes: u64) -> Weapon<'_> {
    Weapon { enemy, bytes, map: args.map.as_deref().filter(|_| enemy == Enemy::Bank) }
}

/// Whether the bound of a task rests on the demand of another one.
fn counts_on(plan: &Plan, task: &PlanTask, other: &PlanTask) -> bool {
    let its = |p: &&Promise| p.subject == Subject::Demand && p.name() == other.name;
    plan.promises.iter().filter(its).any(|p| rests_on(p, task))
}

fn rests_on(promise: &Promise, task: &PlanTask) -> bool {
    promise.bound_of.contains(&task.name) || promise.bound_of_cores.contains(&task.core)
}
