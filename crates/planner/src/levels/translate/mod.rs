//! From a system file to the optimiser's input.
//!
//! Problem: the optimiser knows shares of an idle time; a real task has execution times by ways,
//! stated or from its profile, messages with their bytes and devices with their bytes per second.
//! Rule: a task's time with `w` ways becomes `flat + steep*curve[w]` exactly, shares of its time
//! with all ways. Level-B PET: that time; level A: `pet_scale` of it; level C: `average` of it.
//!
//! With `contention = "bounded"` the PETs contain every delay of a job:
//! * each DRAM access takes `L_max`, and the longest delay that other cores and devices can cause
//!   (`solocore_analysis::interference`, request-driven, all banks shared). With `model = "sce"` it
//!   waits for one access of each other core and of each device;
//! * the memory refreshes: an access may wait for a refresh, and each refresh delays one of a job's
//!   accesses;
//! * each line that a profiled task fetches may evict a dirty line of another task (at most the
//!   lines of the ways and of the private caches);
//! * the ways of level C are shared by tasks that run at once, so that no hit in them is counted;
//! * each piece in which a job executes waits for an access under way, and pays the longest reload
//!   of any task that it may preempt. A reload is of lines whose hits are counted: of level C those
//!   of the private caches. A job of level A also pays its own, once per further piece. A
//!   job of level A is in at most `T/T_min` pieces, `T_min` the least period of level A: its slots
//!   are cut at releases only, all multiples of `T_min`;
//! * a buffer outside the own bank and ways (SBP, C) is accessed in DRAM, line by line, once to
//!   write it and once to read it; a cacheable one may be evicted as often. Stated times of
//!   messages and reloads are taken to be all memory.
//!
//! With "measured", the stated times contain all of this except buffers and DMA, which
//! `[levels.costs]` prices as the paper does.
//!
//! Not covered: the kernel's own work for a message or a transfer; state it in the execution times.

mod shape;

pub use shape::Shape;

use super::optimiser::Machine;
use super::optimiser::curve::saturation;
use super::optimiser::tasks::{Accesses, Edge, IoBuffer, OptimiserTask, TaskSystem};
use super::optimiser::ways::SIZES;
use crate::demand::Demand;
use shape::{Memory, per_job};
use solocore_analysis::levels::Level;
use solocore_model::levels::{Contention, Costs, Isolation, TaskShape};
use solocore_model::system::{Criticality, SystemTask};
use solocore_model::{System, Time};

const PS_PER_MS: f64 = 1e9;
/// Curve where a region of that size is impossible: no utilization is so small that it fits.
const NEVER: f64 = 1e30;
/// Least `steep`: a flat curve, too, must not pass at impossible sizes.
const LEAST_STEEP: f64 = 1e-12;
/// A system in the optimiser's terms.
pub struct Translated {
    /// Tasks by level, for the optimiser.
    pub system: TaskSystem,
    /// The machine.
    pub machine: Machine,
    /// By the optimiser's index.
    pub shapes: Vec<Shape>,
    /// Time to write a message uncached and to read it, under contention: by `system.edges`.
    pub bypass_ps: Vec<[u64; 2]>,
    /// The same alone.
    pub alone_ps: Vec<[u64; 2]>,
    /// By `system.edges`: index in `[[ipc]]`.
    pub edges: Vec<usize>,
    /// Lines of each message.
    pub lines: Vec<u64>,
}

/// Translates a system whose tasks have these demands.
pub fn translate(system: &System, isolation: &Isolation, demands: &[Demand]) -> Translated {
    let memory = Memory::of(system, isolation);
    let order = by_level(&system.tasks);
    let shapes: Vec<Shape> = order
        .iter()
        .map(|&index| {
            let fixed = per_job(&memory, system, demands, index);
            memory.shape(index, &system.tasks[index], &demands[index], fixed)
        })
        .collect();
    let tasks = TaskSystem { cores: system.active_cores() as usize, ..TaskSystem::default() };
    let mut out = Translated {
        system: tasks,
        machine: machine(system, isolation),
        shapes,
        bypass_ps: Vec::new(),
        alone_ps: Vec::new(),
        edges: Vec::new(),
        lines: Vec::new(),
    };
    let costs = isolation.settings.costs.clone().unwrap_or_default();
    out.add_tasks(system, isolation, &costs);
    out.add_messages(system, isolation, &memory, &costs);
    out.group();
    out
}

