//! Time of one allocation, of one system drawn, and of all nine verdicts, on systems around the
//! edge of all scenarios.
//!
//! Target: phases 1 to 3 of one allocation (four cores, 16 ways, O|C+A/B-All, the least level-C
//! utilization) in less than 20 microseconds in the median.

use solocore_planner::levels::optimiser::scheme::{Io, Ipc};
use solocore_planner::levels::optimiser::{Allocator, Objective, Scheme, TaskSystem};
use solocore_study::generator;
use solocore_study::{Parameters, Scenario};
use std::cell::Cell;

fn main() {
    divan::main();
}

const SYSTEMS: u64 = 648;

fn name(index: u64) -> (Scenario, u32) {
    let number = u16::try_from(index % 648).unwrap_or(0);
    let milli = 1400 + 200 * u32::try_from(index % 11).unwrap_or(0);
    (Scenario::from_index(number).expect("below 648"), milli)
}

fn systems(p: &Parameters) -> Vec<TaskSystem> {
    (0..SYSTEMS)
        .map(|index| {
            let (scenario, milli) = name(index);
            let mut system = TaskSystem::default();
            generator::generate(&mut system, p, 1, scenario, milli, index);
            system
        })
        .collect()
}

#[divan::bench(sample_count = 1000, sample_size = 20)]
fn generate(bencher: divan::Bencher) {
    let (p, next) = (Parameters::standard(), Cell::new(0));
    let mut system = TaskSystem::default();
    bencher.bench_local(|| {
        next.set(next.get() + 1);
        let (scenario, milli) = name(next.get());
        generator::generate(&mut system, &p, 1, scenario, milli, next.get());
    });
}

fn run(bencher: divan::Bencher, schemes: &[Scheme], goal: Objective) {
    let p = Parameters::standard();
    let (systems, next) = (systems(&p), Cell::new(0));
    let mut allocator = Allocator::new(p.machine());
    bencher.bench_local(|| {
        next.set((next.get() + 1) % systems.len());
        let system = &systems[next.get()];
        allocator.load(system);
        schemes.iter().map(|&scheme| allocator.allocate(system, scheme, goal)).last()
    });
}

#[divan::bench(sample_count = 1000, sample_size = 20)]
fn one_allocation(bencher: divan::Bencher) {
    run(bencher, &[Scheme { ipc: Ipc::Optimized, io: Io::All }], Objective::LeastLevelC);
}

#[divan::bench(sample_count = 1000, sample_size = 20)]
fn nine_verdicts(bencher: divan::Bencher) {
    run(bencher, &Scheme::paper().collect::<Vec<_>>(), Objective::Feasible);
}

#[divan::bench(sample_count = 1000, sample_size = 20)]
fn per_buffer(bencher: divan::Bencher) {
    run(bencher, &[Scheme { ipc: Ipc::Optimized, io: Io::PerBuffer }], Objective::Feasible);
}
