//! The three phases together: a system and a scheme to an allocation, or the answer that there is
//! none.
//!
//! Rule (the paper, section 6.1): phase 1 places tasks ([`super::placement`]), phase 2 puts I/O
//! buffers into the scheme's banks, phase 3 shares out the ways ([`super::ways`]). Under O the
//! placement with chains together is tried first, then the one with tasks apart, on which every
//! cost is at most that under C: so O|y is never worse than C|y.

use super::machine::Machine;
use super::placement::Kind;
use super::scheme::{Ipc, Scheme};
use super::tables::{Demand, Placed, Tables, Traffic};
use super::tasks::{TaskSystem, own_bank};
use super::ways::{CoreDemand, LevelC, Limits, MOST_CORES, Objective, SIZES, Split, lower, search};
use serde::Serialize;

/// Answer for a system under a scheme.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// Schedulable with this allocation.
    Allocation(Allocation),
    /// Not schedulable by the three phases.
    None,
    /// O|opt only: no placement of the buffers was found, and none could be excluded.
    Undecided,
}

/// An allocation. The [`Allocator`] that made it has the cores of tasks and the places of buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allocation {
    /// The scheme.
    pub scheme: Scheme,
    /// The kind of placement.
    pub kind: Kind,
    /// The ways of each core and level.
    pub split: Split,
}

/// A problem of phase 3 in full, for other solvers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// By core, check and size.
    pub demand: Vec<[Vec<f64>; 3]>,
    /// By core, ways of locked buffers, and check.
    pub saved: Vec<Vec<[f64; 3]>>,
    /// Level C's utilization by size.
    pub total: Vec<f64>,
    /// Level C's `f*h + H` by size; none if a job does not fit its period.
    pub margin: Vec<Option<f64>>,
    /// Fewest ways of level C.
    pub least_c: usize,
    /// Most ways of locked buffers.
    pub most_locked: usize,
    /// Least utilization of level C; none if no split is good.
    pub least: Option<f64>,
}

/// Working space of O|opt, and the choice made.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    /// By task of levels A and B: is its I/O buffer in its core's bank?
    pub own_bank: Vec<bool>,
    pub best: Vec<bool>,
    /// Direct buffers of a core by `a_i/d_i`, with their tasks.
    pub ranked: Vec<(f64, usize)>,
}

/// Allocates one system after the other, in the same memory.
pub struct Allocator {
    pub(super) p: Machine,
    pub(super) tables: Tables,
    apart: Placed,
    together: Placed,
    /// Placements that are those of the loaded system.
    ready: [bool; 2],
    pub(super) demand: Vec<Demand>,
    pub(super) scratch: Scratch,
}

