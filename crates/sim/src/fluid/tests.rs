//! Properties that hold for any mixture of programs: counts are phases executed, overflows are
//! exact, rates stay below the peak, no program gains from company, and time can be cut anywhere.

use super::counters::minus;
use super::*;
use crate::hardware::{Transfer, Uncore};
use crate::program::Signal;
use proptest::prelude::*;

const GHZ: u64 = 1_000_000_000;
const MS: u64 = 1_000_000_000;

fn config(cores: usize) -> FluidConfig {
    let curve = Arc::new(MemoryCurve::uniform(50_000, 6_500));
    FluidConfig { cores, partitions: vec![98_304], curve, refill_line_ps: 10_000 }
}

fn program(name: &str, phases: Vec<Phase>) -> FluidProgram {
    FluidProgram { name: name.to_owned(), phases, ..FluidProgram::default() }
}

/// Computes, then streams, then ends its job.
fn job() -> FluidProgram {
    program(
        "job",
        vec![
            Phase::new(1_000_000, GHZ, 1000, 100, 1),
            Phase::new(200_000, GHZ, 50_000, 25_000, 10).with_locality(1000),
            Phase::new(123_457, GHZ, 7, 3, 1).ending(Signal::JobEnd),
        ],
    )
}

fn stream() -> FluidProgram {
    program("stream", vec![Phase::new(100_000, GHZ, 100_000, 0, 10).with_locality(1000)])
}

fn chase() -> FluidProgram {
    program("chase", vec![Phase::new(10_000, GHZ, 10_000, 0, 1)])
}

/// Random accesses to 16384 lines: misses fall as it holds more lines.
fn walk() -> FluidProgram {
    let demand = |lines: u64, misses: u64| Demand {
        cache_lines: lines,
        llc_misses: misses,
        dram_reads: misses,
        dram_writes: misses / 2,
        least_ps: 200_000_000,
        serial_ps: 100_000_000,
        concurrency_milli: 2000,
        ..Demand::default()
    };
    let phase = Phase {
        compute_cycles: 100_000,
        accesses: 20_000,
        llc_accesses: 16_384,
        demands: vec![demand(1, 16_384), demand(8192, 8192), demand(16_384, 0)],
        end: None,
    };
    FluidProgram { private_lines: 4096, ..program("walk", vec![phase]) }
}

fn all() -> Vec<FluidProgram> {
    vec![job(), stream(), chase(), walk()]
}

#[test]
fn counts_are_phases_executed() {
    let mut fluid = Fluid::new(&config(2), &[job(), stream()], &[]).unwrap();
    fluid.dispatch(1, Some(ProgramId(1)), 0);
    for jobs in 1..=20 {
        fluid.dispatch(0, Some(ProgramId(0)), 1000);
        let notice = fluid.advance(u64::MAX);
        assert_eq!(
            notice,
            Some(Notice::Signal { core: 0, program: ProgramId(0), signal: Signal::JobEnd })
        );
        assert_eq!(fluid.running(0), None);
        let c = fluid.program(ProgramId(0));
        assert_eq!(c.compute_cycles, jobs * 1_323_457);
        assert_eq!(
            (c.accesses, c.llc_misses, c.transactions()),
            (jobs * 51_007, jobs * 51_007, jobs * 76_110)
        );
        assert!(c.dram_reads.abs_diff(jobs * 51_007) <= jobs);
        assert_eq!(c, fluid.core(0));
        let (other, uncore) = (fluid.core(1), fluid.uncore());
        assert_eq!(
            (uncore.reads, uncore.writes),
            (c.dram_reads + other.dram_reads, c.dram_writes + other.dram_writes)
        );
        assert_eq!(c.busy_ps + jobs * 1000, fluid.now_ps());
    }
}

