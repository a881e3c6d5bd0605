//! The cost model: the demand of the tasks on each core, and of level C, by the ways of their
//! region.
//!
//! # Rule
//! A job of a task takes, over its time in an idle system with the whole cache,
//!
//! `flat + steep*q^w + bus*g(D) + bank*g(D_k)*q^w + victim*g(X_k) + reload + buffers`
//!
//! | term | source | applies to |
//! |---|---|---|
//! | `flat + steep*q^w` | ways, exponential decay (section 6.1) | all |
//! | `bus*g(D)` | all DMA on the bus (Obs. 4) | all |
//! | `bank*g(D_k)*q^w` | DMA to the task's bank (Obs. 5, Fig. 13) | Table 1, "experiences DMA-sourced" |
//! | `victim*g(X_k)` | other cores' accesses to the task's bank (Obs. 3) | level C; levels A and B under R |
//! | `reload` | preemptions, largest reload time (category 4) | levels B and C |
//! | `buffers` | accesses to message and I/O buffers (Obs. 1 and 2) | by scheme |
//!
//! `g(x) = 1 - e^(-x/s)` saturates. A job on core 0 also takes all interrupts of a period (section
//! 6.1); one of level C is charged for interrupts by preemption-centric accounting (Brandenburg
//! 2011), as it may run there. The factors hold for the PETs of all levels alike: level-A PET by
//! `utilization`, level B by that over 1.5, level C by `average` of it.
//!
//! # Speed
//! Everything that does not depend on the scheme is summed once per system and placement
//! ([`Placed`]); `q^w` is never computed per scheme, as saturation is one of the machine, not of
//! the task. A scheme then costs a pass over the I/O tasks.
//!
//! # Locked buffers
//! Buffers are locked in the order of utilization saved per byte; phase 3 decides the number that
//! fits. A locked buffer still counts as traffic to the banks of level C, which is on the safe
//! side.

mod level_c;

use super::curve::saturation;
use super::machine::Machine;
use super::placement::{Estimate, Kind, Placement, Weights};
use super::scheme::Ipc;
use super::tasks::{Accesses, BANKS, Edge, OptimiserTask, TaskSystem};
use super::ways::{Checks, MOST_CORES, SIZES};
use level_c::{Global, GlobalTask, add_scaled};
use solocore_analysis::levels::Level;

pub use level_c::GlobalDemand;

/// Bank number that stands for all banks of level C.
pub(crate) const BANK_OF_C: usize = MOST_CORES;

/// Traffic to each bank; the last entry stands for all banks of level C.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// DMA in 10^6 bytes per second.
    pub dma: [f64; MOST_CORES + 1],
    /// Accesses from other cores, in cores' worth of time.
    pub accesses: [f64; MOST_CORES + 1],
}

/// Sums over the tasks of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct CoreTable {
    constant: Checks,
    victim: Checks,
    /// Demand by message buffers, under C and under O.
    messages: [Checks; 2],
    demand: [[f64; SIZES]; 3],
    bank: [[f64; SIZES]; 3],
    saved: [Checks; SIZES],
}

/// Sums over a system whose tasks have been placed.
#[derive(Debug, Clone, Default)]
pub struct Placed {
    /// Cores of the tasks.
    pub placement: Placement,
    cores: Vec<CoreTable>,
    /// Accesses to message buffers in the banks of level C by levels A and B, under C and under O.
    traffic: [f64; 2],
    /// Ways with which a message buffer of levels A and B is locked, by its index; a number beyond
    /// the largest if it never is.
    pub locked_from: Vec<usize>,
    /// Ways that hold all message buffers of levels A and B.
    pub most_locked: usize,
    ranked: Vec<(f64, usize)>,
}

/// Demand of one core by check and size.
pub type Demand = [[f64; SIZES]; 3];

/// All sums of one system.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// By task of levels A and B.
    pub weights: Vec<Weights>,
    /// Tasks of levels A and B with an I/O buffer.
    pub io: Vec<usize>,
    global: Global,
    /// Traffic of level C's own buffers in its banks.
    own: Traffic,
    /// Saturation of message and I/O traffic.
    saturation: [f64; 2],
    level_a_over_b: f64,
    periods: [(f64, f64); 3],
}

impl Tables {
    /// Empty sums.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sums over a system.
    pub fn load(&mut self, p: &Machine, system: &TaskSystem) {
        self.saturation = [p.dma_saturation_mb_per_s, p.sharing_saturation_cores];
        self.level_a_over_b = p.level_a_over_b;
        self.periods = [(0.0, 0.0); 3];
        self.weights.clear();
        self.io.clear();
        for (at, task) in system.bound().iter().enumerate() {
            let weights = self.weigh(p, system, at, task);
            self.weights.push(weights);
            if task.io.is_some() {
                self.io.push(at);
            }
        }
        self.load_global(p, system);
    }

