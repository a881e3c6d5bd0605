//! Programs and devices turned into numbers for every phase and share of the cache, and solved sets
//! of them kept.

use super::cache::LEVELS;
use super::curve::MemoryCurve;
use super::device::FluidDevice;
use super::program::{Demand, FluidProgram, Phase};
use super::solve::{Unit, Work, wait_ps};
use super::task::Counts;
use crate::program::Signal;
use rustc_hash::FxHashMap;

/// Lines of a device's unit.
pub(super) const DEVICE_LINES: f64 = 1024.0;

/// Index of a program's numbers in the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    base: usize,
    /// Number of entries: 1, or one for each share of the cache.
    levels: usize,
    /// Signal of each phase; the last phase reads the private caches again.
    pub ends: Vec<Option<Signal>>,
    pub private: bool,
    /// Lines that it can hold, if its misses depend on them.
    pub footprint: Option<u64>,
    /// Lines that it can hold although its misses do not depend on them; 0: any number.
    pub pollutes: u64,
}

impl Entry {
    /// Index of a phase at a share of the cache.
    pub fn unit(&self, phase: usize, level: usize) -> usize {
        self.base + phase * self.levels + level.min(self.levels - 1)
    }

    /// The phase that reads the private caches again.
    pub fn refill(&self) -> usize {
        self.ends.len() - 1
    }
}

/// Numbers of all programs and devices.
#[derive(Debug)]
pub(super) struct Table {
    pub units: Vec<Unit>,
    pub counts: Vec<Counts>,
    pub programs: Vec<Entry>,
    /// Index of the first device's first unit; two a device: out of memory, into it.
    pub devices: usize,
    known: FxHashMap<Box<[u32]>, usize>,
    /// Time of a unit and read latency, ps.
    solved: Vec<(f64, f64)>,
    /// The units of the set that is being solved.
    chosen: Vec<Unit>,
}

/// Most solved sets that are kept; then all are dropped, so that memory is bounded.
const KEPT: usize = 1 << 18;

impl Table {
    pub fn new(
        programs: &[FluidProgram],
        devices: &[FluidDevice],
        curve: &MemoryCurve,
        refill_line_ps: u64,
    ) -> Self {
        let mut table = Self {
            units: Vec::new(),
            counts: Vec::new(),
            programs: Vec::new(),
            devices: 0,
            known: FxHashMap::default(),
            solved: Vec::new(),
            chosen: Vec::new(),
        };
        programs.iter().for_each(|p| table.add(p, curve, refill_line_ps));
        table.devices = table.units.len();
        for device in devices {
            table.add_device(device, curve);
        }
        table
    }

    fn add(&mut self, program: &FluidProgram, curve: &MemoryCurve, refill_line_ps: u64) {
        let demands = &program.phases[0].demands;
        let largest = demands[demands.len() - 1].cache_lines;
        let sensitive = demands.len() > 1;
        let levels = if sensitive { LEVELS + 1 } else { 1 };
        let base = self.units.len();
        let ps = program.private_lines.saturating_mul(refill_line_ps);
        let refill = Phase {
            llc_accesses: program.private_lines,
            demands: vec![Demand { least_ps: ps, concurrency_milli: 1000, ..Demand::default() }],
            ..Phase::default()
        };
        for phase in program.phases.iter().chain([&refill]) {
            for level in 0..levels {
                let lines = if level == LEVELS {
                    largest as f64
                } else {
                    largest as f64 * (level as f64 + 0.5) / LEVELS as f64
                };
                self.push(phase, &Blend::at(&phase.demands, lines), curve);
            }
        }
        self.programs.push(Entry {
            base,
            levels,
            ends: program.phases.iter().map(|p| p.end).chain([None]).collect(),
            private: program.private_lines > 0,
            footprint: sensitive.then_some(largest.max(1)),
            pollutes: largest,
        });
    }