#[test]
fn alone_a_program_takes_what_its_numbers_say() {
    // 10 us, and 10,000 reads of 57 ns.
    let mut alone = chase();
    alone.phases[0].demands[0].latency_ps = Some(57_000);
    alone.phases[0].end = Some(Signal::JobEnd);
    let mut fluid = Fluid::new(&config(1), &[alone], &[]).unwrap();
    for n in 1..100 {
        fluid.dispatch(0, Some(ProgramId(0)), 0);
        assert!(fluid.advance(u64::MAX).is_some());
        let expected = n * (10_000_000 + 10_000 * 57_000);
        assert!(fluid.now_ps().abs_diff(expected) <= 3 * n, "{} {expected}", fluid.now_ps());
    }
    let uncore = fluid.uncore();
    assert!((uncore.read_occupancy_ps / uncore.reads).abs_diff(57_000) <= 1);
}

#[test]
fn overheads_add_up() {
    let mut fluid = Fluid::new(&config(1), &[job(), chase()], &[]).unwrap();
    fluid.dispatch(0, Some(ProgramId(0)), 5000);
    assert_eq!(fluid.advance(2000), None);
    // Of the first overhead 3000 ps are left.
    fluid.dispatch(0, Some(ProgramId(1)), 4000);
    assert_eq!(fluid.advance(9000), None);
    assert_eq!(fluid.program(ProgramId(1)).busy_ps, 0);
    assert_eq!(fluid.advance(10_000), None);
    assert_eq!(
        (fluid.program(ProgramId(0)).busy_ps, fluid.program(ProgramId(1)).busy_ps),
        (0, 1000)
    );
    // Without an overhead of its own, a dispatch waits for the rest of the earlier one.
    fluid.dispatch(0, Some(ProgramId(1)), 6000);
    fluid.dispatch(0, Some(ProgramId(0)), 0);
    assert_eq!(fluid.advance(17_000), None);
    assert_eq!(fluid.program(ProgramId(0)).busy_ps, 1000);
}

#[test]
fn overflows_come_at_the_very_count() {
    let mut fluid = Fluid::new(&config(4), &all(), &[]).unwrap();
    (0..4).for_each(|i| fluid.dispatch(i, Some(ProgramId(i as u32)), 0));
    let mut armed = [0u64; 4];
    let mut n = 1;
    let mut seen = 0;
    for (core, target) in armed.iter_mut().enumerate() {
        fluid.arm(core, Some(n));
        *target = n;
        n += 1;
    }
    while let Some(notice) = fluid.advance(40 * MS) {
        match notice {
            Notice::Overflow { core } => {
                seen += 1;
                assert_eq!(fluid.core(core).transactions(), armed[core], "core {core}");
                n = n * 7 % 1999 + 1;
                armed[core] += n;
                fluid.arm(core, Some(n));
            }
            Notice::Signal { core, program, .. } => fluid.dispatch(core, Some(program), 0),
            Notice::Transferred { .. } => unreachable!(),
        }
    }
    assert!(seen > 1000, "{seen}");
    fluid.arm(1, Some(0));
    let now = fluid.now_ps();
    assert_eq!(
        (fluid.advance(u64::MAX), fluid.now_ps()),
        (Some(Notice::Overflow { core: 1 }), now)
    );
}

#[test]
fn rates_stay_below_the_peak_and_company_never_helps() {
    let mut before = u64::MAX;
    for cores in 1..=8 {
        let programs = vec![stream(); 8];
        let mut fluid = Fluid::new(&config(8), &programs, &[]).unwrap();
        (0..cores).for_each(|i| fluid.dispatch(i, Some(ProgramId(i as u32)), 0));
        assert_eq!(fluid.advance(10 * MS), None);
        let each = fluid.core(0).dram_reads;
        assert!(each <= before, "{cores}: {each} after {before}");
        before = each;
        assert!(fluid.uncore().reads <= 10 * MS / 6_500);
        assert!(
            cores < 4 || fluid.uncore().reads > 10 * MS / 6_500 * 9 / 10,
            "{}",
            fluid.uncore().reads
        );
    }
}

