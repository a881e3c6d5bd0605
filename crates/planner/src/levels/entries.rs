//! The plan's entries: the optimiser's results, task by task and core by core, in the plan's types.
//!
//! Problem: the optimiser works in femtoseconds and its own numbers of tasks, a plan in nanoseconds
//! and names. Rule: times are rounded up, and the limits that they are compared with down. Does not
//! cover: reasons (`reasons`), and choices with their prices (`choices`).

use super::found::{Found, level_c};
use super::reasons;
use super::waterfall::{self, Response};
use crate::demand::Demand;
use solocore_analysis::Derivation;
use solocore_analysis::levels::{self as analysis, Level, LevelsTask};
use solocore_model::plan::levels::{
    LevelsCore, LevelsIo, LevelsMessage, LevelsPets, LevelsPlan, LevelsTable, Method, Ways,
};
use solocore_model::plan::{PlanCore, PlanTask};
use solocore_model::system::Criticality;

const FS_PER_NS: u64 = 1_000_000;

/// Bound on the response of a task of level B, with each other task of its core and level with a
/// period that is not longer.
fn response_b(found: &Found, at: usize) -> Option<Response> {
    let core = found.core(at)?;
    let a: Vec<LevelsTask> =
        found.on_core(core, Level::A).into_iter().map(|(_, task)| task).collect();
    let all = found.on_core(core, Level::B);
    let own = all.iter().find(|(i, _)| *i == at)?.1;
    let mut b: Vec<LevelsTask> =
        all.iter().filter(|(i, t)| *i != at && t.period <= own.period).map(|(_, t)| *t).collect();
    b.push(own);
    // The test of the whole core promises the period in any case.
    let bound = analysis::level_b_response(&a, &b, b.len() - 1, &analysis::Noise::default());
    let above_ps = bound.and_then(|window| analysis::level_a_within(&a, window));
    Some(Response { ps: bound.unwrap_or(own.period), above_ps })
}

pub fn plan_task(
    found: &Found,
    demands: &[Demand],
    index: usize,
    responses: &[Option<u64>],
    schedulable: bool,
) -> PlanTask {
    let task = &found.system.tasks[index];
    let period_ns = task.period.map(solocore_model::Time::ns_ceil);
    let (profile, command) = match (&task.demand, &demands[index]) {
        (solocore_model::system::Demand::Command(_), Demand::Profiled { path, profile }) => {
            (Some(path.clone()), Some(profile.command.clone()))
        }
        (_, Demand::Profiled { path, .. }) => (Some(path.clone()), None),
        _ => (None, task.command.clone()),
    };
    let mut out = PlanTask {
        name: task.name.clone(),
        core: task.core.unwrap_or(0),
        criticality: task.criticality,
        wcet_ns: 0,
        misses: 0,
        stall_ns: 0,
        c_sce_ns: 0,
        wcrt_ns: None,
        // The deadline that is compared with it is rounded up.
        deadline_ns: task.period.map(|p| p.ps() / 1000),
        schedulable: true,
        verdict: None,
        assumes: Vec::new(),
        period_ns,
        priority: u32::try_from(index + 1).unwrap_or(u32::MAX),
        crpd_ns: 0,
        private_cycles: match &demands[index] {
            Demand::Profiled { profile, .. } => Some(profile.private_cycles),
            Demand::Given { .. } | Demand::Curve(_) => None,
        },
        locked_pages: Vec::new(),
        profile,
        profiled: None,
        program_files: Vec::new(),
        touched_pages: None,
        command,
        program: task.program.clone(),
        soft_budget: None,
        soft_budget_length_ns: None,
        partition: None,
        unlocked: None,
        tardiness_ns: None,
        margin: None,
        derivation: None,
        waterfall: Vec::new(),
    };
    let Some(at) = found.place(index) else {
        let p = &found.system.platform;
        out.wcet_ns = demands[index].wcet_ps(0, p).div_ceil(1000);
        (out.misses, out.c_sce_ns) = (demands[index].misses(0), out.wcet_ns);
        return out;
    };
    let (alone_ps, misses) = alone(found, at);
    out.core = found.core(at).map_or(0, |core| u32::try_from(core).unwrap_or(u32::MAX));
    (out.wcet_ns, out.misses) = (alone_ps.div_ceil(1000), misses);
    out.c_sce_ns = found.c_sce_fs(at).map_or(u64::MAX, |fs| fs.div_ceil(FS_PER_NS));
    out.stall_ns = out.c_sce_ns.saturating_sub(out.wcet_ns);
    out.crpd_ns = found.translated.shapes[at].fixed_ps.div_ceil(1000);
    out.schedulable = schedulable || meets(found, at);
    let mut response = None;
    if out.schedulable {
        response = match task.criticality {
            Criticality::A => responses[at].map(Response::of_ns),
            Criticality::B => response_b(found, at),
            Criticality::C | Criticality::D => {
                let late = found.checked.tardiness.and_then(|t| t.of(&found.checked.tasks[at]));
                out.tardiness_ns = late.map(|fs| fs.div_ceil(FS_PER_NS));
                let both = out.tardiness_ns.zip(period_ns);
                both.map(|(late, period)| Response::of_ns(late.saturating_add(period)))
            }
        };
    }
    out.wcrt_ns = response.map(|r| r.ps.div_ceil(1000));
    out.waterfall = waterfall::of(found, &demands[index], at, response);
    out.derivation = Some(reasons::derivation(found, at));
    out
}

