//! Wall time of five simulated minutes on the interval machine: four cores, sixteen programs
//! dispatched in turn every millisecond, counters armed each time.
//! `cargo run --release -p solocore-sim --example fluid_speed [SECONDS]`

use solocore_dram::Spec;
use solocore_sim::fluid::{
    Demand, Fluid, FluidConfig, FluidError, FluidProgram, MemoryCurve, Phase,
};
use solocore_sim::hardware::{Hardware, Notice, ProgramId};
use std::time::Instant;

const GHZ: u64 = 3_300_000_000;
const MS: u64 = 1_000_000_000;
const CORES: usize = 4;
const TASKS: usize = 16;

/// Phases of differing weight; every fourth program depends on its share of the cache.
fn program(index: u64) -> FluidProgram {
    let phase = |n: u64| {
        let mut phase = Phase::new(
            600_000 + 40_000 * (index * 7 + n) % 500_000,
            GHZ,
            2000 + 3000 * (index + n) % 20_000,
            900 * n,
            6,
        );
        let full = phase.demands[0];
        if index.is_multiple_of(4) {
            phase.llc_accesses = 4 * full.dram_reads;
            let less = Demand {
                cache_lines: 16_384,
                llc_misses: full.llc_misses / 8,
                dram_reads: full.dram_reads / 8,
                ..full
            };
            phase.demands = vec![Demand { cache_lines: 1, ..full }, less];
        }
        phase
    };
    FluidProgram {
        name: format!("task{index}"),
        phases: (0..8).map(phase).collect(),
        private_lines: 4096,
        partition: 0,
    }
}

fn main() -> Result<(), FluidError> {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(300u64);
    let spec = Spec::find("ddr3-1333").map_err(|e| FluidError::Config(e.to_string()))?;
    let start = Instant::now();
    let curve = MemoryCurve::of(&spec, Some(4))?;
    println!("memory curve: {} ms", start.elapsed().as_millis());
    let config =
        FluidConfig { cores: CORES, partitions: vec![98_304], curve, refill_line_ps: 8_000 };
    let programs: Vec<FluidProgram> = (0..TASKS as u64).map(program).collect();
    let mut fluid = Fluid::new(&config, &programs, &[])?;
    let start = Instant::now();
    let mut overflows = 0u64;
    for ms in 0..seconds * 1000 {
        (0..CORES).for_each(|core| fluid.dispatch(core, None, 0));
        for core in 0..CORES {
            let task = core + CORES * (ms as usize % (TASKS / CORES));
            fluid.dispatch(core, Some(ProgramId(task as u32)), 2_000_000);
            fluid.arm(core, Some(20_000));
        }
        while let Some(notice) = fluid.advance((ms + 1) * MS) {
            if let Notice::Overflow { core } = notice {
                overflows += 1;
                fluid.dispatch(core, None, 0);
            }
        }
    }
    let uncore = fluid.uncore();
    println!("{seconds} s simulated in {:.2} s", start.elapsed().as_secs_f64());
    println!(
        "{overflows} overflows, {} reads, {} writes, mean read {} ps",
        uncore.reads,
        uncore.writes,
        uncore.read_occupancy_ps / uncore.reads.max(1)
    );
    Ok(())
}