#[test]
fn a_cache_fills_and_is_lost_again() {
    let config = FluidConfig { partitions: vec![98_304], ..config(2) };
    let mut fluid = Fluid::new(&config, &[walk(), stream()], &[]).unwrap();
    let run = |fluid: &mut Fluid, p: u32, ms: u64| {
        let before = fluid.program(ProgramId(p));
        fluid.dispatch(0, Some(ProgramId(p)), 0);
        let until = fluid.now_ps() + ms * MS;
        assert_eq!(fluid.advance(until), None);
        minus(fluid.program(ProgramId(p)), before)
    };
    run(&mut fluid, 0, 20);
    assert!(fluid.cache_lines(ProgramId(0)) >= 16_000);
    let warm = run(&mut fluid, 0, 5);
    assert!(warm.llc_misses * 50 < warm.llc_accesses, "{warm:?}");
    // 98,304 lines are free or its own; the stream takes 100,000 in about 0.7 ms.
    run(&mut fluid, 1, 5);
    assert!(fluid.cache_lines(ProgramId(0)) < 1000, "{}", fluid.cache_lines(ProgramId(0)));
    let cold = run(&mut fluid, 0, 5);
    // The lines that it lost are read again, and not many more.
    assert!((14_000..80_000).contains(&cold.llc_misses), "{cold:?}");
    // In another part of the cache the stream does no harm.
    let config = FluidConfig { partitions: vec![49_152, 49_152], ..config };
    let mut fluid =
        Fluid::new(&config, &[walk(), FluidProgram { partition: 1, ..stream() }], &[]).unwrap();
    run(&mut fluid, 0, 20);
    run(&mut fluid, 1, 20);
    let warm = run(&mut fluid, 0, 5);
    assert!(warm.llc_misses * 50 < warm.llc_accesses, "{warm:?}");
    fluid.relocate(ProgramId(0), 1).unwrap();
    assert_eq!(fluid.cache_lines(ProgramId(0)), 0);
    assert!(fluid.relocate(ProgramId(2), 1).is_err() && fluid.relocate(ProgramId(0), 2).is_err());
}

#[test]
fn devices_move_their_lines_at_their_pace() {
    let device =
        |stream| FluidDevice { name: "dma".to_owned(), line_ps: 100_000, outstanding: 4, stream };
    let stream = FluidStream { into_memory: true, start_ps: MS, stop_ps: 2 * MS };
    let devices = [device(None), device(Some(stream))];
    let mut fluid = Fluid::new(&config(1), &[chase()], &devices).unwrap();
    fluid.transfer(DeviceId(0), Transfer { offset_lines: 0, lines: 1000, into_memory: false });
    assert_eq!(fluid.advance(u64::MAX), Some(Notice::Transferred { device: DeviceId(0) }));
    assert!(fluid.now_ps().abs_diff(100_000_000) < 100, "{}", fluid.now_ps());
    assert_eq!(fluid.uncore().device, 1000);
    assert_eq!(fluid.advance(3 * MS), None);
    let uncore = fluid.uncore();
    assert_eq!((uncore.reads, uncore.writes.abs_diff(10_000) <= 1), (1000, true), "{uncore:?}");
}

#[test]
fn jobs_are_abandoned_and_bad_parts_refused() {
    let mut fluid = Fluid::new(&config(1), &[job()], &[]).unwrap();
    fluid.dispatch(0, Some(ProgramId(0)), 0);
    assert_eq!(fluid.advance(MS / 2), None);
    fluid.dispatch(0, None, 0);
    fluid.abandon_job(ProgramId(0));
    let before = fluid.program(ProgramId(0));
    fluid.dispatch(0, Some(ProgramId(0)), 0);
    assert!(fluid.advance(u64::MAX).is_some());
    assert_eq!(minus(fluid.program(ProgramId(0)), before).compute_cycles, 1_323_457);

    let refused = |programs: &[FluidProgram], config: &FluidConfig| {
        Fluid::new(config, programs, &[]).unwrap_err().to_string()
    };
    assert!(refused(&[program("none", vec![])], &config(1)).contains("no phase"));
    assert!(
        refused(&[program("empty", vec![Phase::new(0, GHZ, 0, 0, 1)])], &config(1))
            .contains("work")
    );
    assert!(
        refused(&[FluidProgram { partition: 3, ..job() }], &config(1)).contains("partition = 3")
    );
    assert!(refused(&[job()], &FluidConfig { cores: 0, ..config(1) }).contains("cores = 0"));
}

