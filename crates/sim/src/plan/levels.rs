//! Runs a plan with criticality levels (`[levels]`).
//!
//! Rule: the levels' scheduler (`levels.h`) with the plan's time tables and PETs decides which
//! task runs, in both modes. Under the plan, levels A and B have their core's bank and ways. Level
//! C, best effort and the OS have the other banks and their own ways. Devices write into the
//! buffers that the plan gives them. Unmanaged, pages lie anywhere and all share all ways. Banks
//! are not interleaved in either mode, as on the paper's board (mc2-os-isolation, section 2). Of a
//! profiled task of level A or B, page `n` in the order of first touch has colour `n` of the cache,
//! as its misses by ways were counted.
//!
//! A stated task makes the DRAM accesses that are stated for its ways, all in its own pages; they
//! include those to message buffers outside its core. Each device has one access under way, as the
//! bounds assume.
//!
//! Not covered: messages between the tasks; interrupts.

use super::options::{Options, PS, SimError};
use super::regions::{region, shared_banks};
use super::stand_in::StandIn;
use crate::board::{Board, BoardError, Place};
use crate::kernel::config::{CoreTable, Level, Release, SchedulerSpec, TaskSpec, Window};
use crate::machine::{DmaSpec, Stream};
use crate::program::PageKind;
use crate::workload::Workload;
use solocore_model::Plan;
use solocore_model::levels::Direction;
use solocore_model::plan::PlanTask;
use solocore_model::plan::levels::LevelsPlan;
use solocore_model::sched_trace::{Event, SchedTrace};
use solocore_model::system::Criticality;

/// Adds a task's program and returns its index.
pub fn add(
    plan: &Plan,
    levels: &LevelsPlan,
    options: &Options,
    board: &mut Board,
    task: &PlanTask,
    (workload, stand_in): (Workload, Option<&StandIn>),
) -> Result<usize, SimError> {
    let frames = stand_in.map(|s| s.frames.clone());
    if !options.mode.is_managed() {
        return Ok(board.add_workload(
            &task.name,
            workload,
            &Place { frames, ..Place::default() },
            &[],
        )?);
    }
    let (banks, ways) = region(plan, levels, task);
    let hard = matches!(task.criticality, Criticality::A | Criticality::B);
    // Stated misses are those that are left with the planned ways.
    let cached = ways.count > 0 && (task.profile.is_some() || task.best_effort());
    let kind = if cached { PageKind::Cached } else { PageKind::Bypass };
    let kind = stand_in.and_then(|s| s.kind).unwrap_or(kind);
    let place = Place { banks: Some(banks), frames, kind, ..Place::default() };
    let index = if hard && cached && stand_in.is_none() {
        add_coloured(plan, board, task, workload, &place)?
    } else {
        board.add_workload(&task.name, workload, &place, &[])?
    };
    if cached {
        board.space(index).ways = ways.mask();
    }
    Ok(index)
}

/// Adds a program whose page `n` has colour `n`.
fn add_coloured(
    plan: &Plan,
    board: &mut Board,
    task: &PlanTask,
    workload: Workload,
    place: &Place,
) -> Result<usize, SimError> {
    let colours = plan.platform.colours();
    let index = board.add_workload(&task.name, workload, place, &[])?;
    // Pages are numbered in the order of first touch; the pages that it was just given stay unused.
    let count = u32::try_from(board.space(index).frames.len()).unwrap_or(u32::MAX);
    let mut frames = Vec::new();
    for page in 0..count {
        let one = Place { colours: Some(vec![page % colours]), ..place.clone() };
        frames.extend(board.pages(&task.name, 1, &one)?);
    }
    board.space(index).frames = frames;
    Ok(index)
}

/// Sets level, PET and release of a task.
pub fn dress(levels: &LevelsPlan, task: &PlanTask, spec: &mut TaskSpec) {
    let pets = levels.pets_of(&task.name);
    let (level, pet_ns) = match task.criticality {
        Criticality::A => (Level::A, pets.map(|p| p.a_ns)),
        Criticality::B => (Level::B, pets.map(|p| p.b_ns)),
        Criticality::C => (Level::C, pets.map(|p| p.c_ns)),
        Criticality::D => (Level::D, None),
    };
    spec.level = Some(level);
    spec.pet_ps = pet_ns.map(|ns| ns.saturating_mul(PS));
    spec.core = (level != Level::C).then_some(task.core as usize);
    spec.release = match task.period_ns {
        Some(period) => {
            Release::Periodic { period_ps: period.saturating_mul(PS), phase_ps: 0, jitter_ps: 0 }
        }
        None => Release::Background,
    };
}

/// The scheduler: `added` are the plan's tasks in the order of the board's.
pub fn scheduler(levels: &LevelsPlan, added: &[usize]) -> SchedulerSpec {
    let id = |task: u32| added.iter().position(|&at| at == task as usize);
    let tables = levels
        .tables
        .iter()
        .map(|table| CoreTable {
            core: table.core as usize,
            frame_ps: table.frame_ns.saturating_mul(PS),
            windows: table
                .slots
                .iter()
                .filter_map(|s| {
                    Some(Window {
                        start_ps: s.start_ns.saturating_mul(PS),
                        end_ps: s.end_ns.saturating_mul(PS),
                        id: id(s.task)?,
                    })
                })
                .collect(),
        })
        .collect();
    SchedulerSpec::Levels { tables }
}

/// The header of a trace of decisions, and the decisions.
pub fn trace(plan: &Plan, events: Vec<Event>) -> SchedTrace {
    let about = [
        ("scheduler", "levels".to_owned()),
        ("source", "sim".to_owned()),
        ("cpus", plan.cores.len().to_string()),
    ];
    SchedTrace { about: about.map(|(key, value)| (key.to_owned(), value)).into(), events }
}

/// The devices, each moving its stream all the time.
pub fn devices(
    plan: &Plan,
    levels: &LevelsPlan,
    options: &Options,
    board: &mut Board,
) -> Result<(), BoardError> {
    let managed = options.mode.is_managed();
    for io in &levels.io {
        let banks = match io.bank.filter(|_| io.direct) {
            Some(bank) => vec![bank],
            None => shared_banks(plan, levels),
        };
        let place = if managed { Place::banks(&banks) } else { Place::default() };
        let pages =
            u32::try_from(io.bytes.div_ceil(plan.platform.page.0).max(1)).unwrap_or(u32::MAX);
        let frames = board.pages(&io.device, pages, &place)?;
        board.device(DmaSpec {
            name: io.device.clone(),
            frames,
            block_lines: 1,
            wait_ps: 0,
            outstanding: 1,
            autonomous: Some(Stream {
                into_memory: io.direction == Direction::In,
                bytes_per_s: Some(io.bytes_per_s),
                start_ps: 0,
                stop_ps: u64::MAX,
            }),
        });
    }
    Ok(())
}
