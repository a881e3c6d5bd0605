//! Tests of the model without QEMU: cores that make references by themselves, in windows like the
//! schedule's.

use crate::machine::{Access, Event, Geometry, Machine};
use crate::vcpu::by_code;
use solocore_cache::prefetch::PrefetcherKind;
use solocore_model::platform::CoreType;
use solocore_model::random::Random;
use solocore_model::{Cycles, Platform};
use std::path::Path;

/// A board of 1 GHz with the caches of a desktop.
pub fn platform() -> Platform {
    let mut p = Platform::find("xeon-w3530", Path::new(".")).unwrap();
    p.frequency.0 = 1_000_000_000;
    p
}

/// An instruction.
const CPI_PS: u64 = 1000;

/// A reference of a test's core.
#[derive(Clone, Copy)]
struct Step {
    line: u64,
    access: Access,
    /// Value that a load reads.
    value: u64,
    instructions: u64,
}

type Program = Box<dyn FnMut(u64) -> Step>;

struct ProgramCore {
    local: i64,
    done: u64,
    program: Program,
}

/// Cores on a machine.
struct Run {
    machine: Machine,
    cores: Vec<ProgramCore>,
    now: u64,
}

impl Run {
    fn new(p: &Platform, prefetcher: PrefetcherKind, programs: Vec<Program>) -> Self {
        let machine = Machine::new(p, programs.len(), 1, prefetcher, false).unwrap();
        let core = |program| ProgramCore { local: 0, done: 0, program };
        Self { machine, cores: programs.into_iter().map(core).collect(), now: 0 }
    }

    /// Runs a window, with the cores in this order.
    fn window(&mut self, quantum: u64, order: &[usize]) {
        let end = self.now + quantum;
        for &at in order {
            let core = &mut self.cores[at];
            while core.local < end.cast_signed() {
                let step = (core.program)(core.done);
                core.done += 1;
                core.local += (step.instructions * CPI_PS).cast_signed();
                let wait = self.machine.cores[at].front.total_wait();
                let computed = (core.local - wait).cast_unsigned();
                let address = step.line * 64;
                core.local +=
                    self.machine
                        .access(at, computed, step.line, address, step.access, || step.value);
            }
        }
        let changes = self.machine.replay(end - quantum / 2);
        for (core, change) in self.cores.iter_mut().zip(changes) {
            core.local += change;
        }
        self.now = end;
    }

    fn run(&mut self, quantum: u64, until: u64) {
        let order: Vec<usize> = (0..self.cores.len()).collect();
        while self.now < until {
            self.window(quantum, &order);
        }
    }
}

/// A chase over a cycle of lines; each load reads the next one's address.
fn chase(lines: Vec<u64>) -> Program {
    let count = lines.len() as u64;
    let at = move |n: u64| lines[usize::try_from(n % count).unwrap()];
    Box::new(move |n| Step {
        line: at(n),
        access: Access::Load,
        value: at(n + 1) * 64,
        instructions: 1,
    })
}

fn shuffled(first: u64, count: u64, stride: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut lines: Vec<u64> = (0..count).map(|i| first + i * stride).collect();
    for i in (1..lines.len()).rev() {
        lines.swap(i, usize::try_from(random.below(i as u64)).unwrap());
    }
    lines
}

/// Mean time of a step, after `warm` steps of warming up.
fn step_ps(p: &Platform, program: Program, warm: u64, steps: u64) -> f64 {
    let mut run = Run::new(p, PrefetcherKind::Off, vec![program]);
    while run.cores[0].done < warm {
        run.window(10_000_000, &[0]);
    }
    // The last corrections of the warming up come two windows later.
    (0..3).for_each(|_| run.window(10_000_000, &[0]));
    let (begin, done) = (run.cores[0].local, run.cores[0].done);
    while run.cores[0].done < done + steps {
        run.window(10_000_000, &[0]);
    }
    (run.cores[0].local - begin) as f64 / (run.cores[0].done - done) as f64
}

fn near(got: f64, want: f64, part: f64) {
    assert!((got - want).abs() <= want * part, "{got} is not {want}");
}