/// Dispatches round robin each millisecond, arms the counter each time, and notes everything it is
/// told.
fn mock(step_ps: u64, shift: usize) -> (Vec<(u64, Notice)>, Vec<Counters>, Uncore) {
    let mut fluid = Fluid::new(&config(3), &all(), &[]).unwrap();
    let mut notices = Vec::new();
    for ms in 0..30 {
        for core in 0..3 {
            fluid.dispatch(core, None, 0);
        }
        for core in 0..3 {
            fluid.dispatch(core, Some(ProgramId(((ms * shift + core) % 4) as u32)), 2000);
            fluid.arm(core, Some(5000));
        }
        let end = (ms as u64 + 1) * MS;
        let mut until = fluid.now_ps();
        while fluid.now_ps() < end {
            until = (until + step_ps).min(end);
            while let Some(notice) = fluid.advance(until) {
                notices.push((fluid.now_ps(), notice));
            }
        }
    }
    let counters =
        (0..4).map(|p| fluid.program(ProgramId(p))).chain((0..3).map(|c| fluid.core(c))).collect();
    (notices, counters, fluid.uncore())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn time_can_be_cut_anywhere(step in 10_000u64..400_000_000, shift in 1usize..4) {
        let whole = mock(MS, shift);
        prop_assert!(whole.0.len() > 30 && whole.0.is_sorted_by_key(|n| n.0));
        prop_assert_eq!(whole, mock(step.max(1_000_000), shift));
    }

    #[test]
    fn nobody_gains_from_company(reads in 0u64..200_000, writes in 0u64..200_000, k in 1u32..20, locality in 0u32..1000) {
        let other = program("other", vec![Phase::new(1000, GHZ, reads, writes, k).with_locality(locality)]);
        let programs = [job(), stream(), chase(), other];
        let run = |company: bool| {
            let mut fluid = Fluid::new(&config(4), &programs, &[]).unwrap();
            (0..3 + usize::from(company)).for_each(|i| fluid.dispatch(i, Some(ProgramId(i as u32)), 0));
            fluid.advance(MS / 4);
            [0, 1, 2].map(|i| fluid.core(i).compute_cycles)
        };
        for (with, without) in run(true).into_iter().zip(run(false)) {
            prop_assert!(with <= without + 2 + without / 1_000_000, "{} {}", with, without);
        }
    }
}

/// A program measured on the interval machine itself gives the same phases.
#[test]
fn calibration_finds_the_phases_again() {
    use super::calibrate::{Calibration, calibrate};
    let curve = MemoryCurve::uniform(50_000, 6_500);
    for (original, jobs) in [(job(), true), (stream(), false), (chase(), false)] {
        // An added latency is seen by the program and not by the controller.
        let make = |s: calibrate::Setting| {
            let mut p = original.clone();
            for d in p.phases.iter_mut().flat_map(|p| &mut p.demands) {
                d.serial_ps += (d.dram_reads * s.extra_ps * 1000 / u64::from(d.concurrency_milli))
                    .cast_signed();
            }
            Fluid::new(&config(1), &[p], &[])
        };
        let options = Calibration {
            warm_ps: 3 * MS,
            horizon_ps: 9 * MS,
            ..Calibration::new(vec![8192, 98_304])
        };
        let found = calibrate("found", &curve, &options, &|| true, make).unwrap();
        assert_eq!(found.check(), Ok(()));
        assert!(found.phases.len() <= 70, "{}", found.phases.len());
        assert_eq!(found.phases.iter().any(|p| p.end == Some(Signal::JobEnd)), jobs);
        let mut fluid = Fluid::new(&config(1), &[found], &[]).unwrap();
        let mut exact = Fluid::new(&config(1), &[original], &[]).unwrap();
        let report = error::compare(&mut exact, &mut fluid, 1, MS, 50 * MS);
        assert!(report.worst_permille() <= 10, "{report:?}");
        assert!(
            error::permille(report.exact_latency_ps, report.fluid_latency_ps).abs() <= 10,
            "{report:?}"
        );
    }
}
