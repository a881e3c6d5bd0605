//! The reasons of a plan with levels, in words: derivations of PETs, reasons, the verdict, and its
//! assumptions.

use super::found::{Found, bounded, fixed_io, level_c, scheme_of};
use super::optimiser::ways::MARGIN;
use super::optimiser::{Allocator, Answer};
use crate::demand::Demand;
use crate::error::PlanError;
use crate::work::DETAILED;
use solocore_analysis::Derivation;
use solocore_analysis::levels::Verdict;
use solocore_model::plan::{Choice, Plan};
use solocore_model::system::{Criticality, Model};

/// Derivation of the PETs of a task.
pub fn derivation(found: &Found, at: usize) -> Derivation {
    let (shape, ways) = (&found.translated.shapes[at], found.ways(at));
    let task = &found.translated.system.tasks[at];
    let pets = &found.checked.tasks[at].pets;
    Derivation::new(
        "PET_B = time alone with its ways + waits for the memory + preemptions + buffers + \
            interrupts; PET_A = pet_scale*PET_B; PET_C = average*PET_B",
        "mc2-os-isolation, sections 2 and 6.1; planner::levels::translate",
    )
    .input("level", format!("{:?}", task.level))
    .input("ways", ways as u64)
    .input("pet_scale", found.isolation.settings.pet_scale)
    .input("average", task.average)
    .step("time alone, ps", shape.alone(ways))
    .step("DRAM accesses", shape.misses.get(ways).copied().unwrap_or(0))
    .step("with waits for the memory, ps", shape.contended_ps.get(ways).copied().flatten())
    .step("preemptions and accesses under way, ps", shape.fixed_ps)
    .step("PET_A, ps", pets.a.div_ceil(1000))
    .step("PET_B, ps", pets.b.div_ceil(1000))
    .step("PET_C, ps", pets.c.div_ceil(1000))
    .result(pets.at(task.level).div_ceil(1000))
}

/// The reason why a plan with many tasks lacks prices and names.
pub fn without_details(tasks: usize) -> Option<String> {
    (tasks > DETAILED).then(|| {
        format!(
            "details: the system has {tasks} tasks; above {DETAILED}, a plan has no prices of other \
                places for its tasks and buffers, and each promise names cores in place of tasks. \
                Tasks of level C count as tasks of core 0"
        )
    })
}

/// One line per rule and choice, the verdict last.
pub fn reasons(found: &Found, plan: &Plan, faults: &[String]) -> Result<Vec<String>, PlanError> {
    let (s, split) = (&found.translated.system, &found.allocation.split);
    let mut out = vec![
        "levels: A by a time table on its core, B rate monotonic below it, C by global EDF on the \
            rest, D best effort"
            .to_owned(),
        format!(
            "PETs: level B the longest time, level A {} of it, level C the stated average; {}",
            found.isolation.settings.pet_scale,
            if bounded(found) {
                "each DRAM access waits for one of each other master of the memory"
            } else {
                "stated times include contention; [levels.costs] has the costs of buffers and DMA"
            }
        ),
    ];
    if plan.schedulable {
        let cores: Vec<String> = split.cores[..s.cores].iter().map(usize::to_string).collect();
        out.push(format!(
            "cache: {} ways: {} for levels A and B of the cores, {} for locked buffers, {} for \
                level C and the OS",
            found.translated.machine.ways,
            cores.join(" + "),
            split.locked,
            split.level_c
        ));
        out.extend(plan.levels().iter().flat_map(|levels| &levels.choices).map(Choice::line));
    }
    out.push(verdict(found, plan, faults)?);
    Ok(out)
}

fn verdict(found: &Found, plan: &Plan, faults: &[String]) -> Result<String, PlanError> {
    if plan.schedulable {
        let late = plan.tasks.iter().filter_map(|t| t.tardiness_ns).max();
        return Ok(match late {
            None => "verdict: levels A and B meet their deadlines".to_owned(),
            Some(ns) => format!(
                "verdict: levels A and B meet their deadlines, level C is tardy by at most {:.3} \
                    ms; its utilization is {:.4}",
                ns as f64 / 1e6,
                level_c(found)
            ),
        });
    }
    if matches!(found.answer, Answer::Undecided) {
        return Ok(
            "verdict: not schedulable: for O|opt the search found neither an allocation nor \
        a proof that none exists; try scheme = \"O|C+A/B-All\", or lower the demand"
                .to_owned(),
        );
    }
    let allocated = matches!(found.answer, Answer::Allocation(_));
    if let Some(fault) = faults.first().filter(|_| allocated) {
        return Ok(format!("verdict: not schedulable: {fault}"));
    }
    if allocated {
        let what = match &found.checked.verdict {
            Verdict::Core { core, .. } => format!("levels A and B of core {core}"),
            Verdict::LevelC(_) => "a bound on the tardiness of level C".to_owned(),
            Verdict::Schedulable => "the allocation".to_owned(),
        };
        return Ok(format!(
            "verdict: not schedulable: a second, independent test does not confirm {what}; lower \
                the demand"
        ));
    }
    Ok(format!(
        "verdict: not schedulable: {}; spread or shorten the tasks, lengthen periods, give more \
            ways, or move tasks to a lower level",
        shortage(found)?
    ))
}

