//! Level C's part of the cost model: the sums over its tasks, and their demand by ways.
//!
//! Problem: level C runs on all cores, so that its test needs the sum of its tasks' utilizations
//! and, for the margin, the largest. Rule: sums do not depend on the scheme and are made once; the
//! margin is computed from each task, and only at the sizes that the search asks for. Does not
//! cover: the time that A and B leave on the cores; phase 3 compares with it.

use crate::levels::optimiser::ways::{LevelC, MARGIN, MOST_CORES, SIZES};

/// A task of level C, in utilization, with interrupts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GlobalTask {
    pub constant: f64,
    pub victim: f64,
    pub steep: f64,
    pub bank: f64,
    pub powers: [f64; SIZES],
}

/// All tasks of level C.
#[derive(Debug, Clone, Default)]
pub struct Global {
    tasks: Vec<GlobalTask>,
    constant: f64,
    victim: f64,
    demand: [f64; SIZES],
    bank: [f64; SIZES],
}

impl Global {
    pub fn clear(&mut self) {
        self.tasks.clear();
        (self.constant, self.victim) = (0.0, 0.0);
        (self.demand, self.bank) = ([0.0; SIZES], [0.0; SIZES]);
    }

    pub fn push(&mut self, task: GlobalTask) {
        self.constant += task.constant;
        self.victim += task.victim;
        add_scaled(&mut self.demand, task.steep, &task.powers);
        add_scaled(&mut self.bank, task.bank, &task.powers);
        self.tasks.push(task);
    }
}

/// Level C's demand by ways; the margin is computed on request.
pub struct GlobalDemand<'a> {
    pub(super) global: &'a Global,
    pub(super) dma: f64,
    pub(super) accesses: f64,
    /// `max(F - 1, 0)`, the sharp form of the test (`solocore_analysis::levels::Form`).
    pub(super) factor: f64,
    /// `m - 1`.
    pub(super) others: usize,
    pub(super) margins: [Option<f64>; SIZES],
}

impl LevelC for GlobalDemand<'_> {
    fn total(&mut self, ways: usize) -> f64 {
        let g = self.global;
        g.constant + g.victim * self.accesses + g.demand[ways] + g.bank[ways] * self.dma
    }

    fn margin(&mut self, ways: usize) -> f64 {
        if let Some(known) = self.margins[ways] {
            return known;
        }
        // One core has no others, but its largest task must still fit into its period.
        let mut largest = [0.0f64; MOST_CORES];
        let kept = self.others.max(1);
        for task in &self.global.tasks {
            let powers = task.powers[ways];
            let mut u = task.constant
                + task.victim * self.accesses
                + (task.steep + task.bank * self.dma) * powers;
            for slot in &mut largest[..kept] {
                if u > *slot {
                    std::mem::swap(&mut u, slot);
                }
            }
        }
        let margin = if largest[0] > 1.0 - MARGIN {
            f64::INFINITY
        } else {
            self.factor * largest[0] + largest[..self.others].iter().sum::<f64>()
        };
        self.margins[ways] = Some(margin);
        margin
    }
}

pub fn add_scaled(sum: &mut [f64; SIZES], by: f64, powers: &[f64; SIZES]) {
    for (sum, power) in sum.iter_mut().zip(powers) {
        *sum += by * power;
    }
}
