//! O|opt: for each I/O buffer of levels A and B, the bank of its task's core or those of level C.
//!
//! # Problem
//! The paper leaves this choice out of its program, because a binary variable per buffer makes it
//! explode (section 6.1).
//!
//! # Rule
//! A buffer that the kernel copies to causes no DMA in its own bank, so it is always put there. For
//! the others, moving buffer `i` to its core's bank saves `a_i` of each check and adds `d_i` to the
//! DMA `D` in the bank. The effect of `D` is `g(D)`, `g` concave. So the demand of a check at a
//! given size, `-sum of a_i + b*g(sum of d_i)`, is a concave function of two sums. Its least value
//! over all subsets is at a corner of their convex hull, and the relevant corners are the first `n`
//! buffers by `a_i/d_i`. `n + 1` candidates instead of `2^n`, per core, check and size.
//!
//! * *Bound.* Each check of each core and size on its own takes its least value, and level C the
//!   least traffic. If phase 3 finds no split even so, there is none for any choice of buffers.
//! * *Allocation.* The four rules of the paper; then choices of one check's corner per core, at the
//!   sizes of the bound's split and at fixed ones. Each is costed in full, so that a choice that
//!   passes is proven.
//!
//! If neither decides, the answer is [`Answer::Undecided`]; every study reports the number of these
//! answers.
//!
//! # Not covered
//! Placements other than those of phase 1.

use super::allocate::{Allocation, Allocator, Answer, better};
use super::placement::Kind;
use super::scheme::{Io, Ipc, Scheme};
use super::tasks::TaskSystem;
use super::ways::{Checks, MOST_CORES, Objective, SIZES, Split};

const O_OPT: Scheme = Scheme { ipc: Ipc::Optimized, io: Io::PerBuffer };

/// The allocation of O|opt, or the answer that there is none or that it is not known.
pub(crate) fn allocate(allocator: &mut Allocator, system: &TaskSystem, goal: Objective) -> Answer {
    let mut best: Option<Allocation> = None;
    for io in [Io::All, Io::ShortPeriods, Io::LongPeriods, Io::LevelC] {
        let rule = Scheme { ipc: Ipc::Optimized, io };
        if let Some(found) = allocator.by_rule(system, rule, goal)
            && best.is_none_or(|b| better(&found.split, &b.split, goal))
        {
            best = Some(Allocation { scheme: O_OPT, ..found });
            let chosen = system.bound().iter().map(|task| super::tasks::own_bank(task, io));
            allocator.scratch.best.clear();
            allocator.scratch.best.extend(chosen);
            if goal == Objective::Feasible {
                break;
            }
        }
    }
    let mut open = false;
    for kind in [Kind::Together, Kind::Apart] {
        if goal == Objective::Feasible && best.is_some() {
            break;
        }
        let Some(ideal) = bound(allocator, system, kind, goal) else { continue };
        open = true;
        try_corners(allocator, system, kind, &ideal, goal, &mut best);
    }
    let scratch = &mut allocator.scratch;
    scratch.own_bank.clear();
    scratch.own_bank.extend_from_slice(&scratch.best);
    match best {
        Some(found) => Answer::Allocation(found),
        None if open => Answer::Undecided,
        None => Answer::None,
    }
}

/// The best split if every check had its own choice of buffers. No allocation with this placement
/// is better.
pub(crate) fn bound(
    allocator: &mut Allocator,
    system: &TaskSystem,
    kind: Kind,
    goal: Objective,
) -> Option<Split> {
    allocator.placed(system, kind);
    let mut ranked = std::mem::take(&mut allocator.scratch.ranked);
    let mut demand = std::mem::take(&mut allocator.demand);
    for (core, demand) in demand.iter_mut().enumerate() {
        for (check, demand) in demand.iter_mut().enumerate() {
            rank(allocator, system, kind, core, check, &mut ranked);
            *demand = [f64::INFINITY; SIZES];
            each_corner(allocator, system, kind, core, check, &ranked, |_, size, value| {
                demand[size] = demand[size].min(value);
            });
        }
    }
    allocator.demand = demand;
    allocator.scratch.ranked = ranked;
    let traffic = allocator.tables.least_traffic(system, allocator.known(kind));
    allocator.split(kind, Ipc::Optimized, &traffic, goal)
}

