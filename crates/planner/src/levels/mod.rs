//! Plans for systems with `[levels]`: criticality levels on isolated hardware.
//!
//! Problem: place tasks of levels A and B, put message and I/O buffers into banks, and share out
//! the ways of the cache. A and B must meet their deadlines, and C must have bounded tardiness and
//! the least utilization. Rule: [`optimiser`] (the paper's section 6.1) solves this; [`translate`]
//! puts a system into its terms. A schedulable allocation is checked again, task by task, by an
//! independent test (`verify`) before anything is promised. Each choice is priced against its
//! alternatives by the same functions ([`choices`]).
//!
//! Not covered: choosing among boards, levels or periods; regulating bandwidth.

mod choices;
mod entries;
mod found;
pub mod optimiser;
mod reasons;
mod table;
mod translate;
mod waterfall;

use crate::demand::Demand;
use crate::error::PlanError;
use crate::explain::warnings;
use crate::whole::before_verdict;
use crate::work::Work;
use entries::{isolation_plan, plan_core, plan_task};
use found::{Found, fixed_io, scheme_of};
use optimiser::placement::Kind;
use optimiser::verify;
use optimiser::ways::{MOST_CORES, Split};
use optimiser::{Allocation, Allocator, Answer, Objective};
use solocore_analysis::levels::Level;
use solocore_model::System;
use solocore_model::levels::{Isolation, bank_bytes};
use solocore_model::plan::levels::{LevelsPlan, LevelsTable, Method};
use solocore_model::plan::{FORMAT, Plan, PlanTask, Scheme as WhoRuns};
use table::Job;
use translate::Translated;

/// Plans a system with `[levels]`.
///
/// # Errors
/// When buffers do not fit into their banks.
pub fn plan(system: &System, isolation: &Isolation, demands: &[Demand]) -> Result<Plan, PlanError> {
    let translated = translate::translate(system, isolation, demands);
    let found = optimise(system, isolation, &translated)?;
    check_banks(&found)?;
    let (tables, responses, faults) = tables(&found);
    let schedulable = found.schedulable() && faults.is_empty();
    let tasks: Vec<PlanTask> = (0..system.tasks.len())
        .map(|index| plan_task(&found, demands, index, &responses, schedulable))
        .collect();
    let cores = (0..system.active_cores()).map(|core| plan_core(&found, core)).collect();
    let choices = if schedulable { choices::all(&found)? } else { Vec::new() };
    let levels = LevelsPlan { choices, ..isolation_plan(&found, tables) };
    let mut plan = Plan {
        best_effort_speed: None,
        format: FORMAT.to_owned(),
        schedulable,
        model: system.regulation.model(),
        tasks,
        cores,
        reasons: Vec::new(),
        assumptions: reasons::assumptions(&found, demands),
        promises: Vec::new(),
        regulation: crate::whole::regulation(system),
        lock: None,
        platform: system.platform.clone(),
        certificate: None,
        repair: Vec::new(),
        what_if: None,
        inputs: Vec::new(),
        choices: Vec::new(),
        carried: std::collections::BTreeMap::new(),
        scheme: WhoRuns::Levels(Box::new(levels)),
    };
    plan.reasons = reasons::reasons(&found, &plan, &faults)?;
    plan.reasons.splice(0..0, reasons::without_details(system.tasks.len()));
    let warnings: Vec<String> = plan
        .tasks
        .iter()
        .zip(system.tasks.iter().zip(demands))
        .flat_map(|(t, (task, demand))| {
            warnings(t, &Work { task, demand, priority: t.priority }, &plan)
        })
        .collect();
    before_verdict(&mut plan, warnings);
    Ok(plan)
}

fn optimise<'a>(
    system: &'a System,
    isolation: &'a Isolation,
    translated: &'a Translated,
) -> Result<Found<'a>, PlanError> {
    let s = &translated.system;
    let scheme = scheme_of(isolation.settings.scheme)?;
    let mut allocator = Allocator::new(translated.machine);
    allocator.load(s);
    let answer = allocator.allocate(s, scheme, Objective::LeastLevelC);
    let allocation = match answer {
        Answer::Allocation(found) => found,
        // Not schedulable: an even split, for its figures.
        _ => Allocation { scheme: fixed_io(scheme), kind: Kind::Apart, split: even(translated) },
    };
    let own_bank = (0..s.starts[1])
        .map(|at| s.tasks[at].io.is_some() && allocator.own_bank(s, &allocation, at))
        .collect();
    let checked = verify::check(s, &mut allocator, &allocation);
    let locked_from = allocator.placed(s, allocation.kind).locked_from.clone();
    Ok(Found { system, isolation, translated, answer, allocation, checked, own_bank, locked_from })
}

fn even(translated: &Translated) -> Split {
    let (ways, cores) = (translated.machine.ways, translated.system.cores);
    let mut split = Split {
        cores: [0; MOST_CORES],
        level_c: 0,
        locked: 0,
        level_c_utilization: 0.0,
        taken: 0.0,
    };
    let each = ways / (cores + 1);
    split.cores[..cores].fill(each);
    split.level_c = ways - each * cores;
    split
}

/// Buffers in a core's bank must fit into it.
fn check_banks(found: &Found) -> Result<(), PlanError> {
    let bank = bank_bytes(&found.system.platform);
    for core in 0..found.translated.system.cores {
        let messages = (0..found.translated.edges.len())
            .filter(|&e| found.method(e) == Method::Together)
            .filter(|&e| found.core(found.translated.system.edges[e].sender) == Some(core))
            .map(|e| u64::from(found.translated.system.edges[e].bytes));
        let io = (0..found.own_bank.len())
            .filter(|&at| found.own_bank[at] && found.core(at) == Some(core))
            .flat_map(|at| {
                found.isolation.io.iter().filter(move |(io, _)| io.task == found.task(at).name)
            })
            .map(|(io, _)| io.size.0);
        let used = messages.chain(io).fold(0u64, u64::saturating_add);
        if used > bank.0 {
            return Err(PlanError(format!(
                "the buffers of core {core} have {used} bytes, but its bank holds {bank}; make \
                    them smaller, or choose scheme = \"C|C\""
            )));
        }
    }
    Ok(())
}

/// Level A of each core, the longest response of its tasks (by the optimiser's index), and the
/// faults.
fn tables(found: &Found) -> (Vec<LevelsTable>, Vec<Option<u64>>, Vec<String>) {
    let (mut tables, mut faults) = (Vec::new(), Vec::new());
    let mut responses = vec![None; found.translated.shapes.len()];
    for core in 0..found.translated.system.cores {
        let own = found.on_core(core, Level::A);
        let jobs: Vec<Job> = own
            .iter()
            .map(|(at, task)| Job {
                task: found.translated.shapes[*at].index,
                period_ns: task.period / 1000,
                pet_ns: task.pets.a.div_ceil(1000),
            })
            .collect();
        if jobs.is_empty() {
            continue;
        }
        match table::build(u32::try_from(core).unwrap_or(u32::MAX), &jobs) {
            Ok((table, longest)) => {
                tables.push(table);
                own.iter().zip(longest).for_each(|((at, _), ns)| responses[*at] = Some(ns));
            }
            Err(fault) => faults.push(fault.text(core, |at| &found.system.tasks[at].name)),
        }
    }
    (tables, responses, faults)
}
