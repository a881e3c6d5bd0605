//! An allocation, checked from single tasks upwards by the tests of `solocore_analysis::levels`.
//!
//! Problem: the optimiser works on sums. Rule: each task's PETs are worked out again from the cost
//! model's formula, by itself, in whole femtoseconds rounded up, and given to the independent
//! per-core and level-C tests. Each allocation that [`super::allocate`] calls schedulable must
//! pass; `crates/study/tests/theorems.rs` and every debug study check this.

use super::allocate::{Allocation, Allocator};
use super::curve::saturation;
use super::machine::Machine;
use super::scheme::Ipc;
use super::tables::{BANK_OF_C, bank};
use super::tasks::{Accesses, OptimiserTask, TaskSystem};
use super::ways::MOST_CORES;
use solocore_analysis::levels::{self, Level, LevelsTask, Pets, Verdict};

/// Femtoseconds of a millisecond.
const FEMTOSECONDS: f64 = 1e12;

/// Cores and banks, and the resulting traffic.
struct Layout {
    /// Core of each task of levels A and B.
    core: Vec<usize>,
    /// Is the I/O buffer in the core's bank?
    own_bank: Vec<bool>,
    /// Added to each task's time by its message buffers, as a share of its idle time.
    messages: Vec<f64>,
    /// DMA and other cores' accesses by bank; the last entry is for level C.
    dma: [f64; MOST_CORES + 1],
    accesses: [f64; MOST_CORES + 1],
}

/// Input and verdict of the independent tests.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Core of each task of levels A and B.
    pub core: Vec<usize>,
    /// Every task with its PETs, in femtoseconds.
    pub tasks: Vec<LevelsTask>,
    /// The verdict.
    pub verdict: Verdict,
    /// Bound on level C's tardiness: a job ends at most `x + C_i` after its deadline, in
    /// femtoseconds; `None` without such a bound.
    pub tardiness: Option<levels::Tardiness>,
}

/// The verdict of the independent tests on an allocation, which must be the last that `allocator`
/// made.
pub fn verify(system: &TaskSystem, allocator: &mut Allocator, allocation: &Allocation) -> Verdict {
    check(system, allocator, allocation).verdict
}

/// The same, with the PETs that were tested.
pub fn check(system: &TaskSystem, allocator: &mut Allocator, allocation: &Allocation) -> Checked {
    let p = &{ allocator.p };
    let layout = lay_out(p, system, allocator, allocation);
    let mut a: [Vec<LevelsTask>; MOST_CORES] = Default::default();
    let mut b: [Vec<LevelsTask>; MOST_CORES] = Default::default();
    let mut tasks = Vec::with_capacity(system.tasks.len());
    for (at, task) in system.tasks.iter().enumerate() {
        let share = share(p, system, &layout, allocation, at);
        let made = match layout.core.get(at) {
            Some(&core) => task_of(p, system, task, share, core == 0),
            None => global_of(p, system, task, share),
        };
        tasks.push(made);
        match (task.level, layout.core.get(at)) {
            (Level::A, Some(&core)) => a[core].push(made),
            (_, Some(&core)) => b[core].push(made),
            (_, None) => {}
        }
    }
    for tasks in &mut b {
        tasks.sort_by_key(|task| task.period);
    }
    let cores: [levels::AnalysedCore; MOST_CORES] = std::array::from_fn(|k| levels::AnalysedCore {
        a: &a[k],
        b: &b[k],
        noise: levels::Noise::default(),
    });
    let (cores, global) = (&cores[..system.cores], &tasks[system.starts[1]..]);
    let verdict = levels::verdict(cores, global, levels::Form::Sharp);
    let tardiness = levels::tardiness(cores, global).filter(|_| verdict == Verdict::Schedulable);
    Checked { core: layout.core, verdict, tardiness, tasks }
}

