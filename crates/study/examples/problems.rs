//! Phase-3 problems of random systems with the answers of the exact search, as JSON lines, for the
//! MILP that checks them (`tests/study/test_milp.py`).
//!
//! `problems COUNT SEED`: each line has the curves of the cores by check and size, the savings by
//! locked buffers, level C's utilization and margin by size, the limits, and `least`: the least
//! utilization of level C, null if nothing is feasible. The last line has `nanoseconds`: the median
//! of a whole allocation (phases 1 to 3).

use solocore_planner::levels::optimiser::scheme::{Io, Ipc};
use solocore_planner::levels::optimiser::{Allocator, Objective, Scheme, TaskSystem};
use solocore_study::generator::generate;
use solocore_study::{Parameters, Scenario};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |a| a.parse::<u64>());
    let (count, seed) = (number(100)?, number(1)?);
    let p = Parameters::standard();
    let scheme = Scheme { ipc: Ipc::Optimized, io: Io::All };
    let (mut system, mut allocator, mut times) =
        (TaskSystem::default(), Allocator::new(p.machine()), Vec::new());
    for index in 0..count {
        let number = u16::try_from(index * 37 % 648)?;
        let scenario = Scenario::from_index(number).ok_or("a scenario")?;
        let milli = 1000 + 400 * u32::try_from(index % 8)?;
        generate(&mut system, &p, seed, scenario, milli, index);
        let begun = Instant::now();
        allocator.load(&system);
        let answer = allocator.allocate(&system, scheme, Objective::LeastLevelC);
        times.push(begun.elapsed().as_nanos());
        std::hint::black_box(answer);
        for problem in allocator.problems(&system, scheme) {
            println!("{}", serde_json::to_string(&problem)?);
        }
    }
    times.sort_unstable();
    println!(
        "{}",
        serde_json::json!({"nanoseconds": times.get(times.len() / 2), "ways": p.machine.ways})
    );
    Ok(())
}
