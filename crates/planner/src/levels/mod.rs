//! Plans for systems with `[mc2]`: criticality levels on isolated hardware.
//!
//! Problem: place tasks of levels A and B, put message and I/O buffers into banks, and share out
//! the ways of the cache, so that A and B meet their deadlines, the tardiness of C is bounded and
//! its utilization is least. Rule: [`optimiser`] (the paper's section 6.1) does all that;
//! [`translate`] puts a system into its terms, and what it calls schedulable is worked out again,
//! task by task, by the independent check (`verify`) before anything is promised. Each choice is
//! priced against its alternatives by the same functions ([`choices`]).
//!
//! Not covered: choosing among boards, levels or periods; regulating bandwidth.

mod choices;
pub mod optimiser;
mod table;
mod translate;

use crate::demand::Demand;
use crate::error::PlanError;
use crate::explain::warnings;
use crate::work::Work;
use optimiser::placement::Kind;
use optimiser::scheme::{Io, Ipc, Scheme};
use optimiser::verify::{self, Checked};
use optimiser::ways::{MOST_CORES, Split};
use optimiser::{Allocation, Allocator, Answer, Objective};
use solocore_analysis::Derivation;
use solocore_analysis::mc2::{self as analysis, Level, Mc2Task, Pets, Verdict};
use solocore_model::System;
use solocore_model::levels::{BufferScheme, Contention, Isolation, bank_bytes};
use solocore_model::plan::levels::{
    LevelsCore, LevelsIo, LevelsMessage, LevelsPets, LevelsPlan, LevelsTable, Method, Ways,
};
use solocore_model::plan::{FORMAT, Plan, PlanCore, PlanRegulation, PlanTask, Scheme as WhoRuns};
use solocore_model::system::{Criticality, Task};
use table::Job;
use translate::Translated;

const FS_PER_NS: u64 = 1_000_000;

/// What the optimiser found, checked.
pub(crate) struct Found<'a> {
    pub system: &'a System,
    pub isolation: &'a Isolation,
    pub translated: &'a Translated,
    pub answer: Answer,
    /// The allocation, or one that shows what is wrong.
    pub allocation: Allocation,
    pub checked: Checked,
    /// Of tasks of levels A and B: is the I/O buffer in the bank of the core?
    pub own_bank: Vec<bool>,
    pub locked_from: Vec<usize>,
}

impl Found<'_> {
    pub fn schedulable(&self) -> bool {
        matches!(self.answer, Answer::Allocation(_)) && self.checked.verdict == Verdict::Schedulable
    }

    /// The optimiser's index of a task.
    pub fn place(&self, index: usize) -> Option<usize> {
        self.translated.shapes.iter().position(|s| s.index == index)
    }

    pub fn task(&self, at: usize) -> &Task {
        &self.system.tasks[self.translated.shapes[at].index]
    }

    /// Core of a task of levels A and B.
    pub fn core(&self, at: usize) -> Option<usize> {
        self.checked.core.get(at).copied()
    }

    /// Ways that a task runs in.
    pub fn ways(&self, at: usize) -> usize {
        let split = &self.allocation.split;
        self.core(at).map_or(split.level_c, |core| split.cores[core])
    }

    /// What is done with a message buffer.
    pub fn method(&self, edge: usize) -> Method {
        let (e, scheme) = (&self.translated.system.edges[edge], self.allocation.scheme);
        let optimized = scheme.ipc == Ipc::Optimized && edge < self.translated.system.bound_edges;
        match (optimized, self.locked_from.get(edge)) {
            (false, _) => Method::LevelC,
            (true, Some(&from)) if from <= self.allocation.split.locked => Method::Locked,
            _ if self.core(e.sender) == self.core(e.receiver) => Method::Together,
            _ => Method::Bypass,
        }
    }

    /// Tasks of levels A and B of a core, in whole picoseconds, rounded up; B by period.
    fn on_core(&self, core: usize, level: Level) -> Vec<(usize, Mc2Task)> {
        let s = &self.translated.system;
        let own = (0..s.starts[1])
            .filter(|&at| self.core(at) == Some(core) && s.tasks[at].level == level);
        let mut out: Vec<(usize, Mc2Task)> =
            own.map(|at| (at, picoseconds(&self.checked.tasks[at]))).collect();
        out.sort_by_key(|(at, task)| (task.period, *at));
        out
    }
}