impl Allocator {
    /// An allocator for systems on this machine.
    #[must_use]
    pub fn new(p: Machine) -> Self {
        Self {
            p,
            tables: Tables::new(),
            apart: Placed::default(),
            together: Placed::default(),
            ready: [false; 2],
            demand: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Loads a system. All later calls must be given the same one.
    pub fn load(&mut self, system: &TaskSystem) {
        self.tables.load(&self.p, system);
        self.demand.clear();
        self.demand.resize(system.cores, [[0.0; SIZES]; 3]);
        self.ready = [false; 2];
    }

    /// The tasks of levels A and B of the loaded system, placed.
    pub fn placed(&mut self, system: &TaskSystem, kind: Kind) -> &Placed {
        let (placed, ready) = match kind {
            Kind::Apart => (&mut self.apart, &mut self.ready[0]),
            Kind::Together => (&mut self.together, &mut self.ready[1]),
        };
        if !*ready {
            self.tables.place(&self.p, system, kind, placed);
            *ready = true;
        }
        placed
    }

    pub(super) fn known(&self, kind: Kind) -> &Placed {
        match kind {
            Kind::Apart => &self.apart,
            Kind::Together => &self.together,
        }
    }

    /// Is the loaded system schedulable by a scheme with a fixed rule for I/O buffers?
    pub(super) fn by_rule(
        &mut self,
        system: &TaskSystem,
        scheme: Scheme,
        goal: Objective,
    ) -> Option<Allocation> {
        let kinds: &[Kind] = if scheme.ipc == Ipc::Optimized {
            &[Kind::Together, Kind::Apart]
        } else {
            &[Kind::Apart]
        };
        let mut best: Option<Allocation> = None;
        for &kind in kinds {
            let traffic = self.cost(system, scheme, kind);
            let Some(split) = self.split(kind, scheme.ipc, &traffic, goal) else { continue };
            if best.is_none_or(|b| better(&split, &b.split, goal)) {
                best = Some(Allocation { scheme, kind, split });
            }
            if goal == Objective::Feasible {
                break;
            }
        }
        best
    }

    /// Phases 1 and 2; writes the resulting demands into `demand`.
    pub(super) fn cost(&mut self, system: &TaskSystem, scheme: Scheme, kind: Kind) -> Traffic {
        self.placed(system, kind);
        let mut demand = std::mem::take(&mut self.demand);
        let placed = self.known(kind);
        let traffic = if scheme.ipc == Ipc::Random {
            self.tables.cost_random(system, placed, &mut demand)
        } else {
            let rule = |task: usize| own_bank(&system.tasks[task], scheme.io);
            self.tables.cost(system, placed, scheme.ipc, rule, &mut demand)
        };
        self.demand = demand;
        traffic
    }

    /// Phase 3 on `demand`.
    pub(super) fn split(
        &self,
        kind: Kind,
        ipc: Ipc,
        traffic: &Traffic,
        goal: Objective,
    ) -> Option<Split> {
        let placed = self.known(kind);
        let mut level_c = self.tables.level_c(placed, traffic);
        let count = self.demand.len();
        let cores: [CoreDemand; MOST_CORES] = std::array::from_fn(|k| {
            let k = k.min(count - 1);
            CoreDemand { demand: &self.demand[k], saved: self.tables.saved(placed, k) }
        });
        search(&cores[..count], &mut level_c, &self.limits(placed, ipc), goal)
    }

    /// The problems of phase 3 that an allocation under a scheme solves, one per placement, with
    /// their answers.
    pub fn problems(&mut self, system: &TaskSystem, scheme: Scheme) -> Vec<Problem> {
        [Kind::Together, Kind::Apart]
            .into_iter()
            .map(|kind| {
                let traffic = self.cost(system, scheme, kind);
                self.problem(kind, scheme.ipc, &traffic)
            })
            .collect()
    }

    /// The problem of phase 3 with that placement of tasks and I/O buffers (of levels A and B, by
    /// task).
    pub fn problem_with(
        &mut self,
        system: &TaskSystem,
        kind: Kind,
        ipc: Ipc,
        own_bank: &[bool],
    ) -> Problem {
        let traffic = self.cost_buffers(system, kind, ipc, own_bank);
        self.problem(kind, ipc, &traffic)
    }

    /// Phase 3 with that placement of tasks and I/O buffers.
    pub fn with_buffers(
        &mut self,
        system: &TaskSystem,
        kind: Kind,
        ipc: Ipc,
        own_bank: &[bool],
        goal: Objective,
    ) -> Option<Split> {
        let traffic = self.cost_buffers(system, kind, ipc, own_bank);
        self.split(kind, ipc, &traffic, goal)
    }

    fn cost_buffers(
        &mut self,
        system: &TaskSystem,
        kind: Kind,
        ipc: Ipc,
        own_bank: &[bool],
    ) -> Traffic {
        self.placed(system, kind);
        let mut demand = std::mem::take(&mut self.demand);
        let traffic =
            self.tables.cost(system, self.known(kind), ipc, |task| own_bank[task], &mut demand);
        self.demand = demand;
        traffic
    }

    fn problem(&self, kind: Kind, ipc: Ipc, traffic: &Traffic) -> Problem {
        let split = self.split(kind, ipc, traffic, Objective::LeastLevelC);
        let placed = self.known(kind);
        let limits = self.limits(placed, ipc);
        let mut level_c = self.tables.level_c(placed, traffic);
        let sizes = 0..=limits.ways;
        Problem {
            demand: self.demand.iter().map(|core| core.map(|check| check.to_vec())).collect(),
            saved: (0..self.demand.len()).map(|k| self.tables.saved(placed, k).to_vec()).collect(),
            total: sizes.clone().map(|w| level_c.total(w)).collect(),
            margin: sizes.map(|w| Some(level_c.margin(w)).filter(|m| m.is_finite())).collect(),
            least_c: limits.least_c,
            most_locked: limits.most_locked,
            least: split.map(|s| s.level_c_utilization),
        }
    }

    fn limits(&self, placed: &Placed, ipc: Ipc) -> Limits {
        let most_locked = if ipc == Ipc::Optimized { placed.most_locked } else { 0 };
        Limits { ways: self.p.ways, least_c: self.p.least_ways_of_c, most_locked }
    }
}

/// Is a split better than another?
pub(super) fn better(split: &Split, than: &Split, goal: Objective) -> bool {
    match goal {
        Objective::Feasible => false,
        Objective::LeastLevelC => lower(split, than),
        Objective::FewestWays => {
            (split.ways(), split.level_c_utilization) < (than.ways(), than.level_c_utilization)
        }
    }
}