/// Ranks the direct buffers of a core by the saving of a check per DMA.
fn rank(
    a: &Allocator,
    system: &TaskSystem,
    kind: Kind,
    core: usize,
    check: usize,
    ranked: &mut Vec<(f64, usize)>,
) {
    ranked.clear();
    let placement = &a.known(kind).placement;
    for &task in &a.tables.io {
        let Some(io) = system.tasks[task].io.filter(|io| io.direct) else { continue };
        if placement.core[task] == core {
            let saved = io.penalty * a.tables.weights[task].checks[check];
            // Without DMA the own bank has no disadvantage.
            let ratio = if io.mb_per_s > 0.0 { saved / io.mb_per_s } else { f64::INFINITY };
            ranked.push((ratio, task));
        }
    }
    ranked.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
}

/// Calls `visit(n, size, demand of the check)` with the first `n` ranked buffers in the core's
/// bank, for all `n` and sizes.
fn each_corner(
    a: &Allocator,
    system: &TaskSystem,
    kind: Kind,
    core: usize,
    check: usize,
    ranked: &[(f64, usize)],
    mut visit: impl FnMut(usize, usize, f64),
) {
    let (constant, demand, bank): (Checks, _, _) = a.tables.parts(a.known(kind), core);
    let cost = |task: usize| {
        system.tasks[task].io.map_or(0.0, |io| io.penalty) * a.tables.weights[task].checks[check]
    };
    let mut sum = constant[check] + ranked.iter().map(|&(_, task)| cost(task)).sum::<f64>();
    let mut dma = 0.0;
    for n in 0..=ranked.len() {
        if let Some(&(_, task)) = n.checked_sub(1).and_then(|last| ranked.get(last)) {
            sum -= cost(task);
            dma += system.tasks[task].io.map_or(0.0, |io| io.mb_per_s);
        }
        let reached = a.tables.dma_reached(dma);
        for size in 0..=a.p.ways {
            visit(n, size, demand[check][size] + sum + reached * bank[check][size]);
        }
    }
}

/// Costs choices of corners in full; keeps the best in `best` and `scratch.best`.
fn try_corners(
    a: &mut Allocator,
    system: &TaskSystem,
    kind: Kind,
    ideal: &Split,
    goal: Objective,
    best: &mut Option<Allocation>,
) {
    let fixed = |ways: usize| [ways.min(a.p.ways); MOST_CORES];
    let tries = [
        (ideal.cores, 1),
        (ideal.cores, 0),
        (ideal.cores, 2),
        (fixed(1), 1),
        (fixed(2), 1),
        (fixed(3), 1),
        (fixed(5), 1),
        (fixed(2), 0),
        (fixed(4), 0),
    ];
    for (sizes, check) in tries {
        choose(a, system, kind, &sizes, check);
        let chosen = std::mem::take(&mut a.scratch.own_bank);
        let split = a.with_buffers(system, kind, Ipc::Optimized, &chosen, goal);
        a.scratch.own_bank = chosen;
        let Some(split) = split else { continue };
        if best.is_none_or(|b| better(&split, &b.split, goal)) {
            *best = Some(Allocation { scheme: O_OPT, kind, split });
            let scratch = &mut a.scratch;
            scratch.best.clear();
            scratch.best.extend_from_slice(&scratch.own_bank);
            if goal == Objective::Feasible {
                return;
            }
        }
    }
}

/// The corner of a check that is best at those sizes, into `scratch.own_bank`.
fn choose(
    a: &mut Allocator,
    system: &TaskSystem,
    kind: Kind,
    sizes: &[usize; MOST_CORES],
    check: usize,
) {
    let mut ranked = std::mem::take(&mut a.scratch.ranked);
    let mut own_bank = std::mem::take(&mut a.scratch.own_bank);
    own_bank.clear();
    own_bank.extend(system.bound().iter().map(|task| task.io.is_some_and(|io| !io.direct)));
    for (core, &wanted) in sizes[..system.cores].iter().enumerate() {
        rank(a, system, kind, core, check, &mut ranked);
        let mut least = (f64::INFINITY, 0);
        each_corner(a, system, kind, core, check, &ranked, |n, size, value| {
            if size == wanted && value < least.0 {
                least = (value, n);
            }
        });
        for &(_, task) in &ranked[..least.1] {
            own_bank[task] = true;
        }
    }
    a.scratch.ranked = ranked;
    a.scratch.own_bank = own_bank;
}