#[test]
fn a_chase_costs_the_latency_of_its_level() {
    let p = platform();
    near(step_ps(&p, chase(shuffled(0, 256, 1, 1)), 1000, 10_000), 1000.0, 0.002);
    // A second-level hit costs 6 cycles more, one of the shared cache 36.
    near(step_ps(&p, chase(shuffled(0, 2048, 1, 1)), 10_000, 20_000), 7000.0, 0.002);
    near(step_ps(&p, chase(shuffled(0, 16384, 1, 1)), 100_000, 100_000), 37_000.0, 0.002);
}

/// Every line in another row of the same bank: precharge, activate, read, one after the other; by
/// the clock of DDR3-1066.
#[test]
fn a_chase_of_row_conflicts_costs_what_the_commands_cost() {
    let p = platform();
    // 128 lines a row, 8 banks, 2 ranks.
    let lines: Vec<u64> = (0..1_000_000).map(|i| i * 128 * 16).collect();
    let got = step_ps(&p, chase(lines), 100, 20_000);
    // The request is seen a cycle after it arrives; tRP 7, tRCD 7, CL 7, burst 4, a cycle to
    // answer: 27 cycles of 1.875 ns, the arrival at an edge. The row cycle (27) is over by then.
    let clock = 1875.0;
    let sent = 1000.0 + 36_000.0 + p.dram.overhead.ps() as f64;
    let whole = (sent / clock).ceil() * clock + 27.0 * clock;
    // A refresh of the rank takes 139 cycles of 4160.
    near(got, whole * (1.0 + 139.0 / 4160.0), 0.005);
}

#[test]
fn independent_loads_overlap_up_to_the_registers() {
    let mut p = platform();
    let stream = || -> Program {
        Box::new(|n| Step {
            line: n * 33 % (1 << 24),
            access: Access::Load,
            value: 0,
            instructions: 4,
        })
    };
    let with = |p: &Platform| step_ps(p, stream(), 1000, 20_000);
    let ten = with(&p);
    p.pipeline.mshrs = 2;
    let two = with(&p);
    p.pipeline.window = Cycles(0);
    let none = with(&p);
    assert!(ten < two && two < none, "{ten} {two} {none}");
    near(none / two, 2.0, 0.15);
    // Four cycles of computation and the bus: 64 bytes take 7.5 ns.
    assert!(ten > 7500.0 && ten < none / 4.0, "{ten}");
}

#[test]
fn the_next_line_saves_a_walk_over_an_array_its_latency() {
    let mut p = platform();
    p.pipeline.window = Cycles(0);
    let walk = || -> Program {
        Box::new(|n| Step {
            line: n / 8 % (1 << 22),
            access: Access::Load,
            value: 0,
            instructions: 4,
        })
    };
    let time = |kind| {
        let mut run = Run::new(&p, kind, vec![walk()]);
        run.run(10_000_000, 2_000_000_000);
        (run.cores[0].local as f64 / run.cores[0].done as f64, run.machine.cores[0].counts)
    };
    let (off, counts) = time(PrefetcherKind::Off);
    let (next, with) = time(PrefetcherKind::NextLine);
    let (stride, _) = time(PrefetcherKind::Stride);
    assert_eq!(counts[Event::PrefetchFills as usize], 0);
    assert!(with[Event::PrefetchMisses as usize] > with[Event::LlcMisses as usize] / 2);
    assert!(next < 0.8 * off && stride < 0.8 * off, "{off} {next} {stride}");
}

#[test]
fn without_a_second_level_the_prefetched_line_lies_in_the_shared_cache() {
    let mut p = platform();
    p.l2 = None;
    p.pipeline.window = Cycles(0);
    let walk = || -> Program {
        Box::new(|n| Step {
            line: n / 8 % (1 << 22),
            access: Access::Load,
            value: 0,
            instructions: 4,
        })
    };
    let run = |kind| {
        let mut run = Run::new(&p, kind, vec![walk()]);
        run.run(10_000_000, 500_000_000);
        (run.cores[0].local as f64 / run.cores[0].done as f64, run.machine.cores[0].counts)
    };
    let ((off, _), (next, counts)) = (run(PrefetcherKind::Off), run(PrefetcherKind::NextLine));
    // The line after next is asked for when the next one misses the first level.
    let (fills, misses) =
        (counts[Event::PrefetchFills as usize], counts[Event::L1dMisses as usize]);
    assert!(fills > misses / 2, "{fills} {misses}");
    assert!(next < 0.8 * off, "{off} {next}");
}

