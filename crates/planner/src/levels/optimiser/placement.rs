//! Phase 1: tasks of levels A and B to cores.
//!
//! Rule: worst fit by decreasing load, level A first, then level B, with costs computed at a fixed
//! number of ways: each task goes to the core with the least level-B demand after it. With
//! [`Kind::Together`] the tasks of a chain are placed as one, so that their buffers can be in their
//! core's bank (CE, section 4.2). Where they do not fit, the chain is cut in halves, and these are
//! placed, down to single tasks. The paper's packing (section 6.1, after Chisholm et al. 2016, App.
//! B) gives up if a single task does not fit. Here such a task goes to the core with most room, as
//! phase 3 may still find the ways with which it fits. [`Kind::Apart`] places every task alone.
//!
//! Tasks that are bound to a core are placed first, one by one.
//!
//! Not covered: placement and ways decided together, which the paper leaves out as well.

use super::tasks::TaskSystem;
use super::ways::{Checks, MOST_CORES};
use solocore_analysis::levels::Level;

/// Treatment of chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tasks are placed one by one.
    Apart,
    /// Chains go to one core where they fit.
    Together,
}

/// Demand of a task in phase 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Demand at level A, zero for other tasks.
    pub a: f64,
    /// Demand at level B.
    pub b: f64,
    /// Added to both on core 0.
    pub interrupts: f64,
}

/// A task of level A or B as the three checks see it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weights {
    /// Utilization by A-, B- and C-PET. That by A-PET is zero for level B, as level A does not see
    /// these tasks.
    pub checks: Checks,
    /// Time that it takes at any size, over its idle time.
    pub constant: f64,
    /// Utilization lost to interrupts on core 0.
    pub interrupts: f64,
    /// For phase 1.
    pub estimate: Estimate,
}

/// Working space and result of phase 1.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Core of each task of levels A and B.
    pub core: Vec<usize>,
    /// Load, and the range in `TaskSystem::order`; bound tasks first, then level A, then by
    /// decreasing load.
    queue: Vec<(u8, f64, usize, usize)>,
    load: [Estimate; MOST_CORES],
}

impl Placement {
    /// Places the tasks of a system.
    pub fn place(&mut self, system: &TaskSystem, weights: &[Weights], kind: Kind) {
        self.core.clear();
        self.core.resize(system.bound().len(), 0);
        self.queue.clear();
        self.load = [Estimate::default(); MOST_CORES];
        match kind {
            Kind::Together => {
                for &(from, to) in &system.groups {
                    if system.order[from..to].iter().any(|&task| system.pin(task).is_some()) {
                        self.queue.extend((from..to).map(|at| item(system, weights, at, at + 1)));
                    } else {
                        self.queue.push(item(system, weights, from, to));
                    }
                }
            }
            Kind::Apart => {
                self.queue
                    .extend((0..system.order.len()).map(|at| item(system, weights, at, at + 1)));
            }
        }
        self.queue.sort_unstable_by(|x, y| {
            x.0.cmp(&y.0).then(y.1.total_cmp(&x.1)).then(system.order[x.2].cmp(&system.order[y.2]))
        });
        for at in 0..self.queue.len() {
            let (_, _, from, to) = self.queue[at];
            self.put(system, weights, from, to);
        }
    }

    /// Places the tasks `from..to` of the order, in halves if they do not fit as one.
    fn put(&mut self, system: &TaskSystem, weights: &[Weights], from: usize, to: usize) {
        let tasks = &system.order[from..to];
        let sum = tasks.iter().fold(Estimate::default(), |sum, &task| {
            let e = weights[task].estimate;
            let i = e.interrupts;
            let a = if e.a > 0.0 { i } else { 0.0 };
            Estimate { a: sum.a + e.a, b: sum.b + e.b, interrupts: sum.interrupts + i.max(a) }
        });
        let level_a = sum.a > 0.0;
        let mut best = (f64::INFINITY, 0, 0.0);
        let bound = system.pin(tasks[0]);
        for (core, load) in self.load[..system.cores].iter().enumerate() {
            if bound.is_some_and(|bound| bound != core) {
                continue;
            }
            let more = if core == 0 { sum.interrupts } else { 0.0 };
            let b = load.b + sum.b + more;
            if b < best.0 {
                best = (b, core, if level_a { load.a + sum.a + more } else { 0.0 });
            }
        }
        let (b, core, a) = best;
        if tasks.len() > 1 && (b > 1.0 || a > 1.0) {
            let middle = from + (to - from) / 2;
            self.put(system, weights, from, middle);
            self.put(system, weights, middle, to);
            return;
        }
        for &task in tasks {
            self.core[task] = core;
        }
        self.load[core].b = b;
        if level_a {
            self.load[core].a = a;
        }
    }
}

fn item(
    system: &TaskSystem,
    weights: &[Weights],
    from: usize,
    to: usize,
) -> (u8, f64, usize, usize) {
    let tasks = &system.order[from..to];
    let level = match system.pin(tasks[0]) {
        Some(_) => 0,
        None => 1 + u8::from(system.tasks[tasks[0]].level != Level::A),
    };
    (level, tasks.iter().map(|&task| weights[task].estimate.b).sum(), from, to)
}
