//! An allocation checked by the tests of `solocore_analysis::mc2`, from the tasks up.
//!
//! Problem: the optimiser works on sums. Rule: each task's PETs are worked out again from the cost model's formula, by
//! itself, in whole femtoseconds rounded up, and given to the independent per-core and level-C tests. Whatever
//! [`crate::allocate`] calls schedulable must pass; `tests/theorems.rs` and every debug study hold it to that.

use crate::allocate::{Allocation, Allocator};
use crate::generator::{Accesses, CORES, System, Task, power};
use crate::parameters::Parameters;
use crate::random::saturation;
use crate::scheme::Ipc;
use crate::tables::sources;
use solocore_analysis::mc2::{self, Level, Mc2Task, Pets, Verdict};

/// Femtoseconds of a millisecond.
const FEMTOSECONDS: f64 = 1e12;

/// Where everything is, and what traffic that makes.
struct Layout {
    /// Core of each task of levels A and B.
    core: Vec<usize>,
    /// I/O buffer in the core's bank.
    own_bank: Vec<bool>,
    /// Added to each task's time by its message buffers, as a share of its idle time.
    messages: Vec<f64>,
    /// DMA and other cores' accesses per bank, the last for level C.
    dma: [f64; CORES + 1],
    accesses: [f64; CORES + 1],
}

/// The verdict of the independent tests on an allocation, the last that `allocator` made.
pub fn verify(p: &Parameters, system: &System, allocator: &mut Allocator, allocation: &Allocation) -> Verdict {
    let layout = lay_out(p, system, allocator, allocation);
    let mut a: [Vec<Mc2Task>; CORES] = Default::default();
    let mut b: [Vec<Mc2Task>; CORES] = Default::default();
    for (at, task) in system.bound().iter().enumerate() {
        let core = layout.core[at];
        let share = share(p, system, &layout, allocation, at);
        let made = task_of(p, system, task, share, core == 0);
        if task.level == Level::A { a[core].push(made) } else { b[core].push(made) }
    }
    for tasks in &mut b {
        tasks.sort_by_key(|task| task.period);
    }
    let c: Vec<Mc2Task> = (system.starts[1]..system.tasks.len())
        .map(|at| global_of(p, system, &system.tasks[at], share(p, system, &layout, allocation, at)))
        .collect();
    let cores: [mc2::Core; CORES] =
        std::array::from_fn(|k| mc2::Core { a: &a[k], b: &b[k], noise: mc2::Noise::default() });
    mc2::verdict(&cores, &c, mc2::Form::Sharp)
}

fn lay_out(p: &Parameters, system: &System, allocator: &mut Allocator, allocation: &Allocation) -> Layout {
    let own_bank = (0..system.bound().len()).map(|task| allocator.own_bank(system, allocation, task)).collect();
    let placed = allocator.placed(system, allocation.kind);
    let (core, locked_from) = (placed.placement.core.clone(), placed.locked_from.clone());
    let mut layout =
        Layout { core, own_bank, messages: vec![0.0; system.tasks.len()], dma: [0.0; 5], accesses: [0.0; 5] };
    let random = allocation.scheme.ipc == Ipc::Random;
    let time = |task: usize, share: f64| share * system.tasks[task].utilization / p.execution.level_a_over_b;
    for (at, edge) in system.edges.iter().enumerate() {
        let ends = [(edge.sender, edge.sending), (edge.receiver, edge.receiving)];
        let home = ends.map(|(task, _)| layout.core.get(task).copied());
        let bank = usize::try_from(edge.bank).unwrap_or(CORES).min(CORES);
        let locked = locked_from.get(at).is_some_and(|&from| from <= allocation.split.locked);
        let bound = at < system.bound_edges;
        let together = bound && home[0] == home[1];
        let isolated = if random {
            together && home[0] == Some(bank)
        } else {
            together && allocation.scheme.ipc == Ipc::Optimized
        };
        for ((task, costs), home) in ends.into_iter().zip(home) {
            if bound {
                layout.messages[task] += extra(allocation.scheme.ipc, &costs, isolated, locked);
            }
            if random && home != Some(bank) {
                layout.accesses[bank] += time(task, costs.share);
            } else if !random && !isolated {
                layout.accesses[CORES] += time(task, costs.share);
            }
        }
    }
    for (at, task) in system.tasks.iter().enumerate() {
        let Some(io) = task.io else { continue };
        let home = layout.core.get(at).copied();
        let drawn = usize::try_from(io.bank).unwrap_or(CORES).min(CORES);
        let bank = match home {
            _ if random => drawn,
            Some(core) if layout.own_bank[at] => core,
            _ => CORES,
        };
        if random && at < layout.own_bank.len() {
            layout.own_bank[at] = home == Some(bank);
        }
        layout.dma[if io.direct { bank } else { CORES }] += io.mb_per_s;
        if home != Some(bank) {
            layout.accesses[bank] += time(at, io.copy_share);
        }
    }
    layout
}