/// The condition that no split satisfies, for the placement with tasks apart.
fn shortage(found: &Found) -> Result<String, PlanError> {
    let (s, p) = (&found.translated.system, found.translated.machine);
    let scheme = fixed_io(scheme_of(found.isolation.settings.scheme)?);
    let mut allocator = Allocator::new(p);
    allocator.load(s);
    let problems = allocator.problems(s, scheme);
    let Some(problem) = problems.last() else { return Ok("no problem".to_owned()) };
    let fits = |core: usize, ways: usize| {
        (0..3).all(|check| problem.demand[core][check][ways] <= 1.0 - MARGIN)
    };
    let mut needed = Vec::new();
    for core in 0..s.cores {
        let Some(ways) = (0..=p.ways).find(|&ways| fits(core, ways)) else {
            let most = |check: usize| problem.demand[core][check][p.ways];
            return Ok(format!(
                "core {core} is overloaded even with all {} ways (level A {:.3} by A-PETs, A and B \
                    {:.3} by B-PETs)",
                p.ways,
                most(0),
                most(1)
            ));
        };
        needed.push(ways);
    }
    let sum: usize = needed.iter().sum();
    if sum + problem.least_c > p.ways {
        let list: Vec<String> = needed.iter().map(usize::to_string).collect();
        return Ok(format!(
            "the cores need {} ways and level C {}, but there are {}",
            list.join(" + "),
            problem.least_c,
            p.ways
        ));
    }
    let level_c = p.ways - sum;
    let left: f64 = (0..s.cores).map(|core| 1.0 - problem.demand[core][2][needed[core]]).sum();
    let tasks = problem.margin[level_c]
        .map_or("a job of level C does not fit its period".to_owned(), |margin| {
            format!("a bound on its tardiness needs {margin:.3} of that")
        });
    Ok(format!(
        "level C takes {:.3} of the cores with {level_c} ways, and levels A and B leave \
            {left:.3}; {tasks}",
        problem.total[level_c]
    ))
}

/// Assumptions of the verdict.
pub fn assumptions(found: &Found, demands: &[Demand]) -> Vec<String> {
    let p = &found.system.platform;
    let mut out = vec![
        "levels A and B are released together at time 0 and then with their periods; tasks poll, \
        and no task suspends itself"
            .to_owned(),
        "pages of core k's tasks of levels A and B lie in DRAM bank k, and the ways are enforced; \
            banks are not interleaved"
            .to_owned(),
        "the tardiness bound of level C holds while no job of any level exceeds its level-C PET"
            .to_owned(),
    ];
    if bounded(found) {
        out.push(match found.system.regulation.model() {
            Model::Sce => format!(
                "L_max = {} bounds the service of one DRAM access; each core has one under way at \
                    a time, and the memory serves cores and devices in turn (model = \"sce\")",
                p.dram.latency_max
            ),
            Model::Sound => format!(
                "L_max = {} bounds one DRAM access by itself; the delay that others can add to it \
                    follows from their miss registers, posted writes and the controller of \
                    docs/dram.md",
                p.dram.latency_max
            ),
        });
    } else {
        out.push(
            "the stated times were measured under contention for all resources that are not \
            isolated; [levels.costs] are those of this board"
                .to_owned(),
        );
    }
    if demands.iter().any(|d| matches!(d, Demand::Profiled { .. })) {
        let words = if p.counts_by_ways() {
            "a profiled job's misses by ways are those of the profiled run under LRU, with pages \
                of colours in the order of first touch"
        } else {
            "no access of a profiled job counts as a hit in the shared cache, because its misses \
            by ways hold only under LRU and without slices; misses_by_ways can state measured \
            misses"
        };
        out.push(words.to_owned());
    }
    if demands.iter().any(|d| matches!(d, Demand::Given { .. })) {
        out.push(
            "stated times hold with the planned ways and include messages within the core and the \
                cost of a preemption beyond `reload`"
                .to_owned(),
        );
    }
    if found.system.tasks.iter().any(|t| t.criticality == Criticality::D) && !bounded(found) {
        out.push("level D makes no more traffic than during the measurements".to_owned());
    }
    if found.checked.verdict != Verdict::Schedulable {
        out.push("figures of a plan that is not schedulable are those of an even split".to_owned());
    }
    out
}