/// Analysed tasks: level A, then B, then C, each in the order of the file.
fn by_level(tasks: &[SystemTask]) -> Vec<usize> {
    let level =
        |wanted: Criticality| (0..tasks.len()).filter(move |&i| tasks[i].criticality == wanted);
    level(Criticality::A).chain(level(Criticality::B)).chain(level(Criticality::C)).collect()
}

fn machine(system: &System, isolation: &Isolation) -> Machine {
    let (s, platform) = (&isolation.settings, &system.platform);
    let costs = s.costs.clone().unwrap_or_default();
    let ways = isolation.ways(platform) as usize;
    Machine {
        ways,
        way_bytes: platform.llc.size.0 / u64::from(platform.llc.ways),
        least_ways_of_c: s.least_ways_of_c as usize,
        placement_ways: (ways / (system.active_cores() as usize + 1)).max(1),
        level_a_over_b: s.pet_scale,
        tick_period_us: s.tick_period.ps() as f64 / 1e6,
        tick_us: s.tick.ps() as f64 / 1e6,
        device_block_bytes: s.device_block.0,
        device_us: s.device_interrupt.ps() as f64 / 1e6,
        dma_saturation_mb_per_s: costs.dma_saturation.0 as f64 / 1e6,
        sharing_saturation_cores: costs.sharing_saturation,
    }
}

impl Translated {
    fn add_tasks(&mut self, system: &System, isolation: &Isolation, costs: &Costs) {
        let measured = isolation.settings.contention == Contention::Measured;
        let if_measured = |share: f64| if measured { share } else { 0.0 };
        for shape in &self.shapes {
            let task = &system.tasks[shape.index];
            let level = match task.criticality {
                Criticality::A => Level::A,
                Criticality::B => Level::B,
                Criticality::C | Criticality::D => Level::C,
            };
            let period = task.period.map_or(1.0, |p| p.ps() as f64);
            let (flat, steep, curve) = curve(shape);
            let io =
                isolation.io.iter().find(|(io, _)| io.task == task.name).map(|(io, _)| IoBuffer {
                    copy_share: io.copy,
                    mb_per_s: io.bandwidth.0 as f64 / 1e6,
                    penalty: if_measured(io.copy * costs.io_copy),
                    direct: io.direct,
                    bank: 0,
                    long: false,
                    short: false,
                });
            let s = &mut self.system;
            s.dma += io.map_or(0.0, |io| io.mb_per_s);
            s.tasks.push(OptimiserTask {
                level,
                period_ms: period / PS_PER_MS,
                utilization: isolation.settings.pet_scale * shape.whole() as f64 / period,
                average: f64::from(task.shape.average_millionths) / f64::from(TaskShape::WHOLE),
                flat,
                steep,
                factor: 1.0,
                bus: if_measured(costs.dma_bus),
                bank: if_measured(costs.dma_bank),
                victim: if level == Level::C { if_measured(costs.bank_sharing_c) } else { 0.0 },
                reload: 0.0,
                io,
            });
            s.curves.push(curve);
            if level != Level::C {
                s.pins.push(task.core.map(|core| core as usize));
            }
        }
        let s = &mut self.system;
        let first =
            |level: Level| s.tasks.iter().position(|t| t.level >= level).unwrap_or(s.tasks.len());
        s.starts = [first(Level::B), first(Level::C)];
        s.bus_load = saturation(s.dma, self.machine.dma_saturation_mb_per_s);
        let [b, c] = s.starts;
        mark_halves(&mut s.tasks[..b]);
        mark_halves(&mut s.tasks[b..c]);
    }