/// Execution time and DRAM accesses of a job alone, with its ways and the additions of its
/// message buffers.
fn alone(found: &Found, at: usize) -> (u64, u64) {
    let shape = &found.translated.shapes[at];
    let ways = found.ways(at);
    let misses = shape.misses.get(ways).copied().unwrap_or(0);
    let (buffers_ps, lines) = found.buffers(at);
    (shape.alone(ways).saturating_add(buffers_ps), misses.saturating_add(lines))
}

/// Does the task's own test pass, although the system's does not?
fn meets(found: &Found, at: usize) -> bool {
    let Some(core) = found.core(at) else { return found.checked.tardiness.is_some() };
    let tasks = |level| found.on_core(core, level).into_iter().map(|(_, t)| t).collect::<Vec<_>>();
    let (a, b) = (tasks(Level::A), tasks(Level::B));
    let good = analysis::CoreVerdict::Schedulable;
    let level_a = analysis::level_a(&a) == good;
    match found.translated.system.tasks[at].level {
        Level::A => level_a,
        _ => level_a && analysis::level_b(&a, &b, &analysis::Noise::default()) == good,
    }
}

fn utilization(tasks: &[(usize, LevelsTask)], level: Level) -> f64 {
    tasks.iter().map(|(_, t)| t.pets.at(level) as f64 / t.period as f64).fold(0.0, |sum, u| sum + u)
}

pub fn plan_core(found: &Found, core: u32) -> PlanCore {
    let own = core as usize;
    let (a, b) = (found.on_core(own, Level::A), found.on_core(own, Level::B));
    PlanCore {
        id: core,
        ways: u32::try_from(found.allocation.split.cores[own]).unwrap_or(0),
        budget_accesses: None,
        write_budget_accesses: None,
        bandwidth_bytes_per_s: None,
        lock_capacity_pages: 0,
        locked_pages: 0,
        utilization: utilization(&a, Level::B) + utilization(&b, Level::B),
        banks: Some((core, 1)),
        colours: None,
        soft: false,
        gives: false,
        margin: None,
    }
}

