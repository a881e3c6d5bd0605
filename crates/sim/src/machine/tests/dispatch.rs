//! Dispatch, signals, notices.

use super::*;
use crate::hardware::{DeviceId, Transfer};
use crate::program::{Entry, Signal};

const P0: Option<ProgramId> = Some(ProgramId(0));
const P1: Option<ProgramId> = Some(ProgramId(1));

fn two(config: &MachineConfig, a: Vec<Op>, b: Vec<Op>) -> Machine {
    let programs: Programs = vec![
        (Box::new(Loop(a, 64)), space(0, 64, config)),
        (Box::new(Loop(b, 64)), space(64, 64, config)),
    ];
    machine(config, programs, vec![])
}

#[test]
fn interrupted_computation_keeps_its_remainder() {
    let c = config(1);
    let end = Op::signal(Signal::JobEnd);
    let mut m = two(&c, vec![Op::compute(3000), end], vec![Op::compute(1_000_000)]);
    m.dispatch(0, P0, 0);
    assert!(run(&mut m, 600_000).is_empty());
    m.dispatch(0, P1, 100_000);
    assert_eq!(m.running(0), P1);
    run(&mut m, 1_000_000);
    assert_eq!(m.program(ProgramId(0)).compute_cycles, 900);
    assert_eq!(
        (m.program(ProgramId(1)).compute_cycles, m.program(ProgramId(1)).busy_ps),
        (450, 300_000)
    );
    m.dispatch(0, P0, 50_000);
    let got = run(&mut m, 10_000_000);
    // 2100 cycles are 1400 ns.
    assert_eq!(
        got[0],
        (2_450_000, Notice::Signal { core: 0, program: ProgramId(0), signal: Signal::JobEnd })
    );
    assert_eq!((m.running(0), m.core(0).busy_ps), (None, 600_000 + 300_000 + 1_400_000));
    assert_eq!(m.core(0).compute_cycles, 3000 + 450);
}

#[test]
fn a_waiting_core_is_interrupted_when_its_data_are_there() {
    let c = config(2);
    let load = vec![Op::access(OpKind::LoadWait, 0, 0), Op::compute(100_000)];
    let mut m = two(&c, load.clone(), vec![Op::compute(1_000_000)]);
    m.dispatch(0, P0, 0);
    run(&mut m, 10_000);
    m.dispatch(0, P1, 0);
    // The program is still on core 0, so core 1 has to wait for it.
    m.dispatch(1, P0, 0);
    run(&mut m, 1_000_000);
    let mut alone = two(&c, load, vec![Op::compute(1_000_000)]);
    alone.dispatch(0, P0, 0);
    run(&mut alone, 1_000_000);
    let wait = 1_000_000 - alone.program(ProgramId(0)).compute_cycles * 2000 / 3;
    let began = 1_000_000 - m.program(ProgramId(1)).busy_ps;
    assert!(began.abs_diff(wait) < 1000, "{began} {wait}");
    assert_eq!(m.program(ProgramId(0)).busy_ps, 1_000_000);
    assert_eq!(m.program(ProgramId(0)).accesses, 1);
    assert!(m.core(1).compute_cycles > 0 && m.core(1).accesses == 0);
}

#[test]
fn the_counter_fires_at_its_transaction() {
    let c = config(1);
    let reads: Vec<Op> = (0..60_000).map(|i| Op::access(OpKind::Load, i % 7, i)).collect();
    let mut m = single(&c, reads);
    let mut seen = 0;
    for n in [1, 2, 1000, 3, 50] {
        m.arm(0, Some(n));
        assert_eq!(m.advance(u64::MAX / 2), Some(Notice::Overflow { core: 0 }));
        seen += n;
        assert_eq!(m.core(0).transactions(), seen);
    }
    m.arm(0, Some(0));
    let now = m.now_ps();
    assert_eq!((m.advance(now), m.now_ps()), (Some(Notice::Overflow { core: 0 }), now));
    m.arm(0, Some(3));
    m.arm(0, None);
    assert!(run(&mut m, now + 1_000_000_000).is_empty());
}

/// With write-backs a use of the shared cache can make several accesses at one time.
#[test]
fn write_backs_count_as_transactions() {
    let c = config(1);
    let stores: Vec<Op> = (0..60_000).map(|i| Op::access(OpKind::Store, 2, i)).collect();
    let mut m = single(&c, stores);
    run(&mut m, 3_000_000_000);
    for n in [1, 10, 101] {
        let before = m.core(0).transactions();
        m.arm(0, Some(n));
        assert_eq!(m.advance(u64::MAX / 2), Some(Notice::Overflow { core: 0 }));
        assert!((n..n + 4).contains(&(m.core(0).transactions() - before)));
    }
    let got = m.core(0);
    assert!(got.dram_writes > 30_000 && got.dram_writes <= got.dram_reads, "{got:?}");
}