    fn weigh(
        &mut self,
        p: &Machine,
        system: &TaskSystem,
        at: usize,
        task: &OptimiserTask,
    ) -> Weights {
        let longest = task.utilization / self.level_a_over_b;
        let a = if task.level == Level::A { task.utilization } else { 0.0 };
        let checks = [a, longest, longest * task.average];
        // Level A is not preempted by level B; its slots are its own.
        let reload = if task.level == Level::A { 0.0 } else { task.reload };
        let constant = task.flat + task.bus * system.bus_load + reload;
        let interrupts = self.interrupts(p, system, task.period_ms);
        let share = constant + task.steep * system.remaining(at, p.placement_ways);
        let estimate = Estimate { a: checks[0] * share, b: checks[1] * share, interrupts };
        Weights { checks, constant, interrupts, estimate }
    }

    /// Utilization lost by a task that pays for every interrupt of its period.
    fn interrupts(&mut self, p: &Machine, system: &TaskSystem, period_ms: f64) -> f64 {
        if let Some((_, known)) = self.periods.iter().find(|(period, _)| *period == period_ms) {
            return *known;
        }
        let window = period_ms * 1000.0;
        let lost = p
            .interrupts(system.dma)
            .iter()
            .map(|(cost, period)| (window / period).ceil() * cost)
            .sum::<f64>();
        self.periods.rotate_right(1);
        self.periods[0] = (period_ms, lost / window);
        lost / window
    }

    fn load_global(&mut self, p: &Machine, system: &TaskSystem) {
        let sources = p.interrupts(system.dma);
        let busy: f64 = sources.iter().map(|(cost, period)| cost / period).sum();
        let burst: f64 = sources.iter().map(|(cost, _)| cost).sum();
        // Interrupts that take all time leave no room for level C.
        let scale = if busy < 1.0 { 1.0 / (1.0 - busy) } else { f64::INFINITY };
        self.global.clear();
        self.own = Traffic::default();
        for (at, task) in (system.starts[1]..).zip(system.global()) {
            let io = task.io.map_or(0.0, |io| io.penalty);
            let idle = task.utilization / self.level_a_over_b * task.average;
            // Each job is in at most two pieces per start (preemption-centric accounting).
            let pieces = 2.0 * burst / (task.period_ms * 1000.0);
            let constant = (idle * (task.flat + task.reload + task.bus * system.bus_load + io)
                + pieces)
                * scale;
            let idle = idle * scale;
            let powers = system.curve(at);
            let global = GlobalTask {
                constant,
                victim: idle * task.victim,
                steep: idle * task.steep,
                bank: idle * task.bank,
                powers,
            };
            self.global.push(global);
            if let Some(io) = task.io {
                self.own.dma[BANK_OF_C] += io.mb_per_s;
                self.own.accesses[BANK_OF_C] +=
                    io.copy_share * task.utilization / self.level_a_over_b;
            }
        }
        for edge in &system.edges[system.bound_edges..] {
            let [sent, received] = self.accesses(system, edge);
            self.own.accesses[BANK_OF_C] += sent + received;
        }
    }

    /// Time that sender and receiver spend in a message buffer, in cores' worth.
    fn accesses(&self, system: &TaskSystem, edge: &Edge) -> [f64; 2] {
        let of = |task: usize, costs: &Accesses| {
            costs.share * system.tasks[task].utilization / self.level_a_over_b
        };
        [of(edge.sender, &edge.sending), of(edge.receiver, &edge.receiving)]
    }

    /// Places the tasks and sums over each core.
    pub fn place(&self, p: &Machine, system: &TaskSystem, kind: Kind, out: &mut Placed) {
        out.placement.place(system, &self.weights, kind);
        out.cores.clear();
        out.cores.resize(system.cores, CoreTable::default());
        for (at, task) in system.bound().iter().enumerate() {
            let core = out.placement.core[at];
            let (w, table) = (&self.weights[at], &mut out.cores[core]);
            add(&mut table.constant, &w.checks, w.constant);
            add(&mut table.victim, &w.checks, task.victim);
            if core == 0 {
                let sees = |check: usize| {
                    if check == 0 && task.level != Level::A { 0.0 } else { w.interrupts }
                };
                for check in 0..3 {
                    table.constant[check] += sees(check);
                }
            }
            let powers = system.curve(at);
            for check in 0..3 {
                if w.checks[check] > 0.0 {
                    add_scaled(&mut table.demand[check], w.checks[check] * task.steep, &powers);
                    add_scaled(&mut table.bank[check], w.checks[check] * task.bank, &powers);
                }
            }
        }
        self.place_messages(p, system, out);
    }