/// The quantum decides the time of the replay, not its results.
#[test]
fn time_does_not_depend_on_the_quantum() {
    let p = platform();
    let time = |quantum| {
        let mut run = Run::new(&p, PrefetcherKind::Off, vec![chase(shuffled(0, 1 << 20, 1, 3))]);
        while run.cores[0].done < 100_000 {
            run.window(quantum, &[0]);
        }
        run.cores[0].local as f64 / run.cores[0].done as f64
    };
    let (two, ten, fifty) = (time(2_000_000), time(10_000_000), time(50_000_000));
    near(two, ten, 0.002);
    near(fifty, ten, 0.002);
}

fn four(p: &Platform, reversed: bool) -> Vec<u64> {
    let programs = (0..4).map(|i| chase(shuffled(i << 20, 1 << 20, 1, 7 + i))).collect();
    let mut run = Run::new(p, PrefetcherKind::Off, programs);
    let order: Vec<usize> = if reversed { (0..4).rev().collect() } else { (0..4).collect() };
    for _ in 0..1000 {
        run.window(10_000_000, &order);
    }
    run.cores.iter().map(|c| c.done).collect()
}

#[test]
fn the_order_in_a_window_favours_nobody() {
    let p = platform();
    let (forwards, backwards) = (four(&p, false), four(&p, true));
    let mean = forwards.iter().sum::<u64>() as f64 / 4.0;
    for (f, b) in forwards.iter().zip(&backwards) {
        near(*f as f64, mean, 0.02);
        near(*b as f64, *f as f64, 0.01);
    }
}

#[test]
fn a_chase_beside_streams_of_stores_is_slower() {
    let p = platform();
    let hog = |i: u64| -> Program {
        Box::new(move |n| Step {
            line: (i << 22) + n % (1 << 20),
            access: Access::Store,
            value: 0,
            instructions: 8,
        })
    };
    let alone = step_ps(&p, chase(shuffled(0, 1 << 20, 1, 3)), 0, 50_000);
    let programs = vec![chase(shuffled(0, 1 << 20, 1, 3)), hog(1), hog(2), hog(3)];
    let mut run = Run::new(&p, PrefetcherKind::Off, programs);
    run.run(10_000_000, 5_000_000_000);
    let beside = run.cores[0].local as f64 / run.cores[0].done as f64;
    assert!(beside > 1.8 * alone, "{alone} {beside}");
    // No core is further than a window and its longest wait from the others.
    for core in &run.cores {
        assert!(
            (core.local - run.now.cast_signed()).abs() < 20_000_000,
            "{} {}",
            core.local,
            run.now
        );
    }
}

#[test]
fn a_shared_cache_with_few_registers_makes_cores_wait() {
    let mut p = platform();
    let stream = |i: u64| -> Program {
        Box::new(move |n| Step {
            line: (i << 22) + n * 33 % (1 << 22),
            access: Access::Load,
            value: 0,
            instructions: 4,
        })
    };
    let done = |p: &Platform| {
        let mut run = Run::new(p, PrefetcherKind::Off, vec![stream(0), stream(1)]);
        run.run(10_000_000, 1_000_000_000);
        run.cores[0].done + run.cores[1].done
    };
    let many = done(&p);
    p.llc.mshrs = Some(2);
    let few = done(&p);
    assert!(few < many / 2, "{few} {many}");
}

/// A flushed line comes from DRAM again, and goes there first if it was written.
#[test]
fn flushed_lines_leave_all_caches() {
    let p = platform();
    let mut machine = Machine::new(&p, 2, 1, PrefetcherKind::Off, false).unwrap();
    let count = |m: &Machine, event: Event| m.cores[0].counts[event as usize];
    let touch = |m: &mut Machine, at: u64, access: Access| m.access(0, at, 7, 448, access, || 0);
    touch(&mut machine, 0, Access::Load);
    touch(&mut machine, 1_000, Access::Load);
    assert_eq!(count(&machine, Event::LlcMisses), 1);
    machine.flush(1, 1_000_000, 7);
    touch(&mut machine, 2_000_000, Access::Store);
    assert_eq!(count(&machine, Event::LlcMisses), 2, "another core's flush counts as well");
    assert_eq!(count(&machine, Event::LlcWritebacks), 0);
    // The store's line is under way: the flush waits for it.
    assert!(machine.flush(0, 2_001_000, 7) > 0);
    assert_eq!(machine.flush(0, 3_000_000, 7), 0);
    assert_eq!(count(&machine, Event::LlcWritebacks), 1, "once");
}