#[test]
fn a_throttled_core_stops_at_its_notice() {
    let c = config(1);
    let mut m = single(&c, (0..60_000).map(|i| Op::access(OpKind::Load, 1, i)).collect());
    m.arm(0, Some(100));
    m.advance(u64::MAX / 2);
    m.dispatch(0, None, 0);
    let at = m.now_ps();
    run(&mut m, at + 1_000_000);
    assert!(m.core(0).transactions() <= 101 && m.running(0).is_none());
    m.dispatch(0, P0, 0);
    run(&mut m, at + 2_000_000);
    assert!(m.core(0).transactions() > 102);
}

#[test]
fn abandoned_jobs_are_passed_over() {
    struct Jobs(u32);
    impl Program for Jobs {
        fn refill(&mut self, out: &mut Vec<Op>) {
            out.extend([Op::compute(1000), Op::signal(Signal::Mark(self.0))]);
            out.extend([Op::compute(1000), Op::signal(Signal::JobEnd)]);
            self.0 += 1;
        }
        fn pages(&self) -> u32 {
            1
        }
        fn abandon_job(&mut self) {
            panic!("the buffer holds the whole job");
        }
    }
    let c = config(1);
    let mut m = machine(&c, vec![(Box::new(Jobs(0)), space(0, 1, &c))], vec![]);
    m.dispatch(0, P0, 0);
    run(&mut m, 100_000);
    m.dispatch(0, None, 0);
    m.abandon_job(ProgramId(0));
    m.dispatch(0, P0, 0);
    let got = run(&mut m, 10_000_000);
    assert_eq!(
        got[0].1,
        Notice::Signal { core: 0, program: ProgramId(0), signal: Signal::Mark(1) }
    );
}

#[test]
fn orders_end_with_a_notice() {
    let c = config(1);
    let dma = DmaSpec {
        name: "disk".to_owned(),
        frames: vec![500, 501],
        block_lines: 8,
        wait_ps: 1_000_000,
        outstanding: 2,
        autonomous: None,
    };
    let mut m = machine(&c, vec![], vec![dma]);
    m.transfer(DeviceId(0), Transfer { offset_lines: 100, lines: 80, into_memory: false });
    let got = run(&mut m, 100_000_000);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].1, Notice::Transferred { device: DeviceId(0) });
    // Nine waits, ten blocks of four times two lines.
    assert!((9_000_000..11_500_000).contains(&got[0].0), "{got:?}");
    assert_eq!((m.uncore().reads, m.uncore().device, m.uncore().writes), (80, 80, 0));
    m.transfer(DeviceId(0), Transfer { offset_lines: 0, lines: 0, into_memory: true });
    assert_eq!(run(&mut m, 200_000_000).len(), 1);
}

/// Computes; coming back costs it some waiting reads, straight at the shared cache.
struct Returns(u64);

impl Program for Returns {
    fn refill(&mut self, out: &mut Vec<Op>) {
        out.push(Op::compute(10));
    }

    fn entry(&self) -> Entry {
        Entry::Shared
    }

    fn resumed(&mut self, out: &mut Vec<Op>) {
        out.extend((0..self.0).map(|i| Op::access(OpKind::LoadWait, 0, 64 * i)));
    }

    fn pages(&self) -> u32 {
        64
    }

    fn abandon_job(&mut self) {}
}

/// Two programs take turns. The time that a program had the core without computing is the cost of
/// coming back, also when it is interrupted during it.
#[test]
fn what_coming_back_costs_is_told_apart() {
    let config = config(1);
    let programs = (0..2u64).map(|i| -> (Box<dyn Program>, Space) {
        (Box::new(Returns(9 * i)), space(64 * i, 64, &config))
    });
    let mut m = machine(&config, programs.collect(), vec![]);
    let mut until = 0;
    for (turn, time) in [1_000_000, 1_000_000, 1_000_000, 200_000, 500_000, 3_000_000, 700_000]
        .into_iter()
        .enumerate()
    {
        m.dispatch(0, Some(ProgramId(u32::try_from(turn % 2).unwrap())), 0);
        until += time;
        run(&mut m, until);
    }
    drain(&mut m);
    // It waits for the read of the other program that is under way at the interrupt, and for no
    // other.
    assert!(
        (1..100_000).contains(&m.recovered_ps(ProgramId(0))),
        "{}",
        m.recovered_ps(ProgramId(0))
    );
    let back = m.program(ProgramId(1));
    let computed_ps = back.compute_cycles * 1_000_000_000 / 1_500_000;
    let recovered = m.recovered_ps(ProgramId(1));
    assert!(back.dram_reads >= 9 && recovered > 9 * 40_000, "{recovered} {back:?}");
    // A few cycles a turn are lost to rounding.
    assert!(
        recovered.abs_diff(back.busy_ps - computed_ps) < 10_000,
        "{recovered} {computed_ps} {back:?}"
    );
}