    /// Message buffers of levels A and B under C and O, and the savings by locking them.
    fn place_messages(&self, p: &Machine, system: &TaskSystem, out: &mut Placed) {
        out.traffic = [0.0; 2];
        out.ranked.clear();
        for (at, edge) in system.edges[..system.bound_edges].iter().enumerate() {
            let ends = [(edge.sender, &edge.sending), (edge.receiver, &edge.receiving)];
            let together = out.placement.core[edge.sender] == out.placement.core[edge.receiver];
            let traffic: f64 = self.accesses(system, edge).iter().sum();
            out.traffic[0] += traffic;
            out.traffic[1] += if together { 0.0 } else { traffic };
            let mut saved = 0.0;
            for (task, costs) in ends {
                let (w, table) =
                    (&self.weights[task].checks, &mut out.cores[out.placement.core[task]]);
                let optimized = if together { 0.0 } else { costs.bypass };
                add(&mut table.messages[0], w, costs.level_c);
                add(&mut table.messages[1], w, optimized);
                saved += w[1] * (optimized + costs.locked);
            }
            out.ranked.push((saved / f64::from(edge.bytes), at));
        }
        self.rank_locked(p, system, out);
    }

    fn rank_locked(&self, p: &Machine, system: &TaskSystem, out: &mut Placed) {
        out.ranked.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        out.locked_from.clear();
        out.locked_from.resize(system.bound_edges, SIZES);
        let mut bytes = 0u64;
        for &(_, at) in &out.ranked {
            let edge = &system.edges[at];
            bytes += u64::from(edge.bytes);
            let ways = usize::try_from(bytes.div_ceil(p.way_bytes)).unwrap_or(SIZES);
            if ways >= SIZES {
                break;
            }
            out.locked_from[at] = ways;
            let together = out.placement.core[edge.sender] == out.placement.core[edge.receiver];
            for (task, costs) in [(edge.sender, &edge.sending), (edge.receiver, &edge.receiving)] {
                let optimized = if together { 0.0 } else { costs.bypass };
                let table = &mut out.cores[out.placement.core[task]];
                add(&mut table.saved[ways], &self.weights[task].checks, optimized + costs.locked);
            }
        }
        out.most_locked = out.locked_from.iter().copied().filter(|&w| w < SIZES).max().unwrap_or(0);
        for table in &mut out.cores {
            for ways in 1..SIZES {
                for check in 0..3 {
                    table.saved[ways][check] += table.saved[ways - 1][check];
                }
            }
        }
    }

    /// Computes the demand of the cores, and traffic, under a scheme other than R|R; `own_bank`
    /// marks the I/O buffers that are in the banks of their tasks' cores.
    pub fn cost(
        &self,
        system: &TaskSystem,
        placed: &Placed,
        ipc: Ipc,
        own_bank: impl Fn(usize) -> bool,
        demand: &mut [Demand],
    ) -> Traffic {
        let messages = usize::from(ipc == Ipc::Optimized);
        let mut traffic = self.own;
        traffic.accesses[BANK_OF_C] += placed.traffic[messages];
        let mut constant = [Checks::default(); MOST_CORES];
        for (sum, table) in constant.iter_mut().zip(&placed.cores) {
            *sum = table.constant;
            add(sum, &table.messages[messages], 1.0);
        }
        for &task in &self.io {
            let Some(io) = system.tasks[task].io else { continue };
            let core = placed.placement.core[task];
            if own_bank(task) {
                // The kernel's own buffers, which it copies from, stay in the banks of level C.
                traffic.dma[if io.direct { core } else { BANK_OF_C }] += io.mb_per_s;
            } else {
                add(&mut constant[core], &self.weights[task].checks, io.penalty);
                traffic.dma[BANK_OF_C] += io.mb_per_s;
                traffic.accesses[BANK_OF_C] += io.copy_share * self.weights[task].checks[1];
            }
        }
        self.sum_up(placed, &constant, &traffic, demand);
        traffic
    }