fn picoseconds(task: &Mc2Task) -> Mc2Task {
    let up = |fs: u64| fs.div_ceil(1000);
    Mc2Task {
        period: task.period / 1000,
        pets: Pets { a: up(task.pets.a), b: up(task.pets.b), c: up(task.pets.c) },
    }
}

/// Plans a system with `[mc2]`.
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
    let mc2 = LevelsPlan { choices, ..isolation_plan(&found, tables) };
    let mut plan = Plan {
        format: FORMAT.to_owned(),
        schedulable,
        model: system.regulation.model(),
        tasks,
        cores,
        reasons: Vec::new(),
        assumptions: choices::assumptions(&found, demands),
        promises: Vec::new(),
        regulation: PlanRegulation {
            policy: system.regulation.policy,
            period_ns: system.regulation.period.ns_ceil(),
            share: system.regulation.share(),
            carry_in: system.regulation.carries_in(),
            active_cores: system.active_cores(),
            lock_budget_accesses: None,
        },
        platform: system.platform.clone(),
        certificate: None,
        repair: Vec::new(),
        what_if: None,
        scheme: WhoRuns::Levels(Box::new(mc2)),
    };
    plan.reasons = choices::reasons(&found, &plan, &faults)?;
    let warnings: Vec<String> = plan
        .tasks
        .iter()
        .zip(system.tasks.iter().zip(demands))
        .flat_map(|(t, (task, demand))| {
            warnings(t, &Work { task, demand, priority: t.priority }, &plan)
        })
        .collect();
    let last = plan.reasons.len().saturating_sub(1);
    plan.reasons.splice(last..last, warnings);
    Ok(plan)
}

pub(crate) fn scheme_of(scheme: BufferScheme) -> Result<Scheme, PlanError> {
    Scheme::parse(scheme.name()).map_err(|e| PlanError(format!("[mc2]: {e}")))
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

/// A scheme whose buffers have a rule; that of O|opt is its choice, of which there is none.
pub(crate) fn fixed_io(scheme: Scheme) -> Scheme {
    if scheme.io == Io::PerBuffer { Scheme { io: Io::All, ..scheme } } else { scheme }
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

/// Level A of each core, the longest response of its tasks (by the optimiser's index), and what
/// went wrong.
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
            Err(fault) => faults.push(fault),
        }
    }
    (tables, responses, faults)
}

/// Bound on the response of a task of level B, ns: with each other task of its core and level whose
/// period is not longer.
fn response_b(found: &Found, at: usize) -> Option<u64> {
    let core = found.core(at)?;
    let a: Vec<Mc2Task> = found.on_core(core, Level::A).into_iter().map(|(_, task)| task).collect();
    let all = found.on_core(core, Level::B);
    let own = all.iter().find(|(i, _)| *i == at)?.1;
    let mut b: Vec<Mc2Task> =
        all.iter().filter(|(i, t)| *i != at && t.period <= own.period).map(|(_, t)| *t).collect();
    b.push(own);
    // The test of the whole core promises the period in any case.
    let bound = analysis::level_b_response(&a, &b, b.len() - 1, &analysis::Noise::default());
    Some(bound.unwrap_or(own.period).div_ceil(1000))
}