    fn push(&mut self, phase: &Phase, d: &Blend, curve: &MemoryCurve) {
        let lines = d.reads + d.writes;
        let share = if lines > 0.0 { d.writes / lines } else { 0.0 };
        let work = Work {
            reads: d.reads,
            writes: d.writes,
            least_ps: d.least_ps,
            serial_ps: d.serial_ps,
            latency_ps: d.latency_ps,
            concurrency: d.concurrency,
        };
        self.units.push(Unit::new(&work, &curve.kind(share, d.locality)));
        let (reads, writes) = (fixed(d.reads), fixed(d.writes));
        self.counts.push(Counts {
            compute_cycles: phase.compute_cycles,
            accesses: phase.accesses,
            llc_accesses: phase.llc_accesses,
            lines: reads + writes,
            misses: fixed(d.misses),
            reads: share_of(reads, reads + writes),
        });
    }

    fn add_device(&mut self, device: &FluidDevice, curve: &MemoryCurve) {
        for into in [false, true] {
            let (reads, writes) = if into { (0.0, DEVICE_LINES) } else { (DEVICE_LINES, 0.0) };
            let work = Work {
                reads,
                writes,
                least_ps: device.line_ps as f64 * DEVICE_LINES,
                serial_ps: 0.0,
                latency_ps: None,
                concurrency: f64::from(device.outstanding),
            };
            self.units.push(Unit::new(&work, &curve.kind(if into { 1.0 } else { 0.0 }, 1.0)));
            self.counts.push(Counts { reads: if into { 0 } else { 1 << 64 }, ..Counts::default() });
        }
    }

    /// Time of a unit and read latency, ps, for each of a set of units, which must be sorted.
    pub fn solve(&mut self, set: &[u32]) -> &[(f64, f64)] {
        if let Some(&at) = self.known.get(set) {
            return &self.solved[at..at + set.len()];
        }
        if self.solved.len() > KEPT {
            self.known.clear();
            self.solved.clear();
        }
        self.chosen.clear();
        self.chosen.extend(set.iter().map(|&i| self.units[i as usize]));
        let wait = wait_ps(&self.chosen);
        let at = self.solved.len();
        self.solved.extend(self.chosen.iter().map(|x| (x.time_at(wait), x.latency(wait))));
        self.known.insert(set.into(), at);
        &self.solved[at..]
    }
}

/// A count in units of 2^-16.
fn fixed(count: f64) -> u64 {
    (count * 65536.0 + 0.5) as u64
}

fn share_of(reads: u64, lines: u64) -> u128 {
    if lines == 0 { 0 } else { (u128::from(reads) << 64) / u128::from(lines) }
}

/// A demand interpolated between two given ones.
struct Blend {
    misses: f64,
    reads: f64,
    writes: f64,
    least_ps: f64,
    serial_ps: f64,
    latency_ps: Option<f64>,
    concurrency: f64,
    locality: f64,
}

impl Blend {
    fn at(demands: &[Demand], lines: f64) -> Self {
        let after =
            demands.iter().position(|d| d.cache_lines as f64 >= lines).unwrap_or(demands.len() - 1);
        let (a, b) = (&demands[after.saturating_sub(1)], &demands[after]);
        let span = b.cache_lines as f64 - a.cache_lines as f64;
        let x =
            if span > 0.0 { ((lines - a.cache_lines as f64) / span).clamp(0.0, 1.0) } else { 1.0 };
        let mix = |a: f64, b: f64| if x >= 1.0 { b } else { a + (b - a) * x };
        // Values given for no traffic have no meaning.
        let idle = |d: &Demand| d.dram_reads + d.dram_writes == 0;
        let (ka, kb) = if idle(a) {
            (b, b)
        } else if idle(b) {
            (a, a)
        } else {
            (a, b)
        };
        Self {
            misses: mix(a.llc_misses as f64, b.llc_misses as f64),
            reads: mix(a.dram_reads as f64, b.dram_reads as f64),
            writes: mix(a.dram_writes as f64, b.dram_writes as f64),
            least_ps: mix(a.least_ps as f64, b.least_ps as f64),
            serial_ps: mix(a.serial_ps as f64, b.serial_ps as f64),
            latency_ps: ka.latency_ps.zip(kb.latency_ps).map(|(a, b)| mix(a as f64, b as f64)),
            concurrency: mix(f64::from(ka.concurrency_milli), f64::from(kb.concurrency_milli))
                .max(1000.0)
                / 1000.0,
            locality: mix(f64::from(ka.locality_milli), f64::from(kb.locality_milli)) / 1000.0,
        }
    }
}