    /// Demand and traffic under R|R.
    pub fn cost_random(
        &self,
        system: &TaskSystem,
        placed: &Placed,
        demand: &mut [Demand],
    ) -> Traffic {
        let mut traffic = Traffic::default();
        let mut constant = [Checks::default(); MOST_CORES];
        for (sum, table) in constant.iter_mut().zip(&placed.cores) {
            *sum = table.constant;
        }
        let core_of = |task: usize| placed.placement.core.get(task).copied();
        for edge in &system.edges {
            let bank = bank(edge.bank, system.cores);
            let ends = [(edge.sender, &edge.sending), (edge.receiver, &edge.receiving)];
            let local =
                bank < system.cores && ends.iter().all(|(task, _)| core_of(*task) == Some(bank));
            let accesses = self.accesses(system, edge);
            for ((task, costs), time) in ends.into_iter().zip(accesses) {
                let core = core_of(task);
                if core != Some(bank) {
                    traffic.accesses[bank] += time;
                }
                if let Some(core) = core.filter(|_| !local) {
                    add(&mut constant[core], &self.weights[task].checks, costs.level_c);
                }
            }
        }
        for (at, task) in system.tasks.iter().enumerate() {
            let Some(io) = task.io else { continue };
            let (bank, core) = (bank(io.bank, system.cores), core_of(at));
            traffic.dma[if io.direct { bank } else { BANK_OF_C }] += io.mb_per_s;
            if core != Some(bank) {
                traffic.accesses[bank] += io.copy_share * task.utilization / self.level_a_over_b;
                if let Some(core) = core {
                    add(&mut constant[core], &self.weights[at].checks, io.penalty);
                }
            }
        }
        for (core, sum) in constant[..system.cores].iter_mut().enumerate() {
            let reached = saturation(traffic.accesses[core], self.saturation[1]);
            add(sum, &placed.cores[core].victim, reached);
        }
        self.sum_up(placed, &constant, &traffic, demand);
        traffic
    }

    fn sum_up(
        &self,
        placed: &Placed,
        constant: &[Checks; MOST_CORES],
        traffic: &Traffic,
        demand: &mut [Demand],
    ) {
        for (core, table) in placed.cores.iter().enumerate() {
            let reached = saturation(traffic.dma[core], self.saturation[0]);
            for check in 0..3 {
                let out = &mut demand[core][check];
                for (size, out) in out.iter_mut().enumerate() {
                    *out = constant[core][check]
                        + table.demand[check][size]
                        + reached * table.bank[check][size];
                }
            }
        }
    }

    /// Savings by locked buffers on a core.
    #[must_use]
    pub fn saved<'a>(&self, placed: &'a Placed, core: usize) -> &'a [Checks; SIZES] {
        &placed.cores[core].saved
    }

    /// Demand of one core by DMA to its bank: at no size scaled, for [`super::per_buffer`].
    pub(crate) fn parts<'a>(
        &self,
        placed: &'a Placed,
        core: usize,
    ) -> (Checks, &'a Demand, &'a Demand) {
        let table = &placed.cores[core];
        let mut constant = table.constant;
        add(&mut constant, &table.messages[1], 1.0);
        (constant, &table.demand, &table.bank)
    }

    /// The part of its limit that the effect of DMA has reached, 0 to 1.
    pub(crate) fn dma_reached(&self, mb_per_s: f64) -> f64 {
        saturation(mb_per_s, self.saturation[0])
    }

    /// Least traffic to the banks of level C under O: all I/O buffers of levels A and B elsewhere.
    pub(crate) fn least_traffic(&self, system: &TaskSystem, placed: &Placed) -> Traffic {
        let mut traffic = self.own;
        traffic.accesses[BANK_OF_C] += placed.traffic[1];
        for &task in &self.io {
            if let Some(io) = system.tasks[task].io.filter(|io| !io.direct) {
                traffic.dma[BANK_OF_C] += io.mb_per_s;
            }
        }
        traffic
    }

    /// Level C under that traffic.
    #[must_use]
    pub fn level_c(&self, placed: &Placed, traffic: &Traffic) -> GlobalDemand<'_> {
        let mut used = [false; MOST_CORES];
        for &core in &placed.placement.core {
            used[core] = true;
        }
        let partial = used.iter().filter(|used| **used).count();
        GlobalDemand {
            global: &self.global,
            dma: saturation(traffic.dma[BANK_OF_C], self.saturation[0]),
            accesses: saturation(traffic.accesses[BANK_OF_C], self.saturation[1]),
            factor: partial.saturating_sub(1) as f64,
            others: placed.cores.len() - 1,
            margins: [None; SIZES],
        }
    }
}

/// A bank of scheme R as an index of [`Traffic`].
pub(crate) fn bank(drawn: u32, cores: usize) -> usize {
    debug_assert!(drawn < BANKS);
    usize::try_from(drawn).ok().filter(|bank| *bank < cores).unwrap_or(BANK_OF_C)
}

fn add(sum: &mut Checks, weights: &Checks, by: f64) {
    for (sum, weight) in sum.iter_mut().zip(weights) {
        *sum += weight * by;
    }
}