    /// Messages of levels A and B first, as the optimiser expects them.
    fn add_messages(
        &mut self,
        system: &System,
        isolation: &Isolation,
        memory: &Memory,
        costs: &Costs,
    ) {
        let of = |name: &str| self.shapes.iter().position(|s| system.tasks[s.index].name == name);
        let ends: Vec<(usize, usize, usize)> = isolation
            .ipc
            .iter()
            .enumerate()
            .filter_map(|(at, (ipc, _))| Some((at, of(&ipc.from)?, of(&ipc.to)?)))
            .collect();
        let bound = self.system.starts[1];
        let (first, last): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|&(_, from, _)| from < bound);
        self.system.bound_edges = first.len();
        for (at, sender, receiver) in first.into_iter().chain(last) {
            let ipc = &isolation.ipc[at].0;
            let lines = ipc.size.0.div_ceil(system.platform.llc.line.0);
            let alone = |stated: Option<Time>| {
                stated.map_or(lines.saturating_mul(memory.latency_ps), Time::ps)
            };
            let alone = [ipc.send, ipc.receive].map(alone);
            let time = alone.map(|t| memory.with_refresh(memory.all_waiting(t), u64::MAX));
            let evicted = memory.with_refresh(lines.saturating_mul(memory.access_ps()), lines);
            let accesses = |task: usize, time: u64, ce: f64, cl: f64| {
                let (whole, sbp) = (self.shapes[task].whole() as f64, time as f64);
                if memory.bounded {
                    let (bypass, level_c) = (sbp / whole, (sbp + evicted as f64) / whole);
                    return Accesses { share: 0.0, bypass, level_c, locked: 0.0 };
                }
                Accesses {
                    share: sbp * ce / whole,
                    bypass: sbp * (1.0 - ce) / whole,
                    level_c: sbp * (1.0 - ce + costs.eviction) / whole,
                    locked: sbp * (ce - cl) / whole,
                }
            };
            let sending = accesses(sender, time[0], costs.send_ce, costs.send_cl);
            let receiving = accesses(receiver, time[1], costs.receive_ce, costs.receive_cl);
            let bytes = u32::try_from(ipc.size.0).unwrap_or(u32::MAX);
            self.system.edges.push(Edge { sender, receiver, bytes, bank: 0, sending, receiving });
            self.bypass_ps.push(time);
            self.alone_ps.push(alone);
            self.edges.push(at);
            self.lines.push(lines);
        }
    }

    /// Tasks of levels A and B that are linked by messages, in one piece.
    fn group(&mut self) {
        let s = &mut self.system;
        let count = s.starts[1];
        let mut seen = vec![false; count];
        for first in 0..count {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            let from = s.order.len();
            s.order.push(first);
            let mut at = from;
            while at < s.order.len() {
                let task = s.order[at];
                for edge in &s.edges[..s.bound_edges] {
                    for (one, other) in [(edge.sender, edge.receiver), (edge.receiver, edge.sender)]
                    {
                        if one == task && !std::mem::replace(&mut seen[other], true) {
                            s.order.push(other);
                        }
                    }
                }
                at += 1;
            }
            s.groups.push((from, s.order.len()));
        }
    }
}

/// `flat`, `steep` and the curve of a task, over its time with all ways.
fn curve(shape: &Shape) -> (f64, f64, [f64; SIZES]) {
    let whole = shape.whole() as f64;
    let times = || shape.contended_ps.iter().copied().flatten();
    let (least, most) = (times().min().unwrap_or(1), times().max().unwrap_or(1));
    let steep = ((most - least) as f64 / whole).max(LEAST_STEEP);
    let mut out = [NEVER; SIZES];
    for (out, time) in out.iter_mut().zip(&shape.contended_ps) {
        // Without gain from ways, DMA to the bank has its full effect at every size.
        *out = time.map_or(NEVER, |t| {
            if most > least { (t - least) as f64 / (most - least) as f64 } else { 1.0 }
        });
    }
    ((least as f64 + shape.fixed_ps as f64) / whole, steep, out)
}

/// Marks the half of a level's I/O tasks with the longest and with the shortest periods; of an odd
/// number, both halves contain the one in the middle.
fn mark_halves(tasks: &mut [OptimiserTask]) {
    let mut order: Vec<usize> = (0..tasks.len()).filter(|&i| tasks[i].io.is_some()).collect();
    order.sort_by(|&i, &j| tasks[i].period_ms.total_cmp(&tasks[j].period_ms).then(i.cmp(&j)));
    let (count, half) = (order.len(), order.len().div_ceil(2));
    for (rank, &task) in order.iter().enumerate() {
        if let Some(io) = &mut tasks[task].io {
            (io.short, io.long) = (rank < half, rank >= count - half);
        }
    }
}
