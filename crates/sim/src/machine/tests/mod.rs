//! The machine against hand-computed times, a naive hierarchy, and its own invariants.

mod conserve;
mod dispatch;
mod latency;
mod naive;
mod traffic;

use super::{DmaSpec, Machine, MachineConfig};
use crate::hardware::{Hardware, Notice, ProgramId};
use crate::program::{Entry, Op, OpKind, Program, Space};
use solocore_dram::random::Random;
use solocore_model::Platform;
use std::path::Path;

/// Repeats its operations.
pub(super) struct Loop(pub Vec<Op>, pub u32);

impl Program for Loop {
    fn refill(&mut self, out: &mut Vec<Op>) {
        out.extend(&self.0);
    }

    fn pages(&self) -> u32 {
        self.1
    }

    fn abandon_job(&mut self) {}
}

/// Random accesses of all kinds over its pages.
pub(super) struct Mixed {
    random: Random,
    pages: u32,
    entry: Entry,
    gap: u64,
}

impl Mixed {
    pub fn new(seed: u64, pages: u32, gap: u64) -> Self {
        Self { random: Random::new(seed), pages, entry: Entry::Private, gap }
    }
}

impl Program for Mixed {
    fn refill(&mut self, out: &mut Vec<Op>) {
        for _ in 0..100 {
            let kinds = [
                OpKind::Load,
                OpKind::LoadWait,
                OpKind::Store,
                OpKind::Fetch,
                OpKind::StoreLine,
                OpKind::Load,
            ];
            let kind = kinds[usize::try_from(self.random.below(6)).unwrap()];
            // Half of them near, half anywhere.
            let span = u64::from(self.pages) * 64;
            let span = if self.random.below(2) == 0 { span.min(128) } else { span };
            let line = self.random.below(span);
            out.push(Op::access(kind, self.random.below(self.gap + 1), line));
        }
        out.push(Op::compute(self.random.below(300)));
    }

    fn entry(&self) -> Entry {
        self.entry
    }

    fn pages(&self) -> u32 {
        self.pages
    }

    fn abandon_job(&mut self) {}
}

/// A P4080 with this number of cores and one memory channel.
pub(super) fn config(cores: u32) -> MachineConfig {
    let mut p = Platform::find("p4080", Path::new(".")).unwrap();
    p.cores = cores;
    p.dram.channels = 1;
    MachineConfig::of(&p, 1).unwrap()
}

/// Frames in a row, all ways.
pub(super) fn space(first: u64, pages: u64, config: &MachineConfig) -> Space {
    Space {
        frames: (first..first + pages).collect(),
        kinds: Vec::new(),
        ways: u64::MAX >> (64 - config.llc.ways),
        tables: Vec::new(),
    }
}

pub(super) type Programs = Vec<(Box<dyn Program>, Space)>;

pub(super) fn machine(
    config: &MachineConfig,
    programs: Programs,
    devices: Vec<DmaSpec>,
) -> Machine {
    Machine::new(config.clone(), programs, devices).unwrap_or_else(|e| panic!("{e}"))
}

/// A machine that repeats `ops` on core 0, dispatched.
pub(super) fn single(config: &MachineConfig, ops: Vec<Op>) -> Machine {
    let mut m = machine(config, vec![(Box::new(Loop(ops, 1024)), space(0, 1024, config))], vec![]);
    m.dispatch(0, Some(ProgramId(0)), 0);
    m
}

/// Moves on to a time; the notices with their times.
pub(super) fn run(m: &mut Machine, until_ps: u64) -> Vec<(u64, Notice)> {
    std::iter::from_fn(|| m.advance(until_ps).map(|n| (m.now_ps(), n))).collect()
}

/// Idles all cores and lets everything under way end.
pub(super) fn drain(m: &mut Machine) {
    for core in 0..m.cores() {
        m.dispatch(core, None, 0);
    }
    let until = m.now_ps() + 100_000_000;
    run(m, until);
}