fn lay_out(
    p: &Machine,
    system: &TaskSystem,
    allocator: &mut Allocator,
    allocation: &Allocation,
) -> Layout {
    let own_bank = (0..system.bound().len())
        .map(|task| allocator.own_bank(system, allocation, task))
        .collect();
    let placed = allocator.placed(system, allocation.kind);
    let (core, locked_from) = (placed.placement.core.clone(), placed.locked_from.clone());
    let mut layout = Layout {
        core,
        own_bank,
        messages: vec![0.0; system.tasks.len()],
        dma: [0.0; MOST_CORES + 1],
        accesses: [0.0; MOST_CORES + 1],
    };
    let random = allocation.scheme.ipc == Ipc::Random;
    let time = |task: usize, share: f64| share * system.tasks[task].utilization / p.level_a_over_b;
    for (at, edge) in system.edges.iter().enumerate() {
        let ends = [(edge.sender, edge.sending), (edge.receiver, edge.receiving)];
        let home = ends.map(|(task, _)| layout.core.get(task).copied());
        let bank = bank(edge.bank, system.cores);
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
                layout.accesses[BANK_OF_C] += time(task, costs.share);
            }
        }
    }
    for (at, task) in system.tasks.iter().enumerate() {
        let Some(io) = task.io else { continue };
        let home = layout.core.get(at).copied();
        let drawn = bank(io.bank, system.cores);
        let bank = match home {
            _ if random => drawn,
            Some(core) if layout.own_bank[at] => core,
            _ => BANK_OF_C,
        };
        if random && at < layout.own_bank.len() {
            layout.own_bank[at] = home == Some(bank);
        }
        layout.dma[if io.direct { bank } else { BANK_OF_C }] += io.mb_per_s;
        if home != Some(bank) {
            layout.accesses[bank] += time(at, io.copy_share);
        }
    }
    layout
}

/// Addition by a message buffer.
fn extra(ipc: Ipc, costs: &Accesses, isolated: bool, locked: bool) -> f64 {
    match ipc {
        Ipc::Optimized if locked => -costs.locked,
        _ if isolated => 0.0,
        Ipc::Optimized => costs.bypass,
        Ipc::LevelC | Ipc::Random => costs.level_c,
    }
}

/// Time of a job over its idle time, without interrupts.
fn share(
    p: &Machine,
    system: &TaskSystem,
    layout: &Layout,
    allocation: &Allocation,
    at: usize,
) -> f64 {
    let task = &system.tasks[at];
    let home = layout.core.get(at).copied();
    let ways = home.map_or(allocation.split.level_c, |core| allocation.split.cores[core]);
    let bank = home.unwrap_or(BANK_OF_C);
    let misses = system.remaining(at, ways);
    let mut share =
        task.flat + task.steep * misses + task.bus * system.bus_load + layout.messages[at];
    share += task.bank * saturation(layout.dma[bank], p.dma_saturation_mb_per_s) * misses;
    share += task.victim * saturation(layout.accesses[bank], p.sharing_saturation_cores);
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

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "below 2^63: PETs of seconds at most"
)]
fn femtoseconds(ms: f64) -> u64 {
    (ms * FEMTOSECONDS).ceil() as u64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a period of at most a second"
)]
fn period_of(task: &OptimiserTask) -> u64 {
    let exact = task.period_ms * FEMTOSECONDS;
    let picoseconds = (exact / 1000.0).round();
    // A stated period is a whole number of picoseconds, next to the float. Otherwise it is rounded
    // down: a shorter period is a larger demand.
    if (picoseconds * 1000.0 - exact).abs() < 0.5 {
        picoseconds as u64 * 1000
    } else {
        exact.floor() as u64
    }
}

fn task_of(
    p: &Machine,
    system: &TaskSystem,
    task: &OptimiserTask,
    share: f64,
    on_core_0: bool,
) -> LevelsTask {
    let lost: f64 = if on_core_0 {
        let window = task.period_ms * 1000.0;
        p.interrupts(system.dma)
            .iter()
            .map(|(cost, period)| (window / period).ceil() * cost / 1000.0)
            .sum()
    } else {
        0.0
    };
    let longest = task.utilization / p.level_a_over_b * task.period_ms * share;
    let (b, c) = (femtoseconds(longest + lost), femtoseconds(longest * task.average + lost));
    let a = femtoseconds(longest * p.level_a_over_b + lost);
    LevelsTask { period: period_of(task), pets: Pets { a: a.max(b), b, c } }
}

fn global_of(p: &Machine, system: &TaskSystem, task: &OptimiserTask, share: f64) -> LevelsTask {
    let idle = task.utilization / p.level_a_over_b * task.average * task.period_ms;
    let sources = p.interrupts(system.dma);
    let busy: f64 = sources.iter().map(|(cost, period)| cost / period).sum();
    let burst: f64 = sources.iter().map(|(cost, _)| cost / 1000.0).sum();
    let c = femtoseconds((idle * share + 2.0 * burst) / (1.0 - busy));
    LevelsTask { period: period_of(task), pets: Pets { a: c, b: c, c } }
}