pub fn isolation_plan(found: &Found, tables: Vec<LevelsTable>) -> LevelsPlan {
    let split = &found.allocation.split;
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut first = 0;
    let mut region = |count: usize| {
        let out = Ways { first, count: small(count) };
        first += out.count;
        out
    };
    let cores = (0..found.translated.system.cores)
        .map(|core| {
            let (a, b) = (found.on_core(core, Level::A), found.on_core(core, Level::B));
            LevelsCore {
                id: small(core),
                ways: region(split.cores[core]),
                bank: small(core),
                level_a: utilization(&a, Level::A),
                level_b: utilization(&a, Level::B) + utilization(&b, Level::B),
                level_c: utilization(&a, Level::C) + utilization(&b, Level::C),
            }
        })
        .collect();
    let (locked_ways, level_c_ways) = (region(split.locked), region(split.level_c));
    LevelsPlan {
        scheme: found.isolation.settings.scheme,
        contention: found.isolation.settings.contention,
        ways: small(found.translated.machine.ways),
        cores,
        level_c_ways,
        locked_ways,
        level_c_utilization: level_c(found),
        pets: pets(found),
        messages: messages(found),
        io: io(found),
        tables,
        choices: Vec::new(),
        derivation: Some(explain(found)),
    }
}

fn pets(found: &Found) -> Vec<LevelsPets> {
    let mut order: Vec<usize> = (0..found.translated.shapes.len()).collect();
    order.sort_by_key(|&at| found.translated.shapes[at].index);
    order
        .into_iter()
        .map(|at| {
            let p = &found.checked.tasks[at].pets;
            LevelsPets {
                task: found.task(at).name.clone(),
                ways: u32::try_from(found.ways(at)).unwrap_or(0),
                a_ns: p.a.div_ceil(FS_PER_NS).max(1),
                b_ns: p.b.div_ceil(FS_PER_NS).max(1),
                c_ns: p.c.div_ceil(FS_PER_NS).max(1),
            }
        })
        .collect()
}

fn messages(found: &Found) -> Vec<LevelsMessage> {
    let t = found.translated;
    let mut order: Vec<usize> = (0..t.edges.len()).collect();
    order.sort_by_key(|&e| t.edges[e]);
    let message = |e: usize| {
        let (ipc, method) = (&found.isolation.ipc[t.edges[e]].0, found.method(e));
        let core = found.core(t.system.edges[e].sender).and_then(|core| u32::try_from(core).ok());
        let bank = core.filter(|_| method == Method::Together);
        LevelsMessage {
            from: ipc.from.clone(),
            to: ipc.to.clone(),
            bytes: ipc.size.0,
            method,
            bank,
        }
    };
    order.into_iter().map(message).collect()
}

fn io(found: &Found) -> Vec<LevelsIo> {
    let entry = |io: &solocore_model::levels::Io| {
        let at = (0..found.own_bank.len())
            .find(|&at| found.task(at).name == io.task && found.own_bank[at]);
        LevelsIo {
            task: io.task.clone(),
            device: io.device.clone(),
            bytes_per_s: io.bandwidth.0,
            bytes: io.size.0,
            direction: io.direction,
            direct: io.direct,
            bank: at.and_then(|at| found.core(at)).and_then(|core| u32::try_from(core).ok()),
        }
    };
    found.isolation.io.iter().map(|(e, _)| entry(e)).collect()
}

/// The verdict of the independent tests with its reasons.
fn explain(found: &Found) -> Derivation {
    let s = &found.translated.system;
    let of = |core: usize, level: Level| -> Vec<LevelsTask> {
        let own = (0..s.starts[1])
            .filter(|&at| found.core(at) == Some(core) && s.tasks[at].level == level);
        let mut out: Vec<LevelsTask> = own.map(|at| found.checked.tasks[at]).collect();
        out.sort_by_key(|t| t.period);
        out
    };
    let levels: Vec<(Vec<LevelsTask>, Vec<LevelsTask>)> =
        (0..s.cores).map(|core| (of(core, Level::A), of(core, Level::B))).collect();
    let cores: Vec<analysis::AnalysedCore> = levels
        .iter()
        .map(|(a, b)| analysis::AnalysedCore { a, b, noise: analysis::Noise::default() })
        .collect();
    analysis::explain(&cores, &found.checked.tasks[s.starts[1]..])
}