/// Breaks when a core has the caches, the registers or the clock of another one.
#[test]
fn each_core_has_the_numbers_of_its_type() {
    let mut p = platform();
    let fast = solocore_model::Frequency(2 * p.frequency.0);
    let mut big = CoreType::of_clock("big", vec![1], fast);
    big.l1d = Some(p.l1d.clone());
    if let Some(l1d) = &mut big.l1d {
        (l1d.size.0, l1d.ways) = (l1d.size.0 / u64::from(l1d.ways), 1);
    }
    big.pipeline = Some(p.pipeline);
    if let Some(pipeline) = &mut big.pipeline {
        pipeline.mshrs = 3;
    }
    p.core_types = vec![CoreType::of_clock("little", vec![0], p.frequency), big];
    let of = |core| Geometry::of(&p, Some(core));
    let (little, big) = (of(0), of(1));
    assert_eq!(little.l1d_sets(), big.l1d_sets());
    assert_eq!((little.shape.l2_ps, big.shape.mshrs), (2 * big.shape.l2_ps, 3));
    assert_eq!(little.shape.llc_ps, big.shape.llc_ps, "one latency for all");
    // Two lines of a set: the first is still there on a core of several ways only.
    let mut machine = Machine::new(&p, 2, 1, PrefetcherKind::Off, false).unwrap();
    let sets = little.l1d_sets();
    let misses = [0, 1].map(|cpu| {
        for line in [0, sets, 0] {
            machine.access(cpu, 0, line, line << 6, Access::Load, || 0);
        }
        machine.cores[cpu].counts[Event::L1dMisses as usize]
    });
    assert_eq!(misses, [2, 3]);
}

/// A core of more cycles never runs past the end of its quantum by more than the block that it is
/// in. Breaks when the time of the code is taken for that of the core.
#[test]
fn a_slow_core_ends_with_its_quantum() {
    let mut random = Random::new(9);
    for _ in 0..2000 {
        let (quickest, more) = (1 + random.below(900), random.below(900));
        let cpi = quickest + more;
        let left = random.below(10_000_000);
        let by_code = by_code(left, cpi, more);
        // Instructions until the code has added that time.
        let instructions = by_code.div_ceil(quickest);
        assert!(instructions * cpi < left + cpi, "{quickest} {more} {left}");
    }
}

/// A fence waits for accesses under way, in the estimate and in the replay: for loads always, for
/// stores on demand.
#[test]
fn fences_wait() {
    let mut p = platform();
    p.pipeline.window = Cycles(100_000);
    for (access, stores, waits) in
        [(Access::Load, false, true), (Access::Store, false, false), (Access::Store, true, true)]
    {
        let mut machine = Machine::new(&p, 1, 1, PrefetcherKind::Off, false).unwrap();
        assert_eq!(machine.access(0, 0, 7, 448, access, || 0), 0, "nothing waits for it yet");
        let waited = machine.fence(0, 1_000, stores);
        assert_eq!(waited > 40_000, waits, "{access:?} {stores}: {waited}");
        assert_eq!(machine.fence(0, 2_000, stores), 0, "only once");
        machine.replay(5_000_000);
        let change = machine.replay(10_000_000)[0];
        // Shared cache, overhead, a closed row (t_rcd, t_cl, t_burst) and two clocks of the
        // controller, less the time since; the way to the next edge is at most a clock more.
        let least = 36_000 + 6_458 + 2 * 13_125 + 7_500 + 2 * 1_875 - 1_000;
        let truth = if waits { least..least + 1_875 } else { 0..1 };
        assert!(truth.contains(&(waited + change)), "{access:?}: {waited} + {change}");
    }
}