fn plan_task(
    found: &Found,
    demands: &[Demand],
    index: usize,
    responses: &[Option<u64>],
    schedulable: bool,
) -> PlanTask {
    let task = &found.system.tasks[index];
    let period_ns = task.period.map(solocore_model::Time::ns_ceil);
    let (profile, command) = match (&task.demand, &demands[index]) {
        (solocore_model::system::Demand::Command(c), Demand::Profiled { path, .. }) => {
            (Some(path.clone()), Some(c.clone()))
        }
        (_, Demand::Profiled { path, .. }) => (Some(path.clone()), None),
        _ => (None, None),
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
        // What is compared with it is rounded up.
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
        command,
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
    let pets = &found.checked.tasks[at].pets;
    let (alone_ps, misses) = alone(found, at);
    out.core = found.core(at).map_or(0, |core| u32::try_from(core).unwrap_or(u32::MAX));
    (out.wcet_ns, out.misses) = (alone_ps.div_ceil(1000), misses);
    let pet = if task.criticality == Criticality::C { pets.c } else { pets.b };
    out.c_sce_ns = pet.div_ceil(FS_PER_NS);
    out.stall_ns = out.c_sce_ns.saturating_sub(out.wcet_ns);
    out.crpd_ns = found.translated.shapes[at].fixed_ps.div_ceil(1000);
    out.schedulable = schedulable || meets(found, at);
    if out.schedulable {
        match task.criticality {
            Criticality::A => out.wcrt_ns = responses[at],
            Criticality::B => out.wcrt_ns = response_b(found, at),
            Criticality::C | Criticality::D => {
                let late = found.checked.tardiness.and_then(|t| t.of(&found.checked.tasks[at]));
                out.tardiness_ns = late.map(|fs| fs.div_ceil(FS_PER_NS));
                out.wcrt_ns = out
                    .tardiness_ns
                    .zip(period_ns)
                    .map(|(late, period)| late.saturating_add(period));
            }
        }
    }
    out.derivation = Some(choices::derivation(found, at));
    out
}

/// Execution time and DRAM transactions of a job alone, with its ways and what its message buffers
/// add.
fn alone(found: &Found, at: usize) -> (u64, u64) {
    let shape = &found.translated.shapes[at];
    let ways = found.ways(at);
    let mut out = (shape.alone(ways), shape.misses.get(ways).copied().unwrap_or(0));
    for (e, edge) in
        found.translated.system.edges[..found.translated.system.bound_edges].iter().enumerate()
    {
        let outside = matches!(found.method(e), Method::Bypass | Method::LevelC);
        if outside && (edge.sender == at || edge.receiver == at) {
            let lines = found.translated.lines[e];
            let time = found.translated.alone_ps[e][usize::from(edge.receiver == at)];
            out.0 = out.0.saturating_add(time);
            out.1 = out.1.saturating_add(lines);
        }
    }
    out
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

fn utilization(tasks: &[(usize, Mc2Task)], level: Level) -> f64 {
    tasks.iter().map(|(_, t)| t.pets.at(level) as f64 / t.period as f64).fold(0.0, |sum, u| sum + u)
}

fn plan_core(found: &Found, core: u32) -> PlanCore {
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
        soft: false,
        margin: None,
    }
}

fn isolation_plan(found: &Found, tables: Vec<LevelsTable>) -> LevelsPlan {
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

fn level_c(found: &Found) -> f64 {
    let global = &found.checked.tasks[found.translated.system.starts[1]..];
    global.iter().map(|t| t.pets.c as f64 / t.period as f64).fold(0.0, |sum, u| sum + u)
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
    let of = |core: usize, level: Level| -> Vec<Mc2Task> {
        let own = (0..s.starts[1])
            .filter(|&at| found.core(at) == Some(core) && s.tasks[at].level == level);
        let mut out: Vec<Mc2Task> = own.map(|at| found.checked.tasks[at]).collect();
        out.sort_by_key(|t| t.period);
        out
    };
    let levels: Vec<(Vec<Mc2Task>, Vec<Mc2Task>)> =
        (0..s.cores).map(|core| (of(core, Level::A), of(core, Level::B))).collect();
    let cores: Vec<analysis::Core> = levels
        .iter()
        .map(|(a, b)| analysis::Core { a, b, noise: analysis::Noise::default() })
        .collect();
    analysis::explain(&cores, &found.checked.tasks[s.starts[1]..])
}

/// Is contention bounded, so that PETs are bounds?
pub(crate) fn bounded(found: &Found) -> bool {
    found.isolation.settings.contention == Contention::Bounded
}