/// What a message buffer adds.
fn extra(ipc: Ipc, costs: &Accesses, isolated: bool, locked: bool) -> f64 {
    match ipc {
        Ipc::Optimized if locked => -costs.locked,
        _ if isolated => 0.0,
        Ipc::Optimized => costs.bypass,
        Ipc::LevelC | Ipc::Random => costs.level_c,
    }
}

/// Time of a job over its idle time, without interrupts.
fn share(p: &Parameters, system: &System, layout: &Layout, allocation: &Allocation, at: usize) -> f64 {
    let task = &system.tasks[at];
    let home = layout.core.get(at).copied();
    let ways = home.map_or(allocation.split.level_c, |core| allocation.split.cores[core]);
    let bank = home.unwrap_or(CORES);
    let misses = power(task.factor, ways);
    let mut share = task.flat + task.steep * misses + task.bus * system.bus_load + layout.messages[at];
    share += task.bank * saturation(layout.dma[bank], p.dma.saturation_mb_per_s) * misses;
    share += task.victim * saturation(layout.accesses[bank], p.sharing.saturation_cores);
    if task.level != Level::A {
        share += task.reload;
    }
    if let Some(io) = task.io
        && !layout.own_bank.get(at).copied().unwrap_or(false)
    {
        share += io.penalty;
    }
    share
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^63: PETs of seconds at most")]
fn femtoseconds(ms: f64) -> u64 {
    (ms * FEMTOSECONDS).ceil() as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a period of at most a second")]
fn period_of(task: &Task) -> u64 {
    // Rounded down: a task that comes more often demands more.
    (task.period_ms * FEMTOSECONDS).floor() as u64
}

fn task_of(p: &Parameters, system: &System, task: &Task, share: f64, on_core_0: bool) -> Mc2Task {
    let lost: f64 = if on_core_0 {
        let window = task.period_ms * 1000.0;
        sources(p, system.dma).iter().map(|(cost, period)| (window / period).ceil() * cost / 1000.0).sum()
    } else {
        0.0
    };
    let longest = task.utilization / p.execution.level_a_over_b * task.period_ms * share;
    let (b, c) = (femtoseconds(longest + lost), femtoseconds(longest * task.average + lost));
    let a = femtoseconds(longest * p.execution.level_a_over_b + lost);
    Mc2Task { period: period_of(task), pets: Pets { a: a.max(b), b, c } }
}

fn global_of(p: &Parameters, system: &System, task: &Task, share: f64) -> Mc2Task {
    let idle = task.utilization / p.execution.level_a_over_b * task.average * task.period_ms;
    let sources = sources(p, system.dma);
    let busy: f64 = sources.iter().map(|(cost, period)| cost / period).sum();
    let burst: f64 = sources.iter().map(|(cost, _)| cost / 1000.0).sum();
    let c = femtoseconds((idle * share + 2.0 * burst) / (1.0 - busy));
    Mc2Task { period: period_of(task), pets: Pets { a: c, b: c, c } }
}
